"""Derived series with clients that are not ours: live from messages with times, of the past from an import, over restarts."""

import json
import signal
from datetime import datetime, timedelta, timezone

from bus import Sub, publish
from node import Node, tieline
from waiting import until

TOTAL = """
[[derived]]
topic = "site/total"
value = "'site/m/1' + 'site/m/2'"
"""
QUARTER = """
[[derived]]
topic = "site/energy"
every = "15m"
value = "integral('site/past') / 3600"
"""
CHANGED = TOTAL.replace("+ 'site/m/2'", "- 'site/m/2'")


def shown(node, topic):
    return next(series for series in node.request("/v1/derived")[1]["series"] if series["topic"] == topic)


def wait_live(node, topic):
    until(lambda: shown(node, topic)["state"] == "live", lambda: shown(node, topic))


def iso(when):
    return when.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def rows(node, topic):
    return [(row["t"], row["v"]) for row in node.history(topic)]


def point(value, when):
    return json.dumps({"v": value, "q": "good", "t": iso(when)})


def test_results_are_published_recorded_and_nobody_elses(tmp_path):
    with Node(tmp_path, more=TOTAL) as node:
        wait_live(node, "site/total")
        # Results of the time since then are made live.
        begin = datetime.now(timezone.utc)
        second = begin + timedelta(milliseconds=100)
        with Sub(node, "site/total", qos=1) as sub:
            publish(node, "site/m/1", point(10, begin))
            publish(node, "site/m/2", point(5, begin))
            sub.wait("site/total", v=15.0, q="good", t=iso(begin))
            publish(node, "site/m/2", point(7, second))
            sub.wait("site/total", v=17.0, t=iso(second))
        expect = [(iso(begin), 15.0), (iso(second), 17.0)]
        until(lambda: rows(node, "site/total") == expect, lambda: rows(node, "site/total"))
        refused = tieline("put", "site/total", "5", "--http", node.http, check=False)
        assert refused.returncode != 0 and "derived from others" in refused.stderr
        table = tieline("derived", "--http", node.http).stdout
        assert "site/total" in table and "live" in table and "17" in table
        assert 'tieline_derived_series{state="live"} 1' in node.metrics()
        until(lambda: datetime.now(timezone.utc) > begin + timedelta(seconds=2), "the time")
        # Another expression: what was calculated is calculated again, and subscribers see the new one.
        node.reload(more=CHANGED)
        expect = [(iso(begin), 5.0), (iso(second), 3.0)]
        until(lambda: rows(node, "site/total") == expect, lambda: (rows(node, "site/total"), shown(node, "site/total")))
        node.reload(more="")
        until(lambda: node.get("site/total") is None, "the value of a series that is gone")
        node.alive()


def test_the_past_is_calculated_of_an_import_and_over_a_kill(tmp_path):
    start = (datetime.now(timezone.utc) - timedelta(days=2)).replace(hour=0, minute=0, second=0, microsecond=0)
    lines = ["topic,time,value"]
    lines += [f"site/past,{iso(start + timedelta(minutes=minute))},{minute % 60}.0" for minute in range(1440)]
    (tmp_path / "past.csv").write_text("\n".join(lines) + "\n")
    folder = tmp_path / "node"
    folder.mkdir()
    with Node(folder) as node:
        tieline("history", "import", str(tmp_path / "past.csv"), "--http", node.http)
        node.reload(more=QUARTER)
        # Killed somewhere on its way.
        until(lambda: shown(node, "site/energy")["results"] > 0, lambda: shown(node, "site/energy"))
        node.process.process.send_signal(signal.SIGKILL)
        node.process.process.wait()
        node.start()
        wait_live(node, "site/energy")
        found = rows(node, "site/energy")
        assert found[0] == (iso(start), sum(range(15)) * 60 / 3600)
        for quarter in range(96):
            minutes = range(quarter * 15, quarter * 15 + 15)
            expect = (iso(start + timedelta(minutes=15 * quarter)), sum(minute % 60 for minute in minutes) * 60 / 3600)
            assert found[quarter][0] == expect[0] and abs(found[quarter][1] - expect[1]) < 1e-9, quarter
        # The last value stands: each time has one result, up to the last quarter that is over.
        times = [row[0] for row in found]
        assert times == sorted(set(times)) and len(times) > 96
        assert node.get("site/energy")["t"] == times[-1]
        node.alive()


def test_wrong_expressions_are_told_with_their_place(tmp_path):
    file = tmp_path / "wrong.toml"
    file.write_text(TOTAL.replace("+", "+ +") + QUARTER.replace("integral(", "integrl("))
    told = tieline("config", "check", str(file), check=False)
    words = told.stdout + told.stderr
    assert told.returncode != 0
    assert 'derived[0].value: found "+" at character 14, expected a number' in words
    assert 'derived[1].value: found "integrl" at character 1, expected a function: abs, avg' in words
