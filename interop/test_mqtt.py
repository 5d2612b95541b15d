"""MQTT clients that are not ours: last values, wildcards, both versions, and clients that break the rules."""

import json
import os
import random
import time

import pytest
from bus import VERSIONS, Paho, Sub, connect_packet, publish, raw, read_packet, read_to_end, varint
from waiting import until


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """One node for all, for nothing that a client does may harm it."""
    from node import Node

    with Node(tmp_path_factory.mktemp("mqtt")) as running:
        yield running
        running.alive()


@pytest.fixture(params=VERSIONS)
def version(request):
    """Each version of the protocol in turn."""
    return request.param


@pytest.mark.parametrize("qos", [0, 1])
def test_the_last_value_comes_on_subscribe(node, version, qos):
    topic = f"last/{version}/{qos}"
    publish(node, topic, '{"v": 1}', "-r", qos=1, version=version)
    publish(node, topic, '{"v": 2}', "-r", qos=1, version=version)
    with Sub(node, topic, qos=qos, version=version) as subscriber:
        subscriber.wait(topic, retained=True, v=2)
        publish(node, topic, '{"v": 3}', "-r", qos=1, version=version)
        subscriber.wait(topic, retained=False, v=3)
        assert [message[2]["v"] for message in subscriber.messages()] == [2, 3]


def test_an_empty_payload_removes_the_last_value(node, version):
    topic = f"gone/{version}"
    publish(node, topic, "1", "-r", version=version)
    publish(node, topic, "", "-r", version=version)
    publish(node, f"{topic}/marker", "2", "-r", version=version)
    with Sub(node, f"{topic}/#", version=version) as subscriber:
        subscriber.wait(f"{topic}/marker", retained=True)
        assert [message[1] for message in subscriber.messages()] == [f"{topic}/marker"]


def test_wildcards(node, version):
    base = f"wild/{version}"
    for tail in ["a/x", "a/y", "b/x", "a/x/deep"]:
        publish(node, f"{base}/{tail}", "1", "-r", version=version)
    wanted = {
        f"{base}/+/x": {"a/x", "b/x"},
        f"{base}/a/+": {"a/x", "a/y"},
        f"{base}/a/#": {"a/x", "a/y", "a/x/deep"},
        f"{base}/+/+/deep": {"a/x/deep"},
    }
    for one, tails in wanted.items():
        expected = {f"{base}/{tail}" for tail in tails}
        with Sub(node, one, version=version) as subscriber:
            until(lambda: {message[1] for message in subscriber.messages()} == expected, subscriber.said)


def test_hash_does_not_show_system_topics(node, version):
    publish(node, f"plain/{version}", "1", "-r", version=version)
    with Sub(node, "#", version=version) as subscriber:
        subscriber.wait(f"plain/{version}")
        assert not [message[1] for message in subscriber.messages() if message[1].startswith("$")]


@pytest.mark.parametrize("qos", [0, 1])
def test_paho_both_ways(node, version, qos):
    topic = f"paho/{version}/{qos}"
    with Paho(node, version) as reader, Paho(node, version) as writer:
        reader.subscribe(topic, qos=qos)
        for number in range(100):
            writer.publish(topic, str(number), qos)
        got = [int(reader.next().payload) for _ in range(100)]
        assert got == list(range(100))


def test_versions_meet(node):
    with Paho(node, "3.1.1") as old, Paho(node, "5") as new:
        old.subscribe("meet/old")
        new.subscribe("meet/new")
        new.publish("meet/old", "from new")
        old.publish("meet/new", "from old")
        assert (old.next().payload, new.next().payload) == (b"from new", b"from old")


@pytest.mark.parametrize("data", [127, 128, 16_384, 500_000])
def test_payloads_of_every_size(node, version, data):
    payload = os.urandom(data)
    topic = f"large/{version}"
    with Paho(node, version) as reader, Paho(node, version) as writer:
        reader.subscribe(topic)
        writer.publish(topic, payload)
        assert reader.next().payload == payload


def test_a_packet_beyond_the_limit_is_refused(node, version):
    with raw(node) as connection:
        connection.sendall(connect_packet(5 if version == "5" else 4, name=b"big"))
        assert connection.recv(64)[0] == 0x20
        # A PUBLISH that announces 256 MiB.
        connection.sendall(b"\x30\xff\xff\xff\x7f" + b"\0\1t")
        read_to_end(connection)
    node.alive()


def test_a_silent_client_is_closed(node, version):
    with raw(node) as connection:
        started = time.monotonic()
        connection.sendall(connect_packet(5 if version == "5" else 4, keepalive=1, name=b"silent"))
        read_to_end(connection)
        assert 1.4 <= time.monotonic() - started < 5  # one and a half times the keep-alive [MQTT-3.1.2-24]


