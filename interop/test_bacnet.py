"""BACnet devices of another implementation to the node: what they have, what they are told, how they fail."""

import time

import pytest
from bacnet import BacnetDevice
from bus import Sub
from node import tieline
from processes import Peer
from waiting import until

POINTS = [
    ("supply", "analog-input", 1),
    ("outside", "analog-input", 2, {"scale": "2", "offset": "1"}),
    ("valve", "analog-output", 1, {"writable": "true", "min": "0", "max": "100", "write_priority": "10"}),
    ("fan_alarm", "binary-input", 1, {"states": "normal/alarm"}),
    ("fan", "binary-output", 1, {"writable": "true", "states": "stopped/running"}),
    ("occupied", "binary-value", 1),
    ("mode", "multi-state-input", 1),
    ("stage", "multi-state-output", 1, {"writable": "true", "min": "1", "max": "4"}),
    ("balance", "integer-value", 1),
    ("label", "characterstring-value", 1),
    ("step", "analog-input", 1, {"property": "cov-increment"}),
    ("name", "analog-output", 1, {"property": "object-name"}),
    ("at_10", "analog-output", 1, {"property": "priority-array", "array_index": "10"}),
    ("vendor", "device", 1001, {"property": "vendor-name"}),
]

EXPECT = {
    "supply": 21.5,
    "outside": -5.5,
    "valve": 5.0,
    "fan_alarm": True,
    "fan": False,
    "occupied": True,
    "mode": 3,
    "stage": 1,
    "balance": -42,
    "label": "AHU 1 läuft",
    "step": 0.5,
    "name": "analog-output 1",
    "vendor": "BACpypes",
}


@pytest.fixture
def server():
    with Peer("bacpypes3_server") as peer:
        yield peer


def requests_of(node):
    """Requests that its devices were sent."""
    lines = [line for line in node.metrics().splitlines() if line.startswith("tieline_bacnet_requests_total")]
    return int(lines[0].split()[-1])


def check_values(node, device):
    for name, value in EXPECT.items():
        node.wait_value(device.point(name), v=value, q="good")


def test_every_kind_of_value_reaches_subscribers_and_history(server, start_node):
    device = BacnetDevice("ahu", server.address, POINTS)
    node = start_node(device)
    node.wait_state(device, "online")
    check_values(node, device)
    with Sub(node, f"{device.topic}/#") as subscriber:
        subscriber.wait(device.point("supply"), retained=True, v=21.5)
        server.do("set analog-input,1 22.25")
        subscriber.wait(device.point("supply"), retained=False, v=22.25, q="good")
        server.do("set binary-input,1 inactive")
        subscriber.wait(device.point("fan_alarm"), v=False)
    node.wait_history(device.point("supply"), v=22.25, q="good")
    metrics = node.metrics()
    assert 'tieline_bacnet_devices{state="online"} 1' in metrics


def test_status_flags_are_qualities(server, start_node):
    device = BacnetDevice("ahu", server.address, POINTS)
    node = start_node(device)
    check_values(node, device)
    for flags, quality, why in [
        ("in-alarm", "good", None),
        ("fault", "bad", ["comm_lost"]),
        ("out-of-service in-alarm", "bad", ["offline"]),
    ]:
        server.do(f"flags analog-input,1 {flags}")
        wanted = {"v": 21.5, "q": quality} | ({"why": why} if why else {})
        node.wait_value(device.point("supply"), **wanted)
        node.wait_value(device.point("outside"), q="good")


