"""Reservations, overrides and calls for many points, with devices of other implementations: never two programs at one device,
and nothing is left commanded."""

import json
import time
from types import SimpleNamespace

import pytest
from bacnet import BacnetDevice
from bus import Paho, Sub, request
from modbus import ModbusDevice
from node import Device, OurOutstation, tieline
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from processes import Peer
from simulated import SimulatedDevice
from test_access import ROLES, Guarded
from waiting import until

# So long are holders waited for after a restart: enough for the test to ask who holds what.
RETURN = '[control]\nreturn_within = "6s"'


class Pump(ModbusDevice):
    """A pump at a server of pymodbus; `speed` is reverted to what it was, `run` to stopped, `label` not at all."""

    COLUMNS = [*ModbusDevice.COLUMNS, "revert", "step_max", "allow_when"]
    POINTS = [
        ("run", "coil", 4, {"writable": "true", "states": "stopped/running", "revert": "stopped"}),
        ("speed", "holding-register", 10, {"writable": "true", "min": "0", "max": "3000"}),
        ("gentle", "holding-register", 11, {"writable": "true", "step_max": "100", "revert": "none"}),
        ("guarded", "holding-register", 12, {"writable": "true", "allow_when": "run == false", "revert": "none"}),
    ]

    def __init__(self, address, name="pump", points=POINTS, **modbus):
        # A machine that is slow makes no value stale.
        super().__init__(name, address, points, stale_after_missed=1000, **modbus)


@pytest.fixture
def server():
    with Peer("pymodbus_server", "--units", "1") as peer:
        for words in ("holding-registers 10 1500", "holding-registers 11 50", "coils 4 0"):
            peer.do(f"set 1 {words}")
        peer.filled = len(peer.objects("write"))
        yield peer


@pytest.fixture
def pump(server, start_node):
    device = Pump(server.address)
    node = start_node(device, more=RETURN)
    node.wait_value(device.point("speed"), v=1500, q="good")
    return server, device, node


def reserve(node, device, requester, task=None, priority="LOW", **slot):
    body = {"task": task or f"{requester}'s", "requester": requester, "priority": priority}
    body["slots"] = [{"device": device.topic, **(slot or {"for": "1h"})}]
    return node.request("/v1/reservations", body)


def set_points(node, requester, *points, **more):
    points = [{"topic": topic, "value": value} for topic, value in points]
    return node.request("/v1/set", {"requester": requester, "points": points, **more})[1]


def writes(server, address=None):
    """What clients of the server have written: what it was filled with comes first."""
    made = server.objects("write")[server.filled :]
    return [write["values"][0] for write in made if address in (None, write["address"])]


def check_writes(server, address, *expect):
    """The writes are these, and no more come with the next answers."""
    until(lambda: len(writes(server, address)) >= len(expect), lambda: f"{writes(server, address)}", 10)
    assert writes(server, address) == list(expect)


class Program(Paho):
    """A program over MQTT: a session of its own."""

    def __init__(self, node, name, **more):
        super().__init__(node, name=name, **more)
        self.name = name
        self.subscribe(f"reply/{name}")

    def ask(self, topic, body):
        properties = Properties(PacketTypes.PUBLISH)
        properties.ResponseTopic = f"reply/{self.name}"
        self.publish(topic, json.dumps(body), properties=properties)
        return json.loads(self.next(20).payload)

    def reserve(self, device, **more):
        body = {"task": f"of {self.name}", "priority": "LOW", "slots": [{"device": device.topic, "for": "1h"}], **more}
        return self.ask("$control/reserve", body)

    def set(self, *points, **more):
        points = [{"topic": topic, "value": value} for topic, value in points]
        return self.ask("$control/set", {"points": points, **more})

    def die(self):
        """As a process that is killed: the socket is gone without a word."""
        self.client.loop_stop()
        self.client._sock_close()


def test_two_programs_never_command_one_device(pump):
    server, device, node = pump
    speed = device.point("speed")
    with Program(node, "anna") as anna, Program(node, "bert") as bert:
        assert anna.reserve(device) == {"result": "SUCCESS", "info": "", "data": {}}
        refused = bert.reserve(device)
        assert (refused["result"], refused["info"]) == ("FAILURE", "CONFLICTS_WITH_EXISTING_SCHEDULES"), refused
        assert list(refused["data"]) == ["anna"] and list(refused["data"]["anna"]) == ["of anna"], refused
        assert bert.set((speed, 100))["points"][0]["reason"] == "reserved"
        # The commands of before know reservations too.
        for answer in (bert.ask(f"$command/{speed}", {"value": 100}), node.command(speed, 100)):
            assert (answer["status"], answer["reason"]) == ("refused", "reserved"), answer
            assert "anna has reserved" in answer["detail"], answer
        assert anna.ask(f"$command/{speed}", {"value": 1600})["status"] == "success"
        confirmed = anna.set((speed, 1700), confirm=True)
        assert (confirmed["status"], confirmed["confirmed"]) == ("success", 1), confirmed
        check_writes(server, 10, 1600, 1700)
        # It ends, and what was commanded is reverted, once.
        assert anna.ask("$control/cancel", {"task": "of anna"})["result"] == "SUCCESS"
        node.wait_value(speed, v=1500)
        check_writes(server, 10, 1600, 1700, 1500)
        assert bert.reserve(device)["result"] == "SUCCESS"
        assert bert.set((speed, 900))["status"] == "success"
    phases = [entry["phase"] for entry in node.audit(speed)["entries"]]
    assert phases.count("refused") == 3 and "confirmed" in phases, phases


