"""IEC 60870-5-104 stations of another implementation to the node: what they report, what they are told, how they fail."""

import datetime
import time

import pytest
from authority import Authority
from bus import Sub
from dissection import complaints, fields, frames
from iec104 import START_ACT, START_CON, Iec104Device, Path, RawStation
from processes import Peer
from test_trace import capture, trace, wait_lines
from waiting import until

POINTS = [
    ("switch", "single-point", 10, {"control": "5010", "states": "open/closed"}),
    ("door", "single-point", 11),
    ("breaker", "double-point", 20, {"control": "5020"}),
    ("isolator", "double-point", 21),
    ("tap", "step-position", 30, {"control": "5030"}),
    ("moving", "step-position", 31),
    ("bits", "bitstring", 40, {"control": "5040"}),
    ("current", "normalized", 50, {"scale": "400", "control": "5050"}),
    ("bare", "normalized", 51),
    ("level", "scaled", 60, {"scale": "0.1", "control": "5060"}),
    ("stamped", "scaled", 61),
    ("voltage", "short-float", 70, {"control": "5070", "min": "0", "max": "100"}),
    ("power", "short-float", 71, {"control": "5071", "mode": "direct"}),
    ("energy", "integrated-totals", 80),
    ("status", "status-change", 90),
    ("relay/event", "protection-event", 95),
    ("relay/start", "protection-start", 96),
]

# What an interrogation brings, of this station: without counters, events, and types 20 and 21.
INTERROGATED = {
    "switch": (True, "good"),
    "door": (False, "good"),
    "breaker": (2, "good"),
    "isolator": (1, "good"),
    "tap": (-7, "good"),
    "moving": (63, "uncertain"),
    "bits": (0xDEADBEEF, "good"),
    "current": (-200, "good"),
    "level": (-100, "good"),
    "stamped": (1000, "good"),
    "voltage": (50.25, "good"),
    "power": (0.1, "good"),
}

STAMP = "2026-11-20T09:30:10.123Z"


@pytest.fixture
def server():
    with Peer("c104_server") as peer:
        yield peer


def metric(node, name):
    return next(float(line.rsplit(" ", 1)[1]) for line in node.metrics().splitlines() if line.startswith(f"tieline_iec104_{name}"))


def check_values(node, device):
    for name, (value, quality) in INTERROGATED.items():
        node.wait_value(device.point(name), v=value, q=quality)


def test_every_type_reaches_subscribers_and_history(server, start_node):
    device = Iec104Device("bay", server.address, POINTS, poll={"counters": "1h"})
    node = start_node(device)
    node.wait_state(device, "online")
    check_values(node, device)
    node.wait_value(device.point("energy"), v=12345, q="good")
    with Sub(node, f"{device.topic}/#") as subscriber:
        subscriber.wait(device.point("switch"), retained=True, v=True)
        server.do("report 10 0")
        subscriber.wait(device.point("switch"), retained=False, v=False, q="good")
        server.do("report 71 2.5")
        subscriber.wait(device.point("power"), v=2.5)
        server.do("report 51 0.25")
        subscriber.wait(device.point("bare"), v=0.25, q="good")
        server.do("report 90 32769")
        subscriber.wait(device.point("status"), v=0x8001, q="good")
        server.do("report 95 1")
        subscriber.wait(device.point("relay/event"), v=1, q="good", t=STAMP)
        server.do("report 96 5")
        subscriber.wait(device.point("relay/start"), v=5, q="good", t=STAMP)
    node.wait_history(device.point("power"), v=2.5, q="good")
    assert metric(node, "unknown_objects_total") == 0 and metric(node, "other_types_total") == 0


def test_quality_and_time_of_the_station_are_kept(server, start_node):
    device = Iec104Device("bay", server.address, POINTS)
    node = start_node(device)
    check_values(node, device)
    for address, name, flags, quality, why in [
        (70, "voltage", "Invalid", "bad", ["offline"]),
        (70, "voltage", "NonTopical", "uncertain", ["comm_lost"]),
        (70, "voltage", "Blocked", "uncertain", ["stale"]),
        (70, "voltage", "Overflow Substituted", "bad", ["local_forced", "over_range"]),
        (10, "switch", "Substituted", "uncertain", ["local_forced"]),
        (80, "energy", "Carry", "uncertain", ["discontinuity"]),
    ]:
        server.do(f"report {address} 1 {flags}")
        node.wait_value(device.point(name), q=quality, why=why)
    server.do("report 70 2")
    node.wait_value(device.point("voltage"), v=2, q="good")
    server.do("report 71 7 at=2026-11-20T08:00:00.500+00:00")
    node.wait_value(device.point("power"), v=7, q="good", t="2026-11-20T08:00:00.500Z")
    # A value without a time has the time of its reception.
    before = datetime.datetime.now(datetime.UTC).isoformat()
    server.do("report 10 1")
    assert node.wait_value(device.point("switch"), v=True, q="good")["t"] >= before[:23]


