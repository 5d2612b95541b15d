"""Subscribers that do not keep up, over real sockets: what they are sent in the end, and what others feel of it."""

import socket
import struct

import pytest
from waiting import until


@pytest.fixture
def node(start_node):
    return start_node()


def varint(n):
    out = b""
    while True:
        n, low = n >> 7, n & 0x7F
        out += bytes([low | (0x80 if n else 0)])
        if not n:
            return out


def text(words):
    return struct.pack(">H", len(words)) + words.encode()


def packet(first, body):
    return bytes([first]) + varint(len(body)) + body


def user_block(user_properties):
    properties = b"".join(b"\x26" + text(name) + text(value) for name, value in user_properties)
    return varint(len(properties)) + properties


class Raw:
    """An MQTT 5.0 client that reads only when it is told to, and has little room for what it does not read."""

    def __init__(self, address, name, user_properties=()):
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(20)
        self.socket.connect((host, int(port)))
        self.buffer = b""
        properties = user_block(user_properties)
        self.socket.sendall(packet(0x10, text("MQTT") + bytes([5, 2, 0, 0]) + properties + text(name)))
        first, body = self.read()
        assert first >> 4 == 2
        self.reason = body[1]

    def subscribe(self, topic, user_properties=()):
        body = struct.pack(">H", 1) + user_block(user_properties) + text(topic) + b"\x00"
        self.socket.sendall(packet(0x82, body))
        first, body = self.read()
        assert first >> 4 == 9
        return body[-1]

    def publish(self, topic, payload, retain=True):
        self.socket.sendall(packet(0x30 | retain, text(topic) + b"\x00" + payload))

    def settle(self):
        self.socket.sendall(b"\xc0\x00")
        assert self.read()[0] >> 4 == 13

    def read(self):
        while True:
            whole = self.whole()
            if whole:
                return whole
            data = self.socket.recv(65536)
            assert data, "the connection ended"
            self.buffer += data

    def whole(self):
        length, at = 0, 1
        while True:
            if at >= len(self.buffer):
                return None
            byte = self.buffer[at]
            length |= (byte & 0x7F) << 7 * (at - 1)
            at += 1
            if byte < 0x80:
                break
        if len(self.buffer) < at + length:
            return None
        first, body = self.buffer[0], self.buffer[at : at + length]
        self.buffer = self.buffer[at + length :]
        return first, body

    def message(self):
        """Topic, payload and user properties of the next PUBLISH."""
        first, body = self.read()
        assert first >> 4 == 3
        length = struct.unpack(">H", body[:2])[0]
        topic, rest = body[2 : 2 + length].decode(), body[2 + length :]
        properties, payload = rest[1 : 1 + rest[0]], rest[1 + rest[0] :]
        return topic, payload, properties


TOPICS = 20
VALUE = 4000


def value(update):
    return b"%08d" % update + b"x" * VALUE


def test_a_reader_that_stopped_is_sent_the_newest_value_of_each_topic(node):
    """4 MB are published to a client that reads nothing; it gets what its socket held, and then the last values."""
    slow, publisher = Raw(node.mqtt, "slow"), Raw(node.mqtt, "publisher")
    assert slow.subscribe("slow/#") == 0
    for update in range(1000):
        publisher.publish(f"slow/{update % TOPICS}", value(update))
    publisher.settle()
    seen, count = {}, 0
    while len(seen) < TOPICS or any(int(v) < 1000 - TOPICS for v in seen.values()):
        topic, payload, _ = slow.message()
        assert int(payload[:8]) >= int(seen.get(topic, 0)), "a value came after a newer one"
        seen[topic] = payload[:8]
        count += 1
    assert count < 500, "what was owed was a queue"
    assert {topic: int(v) for topic, v in seen.items()} == {f"slow/{n}": 1000 - TOPICS + n for n in range(TOPICS)}


