"""Trend logs of a BACnet device: what it logged while the node did not hear it is in history, once, with its own time."""

import json

import pytest
from bacnet import BacnetDevice
from node import tieline
from processes import Peer
from waiting import until

POINTS = [("supply", "analog-input", 1, {"trend_log": "1"}), ("outside", "analog-input", 2)]


@pytest.fixture
def server():
    with Peer("bacpypes3_server") as peer:
        yield peer


def samples(node, point):
    """All that history has of a point, the oldest first."""
    return json.loads(tieline("history", "query", point, "--from", "2d", "--http", node.http, "--json").stdout)


def values(node, point):
    return [sample["v"] for sample in samples(node, point)]


def wait_values(node, point, wanted):
    until(lambda: set(wanted) <= set(values(node, point)), lambda: values(node, point), 30)


def test_what_was_logged_before_is_read_at_first(server, start_node):
    # 20 records take several answers; one failed, one is older than is wanted.
    server.do("log 90000 -1")
    for number in range(20):
        server.do(f"log {3600 - number * 60} {100 + number}")
    server.do("log 1000 fault")
    device = BacnetDevice("ahu", server.address, POINTS, backfill_max="1d")
    node = start_node(device)
    node.wait_value(device.point("supply"), v=21.5, q="good")
    wait_values(node, device.point("supply"), [100.0 + number for number in range(20)])
    found = samples(node, device.point("supply"))
    logged = [sample for sample in found if (sample["v"] or 0) >= 100]
    assert [sample["v"] for sample in logged] == [100.0 + number for number in range(20)], found
    failed = [sample for sample in found if sample["v"] is None and "offline" in sample.get("why", [])]
    assert len(failed) == 1 and -1.0 not in values(node, device.point("supply")), found
    # The live value is what it was.
    assert node.get(device.point("supply"))["v"] == 21.5
    assert "tieline_bacnet_trend_log_values_total 21" in node.metrics()
    assert server.do("ranges")["count"] >= 3


def test_what_was_logged_in_an_outage_is_read_once(server, start_node):
    device = BacnetDevice("ahu", server.address, POINTS, poll="1s")
    node = start_node(device)
    node.wait_value(device.point("supply"), v=21.5, q="good")
    until(lambda: server.do("ranges")["count"] == 1, server.said)
    server.do("silent yes")
    node.wait_state(device, "away")
    # Of before the outage, which the node heard itself, and of the outage.
    server.do("log 600 55")
    server.do("log 1 66")
    server.do("silent no")
    node.wait_state(device, "online", seconds=30)
    wait_values(node, device.point("supply"), [66.0])
    assert 55.0 not in values(node, device.point("supply"))
    # Another outage: nothing comes twice.
    server.do("silent yes")
    node.wait_state(device, "away")
    server.do("log 0 77")
    server.do("silent no")
    node.wait_state(device, "online", seconds=30)
    wait_values(node, device.point("supply"), [77.0])
    assert values(node, device.point("supply")).count(66.0) == 1


def test_it_goes_on_where_it_was_when_the_node_starts_again(server, start_node, tmp_path):
    server.do("log 5000 42")
    device = BacnetDevice("ahu", server.address, POINTS)
    node = start_node(device)
    wait_values(node, device.point("supply"), [42.0])
    node.process.kill()
    server.do("log 0 43")
    node.start()
    wait_values(node, device.point("supply"), [42.0, 43.0])
    found = values(node, device.point("supply"))
    assert (found.count(42.0), found.count(43.0)) == (1, 1), found


def test_a_log_of_something_else_is_not_taken(server, start_node):
    server.do("log 60 99")
    device = BacnetDevice("ahu", server.address, [("outside", "analog-input", 2, {"trend_log": "1"})])
    node = start_node(device)
    node.wait_value(device.point("outside"), v=-3.25, q="good")
    log = lambda: "\n".join(node.process.errors + node.process.lines)
    until(lambda: "the trend log does not log the point" in log(), log)
    assert 99.0 not in values(node, device.point("outside"))


def test_a_log_of_several_points(server, start_node):
    for number in range(10):
        server.do(f"log-both {600 - number} {100 + number} {200 + number}")
    log = {"trend_log": "trend-log-multiple:1"}
    device = BacnetDevice("ahu", server.address, [("supply", "analog-input", 1, log), ("outside", "analog-input", 2, log)])
    node = start_node(device)
    for name, first in (("supply", 100.0), ("outside", 200.0)):
        wait_values(node, device.point(name), [first + number for number in range(10)])
        assert values(node, device.point(name)).count(first) == 1


def test_a_reload_reads_a_log_that_comes_and_no_record_twice(server, start_node):
    server.do("log 600 42")
    device = lambda *points, **more: BacnetDevice("ahu", server.address, list(points), **more)
    log, plain = POINTS
    node = start_node(device(plain))
    ahu = device(*POINTS)
    supply, outside = ahu.point("supply"), ahu.point("outside")
    node.wait_value(outside, v=-3.25, q="good")
    known = node.data / "trend-logs.json"
    assert not known.exists()
    node.reload(ahu)
    wait_values(node, supply, [42.0])
    until(lambda: known.exists() and json.loads(known.read_text()) == {ahu.topic: None}, "the past is known")
    ranges = server.do("ranges")["count"]
    # The points have other numbers, on the connection that is there.
    node.reload(device(plain, log))
    node.wait_value(supply, v=21.5, q="good")
    assert server.do("ranges")["count"] == ranges
    # Connected again, it is read from then on when it last answered.
    node.reload(device(*POINTS, backfill_max="2d"))
    until(lambda: server.do("ranges")["count"] > ranges, server.said)
    until(lambda: json.loads(known.read_text()) == {ahu.topic: None}, known.read_text)
    assert values(node, supply).count(42.0) == 1
    node.reload()
    until(lambda: json.loads(known.read_text()) == {}, known.read_text)
