"""Deltas over paho-mqtt (2.x), MQTT 5.

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    deltas = Deltas(client, on_value=lambda topic, value: print(topic, value))
    deltas.subscribe("feeder/#")
    client.connect("localhost", properties=connect_properties())
    client.loop_forever()

``Deltas`` takes over the client's callbacks for messages, SUBACK, UNSUBACK, PUBACK, connecting and disconnecting, and calls
those that were set before it. Subscriptions are made again after each reconnection.

``deltas.publish(topic, value, qos, retain)`` sends what changed of a topic, where the server takes that.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from .receiver import MARK, PROPERTY, RESYNC_TOPIC, Receiver, Value
from .sender import Sender


def connect_properties(aliases_max: int = 65_535) -> Properties:
    """Properties for ``connect``: the server may give topics numbers, so that their names are sent once, and is asked to
    take what changed from ``Deltas.publish``.
    """
    properties = Properties(PacketTypes.CONNECT)
    properties.UserProperty = (PROPERTY, Sender().offer)
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
        self.receiver, self.sender = receiver or Receiver(), Sender()
        self._client, self._on_value, self._on_lost = client, on_value, on_lost
        self._wanted: dict[str, None] = {}
        self._asked: dict[int, str] = {}
        #: Marked messages that are not answered: topic, number, QoS, whether whole, and over which connection.
        self._marked: dict[int, tuple[str, int, int, bool, int]] = {}
        self._connection = 0
        self._sending = threading.RLock()
        #: Answers that wait for the thread that is sending: paho calls back with locks held that sending needs.
        self._answers: deque[tuple[int, bool]] = deque()
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

    def publish(self, topic: str, value: bytes, qos: int = 0, retain: bool = False):
        """Publishes a topic's value; over the wire goes what changed, where the server takes that. QoS 2 goes whole.

        What the server cannot apply is published once more, whole, unless a newer value of the topic has gone out.
        """
        with self._sending:
            # Those of one QoS and one connection do not overtake one another.
            _, _, first_qos, _, first_over = next(iter(self._marked.values()), ("", 0, qos, True, self._connection))
            in_turn = (first_qos, first_over) == (qos, self._connection)
            may_mark = in_turn and qos < 2 and self._client.is_connected()
            saying = self.sender.say(topic, value, (qos, retain), may_mark)
            properties = None
            if saying.marked:
                properties = Properties(PacketTypes.PUBLISH)
                properties.UserProperty = (PROPERTY, MARK)
            sent = self._client.publish(topic, saying.payload, qos, retain, properties)
            if saying.marked and sent.rc not in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_NO_CONN):
                self.sender.handle_refused(topic)
            elif saying.marked and qos:
                self._marked[sent.mid] = (topic, saying.number, qos, not saying.is_delta, self._connection)
        self._take_answers()
        return sent

    def _take_answers(self) -> None:
        """A thread that finds the lock held leaves its answer to the holder, who looks again when it lets go."""
        while self._answers and self._sending.acquire(blocking=False):
            try:
                while self._answers:
                    mid, refused = self._answers.popleft()
                    topic, number, _, is_whole, _ = self._marked.pop(mid, ("", 0, 0, True, 0))
                    last = self.sender.handle_refused(topic, number) if topic and refused else None
                    if last and not is_whole:
                        self.publish(topic, last[0], *last[1])
            finally:
                self._sending.release()

    def _ask(self, topic_filter: str) -> None:
        properties = Properties(PacketTypes.SUBSCRIBE)
        properties.UserProperty = (PROPERTY, self.receiver.offer)
        with self._asking:
            _, mid = self._client.subscribe(topic_filter, qos=0, properties=properties)
            self._asked[mid] = topic_filter

    def _on_connect(self, client, userdata, flags, reason, properties) -> None:
        self.receiver.handle_disconnect()
        answers = [value for name, value in getattr(properties, "UserProperty", []) if name == PROPERTY]
        with self._sending:
            self._connection += 1
            self.sender.handle_connack(answers[0] if answers else None)
        self._asked.clear()
        for topic_filter in self._wanted:
            self._ask(topic_filter)
        self._call("on_connect", client, userdata, flags, reason, properties)

    def _on_disconnect(self, *args) -> None:
        self.receiver.handle_disconnect()
        with self._sending:
            self.sender.handle_disconnect()
        self._call("on_disconnect", *args)

    def _on_publish(self, client, userdata, mid, reason, properties) -> None:
        self._answers.append((mid, reason.is_failure))
        self._take_answers()
        self._call("on_publish", client, userdata, mid, reason, properties)

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
        if message.topic == RESYNC_TOPIC:
            topic = message.payload.decode(errors="replace")
            with self._sending:
                last = self.sender.handle_refused(topic)
                if last:
                    self.publish(topic, last[0], *last[1])
            return
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


_CALLBACKS = ("on_connect", "on_disconnect", "on_message", "on_publish", "on_subscribe", "on_unsubscribe")
