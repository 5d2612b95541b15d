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
    until(lambda: "tieline_history_closed_days_total 1" in node.metrics(), "the day is counted")
