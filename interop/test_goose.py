"""GOOSE of another implementation to the node, and of the node to it and to tshark, over a pair of virtual interfaces."""

import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from bus import Sub
from dissection import complaints, fields, tshark
from listed import ListedDevice
from node import BINARY, tieline
from processes import Lines, Peer
from test_trace import capture, trace
from waiting import until

_numbers = itertools.count()
GROUP = "01:0c:cd:01:00:05"
REFERENCE = "IED1LD0/LLN0$GO$gcb01"

POINTS = [
    ("trip", "boolean", "1"),
    ("current", "float32", "2.1", {"quality": "2.2", "time": "2.3", "unit": "A"}),
    ("count", "integer", "3"),
    ("energy", "unsigned", "4"),
    ("text", "visible-string", "5"),
    ("position", "double-point", "6"),
]


class GooseDevice(ListedDevice):
    """One `[device.NAME]` of GOOSE."""

    COLUMNS = ["name", "type", "index", "quality", "time", "bits", "initial", "unit", "states", "min", "max"]

    def __init__(self, name, interface, points, more="", **goose):
        super().__init__(name, points)
        self.more = more
        self.goose = {"interface": interface, "control_block": REFERENCE, "destination": GROUP, **goose}

    def toml(self):
        lines = [f"[device.{self.name}]", f'topic = "{self.topic}"', 'protocol = "goose"', f'points = "{self.name}.csv"']
        return "\n".join([*lines, self.more, f"[device.{self.name}.goose]", *self.keys(self.goose), ""])


@pytest.fixture
def pair():
    """Two interfaces, each of which receives what is sent on the other."""
    ours, theirs = (f"tl{os.getpid() % 100000}{side}{next(_numbers)}" for side in "ab")
    words = ["ip", "link", "add", ours, "type", "veth", "peer", "name", theirs]
    done = subprocess.run(words, check=False, capture_output=True, text=True) if shutil.which("ip") else None
    if done is None or done.returncode:
        why = done.stderr.strip() if done else "there is no ip of iproute2"
        pytest.skip(f"SKIPPED: virtual interfaces need CAP_NET_ADMIN: {why}")
    try:
        for one in (ours, theirs):
            subprocess.run(["ip", "link", "set", one, "up"], check=True)
        is_up = lambda: all(Path(f"/sys/class/net/{one}/carrier").read_text().strip() == "1" for one in (ours, theirs))
        until(is_up, "both interfaces are up")
        yield ours, theirs
    finally:
        subprocess.run(["ip", "link", "delete", ours], check=False)


@pytest.fixture
def publisher(pair):
    pytest.importorskip("pyiec61850", reason="SKIPPED: pyiec61850 is not installed")
    with Peer("libiec61850_goose", "publisher", pair[1]) as peer:
        yield peer


def metric(node, name):
    return next(float(line.rsplit(" ", 1)[1]) for line in node.metrics().splitlines() if line.startswith(f"tieline_goose_{name}"))


def device_of(pair, name="relay", **goose):
    return GooseDevice(name, pair[0], POINTS, **{"app_id": 0x1000, "conf_rev": 3, **goose})


def test_a_subscription_follows_a_publisher(pair, publisher, start_node):
    device = device_of(pair)
    node = start_node(device)
    publisher.do("publish")
    node.wait_state(device, "online")
    for name, value in {"trip": False, "current": 1.5, "count": -1234, "energy": 3000000000, "text": "abc", "position": 2}.items():
        node.wait_value(device.point(name), v=value, q="good")
    with Sub(node, f"{device.topic}/#") as subscriber:
        subscriber.wait(device.point("trip"), retained=True, v=False)
        publisher.do("change on")
        subscriber.wait(device.point("trip"), retained=False, v=True, q="good")
        publisher.do("float 2.5")
        # The time is that of its own member.
        subscriber.wait(device.point("current"), v=2.5, t="2025-11-20T09:30:00.250Z")
    node.wait_history(device.point("trip"), v=True, q="good")
    assert metric(node, "changes_total") == 2 and metric(node, "missed_total") == 0 and metric(node, "misfits_total") == 0


def test_values_end_with_the_time_allowed_to_live(pair, publisher, start_node):
    device = device_of(pair)
    node = start_node(device)
    publisher.do("ttl 300")
    publisher.do("publish")
    node.wait_value(device.point("trip"), v=False, q="good")
    node.wait_value(device.point("trip"), v=False, q="bad")
    node.wait_state(device, "away")
    publisher.do("ttl 60000")
    publisher.do("publish")
    node.wait_value(device.point("trip"), v=False, q="good")
    assert metric(node, "expired_total") == 1


