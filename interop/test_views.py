"""Views with clients that are not ours: derived topics come, change and go with their sources."""

import json
import signal

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


def total(node):
    """What the total says. It gives no time of its own, so it has that of its arrival."""
    return {name: member for name, member in (node.get("total/amps") or {}).items() if name != "t"}


def test_derived_topics_follow_their_sources(node):
    with Sub(node, "amps/#", "total/#", "item/#", qos=1) as sub:
        publish(node, "site/a/amps", '{"v":1,"q":"good"}', "-r")
        publish(node, "site/b/amps", '{"v":4,"q":"bad"}', "-r")
        sub.wait("total/amps", v=5.0, q="bad", n=2)
        assert node.get("amps/b")["v"] == 4
    publish(node, "site/b/amps", "", "-r")
    until(lambda: total(node) == {"v": 1.0, "q": "good", "n": 1}, lambda: node.get("total/amps"))
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
    until(lambda: total(node) == {"v": 2.0, "q": "good", "n": 1}, lambda: node.get("total/amps"))
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


def rewrite(node, old, new):
    """Changes the configuration file of a node that runs."""
    node.config.write_text(node.config.read_text().replace(old, new))


def test_views_change_without_a_restart(node):
    publish(node, "site/a/amps", '{"v":1,"q":"good"}', "-r")
    publish(node, "list", '{"items":[{"name":"x","on":true,"size":3}]}', "-r")
    until(lambda: node.get("total/amps") and node.get("item/x"), "what the first views derive")
    with Sub(node, "current/#", "amps/#", "total/#", "item/#", qos=1) as sub:
        sub.wait("amps/a", v=1)
        rewrite(node, '"amps/{1}"', '"current/{1}"')
        rewrite(node, '"amps/+"', '"current/+"')
        done = tieline("views", "reload", "--http", node.http)
        assert done.stdout == "4 views, 3 topics derived\n"
        sub.wait("current/a", v=1)
    assert node.get("amps/a") is None
    assert total(node) == {"v": 1.0, "q": "good", "n": 1}
    # What the views derive is not for clients, from then on; what they no longer derive is.
    publish(node, "site/b/amps", '{"v":2,"q":"good"}', "-r")
    until(lambda: (node.get("total/amps") or {}).get("v") == 3.0, lambda: node.get("total/amps"))
    status, _ = node.request("/v1/publish", {"topic": "current/z", "payload": 1, "retain": True})
    assert status == 400
    status, _ = node.request("/v1/publish", {"topic": "amps/z", "payload": 1, "retain": True})
    assert status == 200


def test_wrong_views_change_nothing_and_are_told(node):
    publish(node, "site/a/amps", '{"v":1,"q":"good"}', "-r")
    until(lambda: node.get("total/amps"), "the total")
    rewrite(node, 'aggregate = "sum"', 'aggregate = "product"')
    rewrite(node, 'delay = "5s"', 'delay = 5')
    refused = tieline("views", "reload", "--http", node.http, check=False)
    assert refused.returncode == 3
    assert "view" in refused.stderr and "product" in refused.stderr and "delay" in refused.stderr, refused.stderr
    publish(node, "site/a/amps", '{"v":7,"q":"good"}', "-r")
    until(lambda: node.get("total/amps")["v"] == 7.0, lambda: node.get("total/amps"))


def test_sighup_reads_views_anew(node):
    publish(node, "site/a/amps", '{"v":1,"q":"good"}', "-r")
    until(lambda: node.get("amps/a"), "the first view")
    rewrite(node, '"amps/{1}"', '"current/{1}"')
    node.process.process.send_signal(signal.SIGHUP)
    until(lambda: node.get("current/a") and not node.get("amps/a"), "the other view")
