"""The TypeScript client: every call, on a real node, over links that break."""

import json
import signal
import subprocess

import pytest
from node import Device, OurOutstation
from processes import HERE, Lines
from simulated import SimulatedDevice
from test_access import Guarded
from test_edges import Cut
from test_python_client import ROOM
from waiting import until

TYPESCRIPT = HERE.parent / "sdk" / "typescript"
CLIENT = HERE / "peers" / "client.mjs"

pytestmark = pytest.mark.skipif(not (TYPESCRIPT / "node_modules").is_dir(), reason="the TypeScript packages are not installed")


@pytest.fixture(scope="module", autouse=True)
def built():
    done = subprocess.run(["npm", "run", "build"], cwd=TYPESCRIPT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def run(*words):
    done = subprocess.run(["node", CLIENT, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == "ok\n", done.stdout + done.stderr


def test_every_call(start_node):
    device = SimulatedDevice("room", ROOM, poll="100ms")
    node = start_node(device)
    node.wait_state(device, "online")
    run(f"http://{node.http}")


def test_who_may_what(tmp_path):
    with Guarded(tmp_path) as node:
        run(node.http, "denied")


def test_a_command_whose_outcome_is_not_known_is_unknown(tmp_path, start_node):
    with OurOutstation(tmp_path) as outstation:
        device = Device("relay", outstation.address, response_timeout="20s")
        node, point = start_node(device), device.point("binary-output", 0)
        node.wait_state(device, "online")
        outstation.process.send_signal(signal.SIGSTOP)
        with subprocess.Popen(["node", CLIENT, node.http, "unknown", point], stdout=subprocess.PIPE, text=True) as client:
            until(lambda: "sent" in [entry["phase"] for entry in node.audit(point)["entries"]], "the command is sent", 30)
            node.process.kill()
            assert client.stdout.read() == "ok\n"
        outstation.process.send_signal(signal.SIGCONT)


def test_a_subscription_survives_the_link_and_misses_no_removal(start_node):
    node = start_node()
    for name in ("stays", "changes", "goes"):
        node.set(f"plan/{name}", "1")
    with Cut() as link:
        link.target, link.is_cut = int(node.http.rsplit(":", 1)[1]), False
        client = Lines(["node", CLIENT, link.address.removeprefix("mqtt://"), "follow", "plan/#"])
        said = lambda: [json.loads(line) for line in list(client.lines)]
        values = lambda: [(row["topic"], row.get("value")) for row in said() if "topic" in row]
        states = lambda: [row["state"] for row in said() if "state" in row]
        until(lambda: states() == ["live"] and len(values()) == 3, lambda: f"{said()}", 30)
        link.cut()
        node.set("plan/changes", "3")
        node.set("plan/goes", None, method="DELETE")
        until(lambda: states() == ["live", "away"], lambda: f"{said()}", 30)
        link.mend()
        until(lambda: len(values()) == 5 and states()[-1] == "live", lambda: f"{said()}", 30)
        node.set("plan/stays", None, method="DELETE")
        until(lambda: len(values()) == 6, lambda: f"{said()}", 30)
        assert values()[3:] == [("plan/changes", 3), ("plan/goes", None), ("plan/stays", None)], "what did not change comes once"
        client.stop()
