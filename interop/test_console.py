"""The console in Chromium, on nodes that run: the demonstration substation, many topics, a stopped process, users."""

import os
import subprocess
import sys
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from nats_peer import SERVER
from node import BINARY, Device
from processes import Lines
from simulated import SimulatedDevice
from site_nodes import Server, centre_of, folder, plant_of, wait_for_clock, wait_for_site
from test_access import Client, Guarded
from test_users import Administered
from waiting import until

CONSOLE = Path(__file__).parent.parent / "console"
PICTURES = CONSOLE.parent / ".work" / "screenshots"
pytestmark = pytest.mark.skipif(not (CONSOLE / "node_modules").is_dir(), reason="the console's packages are not installed")
DEMO = ["--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0", "--json"]
"""More than the console follows whole."""
MANY = 21_000
METER = [("power", "float", {"curve": "walk(0 50 0.5)", "unit": "kW"}), ("switch", "bool", {"value": "true"})]
ALARM_RULES = """\
topic,kind,limit,priority,latch,group,text,cause,consequence,action,respond_in
plant/+/temperature,high,90,critical,,plant,too hot,cooling,trip of the plant,start the second fan,10m
plant/+/pressure,low,2,medium,,plant,low pressure,,,,
test/#,away,,high,,field,no communication,,,,
test/#,bad,,low,,field,bad quality,,,,
flood/#,high,10,high,,flood,flooded,,,,
"""


