"""The frames of the binary protocol, without I/O.

    bytes   4        1      4      length - 5
             length   kind   id     body

Numbers have the high byte first.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

VERSION = 1
#: Bytes that a frame may have besides message or content.
OVERHEAD_BYTES_MAX = 1024

_HEAD = struct.Struct(">IBI")
_LENGTH = struct.Struct(">I")
_WELCOME = struct.Struct(">BIQ")
_U32 = struct.Struct(">I")
_ANY_SENDER = b"\0" * 8


class Broken(Exception):
    """The server sent what the protocol does not have."""


class Reason(IntEnum):
    """Why a request is refused."""

    REQUEST = 1
    RIGHT = 2
    MESSAGE = 3
    TOO_LARGE = 4
    BUSY = 5
    CLOSING = 6
    FAILED = 7

    @property
    def is_of_this_server(self) -> bool:
        """Whether another server may answer differently."""
        return self in (Reason.BUSY, Reason.CLOSING, Reason.FAILED)


class Refused(Exception):
    """A server refused, and others would too.

    ``code`` is the value of C03 that tells the sender of a message; 0 where no message is to blame.
    """

    def __init__(self, reason: Reason, code: int, text: str):
        super().__init__(text)
        self.reason, self.code, self.text = reason, code, text


@dataclass(frozen=True)
class Welcome:
    """The token is known."""

    version: int
    #: Requests that may wait for their answers.
    in_flight_max: int
    #: Bytes of content at most.
    content_bytes_max: int


@dataclass(frozen=True)
class Unpacked:
    """Verified content. ``error`` (C03) and ``treatment`` (C04) are as they came, not authenticated."""

    #: The ISPB of the institution whose key signed, eight digits.
    sender: str
    error: int
    treatment: int
    content: bytes


@dataclass(frozen=True)
class Packed:
    """A sealed message."""

    message: bytes


@dataclass(frozen=True)
class Pong:
    """The server is there; so many operations wait."""

    waiting: int


@dataclass(frozen=True)
class Closing:
    """The server stops: what was asked is answered, nothing more is read."""


Response = Welcome | Packed | Unpacked | Pong | Closing | Refused


def _frame(kind: int, request_id: int, *body: bytes) -> bytes:
    data = sum(map(len, body))
    return b"".join((_HEAD.pack(data + 5, kind, request_id), *body))


def hello(token: str) -> bytes:
    """The first frame of a connection."""
    return _frame(0x01, 0, bytes([VERSION]), token.encode())


def ping() -> bytes:
    """Asks whether the server is there."""
    return _frame(0x04, 0)


def pack(
    request_id: int,
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
    """Asks to sign and encrypt. ``version`` is C02, ``error`` C03, ``treatment`` C04; key version 0 is the highest."""
    codes = bytes([_byte("version", version), _byte("error", error), _byte("treatment", treatment), compress])
    return _frame(0x02, request_id, _domain(domain), _ispb(recipient), _U32.pack(key_version), codes, content)


def unpack(request_id: int, domain: str, message: bytes, *, sender: str | None = None, inflate: bool = False) -> bytes:
    """Asks to decrypt and verify; without ``sender``, a message of any peer."""
    named = _ispb(sender) if sender is not None else _ANY_SENDER
    return _frame(0x03, request_id, _domain(domain), named, bytes([inflate]), message)


def _domain(domain: str) -> bytes:
    data = domain.encode()
    if not 0 < len(data) < 256:
        raise ValueError(f"domain {domain!r} has {len(data)} bytes, expected 1 to 255")
    return bytes([len(data)]) + data


def _ispb(text: str) -> bytes:
    if len(text) != 8 or not (text.isascii() and text.isdigit()):
        raise ValueError(f"ISPB {text!r}, expected eight digits")
    return text.encode()


def _byte(name: str, value: int) -> int:
    if not 0 <= value <= 255:
        raise ValueError(f"{name} {value}, expected 0 to 255")
    return value


class Decoder:
    """Takes bytes as they come and gives whole frames; holds at most one frame of ``bytes_max`` and what follows."""

    def __init__(self, bytes_max: int = OVERHEAD_BYTES_MAX):
        self.bytes_max = bytes_max
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, Response]]:
        """The responses that are whole, each with the id of its request.

        Raises ``Broken`` for what the protocol does not have.
        """
        self._bytes += data
        found, at = [], 0
        while len(self._bytes) - at >= 4:
            (length,) = _LENGTH.unpack_from(self._bytes, at)
            if not 5 <= length <= self.bytes_max:
                raise Broken(f"a frame of {length} bytes, expected 5 to {self.bytes_max}")
            if len(self._bytes) - at < 4 + length:
                break
            found.append(_parse(bytes(memoryview(self._bytes)[at + 4 : at + 4 + length])))
            if isinstance(found[-1][1], Welcome):
                self.bytes_max = found[-1][1].content_bytes_max + OVERHEAD_BYTES_MAX
            at += 4 + length
        del self._bytes[:at]
        return found


def _parse(frame: bytes) -> tuple[int, Response]:
    kind, (request_id,), body = frame[0], _U32.unpack_from(frame, 1), frame[5:]
    try:
        return request_id, _PARSERS[kind](body)
    except (KeyError, IndexError, ValueError, struct.error) as error:
        raise Broken(f"a frame of kind {kind:02x} cannot be read: {error}") from error


def _parse_unpacked(body: bytes) -> Unpacked:
    if len(body) < 10:
        raise ValueError(f"{len(body)} bytes, expected 10 or more")
    return Unpacked(body[:8].decode("ascii"), body[8], body[9], body[10:])


_PARSERS = {
    0x81: lambda body: Welcome(*_WELCOME.unpack(body)),
    0x82: Packed,
    0x83: _parse_unpacked,
    0x84: lambda body: Pong(*_U32.unpack(body)),
    0x85: lambda _: Closing(),
    0x8F: lambda body: Refused(Reason(body[0]), body[1], body[2:].decode()),
}
