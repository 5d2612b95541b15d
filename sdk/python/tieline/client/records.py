"""Calls of a node: its history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

from .connection import Connection
from .live import events
from .part import Part
from .values import Sample, StateDuration, moment

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

TAIL_SILENCE_S = 30.0


class Undone(TypedDict):
    """Who ended an edit, and why."""

    time: str
    who: str
    why: str


HistoryEdit = TypedDict(
    "HistoryEdit",
    {
        "erased": NotRequired[bool],
        "from": str,
        "id": int,
        "kind": str,
        "q": NotRequired[str],
        "text": NotRequired[str],
        "time": str,
        "to": str,
        "topic": str,
        "undone": NotRequired[Undone],
        "v": NotRequired[Any],
        "who": str,
        "why": str,
    },
)
"""An edit or an annotation of the history."""


class HistoryImported(TypedDict):
    """What became of an import."""

    samples: int
    status: Literal["ok"]
    too_old: int


class HistoryDeleted(TypedDict):
    """What was deleted."""

    chunks: int
    damaged: int
    edits: int
    samples: int
    status: Literal["ok"]


class Records(Part):
    """The history of a node."""

    def history(self, topics: str | list[str], *, last: str | None = None, **question: Any) -> HistoryQuery:
        """Recorded values: ``await node.history("site/+/power", last="24h", every="1h", agg="mean")`` is a list of samples.

        ``.pandas()``, ``.polars()`` and ``.arrow()`` of it are tables (package pyarrow). Further members: ``start``, ``end``, ``every``,
        ``agg``, ``tz``, ``fill``, ``order``, ``raw``, ``limit``, as in docs/history.md.
        """
        return HistoryQuery(self._connection, topics, _since(last, question))

    def csv_url(self, topics: str | list[str], *, last: str | None = None, **question: Any) -> str:
        """The address of the rows of ``history`` as a file of CSV."""
        return self._connection.address("/v1/history", format="csv", **_params(topics, _since(last, question)))

    async def history_states(self, topics: str | list[str], *, last: str | None = None, **question: Any) -> list[StateDuration]:
        """How long topics had each of their values, in the whole time or in each bucket; members as those of ``history``."""
        rows = await self._connection.get("/v1/history/states", **_params(topics, _since(last, question)))
        return [StateDuration.of(row) for row in rows]

    async def history_stream(self, topic: str, *, start: datetime | str = "0s") -> AsyncIterator[Sample]:
        """Recorded values from ``start`` on, then each new one, none left out and none twice. ``Unreachable`` where the connection breaks."""
        params = {"topic": topic, "from": moment(start)}
        async with self._connection.stream("/v1/history/tail", params, TAIL_SILENCE_S) as lines:
            async for name, told in events(lines):
                if name == "sample":
                    yield Sample.of(told)

    async def history_stats(self, topic: str | None = None, *, limit: int | None = None) -> dict[str, Any]:
        """Samples and bytes of each topic, the largest first, and of the whole history."""
        return await self._connection.get("/v1/history/stats", topic=topic, limit=limit)

    async def import_history(self, samples: Iterable[dict[str, Any]]) -> HistoryImported:
        """Stores samples of the past: ``topic``, ``t`` (RFC 3339), ``v``, and perhaps ``q`` and ``why``, as the history writes them."""
        return (await self._connection.send("PUT", "/v1/history", body=list(samples))).json()

    async def delete_history(
        self, topic: str, why: str, *, start: datetime | str | None = None, end: datetime | str | None = None
    ) -> HistoryDeleted:
        """Deletes recorded values for good; returns when their bytes are overwritten."""
        params = {"topic": topic, "from": _time(start), "to": _time(end), "why": why}
        return (await self._connection.send("DELETE", "/v1/history", params=params)).json()

    async def compact_history(self) -> int:
        """Writes each day that has ended to its file now; how many."""
        return int((await self._connection.change("/v1/history/compact"))["days"])

    async def edits(
        self,
        topic: str = "#",
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        who: str | None = None,
        kind: str | None = None,
        active: bool | None = None,
    ) -> AsyncIterator[HistoryEdit]:
        """Edits and annotations, the newest first."""
        asked = {"topic": topic, "from": _time(start), "to": _time(end), "who": who, "kind": kind, "active": active}
        async for edit in self._back("/v1/history/edits", "edits", **asked):
            yield edit

    async def edit(
        self,
        topic: str,
        kind: Literal["value", "quality", "exclude", "insert"],
        why: str,
        *,
        at: datetime | str | None = None,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        value: Any = None,
        quality: str | None = None,
    ) -> HistoryEdit:
        """Corrects what answers show of a topic, at the instant ``at``, or from ``start`` on and before ``end``. What was recorded stays."""
        given = {"topic": topic, "kind": kind, "why": why, "at": _time(at), "from": _time(start), "to": _time(end), "v": value, "q": quality}
        return await self._connection.change("/v1/history/edits", given)

    async def annotate(
        self,
        topic: str,
        text: str,
        why: str,
        *,
        at: datetime | str | None = None,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
    ) -> HistoryEdit:
        """Says something of a topic at an instant, or over a time; no value changes."""
        given = {"topic": topic, "kind": "annotation", "text": text, "why": why, "at": _time(at), "from": _time(start), "to": _time(end)}
        return await self._connection.change("/v1/history/edits", given)

    async def undo(self, number: int, why: str) -> HistoryEdit:
        """Ends an edit or an annotation, which stays in the list."""
        return await self._connection.change(f"/v1/history/edits/{number}/undo", {"why": why})


class HistoryQuery:
    """A question to the history: awaited, its rows; or as a table of pandas, polars or pyarrow."""

    def __init__(self, connection: Connection, topics: str | list[str], question: dict[str, Any]):
        self._connection, self._topics, self._question = connection, topics, question

    def __await__(self) -> Generator[Any, None, list[Sample]]:
        return self.rows().__await__()

    async def rows(self) -> list[Sample]:
        """Its rows."""
        return [Sample.of(row) for row in await self._connection.get("/v1/history", **_params(self._topics, self._question))]

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


def _since(last: str | None, question: dict[str, Any]) -> dict[str, Any]:
    return question if last is None else question | {"start": last}


def _params(topics: str | list[str], question: dict[str, Any]) -> dict[str, Any]:
    names = {"start": "from", "end": "to"}
    params = {names.get(name, name): moment(said) if name in names else said for name, said in question.items() if said is not None}
    return params | {"topic": [topics] if isinstance(topics, str) else topics}


def _time(time: datetime | str | None) -> str | None:
    return None if time is None else moment(time)
