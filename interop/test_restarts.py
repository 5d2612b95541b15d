"""Devices that restart again and again: nothing that they gave is lost, and what is known of them is right each time.

`--restarts 1000` does it a thousand times; each takes about three seconds: the node connects again after one, and only where the
connection lasts longer than that it does so the next time. What each device does, and what must be in the history: README.md.
"""

import datetime
import json
import time

from bacnet import BacnetDevice
from iec104 import Iec104Device
from modbus import ModbusDevice
from node import Device
from peers.ports import free_port
from processes import Peer
from waiting import until

REPORTS = 5
# How often what was given until then is compared with the history, and told.
CHECKED_OF = 50
# A device that restarts with its events kept is also ended without a word, once in so many times.
KILLED_OF = 5
AWAY = {("away",), ("away", "stale")}


def said(peer, member, since=0):
    """What the peer has said of one kind since it had said so many lines."""
    mark = f'"{member}"'
    return [json.loads(line)[member] for line in peer.lines[since:] if mark in line]


def wait_good(node, topic, **wanted):
    return node.wait_value(topic, seconds=90, q="good", **wanted)


class Away:
    """How long a device was away the last time: the node waits longer each time, unless the connection outlasts its last wait."""

    def __init__(self):
        self.seconds, self.since = 1.0, time.monotonic()

    def begin(self):
        self.since = time.monotonic()

    def end(self):
        self.seconds = max(1.0, time.monotonic() - self.since)
        self.since = time.monotonic()

    def is_outlasted(self):
        return time.monotonic() - self.since > self.seconds + 0.2


def wait_away(node, topic):
    """The device is away, and its value says so."""
    until(lambda: node.get(topic)["q"] == "bad", lambda: node.get(topic), seconds=30)


def check_rows(node, topic, given, restarts, reasons=AWAY):
    """The history has all values that were given, and the point was bad during each restart, for the right reasons."""
    read = lambda: node.history(topic, "--limit", "10000000")
    lost = lambda: sorted(set(given) - {row["v"] for row in read()})
    # A value is in the history a moment after subscribers have it.
    until(lambda: not lost(), lambda: f"lost: {lost()[:20]}", seconds=30)
    rows = read()
    found = {tuple(row.get("why") or ()) for row in rows if row["q"] == "bad"}
    assert found <= reasons | {("initial",)}, found
    turns = [row["q"] for at, row in enumerate(rows) if at == 0 or rows[at - 1]["q"] != row["q"]]
    assert turns.count("bad") >= restarts, turns
    print(f"{restarts} restarts: {len(set(given))} values were given, and all are in the history")
    return rows


def test_a_modbus_device(start_node, request):
    """Every value that was read is in the history, however soon the device was gone after it."""
    restarts, away = request.config.getoption("--restarts"), Away()
    with Peer("pymodbus_server", "--reads") as peer:
        served = lambda since: [read["values"][0] for read in said(peer, "read", since)]
        device = ModbusDevice("meter", peer.address, [("count", "holding-register", 0)])
        node = start_node(device)
        topic, began = device.point("count"), 0
        for number in range(1, restarts + 1):
            until(lambda: served(began), peer.said, seconds=90)
            wait_good(node, topic, v=0)
            away.end()
            reads = len(served(began))
            until(lambda: away.is_outlasted() and len(served(began)) > reads, peer.said, seconds=90)
            peer.do(f"set 1 holding-registers 0 {number}")
            # It ends as soon as that was read, before the node can have shown it.
            until(lambda: number in served(began), peer.said)
            began = len(peer.lines)
            away.begin()
            peer.do("restart")
            # It may be back before anybody has looked; whether it was away is in the history.
            until(lambda: node.get(topic)["q"] == "bad" or node.get(topic)["v"] == 0, lambda: node.get(topic), seconds=30)
            if number % CHECKED_OF == 0:
                check_rows(node, topic, served(0), number)
        wait_good(node, topic, v=0)
        given = set(served(0))
        assert set(range(1, restarts + 1)) <= given
        check_rows(node, topic, given, restarts)


