"""Closed days of history: Parquet files that DuckDB reads while the node runs."""

import datetime
import json

import duckdb
from bus import Paho
from waiting import until

DAY = datetime.datetime.now(datetime.timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
DAY -= datetime.timedelta(days=3)
VALUES = [1.5, -2, 9007199254740993, True, "open", None, 1e-9]
BAD = ["comm_lost"]


def at(seconds):
    return DAY + datetime.timedelta(seconds=seconds)


def point(number):
    moment = at(600 * number).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    value = {"v": VALUES[number % len(VALUES)], "t": moment}
    return {**value, "q": "bad", "why": BAD} if number % 10 == 9 else value


def expected(topic, number):
    value = VALUES[number % len(VALUES)]
    number_as = float(value) if isinstance(value, (int, float)) else None
    exact = value if isinstance(value, int) and not isinstance(value, bool) else None
    text = value if isinstance(value, str) else None
    quality = "bad" if number % 10 == 9 else "good"
    return topic, at(600 * number), number_as, exact, text, quality


def days(node):
    return sorted((node.data / "history").glob("*.parquet"))


def test_a_closed_day_is_read_by_duckdb(start_node):
    node = start_node()
    topics = ["plant/a", "plant/b"]
    with Paho(node) as client:
        for topic in topics:
            for number in range(100):
                client.publish(topic, json.dumps(point(number)), qos=1)
        client.publish("plant/today", "7", qos=1)
    shown = {topic: node.history(topic) for topic in topics}
    node.process.stop()
    node.start()  # days are closed soon after a start
    until(lambda: len(days(node)) == 1, lambda: f"{days(node)}", 40)
    assert days(node)[0].name.startswith(DAY.strftime("%Y-%m-%d-"))
    folder = node.data / "history"
    query = f"select topic, time, value, integer, text, quality from '{folder}/*.parquet' order by topic, time"
    connection = duckdb.connect()
    connection.execute("set TimeZone = 'UTC'")
    rows = connection.execute(query).fetchall()
    found = [(topic, time.astimezone(datetime.timezone.utc), *rest) for topic, time, *rest in rows]
    assert found == [expected(topic, number) for topic in topics for number in range(100)]
    # The node says the same as before, from the file.
    for topic in topics:
        assert node.history(topic) == shown[topic]
    until(lambda: "tieline_history_day_files_total 1" in node.metrics(), "the day is counted")


RULES = """
[[history.retention]]
topics = "plant/fast/#"
keep = "3650d"
downsample = [{ after = "1h", every = "10m", aggregate = "mean" }]
"""


def second(number):
    """A value each 10 s, those of one minute bad."""
    moment = at(10 * number).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    value = {"v": number * number % 997, "t": moment}
    return {**value, "q": "bad", "why": BAD} if 90 <= number < 96 else value


def means(numbers):
    """What stands for the samples of 10 minutes: one mean, and behind a bad run another."""
    rows, before = [], None
    for number in numbers:
        key = "bad" if 90 <= number < 96 else (number // 60, number >= 96)
        if key == "bad":
            if before != "bad":
                rows.append([number * 10, [number * number % 997], "bad"])
        elif key == before:
            rows[-1][1].append(number * number % 997)
        else:
            rows.append([number * 10 if before == "bad" else number // 60 * 600, [number * number % 997], "good"])
        before = key
    return [(at(seconds), sum(values) / len(values), quality) for seconds, values, quality in rows]


def test_a_day_is_down_sampled_and_read_by_duckdb(start_node):
    node = start_node()
    with Paho(node) as client:
        for topic in ["plant/fast/a", "plant/slow"]:
            for number in range(360):
                client.publish(topic, json.dumps(second(number)), qos=1)
    whole = node.history("plant/slow")
    node.process.stop()
    node.start()
    until(lambda: len(days(node)) == 1, lambda: f"{days(node)}", 40)
    closed = days(node)
    # A rule takes effect by a reload, for days that are closed already.
    node.reload(more=RULES)
    until(lambda: days(node) and days(node) != closed, lambda: f"{days(node)}", 40)
    connection = duckdb.connect()
    connection.execute("set TimeZone = 'UTC'")

    def rows(topic):
        query = f"select time, value, quality from '{node.data}/history/*.parquet' where topic = ? order by time"
        found = connection.execute(query, [topic]).fetchall()
        return [(time.astimezone(datetime.timezone.utc), value, quality) for time, value, quality in found]

    until(lambda: len(days(node)) == 1, lambda: f"{days(node)}", 40)
    assert rows("plant/fast/a") == means(range(360))
    assert len(rows("plant/slow")) == 360
    assert node.history("plant/slow") == whole
    assert len(node.history("plant/fast/a")) == len(means(range(360)))
    assert "tieline_history_day_files_rewritten_total 1" in node.metrics()
    # What rules hold and did; also from the folder.
    stats = node.request("/v1/history/stats")[1]
    assert [(rule["topics"], rule["samples"], rule["due_samples"]) for rule in stats["rules"]] == [
        (["plant/fast/#"], 0, 0),
        ([], 360, 0),
    ]
    assert stats["rules"][0]["downsample"][0]["samples"] == len(means(range(360)))
    assert stats["rules"][0]["downsampled"] == 360 - len(means(range(360)))
    # Without the rule, nothing comes back.
    node.reload()
    until(lambda: node.request("/v1/history/stats")[1]["rules"] == [], "no rules", 40)
    assert len(node.history("plant/fast/a")) == len(means(range(360)))
