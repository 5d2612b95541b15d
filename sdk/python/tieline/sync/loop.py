"""A thread that runs the calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

from .. import client

T = TypeVar("T")
_END = object()


class Loop:
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
        """Ends the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Part:
    """Calls of a node."""

    def __init__(self, node: client.Node):
        self._node, self._loop = node, Loop()
