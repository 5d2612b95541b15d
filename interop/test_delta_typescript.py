"""The TypeScript client with MQTT.js and a node, over TCP and WebSocket: exactly what plain subscribers are sent."""

import base64
import json
import subprocess

import pytest
from bus import Paho
from node import Device, OurOutstation
from processes import HERE, Lines
from test_delta_node import Plain, Point, document, point, shapes
from waiting import until

SDK = HERE.parent / "sdk" / "typescript"
pytestmark = pytest.mark.skipif(not (SDK / "node_modules").is_dir(), reason="the TypeScript packages are not installed")


@pytest.fixture(scope="module", autouse=True)
def built():
    """The client, as its sources are."""
    done = subprocess.run(["npm", "run", "build"], cwd=SDK, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(params=["mqtt", "mqtt_websocket"])
def door(request):
    """Each transport in turn."""
    return request.param


DOORS = '[mqtt.websocket]\nlisten = "127.0.0.1:0"\n'


class Script(Lines):
    """`peers/deltas.mjs`: MQTT.js with deltas; what it was told, in order."""

    def __init__(self, node, door, *filters):
        address = json.loads(node.process.lines[0])[door]
        url = f"mqtt://{address}" if door == "mqtt" else f"ws://{address}/mqtt"
        super().__init__(["node", HERE / "peers" / "deltas.mjs", url, *filters])
        self.granted(len(filters))

    def objects(self, member):
        return [said for said in map(json.loads, list(self.lines)) if member in said]

    def granted(self, count):
        """Waits until so many filters were granted, and all with deltas."""
        answers = until(lambda: len(found := self.objects("granted")) >= count and found, self.said)
        assert len(answers) == count and all("point,hunk" in said["granted"] for said in answers), answers

    @property
    def told(self):
        return [(said["topic"], self.value(said)) for said in self.objects("topic")]

    @staticmethod
    def value(said):
        if "bytes" in said:
            return base64.b64decode(said["bytes"])
        value = Point(said["value"], tuple(said["reasons"]), int(said["micros"]))
        assert value.quality == said["quality"]
        return value

    def wait(self, topic, payload):
        """Waits until the last value of a topic is that of a plain payload."""

        def fits():
            found = [said for said in self.objects("topic") if said["topic"] == topic][-1:]
            return found and self.value(found[0]) in (payload, point(payload))

        until(fits, lambda: f"{topic} {payload[:200]}\n{self.said()[-3000:]}")

    def stats(self):
        asked = len(self.objects("stats"))
        self.send("stats")
        return until(lambda: self.objects("stats")[asked:], self.said)[0]["stats"]


def test_bytes_of_every_shape_are_rebuilt(start_node, door):
    node = start_node(more=DOORS)
    with (
        Plain(node, "shape/#") as plain,
        Script(node, door, "shape/#") as first,
        Script(node, door, "shape/+", "+/text/+") as second,
        Paho(node) as writer,
    ):
        sent = []
        for topic, payload, retain in shapes():
            writer.publish(topic, payload, retain=retain)
            sent.append((topic, payload))
            for one in [first, second]:
                until(lambda one=one: sum('"topic"' in line for line in one.lines) == len(sent), one.said)
            until(lambda: len(plain.told) == len(sent), lambda: plain.told[-3:])
        assert plain.told == first.told == second.told == sent
        for one in [first, second]:
            stats = one.stats()
            assert stats["deltas"] > 140 and stats["lost"] == 0, stats


def test_points_of_a_device_are_rebuilt(start_node, tmp_path, door):
    with OurOutstation(tmp_path) as outstation:
        device = Device("relay1", outstation.address)
        node = start_node(device, more=DOORS)
        node.wait_state(device, "online")
        node.wait_value(device.point("analog", 9), q="good")
        with Plain(node, "test/+/analog/#") as plain, Script(node, door, "test/relay1/analog/+") as script:
            for number in range(40):
                at = 1_700_000_000_000 + number * 1000 + [0, 3, -2, 5][number % 4]
                value = [number / 100 + 49.91, -(2.0**31) + number, 1e-7 * number, 1e300][number % 4]
                flags = [0x01, 0x05, 0x21, 0x03, 0x01][number % 5]
                outstation.do(f"update analog {number % 2} {value} flags={flags:#x} time={at}")
                topic = device.point("analog", number % 2)
                until(lambda: (sent := plain.of(topic)) and point(sent[-1]).micros == at * 1000, lambda: plain.told[-1:])
                script.wait(topic, plain.of(topic)[-1])
            wanted = [(topic, point(payload)) for topic, payload in plain.told]
            assert sorted(script.told[:10], key=str) == sorted(wanted[:10], key=str), "the last values, in any order"
            assert script.told[10:] == wanted[10:]
            assert script.stats()["deltas"] == 40 and not script.objects("lost")


def test_a_gap_and_a_new_connection(start_node, door):
    node = start_node(more=DOORS)
    with Script(node, door, "gap/#") as script, Paho(node) as writer:

        def update(number):
            writer.publish("gap/a", document(number, number), retain=True)

        for number in range(4):
            update(number)
            script.wait("gap/a", document(number, number))
        script.send("drop 1")
        until(lambda: script.objects("drops"), script.said)
        update(70)
        until(lambda: script.objects("dropped"), script.said)
        update(71)
        script.wait("gap/a", document(71, 71))
        assert [said["lost"] for said in script.objects("lost")] == ["gap/a"]
        before = script.stats()
        update(72)
        script.wait("gap/a", document(72, 72))
        assert script.stats()["deltas"] == before["deltas"] + 1
        script.send("break")
        update(73)
        script.granted(2)
        script.wait("gap/a", document(73, 73))
        update(74)
        script.wait("gap/a", document(74, 74))
        assert len(script.objects("lost")) == 1
