"""Simulated devices of a node: many of them, what they are told, how they fail and come back."""

import re
import time
from pathlib import Path

from node import tieline
from simulated import SimulatedDevice
from waiting import until

# A hotel room: 18 points.
ROOM = [
    ("setpoint", "float", {"value": "21", "unit": "°C", "writable": "true", "min": "15", "max": "28"}),
    ("temperature", "float", {"value": "19", "curve": "follow(target 5s)", "noise": "0.02", "decimals": "2", "unit": "°C"}),
    ("target", "float", {"curve": "when(fan setpoint outdoor)"}),
    ("outdoor", "float", {"curve": "sine(12,6,24h,9h)", "unit": "°C"}),
    ("humidity", "float", {"curve": "walk(30 70 0.2)", "unit": "%"}),
    ("co2", "int", {"curve": "walk(400 1500 5)", "unit": "ppm"}),
    ("occupied", "bool", {"curve": "toggle(20s 0.5)", "states": "free/occupied"}),
    ("fan", "bool", {"value": "true", "writable": "true"}),
    ("valve", "float", {"curve": "lag(2s)", "writable": "true", "unit": "%"}),
    ("hot", "bool", {"curve": "above(temperature 25 0.5)"}),
    ("power", "float", {"curve": "linear(fan 0.35 0.02)", "noise": "0.001", "unit": "kW"}),
    ("energy", "float", {"value": "1000", "curve": "sum(power 1s)", "unit": "kWs"}),
    ("tariff", "int", {"curve": "day(1 1 2 2 2 1)"}),
    ("lux", "float", {"curve": "triangle(0 800 1h)"}),
    ("pulse", "int", {"curve": "ramp(0 1000 1000s)"}),
    ("window", "bool", {"curve": "square(0 1 1m 0.1)"}),
    ("door", "bool", {}),
    ("model", "text", {"value": "VAV-7"}),
]


def metric(node, name):
    found = re.search(rf"^{re.escape(name)} (\S+)$", node.metrics(), re.MULTILINE)
    return float(found[1]) if found else None


def test_a_thousand_rooms(start_node):
    first, *others = [
        SimulatedDevice(f"room{number:04}", ROOM, list="room0000", seed=5, delay="20ms", delay_jitter="30ms") for number in range(1000)
    ]
    node = start_node(first, *others, more="[history]\nenabled = false\n")
    until(lambda: metric(node, 'tieline_simulated_devices{state="online"}') == 1000, node.metrics, 60)
    before, since = metric(node, "tieline_simulated_answers_total"), time.monotonic()
    until(lambda: metric(node, "tieline_simulated_answers_total") > before + 5000, "5,000 answers", 60)
    rate = 5000 / (time.monotonic() - since)
    print(f"{rate:.0f} polls a second of 18 points each")
    assert rate > 500
    assert metric(node, "tieline_simulated_timeouts_total") == 0
    for room in (others[0], others[499], others[-1]):
        node.wait_value(room.point("model"), v="VAV-7", q="good")
        until(lambda room=room: abs(node.get(room.point("temperature"))["v"] - 21) < 0.3, room.topic, 60)
    # One list and one seed, and yet each room is another.
    humidity = {node.get(room.point("humidity"))["v"] for room in others[:50]}
    assert len(humidity) == 50
    shown = node.get(others[3].point("temperature"))["v"]
    assert shown == round(shown, 2)
    room = others[7]
    assert node.command(room.point("setpoint"), 24.5)["status"] == "success"
    node.wait_value(room.point("setpoint"), v=24.5)
    until(lambda: abs(node.get(room.point("temperature"))["v"] - 24.5) < 0.3, room.topic, 60)
    assert abs(node.get(others[8].point("temperature"))["v"] - 21) < 0.3
    energy = node.get(room.point("energy"))["v"]
    until(lambda: node.get(room.point("energy"))["v"] > energy, "more energy", 10)
    assert node.command(room.point("setpoint"), 29)["reason"] == "out_of_range"
    assert node.command(room.point("outdoor"), 1)["reason"] == "not_writable"


def test_a_command_is_shown_long_before_the_next_poll(start_node):
    device = SimulatedDevice("room", ROOM, poll="10m")
    node = start_node(device)
    node.wait_value(device.point("setpoint"), v=21, q="good")
    assert node.command(device.point("setpoint"), 24.5)["status"] == "success"
    node.wait_value(device.point("setpoint"), v=24.5)


