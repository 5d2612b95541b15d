"""A node, for programs with asyncio."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

from .access import Access
from .alarms import Alarms
from .connection import Connection
from .errors import Refused
from .field import Field
from .live import Subscription, quoted
from .operation import Operation
from .records import Records
from .values import Event, Value, moment


def connect(
    url: str,
    *,
    token: str | None = None,
    user: str | None = None,
    password: str | None = None,
    tls: ssl.SSLContext | None = None,
    timeout: float = 30.0,
) -> Node:
    """A node: ``async with connect("http://127.0.0.1:8080", token=…) as node``."""
    return Node(Connection(url, token, user, password, tls, timeout))


def from_env() -> Node:
    """The node of the environment, as the command line reads it: TIELINE_HTTP, TIELINE_TOKEN or TIELINE_USER and TIELINE_PASSWORD, TIELINE_CA."""
    env = os.environ
    tls = ssl.create_default_context(cafile=env["TIELINE_CA"]) if "TIELINE_CA" in env else None
    url = env.get("TIELINE_HTTP", "127.0.0.1:8080")
    url = f"https://{url}" if tls and "://" not in url else url
    token, user, password = (env.get(f"TIELINE_{name}") for name in ("TOKEN", "USER", "PASSWORD"))
    return connect(url, token=token, user=None if token else user, password=None if token else password, tls=tls)


class Node(Records, Alarms, Field, Operation, Access):
    """A node of Tieline. Errors are ``Refused``, ``Denied``, ``Unreachable`` and ``Unknown``."""

    async def __aenter__(self) -> Node:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes its connections."""
        await self._connection.close()

    async def get(self, topic: str) -> Value | None:
        """The last value of a topic; None if it has none."""
        try:
            return Value.of(await self._connection.get(f"/v1/topics/{quoted(topic)}"))
        except Refused as error:
            if error.status == 404:
                return None
            raise

    async def topics(self, filter: str = "#", *, at: datetime | str | None = None) -> AsyncIterator[Value]:
        """Last values, sorted by name; with ``at`` those of that time, from the history."""
        async for found in self._pages("/v1/topics", "topics", filter=filter, at=None if at is None else moment(at)):
            yield Value.of(found)

    async def events(
        self,
        topic: str,
        *,
        limit: int = 1000,
        after: int | None = None,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
    ) -> list[Event]:
        """Events of a topic that keeps its last ones: the last ``limit``, or the first after ``after`` (a ``seq``) or ``start``."""
        span = {"from": None if start is None else moment(start), "to": None if end is None else moment(end)}
        answer = await self._connection.get(f"/v1/topics/{quoted(topic)}", events=limit, after=after, **span)
        return [Event.of(found) for found in answer["events"]]

    async def publish(self, topic: str, value: Any, *, retain: bool = False) -> None:
        """Publishes; returns when the history has the message. A text is sent as it is, anything else as JSON."""
        await self._connection.send("POST", "/v1/publish", body={"topic": topic, "payload": value, "retain": retain})

    async def put(self, topic: str, value: Any, *, if_version: int | None = None, if_absent: bool = False) -> int:
        """Sets the last value of a topic; its version. On a condition: ``Refused`` with the status 412 where it is not met."""
        content = value if isinstance(value, bytes) else _payload(value)
        headers = _condition(if_version) | ({"If-None-Match": "*"} if if_absent else {})
        answer = await self._connection.send("PUT", f"/v1/topics/{quoted(topic)}", content=content, headers=headers)
        return int(answer.json()["seq"])

    async def delete(self, topic: str, *, if_version: int | None = None) -> None:
        """Removes the last value of a topic."""
        await self._connection.send("DELETE", f"/v1/topics/{quoted(topic)}", headers=_condition(if_version))

    def subscribe(self, *filters: str, on_state: Callable[[str], None] | None = None) -> Subscription:
        """Last values of topics, then each change, as an asynchronous iterator; it reconnects by itself."""
        return Subscription(self._connection, filters, on_state)


def _payload(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _condition(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}
