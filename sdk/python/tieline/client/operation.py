"""Calls of a node: its state and its operation."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from .backup import Backup, check_backup
from .live import quoted
from .part import Part
from .values import moment


class ReloadedDevices(TypedDict):
    """How many devices a reload changed."""

    added: int
    changed: int
    kept_connection: int
    removed: int
    unchanged: int


class NotStarted(TypedDict):
    """What a reload could not start."""

    detail: str
    name: str


class ReloadDone(TypedDict):
    """What a reload changed."""

    derived: int
    derived_series: int
    devices: ReloadedDevices
    not_started: list[NotStarted]
    restart_needed: list[str]
    status: Literal["ok"]
    views: int


class ViewsReloaded(TypedDict):
    """How many views there are after a reload."""

    derived: int
    status: Literal["ok"]
    views: int


class DiagramShown(TypedDict):
    """A diagram of the list."""

    name: str
    title: str
    topics: int
    version: str


class BoardListed(TypedDict):
    """A board of the list."""

    name: str
    panels: int
    title: str
    version: str


class BoardPanel(TypedDict):
    """A panel of a board."""

    diagram: NotRequired[str]
    filter: NotRequired[str]
    height: int
    high: NotRequired[float]
    kind: str
    link: NotRequired[str]
    low: NotRequired[float]
    max: NotRequired[float]
    min: NotRequired[float]
    text: NotRequired[str]
    title: str
    topics: NotRequired[list[str]]
    width: int


class BoardVariable(TypedDict):
    """A variable of a board."""

    label: str
    name: str
    values: list[str]


class BoardShown(TypedDict):
    """A board with its panels."""

    name: str
    panels: list[BoardPanel]
    range: str
    title: str
    variables: list[BoardVariable]
    version: str


class LastFailure(TypedDict):
    """Why a receiver did not take a message."""

    detail: str
    time: str


class Receiver(TypedDict):
    """A receiver of notifications."""

    delivered: str | None
    failing_since: str | None
    kind: Literal["webhook", "alertmanager", "smtp", "mqtt"]
    last_failure: LastFailure | None
    name: str
    nobody: str | None
    waiting: int


class NotifyShown(TypedDict):
    """The receivers of notifications, and how they are doing."""

    dropped: int
    receivers: list[Receiver]
    routes: int
    waiting: int


class NotifyTested(TypedDict):
    """Whether a test has arrived."""

    delivered: bool
    detail: str
    to: str


Shift = TypedDict(
    "Shift",
    {
        "from": str,
        "title": str,
        "to": str,
        "who": list[str],
    },
)
"""Who is on call, and when."""


Uncovered = TypedDict(
    "Uncovered",
    {
        "from": str,
        "to": str,
        "who": list[str],
    },
)
"""A time without anybody on call, or with several shifts."""


class OnCallReceiver(TypedDict):
    """The calendar of one receiver."""

    file: str
    holes: list[Uncovered]
    next: Shift | None
    now: list[Shift]
    overlaps: list[Uncovered]
    receiver: str


class OnCallShown(TypedDict):
    """Who is on call."""

    at: str
    receivers: list[OnCallReceiver]


class SiteMessages(TypedDict):
    """Messages between a site and its centre."""

    asked: int
    lost: int
    not_kept: int
    received: int
    repeated: int
    sent: int
    waiting: int
    waiting_bytes: int
    wanted: int


class Behind(TypedDict):
    """What is behind a site that is a centre itself."""

    away: int
    away_topics: list[str]
    lag_s: float
    sites: int


class SiteShown(TypedDict):
    """A site of a centre."""

    behind: NotRequired[Behind | None]
    clock_offset_s: NotRequired[float]
    doubled: bool
    events: SiteMessages
    heard: NotRequired[str]
    lag_s: float
    lost: int
    name: str
    records: int
    round_trip_s: NotRequired[float]
    samples: int
    since: str
    state: Literal["up", "away"]
    waiting: int


class FabricSite(TypedDict):
    """A site that may join."""

    created: str
    key: str | None
    last_seen: str | None
    name: str
    next_key: str | None
    state: Literal["invited", "active", "revoked"]
    token_expires: str | None


class SiteToken(TypedDict):
    """A token by which a site joins once."""

    expires: str
    name: str
    status: Literal["ok"]
    token: str


class Clock(TypedDict):
    """The time of a node, and whether it is in doubt."""

    expected: str | None
    in_doubt: bool
    off_s: int | None
    time: str


class ClusterMember(TypedDict):
    """A member of a core with standbys."""

    applied: int
    behind_s: NotRequired[float]
    heard_s: float
    lag: NotRequired[int]
    name: str
    reference: NotRequired[str]
    role: Literal["connecting", "behind", "catching_up", "standby", "starting", "leader", "unknown"]
    term: int


class Cluster(TypedDict):
    """The role of a node in its core."""

    appends: int
    applied: int
    behind_s: NotRequired[float]
    cluster: str
    depositions: int
    elections: int
    lag: int
    last: int
    leader: NotRequired[str]
    members: list[ClusterMember]
    node: str
    reference: NotRequired[str]
    role: Literal["connecting", "behind", "catching_up", "standby", "starting", "leader"]
    term: int
    trouble: str
    waiting_bytes: int


class DerivedShown(TypedDict):
    """A derived series."""

    ahead: int
    bad: int
    early: int
    error: NotRequired[str]
    every_s: NotRequired[float]
    last: NotRequired[Any]
    late: int
    progress: float
    results: int
    state: Literal["waiting", "deleting", "backfilling", "live"]
    topic: str
    upto: NotRequired[str]
    value: str


class Busy(TypedDict):
    """A topic with many updates."""

    bytes: int
    bytes_per_s: float
    over: int
    topic: str
    updates: int
    updates_per_s: float


class Operation(Part):
    """State and operation of a node."""

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

    async def sessions(self, *, order: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """MQTT clients, those with the greatest lag first."""
        return (await self._connection.get("/v1/sessions", order=order, limit=limit))["sessions"]

    async def busiest(self, *, limit: int | None = None) -> list[Busy]:
        """Topics with the most updates in the last window."""
        return (await self._connection.get("/v1/busiest", limit=limit))["topics"]

    async def reload(self) -> ReloadDone:
        """Reloads devices, point lists and views from the configuration: all of it, or nothing (``Refused``, which says what is wrong)."""
        return await self._connection.change("/v1/reload")

    async def reload_views(self) -> ViewsReloaded:
        """Reloads the views alone."""
        return await self._connection.change("/v1/views/reload")

    async def backup(self, file: str | os.PathLike[str]) -> Backup:
        """Writes a backup of the data folder to a file, which appears when the archive is complete and was compared with its checksums."""
        whole = Path(file)
        part = whole.with_name(f"{whole.name}.part")
        try:
            await self._connection.download("/v1/backup", part)
            made = await asyncio.to_thread(check_backup, part)
            os.replace(part, whole)
        finally:
            part.unlink(missing_ok=True)
        return made

    async def diagrams(self) -> list[DiagramShown]:
        """Single-line diagrams."""
        return (await self._connection.get("/v1/diagrams"))["diagrams"]

    async def diagram(self, name: str) -> str:
        """A single-line diagram as SVG."""
        return (await self._connection.send("GET", f"/v1/diagrams/{quoted(name)}")).text

    async def boards(self) -> list[BoardListed]:
        """Boards."""
        return (await self._connection.get("/v1/boards"))["boards"]

    async def board(self, name: str) -> BoardShown:
        """A board with its panels."""
        return await self._connection.get(f"/v1/boards/{quoted(name)}")

    async def board_file(self, name: str) -> str:
        """The file of a board, in TOML."""
        return (await self._connection.send("GET", f"/v1/boards/{quoted(name)}", params={"format": "toml"})).text

    async def check_board(self, name: str, text: str) -> BoardShown:
        """The board that a file in TOML would make; ``Refused`` says what is wrong with it. Nothing is stored."""
        answer = await self._connection.send("PUT", f"/v1/boards/{quoted(name)}", params={"check": True}, content=text.encode())
        return answer.json()["board"]

    async def put_board(self, name: str, text: str, *, if_version: str = "*", if_absent: bool = False) -> BoardShown:
        """Changes a board to a file in TOML, if it has this version (``*``: any); with ``if_absent`` makes one. ``Refused`` with the status 412
        where the condition is not met."""
        headers = {"If-None-Match": "*"} if if_absent else _match(if_version)
        answer = await self._connection.send("PUT", f"/v1/boards/{quoted(name)}", content=text.encode(), headers=headers)
        return answer.json()["board"]

    async def delete_board(self, name: str, *, if_version: str = "*") -> None:
        """Removes a board, if it has this version."""
        await self._connection.send("DELETE", f"/v1/boards/{quoted(name)}", headers=_match(if_version))

    async def notifications(self) -> NotifyShown:
        """Receivers of notifications, and how they are doing."""
        return await self._connection.get("/v1/notify")

    async def test_notification(self, receiver: str) -> NotifyTested:
        """Sends a test to a receiver; whether it has arrived."""
        return await self._connection.change("/v1/notify/test", {"to": receiver})

    async def on_call(self, at: datetime | str | None = None) -> OnCallShown:
        """Who is on call at a time, by default now; who is next, and holes of the week after it."""
        return await self._connection.get("/v1/notify/on-call", at=None if at is None else moment(at))

    async def sites(self, *, order: Literal["plain", "worst"] | None = None, limit: int | None = None) -> list[SiteShown]:
        """Sites of a centre, by name; with the order ``worst`` those first that are away or have the greatest lag."""
        return (await self._connection.get("/v1/sites", order=order, limit=limit))["sites"]

    async def fabric_sites(self) -> list[FabricSite]:
        """Sites that may join, have joined, or are revoked."""
        return (await self._connection.get("/v1/fabric/sites"))["sites"]

    async def add_site(self, name: str, *, key: str | None = None) -> FabricSite:
        """Adds a site, or takes up a revoked one; returns when it is stored."""
        return (await self._connection.change("/v1/fabric/sites", {"name": name, "key": key}))["site"]

    async def invite_site(self, name: str, *, valid_seconds: int | None = None) -> SiteToken:
        """Makes a token by which a site joins once. It replaces the token before."""
        return await self._connection.change("/v1/fabric/sites/token", {"name": name, "valid_s": valid_seconds})

    async def revoke_site(self, name: str) -> FabricSite:
        """Revokes a site: its keys and its token are void, and its connections end."""
        return (await self._connection.change("/v1/fabric/sites/revoke", {"name": name}))["site"]

    async def cluster(self) -> Cluster:
        """The role of the node in its core, the leader, the members. ``Refused`` with the status 404 if the node has no core."""
        return await self._connection.get("/v1/cluster")

    async def derived(self) -> list[DerivedShown]:
        """Derived series with their state and last results."""
        return (await self._connection.get("/v1/derived"))["series"]

    async def clock(self) -> Clock:
        """The time of the node, and whether it is in doubt."""
        return await self._connection.get("/v1/clock")

    async def confirm_clock(self, time: datetime | str) -> None:
        """Confirms the clock of the node after it was found in doubt; ``time`` is that of the caller."""
        await self._connection.change("/v1/clock", {"time": moment(time)})


def _match(version: str) -> dict[str, str]:
    return {"If-Match": version if version == "*" else f'"{version}"'}
