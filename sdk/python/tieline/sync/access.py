"""Calls of a node: users, roles and logins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ..client.access import Login, Role, User, Why
from .loop import Part


class Access(Part):
    """Users, roles and logins of a node."""

    def users(self) -> Iterator[User]:
        """Users of the file, sorted by name."""
        return self._loop.each(self._node.users())

    def add_user(self, user: str, roles: list[str], *, password: str | None = None) -> User:
        """Adds a user; returns when the change holds. ``Refused`` with the status 409 if there is one of this name."""
        return self._loop.run(self._node.add_user(user, roles, password=password))

    def set_roles(self, user: str, roles: list[str]) -> User:
        """Gives a user other roles."""
        return self._loop.run(self._node.set_roles(user, roles))

    def set_password(self, user: str, password: str) -> User:
        """Gives a user another password; its sessions and logins end."""
        return self._loop.run(self._node.set_password(user, password))

    def disable_user(self, user: str) -> User:
        """Disables a user; its sessions and logins end."""
        return self._loop.run(self._node.disable_user(user))

    def enable_user(self, user: str) -> User:
        """Enables a user again."""
        return self._loop.run(self._node.enable_user(user))

    def remove_user(self, user: str) -> None:
        """Removes a user; its sessions and logins end."""
        self._loop.run(self._node.remove_user(user))

    def roles(self) -> list[Role]:
        """Roles with their rules."""
        return self._loop.run(self._node.roles())

    def why(self, user: str, right: Literal["read", "publish", "command", "acknowledge", "admin"], topic: str, *, client: str | None = None) -> Why:
        """Whether a user has a right on a topic or a filter, and which rules decide; ``client``: with this MQTT client identifier."""
        return self._loop.run(self._node.why(user, right, topic, client=client))

    def logins(self, user: str | None = None, *, limit: int | None = None) -> list[Login]:
        """Logins at the console and of the command line."""
        return self._loop.run(self._node.logins(user, limit=limit))

    def end_logins(self, user: str) -> int:
        """Ends the logins of a user; how many."""
        return self._loop.run(self._node.end_logins(user))

    def end_other_logins(self) -> int:
        """Ends the logins of the caller, except the one that this request uses; how many."""
        return self._loop.run(self._node.end_other_logins())