def drive(script, said, **settings):
    """Runs a script of the console's tests to its end."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "SCREENSHOTS": str(PICTURES), **settings}
    command = ["node", f"test/{script}"]
    done = subprocess.run(command, cwd=CONSOLE, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{said()}"
    print(done.stdout)


def test_in_a_browser(tmp_path):
    with Lines([BINARY, "run", "--demo", "--data", tmp_path / "data", *DEMO]) as node:
        drive("e2e.mjs", node.said, TIELINE_URL=f"http://{node.first(60)['http']}")
        assert node.process.poll() is None, node.said()


def test_the_first_steps_of_an_empty_node(tmp_path):
    with Lines([BINARY, "run", "--data", tmp_path / "data", *DEMO]) as node:
        drive("first.mjs", node.said, TIELINE_URL=f"http://{node.first(60)['http']}", TIELINE_BIN=str(BINARY))


def test_trends(tmp_path):
    with Lines([BINARY, "run", "--demo", "--data", tmp_path / "data", *DEMO]) as node:
        commands = {"TIELINE_BIN": str(BINARY), "PYTHON": sys.executable}
        drive("trends.mjs", node.said, TIELINE_URL=f"http://{node.first(60)['http']}", **commands)


def test_search_and_events(tmp_path):
    with Lines([BINARY, "run", "--demo", "--data", tmp_path / "data", *DEMO]) as node:
        drive("find.mjs", node.said, TIELINE_URL=f"http://{node.first(60)['http']}")


def test_diagrams(tmp_path):
    with Lines([BINARY, "run", "--demo", "--data", tmp_path / "data", *DEMO]) as node:
        drive("diagrams.mjs", node.said, TIELINE_URL=f"http://{node.first(60)['http']}")


def test_documentation(start_node):
    node = start_node()
    drive("docs.mjs", node.process.said, TIELINE_URL=f"http://{node.http}")


def test_boards(tmp_path):
    with Lines([BINARY, "run", "--demo", "--data", tmp_path / "data", *DEMO]) as node:
        drive("boards.mjs", node.said, TIELINE_URL=f"http://{node.first(60)['http']}")


def test_languages(tmp_path):
    with Lines([BINARY, "run", "--demo", "--data", tmp_path / "data", *DEMO]) as node:
        drive("langs.mjs", node.said, TIELINE_URL=f"http://{node.first(60)['http']}")


def test_a_shift_by_the_keyboard_alone(tmp_path):
    with Lines([BINARY, "run", "--demo", "--data", tmp_path / "data", *DEMO]) as node:
        drive("shift.mjs", node.said, TIELINE_URL=f"http://{node.first(60)['http']}")


def test_alarms(start_node, tmp_path):
    (tmp_path / "alarms.csv").write_text(ALARM_RULES)
    broken = SimulatedDevice("zbroken", METER, faults=[{"kind": "no_answer", "at": "3s", "for": "1h"}])
    node = start_node(broken, more='[alarm]\nrules = "alarms.csv"\n')
    drive("alarms.mjs", node.process.said, TIELINE_URL=f"http://{node.http}", MQTT=node.mqtt)


def test_the_editor_of_boards(tmp_path):
    with Lines([BINARY, "run", "--demo", "--data", tmp_path / "data", *DEMO]) as node:
        drive("boardedit.mjs", node.said, TIELINE_URL=f"http://{node.first(60)['http']}")


def test_the_worst_of_a_thousand_devices(start_node):
    meters = [SimulatedDevice(f"meter{n:04}", METER, list="meter0000", seed=5) for n in range(999)]
    broken = Device("zbroken", "127.0.0.1:1")
    node = start_node(*meters, broken)

    def devices(query=""):
        return node.request(f"/v1/devices{query}")[1]

    def states():
        return {device["topic"]: device["state"] for device in devices()["devices"]}

    until(lambda: all((state == "online") != (topic == broken.topic) for topic, state in states().items()), states, 60)
    until(lambda: states()[broken.topic] == "away", states, 60)
    worst = devices("?order=worst&limit=2")
    assert [device["topic"] for device in worst["devices"]] == [broken.topic, meters[0].topic]
    assert worst["total"] == 1000
    assert node.request("/v1/devices?order=best")[0] == 400
    drive("worst.mjs", node.process.said, TIELINE_URL=f"http://{node.http}", WORST=broken.topic, TOTAL="1000")


@pytest.mark.skipif(SERVER is None, reason="no nats-server: .ci/nats builds it")
@pytest.mark.parametrize("prefix", ["sites/", "region/"])
def test_the_sites_of_a_centre(tmp_path, prefix):
    server = Server(folder(tmp_path, "nats"))
    rules = tmp_path / "alarms.csv"
    rules.write_text(f"topic,kind,limit,priority,text\n{prefix}+/test/room/level,high,0.5,high,level\n")
    alarms = f'prefix = "{prefix}"\n[alarm]\nrules = "{rules}"\n'
    try:
        with centre_of(tmp_path, server, alarms) as centre, plant_of(tmp_path, server, "north"):
            with plant_of(tmp_path, server, "south"):
                for name in ("north", "south"):
                    wait_for_clock(centre, name)
                    centre.wait_value(f"{prefix}{name}/test/room/level", v=1.0, q="good")
            wait_for_site(centre, "away", "south")
            centre.wait_value(f"{prefix}south/test/room/level", q="bad")
            drive("sites.mjs", centre.process.said, TIELINE_URL=f"http://{centre.http}", AWAY="south", UP="north", PREFIX=prefix)
    finally:
        server.kill()


def test_a_stopped_process_is_marked_and_counts_are_those_of_the_node(tmp_path):
    with Lines([BINARY, "run", "--demo", "--data", tmp_path / "data", *DEMO]) as node:
        first = node.first(60)
        publisher = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        host, port = first["mqtt"].split(":")
        publisher.connect(host, int(port))
        publisher.loop_start()
        for i in range(MANY):
            publisher.publish(f"many/block{i // 100}/p{i}", '{"v":1,"q":"good"}', retain=True)
        publisher.publish("many/last", "1", qos=1, retain=True).wait_for_publish(60)
        publisher.disconnect()
        publisher.loop_stop()
        drive("stopped.mjs", node.said, TIELINE_URL=f"http://{first['http']}", TIELINE_PID=str(node.process.pid))


def test_a_login_leads_back_to_where_one_was(tmp_path):
    with Guarded(tmp_path) as node:
        node.add("bert", "works")
        with Client(node, "boss", "password-boss", "boss") as boss:
            for topic in ["site/pump", "site/secret/x", "other/x"]:
                assert boss.publish(topic, "5", retain=True) == 0
        drive("login.mjs", lambda: "", TIELINE_URL=f"http://{node.http}")


def test_users_are_administered(tmp_path):
    with Administered(tmp_path) as node:
        drive("users.mjs", lambda: "", TIELINE_URL=f"http://{node.http}")