def test_a_holder_that_dies_is_reverted(pump):
    server, device, node = pump
    program = Program(node, "doomed")
    assert program.reserve(device)["result"] == "SUCCESS"
    answer = program.set((device.point("speed"), 2000), (device.point("run"), "running"), confirm=True)
    assert answer["status"] == "success", answer
    program.die()
    node.wait_value(device.point("speed"), v=1500)
    node.wait_value(device.point("run"), v=False)
    check_writes(server, 10, 2000, 1500)
    until(lambda: "holder_gone" in [entry["phase"] for entry in node.request("/v1/audit")[1]["entries"]], "audit", 10)
    assert node.request("/v1/reservations")[1]["reservations"] == []
    assert node.command(device.point("speed"), 10)["status"] == "success"


def test_the_end_of_a_slot_reverts(pump):
    server, device, node = pump
    assert reserve(node, device, "anna", **{"for": "4s"})[0] == 200
    assert set_points(node, "anna", (device.point("speed"), 2000), (device.point("run"), "running"))["status"] == "success"
    node.wait_value(device.point("speed"), v=1500)
    node.wait_value(device.point("run"), v=False)
    check_writes(server, 10, 2000, 1500)
    assert set_points(node, "bert", (device.point("speed"), 7))["status"] == "success"


def test_a_device_that_comes_back_is_reverted_then(start_node):
    with Peer("pymodbus_server", "--units", "1") as server:
        server.do("set 1 holding-registers 10 1500")
        device = Pump(server.address)
        node = start_node(device)
        node.wait_value(device.point("speed"), v=1500, q="good")
        program = Program(node, "doomed")
        assert program.reserve(device)["result"] == "SUCCESS"
        assert program.set((device.point("speed"), 2000), confirm=True)["status"] == "success"
        server.kill()
        node.wait_state(device, "away")
        program.die()
        with Peer("pymodbus_server", "--units", "1", "--port", server.address.rsplit(":", 1)[1]) as again:
            again.do("set 1 holding-registers 10 2000")
            until(lambda: again.do("get 1 holding-registers 10 1")["values"] == [1500], "it is reverted", 40)


def test_a_session_that_outlives_its_connection_keeps_its_points(pump):
    server, device, node = pump
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 600
    program = Program(node, "patient", properties=properties)
    assert program.reserve(device)["result"] == "SUCCESS"
    assert program.set((device.point("speed"), 2000))["status"] == "success"
    program.die()
    assert len(node.request("/v1/reservations")[1]["reservations"]) == 1
    assert node.command(device.point("speed"), 10)["reason"] == "reserved"
    # The same client with a clean start: its life of before is over.
    with Program(node, "patient"):
        node.wait_value(device.point("speed"), v=1500)
    check_writes(server, 10, 2000, 1500)


def test_a_held_point_is_reverted_after_kill_9_and_once(pump):
    server, device, node = pump
    program = Program(node, "lost")
    assert program.reserve(device)["result"] == "SUCCESS"
    assert program.set((device.point("speed"), 2000), confirm=True)["status"] == "success"
    node.process.kill()
    program.die()
    node.start()
    node.wait_state(device, "online")
    # Its holder may come back for some time.
    assert len(node.request("/v1/reservations")[1]["reservations"]) == 1
    assert node.command(device.point("speed"), 10)["reason"] == "reserved"
    node.wait_value(device.point("speed"), v=1500, seconds=20)
    assert node.request("/v1/reservations")[1]["reservations"] == []
    node.process.kill()
    node.start()
    node.wait_state(device, "online")
    assert node.command(device.point("speed"), 11)["status"] == "success"
    check_writes(server, 10, 2000, 1500, 11)
    # The chain of the audit log goes over the new records, too.
    assert "ok" in tieline("access", "verify", node.data).stdout


def test_a_holder_that_comes_back_after_a_restart_keeps_its_points(pump):
    server, device, node = pump
    elsewhere = SimpleNamespace(topic="test/elsewhere")
    steady, lost = Program(node, "steady"), Program(node, "lost")
    assert steady.reserve(device)["result"] == "SUCCESS" and lost.reserve(elsewhere)["result"] == "SUCCESS"
    assert steady.set((device.point("speed"), 2000), confirm=True)["status"] == "success"
    node.process.stop()
    for program in (steady, lost):
        program.die()
    node.start()
    with Program(node, "steady") as again:
        node.wait_state(device, "online")
        names = lambda: [found["requester"] for found in node.request("/v1/reservations")[1]["reservations"]]
        until(lambda: names() == ["steady"], names, 20)
        node.wait_value(device.point("speed"), v=2000, q="good")
        assert again.set((device.point("speed"), 2100), confirm=True)["status"] == "success"
    node.wait_value(device.point("speed"), v=1500)
    check_writes(server, 10, 2000, 2100, 1500)


