"""The receiver's side of one topic."""

from __future__ import annotations

import zlib

from .codecs import Codecs
from .cursor import Broken, Cursor
from .point import Point, State

_POINT = 2


class _Said:
    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return self._name


#: The sender says that the value held is the present one.
CHECKED = _Said("CHECKED")
#: A delta from a value that was lost: dropped.
WAITING = _Said("WAITING")


class Decoder:
    """The value that the next delta is told against. It belongs to one connection."""

    __slots__ = ("_codecs", "_bytes_max", "_held", "revision", "is_waiting")

    def __init__(self, codecs: Codecs, bytes_max: int = 16 << 20):
        self._codecs, self._bytes_max = codecs, bytes_max
        self._held: State | bytes | None = None
        self.revision, self.is_waiting = 0, False

    @property
    def value(self) -> Point | bytes | None:
        """The value held, as far as it is known to be the sender's."""
        if self.is_waiting:
            return None
        return self._held.to_point() if isinstance(self._held, State) else self._held

    def apply(self, payload: bytes) -> Point | bytes | _Said:
        """Takes a payload: the topic's next value, ``CHECKED`` or ``WAITING``.

        Raises ``Broken`` where it cannot be applied; the owner then asks for the whole value, once.
        """
        if not payload:
            self._held, self.is_waiting = None, False
            return b""
        if self.is_waiting and payload[0] >> 5 > 1:
            return WAITING
        try:
            return self._apply(payload)
        except Broken:
            self.is_waiting = True
            raise

    def _apply(self, payload: bytes) -> Point | bytes | _Said:
        cursor = Cursor(payload)
        first = cursor.u8()
        kind, revision = first >> 5, first & 31
        if kind < 2:
            held, count = self._whole(kind, cursor.rest()), 0
        else:
            codec = cursor.u8() if kind == 7 else kind
            if kind == 7 and not 8 <= codec <= 15:
                raise Broken("not a codec's number")
            count = cursor.u8() if kind == 6 else 1
            if count > 31:
                raise Broken("more than 31 updates at once")
            checked = count == 0 or (revision + count) % 32 == 0
            crc = int.from_bytes(cursor.take(4), "little") if checked else None
            held = self._next(kind, codec, revision, count, cursor)
            if checked and zlib.crc32(held.emit() if isinstance(held, State) else held) != crc:
                raise Broken("the value's CRC-32 is not the sender's")
        self._held, self.revision, self.is_waiting = held, (revision + count) % 32, False
        return CHECKED if kind == 6 and count == 0 else self.value

    def _whole(self, kind: int, data: bytes) -> State | bytes:
        if kind == 1:
            return State.parse(data, self._bytes_max)
        if len(data) > self._bytes_max:
            raise Broken(f"a value of more than {self._bytes_max} bytes")
        return bytes(data)

    def _next(self, kind: int, codec: int, revision: int, count: int, cursor: Cursor) -> State | bytes:
        held = self._held
        if held is None:
            raise Broken("a delta before any whole value")
        if revision != self.revision:
            raise Broken(f"a delta from revision {revision} while revision {self.revision} is held")
        if kind == 5:
            if not cursor.is_empty:
                raise Broken("bytes after a repeated value")
            return held
        if kind != 6:
            return self._delta(held, codec, cursor.rest())
        items = 0
        while not cursor.is_empty:
            items += 1
            if items > count:
                raise Broken("more deltas than updates")
            codec = cursor.u8()
            held = self._delta(held, codec, cursor.take(cursor.varint()))
        return held

    def _delta(self, held: State | bytes, codec: int, delta: bytes) -> State | bytes:
        if isinstance(held, State) != (codec == _POINT):
            raise Broken("a delta for a value of another form")
        if isinstance(held, State):
            return held.apply(delta, self._bytes_max)
        return self._codecs.apply(codec, held, delta, self._bytes_max)
