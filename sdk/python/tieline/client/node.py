"""A node, for programs with asyncio."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable, Generator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .connection import Connection
from .errors import Refused, Unknown
from .live import Subscription, events, quoted
from .values import Done, Sample, Value, moment

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

PAGE = 1000
TAIL_SILENCE_S = 30.0


def connect(
    url: str,
    *,
    token: str | None = None,
    user: str | None = None,
    password: str | None = None,
    tls: ssl.SSLContext | None = None,
    timeout: float = 30.0,
) -> Node:
    """A node: ``async with connect("http://127.0.0.1:8080", token=…) as node``."""
    return Node(Connection(url, token, user, password, tls, timeout))


def from_env() -> Node:
    """The node of the environment, as the command line reads it: TIELINE_HTTP, TIELINE_TOKEN or TIELINE_USER and TIELINE_PASSWORD, TIELINE_CA."""
    env = os.environ
    tls = ssl.create_default_context(cafile=env["TIELINE_CA"]) if "TIELINE_CA" in env else None
    url = env.get("TIELINE_HTTP", "127.0.0.1:8080")
    url = f"https://{url}" if tls and "://" not in url else url
    token, user, password = (env.get(f"TIELINE_{name}") for name in ("TOKEN", "USER", "PASSWORD"))
    return connect(url, token=token, user=None if token else user, password=None if token else password, tls=tls)


class Node:
    """A node of Tieline. Errors are ``Refused``, ``Denied``, ``Unreachable`` and ``Unknown``."""

    def __init__(self, connection: Connection):
        self._connection = connection

    async def __aenter__(self) -> Node:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes its connections."""
        await self._connection.close()

    async def status(self) -> dict[str, Any]:
        """Name, version, listeners and state of the node."""
        return await self._connection.get("/v1/status")

    async def health(self) -> dict[str, Any]:
        """Whether the node is healthy, and what is wrong: ``status`` is ``ok`` or says what not."""
        answer = await self._connection.send("GET", "/healthz", accept=(503,))
        return answer.json()

    async def me(self) -> dict[str, Any]:
        """User and roles of the caller, and what the caller may read."""
        return await self._connection.get("/v1/me")

    async def get(self, topic: str) -> Value | None:
        """The last value of a topic; None if it has none."""
        try:
            return Value.of(await self._connection.get(f"/v1/topics/{quoted(topic)}"))
        except Refused as error:
            if error.status == 404:
                return None
            raise

    async def topics(self, filter: str = "#", *, at: datetime | str | None = None) -> AsyncIterator[Value]:
        """Last values, sorted by name; with ``at`` those of that time, from the history."""
        async for found in self._pages("/v1/topics", "topics", filter=filter, at=None if at is None else moment(at)):
            yield Value.of(found)

    async def publish(self, topic: str, value: Any, *, retain: bool = False) -> None:
        """Publishes; returns when the history has the message. A text is sent as it is, anything else as JSON."""
        await self._connection.change("/v1/publish", {"topic": topic, "payload": value, "retain": retain})

    async def put(self, topic: str, value: Any, *, if_version: int | None = None, if_absent: bool = False) -> int:
        """Sets the last value of a topic; its version. On a condition: ``Refused`` with the status 412 where it is not met."""
        content = value if isinstance(value, bytes) else _payload(value)
        headers = _condition(if_version) | ({"If-None-Match": "*"} if if_absent else {})
        answer = await self._connection.send("PUT", f"/v1/topics/{quoted(topic)}", content=content, headers=headers)
        return int(answer.json()["seq"])

    async def delete(self, topic: str, *, if_version: int | None = None) -> None:
        """Removes the last value of a topic."""
        await self._connection.send("DELETE", f"/v1/topics/{quoted(topic)}", headers=_condition(if_version))

    def subscribe(self, *filters: str, on_state: Callable[[str], None] | None = None) -> Subscription:
        """Last values of topics, then each change, as an asynchronous iterator; it reconnects by itself."""
        return Subscription(self._connection, filters, on_state)

    def history(self, topics: str | list[str], *, last: str | None = None, **question: Any) -> HistoryQuery:
        """Recorded values: ``await node.history("site/+/power", last="24h", every="1h", agg="mean")`` is a list of samples.

        ``.pandas()``, ``.polars()`` and ``.arrow()`` of it are tables (package pyarrow). Further members: ``start``, ``end``, ``every``,
        ``agg``, ``tz``, ``fill``, ``order``, ``raw``, ``limit``, as in docs/history.md.
        """
        if last is not None:
            question["start"] = last
        return HistoryQuery(self._connection, topics, question)

    async def history_stream(self, topic: str, *, start: datetime | str = "0s") -> AsyncIterator[Sample]:
        """Recorded values from ``start`` on, then each new one, none left out and none twice. ``Unreachable`` where the connection breaks."""
        params = {"topic": topic, "from": moment(start)}
        async with self._connection.stream("/v1/history/tail", params, TAIL_SILENCE_S) as lines:
            async for name, told in events(lines):
                if name == "sample":
                    yield Sample.of(told)

    async def command(
        self, topic: str, value: Any, *, mode: str | None = None, timeout: float | None = None, requester: str | None = None
    ) -> Done:
        """Operates a point. ``Refused``: nothing was done. ``Unknown``: it was sent, and may have been carried out; it is never repeated."""
        body = {"topic": topic, "value": value, "mode": mode, "requester": requester}
        body["timeout_ms"] = None if timeout is None else round(timeout * 1000)
        given = {name: said for name, said in body.items() if said is not None or name == "value"}
        patience = None if timeout is None else timeout + self._connection.timeout
        answer = await self._connection.send("POST", "/v1/command", body=given, accept=range(400, 600), timeout=patience)
        told = _json(answer)
        match told.get("status"):
            case "success":
                return Done(topic, told["value"], told.get("expected"), told["elapsed_ms"])
            case "refused":
                raise Refused(told.get("detail", ""), answer.status_code, told.get("reason", ""))
            case "unknown":
                raise Unknown(told.get("detail", ""), answer.status_code)
        self._connection.check(answer)
        raise Unknown(f"the node answered {told}", answer.status_code)

    async def audit(self, topic: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """Records of the audit log, the newest first."""
        before = None
        while True:
            page = await self._connection.get("/v1/audit", topic=topic, before=before)
            for entry in page["entries"]:
                yield entry
            before = page["next"]
            if before is None:
                return

    async def _pages(self, path: str, name: str, **asked: str | None) -> AsyncIterator[dict[str, Any]]:
        """The list of that name of all pages."""
        after = None
        while True:
            page = await self._connection.get(path, **asked, after=after, limit=PAGE)
            for entry in page[name]:
                yield entry
            after = page["next"]
            if after is None:
                return

    async def devices(self) -> list[dict[str, Any]]:
        """All devices with their health."""
        return (await self._connection.get("/v1/devices"))["devices"]

    async def device(self, topic: str) -> dict[str, Any]:
        """One device with its points."""
        return await self._connection.get(f"/v1/devices/{quoted(topic)}")

    async def points(self, filter: str = "#") -> AsyncIterator[dict[str, Any]]:
        """Configured points: type, unit, limits, whether the caller may command them."""
        async for point in self._pages("/v1/points", "points", filter=filter):
            yield point

    async def alarms(
        self, filter: str = "#", *, priority: str | None = None, state: str | None = None, group: str | None = None, order: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Alarms that are not normal, those that need attention first; ``priority`` and above, ``state`` one or several with commas."""
        asked = {"filter": filter, "priority": priority, "state": state, "group": group, "order": order}
        async for alarm in self._pages("/v1/alarms", "alarms", **asked):
            yield alarm

    async def alarm_counts(self) -> dict[str, Any]:
        """How many alarms there are, by state and priority."""
        return await self._connection.get("/v1/alarms/counts")

    async def acknowledge(self, alarms: list[dict[str, Any]], *, why: str = "") -> list[dict[str, Any]]:
        """Acknowledges occurrences of alarms, as ``alarms()`` gives them (``topic``, ``kind``, ``seq``); a result for each of them.

        A result has ``status``, ``done`` or ``refused``, and ``reason``: ``old_occurrence`` where there is a newer one.
        """
        body = {"alarms": _targets(alarms), "why": why}
        return (await self._connection.change("/v1/alarms/ack", body))["results"]

    async def shelve(self, alarms: list[dict[str, Any]], for_: str, why: str, *, once: bool = False) -> list[dict[str, Any]]:
        """Shelves alarms for a time as in ``2h``; ``once``: until they return, if that is earlier. A result for each of them."""
        body = {"alarms": _targets(alarms), "for": for_, "why": why, "once": once}
        return (await self._connection.change("/v1/alarms/shelve", body))["results"]

    async def unshelve(self, alarms: list[dict[str, Any]], *, why: str = "") -> list[dict[str, Any]]:
        """Ends the shelving of alarms; a result for each of them."""
        body = {"alarms": _targets(alarms), "why": why}
        return (await self._connection.change("/v1/alarms/unshelve", body))["results"]

    async def alarm_journal(
        self, filter: str = "#", *, start: datetime | str = "24h", end: datetime | str | None = None, transition: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Changes of alarms, the oldest first."""
        asked = {"filter": filter, "from": moment(start), "to": None if end is None else moment(end), "transition": transition}
        async for row in self._pages("/v1/alarms/journal", "rows", **asked):
            yield row

    async def sessions(self, *, order: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """MQTT clients, those with the greatest lag first."""
        return (await self._connection.get("/v1/sessions", order=order, limit=limit))["sessions"]


class HistoryQuery:
    """A question to the history: awaited, its rows; or as a table of pandas, polars or pyarrow."""

    def __init__(self, connection: Connection, topics: str | list[str], question: dict[str, Any]):
        self._connection, self._topics, self._question = connection, topics, question

    def __await__(self) -> Generator[Any, None, list[Sample]]:
        return self.rows().__await__()

    async def rows(self) -> list[Sample]:
        """Its rows."""
        question = dict(self._question)
        names = {"start": "from", "end": "to"}
        params = {names.get(name, name): moment(said) if name in names else said for name, said in question.items() if said is not None}
        params["topic"] = [self._topics] if isinstance(self._topics, str) else self._topics
        return [Sample.of(row) for row in await self._connection.get("/v1/history", **params)]

    async def pandas(self) -> pandas.DataFrame:
        """A pandas.DataFrame."""
        return await self._table("pandas")

    async def polars(self) -> polars.DataFrame:
        """A polars.DataFrame."""
        return await self._table("polars")

    async def arrow(self) -> pyarrow.Table:
        """A pyarrow.Table."""
        return await self._table("arrow")

    async def _table(self, kind: str) -> Any:
        from tieline.history import History

        told = self._connection
        untyped: Any = History
        history = untyped(told.url, user=told.user, password=told.password, token=told.token, tls=told.tls)
        return await asyncio.to_thread(getattr(history, kind), self._topics, **self._question)


def _targets(alarms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = ("topic", "kind", "seq")
    return [{name: alarm[name] for name in names if name in alarm} for alarm in alarms]


def _payload(value: Any) -> bytes:
    import json

    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _condition(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}


def _json(answer: Any) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