def test_commands_are_selected_and_executed(server, start_node):
    device = Iec104Device("bay", server.address, POINTS, originator=3)
    node = start_node(device)
    check_values(node, device)
    for name, address, value, sent in [
        ("switch", 5010, "open", False),
        ("breaker", 5020, False, 1),
        ("tap", 5030, True, 2),
        ("current", 5050, 100, 0.25),
        ("level", 5060, 12.3, 123),
        ("voltage", 5070, 42.5, 42.5),
    ]:
        answer = node.command(device.point(name), value)
        assert answer["status"] == "success", (name, answer)
        server.wait_command(address=address, value=sent, originator=3, refused=False)
    assert node.command(device.point("bits"), 7, mode="direct")["status"] == "success"
    server.wait_command(address=5040, value=f"0b{7:032b}")
    assert node.command(device.point("voltage"), 101)["reason"] == "out_of_range"
    assert node.command(device.point("bare"), 1)["reason"] == "not_writable"
    # The station wants a select.
    answer = node.command(device.point("power"), 1)
    assert (answer["status"], answer["reason"]) == ("refused", "negative_confirmation"), answer


def test_a_refusal_says_its_cause(server, start_node):
    points = [*POINTS, ("ghost", "single-point", 12, {"control": "5999"})]
    device = Iec104Device("bay", server.address, points)
    node = start_node(device)
    check_values(node, device)
    server.do("refuse on")
    answer = node.command(device.point("switch"), "open")
    assert (answer["status"], answer["reason"]) == ("refused", "negative_confirmation"), answer
    # This library refuses what it does not have in the same way.
    assert node.command(device.point("ghost"), True)["reason"] == "negative_confirmation"
    server.do("refuse off")
    assert node.command(device.point("switch"), "open")["status"] == "success"
    node.wait_state(device, "online")


def test_what_a_station_does_not_know_is_told(start_node):
    def serve(talk):
        talk.start()
        while frame := talk.read():
            if len(frame) > 6 and frame[6] == 46:
                # The same with the cause 47, negative.
                talk.asdu((frame[6:8] + bytes([0x40 | 47]) + frame[9:]).hex())

    with RawStation(serve) as station:
        device = Iec104Device("bay", station.address, [("switch", "single-point", 10, {"control": "5999", "operate": "double"})])
        node = start_node(device)
        node.wait_value(device.point("switch"), v=True, q="good")
        answer = node.command(device.point("switch"), True)
        assert (answer["status"], answer["reason"]) == ("refused", "unknown_object_address"), answer
        assert "cause 47" in answer["detail"] and len(station.asdus(46)) == 1, answer


def test_a_command_that_ends_with_its_termination(start_node):
    """The library has no terminations of commands."""
    causes = [(7, 10), (7,), (7, 0x40 | 10)]

    def serve(talk):
        talk.start()
        for answers in causes:
            while frame := talk.read():
                if len(frame) > 6 and frame[6] == 58:
                    break
            for cause in answers:
                talk.asdu((frame[6:8] + bytes([cause]) + frame[9:]).hex())
        talk.until_closed()

    with RawStation(serve) as station:
        points = [("switch", "single-point", 10, {"control": "5010"})]
        settings = {"command_end": "termination", "command_time": True, "select": False, "response_timeout": "500ms"}
        device = Iec104Device("bay", station.address, points, **settings)
        node = start_node(device)
        node.wait_value(device.point("switch"), v=True, q="good")
        assert node.command(device.point("switch"), True)["status"] == "success"
        for reason in ("no_termination", "negative_termination"):
            answer = node.command(device.point("switch"), True)
            assert (answer["status"], answer["reason"]) == ("unknown", reason), answer


def test_clocks_are_set(server, start_node):
    device = Iec104Device("bay", server.address, POINTS, poll={"clock": "1s"})
    node = start_node(device)
    node.wait_state(device, "online")
    clocks = until(lambda: server.objects("clock") if len(server.objects("clock")) > 2 else None, server.said)
    now = datetime.datetime.now(datetime.UTC)
    set_to = [datetime.datetime.fromisoformat(clock).astimezone(datetime.UTC) for clock in clocks]
    assert all(abs((now - clock).total_seconds()) < 20 for clock in set_to), (now, set_to)


