"""Deltas where subscriptions overlap, change and go while messages are on their way: every payload says for itself what
it is, so that a client never takes one for what it is not."""

import json
import struct

import paho.mqtt.client as paho
import pytest
from bus import Paho
from node import Device, OurOutstation
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from streams import PING, Hand, packet, subscribe, text, unsubscribe, user_property
from streams import publish as publish_bytes
from test_delta_node import Rebuilt, document
from tieline.delta import Lost, Receiver, Value
from waiting import until

OFFER = "point,hunk"
DELTAS = user_property("tieline-delta", OFFER)
LARGE = 60_000


@pytest.fixture
def node(start_node):
    # All that waits in these tests has room.
    return start_node(more='[mqtt]\nqueue_bytes_max = "16MiB"\n')


class Reader(Hand):
    """A client that rebuilds what it reads, and keeps the answers it was given."""

    def __init__(self, node, name, room=None):
        super().__init__(node, name, aliases_max=1000, room=room)
        self.receiver, self.values, self.lost, self.answers = Receiver(), [], [], []

    def take(self):
        one = self.read()
        if one.kind != 3:
            self.answers.append(one)
            return one
        for event in self.receiver.handle_publish(*one.publish()):
            if isinstance(event, Lost):
                self.lost.append(event)
            else:
                self.values.append((event.topic, event.value))
        return one

    def ask(self, data):
        """Sends a request and reads up to its answer."""
        self.send(data)
        answers = len(self.answers)
        while len(self.answers) == answers:
            self.take()
        return self.answers[-1]

    def settle(self):
        """Reads all that the node has to say at the moment."""
        assert self.ask(PING).kind == 13

    def wait(self, topic, value):
        while (topic, value) not in self.values:
            self.take()

    def subscribe(self, topic_filter, properties=DELTAS, **how):
        answer = self.ask(subscribe(topic_filter, properties, **how))
        assert answer.body[-1] < 0x80
        granted = OFFER if DELTAS in answer.body else None
        self.receiver.handle_suback(topic_filter, granted)
        return granted

    def unsubscribe(self, topic_filter):
        assert self.ask(unsubscribe(topic_filter)).kind == 11
        self.receiver.handle_unsuback(topic_filter)


class Writer(Hand):
    """A client that publishes documents and waits until the node has them."""

    def update(self, topic, number, retain=True):
        value = document(number, number)
        self.send(publish_bytes(topic, value, retain))
        self.settle()
        return value


def test_a_plain_subscription_that_overlaps_is_answered_plain(node):
    with Writer(node, "writer") as writer, Reader(node, "reader") as reader:
        writer.update("a/x", 1)
        assert reader.subscribe("a/#") == OFFER
        reader.wait("a/x", document(1, 1))
        assert reader.subscribe("a/+", b"", number=2) is None
        reader.settle()
        assert reader.values == [("a/x", document(1, 1))] * 2
        for number in range(2, 6):
            value = writer.update("a/x", number)
            reader.wait("a/x", value)
        assert reader.lost == [] and reader.receiver.stats["deltas"] == 4


@pytest.mark.parametrize("slow", ["newest", "all"])
def test_plain_messages_that_waited_are_plain_after_the_answer_for_deltas(node, slow):
    """The socket takes nothing while the subscription changes: what waited was meant to be plain."""
    plain = user_property("tieline-slow", slow)
    with Writer(node, "writer") as writer, Reader(node, "reader", room=4096) as reader:
        reader.subscribe("b/#", plain)
        sent = [(f"b/{number}", bytes([number]) * LARGE) for number in range(60)]
        for topic, value in sent:
            writer.send(publish_bytes(topic, value, True))
        writer.settle()
        reader.send(subscribe("b/+", DELTAS, number=2))
        for number, (topic, value) in enumerate(sent):
            reader.wait(topic, value)
            if number == 30:
                sent.append(("b/31", (changed := b"changed" + bytes(LARGE))))
                writer.send(publish_bytes("b/31", changed, True))
        reader.settle()
        assert set(reader.values) <= set(sent) and reader.lost == []
        assert any(DELTAS in answer.body for answer in reader.answers)


