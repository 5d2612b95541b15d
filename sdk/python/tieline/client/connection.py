"""Requests of a node over HTTP, and their errors."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Container, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from .errors import TielineError, Unknown, Unreachable, of_status

#: Bytes of an answer that are written at once.
PIECE = 1 << 20
#: What fails before anything of a request is sent.
_BEFORE = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class Connection:
    """A node and who asks it."""

    def __init__(
        self,
        url: str,
        token: str | None,
        user: str | None,
        password: str | None,
        tls: ssl.SSLContext | None,
        timeout: float,
    ):
        if (user is None) != (password is None):
            raise ValueError("user and password go together")
        self.url = (url if "://" in url else f"http://{url}").rstrip("/")
        self.token, self.user, self.password, self.tls, self.timeout = token, user, password, tls, timeout
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        login = httpx.BasicAuth(user, password or "") if user is not None and not token else None
        # Whatever proxies the environment names: a node is reached as it is given.
        self._http = httpx.AsyncClient(
            base_url=self.url, headers=headers, auth=login, verify=tls or True, timeout=timeout, trust_env=False
        )

    async def close(self) -> None:
        """Closes its connections."""
        await self._http.aclose()

    async def get(self, path: str, **params: Any) -> Any:
        """The JSON of an answer."""
        return (await self.send("GET", path, params=params)).json()

    async def change(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON of the answer to a request that changes something; members that are None are left out."""
        given = None if body is None else {name: value for name, value in body.items() if value is not None}
        return (await self.send("POST", path, body=given)).json()

    def address(self, path: str, **params: Any) -> str:
        """The address of a request."""
        return str(httpx.URL(f"{self.url}{path}", params=_given(params)))

    async def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        accept: Container[int] = (),
    ) -> httpx.Response:
        """One request; an answer that is no success, nor one of ``accept``, is an error."""
        patience = httpx.USE_CLIENT_DEFAULT if timeout is None else timeout
        query = _given(params)
        try:
            answer = await self._http.request(
                method, path, params=query, json=body, content=content, headers=headers, timeout=patience
            )
        except httpx.HTTPError as error:
            raise _lost(method, self.url, error) from error
        if answer.status_code not in accept:
            self.check(answer)
        return answer

    async def download(self, path: str, file: Path) -> None:
        """Writes an answer to a file, and the file to the disk."""
        try:
            async with self._http.stream("GET", path) as answer:
                if not answer.is_success:
                    _check(answer.status_code, await answer.aread())
                with await asyncio.to_thread(file.open, "wb") as out:
                    async for piece in answer.aiter_bytes(PIECE):
                        await asyncio.to_thread(out.write, piece)
                    out.flush()
                    await asyncio.to_thread(os.fsync, out.fileno())
        except httpx.HTTPError as error:
            raise Unreachable(f"{self.url}: {error!r}") from error

    @staticmethod
    def check(answer: httpx.Response) -> None:
        """Raises the error of an answer that is no success."""
        _check(answer.status_code, answer.content)

    @asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, Any], silence: float) -> AsyncIterator[AsyncIterator[str]]:
        """The lines of an answer that goes on; so many seconds without a line end it."""
        timeout = httpx.Timeout(self.timeout, read=silence)
        try:
            async with self._http.stream("GET", path, params=_given(params), timeout=timeout) as answer:
                if not answer.is_success:
                    _check(answer.status_code, await answer.aread())
                yield answer.aiter_lines()
        except httpx.HTTPError as error:
            raise Unreachable(f"{self.url}: {error!r}") from error


def _given(params: Mapping[str, Any] | None) -> httpx.QueryParams:
    """Those that say something; a list is given several times."""
    pairs: list[tuple[str, str | int | float | bool | None]] = []
    for name, value in (params or {}).items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                pairs.append((name, str(one).lower() if isinstance(one, bool) else str(one)))
    return httpx.QueryParams(pairs)


def _check(status: int, content: bytes) -> None:
    if status < 300:
        return
    raise of_status(status, _detail(content))


def _detail(content: bytes) -> str:
    text = content.decode("utf-8", "replace")
    try:
        return str(json.loads(text)["detail"])
    except (ValueError, KeyError, TypeError):
        return text


def _lost(method: str, url: str, error: httpx.HTTPError) -> TielineError:
    if method == "GET" or isinstance(error, _BEFORE):
        return Unreachable(f"{url}: {error!r}")
    return Unknown(f"{url} did not answer, and the request may have been carried out: {error!r}")