def test_a_will_is_published(node, version):
    topic = f"will/{version}"
    with Sub(node, topic, version=version) as subscriber:
        publisher = Sub(node, "will/other", version=version, more=("--will-topic", topic, "--will-payload", "gone"))
        publisher.kill()
        subscriber.wait(topic, payload="gone")


def test_a_second_client_of_the_same_name_takes_over(node, version):
    with raw(node) as first, raw(node) as second:
        connect = connect_packet(5 if version == "5" else 4, name=b"twin")
        first.sendall(connect)
        assert first.recv(64)[0] == 0x20
        second.sendall(connect)
        read_to_end(first)
        assert second.recv(64)[0] == 0x20
        second.sendall(b"\xc0\0")
        assert second.recv(2) == b"\xd0\0"


BROKEN = {
    "not MQTT": b"GET / HTTP/1.1\r\n\r\n",
    "a packet of type 0": b"\0\0",
    "publish before connect": b"\x30\x05\0\1tab",
    "endless length": connect_packet() + b"\x30\xff\xff\xff\xff\xff",
    "second connect": connect_packet(name=b"a") + connect_packet(name=b"a"),
    "QoS 3": connect_packet(name=b"b") + b"\x36\x07\0\1t\0\1ab",
    "topic with a wildcard": connect_packet(name=b"c") + b"\x30\x05\0\1#ab",
    "topic that is not UTF-8": connect_packet(name=b"d") + b"\x30\x05\0\1\xffab",
    "wildcard inside a level": connect_packet(name=b"e") + b"\x82\x08\0\1\0\3a#b\0",
    "subscribe without a filter": connect_packet(name=b"f") + b"\x82\2\0\1",
    "wrong flags": connect_packet(name=b"g") + b"\x80\x08\0\1\0\3a/b\0",
    "string beyond the packet": connect_packet(name=b"h") + b"\x30\x05\xff\xfftab",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_broken_packets_end_only_their_own_connection(node, data):
    with Paho(node) as good:
        good.subscribe("calm")
        with raw(node) as connection:
            connection.sendall(data)
            read_to_end(connection)
        good.publish("calm", "still")
        assert good.next().payload == b"still"


def test_a_client_that_says_hello_too_slowly_is_closed(node):
    """One byte a second of a CONNECT: neither it nor 200 that say nothing keep others out."""
    silent = [raw(node) for _ in range(200)]
    started = time.monotonic()
    with Paho(node) as good, raw(node) as slow:
        good.subscribe("calm/slow")
        slow.settimeout(0.5)
        closed = False
        for byte in connect_packet(name=b"x" * 60):
            try:
                slow.sendall(bytes([byte]))
                closed = slow.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                closed = True
            if closed:
                break
        assert closed and time.monotonic() - started < 20
        good.publish("calm/slow", "still")
        assert good.next().payload == b"still"
    for connection in silent:
        connection.settimeout(20)
        assert read_to_end(connection) == b""
        connection.close()


def test_a_flood_of_subscriptions_is_bounded(node):
    with Paho(node) as good, raw(node) as flood:
        good.subscribe("calm/flood")
        flood.sendall(connect_packet(name=b"flood"))
        assert flood.recv(64)[0] == 0x20
        refused = 0
        for number in range(120):
            filters = [f"f/{number}/{one}/+/#".encode() for one in range(1000)]
            body = b"\0\1" + b"".join(len(one).to_bytes(2, "big") + one + b"\1" for one in filters)
            flood.sendall(b"\x82" + varint(len(body)) + body)
            answer = read_packet(flood)
            refused += answer.count(0x80, 2)
        good.publish("calm/flood", "still")
        assert good.next().payload == b"still"
        assert refused == 20_000
    until(lambda: node.request("/v1/status")[1]["subscriptions"] < 100, "its subscriptions go with it")


def test_a_subscriber_that_never_reads_costs_only_itself(node):
    with Paho(node) as good, raw(node) as deaf:
        deaf.sendall(connect_packet(name=b"deaf") + b"\x82\x0b\0\1\0\6deaf/#\1")
        assert deaf.recv(5)
        good.subscribe("deaf/last")
        for number in range(3000):
            good.client.publish(f"deaf/{number % 10}", "x" * 4000, number % 2)
        good.publish("deaf/last", "still")
        assert good.next(30).payload == b"still"
    node.alive()


def test_random_bytes_disturb_nobody(node):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    with Paho(node) as good:
        good.subscribe("calm/random")
        for number in range(200):
            with raw(node) as connection:
                start = connect_packet(source.choice([4, 5]), name=b"r") if source.random() < 0.7 else b""
                connection.sendall(start + source.randbytes(source.randrange(1, 300)))
        good.publish("calm/random", json.dumps(number))
        assert json.loads(good.next().payload) == 199
    node.alive()
