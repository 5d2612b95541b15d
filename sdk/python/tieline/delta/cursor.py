"""Reading bytes: every reader raises ``Broken`` where they end or say too much."""

from __future__ import annotations

_U64_MAX = (1 << 64) - 1


class Broken(Exception):
    """The payload cannot be applied; the topic's value is unknown."""


class Cursor:
    """A reader that moves over bytes."""

    __slots__ = ("data", "at")

    def __init__(self, data: bytes, at: int = 0):
        self.data, self.at = data, at

    @property
    def is_empty(self) -> bool:
        return self.at >= len(self.data)

    def u8(self) -> int:
        try:
            byte = self.data[self.at]
        except IndexError:
            raise Broken("it ends too early") from None
        self.at += 1
        return byte

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise Broken("it ends too early")
        taken, self.at = self.data[self.at : end], end
        return taken

    def rest(self) -> bytes:
        return self.data[self.at :]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if value > _U64_MAX or shift > 63:
                raise Broken("an integer of more than 64 bits")
            if byte < 0x80:
                return value
            shift += 7

    def signed(self) -> int:
        return unzigzag(self.varint())


def unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def zigzag(value: int) -> int:
    return (value << 1) ^ (value >> 63)


def varint(value: int) -> bytes:
    """A varint's bytes."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
