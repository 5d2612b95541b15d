"""Points by field."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from .cursor import Broken, Cursor, unzigzag, varint, zigzag

#: Reasons against a value, by bit.
REASONS = (
    "offline", "restart", "comm_lost", "remote_forced", "local_forced", "chatter_filter", "over_range", "reference_err",
    "discontinuity", "away", "stale", "time_unsynced", "initial",
)  # fmt: skip
_BAD = frozenset({"offline", "comm_lost", "over_range", "away", "initial"})
#: Says something about the time, nothing against the value.
_HARMLESS = frozenset({"time_unsynced"})
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_I64_MIN, _I64_MAX = -(1 << 63), (1 << 63) - 1
_MANTISSA_MAX = 1 << 53
_MICROS_MIN, _MICROS_MAX = -62_135_596_800_000_000, 253_402_300_799_999_999
_UNITS = (1, 1000, 1_000_000)
_DOUBLE = struct.Struct("<d")
_BITS = struct.Struct("<Q")

_NULL, _FALSE, _TRUE, _INT, _DECIMAL, _FLOAT, _TEXT, _BYTES = range(8)


@dataclass(frozen=True, slots=True)
class Point:
    """A value with what is needed to trust it."""

    #: None, bool, int, float, str or bytes.
    value: object
    #: Reasons against it; none is good.
    reasons: tuple[str, ...]
    #: Microseconds since 1970, UTC.
    micros: int

    @property
    def quality(self) -> str:
        """The validity: good, uncertain or bad."""
        if _BAD.intersection(self.reasons):
            return "bad"
        return "uncertain" if set(self.reasons) - _HARMLESS else "good"

    @property
    def time(self) -> datetime:
        """When it was so."""
        return _EPOCH + timedelta(microseconds=self.micros)


@dataclass(frozen=True, slots=True)
class State:
    """A point and what its next delta is told against. ``number`` is the mantissa of a decimal, else the value."""

    tag: int
    number: object
    places: int
    quality: int
    micros: int
    unit: int
    step: int

    @classmethod
    def parse(cls, data: bytes, bytes_max: int) -> State:
        """Reads the whole form."""
        cursor = Cursor(data)
        head = cursor.u8()
        unit = head >> 3 & 3
        if head & 0x80 or unit == 3:
            raise Broken("not a point's whole form")
        tag, number, places = _number(head & 7, cursor, bytes_max)
        quality = _quality(cursor) if head & 0x20 else 0
        micros = _time(cursor.signed())
        step = cursor.signed() if head & 0x40 else 0
        if not cursor.is_empty:
            raise Broken("bytes after a point")
        return cls(tag, number, places, quality, micros, unit, step)

    def emit(self) -> bytes:
        """The whole form."""
        out = [bytes([self.tag | self.unit << 3 | (0x20 if self.quality else 0) | (0x40 if self.step else 0)])]
        if self.tag == _INT:
            out.append(varint(zigzag(self.number)))
        elif self.tag == _DECIMAL:
            out += [bytes([self.places]), varint(zigzag(self.number))]
        elif self.tag == _FLOAT:
            out.append(_DOUBLE.pack(self.number))
        elif self.tag in (_TEXT, _BYTES):
            data = self.number.encode() if self.tag == _TEXT else self.number
            out += [varint(len(data)), data]
        if self.quality:
            out.append(varint(self.quality))
        out.append(varint(zigzag(self.micros)))
        if self.step:
            out.append(varint(zigzag(self.step)))
        return b"".join(out)

    def apply(self, delta: bytes, bytes_max: int) -> State:
        """The state that a delta makes of this one."""
        cursor = Cursor(delta)
        first = cursor.varint()
        tag, number, places = self.tag, self.number, self.places
        quality, unit, step = self.quality, self.unit, self.step
        if first & 1 == 0:
            tag, number = self._moved(unzigzag(first >> 1))
            late = not cursor.is_empty
        else:
            flags = first >> 1
            if flags > 0x1F:
                raise Broken("an unknown flag of a point")
            form = flags & 3
            if form == 1:
                tag, number = self._moved(cursor.signed())
            elif form == 2:
                number = self._xored(cursor)
            elif form == 3:
                tag, number, places = _number(cursor.u8(), cursor, bytes_max)
            if flags & 4:
                quality = _quality(cursor)
            if flags & 8:
                pace = cursor.varint()
                unit, step = pace & 3, unzigzag(pace >> 2)
                if unit == 3:
                    raise Broken("an unknown unit of time")
            late = bool(flags & 16)
        residual = cursor.signed() if late else 0
        if not cursor.is_empty:
            raise Broken("bytes after a point")
        micros = _time(self.micros + (step + residual) * _UNITS[unit])
        return State(tag, number, places, quality, micros, unit, step)

    def to_point(self) -> Point:
        value = self.number
        if self.tag == _DECIMAL:
            # The division of two integers rounds correctly, as that of the two doubles does.
            value = self.number / 10**self.places
        reasons = tuple(name for bit, name in enumerate(REASONS) if self.quality >> bit & 1)
        return Point(value, reasons, self.micros)

    def _moved(self, by: int) -> tuple[int, object]:
        if by == 0:
            return self.tag, self.number
        if self.tag in (_FALSE, _TRUE):
            moved = int(self.number) + by
            if moved not in (0, 1):
                raise Broken("a step that the value cannot take")
            return (_TRUE, True) if moved else (_FALSE, False)
        if self.tag == _INT and _I64_MIN <= self.number + by <= _I64_MAX:
            return self.tag, self.number + by
        if self.tag == _DECIMAL and abs(self.number + by) <= _MANTISSA_MAX:
            return self.tag, self.number + by
        raise Broken("a step that the value cannot take")

    def _xored(self, cursor: Cursor) -> float:
        head = cursor.u8()
        zeros, count = head >> 4, head & 15
        if self.tag != _FLOAT or count == 0 or zeros + count > 8:
            raise Broken("an exclusive or of more or less than a double")
        bits = int.from_bytes(cursor.take(count), "little") << 8 * (8 - zeros - count)
        (base,) = _BITS.unpack(_DOUBLE.pack(self.number))
        return _DOUBLE.unpack(_BITS.pack(base ^ bits))[0]


def _number(tag: int, cursor: Cursor, bytes_max: int) -> tuple[int, object, int]:
    """Tag, number and places."""
    if tag in (_NULL, _FALSE, _TRUE):
        return tag, (None, False, True)[tag], 0
    if tag == _INT:
        return tag, cursor.signed(), 0
    if tag == _DECIMAL:
        places, mantissa = cursor.u8(), cursor.signed()
        if places > 15 or abs(mantissa) > _MANTISSA_MAX:
            raise Broken("a decimal beyond 15 places or 53 bits")
        return tag, mantissa, places
    if tag == _FLOAT:
        return tag, _DOUBLE.unpack(cursor.take(8))[0], 0
    if tag not in (_TEXT, _BYTES):
        raise Broken("an unknown kind of value")
    count = cursor.varint()
    if count > bytes_max:
        raise Broken(f"a value of more than {bytes_max} bytes")
    data = cursor.take(count)
    if tag == _BYTES:
        return tag, data, 0
    try:
        return tag, data.decode(), 0
    except UnicodeDecodeError:
        raise Broken("a text that is not UTF-8") from None


def _quality(cursor: Cursor) -> int:
    quality = cursor.varint()
    if quality >> len(REASONS):
        raise Broken("an unknown reason of quality")
    return quality


def _time(micros: int) -> int:
    if not _MICROS_MIN <= micros <= _MICROS_MAX:
        raise Broken("a time outside the years 1 to 9999")
    return micros
