"""Several servers, on asyncio.

Packing and unpacking change nothing at a server, so a request whose answer was lost is asked again, of another server.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import protocol
from .protocol import Broken, Closing, Decoder, Packed, Refused, Response, Unpacked, Welcome

_CONNECT_SECONDS = 5.0
#: Pauses between attempts to connect, at first and at most, in seconds.
_PAUSE = (0.05, 2.0)
#: Pauses before all servers are asked again, in seconds.
_AGAIN = (0.002, 0.1)


@dataclass(frozen=True)
class Server:
    """One server: ``host:port`` of its binary protocol, and its share of the load."""

    address: str
    weight: int = 1

    def __post_init__(self) -> None:
        host, colon, port = self.address.rpartition(":")
        if not (host and colon and port.isdigit() and int(port) < 65536):
            raise ValueError(f"address {self.address!r}, expected host:port")
        if self.weight < 1:
            raise ValueError(f"weight {self.weight} of {self.address}, expected 1 or more")


class Unavailable(Exception):
    """No server answered in time; the text has the last reason."""


class _Lost(Exception):
    """The connection ended before the answer came."""


class _Member:
    """One server and its connection, which is made again whenever it ends."""

    def __init__(self, server: Server, changed: asyncio.Event):
        self.server, self.sent, self._changed = server, 0, changed
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._next, self._room, self.why = 0, 0, "no server is connected"

    @property
    def is_connected(self) -> bool:
        return self._writer is not None

    @property
    def load(self) -> float | None:
        """What waits, for its weight; none where nothing more is taken."""
        if self._writer is None or len(self._waiting) >= self._room:
            return None
        return (len(self._waiting) + 1) / self.server.weight

    async def ask(self, make: Callable[[int], bytes]) -> Response:
        if self._writer is None:
            raise _Lost
        # 0 is the id of what nobody asked.
        self._next = self._next % 0xFFFF_FFFF + 1
        request_id, answer = self._next, asyncio.get_running_loop().create_future()
        self._writer.write(make(request_id))
        self._waiting[request_id], self.sent = answer, self.sent + 1
        try:
            return await answer
        finally:
            self._waiting.pop(request_id, None)

    async def keep(self, token: str, tls: ssl.SSLContext | None, health_seconds: float) -> None:
        pause = _PAUSE[0]
        while True:
            try:
                await self._serve(token, tls, health_seconds)
                pause = _PAUSE[0]
            except (OSError, TimeoutError, EOFError) as error:
                self.why = f"{self.server.address}: {error or type(error).__name__}"
            except (Broken, Refused) as error:
                self.why = f"{self.server.address}: {error}"
            await asyncio.sleep(pause)
            pause = min(pause * 2, _PAUSE[1])

    async def _serve(self, token: str, tls: ssl.SSLContext | None, health_seconds: float) -> None:
        host, _, port = self.server.address.rpartition(":")
        decoder = Decoder()
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls)
        try:
            writer.write(protocol.hello(token))
            async with asyncio.timeout(_CONNECT_SECONDS):
                early = await self._read(reader, decoder)
            match early:
                case [(_, Welcome() as welcome), *rest]:
                    self._room, self._writer = welcome.in_flight_max, writer
                case [(_, Refused() as refused), *_]:
                    raise refused
                case _:
                    raise Broken("the first frame is no welcome")
            self._changed.set()
            rest and self._take(rest)
            async with asyncio.TaskGroup() as group:
                pings = group.create_task(self._ping(writer, health_seconds))
                with contextlib.suppress(EOFError, OSError, TimeoutError):
                    while True:
                        async with asyncio.timeout(3 * health_seconds):
                            self._take(await self._read(reader, decoder))
                pings.cancel()
        except* Broken as broken:
            raise broken.exceptions[0] from None
        finally:
            self._writer = None
            for answer in self._waiting.values():
                answer.done() or answer.set_exception(_Lost())
            writer.close()

    @staticmethod
    async def _read(reader: asyncio.StreamReader, decoder: Decoder) -> list[tuple[int, Response]]:
        while True:
            data = await reader.read(1 << 16)
            if not data:
                raise EOFError("the server closed the connection")
            if found := decoder.feed(data):
                return found

    @staticmethod
    async def _ping(writer: asyncio.StreamWriter, health_seconds: float) -> None:
        while True:
            await asyncio.sleep(health_seconds)
            writer.write(protocol.ping())

    def _take(self, responses: list[tuple[int, Response]]) -> None:
        for request_id, response in responses:
            if isinstance(response, Closing):
                self._room = 0
            elif (answer := self._waiting.get(request_id)) and not answer.done():
                answer.set_result(response)


class Cluster:
    """The servers. Requests wait until one is connected, for ``patience_seconds`` at most.

    A server that answers nothing for three times ``health_seconds`` is given up, and connected to again. ``tls`` is for
    servers that ask for it.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        token: str,
        *,
        tls: ssl.SSLContext | None = None,
        patience_seconds: float = 10.0,
        health_seconds: float = 1.0,
    ):
        if not servers:
            raise ValueError("no servers, expected one or more")
        self._changed = asyncio.Event()
        self._members = [_Member(server, self._changed) for server in servers]
        self._token, self._tls = token, tls
        self._patience, self._health = patience_seconds, health_seconds
        self._tasks: list[asyncio.Task[None]] = []
        self._turn = 0
        #: Requests that were asked again.
        self.retried = 0

    async def __aenter__(self) -> Cluster:
        keep = (member.keep(self._token, self._tls, self._health) for member in self._members)
        self._tasks = [asyncio.create_task(coroutine) for coroutine in keep]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def connected(self) -> int:
        """How many servers are connected."""
        return sum(member.is_connected for member in self._members)

    @property
    def sent(self) -> list[int]:
        """Requests that were sent, by server."""
        return [member.sent for member in self._members]

    async def pack(
        self,
        domain: str,
        recipient: str,
        content: bytes,
        *,
        version: int = 3,
        treatment: int = 0,
        error: int = 0,
        key_version: int = 0,
        compress: bool = False,
    ) -> bytes:
        """Signs and encrypts. Raises ``Refused`` or ``Unavailable``."""
        codes = {"version": version, "treatment": treatment, "error": error}

        def make(request_id: int) -> bytes:
            options = {"key_version": key_version, "compress": compress}
            return protocol.pack(request_id, domain, recipient, content, **codes, **options)

        answer = await self._ask(make)
        if not isinstance(answer, Packed):
            raise Broken(f"{type(answer).__name__} for a request to pack")
        return answer.message

    async def unpack(self, domain: str, message: bytes, *, sender: str | None = None, inflate: bool = False) -> Unpacked:
        """Decrypts and verifies. Raises ``Refused`` or ``Unavailable``."""
        answer = await self._ask(lambda n: protocol.unpack(n, domain, message, sender=sender, inflate=inflate))
        if not isinstance(answer, Unpacked):
            raise Broken(f"{type(answer).__name__} for a request to unpack")
        return answer

    async def _ask(self, make: Callable[[int], bytes]) -> Response:
        tried: set[int] = set()
        last, pause = None, _AGAIN[0]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                while True:
                    member = self._choose(tried)
                    if member is None:
                        tried.clear()
                        self._changed.clear()
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(pause):
                                await self._changed.wait()
                        pause = min(pause * 2, _AGAIN[1])
                        continue
                    try:
                        answer = await member.ask(make)
                    except _Lost:
                        last = f"{member.server.address}: the connection was lost"
                    else:
                        if not isinstance(answer, Refused):
                            return answer
                        if not answer.reason.is_of_this_server:
                            raise answer
                        last = f"{member.server.address}: {answer}"
                    tried.add(id(member))
                    self.retried += 1
        last = last or "; ".join(member.why for member in self._members)
        raise Unavailable(f"no server answered in {self._patience:g} s; the last: {last}")

    def _choose(self, tried: set[int]) -> _Member | None:
        """Of those not tried, the one with the least waiting for its weight; among equals, by turns."""
        self._turn += 1
        count = len(self._members)
        turns = (self._members[(self._turn + n) % count] for n in range(count))
        free = [member for member in turns if id(member) not in tried and member.load is not None]
        return min(free, key=lambda member: member.load or 0.0, default=None)