def test_restarts_and_losses_of_a_publisher_are_seen(pair, publisher, start_node):
    device = device_of(pair)
    node = start_node(device)
    publisher.do("ttl 60000")
    publisher.do("publish")
    node.wait_state(device, "online")
    publisher.do("st 7")
    publisher.do("publish 3")
    until(lambda: metric(node, "missed_total") == 5, lambda: node.metrics())
    publisher.do("sq 10")
    publisher.do("publish")
    until(lambda: metric(node, "lost_total") == 6, lambda: node.metrics())
    publisher.do("restart")
    publisher.do("change on")
    node.wait_value(device.point("trip"), v=True, q="good")
    until(lambda: metric(node, "restarts_total") == 1, lambda: node.metrics())


def test_what_is_not_expected_is_not_used(pair, publisher, start_node):
    device = device_of(pair)
    node = start_node(device)
    publisher.do("ttl 60000")
    publisher.do("publish")
    node.wait_value(device.point("trip"), v=False, q="good")
    for wrong, right in (("confrev 4", "confrev 3"), ("commission on", "commission off")):
        publisher.do(wrong)
        publisher.do("publish")
        node.wait_value(device.point("trip"), v=False, q="bad")
        publisher.do(right)
        publisher.do("publish")
        node.wait_value(device.point("trip"), v=False, q="good")
    publisher.do("simulation on")
    publisher.do("change on")
    until(lambda: metric(node, "simulated_total") == 1, lambda: node.metrics())
    assert node.get(device.point("trip"))["v"] is False


def test_simulated_messages_are_marked_where_they_are_accepted(pair, publisher, start_node):
    device = device_of(pair, simulation="accept")
    node = start_node(device)
    publisher.do("ttl 60000")
    publisher.do("publish")
    node.wait_value(device.point("trip"), v=False, q="good")
    publisher.do("simulation on")
    publisher.do("change on")
    node.wait_value(device.point("trip"), v=True, q="uncertain")


def test_devices_share_the_socket_of_an_interface(pair, publisher, start_node):
    devices = [device_of(pair, "one"), device_of(pair, "two")]
    node = start_node(*devices)
    publisher.do("ttl 60000")
    publisher.do("change on")
    for device in devices:
        node.wait_value(device.point("trip"), v=True, q="good")
    sockets = [line for line in Path("/proc/net/packet").read_text().splitlines() if " 88b8 " in line]
    index = Path(f"/sys/class/net/{pair[0]}/ifindex").read_text().strip()
    assert len([line for line in sockets if line.split()[4] == index]) == 1, sockets
    members = Path("/proc/net/dev_mcast").read_text().splitlines()
    assert [line for line in members if pair[0] in line.split() and "010ccd010005" in line], members
    node.reload(devices[1])
    publisher.do("change off")
    node.wait_value(devices[1].point("trip"), v=False, q="good")


OWN = [
    ("trip", "boolean", "1.1", {"quality": "1.2", "time": "1.3"}),
    ("position", "double-point", "2"),
    ("level", "float32", "3", {"min": "0", "max": "100"}),
    ("mask", "bit-string", "4", {"bits": "4"}),
    ("count", "integer", "5", {"initial": "-7"}),
    ("text", "visible-string", "6", {"initial": "bay7"}),
]


def own(pair, **goose):
    return GooseDevice("own", pair[0], OWN, publish=True, data_set="IED1LD0/LLN0$ds01", conf_rev=9, app_id=0x1234, **goose)


def test_what_a_node_publishes_others_read(pair, start_node):
    pytest.importorskip("pyiec61850", reason="SKIPPED: pyiec61850 is not installed")
    device = own(pair)
    with Peer("libiec61850_goose", "subscriber", pair[1], REFERENCE) as peer:
        node = start_node(device)
        node.wait_state(device, "online")

        def wait(**wanted):
            found = lambda: [one for one in peer.objects("message") if all(one[key] == value for key, value in wanted.items())]
            return until(found, lambda: f"{wanted}\n{peer.said()}")[-1]

        good = [False] * 13
        first = wait(st=1)
        assert (first["conf_rev"], first["go_id"]) == (9, REFERENCE)
        assert first["values"][1:] == [[False, False], 0.0, [False] * 4, -7, "bay7"]
        assert node.command(device.point("trip"), True)["status"] == "success"
        values = wait(st=2)["values"]
        assert values[0][:2] == [True, good] and values[0][2] > 1_700_000_000_000
        node.wait_value(device.point("trip"), v=True, q="good")
        assert node.command(device.point("position"), True)["status"] == "success"
        assert node.command(device.point("level"), 2.5)["status"] == "success"
        assert node.command(device.point("mask"), 5)["status"] == "success"
        assert wait(st=5)["values"][1:4] == [[True, False], 2.5, [False, True, False, True]]
        # The repetitions become rarer.
        assert wait(st=5, sq=8)["ttl"] == 2000
        assert metric(node, 'devices{state="published"}') == 1


