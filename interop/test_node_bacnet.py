"""node-bacnet, another author's BACnet/IP stack: as a device to the node, and as a client to our simulated device."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from bacnet import BacnetDevice
from bus import Sub
from processes import HERE, Lines, Peer
from test_discover import devices_of
from waiting import until

FOLDER = HERE / "peers" / "node_bacnet"
pytestmark = pytest.mark.skipif(not (FOLDER / "node_modules").is_dir(), reason="the packages of node-bacnet are not installed")

POINTS = [
    ("supply", "analog-input", 1, {"cov": "true"}),
    ("valve", "analog-output", 1, {"writable": "true", "write_priority": "10"}),
    ("alarm", "binary-input", 1, {"states": "normal/alarm"}),
    ("mode", "multi-state-value", 1),
    ("gone", "analog-input", 99),
]


class NodeBacnet(Peer):
    """`peers/node_bacnet/peer.mjs` in a role."""

    def __init__(self, *words):
        Lines.__init__(self, ["node", FOLDER / "peer.mjs", *map(str, words)])
        self.hello = self.first()
        self.address = self.hello["listen"]
        self._answered = 0


class Served(Peer):
    """Our simulated device: the example `serve` of wire/bacnet."""

    def __init__(self):
        target = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))
        Lines.__init__(self, [target / "debug" / "examples" / "serve"])
        self.hello = self.first()
        self.address = self.hello["listen"]
        self._answered = 0


@pytest.fixture
def device():
    with NodeBacnet("device") as peer:
        yield peer


@pytest.fixture(scope="module")
def serve():
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("there is no cargo that builds our device")
    command = [cargo, "build", "--quiet", "--locked", "--offline", "-p", "tieline-bacnet", "--example", "serve"]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, timeout=2400)
    assert done.returncode == 0, done.stderr


def test_its_device_is_read_commanded_and_tells_changes(device, start_node):
    ahu = BacnetDevice("ahu", device.address, POINTS, poll="1s")
    node = start_node(ahu)
    for name, value in [("supply", 21.5), ("valve", 5.0), ("alarm", True), ("mode", 3)]:
        node.wait_value(ahu.point(name), v=value, q="good")
    node.wait_value(ahu.point("gone"), v=None, q="bad", why=["offline"])
    until(lambda: device.do("subscriptions")["count"] == 1, device.said)
    with Sub(node, f"{ahu.topic}/#") as subscriber:
        device.do("set 0,1 30.5")
        subscriber.wait(ahu.point("supply"), v=30.5, q="good")
    assert node.command(ahu.point("valve"), 42.5)["status"] == "success"
    node.wait_value(ahu.point("valve"), v=42.5)
    until(lambda: device.objects("write") == [{"object": "1,1", "value": 42.5, "priority": 10}], device.said)


@pytest.mark.parametrize("confirmed", [True, False])
def test_its_changes_come_confirmed_or_not(device, start_node, confirmed):
    ahu = BacnetDevice("ahu", device.address, POINTS[:1], poll="60s", cov_confirmed=confirmed)
    node = start_node(ahu)
    until(lambda: device.do("subscriptions")["count"] == 1, device.said)
    for value in (1.5, 2.5, 3.5):
        device.do(f"set 0,1 {value}")
        node.wait_value(ahu.point("supply"), seconds=5, v=value, q="good")


def test_its_device_is_found(device):
    found = devices_of(device.address)
    assert list(found) == [3001] and found[3001]["vendor"] == "node-bacnet", found
    names = {thing["name"]: thing for thing in found[3001]["objects"]}
    assert set(names) == {"analog-input 1", "analog-output 1", "binary-input 1", "mode"}, names
    assert names["binary-input 1"]["states"] == ["normal", "alarm"] and names["mode"]["states"] == ["a", "b", "c"]
    assert names["analog-input 1"]["unit"] == "°C" and names["analog-output 1"]["commandable"]
    assert not device.objects("write")


def test_a_slow_a_silent_and_a_babbling_device(device, start_node):
    ahu = BacnetDevice("ahu", device.address, POINTS, poll="1s", apdu_timeout="300ms")
    node = start_node(ahu)
    node.wait_value(ahu.point("valve"), v=5.0, q="good")
    # Answers come after the request was repeated: each is taken once, and the device stays.
    device.do("slow 400")
    device.do("set 3,1 0")
    node.wait_value(ahu.point("alarm"), seconds=30, v=False)
    device.do("slow 0")
    for trouble in ("silent", "garbage"):
        device.do(f"{trouble} yes")
        node.wait_state(ahu, "away", seconds=30)
        device.do(f"{trouble} no")
        node.wait_state(ahu, "online", seconds=60)
        node.wait_value(ahu.point("valve"), v=5.0, q="good")
    assert node.alive()


def test_its_device_dies_and_comes_back(device, start_node):
    ahu = BacnetDevice("ahu", device.address, POINTS, poll="1s")
    node = start_node(ahu)
    node.wait_value(ahu.point("supply"), v=21.5, q="good")
    device.kill()
    node.wait_state(ahu, "away", seconds=30)
    with NodeBacnet("device", device.port) as again:
        again.do("set 0,1 9")
        node.wait_state(ahu, "online", seconds=60)
        node.wait_value(ahu.point("supply"), v=9.0, q="good")
        until(lambda: again.do("subscriptions")["count"] == 1, again.said)


def test_its_client_reads_writes_and_subscribes_to_our_device(serve):
    with Served() as served, NodeBacnet("client") as client:
        at = served.address
        client.do(f"who-is {at}")
        told = until(lambda: client.objects("device"), client.said)
        assert told[0]["deviceId"] == 4001, told
        assert client.do(f"read {at} 0,1 85")["values"] == [21.5]
        assert client.do(f"read {at} 8,4001 77")["values"] == ["served"]
        assert client.do(f"read-multiple {at} 0,1 85 77 117")["values"] == [21.5, "input", 62]
        refused = client.ask(f"read {at} 0,99 85")
        assert (refused["class"], refused["code"]) == (1, 31), refused
        client.do(f"write {at} 1,1 42.5 8")
        assert client.do(f"read {at} 1,1 85")["values"] == [42.5]
        client.do(f"write {at} 1,1 null 8")
        assert client.do(f"read {at} 1,1 85")["values"] == [5.0]
        assert [write["priority"] for write in served.objects("write")] == [8, 8]
        for how, value in (("unconfirmed", 30.0), ("confirmed", 40.0)):
            client.do(f"subscribe {at} 0,1 {how}")
            served.do(f"set {value}")
            wanted = {"object": "0,1", "value": value, "confirmed": how == "confirmed"}
            until(lambda wanted=wanted: wanted in client.objects("change"), client.said)
