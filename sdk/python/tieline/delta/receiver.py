"""The receiver's side of a connection: which messages are deltas, the decoders of their topics, whose value to ask for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from .codecs import Codecs
from .decoder import Decoder, _Said
from .cursor import Broken
from .point import Point

#: The user property by which deltas are agreed, and, with the value ``MARK``, by which a PUBLISH says that it is one.
PROPERTY = "tieline-delta"
MARK = "1"
#: Where a topic's name is published to be sent its whole value.
RESYNC_TOPIC = "$tieline/resync"


@dataclass(frozen=True, slots=True)
class Value:
    """A topic's value, whole. Bytes that came plain are bytes too."""

    topic: str
    value: Point | bytes


@dataclass(frozen=True, slots=True)
class Lost:
    """A topic's value is unknown until its next ``Value``; it was asked for."""

    topic: str
    why: str


class Receiver:
    """One connection's receiver; it does no I/O.

    ``topics_max`` topics are held; one more, and the oldest is forgotten, to be asked for at its next delta.
    """

    def __init__(self, codecs: Codecs | None = None, topics_max: int = 1 << 20, bytes_max: int = 16 << 20):
        self.codecs = codecs or Codecs()
        self._topics_max, self._bytes_max = topics_max, bytes_max
        self._filters: set[str] = set()
        self._topics: dict[str, Decoder] = {}
        self._aliases: dict[int, tuple[str, bool]] = {}
        self._resync: deque[str] = deque(maxlen=topics_max)
        self.stats = {"values": 0, "deltas": 0, "lost": 0, "waiting": 0, "forgotten": 0}

    @property
    def offer(self) -> str:
        """The value of the user property for SUBSCRIBE."""
        return ",".join(self.codecs.names)

    def handle_suback(self, topic_filter: str, answer: str | None) -> set[str]:
        """The server granted a filter, with this user property or without. What it will use."""
        used = {name.strip() for name in (answer or "").split(",")} & set(self.codecs.names)
        self._filters.discard(topic_filter)
        if used:
            self._filters.add(topic_filter)
        self._forget_unselected()
        return used

    def handle_unsuback(self, topic_filter: str) -> None:
        """The server took a filter away."""
        self._filters.discard(topic_filter)
        self._forget_unselected()

    def handle_disconnect(self) -> None:
        """All state ends with the connection."""
        for held in (self._filters, self._topics, self._aliases, self._resync):
            held.clear()

    def handle_publish(
        self, topic: str, payload: bytes, alias: int | None = None, marked: bool = False
    ) -> list[Value | Lost]:
        """Takes a PUBLISH: its topic's name (may be empty where an alias says it), the alias if it has one, and whether
        it has the user property ``PROPERTY``: ``MARK``.
        """
        if alias is not None:
            known, was_marked = self._aliases.get(alias, ("", False))
            if marked or (topic and topic != known):
                self._aliases[alias] = topic, marked
            else:
                topic, marked = known, was_marked
        if marked:
            return self._take(topic, payload)
        self.stats["values"] += 1
        return [Value(topic, payload)]

    def poll_resync(self) -> str | None:
        """The next topic whose name is to be published to ``RESYNC_TOPIC``."""
        return self._resync.popleft() if self._resync else None

    def _take(self, topic: str, payload: bytes) -> list[Value | Lost]:
        decoder = self._topics.get(topic)
        if decoder is None:
            if len(self._topics) >= self._topics_max:
                del self._topics[next(iter(self._topics))]
                self.stats["forgotten"] += 1
            decoder = self._topics[topic] = Decoder(self.codecs, self._bytes_max)
        was_waiting = decoder.is_waiting
        try:
            value = decoder.apply(payload)
        except Broken as broken:
            if was_waiting:
                self.stats["waiting"] += 1
                return []
            self.stats["lost"] += 1
            self._resync.append(topic)
            return [Lost(topic, str(broken))]
        if isinstance(value, _Said):
            self.stats["waiting"] += decoder.is_waiting
            return []
        self.stats["values" if not payload or payload[0] >> 5 < 2 else "deltas"] += 1
        return [Value(topic, value)]

    def _forget_unselected(self) -> None:
        selected = lambda topic: any(matches(known, topic) for known in self._filters)  # noqa: E731
        self._topics = {topic: decoder for topic, decoder in self._topics.items() if selected(topic)}


def matches(topic_filter: str, topic: str) -> bool:
    """Whether an MQTT filter selects a topic (MQTT 5 section 4.7)."""
    filters, levels = topic_filter.split("/"), topic.split("/")
    if topic.startswith("$") and filters[0] in ("#", "+"):
        return False
    for at, wanted in enumerate(filters):
        if wanted == "#":
            return True
        if at >= len(levels) or wanted not in ("+", levels[at]):
            return False
    return len(filters) == len(levels)
