"""Calls of a node: devices and points, commands, and what stands in their way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Literal, NotRequired, TypedDict

from .errors import Refused, Unknown
from .live import quoted
from .part import Part
from .values import Done


class Tag(TypedDict):
    """What is not to be operated, and why."""

    id: int
    kind: Literal["hold", "do_not_operate", "note"]
    may_lift: NotRequired[bool]
    owner: str
    placed: str
    topic: str
    why: str


class OverrideShown(TypedDict):
    """What is taken from all programs."""

    may_end: NotRequired[bool]
    pattern: str
    until: str | None
    who: str


class ReservedSlot(TypedDict):
    """A device and its time in a reservation."""

    current: bool
    device: str
    end: str
    start: str


class Reservation(TypedDict):
    """Devices that one requester has."""

    grace_end: str | None
    lease_end: str | None
    lease_s: float | None
    may_end: NotRequired[bool]
    priority: Literal["HIGH", "LOW", "LOW_PREEMPT"]
    requester: str
    slots: list[ReservedSlot]
    task: str


class Lock(TypedDict):
    """A lock of an MQTT session."""

    client: NotRequired[str]
    name: str
    number: NotRequired[int]
    scope: NotRequired[Literal["session", "connection"]]
    since: NotRequired[str]
    upstream: NotRequired[str]
    via: NotRequired[str]
    waiting: int


class Field(Part):
    """Devices and points of a node."""

    async def devices(self, *, order: Literal["plain", "worst"] | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Devices with their health, as configured; with the order ``worst`` those first that cannot be reached."""
        return (await self._connection.get("/v1/devices", order=order, limit=limit))["devices"]

    async def device(self, topic: str) -> dict[str, Any]:
        """One device with its points."""
        return await self._connection.get(f"/v1/devices/{quoted(topic)}")

    async def points(self, filter: str = "#") -> AsyncIterator[dict[str, Any]]:
        """Configured points: type, unit, limits, whether the caller may command them."""
        async for point in self._pages("/v1/points", "points", filter=filter):
            yield point

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
        async for entry in self._back("/v1/audit", "entries", topic=topic):
            yield entry

    async def tags(self, topic: str | None = None) -> list[Tag]:
        """Tags, all or those that hold for a device or a point."""
        return (await self._connection.get("/v1/tags", topic=topic))["tags"]

    async def place_tag(
        self, topic: str, kind: Literal["hold", "do_not_operate", "note"], why: str, *, requester: str | None = None
    ) -> Tag:
        """Places a tag on a device, a point, or all below a topic; it stays until somebody lifts it."""
        body = {"topic": topic, "kind": kind, "why": why, "requester": requester}
        return (await self._done("/v1/tags", body))["tag"]

    async def lift_tag(self, number: int, *, requester: str | None = None) -> None:
        """Lifts a tag."""
        await self._done("/v1/tags/lift", {"id": number, "requester": requester})

    async def overrides(self, topic: str | None = None) -> list[OverrideShown]:
        """Overrides that are on, all or those of a device or a point; ``tieline.control`` turns them on and off."""
        return (await self._connection.get("/v1/overrides", topic=topic))["overrides"]

    async def reservations(self, topic: str | None = None) -> list[Reservation]:
        """Reservations, all or those of a device; ``tieline.control`` makes them."""
        return (await self._connection.get("/v1/reservations", topic=topic))["reservations"]

    async def locks(self) -> AsyncIterator[Lock]:
        """Locks that MQTT sessions have or wait for; ``tieline.locks`` takes them."""
        async for lock in self._pages("/v1/locks", "locks"):
            yield lock

    async def release_lock(self, name: str) -> None:
        """Takes a lock away from the session that has it; the next one that waits gets it."""
        await self._connection.change("/v1/locks/release", {"lock": name})

    async def _done(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a change of tags, whose refusals have a reason."""
        given = {name: value for name, value in body.items() if value is not None}
        answer = await self._connection.send("POST", path, body=given, accept=range(400, 500))
        told = _json(answer)
        if told.get("status") == "refused":
            raise Refused(told.get("detail", ""), answer.status_code, told.get("reason", ""))
        self._connection.check(answer)
        return told


def _json(answer: Any) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
