"""MQTT clients that mean harm, beside one that does not: each meets a limit, is told its reason, and is counted; the other's
messages come in order and in time."""

import json
import os
import random
import socket
import ssl
import struct
import threading
import time

import pytest
from bus import Paho, read_to_end
from carriers import certificate
from node import Node
from streams import Hand, PING, connect, packet, publish, subscribe, take, text, user_property
from test_mqtt_doors import HANDSHAKE, address
from test_websocket import Web, frame
from waiting import until

PACKET_BYTES_MAX = 256 * 1024
TLS = '{ certificate = "node.pem", key = "node.key" }'
MORE = f"""
[http]
tls = {TLS}
[mqtt]
packet_bytes_max = "256KiB"
[mqtt.tls]
listen = "127.0.0.1:0"
certificate = "node.pem"
key = "node.key"
[mqtt.websocket]
listen = "127.0.0.1:0"
"""
#: Connections that ended because their client did not read.
CLOSED_SLOW = 'tieline_socket_closed_slow_total{column="mqtt"}'
#: What a message of the bystander may take at worst, while a core is shared with who attacks.
WORST_S = 3.0
#: What the node may hold more after an attack than before, in bytes.
GROWN_MAX = 96 << 20


class Target(Node):
    """A node with every door, whose HTTP is over TLS."""

    def __init__(self, folder):
        certificate(folder, "node")
        super().__init__(folder, more=MORE)
        self.trust = ssl.create_default_context(cafile=folder / "node.pem")

    def metrics(self):
        """All samples by their names and labels."""
        host, port = self.http.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=30) as plain:
            with self.trust.wrap_socket(plain, server_hostname=host) as connection:
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                lines = read_to_end(connection).decode().splitlines()
        samples = [line.rsplit(" ", 1) for line in lines if line.startswith("tieline_") and " " in line]
        return {name: float(value) for name, value in samples}

    def ended(self, code):
        """How many clients were ended for a reason."""
        found = [value for name, value in self.metrics().items() if f'ended_total{{code="0x{code:02x}"' in name]
        return found[0] if found else 0

    def metric(self, name):
        return self.metrics().get(name, 0)

    def resident(self):
        """Bytes of memory."""
        pages = int(open(f"/proc/{self.process.process.pid}/statm").read().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


class Bystander:
    """Publishes to itself all the time; every message must come, in order and in time."""

    def __init__(self, node):
        self.node, self.over, self.worst, self.sent = node, threading.Event(), 0.0, 0
        self.trouble = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            with Paho(self.node, name="bystander") as client:
                client.subscribe("bystander/#")
                while not self.over.wait(0.01):
                    began = time.monotonic()
                    client.publish("bystander/a", str(self.sent))
                    message = client.next(20)
                    assert message.payload.decode() == str(self.sent), f"{message.payload} in place of {self.sent}"
                    self.worst = max(self.worst, time.monotonic() - began)
                    self.sent += 1
        except Exception as error:
            self.trouble = error

    def __enter__(self):
        self.thread.start()
        until(lambda: self.sent > 3 or self.trouble, lambda: "the bystander does not come in")
        return self

    def __exit__(self, *_):
        before = self.sent
        until(lambda: self.sent > before + 3 or self.trouble, lambda: "the bystander is stuck")
        self.over.set()
        self.thread.join(30)
        print(f"measured: {self.sent} messages of the bystander, {self.worst * 1000:.0f} ms at worst")
        assert self.trouble is None, self.trouble
        assert self.worst < WORST_S


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """One node for all attacks: what one leaves behind the next would meet."""
    with Target(tmp_path_factory.mktemp("hostile")) as running:
        yield running
        running.alive()


@pytest.fixture
def bystander(node):
    with Bystander(node) as one:
        before = node.resident()
        yield one
        grown = node.resident() - before
        print(f"measured: {grown >> 10} KiB more than before")
        assert grown < GROWN_MAX


def told(client):
    """The reason of the DISCONNECT that comes, behind whatever else."""
    while True:
        whole = client.read()
        if whole.kind == 14:
            return whole.body[0] if whole.body else 0


def text_bytes(data):
    return struct.pack(">H", len(data)) + data


def topic(data):
    """A PUBLISH of QoS 0 to these bytes."""
    return packet(0x30, text_bytes(data) + b"\0x")


def filters(*wanted):
    return packet(0x82, b"\0\1\0" + b"".join(text(one) + b"\0" for one in wanted))


def aliased(alias, name=b"a"):
    return packet(0x30, text_bytes(name) + b"\3\x23" + struct.pack(">H", alias) + b"x")


BROKEN = {
    "a packet of more bytes than are taken": (b"\x30" + b"\x81\x80\x10", 0x95),
    "the longest packet of MQTT": (b"\x30\xff\xff\xff\x7f", 0x95),
    "a length of five bytes": (b"\x30\xff\xff\xff\xff\x01", 0x81),
    "a length that is longer than it needs to be": (b"\xc0\x80\x00", 0x81),
    "overlong UTF-8": (topic(b"a\xc0\xaf"), 0x81),
    "a surrogate": (topic(b"a\xed\xa0\x80"), 0x81),
    "UTF-8 beyond Unicode": (topic(b"a\xf4\x90\x80\x80"), 0x81),
    "half a character": (topic(b"a\xe2\x82"), 0x81),
    "U+0000": (topic(b"a\0b"), 0x81),
    "U+0000 in a filter": (packet(0x82, b"\0\1\0" + text_bytes(b"a\0") + b"\0"), 0x81),
    "a surrogate in a property": (packet(0x30, text("a") + b"\x08\x26\0\3\xed\xa0\x80\0\0x"), 0x81),
    "a wildcard in a topic": (topic(b"a/+"), 0x90),
    "a topic of no bytes": (topic(b""), 0x90),
    "a # that is not last": (filters("a/#/b"), 0x8F),
    "a # beside others": (filters("a#"), 0x8F),
    "a + beside others": (filters("a/b+"), 0x8F),
    "a share without a name": (filters("$share//a"), 0x8F),
    "a share with a wildcard": (filters("$share/+/a"), 0x8F),
    "a filter deeper than 128 levels": (filters("+/" * 128 + "+"), 0x8F),
    "4,097 filters": (filters(*["#"] * 4097), 0x97),
    "no filter": (packet(0x82, b"\0\1\0"), 0x82),
    "alias 0": (aliased(0), 0x94),
    "an alias beyond 16": (aliased(17), 0x94),
    "an alias that stands for nothing": (aliased(3, b""), 0x82),
    "packet identifier 0": (packet(0x32, text("a") + b"\0\0\0x"), 0x82),
    "QoS 3": (packet(0x36, text("a") + b"\0\1\0x"), 0x81),
    "a second CONNECT": (connect("again"), 0x82),
    "AUTH of who named no method": (packet(0xF0, b"\x18\x0a\x15" + text("SCRAM-1")), 0x82),
    "a packet that only servers send": (b"\xd0\0", 0x82),
    "reserved flags": (b"\xc1\0", 0x81),
    "1,025 messages of QoS 2 that are never released": (
        b"".join(packet(0x34, text("a") + struct.pack(">H", number) + b"\0x") for number in range(1, 1026)),
        0x93,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_rules_and_limits_have_a_reason_and_a_counter(node, name):
    data, reason = BROKEN[name]
    before = node.ended(reason)
    with Hand(node, "hostile") as client:
        client.send(data)
        assert told(client) == reason
        assert client.socket.recv(1) == b""
    assert node.ended(reason) == before + 1


def test_many_broken_clients_disturb_nobody(node, bystander):
    source = random.Random(4)
    cases = list(BROKEN.values())
    for _ in range(300):
        data, reason = source.choice(cases)
        with Hand(node, "hostile") as client:
            client.send(data)
            assert told(client) == reason


def test_random_bytes_disturb_nobody(node, bystander):
    seed = int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}")
    source = random.Random(seed)
    for _ in range(300):
        with socket.create_connection(("127.0.0.1", node.mqtt_port), timeout=20) as client:
            greeting = connect("noise") if source.random() < 0.8 else b""
            try:
                client.sendall(greeting + source.randbytes(source.randrange(1, 2000)))
                client.shutdown(socket.SHUT_WR)
            except ConnectionError:
                continue
            read_to_end(client)


def test_packet_identifiers_that_are_not_under_way_are_answered(node):
    with Hand(node, "identifiers") as client:
        client.send(packet(0x62, b"\0\7"))
        answer = client.read()
        assert (answer.kind, answer.body) == (7, b"\0\7\x92")
        client.send(packet(0x50, b"\0\7"))
        answer = client.read()
        assert (answer.kind, answer.body) == (6, b"\0\7\x92")
        client.send(packet(0x40, b"\0\7") + packet(0x70, b"\0\7"))
        client.settle()


def test_topics_that_are_deep_or_long(node, bystander):
    """128 levels and 65,535 bytes are legal; one level more is no topic here, and is told so."""
    with Hand(node, "deep") as client:
        for name in ["/".join(["x"] * 128), "y" * 65_535, "/".join(["z" * 500] * 128)]:
            client.send(subscribe(name))
            assert client.read().body[-1] == 0
            client.send(publish(name, b"deep"))
            assert client.read().publish()[:2] == (name, b"deep")
        for _ in range(200):
            client.send(filters("/".join(["+"] * 128), "/".join(["+"] * 127 + ["#"])))
            assert client.read().body[-2:] == b"\0\0"
        began = time.monotonic()
        for number in range(200):
            client.send(publish("/".join(["x"] * 128), str(number).encode()))
            assert client.read().publish()[1] == str(number).encode()
        print(f"measured: {(time.monotonic() - began) * 5:.1f} ms a message of 128 levels")
    with Hand(node, "deeper") as client:
        client.send(publish("/".join(["x"] * 129), b"x"))
        assert told(client) == 0x90


def reasons_of(suback):
    """The reasons of a SUBACK, behind its properties."""
    assert suback.kind == 9
    length, at = suback.body[2], 3
    if length > 127:
        length, at = (length & 127) | suback.body[3] << 7, 4
    return suback.body[at + length :]


def test_a_bomb_of_subscriptions(node, bystander):
    """100,000 subscriptions are all that one client may hold; the next are refused, counted, and gone with it."""
    refused = node.metric("tieline_mqtt_subscriptions_refused_total")
    with Hand(node, "bomb") as client:
        granted = 0
        for block in range(26):
            names = [f"bomb/+/{block}/{number}/+" for number in range(4000)]
            client.send(filters(*names))
            reasons = reasons_of(client.read())
            granted += reasons.count(0)
            assert set(reasons) <= {0, 0x97}
        assert granted == 100_000
        client.send(publish("bomb/a/1/2/b", b"x"))
        assert client.read().publish()[0] == "bomb/a/1/2/b"
    assert node.metric("tieline_mqtt_subscriptions_refused_total") == refused + 4000
    until(lambda: node.metric("tieline_subscriptions") < 10, lambda: "the subscriptions stay")


def answered(client):
    """The body of the next SUBACK; messages before it are passed over."""
    while (whole := client.read()).kind != 9:
        pass
    return whole.body


def test_filters_of_wildcards_alone(node, bystander):
    """Overlapping filters give one copy, and a match costs no more than there are topics and levels."""
    with Hand(node, "wild") as client:
        for depth in range(1, 129):
            client.send(filters("/".join(["+"] * depth), "/".join(["+"] * depth + ["#"]) if depth < 128 else "#"))
            assert answered(client)[-1] == 0
        client.send(filters(*["#"] * 4096))
        assert set(answered(client)[3:]) == {0}
        deep = "/".join("wild" for _ in range(128))
        with Hand(node, "speaker") as speaker:
            for number in range(500):
                speaker.send(publish(deep, str(number).encode()))
            speaker.settle()
        got = [message for message in copies(client, deep, b"499")]
        assert got == [str(number).encode() for number in range(500)], "each once, in its order"


def copies(client, name, last):
    """The payloads of a topic, up to the last one."""
    while True:
        topic_, payload = client.read().publish()[:2]
        if topic_ == name:
            yield payload
            if payload == last:
                return


def test_floods_of_whoever_does_not_read(node, bystander):
    """Pings, subscriptions and PUBREL packets whose answers nobody takes: each connection ends, and is counted."""
    unknown = packet(0x62, b"\0\1")
    floods = [PING * 20_000, subscribe("flood/b") * 3000, unknown * 20_000]
    clients = [Hand(node, f"flood{number}", room=4096) for number in range(len(floods))]
    closed = node.metric(CLOSED_SLOW)
    try:
        for client, data in zip(clients, floods):
            client.socket.setblocking(False)
            sent = 0
            for _ in range(200):
                try:
                    sent += client.socket.send(data)
                except (BlockingIOError, ConnectionError):
                    break
            assert sent > 0
        before = bystander.sent
        until(lambda: bystander.sent > before + 50, lambda: "the bystander waits")
        slow = lambda: node.metric(CLOSED_SLOW) - closed
        until(lambda: slow() >= len(clients), lambda: f"{slow()} were closed for reading nothing", seconds=60)
    finally:
        for client in clients:
            client.socket.close()


def test_a_flood_of_connections(node, bystander):
    """A thousand that come, say nothing or half a word, and go."""
    before = node.metric("tieline_mqtt_unauthenticated_ended_total")
    for number in range(1000):
        with socket.create_connection(("127.0.0.1", node.mqtt_port), timeout=20) as client:
            client.sendall(connect("half")[: number % 12])
    until(lambda: node.metric("tieline_mqtt_unauthenticated_ended_total") >= before + 1000, lambda: "they are not counted")


def slow_doors(node):
    """(address, what comes first, what comes bit by bit) at each door."""
    mqtt = ("127.0.0.1", node.mqtt_port)
    http = ("127.0.0.1", int(node.http.rsplit(":", 1)[1]))
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    return {
        "silence": (mqtt, b""),
        "half a CONNECT": (mqtt, connect("slow")[:9]),
        "TLS, silence": (address(node, "mqtt_tls"), b""),
        "TLS, half a hello": (address(node, "mqtt_tls"), hello),
        "WebSocket, half a handshake": (address(node, "mqtt_websocket"), HANDSHAKE[:60].encode()),
        "WebSocket without CONNECT": (address(node, "mqtt_websocket"), HANDSHAKE.format(more="Sec-WebSocket-Protocol: mqtt\r\n").encode()),
        "HTTPS, silence": (http, b""),
        "HTTPS, half a hello": (http, hello),
    }


def test_slow_clients_are_closed_and_keep_nobody_out(node, bystander):
    """120 at each door say a word and then a byte a second; ten seconds are what they get. Meanwhile others come in."""
    doors = slow_doors(node)
    began = time.monotonic()
    slow = []
    for name, (where, first) in doors.items():
        for _ in range(120):
            client = socket.create_connection(where, timeout=30)
            client.sendall(first)
            slow.append((name, client))
    worst = 0.0
    due = began + 1
    left = [(name, client) for name, client in slow]
    gone = {}
    while left and time.monotonic() - began < 40:
        entered = time.monotonic()
        assert node.metric("tieline_mqtt_sessions") >= 1, "HTTPS answers"
        with socket.create_connection(address(node, "mqtt_tls"), timeout=20) as plain:
            with node.trust.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                connection.sendall(connect("quick"))
                assert connection.recv(1) == b"\x20"
        worst = max(worst, time.monotonic() - entered)
        staying, dribbles = [], time.monotonic() >= due
        due += 1 if dribbles else 0
        for name, client in left:
            client.setblocking(False)
            try:
                if dribbles and "silence" not in name:
                    client.send(b"\1")
                end = client.recv(4096) == b""
            except BlockingIOError:
                end = False
            except OSError:
                end = True
            if end:
                gone.setdefault(name, time.monotonic() - began)
                client.close()
            else:
                staying.append((name, client))
        left = staying
    print(f"measured: the first of each gone after {gone} s; another came in within {worst:.2f} s at worst")
    assert not left, f"still there: { {name for name, _ in left} }"
    assert worst < WORST_S
    assert len(gone) == len(doors)


def test_compression_is_offered_in_vain(node):
    """A WebSocket without extensions cannot be given a bomb: a compressed frame breaks a rule."""
    before = node.metric("tieline_mqtt_websocket_faults_total")
    offer = [(b"Sec-WebSocket-Extensions", b"permessage-deflate; client_max_window_bits, x-webkit-deflate-frame")]
    with Web(node, "zipped", extra_headers=offer) as web:
        assert not web.answer.extensions and "extensions" not in str(web.answer.extra_headers).lower()
        web.socket.sendall(frame(0xC2, PING))
        assert web.closed() == 1002
    until(lambda: node.metric("tieline_mqtt_websocket_faults_total") == before + 1, lambda: "it is not counted")


def test_fragments_without_end(node, bystander):
    """Frames of one byte and of none carry packets like any others, and hold no memory."""
    with Web(node, "fragments") as web:
        wanted = subscribe("fragments/#") + publish("fragments/a", bytes(3000))
        data = b"".join(frame(2 if at == 0 else 0, wanted[at : at + 1]) + frame(0, b"") for at in range(len(wanted)))
        web.socket.sendall(data)
        assert web.packet().kind == 9
        assert web.packet().publish()[1] == bytes(3000)
        before = node.resident()
        for _ in range(20):
            web.socket.sendall(frame(0, b"") * 20_000)
        web.say(PING)
        # Still in the message of before: a new one that begins inside breaks a rule.
        assert web.closed() == 1002
        assert node.resident() - before < 8 << 20


def test_pings_of_whoever_does_not_read(node, bystander):
    """Pongs that nobody takes: 4 KiB wait, and then the connection ends, or nothing more is read."""
    with Web(node, "pings") as web:
        web.socket.setblocking(False)
        flood = rest = frame(0x89, bytes(125)) * 1000
        sent = stuck = 0
        while stuck < 20 and sent < 200 << 20:
            try:
                taken = web.socket.send(rest)
                sent, stuck, rest = sent + taken, 0, rest[taken:] or flood
            except ConnectionError:
                break
            except BlockingIOError:
                stuck += 1
                count = bystander.sent
                until(lambda: bystander.sent > count + 2, lambda: "the bystander waits")
        print(f"measured: {sent} bytes were taken of who reads nothing")
        assert sent < 200 << 20


def test_values_that_would_grow_are_never_sent_to_who_did_not_ask(node):
    """A delta of zeros is small; a client that did not offer the codec is sent the value, at its size."""
    with Hand(node, "zeros") as client, Hand(node, "plain") as plain:
        offer = user_property("tieline-delta", "zstd")
        client.send(subscribe("zeros/a", offer))
        assert client.read().kind == 9
        plain.send(subscribe("zeros/a"))
        assert plain.read().kind == 9
        sizes = []
        for fill in (b"\0", b"\1", b"\0"):
            value = fill * 200_000
            plain.send(publish("zeros/a", value, retain=True))
            assert plain.read().publish()[1] == value
            sizes.append(client.read().data)
        print(f"measured: {sizes} bytes for values of 200,000")
        assert all(size < PACKET_BYTES_MAX for size in sizes)