def test_a_station_that_dies_and_comes_back(server, start_node):
    device = Iec104Device("bay", server.address, POINTS)
    node = start_node(device)
    check_values(node, device)
    server.kill()
    node.wait_state(device, "away")
    node.wait_value(device.point("voltage"), v=50.25, q="bad", why=["away"])
    answer = node.command(device.point("voltage"), 1)
    assert (answer["status"], answer["reason"]) == ("refused", "away"), answer
    with Peer("c104_server", "--port", str(server.port)) as again:
        again.do("set 70 9")
        node.wait_state(device, "online", seconds=40)
        node.wait_value(device.point("voltage"), v=9, q="good")
        # It says that it has started: everything is asked for again.
        again.do("set 70 10")
        again.do("initialized")
        node.wait_value(device.point("voltage"), v=10, q="good")


def test_what_no_point_names_is_counted(server, start_node):
    points = [("switch", "single-point", 10), ("voltage", "scaled", 70)]
    device = Iec104Device("bay", server.address, points)
    node = start_node(device)
    node.wait_value(device.point("switch"), v=True, q="good")
    until(lambda: metric(node, "unknown_objects_total") >= len(INTERROGATED) - 2, node.metrics)
    until(lambda: metric(node, "other_types_total") >= 1, node.metrics)
    until(lambda: [line for line in node.process.errors if "another type" in line], node.process.said)
    node.wait_value(device.point("voltage"), v=None, q="bad", why=["initial"])


def test_a_common_address_that_the_station_does_not_have(server, start_node):
    device = Iec104Device("bay", server.address, POINTS, common_address=8)
    node = start_node(device)
    said = lambda: str(node.request(f"/v1/devices/{device.topic}")[1])
    until(lambda: "interrogation of common address 8: the station refuses it with cause 7" in said(), said)
    # It is there, and its poll failed.
    node.wait_state(device, "slow")


def test_tls(start_node, tmp_path):
    Authority(tmp_path).issue("server", names="IP:127.0.0.1").issue("client")
    with Peer("c104_server", "--tls", str(tmp_path)) as server:
        tls = 'transport = "tls"\ntls = { certificate = "client.pem", key = "client.key", authorities = "authority.pem" }'
        device = Iec104Device("bay", server.address, POINTS, more=tls)
        node = start_node(device)
        check_values(node, device)


def test_two_stations_behind_one_connection(start_node):
    def serve(talk):
        talk.start()
        talk.asdu("01 01 03 00 09 00 0A 00 00 01")
        talk.until_closed()

    with RawStation(serve) as station:
        points = [("one", "single-point", 10), ("two", "single-point", 10, {"common_address": "9"})]
        device = Iec104Device("bay", station.address, points)
        node = start_node(device)
        node.wait_value(device.point("one"), v=True, q="good")
        node.wait_value(device.point("two"), v=True, q="good")
        # Both are interrogated.
        assert {asdu[4] for asdu in station.wait_asdus(100, 2)} == {7, 9}


def test_groups_are_asked_for_and_counters_are_frozen_before_they_are_read(start_node):
    def serve(talk):
        while frame := talk.read():
            if frame == START_ACT:
                talk.raw(START_CON)
            elif len(frame) > 6 and frame[6] in (100, 101):
                qualifier, answer = frame[15], lambda cause: talk.asdu((frame[6:8] + bytes([cause]) + frame[9:]).hex())
                answer(7)
                if qualifier == 23:
                    talk.asdu("01 01 17 00 07 00 0A 00 00 01")
                if qualifier == 4:
                    talk.asdu("0F 01 29 00 07 00 50 00 00 2A 00 00 00 01")
                # A freeze is not terminated by all stations: this one does.
                answer(10)

    with RawStation(serve) as station:
        points = [("switch", "single-point", 10), ("energy", "integrated-totals", 80)]
        settings = {"groups": [1, 3], "counter_groups": [4], "freeze": "freeze_reset"}
        device = Iec104Device("bay", station.address, points, poll={"counters": "1s"}, **settings)
        node = start_node(device)
        node.wait_value(device.point("switch"), v=True, q="good")
        node.wait_value(device.point("energy"), v=42, q="good")
        counters = [asdu[9] for asdu in station.wait_asdus(101, 5)]
        # At the start they are read as they are; each poll freezes and resets them first.
        assert counters[:5] == [4, 0x84, 4, 0x84, 4], counters
        assert [asdu[9] for asdu in station.asdus(100)][:2] == [21, 23]
        assert metric(node, "unexpected_total") == 0
        node.wait_state(device, "online")


