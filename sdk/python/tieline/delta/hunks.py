"""The hunks that lead from one value to the next: what ``crates/wire/delta`` would say, byte for byte.

Most updates overwrite fields: both values are compared at the same places. Where a field changed its length, the places are
found again by trying shifts in the order of their size. Work is bounded by a budget of compared bytes: what is left when it
is spent is one hunk. Output is bounded by the caller, who sends the whole value where it would be more.
"""

from __future__ import annotations

from .cursor import varint

#: Equal bytes that are not worth a hunk of their own: they would cost as much.
_GAP = 4
#: Bytes after a difference among which the places are looked for.
_WINDOW = 96
#: The largest shift tried.
_SHIFT_MAX = 64
#: Equal bytes that make a place believable, and those after which no better place is looked for.
_MATCH_MIN, _MATCH_SURE = 6, 24
#: Bytes compared for each byte of the longer value.
_BUDGET = 8
#: A value that is shorter has the budget of one of so many bytes.
_SHORT = 1024
#: What a shift costs of that, besides the bytes compared.
_SHIFT_COST = 8
#: Bytes compared at once.
_WIDE = 64


def hunk_of(base: bytes, value: bytes, bytes_max: int) -> bytes | None:
    """What makes a value of a base; nothing where that is more than so many bytes."""
    if len(base) == len(value):
        # A field that moved makes everything after it differ: then the places are looked for.
        delta = _same_places(base, value, min(bytes_max, len(base) // 4 + 16))
        if delta is not None:
            return delta
    return _Work(base, value).run(bytes_max)


def _same_places(base: bytes, value: bytes, bytes_max: int) -> bytes | None:
    """The hunks of two values of one length, place by place."""
    out, at = bytearray(), 0
    while len(out) <= bytes_max:
        copy = _equal(base, at, value, at, len(value) - at)
        at += copy
        if at == len(value):
            return bytes(out)
        end = _end_of_difference(base, value, at)
        out += _hunk(copy, end - at, value[at:end])
        at = end
    return None


def _end_of_difference(base: bytes, value: bytes, at: int) -> int:
    end = at + 1
    for look in range(end, len(value)):
        if base[look] != value[look]:
            end = look + 1
        elif look - end == _GAP - 1:
            break
    return end


class _Work:
    """Two values, each from a place on."""

    def __init__(self, base: bytes, value: bytes):
        tail = _equal_behind(base, value)
        self._base, self._base_at, self._base_end = base, 0, len(base) - tail
        self._value, self._value_at, self._value_end = value, 0, len(value) - tail
        self._budget = _BUDGET * max(len(base), len(value), _SHORT)

    def run(self, bytes_max: int) -> bytes | None:
        """The hunks; nothing where they are more than so many bytes."""
        out = bytearray()
        while True:
            most = min(self._base_end - self._base_at, self._value_end - self._value_at)
            copy = _equal(self._base, self._base_at, self._value, self._value_at, most)
            self._base_at += copy
            self._value_at += copy
            if (self._base_at, self._value_at) == (self._base_end, self._value_end):
                return bytes(out)
            gone, new = self._next_place()
            if new > bytes_max:
                return None
            out += _hunk(copy, gone, self._value[self._value_at : self._value_at + new])
            if len(out) > bytes_max:
                return None
            self._base_at += gone
            self._value_at += new

    def _next_place(self) -> tuple[int, int]:
        """Where both go on together: bytes of the base to leave out, bytes of the value to insert."""
        all_left = (self._base_end - self._base_at, self._value_end - self._value_at)
        if self._budget < _SHIFT_COST:
            return all_left
        place = (min(all_left[0], _WINDOW), min(all_left[1], _WINDOW))
        # Where that is all that is left, the equal bytes behind it are certain.
        best = least = _MATCH_MIN if place == all_left else 0
        for shift in range(min(_SHIFT_MAX, max(place)) + 1):
            for gone, new in ((0, shift), (shift, 0)):
                found = self._along(self._base_at + gone, self._value_at + new)
                if found is None:
                    continue
                skip, length = found
                score = max(length + _WINDOW + _SHIFT_MAX - (new + skip) - (shift > 0), 0)
                if score > best:
                    best, place = score, (gone + skip, new + skip)
                if length >= _MATCH_SURE:
                    return place
                if shift == 0:
                    break
            if self._budget < _SHIFT_COST:
                return place if best > least else all_left
            self._budget -= _SHIFT_COST
        return place

    def _along(self, base_at: int, value_at: int) -> tuple[int, int] | None:
        """The first run of equal bytes with both at fixed places: bytes before it, and its length."""
        count = min(self._base_end - base_at, self._value_end - value_at, _WINDOW + _MATCH_SURE)
        looked = equal = 0
        for old, new in zip(self._base[base_at : base_at + count], self._value[value_at : value_at + count]):
            if old == new:
                looked += 1
                equal += 1
                if equal == _MATCH_SURE:
                    break
            elif equal >= _MATCH_MIN or looked >= _WINDOW:
                break
            else:
                looked += 1
                equal = 0
        self._budget = max(self._budget - looked, 0)
        return (looked - equal, equal) if equal >= _MATCH_MIN else None


def _hunk(copy: int, gone: int, new: bytes) -> bytes:
    if gone == len(new):
        return varint(copy << 1) + varint(gone) + new
    return varint(copy << 1 | 1) + varint(len(new)) + varint(gone) + new


def _equal(base: bytes, base_at: int, value: bytes, value_at: int, most: int) -> int:
    """Equal bytes from two places on."""
    count = 0
    while count + _WIDE <= most:
        old = base[base_at + count : base_at + count + _WIDE]
        if old != value[value_at + count : value_at + count + _WIDE]:
            break
        count += _WIDE
    while count < most and base[base_at + count] == value[value_at + count]:
        count += 1
    return count


def _equal_behind(base: bytes, value: bytes) -> int:
    """Equal bytes from the end."""
    count, most = 0, min(len(base), len(value))
    while count < most and base[-1 - count] == value[-1 - count]:
        count += 1
    return count
