"""Edits and annotations of history: every way of reading shows them, what was recorded stays, and the trail says who, when and why."""

import csv
import datetime
import io
import json
import os
import pwd
import subprocess

import pyarrow.parquet
import pytest
from node import BINARY, Node, tieline
from test_access import ACCESS, Guarded
from test_history_tools import KEEPS, run, write
from tieline.history import History, HistoryError

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
TOPIC = "site/unit1/level"
COUNT = 600


def at(second):
    return (START + datetime.timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")


def rows(node, *words, source="--http"):
    place = node.http if source == "--http" else node.data
    text = tieline("history", "query", TOPIC, "--from", at(0), "--to", at(COUNT), "--json", *words, source, place).stdout
    return json.loads(text)


def values(found):
    """Values by their second."""
    second = lambda row: round((datetime.datetime.fromisoformat(row["t"].replace("Z", "+00:00")) - START).total_seconds())
    return {second(row): row["v"] for row in found}


def fill(node, folder):
    """A value each second, which is the second; the first half is in a closed day's file."""
    taken = [{"topic": TOPIC, "t": at(n), "v": n, "q": "good", "kind": "integer"} for n in range(COUNT)]
    assert run("history", "import", write(folder / "source.json", taken), "--http", node.http)["samples"] == COUNT


def edit(node, *words, why="the sensor was wrong"):
    return run("history", "edit", TOPIC, *words, "--why", why, "--http", node.http)


@pytest.fixture
def edited(start_node, tmp_path):
    """A node with an edit of each kind, and what it is to answer."""
    node = start_node(more=KEEPS)
    fill(node, tmp_path)
    run("history", "compact", "--http", node.http)
    made = [
        edit(node, "--from", at(100), "--to", at(110), "--value", "7.5", "--quality", "uncertain"),
        edit(node, "--from", at(200), "--to", at(210), "--exclude"),
        edit(node, "--at", at(205), "--insert", "-3"),
        edit(node, "--from", at(300), "--to", at(310), "--quality", "bad"),
        run("history", "annotate", TOPIC, "lightning", "--at", at(400), "--why", "log book", "--http", node.http),
    ]
    assert [one["id"] for one in made] == [1, 2, 3, 4, 5]
    expect = {n: n for n in range(COUNT)} | {n: 7.5 for n in range(100, 110)}
    for n in range(200, 210):
        del expect[n]
    expect[205] = -3
    return node, expect


def check(node, expect, source="--http"):
    found = rows(node, source=source)
    assert values(found) == expect
    marks = {row["v"]: row["edited"] for row in found if "edited" in row}
    assert marks == {7.5: 1, -3: 3} | {n: 4 for n in range(300, 310)}
    assert {row["q"] for row in found if row["v"] == 7.5} == {"uncertain"}
    raw = rows(node, "--raw", source=source)
    assert values(raw) == {n: n for n in range(COUNT)} and not any("edited" in row for row in raw)


def test_every_way_of_reading_shows_edits_and_raw_what_was_recorded(edited, tmp_path):
    node, expect = edited
    check(node, expect)
    # Buckets: from sums of chunks where no edit meets them, decoded where one does.
    every = ["--every", "100s", "--agg"]
    sums = {row["t"]: (row["v"], row.get("edited")) for row in rows(node, *every, "sum")}
    good = lambda begin: sum(v for n, v in expect.items() if begin <= n < begin + 100 and not 300 <= n < 310)
    marks = {0: None, 100: 1, 200: 3, 300: 4, 400: None, 500: None}
    assert sums == {at(n)[:-1] + ".000Z": (good(n), mark) for n, mark in marks.items()}
    raw = [row["v"] for row in rows(node, *every, "sum", "--raw")]
    assert raw == [sum(range(n, n + 100)) for n in range(0, COUNT, 100)]
    median = [row["v"] for row in rows(node, *every, "median")]
    assert median[2] == sorted(v for n, v in expect.items() if 200 <= n < 300)[45]
    # The time of an excluded sample belongs to the one before.
    weighted = [row["v"] for row in rows(node, *every, "time_weighted")]
    assert weighted[2] == pytest.approx((199 * 5 + -3 * 5 + sum(range(210, 300))) / 100)
    # At an instant.
    shown = lambda second, more="": node.request(f"/v1/topics?filter={TOPIC}&at={at(second)}{more}")[1]["topics"][0]
    assert (shown(203)["value"]["v"], shown(203).get("edited")) == (199, None)
    assert (shown(207)["value"]["v"], shown(207)["edited"]) == (-3, 3)
    assert shown(207, "&raw=true")["value"]["v"] == 207
    status, problem = node.request("/v1/topics?raw=true")
    assert (status, problem["detail"]) == (400, "raw needs at, a time of the history")
    # States, and what a reader that follows is given first.
    words = ["history", "states", TOPIC, "--from", at(195), "--to", at(215), "--json", "--http", node.http]
    states = {row["v"]: (row["seconds"], row["edited"]) for row in json.loads(tieline(*words).stdout)}
    assert (states[199], states[-3], states[210]) == ((6.0, 3), (5.0, 3), (1.0, 3))
    assert len(json.loads(tieline(*words, "--raw").stdout)) == 20
    tail = ["history", "tail", TOPIC, "--from", at(0), "--count", "0", "--json", "--http", node.http]
    tailed = lambda *more: values(json.loads(line) for line in tieline(*tail, *more).stdout.splitlines())
    assert tailed() == expect and tailed("--raw") == {n: n for n in range(COUNT)}
    # Formats: a column where it is asked for.
    table = list(csv.DictReader(io.StringIO(tieline(*query_of(node), "--format", "csv", "--edited").stdout)))
    assert [row["edited"] for row in table if row["value"] in ("7.5", "-3", "0")] == [""] + ["1"] * 10 + ["3"]
    assert "edited" not in tieline(*query_of(node), "--format", "csv").stdout.splitlines()[0]
    tieline(*query_of(node), "--format", "parquet", "--edited", "-o", tmp_path / "level.parquet")
    read = pyarrow.parquet.read_table(tmp_path / "level.parquet")
    assert [id for id in read["edited"].to_pylist() if id] == [1] * 10 + [3] + [4] * 10
    # Exports, edited and raw.
    for more, count in ((), len(expect)), (("--raw",), COUNT):
        folder = tmp_path / f"out{len(more)}"
        tieline("history", "export", "#", "--from", at(0), "-o", folder, *more, "--http", node.http)
        assert sum(pyarrow.parquet.read_table(path).num_rows for path in folder.rglob("*.parquet")) == count
    refused = tieline("history", "export", "#", "--from", at(0), "-o", tmp_path / "out0", "--raw", "--http", node.http, check=False)
    assert refused.returncode == 1 and "expected another folder, or the same command" in refused.stderr


def query_of(node):
    return ["history", "query", TOPIC, "--from", at(0), "--to", at(COUNT), "--http", node.http]


def test_edits_outlive_a_kill_and_a_backup_and_a_lost_index(edited, start_node, tmp_path):
    node, expect = edited
    node.process.process.kill()
    node.process.process.wait()
    check(node, expect, source="--data")
    node.start()
    check(node, expect)
    run("backup", "-o", tmp_path / "plant.tar", "--http", node.http)
    run("restore", tmp_path / "plant.tar", "--data", tmp_path / "restored")
    other = start_node(more=KEEPS, data=tmp_path / "restored")
    check(other, expect)
    assert len(run("history", "edits", "--http", other.http)["edits"]) == 5
    # The index is lost; the edits are not in it.
    other.process.stop()
    for part in "", "-wal", "-shm":
        (other.data / "history" / f"index.db{part}").unlink(missing_ok=True)
    done = run("history", "repair", "--yes", "--data", other.data)
    assert done["rebuilt"] and done["edits"] == 5
    assert run("history", "verify", "--data", other.data)["ok"]
    check(other, expect, source="--data")
    # By a person of the machine, while the node is stopped.
    undone = run("history", "undo", "2", "--why", "they were right", "--data", other.data)
    name = f"local {pwd.getpwuid(os.getuid()).pw_name}"
    assert (undone["undone"]["who"], undone["undone"]["why"]) == (name, "they were right")
    other.start()
    assert values(rows(other))[203] == 203
    # Damage of the edits is said, and costs what cannot be read.
    other.process.stop()
    file = other.data / "history" / "edits.db"
    file.write_bytes(file.read_bytes()[:4096] + b"\xa5" * (len(file.read_bytes()) - 4096))
    assert tieline("history", "verify", "--data", other.data, check=False).returncode == 3
    refused = tieline("history", "query", TOPIC, "--from", at(0), "--data", other.data, check=False)
    assert refused.returncode == 1 and "damaged" in refused.stderr
    assert values(rows(other, "--raw", source="--data")) == {n: n for n in range(COUNT)}
    run("history", "repair", "--yes", "--data", other.data)
    assert run("history", "verify", "--data", other.data)["ok"]
    assert (other.data / "history" / "edits.db.damaged").exists()


def test_the_trail_has_who_when_and_why_and_loses_nothing(edited):
    node, _ = edited
    listed = lambda *words: [one["id"] for one in run("history", "edits", *words, "--http", node.http)["edits"]]
    assert listed() == [5, 4, 3, 2, 1]
    assert listed("--kind", "annotation") == [5] and listed("other/#") == []
    assert listed("--from", at(205), "--to", at(305)) == [4, 3, 2]
    page = run("history", "edits", "--limit", "2", "--http", node.http)
    assert page["next"] == 4 and listed("--before", "4") == [3, 2, 1]
    history = History(node.http)
    assert history.undo(1, why="it was right")["undone"]["why"] == "it was right"
    assert values(rows(node))[105] == 105
    status, problem = node.request("/v1/history/edits/1/undo", {"why": "again"})
    assert status == 409 and problem["detail"].startswith("edit 1 was undone by ")
    assert node.request("/v1/history/edits/99/undo", {"why": "none"}) [0] == 404
    assert listed() == [5, 4, 3, 2, 1] and listed("--active") == [5, 4, 3, 2]
    entry = node.request("/v1/audit?limit=6")[1]["entries"]
    assert [one["phase"] for one in entry] == ["history_undo"] + ["history_edit"] * 5
    assert entry[1]["topic"] == TOPIC and "log book" in json.dumps(entry[1])
    # What is wrong says what was expected.
    for body, words in (
        ({"kind": "value", "from": at(0), "v": 1}, "the body: why: found nothing, expected a value"),
        ({"kind": "value", "from": at(0), "v": 1, "why": " "}, "why is missing, expected the reason"),
        ({"kind": "value", "from": at(0), "why": "x"}, "v is missing, expected the value of the value"),
        ({"kind": "exclude", "from": at(0), "to": "2100-01-01T00:00:00Z", "why": "x"}, "expected the present at the latest"),
        ({"kind": "quality", "from": at(0), "why": "x"}, "q is missing, expected good, uncertain or bad"),
        ({"kind": "exclude", "at": at(0), "why": "x" * 1025}, "why has 1025 bytes, expected at most 1024"),
        ({"kind": "insert", "from": at(0), "v": 1, "why": "x"}, "expected at"),
    ):
        status, problem = node.request("/v1/history/edits", {"topic": TOPIC} | body)
        assert status in (400, 422) and words in problem["detail"], problem
    status, problem = node.request("/v1/history/edits", {"topic": "none", "kind": "exclude", "from": at(0), "why": "x"})
    assert (status, problem["detail"]) == (400, "none has no history, expected a topic that has")
    assert "tieline_history_edits 4\n" in node.metrics() and "tieline_history_edits_refused_total 0\n" in node.metrics()


def test_there_is_a_limit_of_edits(start_node, tmp_path):
    node = start_node(more='[history]\nkeep = "3650d"\nedits_max = 3\nedits_per_topic_max = 2\n')
    history = History(node.http)
    for n in range(2):
        history.annotate("a", "text", at=at(n), why="x")
    with pytest.raises(HistoryError, match="507: a has 2 active edits, expected fewer: history.edits_per_topic_max"):
        history.annotate("a", "text", at=at(2), why="x")
    history.edit("b", "insert", at=at(0), value=5, why="read by hand")
    with pytest.raises(HistoryError, match="507: there are 3 active edits, expected fewer: history.edits_max"):
        history.annotate("c", "text", at=at(2), why="x")
    # A topic that has nothing but a manual reading.
    frame = history.pandas("b", start=at(0), edited=True)
    assert (frame["value"].tolist(), frame["edited"].tolist()) == ([5.0], [3])
    assert history.pandas("b", start=at(0), raw=True).empty
    assert [one["id"] for one in history.edits(kind="annotation", active=True)] == [2, 1]
    assert "tieline_history_edits_refused_total 2\n" in node.metrics()
    stats = run("history", "stats", "--http", node.http)
    assert (stats["edits"], stats["edits_ever"]) == (3, 3)


def test_a_deletion_ends_the_edits_of_what_it_deletes(edited):
    node, _ = edited
    assert run("history", "delete", TOPIC, "--from", at(200), "--to", at(450), "--yes", "--http", node.http)["edits"] == 4
    trail = run("history", "edits", "--http", node.http)["edits"]
    assert [(one["id"], "undone" in one, one.get("erased", False)) for one in trail] == [
        (5, True, True), (4, True, True), (3, True, True), (2, True, True), (1, False, False)]
    assert trail[0]["why"] == "log book" and "text" not in trail[0] and "v" not in trail[2]
    for path in (node.data / "history").glob("edits.db*"):
        assert b"lightning" not in path.read_bytes(), path
    assert set(values(rows(node))) == set(range(200)) | set(range(450, COUNT))


def test_a_replay_has_edits_or_what_was_recorded(edited):
    node, expect = edited
    for more, count in ((), len([n for n in expect if 195 <= n < 215])), (("--raw",), 20):
        words = ["replay", TOPIC, "--from", at(195), "--to", at(215), "--speed", "max", "--json", *more]
        done = subprocess.run([str(BINARY), *words, "--http", node.http, "--mqtt", node.mqtt], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        # The state at the beginning is one more.
        assert json.loads(done.stdout.splitlines()[-1])["published"] == count + 1


class Editors(Guarded):
    """A node on which one user may edit, of what he may read."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "roles.toml").write_text('[role.editor]\nrules = ["allow read site/#", "allow admin $history/edits"]\n')
        (folder / "hs.key").write_text("0123456789abcdef0123456789abcdef")
        self.add("eda", "editor")
        self.add("boss", "ENGINEER", "VIEWER")
        self.add("sec", "SECAUD")
        Node.__init__(self, folder, more=ACCESS + KEEPS)


def test_a_right_of_its_own_lets_edit(tmp_path):
    with Editors(tmp_path) as node:
        body = {"topic": "site/a", "kind": "insert", "at": at(0), "v": 5, "why": "read by hand"}
        status, text = node.ask("/v1/history/edits", user="eda", body=body)
        assert status == 200 and json.loads(text)["who"] == "eda", text
        assert node.ask("/v1/history/edits", user="boss", body=body)[0] == 403
        assert node.ask("/v1/history/edits", user="eda", body=body | {"topic": "other"})[0] == 403
        assert node.ask("/v1/history/edits/1/undo", user="boss", body={"why": "x"})[0] == 403
        assert node.ask("/v1/history/edits")[0] == 401
        listed = lambda user: [one["topic"] for one in json.loads(node.ask("/v1/history/edits", user=user)[1])["edits"]]
        assert listed("eda") == ["site/a"] and listed("boss") == ["site/a"]
        assert [entry["phase"] for entry in node.audit()].count("history_edit") == 1
