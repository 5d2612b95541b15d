"""Live values over server-sent events: the connection comes back by itself, and no removal is missed."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from .connection import Connection
from .errors import Refused, Unreachable
from .values import Value

#: The node sends something each second.
SILENCE_S = 5.0
PAUSE_MIN_S, PAUSE_MAX_S = 0.25, 5.0
#: After so many beats of a connection, the node has sent all last values.
BEATS = 2

Told = tuple[str, Any]


async def events(lines: AsyncIterator[str]) -> AsyncIterator[Told]:
    """Server-sent events with their JSON."""
    name, data = "message", ""
    async for line in lines:
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data += line[5:].strip()
        elif not line and data:
            yield name, json.loads(data)
            name, data = "message", ""


class Subscription:
    """Last values of topics, then each change: ``async for value in subscription``.

    A client that is slow gets the newest value of each topic. ``state`` is ``connecting``, ``live`` or ``away``: what was received
    before is not current while it is ``away``. ``on_state`` is called with each change of it.
    """

    def __init__(self, connection: Connection, filters: tuple[str, ...], on_state: Callable[[str], None] | None = None):
        if not filters:
            raise ValueError("subscribe to one filter at least")
        self._connection, self._filters, self._on_state = connection, filters, on_state
        self.state = "connecting"
        #: Versions of what was received: the node sends all last values again when the connection is back.
        self._known: dict[str, int | None] = {}

    def __aiter__(self) -> AsyncGenerator[Value, None]:
        return self._each()

    async def _each(self) -> AsyncGenerator[Value, None]:
        # A caller that has enough ends the request.
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for value in batch:
                    yield value

    async def batches(self) -> AsyncGenerator[list[Value], None]:
        """Lists of values, as they came together. Ends never; raises ``Denied`` and ``Refused``."""
        pause = PAUSE_MIN_S
        while True:
            try:
                async with aclosing(self._connected()) as batches:
                    async for batch in batches:
                        pause = PAUSE_MIN_S
                        yield batch
            except Unreachable:
                pass
            self._enter("away")
            # Clients that lost the same node do not come back at once.
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, PAUSE_MAX_S)

    async def _connected(self) -> AsyncGenerator[list[Value], None]:
        missing, beats = set(self._known), 0
        params = {"filter": list(self._filters)}
        async with self._connection.stream("/v1/live", params, SILENCE_S) as lines:
            async for name, told in events(lines):
                if name == "beat":
                    beats += 1
                    if beats == BEATS and missing and (gone := await self._gone(missing)):
                        yield gone
                    if beats == BEATS:
                        missing = set()
                    self._enter("live")
                elif name == "update":
                    missing -= {found["topic"] for found in told.get("updates", ())}
                    if batch := self._take(told):
                        yield batch
        raise Unreachable("the node closed the connection")

    def _take(self, told: dict[str, Any]) -> list[Value]:
        batch = []
        for found in told.get("updates", ()):
            value = Value.of(found)
            if value.version is None or self._known.get(value.topic) != value.version:
                batch.append(value)
            self._known[value.topic] = value.version
        for topic in told.get("removed", ()):
            if topic in self._known:
                del self._known[topic]
                batch.append(Value.removed(topic))
        return batch

    async def _gone(self, missing: set[str]) -> list[Value]:
        """Those of the topics that were removed while the connection was away."""
        gone = []
        for topic in sorted(missing):
            try:
                await self._connection.get(f"/v1/topics/{quoted(topic)}")
            except Refused as error:
                if error.status != 404:
                    raise
                self._known.pop(topic, None)
                gone.append(Value.removed(topic))
        return gone

    def _enter(self, state: str) -> None:
        if state != self.state:
            self.state = state
            if self._on_state:
                self._on_state(state)


def quoted(topic: str) -> str:
    """A topic as a part of a path."""
    from urllib.parse import quote

    return quote(topic, safe="/")
