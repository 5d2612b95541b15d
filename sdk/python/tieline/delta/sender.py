"""A publisher's side of a connection: which values go as what changed, and which are to be sent again, whole."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

from .hunks import hunk_of

_HUNK, _SAME = 3, 5
#: What is shorter than a mark goes as it is; so does what clears a topic.
_VALUE_BYTES_MIN = 16
#: Refusals that follow one another closely make a topic's values go plain for a while: 2^(n-1) - 1 of them.
_PAUSE_MAX = 7
_CALM = 256
#: Deltas that do not pay, in a row, make values go whole for a while without an attempt: 2^n - 1 of them.
_FAILED_MAX = 6


@dataclass(frozen=True, slots=True)
class Saying:
    """How a value goes out: the payload, whether it has the user property ``PROPERTY``: ``MARK``, and its number."""

    payload: bytes
    marked: bool
    number: int

    @property
    def is_delta(self) -> bool:
        """Whether it says what changed."""
        return self.marked and self.payload[0] >> 5 > 1


class _Said:
    __slots__ = ("base", "began", "revision", "value", "how", "number", "pause", "refusals", "calm", "failed", "skip")

    def __init__(self) -> None:
        #: What the server holds of this connection, if anything.
        self.base: bytes | None = None
        self.failed = self.skip = 0
        self.began = self.revision = self.number = self.pause = self.refusals = self.calm = 0
        self.value, self.how = b"", None


class Sender:
    """One connection's sender; it does no I/O. ``how`` is what its owner needs to publish a topic's value once more."""

    def __init__(self, topics_max: int = 65_536, bytes_max: int = 16 << 20):
        self._topics_max, self._bytes_max = topics_max, bytes_max
        self._topics: dict[str, _Said] = {}
        self._bytes = 0
        self._number = 0
        self._takes_hunks = False
        self.stats = {"values": 0, "deltas": 0, "refused": 0}

    @property
    def offer(self) -> str:
        """The value of the user property for CONNECT."""
        return "hunk"

    def handle_connack(self, answer: str | None) -> bool:
        """The server let the client in, with this user property or without: whether deltas will be sent."""
        self.handle_disconnect()
        self._takes_hunks = "hunk" in {name.strip() for name in (answer or "").split(",")}
        return self._takes_hunks

    def handle_disconnect(self) -> None:
        """What the server held ends with the connection."""
        self._takes_hunks = False
        for said in self._topics.values():
            said.base = None

    def say(self, topic: str, value: bytes, how: Any = None, may_mark: bool = True) -> Saying:
        """How a topic's next value goes out.

        ``may_mark`` where it will go over this connection, in its turn: not while the connection is away, and not while
        marked messages of an older connection, or of another QoS, are not answered.
        """
        self._number += 1
        if not self._takes_hunks and topic not in self._topics:
            self.stats["values"] += 1
            return Saying(value, False, self._number)
        said = self._topics.get(topic) or _Said()
        said.number, said.how, said.calm = self._number, how, said.calm + 1
        marked = may_mark and self._takes_hunks and not said.pause and len(value) >= _VALUE_BYTES_MIN and topic[:1] != "$"
        said.pause = max(said.pause - 1, 0)
        self._hold(topic, said, value)
        saying = Saying(self._next(said) if marked else value, marked, said.number)
        self.stats["deltas" if saying.is_delta else "values"] += 1
        return saying

    def handle_refused(self, topic: str, number: int | None = None) -> tuple[bytes, Any] | None:
        """The server refused a marked message: the one with this number, or an unknown one. What to publish once more:
        the topic's last value and how, unless a newer one than the one refused has gone out.
        """
        self.stats["refused"] += 1
        said = self._topics.get(topic)
        if said is None:
            return None
        if said.base is not None and (number is None or number >= said.began):
            said.base = None
            said.refusals = 1 if said.calm > _CALM else min(said.refusals + 1, _PAUSE_MAX)
            said.pause, said.calm = (1 << (said.refusals - 1)) - 1, 0
        return (said.value, said.how) if number in (None, said.number) else None

    def _next(self, said: _Said) -> bytes:
        base, held = said.base, said.revision % 32
        said.base, said.revision = said.value, said.revision + 1
        if base is not None:
            crc = zlib.crc32(said.value).to_bytes(4, "little") if said.revision % 32 == 0 else b""
            if base == said.value:
                return bytes([_SAME << 5 | held]) + crc
            delta = self._delta(said, base)
            if delta is not None:
                return bytes([_HUNK << 5 | held]) + crc + delta
        else:
            said.began, said.failed, said.skip = said.number, 0, 0
        return bytes([said.revision % 32]) + said.value

    @staticmethod
    def _delta(said: _Said, base: bytes) -> bytes | None:
        if said.skip:
            said.skip -= 1
            return None
        delta = hunk_of(base, said.value, len(said.value) // 2)
        said.failed = min(said.failed + 1, _FAILED_MAX) if delta is None else 0
        said.skip = (1 << said.failed) - 1
        return delta

    def _hold(self, topic: str, said: _Said, value: bytes) -> None:
        if topic not in self._topics:
            self._bytes += len(topic) + 128
        self._bytes += len(value) - len(said.value)
        said.value = bytes(value)
        self._topics[topic] = said
        while len(self._topics) > self._topics_max or self._bytes > self._bytes_max:
            first = next(iter(self._topics))
            self._bytes -= len(first) + 128 + len(self._topics.pop(first).value)
