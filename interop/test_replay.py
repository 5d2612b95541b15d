"""The tree at an instant, pages of history in order of time, and replays, with paho and mosquitto as readers."""

import json
import signal
import subprocess
import urllib.parse
import urllib.request
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from bus import Paho, Sub
from node import BINARY, Node, tieline
from waiting import until

START = datetime.now(timezone.utc).replace(second=0, microsecond=0) - timedelta(hours=2)
FAULT = 20


def at(seconds):
    return (START + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def point(value, seconds, quality="good", **more):
    return json.dumps({"v": value, "q": quality, **more, "t": at(seconds)})


def record(node):
    """A value each second, a breaker that opens in a fault and a meter that is bad from then on; and one of before."""
    with Paho(node) as client:
        client.publish("site/old", point("before", -3600), retain=True)
        client.publish("site/breaker", point(True, 0), retain=True)
        for second in range(40):
            client.publish("site/volts", point(230 + second, second), retain=True)
        client.publish("site/breaker", point(False, FAULT), retain=True)
        client.publish("site/meter", point(7, 5), retain=True)
        client.publish("site/meter", point(7, FAULT, "bad", why=["offline"]), retain=True)
    node.wait_history("site/meter", q="bad")


@pytest.fixture
def node(tmp_path):
    with Node(tmp_path) as node:
        record(node)
        yield node


def topics_at(node, seconds, *more):
    words = ["topics", "site/#", "--at", at(seconds), "--json", "--http", node.http]
    lines = tieline(*words, *more).stdout.splitlines()
    return {topic["topic"]: topic["value"]["v"] for topic in map(json.loads, lines)}


def test_the_tree_is_as_it_was(node):
    assert topics_at(node, -4000) == {}
    assert topics_at(node, -1) == {"site/old": "before"}
    assert topics_at(node, 0) == {"site/old": "before", "site/breaker": True, "site/volts": 230}
    before = {"site/old": "before", "site/breaker": True, "site/volts": 249, "site/meter": 7}
    assert topics_at(node, FAULT - 0.5) == before
    assert topics_at(node, 3600) == before | {"site/breaker": False, "site/volts": 269}
    assert list(topics_at(node, 3600, "--select", "volts$")) == ["site/volts"]
    query = f"/v1/topics?filter=site/%23&at={urllib.parse.quote(at(FAULT))}"
    status, page = node.request(f"{query}&limit=2")
    assert status == 200 and [topic["topic"] for topic in page["topics"]] == ["site/breaker", "site/meter"]
    meter = page["topics"][1]
    assert meter["value"] | {"t": 0} == {"v": 7, "q": "bad", "why": ["offline"], "t": 0} and "seq" not in meter
    status, page = node.request(f"{query}&limit=2&after={page['next']}")
    assert [topic["topic"] for topic in page["topics"]] == ["site/old", "site/volts"] and page["next"] is None


def test_pages_of_history_in_order_of_time_have_every_row_once(node):
    path = f"/v1/history?topic=site/volts&topic=site/breaker&topic=site/meter&order=time&limit=7&from={at(-10)}"
    rows, pages = [], 0
    while path:
        with urllib.request.urlopen(f"http://{node.http}{path}", timeout=30) as answer:
            rows += json.load(answer)
            link = answer.headers["Link"]
        path, pages = link and link.removeprefix("<").removesuffix('>; rel="next"'), pages + 1
    assert (len(rows), pages) == (44, 7)
    times = [(row["t"], row["topic"]) for row in rows]
    assert times == sorted(times) and len(set(times)) == 44
    same = tieline(
        *["history", "query", "site/volts", "site/breaker", "site/meter", "--order", "time"],
        *["--from", at(-10), "--format", "json", "--http", node.http],
    )
    assert json.loads(same.stdout) == rows


def test_buckets_are_those_of_a_calendar_and_gaps_are_filled(node):
    query = f"/v1/history?topic=site/volts&from={at(0)}&to={at(60)}&every=10s&agg=max"
    filled = [row["v"] for row in node.request(f"{query}&fill=previous")[1]]
    assert filled == [239, 249, 259, 269, 269, 269]
    assert [row["count"] for row in node.request(f"{query}&fill=null")[1]] == [10, 10, 10, 10, 0, 0]
    days = "/v1/history?topic=site/volts&from=50d&agg=count&fill=null&every=1d&tz=Europe/Madrid"
    times = [datetime.fromisoformat(row["t"]) for row in node.request(days)[1]]
    starts = [time.astimezone(ZoneInfo("Europe/Madrid")) for time in times]
    assert len(starts) in (50, 51, 52) and {(start.hour, start.minute) for start in starts} == {(0, 0)}
    for wrong in ["every=1d&tz=Europe/Nowhere", "tz=UTC", "every=1mo&order=time", "every=0s"]:
        status, problem = node.request(f"/v1/history?topic=site/volts&agg=max&{wrong}")
        assert status == 400, problem


def replay(node, *more, **options):
    words = ["replay", "site/#", "--from", at(1), "--to", at(30), "--http", node.http]
    return tieline(*words, *more, **options)


def test_a_replay_plays_quality_and_all_and_leaves_nothing(node):
    with Sub(node, "$replay/#") as screen:
        words = ["--speed", "max", "--name", "fault", "--mqtt", node.mqtt, "--json"]
        told = json.loads(replay(node, *words).stdout)
        # Three topics have a state at the beginning.
        assert (told["published"], told["topics"], told["skipped"]) == (3 + 29 + 3, 4, 0)
        bad = screen.wait("$replay/fault/site/meter", q="bad")
        assert bad == {"v": 7, "q": "bad", "why": ["offline"], "t": bad["t"]}
        until(lambda: len(screen.messages()) >= 35, screen.said)
        messages = screen.messages()
        volts = [body["v"] for _, topic, body in messages if topic.endswith("volts")]
        assert volts == list(range(230, 260))
        order = [(body["t"], topic) for _, topic, body in messages[3:]]
        assert order == sorted(order)
    until(lambda: node.get("$replay/fault/site/meter") is None, "values go with the replay")
    assert node.history("$replay/#") == []
    assert node.set("$replay/fault/x", "1")[0] == 400


def test_a_replay_keeps_its_pace_and_pauses_at_a_signal(node):
    words = ["replay", "site/#", "--from", at(1), "--to", at(30), "--http", node.http, "--mqtt", node.mqtt]
    command = [str(word) for word in [BINARY, *words, "--speed", "10", "--hold"]]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        # The state comes at once.
        node.wait_value("$replay/main/site/old", v="before")
        process.send_signal(signal.SIGUSR1)
        assert process.stderr.readline() + process.stderr.readline() == "\npaused; SIGUSR1 goes on\n"
        stood = node.get("$replay/main/site/volts")["v"]
        assert stood < 255
        process.send_signal(signal.SIGUSR1)
        node.wait_value("$replay/main/site/volts", v=259)
        told = process.stdout.readline()
        assert told.startswith("35 values of 4 topics in ") and float(told.split()[-2]) >= 2.8, told
        # It is held until a signal.
        assert process.poll() is None and node.get("$replay/main/site/breaker")["v"] is False
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
    until(lambda: node.get("$replay/main/site/volts") is None, "values go with the replay")


def test_values_go_with_a_replay_that_is_killed(node):
    command = [BINARY, "replay", "site/#", "--from", at(1), "--http", node.http, "--mqtt", node.mqtt, "--hold"]
    process = subprocess.Popen([str(word) for word in command])
    node.wait_value("$replay/main/site/old", v="before")
    process.kill()
    process.wait()
    until(lambda: node.get("$replay/main/site/old") is None, "values go with the replay")


def test_another_node_meets_the_fault_again(node, tmp_path):
    (tmp_path / "other").mkdir()
    with Node(tmp_path / "other") as other:
        replay(node, "--speed", "max", "--to-node", other.mqtt)
        assert other.get("site/breaker")["v"] is False and other.get("site/volts")["v"] == 259
        rows = other.wait_history("site/meter", q="bad") and other.history("site/#")
        recorded = [row for row in node.history("site/#") if row["t"] < at(30)[:-1]]
        assert rows == recorded