def test_messages_on_their_way_when_the_last_deltas_go_are_what_they_were(node):
    with Writer(node, "writer") as writer, Reader(node, "reader", room=4096) as reader:
        reader.subscribe("c/#")
        sent = [(f"c/{number % 7}", bytes([number]) * LARGE) for number in range(60)]
        for number, (topic, value) in enumerate(sent):
            # Every other one is nobody's last value: it is told as it is.
            writer.send(publish_bytes(topic, value, number % 2 == 0))
        writer.settle()
        reader.unsubscribe("c/#")
        reader.settle()
        assert reader.values and set(reader.values) <= set(sent) and reader.lost == []


def test_a_shared_subscription_is_promised_no_deltas(node):
    with Writer(node, "writer") as writer, Reader(node, "reader") as reader:
        assert reader.subscribe("$share/group/d/#") is None
        value = writer.update("d/x", 1)
        reader.wait("d/x", value)
        # One of two filters of a packet has them.
        pair = text("$share/group/d/#") + b"\0" + text("e/#") + b"\0"
        answer = reader.ask(packet(0x82, struct.pack(">H", 3) + bytes([len(DELTAS)]) + DELTAS + pair))
        assert DELTAS in answer.body and answer.body[-2:] == b"\0\0"
        for number in range(2, 5):
            shared, own = writer.update("d/x", number), writer.update("e/x", number)
            reader.wait("d/x", shared)
            reader.wait("e/x", own)
        assert (reader.receiver.stats["deltas"], reader.lost) == (2, [])


def test_what_a_change_does_not_touch_goes_on_as_deltas(node):
    """A SUBSCRIBE and an UNSUBSCRIBE of other topics cost the others no whole value."""
    with Writer(node, "writer") as writer, Reader(node, "reader") as reader:
        topics = [f"f/{number}" for number in range(20)]
        for topic in [*topics, "g/x", "h/x"]:
            writer.update(topic, 1)
        reader.subscribe("f/#")
        reader.subscribe("h/#")
        reader.settle()
        whole = reader.receiver.stats["values"]
        assert whole == 21
        reader.subscribe("g/#")
        reader.settle()
        reader.unsubscribe("h/#")
        for number in range(2, 5):
            for topic in topics:
                value = writer.update(topic, number)
                reader.wait(topic, value)
        assert (reader.receiver.stats["values"], reader.receiver.stats["deltas"]) == (whole + 1, 60)
        # One that selects them again starts with full values.
        reader.subscribe("f/+", number=9)
        reader.settle()
        assert reader.receiver.stats["values"] == whole + 21 and reader.lost == []


@pytest.mark.parametrize("retain_handling", [0, 1, 2])
def test_a_filter_that_comes_again_begins_with_whole_values(node, retain_handling):
    """Whether last values are asked for or not: the client has forgotten what it knew."""
    with Writer(node, "writer") as writer, Reader(node, "reader") as reader:
        for topic in ["i/x", "i/y"]:
            writer.update(topic, 1)
        reader.subscribe("i/#")
        reader.settle()
        reader.wait("i/x", writer.update("i/x", 2))
        for again in range(3, 6):
            reader.unsubscribe("i/#")
            assert reader.receiver._topics == {}
            reader.subscribe("i/#", qos=retain_handling << 4, number=again)
            reader.settle()
            for topic in ["i/x", "i/y"]:
                reader.wait(topic, writer.update(topic, again))
        assert reader.lost == [] and reader.receiver.stats["deltas"] >= 1


def test_an_overlapping_subscription_at_qos_1_is_served_as_it_asked(node):
    with Rebuilt(node, "j/#") as rebuilt, Paho(node) as writer:
        rebuilt.client.subscribe("j/+", qos=1)
        assert dict(getattr(rebuilt.answers.get(timeout=20)[1], "UserProperty", [])) == {}
        for number in range(30):
            writer.publish("j/x", document(number, number), retain=True)
        until(lambda: len(rebuilt.told) == 30, lambda: rebuilt.told[-1:])
        assert [value for _, value in rebuilt.told] == [document(number, number) for number in range(30)]
        rebuilt.client.unsubscribe("j/+")
        assert rebuilt.gone.get(timeout=20)
        for number in range(30, 34):
            writer.publish("j/x", document(number, number), retain=True)
            until(lambda: rebuilt.told[-1][1] == document(number, number), lambda: rebuilt.told[-1:])
        assert rebuilt.lost == [] and rebuilt.receiver.stats["deltas"] >= 3