def test_a_device_that_does_not_answer(start_node):
    silent = {"kind": "no_answer", "at": "4s", "for": "8s"}
    device = SimulatedDevice("room", ROOM, poll="200ms", timeout="300ms", faults=[silent])
    node = start_node(device)
    node.wait_state(device, "online")
    node.wait_value(device.point("setpoint"), v=21, q="good")
    described = node.wait_state(device, "away")
    assert (described["protocol"], described["address"]) == ("simulated", "")
    node.wait_value(device.point("setpoint"), v=21, q="bad", why=["away", "stale"])
    assert node.command(device.point("setpoint"), 22)["reason"] == "away"
    node.wait_state(device, "online")
    node.wait_value(device.point("setpoint"), v=21, q="good")
    assert metric(node, 'tieline_simulated_faults_total{kind="no_answer"}') > 3


def test_a_device_that_refuses_and_one_that_restarts(start_node):
    refusing = SimulatedDevice("refusing", ROOM, poll="200ms", faults=[{"kind": "refuse", "at": "4s", "for": "5s"}])
    restarting = SimulatedDevice("restarting", ROOM, poll="200ms", timeout="300ms", faults=[{"kind": "restart", "at": "6s", "for": "1s"}])
    node = start_node(refusing, restarting)
    node.wait_state(refusing, "online")
    node.wait_state(restarting, "online")
    assert node.command(restarting.point("setpoint"), 25)["status"] == "success"
    node.wait_value(restarting.point("setpoint"), v=25)
    node.wait_state(refusing, "slow")
    node.wait_value(refusing.point("setpoint"), v=21, q="uncertain", why=["stale"])
    refused = node.command(refusing.point("setpoint"), 22)
    assert (refused["status"], refused["reason"]) == ("refused", "refused"), refused
    node.wait_value(restarting.point("setpoint"), v=21, q="good")
    node.wait_state(refusing, "online")
    node.wait_value(refusing.point("setpoint"), v=21, q="good")
    assert metric(node, "tieline_simulated_restarts_total") == 1


def test_faults_of_points_reach_subscribers_as_quality(start_node):
    bad = {"kind": "bad", "points": ["humidity"], "at": "1s", "every": "4s", "for": "2s", "reason": "over_range"}
    device = SimulatedDevice("room", ROOM, poll="200ms", faults=[bad])
    node = start_node(device)
    node.wait_value(device.point("humidity"), q="bad", why=["over_range"])
    node.wait_value(device.point("co2"), q="good")
    node.wait_value(device.point("humidity"), q="good")
    node.wait_value(device.point("humidity"), q="bad", why=["over_range"])


def test_a_start_and_a_seed_make_a_run_that_can_be_repeated(start_node, tmp_path):
    settings = {"seed": 9, "start": "2026-06-01T06:00:00Z"}
    device = SimulatedDevice("room", ROOM, poll="200ms", **settings)
    node = start_node(device)

    def walk():
        """The humidity by the steps of the simulation, which the ramp counts."""
        seen = {}

        def enough():
            both = node.get(f"{device.topic}/all")
            seen[both["pulse"]["v"]] = both["humidity"]["v"]
            return len(seen) > 5

        node.wait_state(device, "online")
        until(enough, lambda: seen, 30)
        return seen

    first = walk()
    node.process.stop()
    node.start()
    second = walk()
    common = first.keys() & second.keys()
    assert len(common) > 2
    assert all(first[step] == second[step] for step in common)


def test_the_site_of_the_documents_runs(tmp_path):
    text = (Path(__file__).parent.parent / "docs/simulated.md").read_text()
    blocks = re.findall(r"^```(csv|toml)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (points, _, steps), (template, one_room, *_) = ([block for kind, block in blocks if kind == wanted] for wanted in ("csv", "toml"))
    (tmp_path / "room.csv").write_text(points + "heating,float,,steps(week.csv 7d),,1,°C,,,,,\n")
    (tmp_path / "week.csv").write_text(steps)
    rooms = [f'[device.room{number:03}]\ntopic = "hotel/room{number:03}"\ntemplate = "room"\n' for number in range(1, 201)]
    (tmp_path / "hotel.toml").write_text("\n".join([template, *rooms, one_room]))
    said = tieline("config", "check", tmp_path / "hotel.toml").stdout
    assert "201 devices" in said, said
