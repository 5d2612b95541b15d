"""Views with clients that are not ours: derived topics come, change and go with their sources."""

import json

import pytest
from bus import Paho, Sub, publish
from node import Node, tieline
from waiting import until

VIEWS = """
[[view]]
name = "amps"
from = "site/+/amps"
to = "amps/{1}"
[[view]]
name = "total"
from = "amps/+"
to = "total/amps"
aggregate = "sum"
[[view]]
name = "items"
from = "list"
to = "item/{/name}"
expand = "/items"
when = "/on == true"
pick = { size = "/size" }
insert = { unit = "m" }
[[view]]
name = "late"
from = "late/in"
to = "late/out"
delay = "5s"
"""


@pytest.fixture
def node(tmp_path):
    with Node(tmp_path, more=VIEWS) as running:
        yield running
        running.alive()


def test_derived_topics_follow_their_sources(node):
    with Sub(node, "amps/#", "total/#", "item/#", qos=1) as sub:
        publish(node, "site/a/amps", '{"v":1,"q":"good"}', "-r")
        publish(node, "site/b/amps", '{"v":4,"q":"bad"}', "-r")
        sub.wait("total/amps", v=5.0, q="bad", n=2)
        assert node.get("amps/b")["v"] == 4
    publish(node, "site/b/amps", "", "-r")
    until(lambda: node.get("total/amps") == {"v": 1.0, "q": "good", "n": 1}, lambda: node.get("total/amps"))
    assert node.get("amps/b") is None
    publish(node, "list", '{"items":[{"name":"x","on":true,"size":3},{"name":"y","on":false}]}', "-r")
    until(lambda: node.get("item/x") == {"size": 3, "unit": "m"}, lambda: node.get("item/x"))
    assert node.get("item/y") is None
    publish(node, "list", '{"items":[{"name":"y","on":true}]}', "-r")
    until(lambda: node.get("item/y") == {"unit": "m"}, lambda: node.get("item/y"))
    assert node.get("item/x") is None


def test_what_is_not_retained_is_no_source(node):
    publish(node, "site/a/amps", '{"v":1}')
    publish(node, "site/b/amps", '{"v":2}', "-r")
    until(lambda: node.get("total/amps") == {"v": 2.0, "q": "good", "n": 1}, lambda: node.get("total/amps"))
    assert node.get("amps/a") is None


def test_delayed_topics_come_later(node):
    publish(node, "late/in", "7", "-r")
    assert node.get("late/out") is None
    until(lambda: node.get("late/out") == 7, lambda: node.get("late/out"))


def test_nobody_else_publishes_there(node):
    paho = Paho(node)
    paho.client.publish("amps/a", "9", qos=1, retain=True)
    mid, code, *_ = paho.acknowledged.get(timeout=20)
    assert code.value == 0x87
    assert node.get("amps/a") is None
    assert node.request("/v1/publish", {"topic": "total/amps", "payload": "1", "retain": True})[0] == 400
    paho.client.disconnect()


def test_derived_topics_are_not_recorded(node):
    publish(node, "site/a/amps", '{"v":1}', "-r")
    until(lambda: node.get("amps/a"), lambda: "no derived topic")
    publish(node, "marker", "1")

    def recorded():
        status, rows = node.request("/v1/history?topic=%23")
        assert status == 200, rows
        return {row["topic"] for row in rows}

    until(lambda: "marker" in recorded(), recorded)
    assert recorded() == {"site/a/amps", "marker"}


def test_what_a_view_makes_can_be_seen_without_a_node(node):
    lines = 'site/a/amps {"v":1}\nlate/in 5\nsite/a/amps\n+5s\n'
    said = tieline("views", "test", "--config", node.config, input=lines).stdout.splitlines()
    expect = ['amps/a {"v":1}', 'total/amps {"n":1,"q":"good","v":1.0}', "amps/a is gone", "total/amps is gone", "late/out 5"]
    assert said == expect
    publish(node, "site/c/amps", '{"v":2}', "-r")
    until(lambda: node.get("site/c/amps"), lambda: "not there")
    live = tieline("views", "test", "--config", node.config, "--live", "--json", "--http", node.http).stdout
    assert {"topic": "amps/c", "payload": {"v": 2}} in [json.loads(line) for line in live.splitlines()]
    assert "4 views" in tieline("views", "check", "--config", node.config).stdout
    bad = node.folder / "bad.toml"
    bad.write_text("[[view]]\nname = 'a'\nfrom = 'a/+'\nto = 'a/x'\n")
    refused = tieline("views", "check", "--config", bad, check=False)
    assert refused.returncode == 1 and "views feed themselves: a → a" in refused.stderr