def connections(node, device):
    """What the health of a device says of each of its connections: the state, by address."""
    _, described = node.request(f"/v1/devices/{device.topic}")
    return {one["address"]: one["state"] for one in described["stats"].get("connections", [])}


def wait_connections(node, device, *states):
    """Waits until they are in these states, in any order; their addresses in the order of the states."""

    def found():
        found = connections(node, device)
        by_state = {state: address for address, state in found.items()}
        return [by_state[state] for state in states] if sorted(found.values()) == sorted(states) else None

    return until(found, lambda: f"{states}: {connections(node, device)}\n{node.process.said()}", 40)


def test_of_two_connections_one_is_started_and_the_other_takes_its_place(server, start_node):
    with Path(server.address) as one, Path(server.address) as other:
        paths = {path.address: path for path in (one, other)}
        device = Iec104Device("bay", one.address, POINTS, standby=[other.address], t1="5s", t2="4s")
        node = start_node(device)
        check_values(node, device)
        started, standby = wait_connections(node, device, "started", "standby")
        counts = server.do("counts")
        assert (counts["open"], counts["active"]) == (2, 1), counts
        with Sub(node, f"$SYS/devices/{device.topic}/state") as subscriber:
            subscriber.wait(f"$SYS/devices/{device.topic}/state", v="online")
            # Two events reach the node, whose acknowledgement is lost; two do not reach it.
            paths[started].passes[0] = False
            for second, value in enumerate([21, 22]):
                server.do(f"report 71 {value} at=2026-11-20T08:00:0{second}+00:00")
            node.wait_value(device.point("power"), v=22)
            paths[started].passes[1] = False
            for second, value in enumerate([23, 24]):
                server.do(f"report 71 {value} at=2026-11-20T08:00:1{second}+00:00")
            # This one is told by the interrogation alone.
            server.do("set 60 -777")
            paths[started].cut()
            assert wait_connections(node, device, "started", "away")[0] == standby
            node.wait_value(device.point("level"), v=-77.7)
            server.do("report 71 25 at=2026-11-20T08:00:20+00:00")
            node.wait_history(device.point("power"), v=25)
            power = [(row["v"], row["t"][17:19]) for row in node.history(device.point("power")) if (row["v"] or 0) >= 21]
            # The interrogation may bring the last of them, with its time, before the station sends the event.
            power.remove((24, "11")) if power.count((24, "11")) == 2 else None
            assert power == [(21, "00"), (22, "01"), (23, "10"), (24, "11"), (25, "20")], power
            # The device was never away.
            assert {body["v"] for _, _, body in subscriber.messages()} <= {"connecting", "online"}, subscriber.said()
        assert metric(node, "switches_total") == 1 and metric(node, "resent_total") == 2
        counts = server.do("counts")
        assert (counts["open"], counts["active"]) == (1, 1), counts
        assert node.command(device.point("voltage"), 33)["status"] == "success"
        # A trace tells the two apart, by the addresses of the configuration.
        names = {line["connection"] for line in trace(node, device)}
        assert names == {"main", "standby1"}, names
        # It stands by when it comes back; nothing is switched for it.
        paths[started].mend()
        assert wait_connections(node, device, "started", "standby")[0] == standby
        assert metric(node, "switches_total") == 1
        # Both are lost, and the device is away, until one is back.
        for path in paths.values():
            path.cut()
        node.wait_state(device, "away")
        wait_connections(node, device, "away", "away")
        paths[started].mend()
        node.wait_state(device, "online", seconds=60)
        assert wait_connections(node, device, "started", "away")[0] == started


def test_a_connection_that_stands_by_is_tested(server, start_node):
    with Path(server.address) as one, Path(server.address) as other:
        paths = {path.address: path for path in (one, other)}
        times = {"t1": "1s", "t2": "500ms", "t3": "1s"}
        device = Iec104Device("bay", one.address, POINTS, standby=[other.address], **times)
        node = start_node(device)
        check_values(node, device)
        started, standby = wait_connections(node, device, "started", "standby")
        # Nothing comes through any more, and its connection stays.
        paths[standby].passes = [False, False]
        stats = lambda: node.request(f"/v1/devices/{device.topic}")[1]["stats"]["connections"]
        until(lambda: "TESTFR act was not confirmed within t1" in [one["why"] for one in stats()], stats, 40)
        node.wait_state(device, "online")
        paths[standby].mend()
        wait_connections(node, device, "started", "standby")
        # The same of the one that is started.
        paths[started].passes = [False, False]
        assert wait_connections(node, device, "started", "away")[0] == standby
        assert metric(node, "switches_total") == 1
        node.wait_state(device, "online")
        node.wait_value(device.point("switch"), v=True, q="good")


