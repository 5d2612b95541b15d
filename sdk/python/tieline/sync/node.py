"""A node, for programs without asyncio."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from .. import client
from ..client.values import Event, Value
from .access import Access
from .alarms import Alarms
from .field import Field
from .loop import Loop
from .operation import Operation
from .records import Records


def connect(
    url: str,
    *,
    token: str | None = None,
    user: str | None = None,
    password: str | None = None,
    tls: ssl.SSLContext | None = None,
    timeout: float = 30.0,
) -> Node:
    """A node: ``with connect("http://127.0.0.1:8080", token=…) as node``."""
    return Node(client.connect(url, token=token, user=user, password=password, tls=tls, timeout=timeout))


def from_env() -> Node:
    """The node of the environment: as ``tieline.client.from_env``."""
    return Node(client.from_env())


class Node(Records, Alarms, Field, Operation, Access):
    """As ``tieline.client.Node``."""

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        self._loop.run(self._node.close())
        self._loop.stop()

    def get(self, topic: str) -> Value | None:
        """The last value of a topic; None if it has none."""
        return self._loop.run(self._node.get(topic))

    def topics(self, filter: str = "#", *, at: datetime | str | None = None) -> Iterator[Value]:
        """Last values, sorted by name; with ``at`` those of that time, from the history."""
        return self._loop.each(self._node.topics(filter, at=at))

    def events(
        self, topic: str, *, limit: int = 1000, after: int | None = None, start: datetime | str | None = None, end: datetime | str | None = None
    ) -> list[Event]:
        """Events of a topic that keeps its last ones: the last ``limit``, or the first after ``after`` (a ``seq``) or ``start``."""
        return self._loop.run(self._node.events(topic, limit=limit, after=after, start=start, end=end))

    def publish(self, topic: str, value: Any, *, retain: bool = False) -> None:
        """Publishes; returns when the history has the message. A text is sent as it is, anything else as JSON."""
        self._loop.run(self._node.publish(topic, value, retain=retain))

    def put(self, topic: str, value: Any, *, if_version: int | None = None, if_absent: bool = False) -> int:
        """Sets the last value of a topic; its version. On a condition: ``Refused`` with the status 412 where it is not met."""
        return self._loop.run(self._node.put(topic, value, if_version=if_version, if_absent=if_absent))

    def delete(self, topic: str, *, if_version: int | None = None) -> None:
        """Removes the last value of a topic."""
        self._loop.run(self._node.delete(topic, if_version=if_version))

    def subscribe(self, *filters: str, on_state: Callable[[str], None] | None = None) -> Subscription:
        """Last values of topics, then each change, as an iterator; it reconnects by itself. ``on_state`` runs in another thread."""
        return Subscription(self._loop, self._node.subscribe(*filters, on_state=on_state))


class Subscription:
    """As ``tieline.client.Subscription``."""

    def __init__(self, loop: Loop, subscription: client.Subscription):
        self._loop, self._subscription = loop, subscription

    @property
    def state(self) -> str:
        """connecting, live or away."""
        return self._subscription.state

    def __iter__(self) -> Iterator[Value]:
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[list[Value]]:
        """Lists of values, as they came together."""
        return self._loop.each(self._subscription.batches())
