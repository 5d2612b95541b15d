"""Calls of a node: users, roles and logins. They need ``admin`` on ``$access/users``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, TypedDict

from .part import Part


class User(TypedDict):
    """A user of the file."""

    by: Literal["password", "certificate", "token"]
    disabled: bool
    last_login: str | None
    roles: list[str]
    user: str


class Role(TypedDict):
    """A role with its rules."""

    built_in: bool
    role: str
    rules: list[str]


WhyRule = TypedDict(
    "WhyRule",
    {
        "is": Literal["other verb", "other topic", "allows", "denies", "allows some", "denies some"],
        "role": str,
        "rule": str,
    },
)
"""What one rule says of a right."""


class Why(TypedDict):
    """Whether a user has a right, and which rules decide."""

    allowed: bool
    conclusion: str
    disabled: bool
    reach: Literal["all", "some", "nothing"]
    right: Literal["read", "publish", "command", "acknowledge", "admin"]
    roles: list[str]
    rules: list[WhyRule]
    topic: str
    user: str


class Login(TypedDict):
    """A login at the console or of the command line."""

    by: Literal["password", "provider"]
    expires: str
    last_used: str
    own: bool
    user: str


class Access(Part):
    """Users, roles and logins of a node."""

    async def users(self) -> AsyncIterator[User]:
        """Users of the file, sorted by name."""
        async for user in self._pages("/v1/access/users", "users"):
            yield user

    async def add_user(self, user: str, roles: list[str], *, password: str | None = None) -> User:
        """Adds a user; returns when the change holds. ``Refused`` with the status 409 if there is one of this name."""
        return (await self._connection.change("/v1/access/users", {"user": user, "roles": roles, "password": password}))["user"]

    async def set_roles(self, user: str, roles: list[str]) -> User:
        """Gives a user other roles."""
        return (await self._connection.change("/v1/access/users/roles", {"user": user, "roles": roles}))["user"]

    async def set_password(self, user: str, password: str) -> User:
        """Gives a user another password; its sessions and logins end."""
        return (await self._connection.change("/v1/access/users/password", {"user": user, "password": password}))["user"]

    async def disable_user(self, user: str) -> User:
        """Disables a user; its sessions and logins end."""
        return (await self._connection.change("/v1/access/users/disable", {"user": user}))["user"]

    async def enable_user(self, user: str) -> User:
        """Enables a user again."""
        return (await self._connection.change("/v1/access/users/enable", {"user": user}))["user"]

    async def remove_user(self, user: str) -> None:
        """Removes a user; its sessions and logins end."""
        await self._connection.change("/v1/access/users/remove", {"user": user})

    async def roles(self) -> list[Role]:
        """Roles with their rules."""
        return (await self._connection.get("/v1/access/roles"))["roles"]

    async def why(
        self, user: str, right: Literal["read", "publish", "command", "acknowledge", "admin"], topic: str, *, client: str | None = None
    ) -> Why:
        """Whether a user has a right on a topic or a filter, and which rules decide; ``client``: with this MQTT client identifier."""
        return await self._connection.get("/v1/access/why", user=user, right=right, topic=topic, client=client)

    async def logins(self, user: str | None = None, *, limit: int | None = None) -> list[Login]:
        """Logins at the console and of the command line."""
        return (await self._connection.get("/v1/logins", user=user, limit=limit))["logins"]

    async def end_logins(self, user: str) -> int:
        """Ends the logins of a user; how many."""
        return int((await self._connection.change("/v1/logins/end", {"user": user}))["ended"])

    async def end_other_logins(self) -> int:
        """Ends the logins of the caller, except the one that this request uses; how many."""
        return int((await self._connection.change("/v1/logins/end-others"))["ended"])
