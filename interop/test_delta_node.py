"""Deltas of a node, rebuilt by the Python client: exactly what a plain subscriber is sent, in few bytes."""

import json
import queue
import random
import socket
from datetime import datetime, timezone

import paho.mqtt.client as paho
import pytest
from bus import Paho, publish
from node import Device, OurOutstation
from streams import Hand, subscribe, user_property
from streams import publish as publish_bytes
from tieline.delta import Codecs, Point, Receiver, Value
from tieline.delta.paho import Deltas, connect_properties
from waiting import until

T = 1_700_000_000_000


@pytest.fixture
def node(start_node):
    return start_node()


class Leaky(Receiver):
    """A receiver that some payloads never reach."""

    def __init__(self, *without):
        codecs = Codecs()
        for name in without:
            codecs.forget(name)
        super().__init__(codecs)
        self.drops = 0

    def handle_publish(self, topic, payload, alias=None, marked=False):
        if self.drops:
            assert payload[0] >> 5 > 1, "what is dropped is a delta"
            self.drops -= 1
            return []
        return super().handle_publish(topic, payload, alias, marked)


class Rebuilt(Paho):
    """A paho client with deltas; what it was told, in order."""

    def __init__(self, node, *filters, without=(), name=""):
        self.told, self.lost = [], []
        self.filters, self.receiver = filters, Leaky(*without)
        super().__init__(node, name=name, properties=connect_properties())
        for _ in filters:
            self.granted()

    def prepare(self):
        self.answers, self.gone = queue.Queue(), queue.Queue()
        self.client.reconnect_delay_set(1, 1)
        self.client.on_subscribe = lambda _client, _data, _mid, codes, properties: self.answers.put((codes, properties))
        self.client.on_unsubscribe = lambda *_: self.gone.put(True)
        heard = lambda topic, value: self.told.append((topic, value))  # noqa: E731
        self.deltas = Deltas(self.client, heard, lambda *lost: self.lost.append(lost), self.receiver)
        for one in self.filters:
            self.deltas.subscribe(one)

    def granted(self):
        """What the node said to a SUBSCRIBE: its word on deltas."""
        codes, properties = self.answers.get(timeout=20)
        assert [code.value for code in codes] == [0], codes
        return dict(getattr(properties, "UserProperty", [])).get("tieline-delta")

    def latest(self):
        return dict(list(self.told))

    def of(self, topic):
        return [value for told, value in list(self.told) if told == topic]


class Plain(Paho):
    """A paho client without deltas; what it was told, in order."""

    def __init__(self, node, *filters, version="5"):
        super().__init__(node, version)
        self.told = []
        self.client.on_message = lambda _client, _data, message: self.told.append((message.topic, message.payload))
        self.subscribe(*filters, qos=0)

    latest, of = Rebuilt.latest, Rebuilt.of


def point(payload):
    """A point as its JSON tells it; other bytes as they are."""
    try:
        told = json.loads(payload)
    except ValueError:
        return payload
    if not isinstance(told, dict) or not {"v", "t"} <= told.keys():
        return payload
    whole, _, fraction = told["t"].removesuffix("Z").partition(".")
    passed = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    micros = (passed.days * 86_400 + passed.seconds) * 1_000_000 + int(fraction.ljust(6, "0"))
    value = Point(told["v"], tuple(told.get("why", ())), micros)
    assert value.quality == told["q"]
    return value


def same(rebuilt, payload):
    """1 is not 1.0, and bytes are those bytes."""
    return repr(rebuilt) == repr(payload if isinstance(rebuilt, bytes) else point(payload))


def is_part(few, many):
    """Whether these are some of those, in their order."""
    rest = iter(many)
    return all(any(same(one, other) for other in rest) for one in few)


def say(rebuilt, plain):
    return lambda: f"{list(rebuilt.told)[-3:]}\n{list(plain.told)[-3:]}\n{rebuilt.lost}"


def agree(clients, plain):
    """Waits until each client holds the last value of every topic that the plain one was sent."""
    for one in clients:
        until(
            lambda one=one: (held := one.latest()).keys() == (sent := plain.latest()).keys()
            and all(same(held[topic], sent[topic]) for topic in sent),
            say(one, plain),
        )


def document(number, micros):
    """JSON of about 950 bytes, of which a number and a time change."""
    members = [f'"phase{at}":{{"volts":{230 + at}.{at}5,"amps":{at * 7}.5,"q":"good"}}' for at in range(18)]
    head = f'{{"time":"2026-11-20T09:36:{micros // 1_000_000 % 60:02}.{micros % 1_000_000:06}Z","power":{number},'
    return (head + ",".join(members) + "}").encode()


