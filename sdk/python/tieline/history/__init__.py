"""Reads the history of a node into pandas, polars or pyarrow, and edits it: docs/history.md. Reading needs the package pyarrow.

volts = History("http://127.0.0.1:8080").pandas("site/+/volts", start="7d", every="1h", agg="mean")
"""

import base64
import json
import urllib.error
import urllib.parse
import urllib.request

__all__ = ["ROWS_MAX", "History", "HistoryError"]

ROWS_MAX = 10_000_000
"""The most rows of one answer."""


class HistoryError(Exception):
    """The node gave no rows: `status` is of HTTP, 0 where it did not answer."""

    def __init__(self, status, detail):
        super().__init__(f"{status}: {detail}" if status else detail)
        self.status, self.detail = status, detail


class History:
    """The history of one node, over HTTP. For users, `user` and `password`, or `token`; `tls` is an ssl.SSLContext."""

    def __init__(self, url, *, user=None, password=None, token=None, tls=None, timeout=60.0):
        if (user is None) != (password is None):
            raise ValueError("user and password go together")
        self._url, self._tls, self._timeout = (url if "://" in url else f"http://{url}").rstrip("/"), tls, timeout
        self._headers = {"Accept": "application/vnd.apache.arrow.stream"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        elif user is not None:
            login = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"

    def batches(self, topics, *, start="24h", end=None, every=None, agg=None, tz=None, fill=None, order=None, raw=False, edited=False, limit=ROWS_MAX):
        """Yields the rows as pyarrow.RecordBatch, as they come: an answer larger than memory.

        `topics` is a topic, a topic filter, or a list of them. `start` and `end` are a datetime with a time zone, RFC 3339, or a
        duration before `end` or the present, as in 24h. `every` is the width of buckets, as in 1m or 1mo, and `agg` what a bucket
        shows, as in mean; `tz` is the time zone of days and longer buckets, `fill` what stands for an empty one. With `raw`, what was
        recorded, without edits; with `edited`, a column with the number of the edit that changed a row last.
        """
        import pyarrow

        try:
            more = {name: "true" for name, is_asked in (("raw", raw), ("edited", edited)) if is_asked}
            with self._open(topics, start, end, limit, every=every, agg=agg, tz=tz, fill=fill, order=order, **more) as answer:
                with pyarrow.ipc.open_stream(_Whole(answer)) as stream:
                    yield from stream
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise HistoryError(0, f"the answer of {self._url} broke off: {error}") from error

    def arrow(self, topics, **question):
        """The rows as a pyarrow.Table: see `batches`. Topics and qualities are dictionaries."""
        import pyarrow

        batches = list(self.batches(topics, **question))
        schema = None if batches else _schema(pyarrow, question.get("edited", False))
        return pyarrow.Table.from_batches(batches, schema=schema)

    def pandas(self, topics, **question):
        """The rows as a pandas.DataFrame: see `batches`. Topics and qualities are categories, times have the zone UTC."""
        return self.arrow(topics, **question).to_pandas()

    def polars(self, topics, **question):
        """The rows as a polars.DataFrame: see `batches`. Topics and qualities are categories."""
        import polars

        return polars.from_arrow(self.arrow(topics, **question))

    def edit(self, topic, kind, *, why, at=None, start=None, end=None, **given):
        """Edits what answers show of a topic, at the instant `at`, or from `start` on and before `end`; a dict with the edit and its `id`.

        `kind` is `value` (with `value`, and maybe `quality`), `quality` (with `quality`: good, uncertain or bad), `exclude`, or `insert` (at
        an instant, with `value`). What was recorded stays as it is. `why` is the reason. Needs the right `admin` on `$history/edits`.
        """
        names = {"value": "v", "quality": "q"}
        unknown = sorted(given.keys() - names.keys())
        if unknown:
            raise TypeError(f"{', '.join(unknown)}: expected value, quality")
        return self._make(topic, kind, why, at, start, end, {names[name]: what for name, what in given.items()})

    def annotate(self, topic, text, *, why, at=None, start=None, end=None):
        """Says something of a topic at an instant, or over a time; no value changes. A dict with the annotation and its `id`."""
        return self._make(topic, "annotation", why, at, start, end, {"text": text})

    def undo(self, number, *, why):
        """Ends an edit or an annotation, which stays in the list of edits; a dict with it."""
        return self._json(f"/v1/history/edits/{int(number)}/undo", {"why": why})

    def edits(self, topic="#", *, start=None, end=None, who=None, kind=None, active=None):
        """Yields edits and annotations as dicts, the newest first: those of topics, of a time, of an author, of a kind, active or not."""
        asked = {"topic": topic, "who": who, "kind": kind, "limit": "1000"}
        asked |= {"from": start and _moment(start), "to": end and _moment(end)}
        asked["active"] = None if active is None else str(bool(active)).lower()
        while True:
            pairs = {name: text for name, text in asked.items() if text is not None}
            page = self._json(f"/v1/history/edits?{urllib.parse.urlencode(pairs)}")
            yield from page["edits"]
            if page["next"] is None:
                return
            asked["before"] = page["next"]

    def _make(self, topic, kind, why, at, start, end, given):
        body = {"topic": topic, "kind": kind, "why": why} | given
        body |= {name: _moment(time) for name, time in (("at", at), ("from", start), ("to", end)) if time is not None}
        return self._json("/v1/history/edits", body)

    def _json(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers | {"Accept": "application/json"} | ({"Content-Type": "application/json"} if data else {})
        with self._send(urllib.request.Request(f"{self._url}{path}", data, headers)) as answer:
            return json.load(answer)

    def _open(self, topics, start, end, limit, **more):
        pairs = [("topic", topic) for topic in ([topics] if isinstance(topics, str) else topics)]
        pairs += [("from", _moment(start)), ("limit", str(limit)), ("format", "arrow")]
        pairs += [("to", _moment(end))] if end is not None else []
        pairs += [(name, value) for name, value in more.items() if value is not None]
        return self._send(urllib.request.Request(f"{self._url}/v1/history?{urllib.parse.urlencode(pairs)}", headers=self._headers))

    def _send(self, request):
        try:
            return urllib.request.urlopen(request, timeout=self._timeout, context=self._tls)
        except urllib.error.HTTPError as error:
            with error:
                raise HistoryError(error.code, _detail(error.read())) from None
        except OSError as error:
            raise HistoryError(0, f"{self._url} cannot be reached: {error}") from error


class _Whole:
    """An answer that has ended only where HTTP says so: one that breaks off is an error, and no shorter answer."""

    def __init__(self, answer):
        self._answer = answer
        self.closed = False

    def read(self, size=-1):
        import http.client

        try:
            return self._answer.read(None if size is None or size < 0 else size)
        except http.client.HTTPException as error:
            raise OSError(f"{error!r}") from error

    def readable(self):
        return True

    def writable(self):
        return False

    def seekable(self):
        return False

    def close(self):
        self.closed = True


def _schema(pyarrow, edited):
    words = {"topic": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), "quality": pyarrow.dictionary(pyarrow.int8(), pyarrow.string())}
    columns = [
        ("topic", words["topic"], False),
        ("time", pyarrow.timestamp("us", "UTC"), False),
        ("value", pyarrow.float64(), True),
        ("text", pyarrow.string(), True),
        ("quality", words["quality"], False),
        ("why", pyarrow.uint16(), False),
        ("count", pyarrow.int64(), False),
    ] + ([("edited", pyarrow.int64(), True)] if edited else [])
    return pyarrow.schema([pyarrow.field(name, kind, nullable) for name, kind, nullable in columns])


def _moment(moment):
    if isinstance(moment, str):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone, expected a datetime with one, or text")
    return moment.isoformat()


def _detail(body):
    try:
        return json.loads(body)["detail"]
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace")
