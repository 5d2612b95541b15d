"""Calls of a node: its state and its operation."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any, Literal

from ..client.backup import Backup
from ..client.operation import (
    BoardListed,
    BoardShown,
    Busy,
    Clock,
    Cluster,
    DerivedShown,
    DiagramShown,
    FabricSite,
    NotifyShown,
    NotifyTested,
    OnCallShown,
    ReloadDone,
    SiteShown,
    SiteToken,
    ViewsReloaded,
)
from .loop import Part


class Operation(Part):
    """State and operation of a node."""

    def status(self) -> dict[str, Any]:
        """Name, version, listeners and state of the node."""
        return self._loop.run(self._node.status())

    def health(self) -> dict[str, Any]:
        """Whether the node is healthy, and what is wrong: ``status`` is ``ok`` or says what not."""
        return self._loop.run(self._node.health())

    def me(self) -> dict[str, Any]:
        """User and roles of the caller, and what the caller may read."""
        return self._loop.run(self._node.me())

    def sessions(self, *, order: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """MQTT clients, those with the greatest lag first."""
        return self._loop.run(self._node.sessions(order=order, limit=limit))

    def busiest(self, *, limit: int | None = None) -> list[Busy]:
        """Topics with the most updates in the last window."""
        return self._loop.run(self._node.busiest(limit=limit))

    def reload(self) -> ReloadDone:
        """Reloads devices, point lists and views from the configuration: all of it, or nothing (``Refused``, which says what is wrong)."""
        return self._loop.run(self._node.reload())

    def reload_views(self) -> ViewsReloaded:
        """Reloads the views alone."""
        return self._loop.run(self._node.reload_views())

    def backup(self, file: str | os.PathLike[str]) -> Backup:
        """Writes a backup of the data folder to a file, which appears when the archive is complete and was compared with its checksums."""
        return self._loop.run(self._node.backup(file))

    def diagrams(self) -> list[DiagramShown]:
        """Single-line diagrams."""
        return self._loop.run(self._node.diagrams())

    def diagram(self, name: str) -> str:
        """A single-line diagram as SVG."""
        return self._loop.run(self._node.diagram(name))

    def boards(self) -> list[BoardListed]:
        """Boards."""
        return self._loop.run(self._node.boards())

    def board(self, name: str) -> BoardShown:
        """A board with its panels."""
        return self._loop.run(self._node.board(name))

    def board_file(self, name: str) -> str:
        """The file of a board, in TOML."""
        return self._loop.run(self._node.board_file(name))

    def check_board(self, name: str, text: str) -> BoardShown:
        """The board that a file in TOML would make; ``Refused`` says what is wrong with it. Nothing is stored."""
        return self._loop.run(self._node.check_board(name, text))

    def put_board(self, name: str, text: str, *, if_version: str = "*", if_absent: bool = False) -> BoardShown:
        """Changes a board to a file in TOML, if it has this version (``*``: any); with ``if_absent`` makes one."""
        return self._loop.run(self._node.put_board(name, text, if_version=if_version, if_absent=if_absent))

    def delete_board(self, name: str, *, if_version: str = "*") -> None:
        """Removes a board, if it has this version."""
        self._loop.run(self._node.delete_board(name, if_version=if_version))

    def notifications(self) -> NotifyShown:
        """Receivers of notifications, and how they are doing."""
        return self._loop.run(self._node.notifications())

    def test_notification(self, receiver: str) -> NotifyTested:
        """Sends a test to a receiver; whether it has arrived."""
        return self._loop.run(self._node.test_notification(receiver))

    def on_call(self, at: datetime | str | None = None) -> OnCallShown:
        """Who is on call at a time, by default now; who is next, and holes of the week after it."""
        return self._loop.run(self._node.on_call(at))

    def sites(self, *, order: Literal["plain", "worst"] | None = None, limit: int | None = None) -> list[SiteShown]:
        """Sites of a centre, by name; with the order ``worst`` those first that are away or have the greatest lag."""
        return self._loop.run(self._node.sites(order=order, limit=limit))

    def fabric_sites(self) -> list[FabricSite]:
        """Sites that may join, have joined, or are revoked."""
        return self._loop.run(self._node.fabric_sites())

    def add_site(self, name: str, *, key: str | None = None) -> FabricSite:
        """Adds a site, or takes up a revoked one; returns when it is stored."""
        return self._loop.run(self._node.add_site(name, key=key))

    def invite_site(self, name: str, *, valid_seconds: int | None = None) -> SiteToken:
        """Makes a token by which a site joins once. It replaces the token before."""
        return self._loop.run(self._node.invite_site(name, valid_seconds=valid_seconds))

    def revoke_site(self, name: str) -> FabricSite:
        """Revokes a site: its keys and its token are void, and its connections end."""
        return self._loop.run(self._node.revoke_site(name))

    def cluster(self) -> Cluster:
        """The role of the node in its core, the leader, the members. ``Refused`` with the status 404 if the node has no core."""
        return self._loop.run(self._node.cluster())

    def derived(self) -> list[DerivedShown]:
        """Derived series with their state and last results."""
        return self._loop.run(self._node.derived())

    def clock(self) -> Clock:
        """The time of the node, and whether it is in doubt."""
        return self._loop.run(self._node.clock())

    def confirm_clock(self, time: datetime | str) -> None:
        """Confirms the clock of the node after it was found in doubt; ``time`` is that of the caller."""
        self._loop.run(self._node.confirm_clock(time))
