"""Deltas over paho-mqtt (2.x), MQTT 5.

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    deltas = Deltas(client, on_value=lambda topic, value: print(topic, value))
    deltas.subscribe("feeder/#")
    client.connect("localhost", properties=connect_properties())
    client.loop_forever()

``Deltas`` takes over the client's callbacks for messages, SUBACK, UNSUBACK, connecting and disconnecting, and calls
those that were set before it. Subscriptions are made again after each reconnection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from .receiver import MARK, PROPERTY, RESYNC_TOPIC, Receiver, Value


def connect_properties(aliases_max: int = 65_535) -> Properties:
    """Properties for ``connect``: the server may give topics numbers, so that their names are sent once."""
    properties = Properties(PacketTypes.CONNECT)
    properties.TopicAliasMaximum = aliases_max
    return properties


class Deltas:
    """Joins a ``Receiver`` to a client of paho-mqtt."""

    def __init__(
        self,
        client: Any,
        on_value: Callable[[str, Any], None],
        on_lost: Callable[[str, str], None] | None = None,
        receiver: Receiver | None = None,
    ):
        self.receiver = receiver or Receiver()
        self._client, self._on_value, self._on_lost = client, on_value, on_lost
        self._wanted: dict[str, None] = {}
        self._asked: dict[int, str] = {}
        # An answer may come before the call that asked has returned.
        self._asking = threading.RLock()
        self._before = {name: getattr(client, name) for name in _CALLBACKS}
        for name in _CALLBACKS:
            setattr(client, name, getattr(self, f"_{name}"))

    def subscribe(self, topic_filter: str) -> None:
        """Subscribes with deltas, as soon as and whenever there is a connection."""
        self._wanted[topic_filter] = None
        if self._client.is_connected():
            self._ask(topic_filter)

    def unsubscribe(self, topic_filter: str) -> None:
        """Takes a subscription back."""
        self._wanted.pop(topic_filter, None)
        if self._client.is_connected():
            with self._asking:
                _, mid = self._client.unsubscribe(topic_filter)
                self._asked[mid] = topic_filter

    def _ask(self, topic_filter: str) -> None:
        properties = Properties(PacketTypes.SUBSCRIBE)
        properties.UserProperty = (PROPERTY, self.receiver.offer)
        with self._asking:
            _, mid = self._client.subscribe(topic_filter, qos=0, properties=properties)
            self._asked[mid] = topic_filter

    def _on_connect(self, client, userdata, flags, reason, properties) -> None:
        self.receiver.handle_disconnect()
        self._asked.clear()
        for topic_filter in self._wanted:
            self._ask(topic_filter)
        self._call("on_connect", client, userdata, flags, reason, properties)

    def _on_disconnect(self, *args) -> None:
        self.receiver.handle_disconnect()
        self._call("on_disconnect", *args)

    def _on_subscribe(self, client, userdata, mid, reasons, properties) -> None:
        with self._asking:
            topic_filter = self._asked.pop(mid, None)
        if topic_filter is not None and not any(reason.is_failure for reason in reasons):
            answers = [value for name, value in getattr(properties, "UserProperty", []) if name == PROPERTY]
            self.receiver.handle_suback(topic_filter, answers[0] if answers else None)
        self._call("on_subscribe", client, userdata, mid, reasons, properties)

    def _on_unsubscribe(self, client, userdata, mid, reasons, properties) -> None:
        with self._asking:
            topic_filter = self._asked.pop(mid, None)
        if topic_filter is not None:
            self.receiver.handle_unsuback(topic_filter)
        self._call("on_unsubscribe", client, userdata, mid, reasons, properties)

    def _on_message(self, client, userdata, message) -> None:
        alias = getattr(message.properties, "TopicAlias", None)
        marked = (PROPERTY, MARK) in getattr(message.properties, "UserProperty", ())
        for event in self.receiver.handle_publish(message.topic, message.payload, alias, marked):
            if isinstance(event, Value):
                self._on_value(event.topic, event.value)
            elif self._on_lost:
                self._on_lost(event.topic, event.why)
        while (topic := self.receiver.poll_resync()) is not None:
            client.publish(RESYNC_TOPIC, topic, qos=0)
        self._call("on_message", client, userdata, message)

    def _call(self, name: str, *args: Any) -> None:
        if self._before[name]:
            self._before[name](*args)


_CALLBACKS = ("on_connect", "on_disconnect", "on_message", "on_subscribe", "on_unsubscribe")