def test_a_silent_holder_over_http_ends_with_its_lease(pump):
    server, device, node = pump
    status, answer = node.request(
        "/v1/reservations",
        {"task": "night", "requester": "script", "priority": "LOW", "slots": [{"device": device.topic, "for": "1h"}], "lease": "2s"},
    )
    assert (status, answer) == (200, {"result": "SUCCESS", "info": "", "data": {}, "lease_s": 2.0}), answer
    assert set_points(node, "script", (device.point("speed"), 1700))["status"] == "success"

    def renew(requester):
        return node.request("/v1/reservations/renew", {"task": "night", "requester": requester})

    # Renewals, and calls of any kind, keep it for longer than its lease.
    began = time.monotonic()
    until(lambda: renew("script")[1].get("lease_s") == 2.0 and time.monotonic() > began + 3, "three seconds", 10)
    until(lambda: set_points(node, "script")["reason"] == "batch_empty" and time.monotonic() > began + 6, "six seconds", 10)
    assert renew("other")[0] == 409
    assert [found["lease_s"] for found in node.request("/v1/reservations")[1]["reservations"]] == [2.0]
    check_writes(server, 10, 1700)
    node.wait_value(device.point("speed"), v=1500)
    until(lambda: not node.request("/v1/reservations")[1]["reservations"], "its end", 10)
    assert renew("script")[1]["info"] == "TASK_ID_DOES_NOT_EXIST"
    check_writes(server, 10, 1700, 1500)
    assert "tieline_control_leases_expired_total 1" in node.metrics()
    assert "lease_expired" in [entry["phase"] for entry in node.request("/v1/audit")[1]["entries"]]


def test_leases_that_nobody_asked_for(pump):
    server, device, node = pump

    def leases():
        return {found["task"]: found["lease_s"] for found in node.request("/v1/reservations")[1]["reservations"]}

    assert reserve(node, device, "script")[1]["lease_s"] == 60.0
    assert node.request("/v1/reservations/cancel", {"task": "script's", "requester": "script"})[0] == 200
    with Program(node, "anna") as anna:
        assert "lease_s" not in anna.reserve(device)
        assert leases() == {"of anna": None}
        assert anna.ask("$control/renew", {"task": "of anna"}) == {"result": "SUCCESS", "info": "", "data": {}}
        assert anna.ask("$control/cancel", {"task": "of anna"})["result"] == "SUCCESS"
        assert anna.reserve(device, lease="5m")["lease_s"] == 300.0
        assert anna.ask("$control/renew", {"task": "of anna"})["lease_s"] == 300.0
    body = {"task": "t", "priority": "LOW", "slots": [{"device": device.topic, "for": "1h"}], "lease": "soon"}
    status, answer = node.request("/v1/reservations", body)
    assert status == 400 and 'lease is "soon", expected as in 60s, from 1s to 7d, or none' in answer["info"], answer


def test_a_reservation_of_http_outlives_kill_9(pump):
    server, device, node = pump
    assert reserve(node, device, "script")[0] == 200
    assert set_points(node, "script", (device.point("speed"), 2000))["status"] == "success"
    node.process.kill()
    node.start()
    node.wait_state(device, "online")
    assert set_points(node, "other", (device.point("speed"), 1))["points"][0]["reason"] == "reserved"
    node.wait_value(device.point("speed"), v=2000, q="good")
    assert set_points(node, "script", (device.point("speed"), 2100))["status"] == "success"
    assert node.request("/v1/reservations/cancel", {"task": "script's", "requester": "script"})[0] == 200
    node.wait_value(device.point("speed"), v=1500)
    check_writes(server, 10, 2000, 2100, 1500)


def test_high_preempts_low_preempt_after_the_grace_time(server, start_node):
    device = Pump(server.address)
    node = start_node(device, more='[control]\npreempt_grace = "3s"')
    node.wait_value(device.point("speed"), v=1500, q="good")
    with Sub(node, "$control/#") as notices:
        assert reserve(node, device, "low", priority="LOW_PREEMPT")[0] == 200
        notices.wait(f"$control/holder/{device.topic}", requester="low", task="low's")
        notices.wait(f"$control/announce/{device.topic}", requester="low")
        assert set_points(node, "low", (device.point("speed"), 2000))["status"] == "success"
        status, answer = reserve(node, device, "high", priority="HIGH")
        assert (status, answer["info"], answer["data"]) == (200, "TASK_WERE_PREEMPTED", [["low", "low's"]]), answer
        notices.wait("$control/preempted", result="PREEMPTED", data={"agentID": "low", "taskID": "low's"})
        assert set_points(node, "high", (device.point("speed"), 1))["points"][0]["reason"] == "reserved"
        notices.wait(f"$control/holder/{device.topic}", requester="high")
    node.wait_value(device.point("speed"), v=1500)
    assert set_points(node, "high", (device.point("speed"), 1))["status"] == "success"
    check_writes(server, 10, 2000, 1500, 1)


