"""Alarm rules: errors of a file, and a trial on what a node has recorded."""

import json
from datetime import datetime, timedelta, timezone

import pytest
from bus import Paho
from node import Node, tieline

START = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(hours=2)

RULES = """topic,kind,limit,hysteresis,on_delay,priority,text
site/+/amps,high,400,10,2s,high,overload
site/+/amps,high_high,600,,,critical,fuse
site/+/breaker,state,false,,,critical,tripped
site/+/amps,bad,,,,low,
"""


def at(seconds):
    return (START + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


@pytest.fixture
def rules(tmp_path):
    file = tmp_path / "alarms.csv"
    file.write_text(RULES)
    return file


def test_a_file_is_checked(rules):
    assert tieline("rules", "check", rules).stdout == f"{rules}: ok, 4 rules\n"
    assert json.loads(tieline("rules", "check", rules, "--json").stdout) == {"ok": True, "rules": 4}
    strict = tieline("rules", "check", rules, "--strict", check=False)
    expected = "line 2, column cause: found nothing, expected a text: strict rules of priority high need it"
    assert strict.returncode == 1 and strict.stderr.splitlines()[0] == f"{rules}: {expected}"


def test_every_error_has_its_line_and_column(rules):
    rules.write_text("topic,kind,limit,priority\na,high,4oo,high\na,hi,1,high\nb,bad,,low\nb,bad,,low\n")
    done = tieline("rules", "check", rules, check=False)
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and len(lines) == 3
    assert lines[0] == f'{rules}: line 2, column limit: found "4oo", expected a number'
    assert lines[1].startswith(f'{rules}: line 3, column kind: found "hi", expected one of: away, high_high')
    assert lines[2] == f"{rules}: line 5: found bad of b again, expected one row, and line 4 is it"
    done = tieline("rules", "check", rules, "--json", check=False)
    told = json.loads(done.stdout)
    assert done.returncode == 1 and not told["ok"]
    assert told["errors"][0] == {"line": 2, "column": "limit", "found": '"4oo"', "expected": "a number"}
    absent = tieline("rules", "check", rules.with_name("absent.csv"), check=False)
    assert absent.returncode != 0 and "absent.csv cannot be read" in absent.stderr


def record(node):
    """An overload of three seconds, one too short, a short circuit that trips the breaker, and a meter that breaks."""
    amps = [(0, 100), (10, 405), (13, 395), (20, 390), (30, 410), (31, 380), (40, 700), (41, 0)]
    with Paho(node) as client:
        client.publish("site/f1/breaker", json.dumps({"v": True, "q": "good", "t": at(0)}), retain=True)
        for second, value in amps:
            client.publish("site/f1/amps", json.dumps({"v": value, "q": "good", "t": at(second)}), retain=True)
        client.publish("site/f1/breaker", json.dumps({"v": False, "q": "good", "t": at(41)}), retain=True)
        bad = {"v": 0, "q": "bad", "why": ["offline"], "t": at(50)}
        client.publish("site/f1/amps", json.dumps(bad), retain=True)
    node.wait_history("site/f1/amps", q="bad")


def test_rules_run_over_what_was_recorded(tmp_path, rules):
    with Node(tmp_path) as node:
        record(node)
        words = ["rules", "test", rules, "site/#", "--from", at(-5), "--to", at(60), "--http", node.http]
        *lines, last = map(json.loads, tieline(*words, "--json").stdout.splitlines())
        seen = [(line["t"][:19], line["kind"], line["priority"], line["transition"], line["value"]) for line in lines]
        assert seen == [
            (at(12)[:19], "high", "high", "raised", 405),
            (at(40)[:19], "high_high", "critical", "raised", 700),
            (at(41)[:19], "state", "critical", "raised", False),
            (at(50)[:19], "bad", "low", "raised", 0),
        ]
        summary = last["summary"]
        assert (summary["alarms"], summary["raised"], summary["annunciated"]) == (4, 4, 4)
        assert summary["priorities"] == {"critical": 2, "high": 1, "low": 1} and summary["most_10min"] == 4
        # To people the same is told, and with --all what returned as well.
        told = tieline(*words).stdout.splitlines()
        assert len([line for line in told if "  raised  " in line]) == 4
        assert f"4 alarms, {summary['values']} values" in told[4]
        everything = [json.loads(line) for line in tieline(*words, "--all", "--json").stdout.splitlines()[:-1]]
        returned = [(line["t"][:19], line["kind"]) for line in everything if line["transition"] == "returned"]
        assert returned == [(at(20)[:19], "high"), (at(41)[:19], "high_high")]
        # Only what was asked for, and nothing of it is left in the node.
        few = tieline("rules", "test", rules, "site/f2/#", "--from", at(-5), "--http", node.http, "--json").stdout
        assert json.loads(few)["summary"]["raised"] == 0
        assert node.request("/v1/topics?filter=%24alarms/%23")[1]["topics"] == []
        wrong = tieline(*words[:3], "--from", "x", "--http", node.http, check=False)
        assert wrong.returncode != 0 and '--from is "x"' in wrong.stderr
