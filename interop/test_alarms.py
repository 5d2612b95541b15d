"""Alarms of a node over MQTT: values of clients and devices in, topics and the journal out; they outlive kill -9, and the leader of a core."""

import json

import pytest
from bus import Sub, publish, request
from nats_peer import SERVER as NATS
from node import INPUTS, Device
from processes import Peer
from test_cluster import Member, server  # noqa: F401 (a fixture)
from waiting import until

RULES = """\
topic,kind,limit,hysteresis,on_delay,off_delay,priority,latch,suppress_when,text
plant/+/current,high,400,10,,,high,,,overload
plant/+/current,high_high,500,10,,,critical,,,short circuit
plant/+/breaker,state,false,,,,critical,yes,plant/{1}/maintenance=true,tripped
#,away,,,,,medium,,,no communication
"""
ALARM = '[alarm]\nrules = "alarms.csv"\n'


def with_rules(folder, text=RULES):
    """Writes the file of rules beside the configuration."""
    (folder / "alarms.csv").write_text(text)


def alarm(node, topic, kind):
    """The alarm as its topic shows it; none while it is normal."""
    return node.get(f"$alarms/{topic}/{kind}")


def wait_alarm(node, topic, kind, **wanted):
    def found():
        seen = alarm(node, topic, kind)
        return seen if seen and all(seen[key] == value for key, value in wanted.items()) else None

    return until(found, lambda: f"{topic} {kind} {wanted}: {alarm(node, topic, kind)}\n{node.process.said()}")


def wait_normal(node, topic, kind):
    until(lambda: alarm(node, topic, kind) is None, lambda: f"{alarm(node, topic, kind)}")


def ask(node, verb, *alarms, **body):
    """Makes a request over MQTT; the results."""
    named = [dict(zip(("topic", "kind", "seq"), one)) for one in alarms]
    return request(node, f"$alarm-command/{verb}", json.dumps({"alarms": named, **body}))["results"]


def journal(node):
    """The rows of the journal in the history, as (transition, topic, kind)."""
    rows = [sample.get("value", sample.get("v")) for sample in node.history("$alarms-journal")]
    rows = [json.loads(row) if isinstance(row, str) else row for row in rows]
    return [(row["transition"], row["topic"], row["kind"]) for row in rows]


@pytest.fixture
def node(start_node, tmp_path):
    with_rules(tmp_path)
    return start_node(more=ALARM)


def test_values_of_clients_raise_alarms_that_persons_acknowledge(node):
    topic = "plant/f1/current"
    with Sub(node, "$alarms/#", "$alarms-journal") as seen:
        # A value counts whether it is retained or not.
        publish(node, topic, "412.5")
        raised = seen.wait(f"$alarms/{topic}/high", state="unacknowledged", value=412.5, limit=400.0, priority="high", text="overload")
        publish(node, topic, "600", "-r")
        worse = seen.wait(f"$alarms/{topic}/high_high", state="unacknowledged", count=1)
        assert wait_alarm(node, topic, "high", cause={"topic": topic, "kind": "high_high"})["seq"] == raised["seq"]
        old = ask(node, "ack", (topic, "high_high", worse["seq"] - 1))
        assert old == [{"topic": topic, "kind": "high_high", "status": "refused", "reason": "old_occurrence", "detail": old[0]["detail"]}]
        # The consequence is acknowledged with its cause.
        assert ask(node, "ack", (topic, "high_high", worse["seq"])) == [{"topic": topic, "kind": "high_high", "status": "done"}]
        for kind in ("high_high", "high"):
            wait_alarm(node, topic, kind, state="acknowledged", acked=True)
        publish(node, topic, "100")
        for kind in ("high_high", "high"):
            wait_normal(node, topic, kind)
        seen.wait("$alarms-journal", transition="acknowledged", kind="high_high", seq=worse["seq"], annunciated=False)
    until(lambda: ("returned", topic, "high_high") in journal(node), lambda: journal(node))
    assert ("raised", topic, "high") in journal(node)


def test_requests_that_are_wrong_say_so(node):
    answer = request(node, "$alarm-command/shelve", '{"alarms":[{"topic":"a","kind":"high"}]}')
    assert (answer["status"], answer["reason"]) == ("refused", "malformed") and "for is missing" in answer["detail"], answer
    assert ask(node, "note", ("plant/f1/current", "high"), why="x")[0]["reason"] == "unknown_alarm"
    publish(node, "plant/f1/current", "1")
    assert ask(node, "ack", ("plant/f1/current", "high", 1))[0]["reason"] == "nothing_to_acknowledge"
    assert ask(node, "shelve", ("plant/f1/current", "high"), **{"for": "9h", "why": "x"})[0]["reason"] == "time"
    assert ask(node, "shelve", ("plant/f1/current", "high"), **{"for": "1h"})[0]["reason"] == "why_missing"
    # Nobody but the node publishes what alarms are.
    publish(node, "$alarms/plant/f1/current/high", "{}")
    assert alarm(node, "plant/f1/current", "high") is None


