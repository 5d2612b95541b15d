"""What the calls of a node have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from .connection import Connection

PAGE = 1000


class Part:
    """Calls of a node."""

    def __init__(self, connection: Connection):
        self._connection = connection

    async def _pages(self, path: str, name: str, **asked: Any) -> AsyncIterator[Any]:
        """The list of that name of all pages."""
        after = None
        while True:
            page = await self._connection.get(path, **asked, after=after, limit=PAGE)
            for entry in page[name]:
                yield entry
            after = page.get("next")
            if after is None:
                return

    async def _back(self, path: str, name: str, **asked: Any) -> AsyncIterator[Any]:
        """The list of that name of all pages, the newest first."""
        before = None
        while True:
            page = await self._connection.get(path, **asked, before=before)
            for entry in page[name]:
                yield entry
            before = page["next"]
            if before is None:
                return