def test_failures_have_the_words_of_volttron(pump):
    server, device, node = pump
    slot = {"device": device.topic, "for": "1h"}
    good = {"task": "t", "requester": "r", "priority": "LOW", "slots": [slot]}

    def info(path="/v1/reservations", status=400, **changes):
        found, answer = node.request(path, {name: value for name, value in {**good, **changes}.items() if value is not None})
        assert found == status and answer["result"] == "FAILURE", (found, answer)
        return answer["info"]

    assert info(task=None) == "MISSING_TASK_ID"
    assert info(priority=None) == "MISSING_PRIORITY"
    assert info(priority="URGENT") == "INVALID_PRIORITY"
    assert info(slots=[]) == "MALFORMED_REQUEST_EMPTY"
    assert info(slots="now").startswith("MALFORMED_REQUEST: ")
    assert info(slots=[["x", "yesterday", "today"]]).startswith("MALFORMED_REQUEST: ValueError: ")
    assert info(slots=[slot, slot]) == "REQUEST_CONFLICTS_WITH_SELF"
    assert info(type="SCHEDULE") == "INVALID_REQUEST_TYPE"
    assert info("/v1/reservations/cancel", 404, priority=None, slots=None, task="u") == "TASK_ID_DOES_NOT_EXIST"
    assert node.request("/v1/reservations", good)[0] == 200
    assert info(status=409) == "TASK_ID_ALREADY_EXISTS"
    cancel = {"task": "t", "requester": "somebody"}
    assert node.request("/v1/reservations/cancel", cancel)[1]["info"] == "AGENT_ID_TASK_ID_MISMATCH"
    assert node.request("/v1/reservations/cancel", {**cancel, "force": True})[1]["result"] == "SUCCESS"


def test_limits_and_interlocks_of_a_point(pump):
    server, device, node = pump
    node.wait_value(device.point("gentle"), v=50, q="good")
    node.wait_value(device.point("run"), v=False, q="good")
    answer = node.command(device.point("gentle"), 500)
    assert answer["reason"] == "step_too_large" and "from 50 to 500" in answer["detail"], answer
    assert node.command(device.point("gentle"), 140)["status"] == "success"
    assert node.command(device.point("guarded"), 1)["status"] == "success"
    assert node.command(device.point("run"), "running")["status"] == "success"
    node.wait_value(device.point("run"), v=True)
    answer = node.command(device.point("guarded"), 2)
    assert answer["reason"] == "interlock" and "it is true" in answer["detail"], answer
    check_writes(server, 12, 1)


def test_a_dry_run_sends_nothing(pump):
    server, device, node = pump
    reserve(node, device, "anna")
    points = [(device.point("speed"), 2000), (device.point("speed"), 4000), (device.point("run"), "running")]
    answer = set_points(node, "anna", *points, dry_run=True)
    assert answer["status"] == "dry_run" and answer["refused"] == 1, answer
    first, second, third = answer["points"]
    assert (first["status"], first["raw"], first["mode"], first["reverts"]) == ("would_send", 2000, "direct", True), first
    assert second["reason"] == "out_of_range", second
    assert third["raw"] is True, third
    answer = node.request("/v1/revert", {"devices": [device.topic], "requester": "anna", "dry_run": True})[1]
    assert {point["topic"] for point in answer["points"]} >= {device.point("speed"), device.point("run")}, answer
    assert writes(server) == []
    assert "sent" not in [entry["phase"] for entry in node.request("/v1/audit")[1]["entries"]]


def test_an_override_refuses_and_outlives_a_restart(pump):
    server, device, node = pump
    status, answer = node.request("/v1/overrides", {"pattern": "test/pu*"})
    assert (status, answer) == (200, {"status": "success", "selects": [device.topic]}), answer
    assert node.command(device.point("speed"), 1)["reason"] == "override"
    assert node.request("/v1/overrides", {"pattern": "nothing/*"})[0] == 404
    node.process.kill()
    node.start()
    node.wait_state(device, "online")
    answer = node.command(device.point("speed"), 1)
    assert "global override is set by the pattern" in answer["detail"], answer
    assert node.request("/v1/overrides")[1]["devices"] == [device.topic]
    assert node.request("/v1/overrides/off", {"pattern": "test/pu*"})[0] == 200
    assert node.request("/v1/overrides/off", {"pattern": "test/pu*"})[0] == 409
    node.wait_value(device.point("speed"), v=1500, q="good")
    assert node.command(device.point("speed"), 1)["status"] == "success"
    assert node.request("/v1/overrides", {"pattern": "test/+", "duration_s": 0.5})[0] == 200
    until(lambda: node.command(device.point("speed"), 2)["status"] == "success", "the override ends", 10)