def shapes():
    """Values that change in every way: (topic, payload, retained)."""
    draw = random.Random(4)
    text, block = "voltage is stable; ", bytearray(draw.randbytes(65_536))
    for number in range(60):
        yield "shape/json", document(4000 + number * 7 % 90, number * 1_003_000), True
        text = text[: len(text) // 2] if number % 11 == 10 else text + f"then came {number} - Größe {draw.random()}; "
        yield "shape/text/deep", text.encode(), True
        block[draw.randrange(len(block))] ^= 1
        block = block[1000:] + block[:1000] if number % 8 == 7 else block
        yield "shape/block", bytes(block), True
        yield "shape/short", str(number // 3).encode(), True
        if number % 20 == 9:
            yield "shape/json", b"", True
        if number % 7 == 3:
            yield "shape/json", b"passing: kept by nobody, told to everybody", False
        if number % 13 == 12:
            yield "shape/block", draw.randbytes(70_000), True


def test_bytes_of_every_shape_are_rebuilt(node):
    """Each update is waited for, so that nothing is conflated: what is told is what plain subscribers are sent."""
    with (
        Plain(node, "shape/#") as plain,
        Plain(node, "shape/#", version="3.1.1") as older,
        Rebuilt(node, "shape/#") as first,
        Rebuilt(node, "+/text/+", "shape/+", without=["zstd"]) as second,
        Rebuilt(node, "shape/#", without=["hunk"]) as third,
        Paho(node) as writer,
    ):
        clients = [plain, older, first, second, third]
        sent = []
        for topic, payload, retain in shapes():
            writer.publish(topic, payload, retain=retain)
            sent.append((topic, payload))
            for one in clients:
                until(lambda one=one: len(one.told) >= len(sent), lambda one=one: f"{len(sent)}: {one.told[-2:]}")
        for one in clients:
            assert one.told == sent
        # An update has one delta, of the codec that does best: who does not take it is sent the whole value.
        for one, least in [(first, 150), (second, 150), (third, 30)]:
            assert one.lost == [] and one.receiver.stats["deltas"] > least, one.receiver.stats


def test_mosquitto_publishes_what_is_rebuilt(node):
    publish(node, "mosquitto/kept", "a value from before", "-r")
    with Plain(node, "mosquitto/#") as plain, Rebuilt(node, "mosquitto/+") as rebuilt:
        for number in range(12):
            publish(node, "mosquitto/json", document(number, number).decode(), "-r", version=["5", "3.1.1"][number % 2])
            until(lambda: plain.told[-1:] == rebuilt.told[-1:] and len(plain.told) == number + 2, say(rebuilt, plain))
        assert plain.told == rebuilt.told and rebuilt.receiver.stats["deltas"] == 11


def test_a_burst_ends_with_the_last_values(node):
    """What is not waited for may be conflated; what is told is in order, and in the end the same."""
    with Plain(node, "burst/#") as plain, Rebuilt(node, "burst/#") as first, Rebuilt(node, "burst/+") as second:
        with Hand(node, "writer") as writer:
            for number in range(3000):
                writer.send(publish_bytes(f"burst/{number % 3}", document(number, number * 1000), True))
            writer.settle()
        last = {f"burst/{number % 3}": document(number, number * 1000) for number in range(2997, 3000)}
        for one in [plain, first, second]:
            until(lambda one=one: one.latest() == last, say(first, plain))
        for topic in last:
            every = [document(number, number * 1000) for number in range(int(topic[-1]), 3000, 3)]
            assert all(is_part(one.of(topic), every) for one in [first, second])
        assert first.lost == second.lost == []


def test_what_a_gap_took_is_asked_for(node):
    """One payload is dropped between socket and receiver: the next one tells, and the whole value comes."""
    with Plain(node, "gap/#") as plain, Rebuilt(node, "gap/#") as rebuilt, Paho(node) as writer:
        for number in range(5):
            writer.publish("gap/a", document(number, number), retain=True)
            writer.publish("gap/b", document(number, number), retain=True)
        agree([rebuilt], plain)
        rebuilt.receiver.drops = 1
        writer.publish("gap/a", document(70, 70), retain=True)
        until(lambda: rebuilt.receiver.drops == 0, "the payload comes")
        assert rebuilt.lost == []
        writer.publish("gap/a", document(71, 71), retain=True)
        agree([rebuilt], plain)
        assert [topic for topic, _ in rebuilt.lost] == ["gap/a"], rebuilt.lost
        assert (rebuilt.of("gap/a")[-1], rebuilt.of("gap/b")[-1]) == (document(71, 71), document(4, 4))
        # From there on deltas come again.
        before = rebuilt.receiver.stats["deltas"]
        writer.publish("gap/a", document(72, 72), retain=True)
        agree([rebuilt], plain)
        assert rebuilt.receiver.stats["deltas"] == before + 1 and len(rebuilt.lost) == 1


def test_a_loss_of_32_payloads_is_found_by_the_checksum(node):
    """Five bits of a revision do not show it: the next CRC-32 does, at most 31 updates later."""
    with Plain(node, "lost/#") as plain, Rebuilt(node, "lost/#") as rebuilt, Paho(node) as writer:
        number, slots = 0, [1000] * 80

        def update():
            nonlocal number
            slots[number % 80] += 1
            number += 1
            writer.publish("lost/a", json.dumps(slots), retain=True)
            until(lambda: len(plain.told) == number, lambda: plain.told[-1:])

        for _ in range(3):
            update()
        agree([rebuilt], plain)
        rebuilt.receiver.drops = 32
        for left in reversed(range(32)):
            update()
            until(lambda left=left: rebuilt.receiver.drops == left, "a delta comes")
        told = len(rebuilt.told)
        for _ in range(32):
            update()
            until(lambda: rebuilt.lost or len(rebuilt.told) > told, say(rebuilt, plain))
            told += 1
            if rebuilt.lost:
                break
        assert len(rebuilt.lost) == 1
        agree([rebuilt], plain)


def test_a_client_that_comes_again_begins_with_whole_values(node):
    with Plain(node, "again/#") as plain, Rebuilt(node, "again/#") as rebuilt, Paho(node) as writer:

        def update(number):
            for topic in ["again/a", "again/b/c"]:
                writer.publish(topic, document(number, number), retain=True)

        for number in range(5):
            update(number)
        agree([rebuilt], plain)
        # With a goodbye, and updates meanwhile.
        rebuilt.close()
        update(70)
        whole = rebuilt.receiver.stats["values"]
        rebuilt.client.reconnect()
        rebuilt.client.loop_start()
        rebuilt.granted()
        agree([rebuilt], plain)
        assert rebuilt.receiver.stats["values"] == whole + 2
        # Without.
        rebuilt.client.socket().shutdown(socket.SHUT_RDWR)
        update(71)
        rebuilt.granted()
        agree([rebuilt], plain)
        update(72)
        agree([rebuilt], plain)
        assert rebuilt.lost == []


def test_filters_come_and_go(node):
    """A topic is sent once and with deltas while any filter with deltas selects it, and plain after the last has gone."""
    with Rebuilt(node, "go/#") as rebuilt, Paho(node) as writer:

        def update(number):
            writer.publish("go/a/b", document(number, number), retain=True)
            until(lambda: rebuilt.told[-1:] == [("go/a/b", document(number, number))], lambda: rebuilt.told[-1:])

        update(1)
        rebuilt.client.subscribe("go/a/+", options=paho.SubscribeOptions(0, retainHandling=2))
        assert rebuilt.granted() is None
        update(2)
        rebuilt.deltas.subscribe("+/+/b")
        assert "hunk" in rebuilt.granted()
        update(3)
        before = len(rebuilt.told)
        for number in range(4, 10):
            update(number)
        assert len(rebuilt.told) == before + 6
        rebuilt.deltas.unsubscribe("go/#")
        assert rebuilt.gone.get(timeout=20)
        deltas = rebuilt.receiver.stats["deltas"]
        for number in range(10, 14):
            update(number)
        assert rebuilt.receiver.stats["deltas"] >= deltas + 3
        rebuilt.deltas.unsubscribe("+/+/b")
        assert rebuilt.gone.get(timeout=20)
        deltas = rebuilt.receiver.stats["deltas"]
        for number in range(14, 18):
            update(number)
        assert rebuilt.receiver.stats["deltas"] == deltas and rebuilt.lost == []


def test_what_is_agreed(node):
    """The answer names what will be used, of what was offered."""

    def check(offer, topic_filter, expect):
        with Hand(node, "agree") as client:
            client.send(subscribe(topic_filter, user_property("tieline-delta", offer), qos=1))
            answer = client.read()
            assert answer.kind == 9
            properties = answer.body[3 : 3 + answer.body[2]]
            words = properties.removeprefix(user_property("tieline-delta", "")[:-2])
            told = words[2:].decode() if properties else None
            assert (told, answer.body[-1]) == expect

    check("point,hunk", "a/#", ("point,hunk", 0))
    check("point", "a/#", ("point", 0))
    check("frobnicate,hunk", "a/#", ("hunk", 0))
    check("frobnicate", "a/#", (None, 1))
    check("", "a/#", (None, 1))
    check("point," + "x" * 260, "a/#", (None, 1))


def test_bytes_of_a_document_on_the_stream(node):
    """A number and a time of 950 bytes change: at most 25 bytes an event, envelope and all."""
    with Hand(node, "count", aliases_max=17) as reader, Hand(node, "writer") as writer:
        receiver = Receiver()
        offer = "point,hunk"
        reader.send(subscribe("count/+", user_property("tieline-delta", offer)))
        assert reader.read().kind == 9
        receiver.handle_suback("count/+", offer)
        data = []
        for number in range(129):
            value = document(4000 + number * 7 % 90, 1_000_000 + number * 1_003_000)
            assert 900 < len(value) < 1000
            writer.send(publish_bytes("count/json", value, True))
            one = reader.read()
            data.append(one.data)
            assert receiver.handle_publish(*one.publish()) == [Value("count/json", value)]
        assert data[0] > 900 and sum(data[1:]) / 128 <= 25, data


@pytest.fixture
def field(start_node, tmp_path):
    """An outstation of ours, and a node that has read it."""
    with OurOutstation(tmp_path) as outstation:
        device = Device("relay1", outstation.address)
        node = start_node(device)
        node.wait_state(device, "online")
        for kind in ["binary", "analog", "counter", "double-bit"]:
            node.wait_value(device.point(kind, 9), q="good")
        yield outstation, device, node


def seen(client, topic):
    """The time of the point that a client was told last."""
    value = client.latest().get(topic, b"")
    return getattr(point(value) if isinstance(value, bytes) else value, "micros", None)


def test_points_of_a_device_are_rebuilt(field):
    outstation, device, node = field
    with (
        Plain(node, "test/#") as plain,
        Rebuilt(node, "test/#") as first,
        Rebuilt(node, "test/+/analog/+", "test/relay1/binary/#", "+/+/counter/#", without=["zstd"]) as second,
    ):
        draw = random.Random(4)
        flags = [0x01, 0x01, 0x01, 0x05, 0x03, 0x21, 0x00]
        for number in range(120):
            at = T + number * 1000 + draw.randrange(-5, 6)
            turn = number // 12
            name, value = [
                ("analog", turn / 100 + 49.91),
                ("analog", [-(2**31), 0, 7.25, 1e9, 0.1, 1e-7][turn % 6]),
                ("binary", ["true", "false"][turn % 2]),
                ("counter", number * 33_333_333),
            ][number % 4]
            index = number % 3 + 5
            outstation.do(f"update {name} {index} {value} flags={draw.choice(flags):#x} time={at}")
            topic = device.point(name, index)
            for one in [plain, first, second]:
                until(lambda one=one: seen(one, topic) == at * 1000, say(first, plain))
        agree([first], plain)
        assert first.receiver.stats["deltas"] > 100 and first.lost == second.lost == []
        for topic, value in second.latest().items():
            assert same(value, plain.latest()[topic]), topic
        for topic in plain.latest():
            assert is_part(first.of(topic)[1:], plain.of(topic)), topic


def test_bytes_of_a_point_on_the_stream(field):
    """A number moves, a second passes: at most 12 bytes an event, envelope and all."""
    outstation, device, node = field
    topic = device.point("analog", 3)
    with Hand(node, "count", aliases_max=17) as reader:
        receiver = Receiver()
        reader.send(subscribe(topic, user_property("tieline-delta", "point")))
        assert reader.read().kind == 9
        receiver.handle_suback(topic, "point")
        assert receiver.handle_publish(*reader.read().publish())[0].topic == topic
        data, value = [], 5000
        for number in range(129):
            value += [3, -2, 7, -6, 1][number % 5]
            at = T + number * 1000
            outstation.do(f"update analog 3 {value / 100} time={at}")
            one = reader.read()
            data.append(one.data)
            (told,) = receiver.handle_publish(*one.publish())
            assert (told.value.value, told.value.micros, told.value.quality) == (value / 100, at * 1000, "good")
        assert sum(data[1:]) / 128 <= 12, data
