"""A node, for programs without asyncio: the calls of ``tieline.client``, which wait for their answers. They may come from any thread.

with connect("http://127.0.0.1:8080") as node:
    print(node.get("site/pump/power"))
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from . import client
from .client import Denied, Done, Refused, Sample, TielineError, Unknown, Unreachable, Value

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = [
    "Denied",
    "Done",
    "HistoryQuery",
    "Node",
    "Refused",
    "Sample",
    "Subscription",
    "TielineError",
    "Unknown",
    "Unreachable",
    "Value",
    "connect",
    "from_env",
]

T = TypeVar("T")
_END = object()


class _Loop:
    """A thread that runs the calls."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tieline", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a call."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def each(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items of an asynchronous iterator, which ends with this one."""

        async def following() -> Any:
            return await anext(items, _END)

        async def close() -> None:
            if hasattr(items, "aclose"):
                await items.aclose()

        try:
            while (item := self.run(following())) is not _END:
                yield item
        finally:
            self.run(close())

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


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


class Node:
    """As ``tieline.client.Node``."""

    def __init__(self, node: client.Node):
        self._node, self._loop = node, _Loop()

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        self._loop.run(self._node.close())
        self._loop.stop()

    def status(self) -> dict[str, Any]:
        """Name, version, listeners and state of the node."""
        return self._loop.run(self._node.status())

    def health(self) -> dict[str, Any]:
        """Whether the node is healthy, and what is wrong."""
        return self._loop.run(self._node.health())

    def me(self) -> dict[str, Any]:
        """User and roles of the caller, and what the caller may read."""
        return self._loop.run(self._node.me())

    def get(self, topic: str) -> Value | None:
        """The last value of a topic; None if it has none."""
        return self._loop.run(self._node.get(topic))

    def topics(self, filter: str = "#", *, at: datetime | str | None = None) -> Iterator[Value]:
        """Last values, sorted by name; with ``at`` those of that time."""
        return self._loop.each(self._node.topics(filter, at=at))

    def publish(self, topic: str, value: Any, *, retain: bool = False) -> None:
        """Publishes; returns when the history has the message."""
        self._loop.run(self._node.publish(topic, value, retain=retain))

    def put(self, topic: str, value: Any, *, if_version: int | None = None, if_absent: bool = False) -> int:
        """Sets the last value of a topic; its version."""
        return self._loop.run(self._node.put(topic, value, if_version=if_version, if_absent=if_absent))

    def delete(self, topic: str, *, if_version: int | None = None) -> None:
        """Removes the last value of a topic."""
        self._loop.run(self._node.delete(topic, if_version=if_version))

    def subscribe(self, *filters: str, on_state: Callable[[str], None] | None = None) -> Subscription:
        """Last values of topics, then each change, as an iterator; it reconnects by itself. ``on_state`` runs in another thread."""
        return Subscription(self._loop, self._node.subscribe(*filters, on_state=on_state))

    def history(self, topics: str | list[str], *, last: str | None = None, **question: Any) -> HistoryQuery:
        """Recorded values: iterate over it, or take ``.rows()``, ``.pandas()``, ``.polars()`` or ``.arrow()``."""
        return HistoryQuery(self._loop, self._node.history(topics, last=last, **question))

    def history_stream(self, topic: str, *, start: datetime | str = "0s") -> Iterator[Sample]:
        """Recorded values from ``start`` on, then each new one."""
        return self._loop.each(self._node.history_stream(topic, start=start))

    def command(
        self, topic: str, value: Any, *, mode: str | None = None, timeout: float | None = None, requester: str | None = None
    ) -> Done:
        """Operates a point. ``Refused``: nothing was done. ``Unknown``: it may have been carried out."""
        return self._loop.run(self._node.command(topic, value, mode=mode, timeout=timeout, requester=requester))

    def audit(self, topic: str | None = None) -> Iterator[dict[str, Any]]:
        """Records of the audit log, the newest first."""
        return self._loop.each(self._node.audit(topic))

    def devices(self) -> list[dict[str, Any]]:
        """All devices with their health."""
        return self._loop.run(self._node.devices())

    def device(self, topic: str) -> dict[str, Any]:
        """One device with its points."""
        return self._loop.run(self._node.device(topic))

    def points(self, filter: str = "#") -> Iterator[dict[str, Any]]:
        """Configured points."""
        return self._loop.each(self._node.points(filter))

    def alarms(
        self, filter: str = "#", *, priority: str | None = None, state: str | None = None, group: str | None = None, order: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Alarms that are not normal, those that need attention first."""
        return self._loop.each(self._node.alarms(filter, priority=priority, state=state, group=group, order=order))

    def alarm_counts(self) -> dict[str, Any]:
        """How many alarms there are, by state and priority."""
        return self._loop.run(self._node.alarm_counts())

    def acknowledge(self, alarms: list[dict[str, Any]], *, why: str = "") -> list[dict[str, Any]]:
        """Acknowledges occurrences of alarms; a result for each of them."""
        return self._loop.run(self._node.acknowledge(alarms, why=why))

    def shelve(self, alarms: list[dict[str, Any]], for_: str, why: str, *, once: bool = False) -> list[dict[str, Any]]:
        """Shelves alarms for a time as in ``2h``; a result for each of them."""
        return self._loop.run(self._node.shelve(alarms, for_, why, once=once))

    def unshelve(self, alarms: list[dict[str, Any]], *, why: str = "") -> list[dict[str, Any]]:
        """Ends the shelving of alarms; a result for each of them."""
        return self._loop.run(self._node.unshelve(alarms, why=why))

    def alarm_journal(
        self, filter: str = "#", *, start: datetime | str = "24h", end: datetime | str | None = None, transition: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Changes of alarms, the oldest first."""
        return self._loop.each(self._node.alarm_journal(filter, start=start, end=end, transition=transition))

    def sessions(self, *, order: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """MQTT clients, those with the greatest lag first."""
        return self._loop.run(self._node.sessions(order=order, limit=limit))


class Subscription:
    """As ``tieline.client.Subscription``."""

    def __init__(self, loop: _Loop, subscription: client.Subscription):
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


class HistoryQuery:
    """As ``tieline.client.HistoryQuery``."""

    def __init__(self, loop: _Loop, query: client.HistoryQuery):
        self._loop, self._query = loop, query

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.rows())

    def rows(self) -> list[Sample]:
        """Its rows."""
        return self._loop.run(self._query.rows())

    def pandas(self) -> pandas.DataFrame:
        """A pandas.DataFrame."""
        return self._loop.run(self._query.pandas())

    def polars(self) -> polars.DataFrame:
        """A polars.DataFrame."""
        return self._loop.run(self._query.polars())

    def arrow(self) -> pyarrow.Table:
        """A pyarrow.Table."""
        return self._loop.run(self._query.arrow())