def test_bacnet_relinquishes(start_node):
    with Peer("bacpypes3_server") as server:
        points = [
            ("valve", "analog-output", 1, {"writable": "true", "min": "0", "max": "100", "write_priority": "10"}),
            ("fan", "binary-output", 1, {"writable": "true", "states": "stopped/running"}),
        ]
        device = BacnetDevice("ahu", server.address, points)
        node = start_node(device)
        node.wait_value(device.point("valve"), v=5.0, q="good")
        node.wait_value(device.point("fan"), v=False, q="good")
        # Without a reservation: a person takes the command back.
        assert node.command(device.point("valve"), 42.5)["status"] == "success"
        assert server.do("priorities analog-output,1")["set"] == [10]
        answer = node.command(device.point("valve"), None)
        assert answer["status"] == "success" and "expected" not in answer, answer
        assert server.do("priorities analog-output,1")["set"] == []
        node.wait_value(device.point("valve"), v=5.0)
        program = Program(node, "doomed")
        assert program.reserve(device)["result"] == "SUCCESS"
        answer = program.set((device.point("valve"), 80), (device.point("fan"), "running"), confirm=True)
        assert answer["confirmed"] == 2, answer
        program.die()
        node.wait_value(device.point("valve"), v=5.0)
        node.wait_value(device.point("fan"), v=False)
        assert server.do("priorities analog-output,1")["set"] == []
        assert server.do("priorities binary-output,1")["set"] == []


def test_a_breaker_stays_as_it_is(tmp_path, start_node):
    with OurOutstation(tmp_path) as outstation:
        device = Device("relay1", outstation.address)
        node = start_node(device)
        node.wait_state(device, "online")
        breaker = device.point("binary-output", 1)
        node.wait_value(breaker, v=False)
        assert reserve(node, device, "anna")[0] == 200
        answer = set_points(node, "anna", (breaker, True), (device.point("analog-output", 2), 12.5), confirm=True)
        assert answer["confirmed"] == 2, answer
        assert set_points(node, "bert", (breaker, False))["points"][0]["reason"] == "reserved"
        answer = node.request("/v1/revert", {"points": [breaker], "requester": "anna"})[1]
        assert answer["points"][0]["reason"] == "not_revertible", answer
        assert node.request("/v1/reservations/cancel", {"task": "anna's", "requester": "anna"})[0] == 200
        assert node.request("/v1/revert", {"devices": [device.topic]})[1]["reason"] == "not_revertible"
        node.wait_value(breaker, v=True)


class Switch(Device):
    """A point of an outstation of ours that is reverted to open."""

    def csv(self):
        return "name,type,index,revert\nbreaker,binary-output,1,false\n"


def test_a_dnp3_point_is_reverted_where_its_list_says_so(tmp_path, start_node):
    with OurOutstation(tmp_path) as outstation:
        device = Switch("relay1", outstation.address)
        node = start_node(device)
        node.wait_value(f"{device.topic}/breaker", v=False, q="good")
        program = Program(node, "doomed")
        assert program.reserve(device)["result"] == "SUCCESS"
        assert program.set((f"{device.topic}/breaker", True), confirm=True)["confirmed"] == 1
        program.die()
        node.wait_value(f"{device.topic}/breaker", v=False)


def test_one_call_for_fifty_devices_and_one_that_refuses(start_node, server):
    points = [("setpoint", "float", {"value": "20", "writable": "true", "min": "10", "max": "30"})]
    devices = [SimulatedDevice(f"vav{number}", points, list="vav", poll="200ms") for number in range(50)]
    for device in devices:
        device.csv = lambda device=devices[0]: SimulatedDevice.csv(device)
    refusing = ModbusDevice("stubborn", server.address, [("none", "holding-register", 9999, {"writable": "true", "revert": "none"})])
    refusing.COLUMNS = Pump.COLUMNS
    (vav,) = {device.list for device in devices}
    node = start_node(refusing, *Listed.all(devices, vav))
    for device in devices:
        node.wait_value(device.point("setpoint"), v=20, q="good")
    node.wait_state(refusing, "online")
    topics = [device.point("setpoint") for device in devices]
    with Sub(node, "#"):
        answer = set_points(node, "anna", *((topic, 25) for topic in topics), (refusing.point("none"), 7), confirm=True)
    assert (answer["status"], answer["confirmed"], answer["refused"]) == ("partial", 50, 1), answer["status"]
    assert answer["points"][-1]["status"] == "refused" and answer["points"][-1]["topic"] == refusing.point("none")
    for topic in topics:
        node.wait_value(topic, v=25)
    got = node.request("/v1/get", {"topics": [*topics, "no/such"]})[1]
    assert [topic["value"]["v"] for topic in got["topics"]] == [25] * 50 and got["errors"] == {"no/such": "unknown_topic"}
    calls = {entry.get("call") for entry in node.audit(topics[0])["entries"]}
    assert len(calls) == 1 and None not in calls, calls


class Listed:
    """Devices with one list between them: it is written once, under its own name."""

    def __init__(self, device, name):
        self.device, self.name = device, name

    def toml(self):
        return self.device.toml()

    def csv(self):
        return SimulatedDevice.csv(self.device)

    @classmethod
    def all(cls, devices, name):
        return [cls(device, name) for device in devices]


