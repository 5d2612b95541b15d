"""History as an Arrow stream, in pyarrow, pandas, polars and DuckDB, through the Python client and the command line."""

import datetime
import json
import socket
import subprocess
import threading
import urllib.request

import duckdb
import polars
import pyarrow
import pytest
from bus import Paho
from node import BINARY, Node, tieline
from tieline.history import History, HistoryError

START = datetime.datetime.now(datetime.timezone.utc).replace(minute=0, second=0, microsecond=0) - datetime.timedelta(days=2)
VALUES = [1.5, -2, 9007199254740993, True, "open", None, 1e-9, {"opaque": 1}]
COUNT = 100


def at(number):
    return START + datetime.timedelta(seconds=number)


def payload(number):
    value = VALUES[number % len(VALUES)]
    if isinstance(value, dict):
        return json.dumps(value)
    bad = {"q": "bad", "why": ["comm_lost"]} if number % 10 == 9 else {}
    return json.dumps({"v": value, **bad, "t": at(number).isoformat()})


def expected(number):
    value = VALUES[number % len(VALUES)]
    double = float(value) if isinstance(value, (int, float)) else None
    text = value if isinstance(value, str) else None
    if value == 9007199254740993:
        text = str(value)
    return at(number), double, text, "bad" if number % 10 == 9 else "good", 1


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Node(tmp_path_factory.mktemp("arrow")) as node:
        with Paho(node) as client:
            for number in range(COUNT):
                client.publish("plant/mixed", payload(number), qos=1)
                client.publish("plant/power", json.dumps({"v": number / 10, "t": at(number).isoformat()}), qos=1)
        node.wait_history("plant/power", v=(COUNT - 1) / 10)
        yield node


@pytest.fixture(scope="module")
def history(node):
    return History(node.http)


def points():
    return [number for number in range(COUNT) if not isinstance(VALUES[number % len(VALUES)], dict)]


def test_every_value_is_in_the_table(history):
    table = history.arrow("plant/mixed", start=START)
    table.validate(full=True)
    assert [(field.name, str(field.type)) for field in table.schema][1:3] == [("time", "timestamp[us, tz=UTC]"), ("value", "double")]
    rows = [row for row in table.to_pylist() if row["time"] < at(COUNT)]
    found = [(row["time"], row["value"], row["text"], row["quality"], row["count"]) for row in rows]
    assert found == [expected(number) for number in points()]
    assert {row["why"] for row in rows if row["quality"] == "bad"} == {4}, "comm_lost"
    payloads = [row["text"] for row in table.to_pylist() if row["time"] >= at(COUNT)]
    assert set(payloads) == {'{"opaque": 1}'}


def test_pandas_polars_and_duckdb_compute_with_it(node, history):
    mean = sum(number / 10 for number in range(COUNT)) / COUNT
    frame = history.pandas("plant/power", start=START, end=at(COUNT))
    assert frame.groupby("topic", observed=True)["value"].mean().to_dict() == {"plant/power": pytest.approx(mean)}
    assert str(frame["time"].dt.tz) == "UTC" and (frame["quality"] == "good").all()
    frame = history.polars(["plant/power", "plant/mixed"], start=START, end=at(COUNT))
    means = frame.group_by(polars.col("topic").cast(polars.String)).agg(polars.col("value").mean()).rows()
    assert dict(means)["plant/power"] == pytest.approx(mean) and len(frame) == COUNT + len(points())
    power = history.arrow("plant/power", start=START)
    assert power.num_rows == COUNT
    assert duckdb.sql("select topic, avg(value), count(*) from power group by topic").fetchall() == [("plant/power", pytest.approx(mean), COUNT)]


def test_buckets_and_empty_answers_have_the_same_columns(history):
    means = history.arrow("plant/power", start=START, end=at(COUNT), every="10s", agg="mean")
    assert means["value"].to_pylist() == pytest.approx([number + 0.45 for number in range(10)])
    assert means["count"].to_pylist() == [10] * 10
    none = history.arrow("plant/none", start=START)
    assert none.num_rows == 0 and none.schema.equals(means.schema)
    assert list(history.pandas("plant/none").columns) == means.column_names
    ordered = history.arrow("plant/#", start=START, order="time", limit=50)
    assert ordered["time"].to_pylist() == sorted(ordered["time"].to_pylist()) and ordered.num_rows == 50


