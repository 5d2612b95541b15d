"""The cluster for programs without asyncio: a thread runs the loop, calls may come from any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from .cluster import Cluster, Server
from .protocol import Unpacked

T = TypeVar("T")


class Blocking:
    """As ``Cluster``, with calls that wait for their result. A context manager."""

    def __init__(self, servers: Sequence[Server], token: str, **options: Any):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tieline-seal", daemon=True)
        self._cluster = Cluster(servers, token, **options)

    def __enter__(self) -> Blocking:
        self._thread.start()
        self._run(self._cluster.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._cluster.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def pack(self, domain: str, recipient: str, content: bytes, **options: Any) -> bytes:
        """As ``Cluster.pack``."""
        return self._run(self._cluster.pack(domain, recipient, content, **options))

    def unpack(self, domain: str, message: bytes, **options: Any) -> Unpacked:
        """As ``Cluster.unpack``."""
        return self._run(self._cluster.unpack(domain, message, **options))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