def test_garbage_closes_the_connection_and_costs_no_more(start_node):
    def garbage(talk):
        talk.start()
        talk.raw(b"GET / HTTP/1.1\r\n\r\n")
        talk.until_closed()

    def lost_frame(talk):
        talk.start()
        talk.sent += 1
        talk.asdu("01 01 03 00 07 00 0A 00 00 00")
        talk.until_closed()

    def good(talk):
        talk.start()
        talk.asdu("01 02 03 00 07 00 0A 00 00 00")  # an object is missing
        talk.asdu("78 01 03 00 07 00 0A 00 00 00")  # a type of files
        talk.asdu("01 01 03 00 07 00 0A 00 00 00")
        talk.until_closed()

    with RawStation(garbage, lost_frame, good) as station:
        device = Iec104Device("bay", station.address, [("switch", "single-point", 10)])
        node = start_node(device)
        node.wait_value(device.point("switch"), seconds=40, v=False, q="good")
        node.wait_state(device, "online")
        assert station.accepted == 3
        for name, count in [("broken", 2), ("malformed", 1), ("unknown_types", 1)]:
            assert metric(node, f"{name}_total") == count, name


def test_a_slow_station_is_waited_for_and_a_silent_one_is_not(start_node):
    def slow(talk):
        talk.start()
        # A byte at a time.
        for byte in bytes.fromhex("680E06000200 0101030007000A000000".replace(" ", "")):
            talk.raw(bytes([byte]))
        # It answers neither commands nor test frames.
        while talk.read():
            pass

    def good(talk):
        talk.start()
        talk.until_closed()

    with RawStation(slow, good) as station:
        points = [("switch", "single-point", 10, {"control": "5010"})]
        device = Iec104Device("bay", station.address, points, t1="3s", t2="1s", t3="30s", response_timeout="500ms")
        node = start_node(device)
        node.wait_value(device.point("switch"), v=False, q="good")
        answer = node.command(device.point("switch"), True, mode="direct")
        assert (answer["status"], answer["reason"]) == ("unknown", "no_confirmation"), answer
        # Its command is not acknowledged within t1.
        node.wait_state(device, "away")
        node.wait_value(device.point("switch"), seconds=40, v=True, q="good")
        assert len(station.asdus(45)) == 1, "a command is never sent again"


def test_a_reload_keeps_the_connection_where_only_points_change(server, start_node):
    device = Iec104Device("bay", server.address, POINTS[:1])
    node = start_node(device)
    node.wait_value(device.point("switch"), v=True, q="good")
    frames = metric(node, "frames_total")
    more = Iec104Device("bay", server.address, POINTS[:4])
    node.reload(more)
    node.wait_value(more.point("breaker"), v=2, q="good")
    assert metric(node, "frames_total") > frames and metric(node, "broken_total") == 0
    assert server.do("counts")["open"] == 1
    gone = time.monotonic()
    node.reload(Iec104Device("bay", server.address, POINTS[:4], k=3))
    node.wait_value(more.point("breaker"), v=2, q="good")
    assert time.monotonic() - gone < 20


def test_a_station_is_traced_in_words_and_for_wireshark(server, start_node, tmp_path):
    device = Iec104Device("bay", server.address, POINTS)
    node = start_node(device)
    check_values(node, device)
    assert node.command(device.point("voltage"), 42.5)["status"] == "success"
    command = lambda line: line["summary"].endswith("C_SE_NC_1 activation common 7: 5070 42.5 select")
    lines = wait_lines(node, device, command)
    sent = next(line for line in lines if command(line))
    assert sent["kind"] == "sent" and sent["points"] == ["voltage"]
    assert sent["fields"] == {"type": "C_SE_NC_1", "cause": "activation", "common_address": 7, "addresses": [5070]}
    assert any(line["summary"] == "U STARTDT act" for line in lines)
    # By point: only what carries it.
    voltage = trace(node, device, "--point", "voltage")
    assert voltage and all("voltage" in line["points"] for line in voltage), voltage
    path = capture(node, device, tmp_path / "bay.pcapng")
    assert frames(path, "iec60870_104") > 4
    assert complaints(path, "iec60870_asdu") == ""
    assert {"103", "100", "50"} & set(fields(path, "iec60870_asdu", "iec60870_asdu.typeid"))
