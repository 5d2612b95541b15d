"""Values of topics, samples of the history, and outcomes of commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, cast

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Value:
    """The last value of a topic."""

    topic: str
    #: The value of a point; of other kinds the whole payload: parsed JSON, text, or bytes.
    value: Any
    #: good, uncertain or bad; None where the topic is no point, or its value was removed.
    quality: str | None
    #: Reasons against it.
    reasons: tuple[str, ...]
    #: When it was measured; None where the topic is no point.
    time: datetime | None
    #: When the node received it.
    updated: datetime | None
    #: Increases with every new value of the topic.
    version: int | None
    #: point, json, text, binary, or removed.
    kind: str

    @property
    def is_removed(self) -> bool:
        """Whether the topic has no value any more."""
        return self.kind == "removed"

    @classmethod
    def of(cls, found: Json) -> Value:
        """As the node writes it."""
        kind, value = found["kind"], cast(Any, found.get("value"))
        quality: str | None = None
        reasons: tuple[str, ...] = ()
        time: datetime | None = None
        if kind == "point":
            quality, reasons, time = value["q"], tuple(value.get("why", ())), instant(value["t"])
            value = value["v"]
        elif kind == "binary":
            value = bytes.fromhex(value)
        updated = instant(found["updated"]) if "updated" in found else None
        return cls(found["topic"], value, quality, reasons, time, updated, found.get("seq"), kind)

    @classmethod
    def removed(cls, topic: str) -> Value:
        """A topic whose value was removed."""
        return cls(topic, None, None, (), None, None, None, "removed")


@dataclass(frozen=True, slots=True)
class Sample:
    """A recorded value, or what a bucket of time shows."""

    topic: str
    value: Any
    quality: str
    reasons: tuple[str, ...]
    time: datetime
    #: Samples that it stands for; 1 if it was recorded so.
    count: int

    @classmethod
    def of(cls, found: Json) -> Sample:
        """As the node writes it."""
        why = tuple(found.get("why", ()))
        return cls(found["topic"], found["v"], found["q"], why, instant(found["t"]), found.get("count", 1))


@dataclass(frozen=True, slots=True)
class StateDuration:
    """How long a topic had a value, in the whole time of a question or in a bucket of it."""

    topic: str
    #: The value; None while it was unknown.
    value: Any
    quality: str
    #: When the bucket begins.
    time: datetime
    seconds: float
    #: Part of the bucket, 0 to 1.
    share: float
    #: How often the topic came to have the value.
    count: int

    @classmethod
    def of(cls, found: Json) -> StateDuration:
        """As the node writes it."""
        return cls(found["topic"], found["v"], found["q"], instant(found["t"]), found["seconds"], found["share"], found["count"])


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a topic that keeps its last ones."""

    #: Increases by one with each event of the topic; a gap means that older ones were removed.
    seq: int
    time: datetime
    value: Any
    #: point, json, text or binary.
    kind: str

    @classmethod
    def of(cls, found: Json) -> Event:
        """As the node writes it."""
        value = bytes.fromhex(found["value"]) if found["kind"] == "binary" else found["value"]
        return cls(found["seq"], instant(found["time"]), value, found["kind"])


@dataclass(frozen=True, slots=True)
class Done:
    """A command that the device accepted. Its next reading shows ``expected``."""

    topic: str
    value: Any
    expected: Any
    elapsed_ms: float


def instant(text: str) -> datetime:
    """A time as the node writes it."""
    return datetime.fromisoformat(text).astimezone(timezone.utc)


def moment(time: datetime | str) -> str:
    """A time for the node: RFC 3339, or a text as it is, such as ``24h`` ago."""
    if isinstance(time, str):
        return time
    if time.tzinfo is None:
        raise ValueError(f"{time} has no time zone, expected a datetime with one, or text")
    return time.isoformat()
