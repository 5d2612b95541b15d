"""Calls of a node: its alarms."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Literal, TypedDict

from .part import Part
from .values import moment


class AlarmMeasure(TypedDict):
    """A figure of a report, with what is good."""

    at_most: float
    good: float
    name: str
    rating: Literal["good", "acceptable", "exceeded"]
    value: float


class FrequentAlarm(TypedDict):
    """One of the most frequent alarms."""

    annunciated: int
    kind: str
    percent: float
    topic: str


class AlarmPriorityShare(TypedDict):
    """How many alarms had a priority."""

    annunciated: int
    percent: float
    priority: str


class AlarmResponses(TypedDict):
    """Times from annunciations to acknowledgements."""

    count: int
    longest_s: int
    median_s: int


AlarmReport = TypedDict(
    "AlarmReport",
    {
        "annunciated": int,
        "frequent": list[FrequentAlarm],
        "from": str,
        "measures": list[AlarmMeasure],
        "operators": int,
        "priorities": list[AlarmPriorityShare],
        "responses": AlarmResponses,
        "to": str,
    },
)
"""The figures of ISA-18.2 of a time."""


class AlarmRule(TypedDict):
    """A rule that makes alarms."""

    action: str
    cause: str
    consequence: str
    group: str
    hysteresis: float
    kind: str
    latch: bool
    limit: Any
    line: int
    off_delay_s: float
    on_delay_s: float
    priority: str
    reference: str | None
    respond_in_s: float | None
    suppress_when: str | None
    text: str
    topic: str


class Alarms(Part):
    """The alarms of a node."""

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
        return await self._act("/v1/alarms/ack", alarms, why=why)

    async def shelve(self, alarms: list[dict[str, Any]], for_: str, why: str, *, once: bool = False) -> list[dict[str, Any]]:
        """Shelves alarms for a time as in ``2h``; ``once``: until they return, if that is earlier. A result for each of them."""
        return await self._act("/v1/alarms/shelve", alarms, **{"for": for_, "why": why, "once": once})

    async def unshelve(self, alarms: list[dict[str, Any]], *, why: str = "") -> list[dict[str, Any]]:
        """Ends the shelving of alarms; a result for each of them."""
        return await self._act("/v1/alarms/unshelve", alarms, why=why)

    async def reset_alarms(self, alarms: list[dict[str, Any]], *, why: str = "") -> list[dict[str, Any]]:
        """Resets latched alarms, which have returned and are acknowledged; a result for each of them."""
        return await self._act("/v1/alarms/reset", alarms, why=why)

    async def alarms_out_of_service(self, alarms: list[dict[str, Any]], why: str) -> list[dict[str, Any]]:
        """Takes alarms out of service, until they are put in service; a result for each of them."""
        return await self._act("/v1/alarms/out-of-service", alarms, why=why)

    async def alarms_in_service(self, alarms: list[dict[str, Any]], *, why: str = "") -> list[dict[str, Any]]:
        """Puts alarms in service again; a result for each of them."""
        return await self._act("/v1/alarms/in-service", alarms, why=why)

    async def note_alarms(self, alarms: list[dict[str, Any]], why: str) -> list[dict[str, Any]]:
        """Writes a note about alarms to the journal; a result for each of them."""
        return await self._act("/v1/alarms/note", alarms, why=why)

    async def alarm_journal(
        self, filter: str = "#", *, start: datetime | str = "24h", end: datetime | str | None = None, transition: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Changes of alarms, the oldest first."""
        asked = {"filter": filter, "from": moment(start), "to": None if end is None else moment(end), "transition": transition}
        async for row in self._pages("/v1/alarms/journal", "rows", **asked):
            yield row

    async def alarm_report(
        self, filter: str = "#", *, start: datetime | str = "30d", end: datetime | str | None = None, operators: int | None = None
    ) -> AlarmReport:
        """The figures of ISA-18.2 of a time, for each of so many operators, with what is good."""
        asked = {"filter": filter, "from": moment(start), "to": None if end is None else moment(end), "operators": operators}
        return await self._connection.get("/v1/alarms/report", **asked)

    async def alarm_rules(self) -> AsyncIterator[AlarmRule]:
        """The rules in use."""
        async for rule in self._pages("/v1/alarms/rules", "rules"):
            yield rule

    async def _act(self, path: str, alarms: list[dict[str, Any]], **body: Any) -> list[dict[str, Any]]:
        return (await self._connection.change(path, {"alarms": _targets(alarms)} | body))["results"]


def _targets(alarms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = ("topic", "kind", "seq")
    return [{name: alarm[name] for name in names if name in alarm} for alarm in alarms]
