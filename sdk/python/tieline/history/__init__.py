"""Reads the history of a node into pandas, polars or pyarrow: docs/history.md. Needs the package pyarrow.

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

    def batches(self, topics, *, start="24h", end=None, every=None, agg=None, tz=None, fill=None, order=None, limit=ROWS_MAX):
        """Yields the rows as pyarrow.RecordBatch, as they come: an answer larger than memory.

        `topics` is a topic, a topic filter, or a list of them. `start` and `end` are a datetime with a time zone, RFC 3339, or a
        duration before `end` or the present, as in 24h. `every` is the width of buckets, as in 1m or 1mo, and `agg` what a bucket
        shows, as in mean; `tz` is the time zone of days and longer buckets, `fill` what stands for an empty one.
        """
        import pyarrow

        try:
            with self._open(topics, start, end, limit, every=every, agg=agg, tz=tz, fill=fill, order=order) as answer:
                with pyarrow.ipc.open_stream(_Whole(answer)) as stream:
                    yield from stream
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise HistoryError(0, f"the answer of {self._url} broke off: {error}") from error

    def arrow(self, topics, **question):
        """The rows as a pyarrow.Table: see `batches`. Topics and qualities are dictionaries."""
        import pyarrow

        batches = list(self.batches(topics, **question))
        return pyarrow.Table.from_batches(batches, schema=None if batches else _schema(pyarrow))

    def pandas(self, topics, **question):
        """The rows as a pandas.DataFrame: see `batches`. Topics and qualities are categories, times have the zone UTC."""
        return self.arrow(topics, **question).to_pandas()

    def polars(self, topics, **question):
        """The rows as a polars.DataFrame: see `batches`. Topics and qualities are categories."""
        import polars

        return polars.from_arrow(self.arrow(topics, **question))

    def _open(self, topics, start, end, limit, **more):
        pairs = [("topic", topic) for topic in ([topics] if isinstance(topics, str) else topics)]
        pairs += [("from", _moment(start)), ("limit", str(limit)), ("format", "arrow")]
        pairs += [("to", _moment(end))] if end is not None else []
        pairs += [(name, value) for name, value in more.items() if value is not None]
        request = urllib.request.Request(f"{self._url}/v1/history?{urllib.parse.urlencode(pairs)}", headers=self._headers)
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


def _schema(pyarrow):
    words = {"topic": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), "quality": pyarrow.dictionary(pyarrow.int8(), pyarrow.string())}
    columns = [
        ("topic", words["topic"], False),
        ("time", pyarrow.timestamp("us", "UTC"), False),
        ("value", pyarrow.float64(), True),
        ("text", pyarrow.string(), True),
        ("quality", words["quality"], False),
        ("why", pyarrow.uint16(), False),
        ("count", pyarrow.int64(), False),
    ]
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
