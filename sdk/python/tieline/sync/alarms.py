"""Calls of a node: its alarms."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from ..client.alarms import AlarmReport, AlarmRule
from .loop import Part


class Alarms(Part):
    """The alarms of a node."""

    def alarms(
        self, filter: str = "#", *, priority: str | None = None, state: str | None = None, group: str | None = None, order: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Alarms that are not normal, those that need attention first; ``priority`` and above, ``state`` one or several with commas."""
        return self._loop.each(self._node.alarms(filter, priority=priority, state=state, group=group, order=order))

    def alarm_counts(self) -> dict[str, Any]:
        """How many alarms there are, by state and priority."""
        return self._loop.run(self._node.alarm_counts())

    def acknowledge(self, alarms: list[dict[str, Any]], *, why: str = "") -> list[dict[str, Any]]:
        """Acknowledges occurrences of alarms, as ``alarms()`` gives them (``topic``, ``kind``, ``seq``); a result for each of them."""
        return self._loop.run(self._node.acknowledge(alarms, why=why))

    def shelve(self, alarms: list[dict[str, Any]], for_: str, why: str, *, once: bool = False) -> list[dict[str, Any]]:
        """Shelves alarms for a time as in ``2h``; ``once``: until they return, if that is earlier. A result for each of them."""
        return self._loop.run(self._node.shelve(alarms, for_, why, once=once))

    def unshelve(self, alarms: list[dict[str, Any]], *, why: str = "") -> list[dict[str, Any]]:
        """Ends the shelving of alarms; a result for each of them."""
        return self._loop.run(self._node.unshelve(alarms, why=why))

    def reset_alarms(self, alarms: list[dict[str, Any]], *, why: str = "") -> list[dict[str, Any]]:
        """Resets latched alarms, which have returned and are acknowledged; a result for each of them."""
        return self._loop.run(self._node.reset_alarms(alarms, why=why))

    def alarms_out_of_service(self, alarms: list[dict[str, Any]], why: str) -> list[dict[str, Any]]:
        """Takes alarms out of service, until they are put in service; a result for each of them."""
        return self._loop.run(self._node.alarms_out_of_service(alarms, why))

    def alarms_in_service(self, alarms: list[dict[str, Any]], *, why: str = "") -> list[dict[str, Any]]:
        """Puts alarms in service again; a result for each of them."""
        return self._loop.run(self._node.alarms_in_service(alarms, why=why))

    def note_alarms(self, alarms: list[dict[str, Any]], why: str) -> list[dict[str, Any]]:
        """Writes a note about alarms to the journal; a result for each of them."""
        return self._loop.run(self._node.note_alarms(alarms, why))

    def alarm_journal(
        self, filter: str = "#", *, start: datetime | str = "24h", end: datetime | str | None = None, transition: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Changes of alarms, the oldest first."""
        return self._loop.each(self._node.alarm_journal(filter, start=start, end=end, transition=transition))

    def alarm_report(
        self, filter: str = "#", *, start: datetime | str = "30d", end: datetime | str | None = None, operators: int | None = None
    ) -> AlarmReport:
        """The figures of ISA-18.2 of a time, for each of so many operators, with what is good."""
        return self._loop.run(self._node.alarm_report(filter, start=start, end=end, operators=operators))

    def alarm_rules(self) -> Iterator[AlarmRule]:
        """The rules in use."""
        return self._loop.each(self._node.alarm_rules())