def test_commands_are_written_at_their_priority_and_read_back(server, start_node):
    device = BacnetDevice("ahu", server.address, POINTS, poll="10s")
    node = start_node(device)
    check_values(node, device)
    for name, value, shown, object_name, priority in [
        ("valve", 42.5, 42.5, "analog-output,1", 10),
        ("fan", "running", True, "binary-output,1", 16),
        ("stage", 3, 3, "multi-state-output,1", 16),
    ]:
        answer = node.command(device.point(name), value)
        assert answer["status"] == "success", (name, answer)
        node.wait_value(device.point(name), seconds=3, v=shown)  # long before the next poll
        assert server.do(f"priorities {object_name}")["set"] == [priority]
        writes = [write for write in server.objects("write") if write["object"] == object_name]
        assert [write["priority"] for write in writes] == [priority]
    # What stands after a command is relinquished is for the device to say: no reading confirms it.
    done = tieline("command", device.point("valve"), "null", "--http", node.http)
    assert "accepted by the device" in done.stdout and "confirmed" not in done.stdout + done.stderr, done
    assert server.do("priorities analog-output,1")["set"] == []
    assert node.command(device.point("valve"), 101)["reason"] == "out_of_range"
    assert node.command(device.point("supply"), 1)["reason"] == "not_writable"
    refused = node.command(device.point("stage"), 4)
    assert refused["status"] == "success", refused


def test_changes_come_long_before_the_poll(server, start_node):
    points = [(*point[:3], {**(point[3] if len(point) > 3 else {}), "cov": "true"}) for point in POINTS[:6]]
    device = BacnetDevice("ahu", server.address, points, poll="30s", cov_lifetime="60s")
    node = start_node(device)
    for name in ["supply", "outside", "valve", "fan_alarm", "fan", "occupied"]:
        node.wait_value(device.point(name), v=EXPECT[name], q="good")
    until(lambda: server.do("subscriptions")["count"] == 6, server.said)
    for number in range(5):
        server.do(f"set analog-input,1 {30 + number}")
        node.wait_value(device.point("supply"), seconds=3, v=30.0 + number, q="good")
    server.do("set binary-input,1 inactive")
    node.wait_value(device.point("fan_alarm"), seconds=3, v=False)
    # A step below the increment is no change.
    server.do("set analog-input,1 34.25")
    assert "tieline_bacnet_subscriptions 6" in node.metrics()


def test_a_device_that_restarts_is_subscribed_to_again(server, start_node):
    points = [("supply", "analog-input", 1, {"cov": "true"})]
    with Peer("bacpypes3_server") as other:
        local = other.address
    device = BacnetDevice("ahu", server.address, points, poll="60s", local=local)
    node = start_node(device)
    until(lambda: server.do("subscriptions")["count"] == 1, server.said)
    server.do("forget")
    server.do("revise")
    server.do("set analog-input,1 77")
    server.do(f"i-am {local}")
    node.wait_value(device.point("supply"), seconds=10, v=77.0, q="good")
    until(lambda: server.do("subscriptions")["count"] == 1, server.said)
    server.do("set analog-input,1 78")
    node.wait_value(device.point("supply"), seconds=3, v=78.0, q="good")


def test_an_object_that_is_not_there_costs_itself_alone(server, start_node):
    absent = [("gone", "analog-input", 99), ("none", "analog-input", 1, {"property": "high-limit"})]
    for read_multiple in [True, False]:
        device = BacnetDevice("ahu", server.address, [*POINTS, *absent], read_multiple=read_multiple)
        node = start_node(device)
        check_values(node, device)
        for name in ["gone", "none"]:
            node.wait_value(device.point(name), v=None, q="bad", why=["offline"])
        node.wait_state(device, "online")
        node.__exit__()


def test_a_server_that_dies_and_comes_back(server, start_node):
    # Three intervals are longer than the request that finds nobody: nothing is stale before the device is away.
    device = BacnetDevice("ahu", server.address, POINTS, poll="1s")
    node = start_node(device)
    check_values(node, device)
    server.kill()
    node.wait_state(device, "away")
    node.wait_value(device.point("supply"), v=21.5, q="bad", why=["away"])
    assert node.command(device.point("valve"), 3)["reason"] == "away"
    with Peer("bacpypes3_server", "--port", str(server.port)) as again:
        again.do("set analog-input,1 9")
        node.wait_state(device, "online", seconds=30)
        node.wait_value(device.point("supply"), v=9.0, q="good")