def test_a_tag_refuses_holds_back_a_revert_and_outlives_a_kill(pump):
    """Nothing reaches the device while it has the tag, whatever asks for it, and what waited is done when it is lifted."""
    server, device, node = pump
    speed = device.point("speed")
    wanted = {"task": "t", "requester": "anna", "priority": "LOW", "slots": [{"device": device.topic, "for": "1h"}], "lease": "1s"}
    assert node.request("/v1/reservations", wanted)[0] == 200
    assert set_points(node, "anna", (speed, 1600))["status"] == "success"
    status, answer = node.request("/v1/tags", {"topic": "test", "kind": "do_not_operate", "why": "crew 3", "requester": "crew"})
    assert (status, answer["status"], answer["commands_out"]) == (200, "success", 0), answer
    tag = answer["tag"]
    assert (tag["id"], tag["topic"], tag["owner"], tag["why"]) == (1, "test", "crew", "crew 3"), tag
    for who in ("anna", "crew"):
        assert set_points(node, who, (speed, 1))["points"][0]["reason"] == "tagged"
    until(lambda: node.request("/v1/reservations")[1] == {"reservations": []}, "the lease ends", 10)
    assert node.request("/v1/overrides", {"pattern": "test/*", "failsafe_revert": True})[0] == 200
    assert node.request("/v1/overrides/off", {"pattern": "test/*"})[0] == 200
    node.process.kill()
    node.start()
    node.wait_state(device, "online")
    node.wait_value(speed, v=1600, q="good")
    answer = node.command(speed, 2)
    assert answer["detail"].startswith("test has the do_not_operate tag 1 of crew since 20"), answer
    assert [found["id"] for found in node.request(f"/v1/tags?topic={speed}")[1]["tags"]] == [1]
    assert node.request("/v1/tags?topic=other/x")[1] == {"tags": []}
    assert node.request("/v1/tags/lift", {"id": 2})[0] == 404
    check_writes(server, 10, 1600)
    assert node.request("/v1/tags/lift", {"id": 1})[1]["tag"] == tag
    node.wait_value(speed, v=1500, q="good")
    # A hold lets its owner command; its number is new.
    answer = node.request("/v1/tags", {"topic": speed, "kind": "hold", "why": "test run", "requester": "crew"})[1]
    assert answer["tag"]["id"] == 2, answer
    assert set_points(node, "anna", (speed, 3))["points"][0]["reason"] == "tagged"
    assert set_points(node, "crew", (speed, 1700))["status"] == "success"
    check_writes(server, 10, 1600, 1500, 1700)
    assert "tieline_control_tags 1" in node.metrics()
    phases = [entry["phase"] for entry in node.request("/v1/audit")[1]["entries"] if entry["phase"].startswith("tag_")]
    assert phases == ["tag_placed", "tag_lifted", "tag_placed"], phases


def test_a_tag_that_cannot_be_placed_says_why(pump):
    _, device, node = pump
    asked = {"topic": device.topic, "kind": "hold", "why": "x"}
    for wrong, status, told in [
        ({"topic": "no/such", "kind": "hold"}, 404, "no device and no point that can be commanded at no/such"),
        ({"topic": "no/such", "kind": "note"}, 404, "there is no topic at no/such"),
        ({"topic": "test/#"}, 400, "test/#"),
        ({"kind": "red"}, 400, "expected hold, do_not_operate or note"),
        ({"why": " "}, 400, "expected 1 to 1024 in one line"),
    ]:
        found, answer = node.request("/v1/tags", {**asked, **wrong})
        assert found == status and told in answer["detail"], (wrong, answer)
    assert node.request("/v1/tags")[1] == {"tags": []}


def test_tags_over_mqtt(pump):
    _, device, node = pump
    with Sub(node, "$control/tags/#") as notices, Program(node, "crew") as crew:
        placed = crew.ask("$control/tag_place", {"topic": device.topic, "kind": "hold", "why": "work"})
        assert placed["status"] == "success" and placed["tag"]["owner"] == "crew", placed
        notices.wait(f"$control/tags/{device.topic}", tags=[placed["tag"]])
        assert crew.ask("$control/tags", {}) == {"tags": [placed["tag"]]}
        assert crew.ask("$control/tag_lift", {"id": 1})["status"] == "success"
        notices.wait(f"$control/tags/{device.topic}", tags=[])