def test_a_bacnet_device(start_node, request):
    """Every notification that was acknowledged is in the history of a device that is killed as soon as it knows."""
    restarts, began = request.config.getoption("--restarts"), 0
    reasons = AWAY | {("away", "restart"), ("restart",)}
    points = [("count", "analog-input", 1, {"cov": "true"}), ("level", "analog-input", 2)]
    local = f"127.0.0.1:{free_port()}"
    with Peer("bacpypes3_server", "--notified", "--restarts") as peer:
        device = BacnetDevice("ahu", peer.address, points, local=local, cov_confirmed=True, retries=1)
        node = start_node(device)
        topic, level = device.point("count"), device.point("level")
        notified = lambda since: {one["value"] for one in said(peer, "notified", since)}
        for number in range(1, restarts + 1):
            until(lambda: said(peer, "subscribe", began), peer.said, seconds=30)
            wait_good(node, topic, v=21.5)
            wait_good(node, level)
            peer.do(f"set analog-input,1 {1000 + number}")
            until(lambda: 1000 + number in notified(began), peer.said, seconds=30)
            peer.off()
            wait_away(node, topic)
            began = len(peer.lines)
            peer.on()
            peer.do(f"i-am {local}")
            if number % CHECKED_OF == 0:
                check_rows(node, topic, notified(0), number, reasons)
        wait_good(node, topic, v=21.5)
        given = notified(0)
        assert set(range(1001, 1001 + restarts)) <= given
        check_rows(node, topic, given, restarts, reasons)


def test_an_iec104_station(start_node, request):
    """Every report that the node has acknowledged is in the history of a station that is killed while it reports."""
    restarts, reported, began, away = request.config.getoption("--restarts"), {}, 0, Away()
    with Peer("c104_server", "--acknowledged", "--restarts") as peer:
        device = Iec104Device("bay", peer.address, [("power", "short-float", 71)], poll={"clock": "1s"}, w=1)
        node = start_node(device)
        topic = device.point("power")
        acknowledged = lambda since: {one["value"] for one in said(peer, "acknowledged", since)}
        for number in range(1, restarts + 1):
            wait_good(node, topic, v=0.1)
            away.end()
            # Its clock is set each second.
            until(lambda: away.is_outlasted() and said(peer, "clock", began), peer.said, seconds=90)
            for value in range(number * 10, number * 10 + REPORTS):
                reported[value] = datetime.datetime.now(datetime.UTC)
                peer.send(f"report 71 {value} at={reported[value].isoformat(timespec='milliseconds')}")
            # It is killed in the middle of its reports.
            until(lambda: acknowledged(began), peer.said)
            away.begin()
            peer.off()
            wait_away(node, topic)
            began = len(peer.lines)
            peer.on()
            if number % CHECKED_OF == 0:
                check_rows(node, topic, acknowledged(0), number)
        wait_good(node, topic, v=0.1)
        given = acknowledged(0)
        assert len(given) >= restarts
        rows = check_rows(node, topic, given, restarts)
        times = {row["v"]: datetime.datetime.fromisoformat(row["t"]) for row in rows if row["q"] == "good"}
        assert all(abs(times[value] - reported[value]) < datetime.timedelta(milliseconds=1) for value in given)


def test_a_dnp3_outstation(start_node, request):
    """Every event is in the history with its time: those before, during and after a restart with events kept."""
    restarts, counted, away = request.config.getoption("--restarts"), {}, Away()
    with Peer("opendnp3_outstation", "--restarts") as peer:

        def count(times):
            for _ in range(times):
                number = len(counted) + 1
                counted[number] = round(time.time() * 1000)
                peer.do(f"update counter 0 {number} time={counted[number]}")

        device = Device("relay", peer.address, types=["counter"])
        node = start_node(device)
        topic = device.point("counter", 0)
        wait_good(node, topic)
        for number in range(1, restarts + 1):
            away.end()
            while not away.is_outlasted():
                count(1)
                wait_good(node, topic, v=len(counted))
            count(3)
            away.begin()
            if number % KILLED_OF:
                # In the middle of its reports; it counts on meanwhile.
                peer.do("stop")
                count(3)
                wait_away(node, topic)
                peer.do("start")
            else:
                # What it would forget is received before.
                wait_good(node, topic, v=len(counted))
                away.begin()
                peer.off()
                wait_away(node, topic)
                peer.on()
                count(1)
            wait_good(node, topic, v=len(counted))
            if number % CHECKED_OF == 0:
                check_rows(node, topic, counted, number)
        rows = check_rows(node, topic, set(counted), restarts)
        moments = {(row["v"], round(datetime.datetime.fromisoformat(row["t"]).timestamp() * 1000)) for row in rows}
        late = {number for number, at in counted.items() if (number, at) not in moments}
        assert not late, f"without their time: {sorted(late)[:20]}"