def test_alarms_are_what_they_were_after_a_kill(node):
    publish(node, "plant/f1/current", "450", "-r")
    publish(node, "plant/f1/breaker", "false", "-r")
    publish(node, "plant/f2/current", "450", "-r")
    tripped = wait_alarm(node, "plant/f1/breaker", "state", state="unacknowledged")
    assert ask(node, "ack", ("plant/f1/breaker", "state", tripped["seq"]))[0]["status"] == "done"
    assert ask(node, "shelve", ("plant/f2/current", "high"), **{"for": "1h", "why": "meter is wrong"})[0]["status"] == "done"
    publish(node, "plant/f1/breaker", "true", "-r")
    wait_alarm(node, "plant/f1/breaker", "state", state="latched")
    names = [("plant/f1/current", "high"), ("plant/f1/breaker", "state"), ("plant/f2/current", "high")]
    before = [alarm(node, *name) for name in names]
    node.process.kill()
    node.start(node.http, node.mqtt)
    assert [wait_alarm(node, *name) for name in names] == before
    assert before[2]["state"] == "shelved" and before[2]["shelved"]["why"] == "meter is wrong", before[2]
    # A later occurrence has a greater number than all of before.
    publish(node, "plant/f3/current", "450")
    assert wait_alarm(node, "plant/f3/current", "high")["seq"] > max(seen["seq"] for seen in before)
    assert ask(node, "reset", ("plant/f1/breaker", "state"))[0]["status"] == "done"
    wait_normal(node, "plant/f1/breaker", "state")


def test_rules_are_read_again(node, tmp_path):
    publish(node, "plant/f1/current", "450", "-r")
    publish(node, "plant/f1/voltage", "80", "-r")
    seq = wait_alarm(node, "plant/f1/current", "high")["seq"]
    with_rules(tmp_path, RULES + "plant/+/voltage,low,90,,,,low,,,undervoltage\n")
    node.reload(more=ALARM)
    # The value is there already.
    wait_alarm(node, "plant/f1/voltage", "low", value=80, text="undervoltage")
    assert alarm(node, "plant/f1/current", "high")["seq"] == seq
    with_rules(tmp_path, "topic,kind,limit,priority\nplant/+/voltage,low,9O,low\n")
    status, answer = node.request("/v1/reload", "POST")
    assert status == 422 and "alarms.csv:2" in json.dumps(answer), answer
    assert alarm(node, "plant/f1/current", "high")["seq"] == seq
    node.reload()
    wait_normal(node, "plant/f1/current", "high")


def test_a_topic_that_is_cleared_has_no_alarm(node):
    publish(node, "plant/f1/current", "450", "-r")
    wait_alarm(node, "plant/f1/current", "high")
    publish(node, "plant/f1/current", "", "-r")
    wait_normal(node, "plant/f1/current", "high")


def test_a_value_suppresses_an_alarm(node):
    publish(node, "plant/f1/maintenance", "true", "-r")
    publish(node, "plant/f1/breaker", "false")
    wait_alarm(node, "plant/f1/breaker", "state", state="suppressed")
    publish(node, "plant/f1/maintenance", "false", "-r")
    wait_alarm(node, "plant/f1/breaker", "state", state="unacknowledged")


def test_a_device_that_is_away_is_the_cause(start_node, tmp_path):
    with_rules(tmp_path, RULES + "site/relay1/analog/+,bad,,,,,low,,,bad value\n")
    with Peer("opendnp3_outstation") as outstation:
        device = Device("relay1", outstation.address, types=INPUTS)
        node = start_node(device, more=ALARM)
        node.wait_state(device, "online")
        node.wait_value(device.point("analog", 3), q="good")
    node.wait_state(device, "away")
    away = wait_alarm(node, device.topic, "away", state="unacknowledged", priority="medium")
    assert away["text"] == "no communication"


@pytest.mark.skipif(not NATS, reason="no nats-server: .ci/nats builds it")
def test_the_next_leader_has_the_alarms(tmp_path, server):  # noqa: F811 (a fixture)
    class Alarmed(Member):
        def configure(self, *devices, more=""):
            super().configure()
            with_rules(self.folder)

    with Alarmed(tmp_path, "a", server, ALARM) as first:
        first.wait_role("leader")
        with Alarmed(tmp_path, "b", server, ALARM) as second:
            second.wait_role("standby", lag=0, leader="a")
            publish(first, "plant/f1/current", "450")
            publish(first, "plant/f2/current", "450")
            seq = wait_alarm(first, "plant/f1/current", "high")["seq"]
            assert ask(first, "ack", ("plant/f1/current", "high", seq))[0]["status"] == "done"
            names = [("plant/f1/current", "high"), ("plant/f2/current", "high")]
            before = [wait_alarm(first, *name) for name in names]
            first.process.kill()
            second.wait_role("leader")
            assert [wait_alarm(second, *name) for name in names] == before
            until(lambda: ("acknowledged", "plant/f1/current", "high") in journal(second), lambda: journal(second))
