"""Calls of a node: devices and points, commands, and what stands in their way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from ..client.field import Lock, OverrideShown, Reservation, Tag
from ..client.values import Done
from .loop import Part


class Field(Part):
    """Devices and points of a node."""

    def devices(self, *, order: Literal["plain", "worst"] | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Devices with their health, as configured; with the order ``worst`` those first that cannot be reached."""
        return self._loop.run(self._node.devices(order=order, limit=limit))

    def device(self, topic: str) -> dict[str, Any]:
        """One device with its points."""
        return self._loop.run(self._node.device(topic))

    def points(self, filter: str = "#") -> Iterator[dict[str, Any]]:
        """Configured points: type, unit, limits, whether the caller may command them."""
        return self._loop.each(self._node.points(filter))

    def command(self, topic: str, value: Any, *, mode: str | None = None, timeout: float | None = None, requester: str | None = None) -> Done:
        """Operates a point. ``Refused``: nothing was done. ``Unknown``: it was sent, and may have been carried out; it is never repeated."""
        return self._loop.run(self._node.command(topic, value, mode=mode, timeout=timeout, requester=requester))

    def audit(self, topic: str | None = None) -> Iterator[dict[str, Any]]:
        """Records of the audit log, the newest first."""
        return self._loop.each(self._node.audit(topic))

    def tags(self, topic: str | None = None) -> list[Tag]:
        """Tags, all or those that hold for a device or a point."""
        return self._loop.run(self._node.tags(topic))

    def place_tag(self, topic: str, kind: Literal["hold", "do_not_operate", "note"], why: str, *, requester: str | None = None) -> Tag:
        """Places a tag on a device, a point, or all below a topic; it stays until somebody lifts it."""
        return self._loop.run(self._node.place_tag(topic, kind, why, requester=requester))

    def lift_tag(self, number: int, *, requester: str | None = None) -> None:
        """Lifts a tag."""
        self._loop.run(self._node.lift_tag(number, requester=requester))

    def overrides(self, topic: str | None = None) -> list[OverrideShown]:
        """Overrides that are on, all or those of a device or a point; ``tieline.control`` turns them on and off."""
        return self._loop.run(self._node.overrides(topic))

    def reservations(self, topic: str | None = None) -> list[Reservation]:
        """Reservations, all or those of a device; ``tieline.control`` makes them."""
        return self._loop.run(self._node.reservations(topic))

    def locks(self) -> Iterator[Lock]:
        """Locks that MQTT sessions have or wait for; ``tieline.locks`` takes them."""
        return self._loop.each(self._node.locks())

    def release_lock(self, name: str) -> None:
        """Takes a lock away from the session that has it; the next one that waits gets it."""
        self._loop.run(self._node.release_lock(name))
