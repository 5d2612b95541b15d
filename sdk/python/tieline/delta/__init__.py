"""Topics sent as what changed, decoded without any I/O; ``paho`` joins it to paho-mqtt. The format is docs/delta.md.

    receiver = Receiver()
    receiver.handle_suback("feeder/#", "point,hunk")
    for event in receiver.handle_publish("feeder/amps", payload, alias, marked):
        print(event.topic, event.value)

A value is a ``Point`` or bytes. ``Lost`` says that a topic's value is unknown until the next one. Publishers have
``Sender``.
"""

from .codecs import Codecs
from .decoder import CHECKED, WAITING, Decoder
from .cursor import Broken
from .point import Point
from .receiver import MARK, PROPERTY, RESYNC_TOPIC, Lost, Receiver, Value, matches
from .sender import Saying, Sender

__all__ = [
    "Broken", "CHECKED", "Codecs", "Decoder", "Lost", "MARK", "PROPERTY", "Point", "RESYNC_TOPIC", "Receiver",
    "Saying", "Sender", "Value", "WAITING", "matches",
]
