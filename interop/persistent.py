"""Clients whose sessions outlive connections and kills, and who know what was acknowledged to them."""

import queue
import struct
import threading
from collections import Counter

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from waiting import until

PACKET_IDENTIFIER_NOT_FOUND = 0x92


class Client(paho.Client):
    """paho 2.2 sends PUBREL whatever PUBREC says. What was refused then gets the same PUBCOMP, 0x92, as what was released before a
    kill: so it is noted here which PUBREC were refusals."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.refused = set()

    def _handle_pubrec(self):
        mid, reason = struct.unpack_from("!HB", bytes(self._in_packet["packet"]) + b"\0")
        if reason >= 0x80:
            self.refused.add(mid)
        return super()._handle_pubrec()


def persistent(name, node, **callbacks):
    """A client of 5.0 whose session stays. It does not come back by itself: where paho has to try twice, it forgets what had
    PUBREC, and publishes it as if it were new (`_messages_reconnect_reset_out`)."""
    version = paho.CallbackAPIVersion.VERSION2
    client = Client(version, client_id=name, protocol=paho.MQTTv5, reconnect_on_failure=False)
    client.max_inflight_messages_set(20)
    for event, call in callbacks.items():
        setattr(client, event, call)
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 3600
    client.connect("127.0.0.1", node.mqtt_port, clean_start=False, properties=properties)
    client.loop_start()
    until(client.is_connected, f"{name} connects")
    return client


class Publisher:
    """Counts upwards at QoS 1 and 2 and knows what was acknowledged. What is refused is published again."""

    def __init__(self, number, node):
        self.number, self.acks = number, queue.Queue()
        self.next, self.waiting, self.acknowledged, self.refused = 0, {}, {1: set(), 2: set()}, 0
        self.last = 0  # of the retained value
        # Called with paho's lock held: what comes is looked at elsewhere.
        told = lambda client, data, mid, reason, properties: self.acks.put((mid, reason))  # noqa: E731
        self.client = persistent(f"publisher{number}", node, on_publish=told)

    def collect(self):
        """Takes the acknowledgements that have come; how many there are by now."""
        while not self.acks.empty():
            mid, reason = self.acks.get()
            qos, value, retain = self.waiting.pop(mid)
            # A PUBREL that is sent again for what was released before the kill (MQTT 5.0 section 3.7.2.1).
            was_released = reason.value == PACKET_IDENTIFIER_NOT_FOUND and mid not in self.client.refused
            self.client.refused.discard(mid)
            if reason.is_failure and not was_released:
                self.refused += 1
                self.publish(qos, value, retain)
                continue
            self.acknowledged[qos].add(value)
            if retain:
                self.last = max(self.last, value)
        return sum(len(values) for values in self.acknowledged.values())

    def publish(self, qos, value, retain):
        topic = f"value/{self.number}" if retain else f"load/{self.number}/{qos}"
        self.waiting[self.client.publish(topic, str(value), qos, retain).mid] = (qos, value, retain)

    def push(self, count):
        for _ in range(count):
            self.next += 1
            self.publish(1 + self.next % 2, self.next, self.next % 5 == 0)

    def done(self):
        self.collect()
        return not self.waiting


class Subscriber:
    """Counts what comes."""

    def __init__(self, number, node):
        self.seen = Counter()
        self.granted = threading.Event()
        # The session holds the subscription: it is made once.
        self.client = persistent(
            f"subscriber{number}", node, on_message=self.on_message, on_subscribe=lambda *_: self.granted.set()
        )
        self.client.subscribe("load/#", 2)
        assert self.granted.wait(15)

    def on_message(self, client, data, message):
        self.seen[message.topic, int(message.payload)] += 1


def come_back(clients, node):
    """The clients connect to a node that has started again."""
    for client in clients:
        client.loop_stop()
        client.reconnect()
        client.loop_start()
    until(lambda: all(client.is_connected() for client in clients), node.process.said, 30)


def gone(clients):
    """Waits until the clients know that their node has gone."""
    until(lambda: not any(client.is_connected() for client in clients), lambda: [client.is_connected() for client in clients])