def test_topics_beyond_the_aliases_come_by_name(node):
    with Writer(node, "writer") as writer, Reader(node, "reader") as reader, Hand(node, "few") as few:
        receiver = Receiver()
        few.send(subscribe("k/#", DELTAS))
        assert few.read().kind == 9
        reader.subscribe("k/#")
        for number in range(4):
            for topic in ["k/x", "k/y"]:
                value = writer.update(topic, number)
                reader.wait(topic, value)
                topic_told, payload, alias, marked = few.read().publish()
                assert (topic_told, alias, marked) == (topic, None, True)
                assert receiver.handle_publish(topic_told, payload, alias, marked) == [Value(topic, value)]
        assert receiver.stats["deltas"] == reader.receiver.stats["deltas"] == 6


def test_a_topic_that_was_removed_and_came_again_keeps_nothing(node):
    """Numbers of topics come to stand for others; what a client knows by an alias does not."""
    with Writer(node, "writer") as writer, Reader(node, "reader") as reader:
        reader.subscribe("l/#")
        for turn in range(20):
            topics = [f"l/{turn}/{number}" for number in range(5)]
            for number in range(3):
                for topic in topics:
                    reader.wait(topic, writer.update(topic, turn * 3 + number))
            for topic in topics:
                writer.send(publish_bytes(topic, b"", True))
                reader.wait(topic, b"")
        assert reader.lost == [] and reader.receiver.stats["deltas"] == 20 * 5 * 2


def test_a_message_that_says_it_is_a_delta_is_refused_unless_that_was_agreed_on(node):
    """Subscribers would believe it."""
    with Rebuilt(node, "m/#") as rebuilt, Paho(node) as writer:
        marked = Properties(PacketTypes.PUBLISH)
        marked.UserProperty = ("tieline-delta", "1")
        sent = writer.client.publish("m/x", b"\x00whole", 1, False, marked)
        _, reason, *_ = writer.acknowledged.get(timeout=20)
        assert reason.value == 0x99 and sent.is_published()
        writer.publish("m/x", json.dumps([1]))
        until(lambda: rebuilt.told, "the one after it comes")
        assert rebuilt.told == [("m/x", b"[1]")]


def test_a_session_that_goes_on_is_plain_until_it_asks_again(node):
    """What was agreed ends with the connection."""
    expiry = Properties(PacketTypes.CONNECT)
    expiry.SessionExpiryInterval = 300

    def connect():
        client = Paho.__new__(Paho)
        client.client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="stays", protocol=paho.MQTTv5)
        client.told = []
        client.client.on_message = lambda _client, _data, message: client.told.append(message)
        client.client.on_subscribe = lambda *_: client.told.append("subscribed")
        client.client.connect("127.0.0.1", node.mqtt_port, clean_start=False, properties=expiry)
        client.client.loop_start()
        until(client.client.is_connected, "paho connects")
        return client

    with Paho(node) as writer:
        with connect() as first:
            properties = Properties(PacketTypes.SUBSCRIBE)
            properties.UserProperty = ("tieline-delta", OFFER)
            first.client.subscribe("n/#", 0, properties=properties)
            until(lambda: first.told == ["subscribed"], "the answer")
            writer.publish("n/x", document(1, 1), retain=True)
            until(lambda: len(first.told) == 2, "a value")
            assert first.told[1].properties.UserProperty == [("tieline-delta", "1")]
        with connect() as second:
            for number in range(2, 5):
                writer.publish("n/x", document(number, number), retain=True)
            until(lambda: len(second.told) == 3, lambda: second.told)
            assert [message.payload for message in second.told] == [document(number, number) for number in range(2, 5)]
            assert not any(hasattr(message.properties, "UserProperty") for message in second.told)


def test_points_first_stamped_in_microseconds_are_as_short(tmp_path, start_node):
    """The node stamps what a device has not, in microseconds; the device's own milliseconds come after."""
    with OurOutstation(tmp_path) as outstation:
        device = Device("relay1", outstation.address)
        node = start_node(device)
        node.wait_state(device, "online")
        topic = device.point("analog", 3)
        node.wait_value(topic, q="good")
        with Reader(node, "reader") as reader:
            reader.subscribe(topic, user_property("tieline-delta", OFFER))
            reader.settle()
            data = []
            for number in range(100):
                at = 1_700_000_000_000 + number * 1000 + [0, 9, -7, 31, -12][number % 5]
                outstation.do(f"update analog 3 {number % 7 + 50} time={at}")
                data.append(reader.take().data)
                assert reader.values[-1][1].micros == at * 1000
            assert max(data[4:]) - 4 <= 12 and sum(data[4:]) / 96 <= 12, data
