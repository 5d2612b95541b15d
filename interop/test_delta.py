"""The Python client of deltas: the shared vectors, any bytes, and paho-mqtt against a server that sends what a test says."""

import json
import random
import socket
import struct
import threading
from datetime import datetime, timezone
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from tieline.delta import (
    CHECKED,
    WAITING,
    Broken,
    Codecs,
    Decoder,
    Lost,
    Point,
    Receiver,
    Sender,
    Value,
    matches,
)
from tieline.delta.codecs import hunk
from tieline.delta.hunks import hunk_of
from tieline.delta.paho import Deltas, connect_properties

ROOT = Path(__file__).parents[1]
VECTORS = ROOT / "vectors" / "delta"


def words(decoder, payload):
    """What comes of a payload, in the words of the vectors."""
    try:
        value = decoder.apply(payload)
    except Broken:
        return "lost"
    if value in (CHECKED, WAITING):
        return repr(value).lower()
    if isinstance(value, bytes):
        return ("bytes", value.decode())
    assert isinstance(value, Point)
    return ("point", value.value, value.quality, value.reasons, value.micros)


def expected(text):
    kind, _, rest = text.partition(" ")
    if kind == "bytes":
        return ("bytes", json.loads(rest))
    if kind != "point":
        return kind
    point = json.loads(rest)
    value = point["v"]
    if isinstance(value, dict):
        value = bytes.fromhex(value["hex"])
    elif value in ("inf", "-inf"):
        value = float(value)
    seconds, fraction = point["t"].removesuffix("Z").split(".")
    whole = datetime.fromisoformat(seconds).replace(tzinfo=timezone.utc)
    passed = whole - datetime(1970, 1, 1, tzinfo=timezone.utc)
    micros = (passed.days * 86_400 + passed.seconds) * 1_000_000 + int(fraction.ljust(6, "0"))
    return ("point", value, point["q"], tuple(point.get("why", ())), micros)


def same(got, wanted):
    """1 is not 1.0 and not True, and zero has a sign."""
    return got == wanted and (got[0] != "point" or repr(got[1]) == repr(wanted[1]))


@pytest.mark.parametrize("name", ["sent.txt", "hand.txt", "published.txt", "zstd.txt"])
def test_vectors(name):
    codecs, decoder, told = Codecs(), None, None
    if name == "zstd.txt" and "zstd" not in codecs.names:
        # Without the module the codec is never offered; a payload of it is an unknown codec's.
        assert "zstd" not in Receiver(codecs).offer
        return
    checked = 0
    for number, line in enumerate((VECTORS / name).read_text().splitlines(), 1):
        if line.startswith("=="):
            decoder = Decoder(codecs, bytes_max=4096)
        elif line.startswith("<"):
            told = words(decoder, bytes.fromhex(line[1:]))
        elif line.startswith(">"):
            assert same(told, expected(line[2:])), f"{name} line {number}: {told}"
            checked += 1
    assert checked > 5


def test_any_bytes_are_survived():
    draw = random.Random(4)
    payloads = [bytes.fromhex(line[1:]) for line in (VECTORS / "sent.txt").read_text().splitlines() if line[:1] == "<"]
    decoder = Decoder(Codecs(), bytes_max=1000)
    for _ in range(20_000):
        payload = bytearray(draw.choice(payloads))
        for _ in range(draw.randrange(3)):
            payload[draw.randrange(len(payload))] = draw.randrange(256)
        try:
            value = decoder.apply(bytes(payload))
            assert not isinstance(value, bytes) or len(value) <= 1000
        except Broken:
            assert decoder.is_waiting and decoder.value is None


def values_of(name):
    """The values of each publisher of a file, each with its payload."""
    for part in (VECTORS / name).read_text().split("== ")[1:]:
        lines = part.splitlines()
        payloads = [bytes.fromhex(line[1:]) for line in lines if line.startswith("<")]
        values = [json.loads(line[8:]).encode() for line in lines if line.startswith("> bytes ")]
        yield list(zip(values, payloads, strict=True))


def test_a_sender_says_what_that_of_the_node_would():
    for values in values_of("published.txt"):
        sender, decoder = Sender(), Decoder(Codecs())
        assert sender.handle_connack("point,hunk")
        for value, payload in values:
            saying = sender.say("a/x", value)
            assert saying.marked and decoder.apply(saying.payload) == value
            assert saying.payload.hex(" ") == payload.hex(" "), value
        assert sender.stats["deltas"] > len(values) // 4, sender.stats