def test_tshark_reads_what_a_node_publishes(pair, start_node, tmp_path):
    device = own(pair, vlan_id=5, vlan_priority=6, simulation="accept")
    path = tmp_path / "wire.pcap"
    with Lines(["tshark", "-l", "-P", "-i", pair[1], "-w", path, "-F", "pcap"]) as recorder:
        until(lambda: any("Capturing" in line for line in recorder.errors), recorder.said)
        node = start_node(device)
        node.wait_state(device, "online")
        assert node.command(device.point("trip"), True)["status"] == "success"
        assert node.command(device.point("level"), 2.5)["status"] == "success"
        sent = metric(node, "sent_total")
        until(lambda: sum("GOOSE" in line for line in recorder.lines) >= sent, recorder.said, 30)
        assert metric(node, "sent_changes_total") == 3
    assert not complaints(path, "goose")
    seen = lambda field: set(fields(path, "goose", field))
    assert seen("goose.appid") == {"0x1234"} and seen("vlan.id") == {"5"} and seen("vlan.priority") == {"6"}
    assert seen("goose.gocbRef") == {REFERENCE} and seen("goose.confRev") == {"9"} and seen("goose.numDatSetEntries") == {"6"}
    assert seen("goose.reserve1.s_bit") == {"1"} or seen("goose.reserve1.s_bit") == {"True"}
    names = ["goose.stNum", "goose.boolean", "goose.float_value", "goose.integer", "goose.visible_string"]
    words = [word for name in names for word in ("-e", name)]
    rows = [line.split("\t") for line in tshark(path, "-Y", "goose", "-T", "fields", *words).splitlines()]
    assert [row for row in rows if row[0] == "3" and row[2:] == ["2.5", "-7", "bay7"]], rows


def test_traces_and_captures_hold_the_frames(pair, publisher, start_node, tmp_path):
    device = device_of(pair)
    node = start_node(device)
    publisher.do("ttl 60000")
    publisher.do("change on")
    node.wait_value(device.point("trip"), v=True, q="good")
    line = [line for line in trace(node, device) if line.get("control_block") or "stNum 2" in json.dumps(line)]
    assert line, trace(node, device)
    path = capture(node, device, tmp_path / "relay.pcapng")
    assert fields(path, "goose", "goose.stNum") == ["2"] and not complaints(path, "goose")


def test_a_listener_prints_messages(pair, publisher):
    with Lines([BINARY, "goose", "listen", pair[0], "--json", "--count", "2"]) as listener:
        until(lambda: publisher.do("publish") and listener.process.poll() is not None, listener.said)
    assert listener.process.returncode == 0 and len(listener.lines) == 2, listener.said()
    said = json.loads(listener.lines[0])
    assert (said["control_block"], said["app_id"], said["conf_rev"]) == (REFERENCE, 0x1000, 3)
    assert said["values"] == [False, [1.5, "0" * 13, "2025-11-20T09:30:00.250Z"], -1234, 3000000000, "abc", "10"]


def test_a_point_list_is_published_without_a_node(pair, tmp_path, start_node):
    device = GooseDevice("own", pair[0], OWN)
    (tmp_path / "own.csv").write_text(device.csv())
    words = ["--control-block", REFERENCE, "--data-set", "IED1LD0/LLN0$ds01", "--destination", GROUP]
    with Lines([BINARY, "goose", "publish", pair[1], tmp_path / "own.csv", *words]) as publisher:
        until(lambda: publisher.lines, publisher.said)
        node = start_node(device)
        node.wait_value(device.point("text"), v="bay7", q="good")
        publisher.send("set level 2.5")
        node.wait_value(device.point("level"), v=2.5, q="good")
        publisher.send("set none 1")
        publisher.send("quit")
        until(lambda: publisher.process.poll() == 0, publisher.said)
    assert publisher.lines[1:] == ["ok", 'error: there is no point "none"', "ok"]


def test_without_the_capability_it_is_said_what_is_missing(tmp_path):
    drop = shutil.which("setpriv")
    if os.geteuid() != 0 or not drop:
        pytest.skip("SKIPPED: only root can drop a capability, with setpriv of util-linux")
    words = [drop, "--bounding-set", "-net_raw", "--inh-caps", "-net_raw", BINARY, "goose", "listen", "lo"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=30)
    assert done.returncode != 0 and "CAP_NET_RAW" in done.stderr, done


def test_an_interface_that_is_not_there_is_named():
    if os.geteuid() != 0:
        pytest.skip("SKIPPED: a packet socket needs CAP_NET_RAW")
    done = tieline("goose", "listen", "none0", check=False)
    assert done.returncode != 0 and 'no network interface "none0"' in done.stderr