def test_rights(server, tmp_path):
    device = Pump(server.address)
    device.topic = "site/pump"
    (tmp_path / "pump.csv").write_text(device.csv())
    with Guarded(tmp_path, more=device.toml()) as node:
        node.add("bert", "works")
        until(lambda: node.ask("/v1/me", "bert")[0] == 200, "bert may come in", 20)
        until(lambda: "1500" in node.ask(f"/v1/topics/{device.point('speed')}", "anna")[1], "a reading", 20)
        slots = [{"device": device.topic, "for": "1h"}]

        def ask(user, path, **body):
            status, text = node.ask(path, user, body=body or None)
            return status, json.loads(text)

        def set_speed(user, **more):
            points = [{"topic": device.point("speed"), "value": 10}]
            return ask(user, "/v1/set", points=points, **more)

        wanted = {"task": "t", "priority": "LOW", "slots": slots, "requester": "x"}
        assert ask("sec", "/v1/reservations", **wanted)[0] == 403
        assert ask("anna", "/v1/reservations", **{**wanted, "priority": "HIGH"})[0] == 403
        assert ask("anna", "/v1/reservations", **wanted)[0] == 200
        # The holder is the user's: another user with the same name is not it, nor is the user under another.
        assert ask("bert", "/v1/reservations")[1]["reservations"][0]["requester"] == "anna/x"
        assert set_speed("bert", requester="x")[1]["points"][0]["reason"] == "reserved"
        assert set_speed("anna")[1]["points"][0]["reason"] == "reserved"
        assert set_speed("sec", requester="x")[0] == 403
        assert set_speed("anna", requester="x")[1]["status"] == "success"
        assert ask("sec", "/v1/reservations")[1] == {"reservations": []}
        may_end = {user: ask(user, "/v1/reservations")[1]["reservations"][0]["may_end"] for user in ("anna", "bert", "boss")}
        assert may_end == {"anna": True, "bert": False, "boss": True}
        assert len(ask("anna", f"/v1/reservations?topic={device.point('speed')}")[1]["reservations"]) == 1
        assert ask("anna", "/v1/reservations?topic=site/other")[1] == {"reservations": []}
        assert ask("bert", "/v1/reservations/cancel", task="t", requester="x")[1]["info"] == "AGENT_ID_TASK_ID_MISMATCH"
        assert ask("bert", "/v1/reservations/cancel", task="t", force=True)[0] == 403
        assert ask("boss", "/v1/reservations/cancel", task="t", force=True)[0] == 200
        assert ask("anna", "/v1/overrides", pattern="site/*")[0] == 403
        assert ask("boss", "/v1/overrides", pattern="site/*")[0] == 200
        rights = {user: ask(user, "/v1/overrides?rights=true")[1]["overrides"][0]["may_end"] for user in ("anna", "boss")}
        assert rights == {"anna": False, "boss": True}
        assert "may_end" not in ask("boss", f"/v1/overrides?topic={device.point('speed')}")[1]["overrides"][0]
        assert ask("boss", "/v1/overrides?topic=other/x")[1]["overrides"] == []
        assert set_speed("anna")[1]["points"][0]["reason"] == "override"
        assert ask("anna", "/v1/overrides/off", pattern="site/*")[0] == 403
        assert ask("anna", "/v1/overrides/off", pattern=None)[0] == 403
        assert ask("boss", "/v1/overrides/off", pattern="site/*")[0] == 200
        tag = {"topic": device.topic, "kind": "hold", "why": "fuse"}
        assert ask("sec", "/v1/tags", **tag)[0] == 403
        assert ask("anna", "/v1/tags", **tag, requester="x")[1]["tag"]["owner"] == "anna/x"
        assert set_speed("bert", requester="x")[1]["points"][0]["reason"] == "tagged"
        rights = {user: ask(user, "/v1/tags?rights=true")[1]["tags"][0]["may_lift"] for user in ("anna", "bert", "boss")}
        assert rights == {"anna": True, "bert": False, "boss": True}
        assert ask("sec", "/v1/tags")[1] == {"tags": []}
        assert ask("bert", "/v1/tags/lift", id=1)[0] == 403
        assert ask("anna", "/v1/tags/lift", id=1)[0] == 200
        assert ask("anna", "/v1/tags", **tag)[1]["tag"]["owner"] == "anna"
        assert ask("boss", "/v1/tags/lift", id=2)[0] == 200
        # Who may read a point sees each tag that holds for it, also one on a topic above.
        assert ask("anna", "/v1/tags", topic="site", kind="hold", why="fuse")[0] == 200
        seen = {user: len(ask(user, f"/v1/tags?topic={device.point('speed')}")[1]["tags"]) for user in ("anna", "sec")}
        assert seen == {"anna": 1, "sec": 0}
        assert ask("anna", "/v1/tags/lift", id=3)[0] == 200
        assert set_speed("anna")[1]["status"] == "success"
        # A device is its points: who may not command one of them may not revert it.
        narrow = '[role.narrow]\nrules = ["allow read #", "allow command site/#", "deny command site/pump/run"]\n'
        (node.folder / "roles.toml").write_text(ROLES + narrow)
        node.add("cara", "narrow")
        until(lambda: node.ask("/v1/me", "cara")[0] == 200, "cara may come in", 20)
        assert ask("cara", "/v1/revert", devices=[device.topic])[0] == 403
        assert ask("cara", "/v1/revert", points=[device.point("speed")])[1]["status"] == "success"
        assert ask("anna", "/v1/revert", devices=[device.topic])[1]["status"] == "success"


