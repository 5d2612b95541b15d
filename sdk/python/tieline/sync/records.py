"""Calls of a node: its history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from .. import client
from ..client.records import HistoryDeleted, HistoryEdit, HistoryImported
from ..client.values import Sample, StateDuration
from .loop import Loop, Part

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Records(Part):
    """The history of a node."""

    def history(self, topics: str | list[str], *, last: str | None = None, **question: Any) -> HistoryQuery:
        """Recorded values: iterate over it, or take ``.rows()``, ``.pandas()``, ``.polars()`` or ``.arrow()``."""
        return HistoryQuery(self._loop, self._node.history(topics, last=last, **question))

    def csv_url(self, topics: str | list[str], *, last: str | None = None, **question: Any) -> str:
        """The address of the rows of ``history`` as a file of CSV."""
        return self._node.csv_url(topics, last=last, **question)

    def history_states(self, topics: str | list[str], *, last: str | None = None, **question: Any) -> list[StateDuration]:
        """How long topics had each of their values, in the whole time or in each bucket; members as those of ``history``."""
        return self._loop.run(self._node.history_states(topics, last=last, **question))

    def history_stream(self, topic: str, *, start: datetime | str = "0s") -> Iterator[Sample]:
        """Recorded values from ``start`` on, then each new one, none left out and none twice. ``Unreachable`` where the connection breaks."""
        return self._loop.each(self._node.history_stream(topic, start=start))

    def history_stats(self, topic: str | None = None, *, limit: int | None = None) -> dict[str, Any]:
        """Samples and bytes of each topic, the largest first, and of the whole history."""
        return self._loop.run(self._node.history_stats(topic, limit=limit))

    def import_history(self, samples: Iterable[dict[str, Any]]) -> HistoryImported:
        """Stores samples of the past: ``topic``, ``t`` (RFC 3339), ``v``, and perhaps ``q`` and ``why``, as the history writes them."""
        return self._loop.run(self._node.import_history(samples))

    def delete_history(
        self, topic: str, why: str, *, start: datetime | str | None = None, end: datetime | str | None = None
    ) -> HistoryDeleted:
        """Deletes recorded values for good; returns when their bytes are overwritten."""
        return self._loop.run(self._node.delete_history(topic, why, start=start, end=end))

    def compact_history(self) -> int:
        """Writes each day that has ended to its file now; how many."""
        return self._loop.run(self._node.compact_history())

    def edits(
        self,
        topic: str = "#",
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        who: str | None = None,
        kind: str | None = None,
        active: bool | None = None,
    ) -> Iterator[HistoryEdit]:
        """Edits and annotations, the newest first."""
        return self._loop.each(self._node.edits(topic, start=start, end=end, who=who, kind=kind, active=active))

    def edit(
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
        return self._loop.run(self._node.edit(topic, kind, why, at=at, start=start, end=end, value=value, quality=quality))

    def annotate(
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
        return self._loop.run(self._node.annotate(topic, text, why, at=at, start=start, end=end))

    def undo(self, number: int, why: str) -> HistoryEdit:
        """Ends an edit or an annotation, which stays in the list."""
        return self._loop.run(self._node.undo(number, why))


class HistoryQuery:
    """As ``tieline.client.HistoryQuery``."""

    def __init__(self, loop: Loop, query: client.HistoryQuery):
        self._loop, self._query = loop, query

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.rows())

    def rows(self) -> list[Sample]:
        """Its rows."""
        return self._loop.run(self._query.rows())

    def pandas(self) -> pandas.DataFrame:
        """A pandas.DataFrame."""
        return self._loop.run(self._query.pandas())

    def polars(self) -> polars.DataFrame:
        """A polars.DataFrame."""
        return self._loop.run(self._query.polars())

    def arrow(self) -> pyarrow.Table:
        """A pyarrow.Table."""
        return self._loop.run(self._query.arrow())