def test_an_unknown_outcome_is_told_and_nothing_is_written_twice(server, start_node):
    device = BacnetDevice("ahu", server.address, POINTS, poll="60s")
    node = start_node(device)
    check_values(node, device)
    server.do("silent yes")
    answer = node.command(device.point("valve"), 22)
    assert (answer["status"], answer["reason"]) == ("unknown", "timeout"), answer
    server.do("silent no")
    node.wait_state(device, "online", seconds=30)
    assert server.objects("write") == []


@pytest.mark.parametrize("max_apdu", [None, 206])
def test_many_points_are_read_by_as_few_requests_as_it_takes(start_node, max_apdu):
    arguments = ["--values", "300"] + ([] if max_apdu is None else ["--max-apdu", str(max_apdu)])
    with Peer("bacpypes3_server", *arguments) as server:
        points = [(f"v{number}", "analog-value", number) for number in range(300)]
        device = BacnetDevice("many", server.address, points, poll="1h")
        node = start_node(device)
        start = time.monotonic()
        for number in [0, 150, 299]:
            node.wait_value(device.point(f"v{number}"), v=number / 2, q="good")
        print(f"300 points of a device of max-apdu {max_apdu or 1024} in {time.monotonic() - start:.2f} s")
        good = lambda: sum(node.get(device.point(f"v{number}"))["q"] == "good" for number in range(300))
        until(lambda: good() == 300, lambda: f"{good()} of 300 are good")
        requests = requests_of(node)
        print(f"{requests} requests")
        assert requests < (30 if max_apdu is None else 60)


def test_the_instance_may_be_said_or_not(server, start_node):
    known = BacnetDevice("known", server.address, POINTS, instance=1001)
    other = BacnetDevice("other", server.address, POINTS, instance=7)
    node = start_node(known, other)
    check_values(node, known)
    node.wait_state(other, "away")


@pytest.mark.parametrize("clock", ["utc", "local"])
def test_clocks_are_set_where_it_is_wanted(server, start_node, clock):
    device = BacnetDevice("ahu", server.address, POINTS, time_sync=clock)
    start_node(device)
    said = until(lambda: server.objects("clock"), server.said)
    assert said[0]["utc"] == (clock == "utc")


def test_several_devices_behind_one_router(start_node):
    points = [("position", "analog-output", 1, {"writable": "true"}), ("name", "device", 2001, {"property": "object-name"})]
    with Peer("bacpypes3_router", "--devices", "3") as router:
        devices = [BacnetDevice(f"vav{mac}", router.address, points, network=100, mac=mac) for mac in (1, 2)]
        # Instances may be said; the address in hex; one that nobody has.
        devices.append(BacnetDevice("vav3", router.address, points, network=100, mac="03", instance=2003))
        absent = BacnetDevice("vav4", router.address, points, network=100, mac=4)
        node = start_node(*devices, absent)
        for mac, device in enumerate(devices, 1):
            node.wait_value(device.point("position"), v=mac * 1.5, q="good")
        assert node.command(devices[1].point("position"), 42.0)["status"] == "success"
        node.wait_value(devices[1].point("position"), v=42.0)
        assert [router.do(f"get {mac}")["value"] for mac in (1, 2, 3)] == [1.5, 42.0, 4.5]
        node.wait_value(devices[0].point("name"), v="device 2001", q="good")
        node.wait_value(devices[1].point("name"), v=None, q="bad", why=["offline"])
        node.wait_state(absent, "away")


def test_a_foreign_device_hears_broadcasts(start_node):
    points = [("position", "analog-output", 1)]
    with Peer("bacpypes3_router", "--devices", "1") as router:
        device = BacnetDevice("vav", router.address, points, network=100, poll="1h", mac=1, bbmd=router.address, foreign_lifetime="30s")
        node = start_node(device)
        node.wait_value(device.point("position"), v=1.5, q="good")
        until(lambda: router.do("foreign")["count"] == 1, router.said)
        log = lambda: "\n".join(node.process.errors + node.process.lines)
        until(lambda: "registered as a foreign device" in log(), log)
        # All else that it is asked is behind it: its first poll was the last.
        before = requests_of(node)
        router.do("i-am 1")
        until(lambda: requests_of(node) > before, "the device is not looked at after its I-Am")