def edited(draw, base):
    """A value that somebody edited."""
    value = bytearray(base)
    for _ in range(draw.randrange(6)):
        at = draw.randrange(len(value) + 1)
        value[at : at + draw.randrange(40)] = draw.randbytes(draw.randrange(40))
    return bytes(value)


def test_hunks_lead_to_any_value():
    draw, found = random.Random(11), 0
    for turn in range(3000):
        text = ",".join(f'{{"id":{draw.randrange(99999)},"on":true}}' for _ in range(draw.randrange(20))).encode()
        base = text if turn % 2 else draw.randbytes(draw.randrange(300))
        value = edited(draw, base)
        bytes_max = draw.choice([len(value) // 2, len(value) * 4 + 16])
        delta = hunk_of(base, value, bytes_max)
        if delta is not None:
            assert len(delta) <= bytes_max and hunk(base, delta, len(value)) == value
            found += 1
    assert found > 1500
    # Of what is far apart the rest is one hunk, when it was looked for long enough.
    base, value = bytes(range(200)) * 100, bytes(reversed(range(200))) * 101
    delta = hunk_of(base, value, len(value) * 2)
    assert hunk(base, delta, len(value)) == value and hunk_of(base, value, len(value) // 2) is None


@pytest.mark.parametrize(("base", "value", "expect"), [
    ("same", "same", b""),
    ("points: 41, rank: 3", "points: 42, rank: 3", b"\x12\x012"),
    ("a1bcd2e, and more of it", "a3bcd4e, and more of it", b"\x02\x053bcd4"),
    ("a1bcde2f, and more of it", "a3bcde4f, and more of it", b"\x02\x013\x08\x014"),
    ("rate 9.5 of it all", "rate 10.5 of it all", b"\x0b\x02\x0110"),
    ("it is gone", "it is", b"\x0b\x00\x05"),
    ("abcdefgh", "ijklmnop", None),
])
def test_hunks_are_as_short_as_the_change(base, value, expect):
    assert hunk_of(base.encode(), value.encode(), len(value)) == expect


def test_a_sender_over_connections_that_break():
    draw = random.Random(7)
    sender, decoders = Sender(), {}
    held, last = {}, {}
    for turn in range(5000):
        if turn % 97 == 0:
            sender.handle_disconnect()
            decoders.clear()
        if turn % 97 == 5:
            assert sender.handle_connack("hunk")
        topic = f"t/{draw.randrange(5)}"
        last[topic] = b"value %020d of %s " % (draw.randrange(10**9), topic.encode()) + b"x" * draw.randrange(60)
        saying = sender.say(topic, last[topic])
        while True:
            try:
                # Some are lost on the way to the decoder: the next one is refused then.
                if draw.randrange(20) and saying.marked:
                    held[topic] = decoders.setdefault(topic, Decoder(Codecs())).apply(saying.payload)
                elif not saying.marked:
                    held[topic] = saying.payload
                else:
                    break
                assert held[topic] in (last[topic], WAITING)
                if held[topic] == last[topic]:
                    break
                raise Broken("waiting")
            except Broken:
                again = sender.handle_refused(topic, saying.number)
                assert again == (last[topic], None)
                saying = sender.say(topic, again[0])
    assert sender.stats["deltas"] > 1000 and sender.stats["refused"] > 50, sender.stats


def test_what_a_sender_holds_is_bounded():
    sender = Sender(topics_max=3, bytes_max=1000)
    sender.handle_connack("hunk")
    for number in range(100):
        assert sender.say(f"t/{number}", b"x" * (number * 20)).marked is (number > 0)
        assert len(sender._topics) <= 3 and sender._bytes <= 1000
    assert not sender.say("$command/x", b"x" * 100).marked and not sender.say("t/1", b"short").marked


def test_filters():
    def check(topic_filter, topic, expect):
        assert matches(topic_filter, topic) is expect, (topic_filter, topic)

    check("#", "a/b", True)
    check("#", "$SYS/a", False)
    check("+/b", "$SYS/b", False)
    check("$SYS/#", "$SYS", True)
    check("a/+", "a", False)
    check("a/+", "a/", True)
    check("a/+/c", "a/b/c", True)
    check("a/+", "a/b/c", False)
    check("a/#", "a", True)


def payloads(name):
    """The payloads and expectations of one receiver of sent.txt."""
    part = (VECTORS / "sent.txt").read_text().split(f"== {name}\n")[1].split("\n\n")[0].splitlines()
    return [bytes.fromhex(line[1:]) for line in part[::2]], [expected(line[2:]) for line in part[1::2]]


def test_a_receiver_decodes_only_what_is_marked_and_asks_once():
    said, _ = payloads("a measurement, about once a second")
    receiver = Receiver()
    assert receiver.offer.startswith("point,hunk")
    assert receiver.handle_suback("a/#", "point") == {"point"}
    assert receiver.handle_suback("b/#", None) == set()
    assert receiver.handle_publish("b/c", b"as it is") == [Value("b/c", b"as it is")]
    assert receiver.handle_publish("a/x", said[0], 3, marked=True)[0].value.value == 49.89
    assert receiver.handle_publish("", said[1], alias=3)[0].topic == "a/x"
    (lost,) = receiver.handle_publish("", said[3], alias=3)
    assert isinstance(lost, Lost) and receiver.handle_publish("", said[4], alias=3) == []
    assert (receiver.poll_resync(), receiver.poll_resync()) == ("a/x", None)
    assert receiver.handle_publish("a/x", said[0], marked=True)[0].value.value == 49.89
    # A message of an overlapping subscription changes nothing, whether it has an alias or not.
    assert receiver.handle_publish("a/x", b"plain") == [Value("a/x", b"plain")]
    assert receiver.handle_publish("a/x", b"plain", 1) == [Value("a/x", b"plain")]
    assert receiver.handle_publish("", b"plain", 1) == [Value("a/x", b"plain")]
    assert receiver.handle_publish("a/x", said[1], alias=3)[0].value.value == 49.99
    assert receiver.stats == {"values": 6, "deltas": 2, "lost": 1, "waiting": 1, "forgotten": 0}
    receiver.handle_unsuback("a/#")
    assert receiver.handle_publish("a/x", b"plain") == [Value("a/x", b"plain")]


class Script(threading.Thread):
    """An MQTT 5 server for one client, which grants deltas and publishes what a test gives it."""

    def __init__(self, publishes):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.publishes, self.offer, self.asked, self.wrong = publishes, None, None, None

    def run(self):
        try:
            self.serve()
        except Exception as error:  # noqa: BLE001  shown by the test
            self.wrong = error

    def serve(self):
        connection, _ = self.listener.accept()
        self.stream = connection.makefile("rwb")
        assert self.packet()[0] == 0x10
        self.write(0x20, b"\0\0\0")
        head, body = self.packet()
        assert head == 0x82
        count = body[2]
        properties = body[3 : 3 + count]
        name = struct.unpack(">H", properties[1:3])[0]
        self.offer = (properties[3 : 3 + name].decode(), properties[5 + name :].decode())
        granted = b"\x26" + field("tieline-delta") + field("point")
        self.write(0x90, body[:2] + bytes([len(granted)]) + granted + b"\0")
        for topic, alias, payload in self.publishes:
            properties = b"\x23" + struct.pack(">H", alias)
            if topic:
                properties += b"\x26" + field("tieline-delta") + field("1")
            self.write(0x30, field(topic) + bytes([len(properties)]) + properties + payload)
        head, body = self.packet()
        length = struct.unpack(">H", body[:2])[0]
        self.asked = (body[2 : 2 + length].decode(), body[3 + length :].decode())
        connection.close()

    def packet(self):
        head, count, shift = self.stream.read(1)[0], 0, 0
        while True:
            byte = self.stream.read(1)[0]
            count |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return head, self.stream.read(count)

    def write(self, head, body):
        assert len(body) < 128
        self.stream.write(bytes([head, len(body)]) + body)
        self.stream.flush()


def field(text):
    return struct.pack(">H", len(text)) + text.encode()


def test_paho_rebuilds_values_and_asks_for_what_was_lost():
    said, wanted = payloads("a measurement, about once a second")
    script = Script([("a/x", 1, said[0]), ("", 1, said[1]), ("", 1, said[2]), ("", 1, said[5])])
    script.start()
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    values, lost = [], []
    deltas = Deltas(client, lambda topic, value: values.append((topic, value)), lambda *told: lost.append(told))
    deltas.subscribe("a/#")
    client.connect("127.0.0.1", script.port, properties=connect_properties())
    client.loop_start()
    script.join(10)
    client.disconnect()
    client.loop_stop()
    assert script.wrong is None and not script.is_alive()
    assert script.offer[0] == "tieline-delta" and script.offer[1].startswith("point,")
    assert [(topic, point.value, point.micros) for topic, point in values] == [
        ("a/x", want[1], want[4]) for want in wanted[:3]
    ]
    assert lost == [("a/x", "a delta from revision 9 while revision 7 is held")]
    assert script.asked == ("$tieline/resync", "a/x")
