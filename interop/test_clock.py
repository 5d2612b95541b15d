"""A clock that is far from what was known when the node last ran: nothing goes by it until somebody confirms it."""

import datetime
import json

from bus import Paho
from node import tieline
from waiting import until


def stamp(**ago):
    moment = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(**ago)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def records(node):
    return [entry for entry in node.request("/v1/audit")[1]["entries"] if entry["phase"] == "clock"]


def test_a_start_far_ahead_removes_nothing(start_node):
    node = start_node(more='[history]\nrecord = ["#"]\nkeep = "1h"\n')
    clock = node.data / "clock"
    until(clock.exists, "the clock is written down")
    node.process.stop()
    clock.write_text(stamp(days=100) + "\n")
    node.start()
    health = node.health()
    assert health["status"] == "degraded", health
    assert any("clock: " in word and "100 days ahead" in word for word in health["detail"]), health
    assert "tieline_clock_doubted 1" in node.metrics()
    with Paho(node) as client:  # older than what is kept, by a clock that may be wrong
        client.publish("old", '{"v": 1, "t": "%s"}' % stamp(hours=2))
    node.wait_history("old", v=1)
    node.process.stop()
    node.start()  # the first look for what is too old is at the start
    assert node.health()["status"] == "degraded"
    node.wait_history("old", v=1)
    assert node.request("/v1/clock", {"time": stamp(days=100)})[0] == 409
    assert node.request("/v1/clock", {"time": "noon"})[0] == 400
    assert node.health()["status"] == "degraded"
    shown = json.loads(tieline("clock", "--json", "--http", node.http).stdout)
    assert shown["in_doubt"] and shown["off_s"] > 99 * 86_400, shown
    confirm = ("clock", "confirm", "--http", node.http)
    refused = tieline(*confirm, check=False)  # by the very clock that is in doubt
    assert refused.returncode == 1 and "--time" in refused.stderr, refused
    other = stamp(seconds=5)
    assert json.loads(tieline(*confirm, "--time", other, "--json").stdout)["status"] == "ok"
    until(lambda: records(node), "the confirmation is written down")
    (record,) = records(node)
    assert record["who"].startswith("http 127.0.0.1:") and other[:-2] in record["detail"], record
    assert record["value"] in record["detail"] and shown["expected"][:10] in record["detail"], record
    until(lambda: node.health()["status"] == "ok", lambda: node.health())
    until(lambda: not node.history("old"), lambda: node.history("old"), 30)
    node.process.stop()
    node.start()
    until(lambda: node.health()["status"] == "ok", lambda: node.health())
