"""The clients of control in Python and TypeScript, with a node and a device of another implementation."""

import json
import subprocess
import sys
import time

import pytest
from processes import HERE
from test_reservations import check_writes, pump, server  # noqa: F401
from tieline.control import Client, Failed, NodeError, Refused
from waiting import until

TYPESCRIPT = HERE.parent / "sdk" / "typescript"


def test_python(pump):  # noqa: F811
    server, device, node = pump  # noqa: F811
    speed, url = device.point("speed"), f"http://{node.http}"
    anna, bert = Client(url, requester="anna"), Client(node.http, requester="bert")
    with anna.reserve("of anna", [device.topic], seconds=3600) as reservation:
        assert reservation.preempted == []
        with pytest.raises(Failed) as failed:
            bert.reserve("of bert", slots=[(device.topic, "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z")])
        assert failed.value.info == "CONFLICTS_WITH_EXISTING_SCHEDULES" and list(failed.value.data) == ["anna"]
        result = anna.set({speed: 1700}, confirm=True)
        assert (result.status, result.failed, result.points[0].is_done) == ("success", {}, True), result
        assert bert.set([(speed, 1)]).failed == {speed: "reserved"}
        assert anna.set({speed: 5}, dry_run=True).points[0].more["raw"] == 5
        with pytest.raises(Refused, match="batch_empty"):
            anna.set({})
        assert [found["task"] for found in bert.reservations()] == ["of anna"]
        assert anna.revert([speed], confirm=True).status == "success"
        assert anna.set({speed: 1800}).status == "success"
    assert bert.reservations() == []
    assert bert.override_on("test/*", seconds=60) == [device.topic]
    assert bert.set({speed: 1}).failed == {speed: "override"}
    assert [found["pattern"] for found in bert.overrides()] == ["test/*"]
    bert.override_off("test/*")
    tag, commands_out = bert.place_tag(device.topic, "hold", "crew 3")
    assert (tag["owner"], commands_out) == ("bert", 0) and anna.tags(speed) == [tag]
    assert anna.set({speed: 1}).failed == {speed: "tagged"}
    bert.lift_tag(tag["id"])
    with pytest.raises(Refused, match="unknown_tag"):
        bert.lift_tag(tag["id"])
    assert bert.tags() == []
    check_writes(server, 10, 1700, 1500, 1800, 1500)
    node.wait_value(speed, v=1500)
    values, errors = bert.get([speed, "no/such"])
    assert values[speed]["v"] == 1500 and errors == {"no/such": "unknown_topic"}
    with pytest.raises(NodeError, match="404"):
        Client(f"{url}/nothing").reservations()


DIES = '''
import sys
from tieline.control import Client
url, device, point = sys.argv[1:]
node = Client(url, requester="anna")
night = node.reserve("night", [device], seconds=3600, lease=2)
node.set({point: 1700})
print("reserved", flush=True)
sys.stdin.read()
'''


def test_a_python_program_that_dies_is_reverted_and_one_that_lives_is_not(pump):  # noqa: F811
    server, device, node = pump  # noqa: F811
    speed, url = device.point("speed"), f"http://{node.http}"
    words = [sys.executable, "-c", DIES, url, device.topic, speed]
    paths = {"PYTHONPATH": str(HERE.parent / "sdk" / "python")}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=paths) as program:
        try:
            assert program.stdout.readline() == b"reserved\n"
            began = time.monotonic()
            until(lambda: node.request("/v1/reservations")[1]["reservations"] and time.monotonic() > began + 4, "twice the lease", 10)
            check_writes(server, 10, 1700)
        finally:
            program.kill()
    node.wait_value(speed, v=1500)
    check_writes(server, 10, 1700, 1500)
    assert node.request("/v1/reservations")[1]["reservations"] == []


def test_python_hears_of_the_end_of_its_reservation(pump):  # noqa: F811
    _, device, node = pump  # noqa: F811
    ended = []
    client = Client(f"http://{node.http}", requester="anna")
    night = client.reserve("night", [device.topic], seconds=3600, lease=1, on_ended=ended.append)
    assert night.ended is None
    Client(f"http://{node.http}", requester="operator").cancel("night", force=True)
    until(lambda: ended == [night], "the end", 10)
    assert night.ended == "TASK_ID_DOES_NOT_EXIST"


@pytest.mark.skipif(not (TYPESCRIPT / "node_modules").is_dir(), reason="the TypeScript packages are not installed")
def test_typescript(pump):  # noqa: F811
    server, device, node = pump  # noqa: F811
    built = subprocess.run(["npm", "run", "build"], cwd=TYPESCRIPT, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    words = ["node", HERE / "peers" / "control.mjs", f"http://{node.http}", device.topic, device.point("speed")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    said = {name: value for line in done.stdout.splitlines() for name, value in json.loads(line).items()}
    set_point = said.pop("set")
    assert (set_point["status"], set_point["points"][0]["reading"]["v"]) == ("success", 1700), set_point
    assert said == {
        "preempted": [],
        "failed": "CONFLICTS_WITH_EXISTING_SCHEDULES",
        "other": "reserved",
        "dry": 5,
        "empty": "batch_empty",
        "reservations": [["anna", "of anna"]],
        "reverted": "success",
        "overridden": [device.topic],
        "overrides": [[device.topic, "string"]],
        "override": "override",
        "tagged": "tagged",
        "tags": [[1, "bert", "crew 3"]],
        "value": 1500,
        "errors": {"no/such": "unknown_topic"},
        "lives": [["anna", "night"]],
        "ended": "TASK_ID_DOES_NOT_EXIST",
        "left": 1,
    }, said
    # The process has ended, and with it its last reservation.
    until(lambda: node.request("/v1/reservations")[1]["reservations"] == [], "the end of its lease", 10)
    check_writes(server, 10, 1700, 1500)