@pytest.mark.parametrize("source", ["node", "folder"])
def test_the_command_line_writes_the_same(node, history, tmp_path, source):
    file = tmp_path / "power.arrows"
    where = ["--http", node.http] if source == "node" else ["--data", node.data]
    tieline("history", "query", "plant/power", "--from", START.isoformat(), "--format", "arrow", "--output", file, *where)
    assert pyarrow.ipc.open_stream(file.read_bytes()).read_all().equals(history.arrow("plant/power", start=START))


def test_errors_are_said(node, history):
    with pytest.raises(HistoryError, match="topic is missing") as raised:
        history.arrow([])
    assert raised.value.status == 400
    with pytest.raises(ValueError, match="no time zone"):
        history.arrow("plant/power", start=datetime.datetime(2026, 1, 1))
    with pytest.raises(HistoryError, match="cannot be reached"):
        History("http://127.0.0.1:1").arrow("plant/power")


def test_an_answer_that_breaks_off_is_an_error(history, node):
    whole = whole_answer(node)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer_half, args=(listener, whole), daemon=True).start()
        with pytest.raises(HistoryError, match="broke off"):
            History(f"http://127.0.0.1:{listener.getsockname()[1]}").arrow("plant/power")


def whole_answer(node):
    question = f"http://{node.http}/v1/history?topic=plant/power&from=7d&format=arrow"
    with urllib.request.urlopen(question) as answer:
        return answer.read()


def answer_half(listener, whole):
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        half = whole[: len(whole) - 8]
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"%x\r\n" % len(half) + half + b"\r\n")


def test_states_stand_until_the_next(node):
    with Paho(node) as client:
        for second, state, quality in [(0, "open", "good"), (30, "closed", "good"), (40, "closed", "bad"), (50, "open", "good")]:
            client.publish("plant/breaker", json.dumps({"v": state, "q": quality, "t": at(second).isoformat()}), qos=1)
    node.wait_history("plant/breaker", t=at(50).isoformat().replace("+00:00", ".000Z"))
    words = ["history", "states", "plant/breaker", "--from", at(10).isoformat(), "--to", at(70).isoformat(), "--json"]
    for where in [["--http", node.http], ["--data", node.data]]:
        rows = json.loads(tieline(*words, *where).stdout)
        found = [(row["v"], row["q"], row["seconds"], row["share"], row["count"]) for row in rows]
        share = pytest.approx
        assert found == [("open", "good", 40, share(2 / 3), 1), ("closed", "good", 10, share(1 / 6), 1), (None, "bad", 10, share(1 / 6), 1)]
    status, answer = node.request(f"/v1/history/states?topic=plant/power&from={at(0).strftime('%Y-%m-%dT%H:%M:%SZ')}&every=1m&format=csv")
    assert status == 200 and answer.splitlines()[0] == "topic,time,value,quality,seconds,share,count" and len(answer.splitlines()) > COUNT


def test_a_tail_joins_history_and_what_comes(node):
    words = [BINARY, "history", "tail", "tail/#", "--from", "1h", "--json", "--count", "40", "--http", node.http]
    now = datetime.datetime.now(datetime.timezone.utc)
    with Paho(node) as client:

        def publish(numbers):
            for number in numbers:
                late = datetime.timedelta(minutes=number % 3)
                client.publish(f"tail/{number % 2}", json.dumps({"v": number, "t": (now - late).isoformat()}), qos=1)

        publish(range(40))
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as tail:
            first = json.loads(tail.stdout.readline())
            publish(range(40, 100))
            rows = [first, *map(json.loads, tail.stdout)]
    values = [row["v"] for row in rows]
    assert tail.returncode == 0 and len(set(values)) == len(values)
    assert set(range(40)) <= set(values) and len(values) >= 80, values
    assert [row["t"] for row in rows[:40]] == sorted(row["t"] for row in rows[:40])
    status, answer = node.request("/v1/history/tail?topic=a&from=nonsense")
    assert status == 400 and "from" in answer["detail"]