def test_every_message_or_a_gap_that_is_told(node):
    """With `all`, messages beyond the limit are missing, and the next one says how many."""
    slow, publisher = Raw(node.mqtt, "all"), Raw(node.mqtt, "publisher")
    assert slow.subscribe("all", [("tieline-slow", "all")]) == 0
    for update in range(1000):
        publisher.publish("all", value(update))
    publisher.settle()
    due, lost = 0, 0
    while due < 1000:
        _, payload, properties = slow.message()
        if properties:
            assert properties[1:15] == text("tieline-lost")
            missing = int(properties[17:])
            due, lost = due + missing, lost + missing
        assert int(payload[:8]) == due
        due += 1
    assert lost > 0


def test_a_client_that_wants_everything_or_nothing_is_ended(node):
    slow, publisher = Raw(node.mqtt, "end"), Raw(node.mqtt, "publisher")
    assert slow.subscribe("end", [("tieline-slow", "disconnect")]) == 0
    for update in range(1000):
        publisher.publish("end", value(update))
    publisher.settle()
    with pytest.raises((AssertionError, ConnectionError)):
        while True:
            slow.message()


def test_delivery_options_that_are_not_valid_are_refused(node):
    client = Raw(node.mqtt, "wrong")
    assert client.subscribe("a", [("tieline-window", "101")]) == 0x83
    assert client.subscribe("a", [("tieline-window", "100"), ("tieline-throttle", "1000")]) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_write_window_leaves_nothing_out(start_node, workers):
    """Values wait for one another and come in their order, those of one topic too; a value that is urgent waits for nothing."""
    node = start_node(more=f'workers = {workers}\n[mqtt]\nprotection = ["urgent"]\n')
    client = Raw(node.mqtt, "gathers", [("tieline-write-window", "100")])
    publisher = Raw(node.mqtt, "publisher")
    assert client.reason == 0 and client.subscribe("#") == 0
    for update in range(50):
        publisher.publish(f"topic/{update % 3}", b"%08d" % update)
    publisher.publish("urgent", b"%08d" % 50)
    got = [client.message() for _ in range(51)]
    assert [int(payload[:8]) for _, payload, _ in got] == list(range(51)), got
    # The last of a series comes when its window ends, though nothing follows.
    publisher.publish("topic/1", b"%08d" % 51)
    publisher.publish("topic/1", b"%08d" % 52)
    assert [int(client.message()[1][:8]) for _ in range(2)] == [51, 52]
    assert Raw(node.mqtt, "part", [("tieline-write-window", "1.5")]).reason == 0
    for wrong in ("101", "-1", "NaN", "1,5", ""):
        assert Raw(node.mqtt, "wrong", [("tieline-write-window", wrong)]).reason == 0x83, wrong


def test_a_reader_that_stopped_is_seen(node):
    """Sessions, metrics and `$SYS` say who is late, what waits, and that it is over."""
    slow, publisher = Raw(node.mqtt, "slow"), Raw(node.mqtt, "publisher")
    assert slow.subscribe("slow/#") == 0
    for update in range(1000):
        publisher.publish(f"slow/{update % TOPICS}", value(update))
    publisher.settle()

    def first():
        return node.request("/v1/sessions")[1]["sessions"][0]

    session = until(lambda: first()["late_ms"] > 0 and first(), "a session that is late")
    assert (session["client"], session["blocked"]) == ("slow", True)
    assert 0 < session["waiting"] <= TOPICS and session["conflated"] > 0, session
    _, metrics = node.request("/metrics")
    assert "\ntieline_mqtt_late_sessions 1\n" in metrics
    _, status = node.request("/v1/status")
    assert status["lag"]["sessions"] == 1 and status["lag"]["ms"] >= session["late_ms"] > 0
    seen = {}
    while any(int(seen.get(f"slow/{n}", 0)) < 1000 - TOPICS for n in range(TOPICS)):
        topic, payload, _ = slow.message()
        seen[topic] = payload[:8]
    until(lambda: all(s["late_ms"] == 0 and s["waiting"] == 0 for s in node.request("/v1/sessions")[1]["sessions"]), first)
