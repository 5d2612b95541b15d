"""Publishers that send what changed (docs/delta.md, Publishers): clients of Python and TypeScript, and our command line."""

import json
import random
import socket
import threading

import paho.mqtt.client as paho
import pytest
from node import tieline
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from processes import HERE, Lines
from test_delta_node import Plain
from tieline.delta.paho import Deltas, connect_properties
from waiting import until

SDK = HERE.parent / "sdk" / "typescript"


@pytest.fixture
def node(start_node):
    return start_node()


def document(number, text=""):
    return json.dumps({"number": number, "square": number * number % 9973, "name": "feeder 7", "text": text}).encode()


def metric(node, name):
    """A number that the node counts."""
    return float(next(line.split()[1] for line in node.metrics().splitlines() if line.startswith(f"{name} ")))


def documents(count):
    draw = random.Random(11)
    return [document(number, "x" * draw.randrange(40) if draw.randrange(4) == 0 else "") for number in range(count)]


class Pipe:
    """A way to a node that can be cut."""

    def __init__(self, port):
        self.port, self.open = port, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def mqtt_port(self):
        return self.listener.getsockname()[1]

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.port))
            self.open += [near, far]
            for source, sink in [(near, far), (far, near)]:
                threading.Thread(target=self.copy, args=(source, sink), daemon=True).start()

    @staticmethod
    def copy(source, sink):
        try:
            while data := source.recv(65_536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def cut(self):
        opened, self.open = self.open, []
        for one in opened:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.cut()


class Publisher:
    """The Python client with paho-mqtt."""

    def __init__(self, port, name=""):
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv5)
        self.client.reconnect_delay_set(1, 1)
        self.answered = []
        self.client.on_publish = lambda _client, _data, mid, reason, _properties: self.answered.append((mid, reason.value))
        self.deltas = Deltas(self.client, lambda *_: None)
        self.client.connect("127.0.0.1", port, properties=connect_properties())
        self.client.loop_start()
        until(self.client.is_connected, "paho connects")

    def publish(self, topic, value, qos=1):
        return self.deltas.publish(topic, value, qos, True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.disconnect()
        self.client.loop_stop()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_paho_sends_what_changed(node, qos):
    values = documents(200)
    with Plain(node, "p/#") as plain, Publisher(node.mqtt_port) as publisher:
        for value in values:
            publisher.publish("p/a", value, qos)
        until(lambda: len(plain.told) == len(values), lambda: plain.told[-2:])
        assert [value for _, value in plain.told] == values
        stats = publisher.deltas.sender.stats
        assert stats["refused"] == 0
        if qos < 2:
            assert stats["deltas"] > 100, stats
        assert metric(node, "tieline_mqtt_published_deltas_total") == stats["deltas"]
        assert metric(node, "tieline_mqtt_deltas_refused_total") == 0


@pytest.mark.parametrize("qos", [0, 1])
def test_what_the_node_cannot_apply_goes_again_whole(node, qos):
    with Plain(node, "p/#") as plain, Publisher(node.mqtt_port) as publisher:
        for number in range(4):
            publisher.publish("p/a", document(number), qos)
        # As if a library had lost one.
        assert publisher.deltas.sender.say("p/a", document(5), (qos, True)).is_delta
        publisher.publish("p/a", document(6), qos)
        until(lambda: plain.told[-1:] == [("p/a", document(6))], lambda: plain.told)
        assert [value for _, value in plain.told] == [document(number) for number in [0, 1, 2, 3, 6]]
        publisher.publish("p/a", document(7), qos)
        until(lambda: plain.told[-1:] == [("p/a", document(7))], lambda: plain.told)
        assert publisher.deltas.sender.stats["refused"] == 1
        if qos:
            until(lambda: len(publisher.answered) == 7, lambda: publisher.answered)
            assert [reason for _, reason in publisher.answered].count(0x99) == 1
        assert metric(node, "tieline_mqtt_deltas_refused_total") == 1


def test_paho_over_connections_that_break_ends_with_the_last_values(node):
    draw = random.Random(3)
    with Plain(node, "p/#") as plain, Pipe(node.mqtt_port) as pipe, Publisher(pipe.mqtt_port, "publisher") as publisher:
        said, last = {}, {}
        for turn in range(8):
            for number in range(40):
                topic = f"p/{draw.randrange(5)}"
                last[topic] = document(turn * 100 + number, "y" * turn)
                said.setdefault(topic, set()).add(last[topic])
                publisher.publish(topic, last[topic])
                if number == 20:
                    # Some have been answered when the connection breaks, some not.
                    until(lambda: plain.latest() == last, lambda: f"{plain.latest()}\n{last}")
            pipe.cut()
            until(lambda: not publisher.client.is_connected(), "the connection is seen to be gone")
            last["p/0"] = document(turn, "while it is away")
            said.setdefault("p/0", set()).add(last["p/0"])
            publisher.publish("p/0", last["p/0"])
            until(publisher.client.is_connected, "paho connects again")
        until(lambda: plain.latest() == last, lambda: f"{plain.latest()}\n{last}")
        assert all(value in said[topic] for topic, value in plain.told)
        assert publisher.deltas.sender.stats["deltas"] > 50, publisher.deltas.sender.stats


def test_two_publishers_of_one_topic(node):
    with Plain(node, "p/#") as plain, Publisher(node.mqtt_port) as first, Publisher(node.mqtt_port) as second:
        told = []
        for number in range(60):
            publisher, text = [(first, "first"), (second, "the second one")][number % 2]
            told.append(document(number, text))
            publisher.publish("p/a", told[-1]).wait_for_publish(20)
        until(lambda: len(plain.told) == len(told), lambda: plain.told[-2:])
        assert [value for _, value in plain.told] == told
        assert all(one.deltas.sender.stats["deltas"] > 20 for one in [first, second])


def test_hostile_publishers_get_a_reason_and_disturb_nobody(node):
    """Deltas of nothing, cut short, and that unpack to more than there is room for."""
    import zstandard

    bomb = zstandard.ZstdCompressor(level=19).compress(b"\0" * (64 << 20))
    liar = zstandard.ZstdCompressor(level=19, write_content_size=True).compress(b"\0" * (900 << 10))
    several = bytes([0xC0, 31]) + b"\3\0" * 31
    hostile = [b"\x60\x00", b"\xff", b"\x20", b"\x80" + bomb, b"\x80" + liar, several, b"\x60" + b"\xff" * 9 + b"\x01", b"\x40\x02"]
    memory = metric(node, "process_resident_memory_bytes")
    with Plain(node, "p/#") as plain, Publisher(node.mqtt_port) as honest, Publisher(node.mqtt_port) as hostile_one:
        marked = Properties(PacketTypes.PUBLISH)
        marked.UserProperty = ("tieline-delta", "1")
        whole = b"\0" + document(0)
        for number, payload in enumerate(hostile * 5):
            for one in [payload, whole, payload, payload]:
                hostile_one.client.publish(f"hostile/{number}", one, 1, True, marked).wait_for_publish(20)
            honest.publish("p/a", document(number))
        until(lambda: len(hostile_one.answered) == len(hostile) * 20, lambda: hostile_one.answered[-3:])
        reasons = [reason for _, reason in hostile_one.answered]
        taken = reasons.count(0)
        assert reasons.count(0x99) == len(reasons) - taken and taken >= len(hostile) * 5
        until(lambda: len(plain.told) == len(hostile) * 5, lambda: plain.told[-2:])
        assert [value for _, value in plain.told] == [document(number) for number in range(len(hostile) * 5)]
    assert metric(node, "process_resident_memory_bytes") < memory + (40 << 20)


class Script(Lines):
    """`peers/deltas.mjs`: MQTT.js with deltas."""

    def __init__(self, port):
        super().__init__(["node", HERE / "peers" / "deltas.mjs", f"mqtt://127.0.0.1:{port}", "own/#"])
        until(lambda: self.objects("granted"), self.said)

    def objects(self, member):
        return [said for said in map(json.loads, list(self.lines)) if member in said]

    def ask(self, words, member):
        asked = len(self.objects(member))
        self.send(words)
        return until(lambda: self.objects(member)[asked:], self.said)[0][member]


@pytest.fixture(scope="module")
def built():
    """The TypeScript client, as its sources are."""
    if not (SDK / "node_modules").is_dir():
        pytest.skip("the TypeScript packages are not installed")
    import subprocess

    done = subprocess.run(["npm", "run", "build"], cwd=SDK, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_js_sends_what_changed(node, built, qos):
    values = documents(100)
    with Plain(node, "p/#") as plain, Pipe(node.mqtt_port) as pipe, Script(pipe.mqtt_port) as script:
        for value in values:
            script.send(f"publish p/a {qos} {value.decode()}")
        until(lambda: len(plain.told) == len(values), script.said)
        assert [value for _, value in plain.told] == values
        until(lambda: len(script.objects("published")) == len(values), script.said)
        assert all(said["error"] is None for said in script.objects("published"))
        stats = script.ask("sender", "sender")
        assert stats["refused"] == 0 and (stats["deltas"] > 50 or qos == 2), stats
        if qos == 2:
            return
        # One that was lost: the node refuses the next, which comes again whole.
        for number in [998, 999]:
            script.send(f"publish p/a {qos} {document(number).decode()}")
        until(lambda: plain.told[-1:] == [("p/a", document(999))], script.said)
        assert script.ask(f"unsaid p/a {document(997).decode()}", "unsaid") is True
        script.send(f"publish p/a {qos} {document(1000).decode()}")
        until(lambda: plain.told[-1:] == [("p/a", document(1000))], script.said)
        assert script.ask("sender", "sender")["refused"] == 1
        # Another connection has no base.
        script.send("break")
        until(lambda: len(script.objects("granted")) == 2, script.said)
        for number in range(1001, 1010):
            script.send(f"publish p/a {qos} {document(number).decode()}")
        until(lambda: plain.told[-1:] == [("p/a", document(1009))], script.said)
        assert script.ask("sender", "sender")["refused"] == 1


def test_lines_of_our_command_line(node):
    values = [document(number) for number in range(50)]
    with Plain(node, "p/#") as plain:
        words = ["pub", "p/a", "--lines", "--delta", "--retain", "--mqtt", node.mqtt]
        done = tieline(*words, input=b"\n".join(values).decode() + "\n")
        until(lambda: len(plain.told) == len(values), lambda: plain.told[-2:])
        assert [value for _, value in plain.told] == values
        whole, deltas, refused = (int(word) for word in done.stderr.replace(",", "").split() if word.isdigit())
        assert whole + deltas == 50 and deltas > 30 and refused == 0, done.stderr