def test_the_command_line(pump):
    server, device, node = pump
    speed = device.point("speed")

    def run(*words, code=0):
        done = tieline(*words, "--http", node.http, check=False)
        assert done.returncode == code, done
        return done

    done = run("reserve", device.topic, "--task", "night", "--for", "1h", "--as", "cli")
    assert done.stdout == "reserved: night\n", done
    done = run("reserve", device.topic, "--task", "day", "--for", "1h", "--as", "other", code=3)
    assert "CONFLICTS_WITH_EXISTING_SCHEDULES" in done.stderr and "night of cli" in done.stderr, done
    assert f"* {device.topic}" in run("reservations").stdout
    found = json.loads(run("reservations", "--json").stdout)
    assert (found["task"], found["lease_s"]) == ("night", None)
    assert run("renew", "night", "--as", "cli").stdout == "night has no lease: it ends at its time\n"
    run("renew", "day", "--as", "cli", code=3)
    done = run("set", f"{speed}=1700", "--as", "cli", "--confirm")
    assert done.stdout == f"{speed}: confirmed  1700, good\n", done
    assert "reserved" in run("set", f"{speed}=1", code=3).stdout
    assert "would send  direct 9" in run("set", f"{speed}=9", "--as", "cli", "--dry-run").stdout
    done = run("set", f"{speed}=10", f"{speed}=9999", "--as", "cli", "--json", code=7)
    assert json.loads(done.stdout)["status"] == "partial", done
    run("command", speed, "1200", "--as", "cli", "--no-confirm")
    run("command", speed, "1", "--no-confirm", code=3)
    assert "1200" in run("get", speed, device.point("run")).stdout
    run("revert", speed, "--as", "cli", "--confirm")
    node.wait_value(speed, v=1500)
    run("set", "nonsense", code=1)
    assert run("release", "night", "--as", "cli").stdout == "released: night\n"
    run("reserve", device.topic, "--task", "day", "--for", "1h", "--lease", "15m", "--as", "cli")
    assert run("renew", "day", "--as", "cli").stdout == "renewed: day, for 900.0 s\n"
    run("release", "day", "--as", "cli")
    assert run("override", "on", "test/*", "--for", "1h").stdout == "override on: test/*, 1 device or point\n"
    assert "test/*" in run("override", "list").stdout
    assert "override" in run("command", speed, "1", "--no-confirm", code=3).stderr
    run("override", "off", "--all")
    assert run("tag", "place", "test", "do-not-operate", "--why", "crew 3").stdout == "placed: tag 1, do_not_operate, test\n"
    assert "crew 3" in run("tag", "list", speed).stdout
    assert "tagged" in run("command", speed, "1", "--no-confirm", code=3).stderr
    assert run("tag", "lift", "1").stdout == "lifted: tag 1, do_not_operate, test\n"
    assert "unknown_tag" in run("tag", "lift", "1", code=3).stderr
    run("command", speed, "1", "--no-confirm")
    check_writes(server, 10, 1700, 10, 1200, 1500, 1)
    assert "tieline_control_reservations 0" in node.metrics()


def test_requests_that_cannot_be_read(pump):
    server, device, node = pump
    assert request(node, "$control/set", "{")["reason"] == "malformed"
    assert request(node, "$control/set", '{"points":[]}')["reason"] == "batch_empty"
    assert request(node, "$control/reserve", "[1]")["info"].startswith("MALFORMED_REQUEST")
    assert request(node, "$control/reservations", "{}") == {"reservations": []}
    assert request(node, "$control/get", json.dumps({"topics": [device.point("speed")]}))["topics"][0]["value"]["v"] == 1500
    status, answer = node.request("/v1/set", {"points": [{"topic": "a/#", "value": 1}]})
    assert (status, answer["reason"]) == (400, "malformed"), answer
    assert node.request("/v1/set", {"points": [], "retries": 3})[0] == 400
    assert writes(server) == []


@pytest.mark.parametrize("modbus", [{}, {"timeout": "3s"}], ids=["kept", "reconnected"])
def test_what_is_held_goes_on_when_the_points_change(pump, modbus):
    """The points have other numbers, one has another interlock, and the device may be connected again."""
    server, device, node = pump
    speed, guarded = device.point("speed"), device.point("guarded")
    reserve(node, device, "anna", task="night")
    assert set_points(node, "anna", (speed, 1700))["status"] == "success"
    assert set_points(node, "anna", (guarded, 4))["status"] == "success"
    run, was_speed, gentle, _ = Pump.POINTS
    locked = ("guarded", "holding-register", 12, {"writable": "true", "allow_when": "run == true", "revert": "none"})
    node.reload(Pump(server.address, points=[locked, gentle, was_speed, run], **modbus), more=RETURN)
    node.wait_value(speed, v=1700, q="good")
    assert set_points(node, "bert", (speed, 1))["points"][0]["reason"] == "reserved"
    assert set_points(node, "anna", (guarded, 5))["points"][0]["reason"] == "interlock"
    assert node.request("/v1/reservations/cancel", {"task": "night", "requester": "anna"})[0] == 200
    check_writes(server, 10, 1700, 1500)
    check_writes(server, 12, 4)
