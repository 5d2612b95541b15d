"""Tools of the history against a node that runs, and killed in the middle: what they have begun is done by the next call."""

import csv
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import tarfile
import time

import duckdb
import pytest
from node import BINARY, tieline
from waiting import until

# The samples of these tests are not removed for their age.
KEEPS = '[history]\nkeep = "3650d"\n'


def samples(topics, count, begin=1_767_225_600, step_us=1_000_000):
    """Samples as an import takes them, some of each kind."""
    kinds = [("integer", lambda n: n), ("double", lambda n: n / 8), ("text", lambda n: f"state {n % 5}"), ("boolean", lambda n: n % 2 == 0)]
    rows = []
    for number, topic in enumerate(topics):
        kind, value = kinds[number % len(kinds)]
        for n in range(count):
            seconds, micros = divmod(n * step_us, 1_000_000)
            at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(begin + seconds)) + f".{micros:06}Z"
            rows.append({"topic": topic, "t": at, "v": value(n), "q": "good", "kind": kind})
    return rows


def write(path, rows):
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    return path


def run(*words, **options):
    return json.loads(tieline(*words, "--json", **options).stdout)


def total(node, topic="#"):
    """How many samples the history has."""
    return len(json.loads(tieline("history", "query", topic, "--from", "2020-01-01", "--to", "2027-01-01", "--format", "json", "--http", node.http).stdout))


def wait_total(node, count, topic="site/#"):
    """Waits until a node that has started has read its journal."""
    until(lambda: total(node, topic) == count, lambda: f"{total(node, topic)} of {count}", 30)


def killed(seconds, *words):
    """Starts a command and kills it after a time; whether it was still running."""
    process = subprocess.Popen([str(word) for word in (BINARY, *words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True
    return False


def kill_again_and_again(*words, first=0.01):
    """Kills a command later and later until it comes to its end."""
    seconds, kills = first, 0
    while killed(seconds, *words):
        seconds, kills = seconds * 1.5, kills + 1
    return kills


TOPICS = [f"site/unit{number}/p.{number}" for number in range(8)]


@pytest.fixture
def filled(start_node, tmp_path):
    """A node with a history of two days and a bit, and the file that it came from."""
    rows = samples(TOPICS, 5000, step_us=36_000_000)
    source = write(tmp_path / "source.json", rows)
    node = start_node(more=KEEPS)
    assert run("history", "import", source, "--http", node.http)["samples"] == len(rows)
    return node, source, rows


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_what_is_exported_is_imported_exactly_and_once(filled, start_node, tmp_path, form):
    node, _, rows = filled
    assert total(node) == len(rows)
    folder = tmp_path / "out"
    kill_again_and_again("history", "export", "site/#", "-o", folder, "--format", form, "--http", node.http, first=0.2)
    files = sorted(path for path in folder.rglob(f"*.{form}"))
    assert len(files) == 3 * len(TOPICS) and not list(folder.rglob("*.part*"))
    assert (folder / "2026-01-02/site/unit3" / f"p%2E3.{form}").exists()
    if form == "csv":
        with files[0].open() as text:
            assert next(csv.reader(text)) == ["topic", "time", "value", "quality", "why", "count", "kind"]
    # Again into the same node: nothing is stored twice.
    assert run("history", "import", folder, "--http", node.http)["samples"] == len(rows)
    assert total(node) == len(rows)
    other = start_node(more=KEEPS, data=tmp_path / "other")
    kill_again_and_again("history", "import", folder, "--http", other.http, first=0.1)
    shown = [tieline("history", "query", "#", "--from", "2020-01-01", "--format", "json", "--http", one.http).stdout for one in (node, other)]
    assert shown[0] == shown[1]
    assert [entry["phase"] for entry in other.request("/v1/audit?limit=1")[1]["entries"]] == ["history_import"]


def test_a_stopped_node_has_the_same_tools(filled, tmp_path):
    node, source, rows = filled
    refused = tieline("history", "import", source, "--data", node.data, check=False)
    assert refused.returncode == 1 and "another node uses it" in refused.stderr
    by_node = run("history", "stats", "--http", node.http)
    assert by_node["total"]["samples"] + by_node["total"]["waiting"] >= len(rows) and by_node["topic_count"] == len(TOPICS)
    node.process.stop()
    # Killed again and again while it is written to; what was there before stays.
    more = write(tmp_path / "more.json", samples(["more"], 4000))
    kill_again_and_again("history", "import", more, "--data", node.data)
    folder = tmp_path / "out"
    kill_again_and_again("history", "export", "#", "-o", folder, "--data", node.data)
    assert run("history", "verify", "--data", node.data)["ok"]
    node.start()
    assert run("history", "import", folder, "--http", node.http)["samples"] == len(rows) + 4000
    assert total(node) == len(rows) + 4000


def test_samples_that_are_too_old_are_counted(start_node, tmp_path):
    node = start_node()
    source = write(tmp_path / "source.json", samples(["old"], 2) + samples(["new"], 1, begin=int(time.time())))
    answer = lambda: run("history", "import", source, "--http", node.http)
    until(lambda: answer() == {"samples": 3, "too_old": 2, "files": 1, "bytes": source.stat().st_size}, answer)
    told = tieline("history", "import", source, "--http", node.http).stdout
    assert told.startswith("3 samples of 1 file, ") and "; 2 of them not shown" in told
    assert (total(node, "old"), total(node, "new")) == (0, 1)


def chunks(node):
    return sorted((node.data / "history").glob("*.chunks"))


def test_damage_is_found_and_repaired(start_node, tmp_path):
    # Of the last hour, whose day is not closed.
    rows = samples(TOPICS, 5000, begin=int(time.time()) - 3000, step_us=500_000)
    node = start_node(more=KEEPS)
    run("history", "import", write(tmp_path / "source.json", rows), "--http", node.http)
    # Everything into chunks.
    run("history", "delete", "none", "--yes", "--http", node.http)
    node.process.stop()
    file = chunks(node)[0]
    whole = file.read_bytes()
    with sqlite3.connect(node.data / "history" / "index.db") as index:
        place = sum(index.execute("select offset, bytes / 2 from chunks").fetchone())
    index.close()
    file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    found = tieline("history", "verify", "--data", node.data, check=False)
    assert found.returncode == 3 and f"{file.name} at " in found.stdout and "site/unit" in found.stdout, found.stdout
    # The index lost besides: a node does not start over an index that is not there.
    for path in (node.data / "history").glob("index.db*"):
        path.unlink()
    node.start()
    until(lambda: "tieline history repair" in json.dumps(node.request("/v1/status")[1]), lambda: node.request("/v1/status"))
    node.process.stop()
    assert [path.name for path in chunks(node)] == [file.name]
    refused = tieline("history", "repair", "--data", node.data, check=False)
    assert refused.returncode == 1 and "expected --yes" in refused.stderr
    kill_again_and_again("history", "repair", "--data", node.data, "--yes")
    done = run("history", "verify", "--data", node.data)
    assert done["ok"] and len(rows) - 5000 <= done["samples"] < len(rows)
    node.start()
    # What the damaged chunk had, the journal has still: it is read again from its first record.
    wait_total(node, len(rows))


def test_what_is_deleted_is_gone(start_node, tmp_path):
    node = start_node(more=KEEPS)
    rows = [{"topic": topic, "t": f"2026-01-01T{n // 60:02}:{n % 60:02}:00Z", "v": f"secret of {topic} {n}", "kind": "text"} for topic in ("a/x", "b") for n in range(600)]
    tieline("history", "import", write(tmp_path / "s.json", rows), "--http", node.http)
    refused = tieline("history", "delete", "a/#", "--http", node.http, check=False)
    assert refused.returncode == 1 and "expected --yes" in refused.stderr and total(node) == 1200
    words = ["history", "delete", "a/#", "--from", "2026-01-01T02:00:00Z", "--to", "2026-01-01T08:00:00Z", "--yes", "--why", "asked for"]
    assert run(*words, "--http", node.http)["samples"] == 360
    assert run(*words, "--http", node.http)["samples"] == 0
    assert total(node, "a/#") == 240 and total(node, "b") == 600

    def traces():
        """Numbers of deleted samples that some file still has."""
        files = [path for folder in ("history", "journal") for path in (node.data / folder).iterdir()]
        held = b"".join(path.read_bytes() for path in files)
        return [n for n in range(200, 400) if f"secret of a/x {n}".encode() in held]

    # The journal lets go of the segment that had them.
    until(lambda: not traces(), traces, 30)
    first = node.audit("a/#")["entries"]
    assert [entry["phase"] for entry in first] == ["history_deleted", "history_delete"] * 2
    assert "asked for" in first[0]["detail"] and "360 samples" in first[2]["detail"]
    assert "tieline_history_deleted_samples_total 360" in node.metrics()
    node.process.stop()
    node.start()
    wait_total(node, 240, "a/#")
    assert tieline("history", "verify", "--data", node.data)


def test_a_node_is_backed_up_while_it_runs(filled, start_node, tmp_path):
    node, source, rows = filled
    node.set("kept", "7")
    archive = tmp_path / "plant.tar"
    made = run("backup", "-o", archive, "--http", node.http)
    assert made["files"] > 3 and not (node.data / "backup.tmp").exists()
    # Any tar reads it, and the sums are right.
    with tarfile.open(archive) as tar:
        listed = json.load(tar.extractfile("backup.json"))["files"]
        assert [file["name"] for file in listed] == tar.getnames()[:-1]
        for file in listed:
            assert hashlib.sha256(tar.extractfile(file["name"]).read()).hexdigest() == file["sha256"]
    assert run("restore", archive, "--check")["files"] == made["files"]
    refused = tieline("restore", archive, "--data", node.data, check=False)
    assert refused.returncode == 1 and "expected an empty folder" in refused.stderr
    kill_again_and_again("restore", archive, "--data", tmp_path / "restored", first=0.002)
    assert run("history", "verify", "--data", tmp_path / "restored")["ok"]
    other = start_node(more=KEEPS, data=tmp_path / "restored")
    wait_total(other, len(rows))
    assert other.get("kept") == 7
    phases = [entry["phase"] for entry in other.request("/v1/audit?limit=3")[1]["entries"]]
    assert "history_import" in phases or "backup" in phases
    # A backup that breaks off has no file.
    assert killed(0.05, "backup", "-o", tmp_path / "half.tar", "--http", node.http) in (True, False)
    damaged = bytearray(archive.read_bytes())
    damaged[len(damaged) // 3] ^= 1
    (tmp_path / "damaged.tar").write_bytes(damaged)
    assert tieline("restore", tmp_path / "damaged.tar", "--data", tmp_path / "none", check=False).returncode == 1
    assert not (tmp_path / "none").exists() and not list(tmp_path.glob(".none*"))


def test_a_node_that_is_killed_during_a_backup_goes_on(filled, tmp_path):
    node, _, rows = filled
    process = subprocess.Popen([str(BINARY), "backup", "-o", str(tmp_path / "x.tar"), "--http", node.http], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.02)
    os.kill(node.process.process.pid, signal.SIGKILL)
    node.process.process.wait()
    if process.wait(60) != 0:
        assert not (tmp_path / "x.tar").exists()
    node.start()
    wait_total(node, len(rows))
    assert run("backup", "-o", tmp_path / "x.tar", "--http", node.http)["files"] > 3


def days(node):
    return sorted((node.data / "history").glob("*.parquet"))


def rows_of(node, where):
    """What DuckDB finds in the day files."""
    query = f"select count(*) from '{node.data / 'history'}/*.parquet' where {where}"
    return duckdb.connect().execute(query).fetchone()[0]


def test_closed_days_are_verified_deleted_from_repaired_and_backed_up(filled, start_node, tmp_path):
    node, _, rows = filled
    assert run("history", "compact", "--http", node.http)["status"] == "ok"
    assert len(days(node)) == 3 and rows_of(node, "true") == len(rows)
    done = run("history", "verify", "--data", node.data)
    assert done["ok"] and done["day_files"] == 3 and done["unchecked_files"] == 0 and done["samples"] == len(rows)
    stats = run("history", "stats", "--http", node.http)
    assert stats["day_files"] == 3 and stats["day_file_bytes"] == sum(path.stat().st_size for path in days(node))
    # A backup has the day files, and none that is being written.
    (node.data / "history" / "2026-01-01-0000009999.part").write_bytes(b"x")
    archive = tmp_path / "plant.tar"
    run("backup", "-o", archive, "--http", node.http)
    with tarfile.open(archive) as tar:
        names = tar.getnames()
    assert {f"history/{path.name}" for path in days(node)} <= set(names) and not any(name.endswith(".part") for name in names)
    run("restore", archive, "--data", tmp_path / "restored")
    assert run("history", "verify", "--data", tmp_path / "restored")["ok"]
    other = start_node(more=KEEPS, data=tmp_path / "restored")
    assert total(other) == len(rows)
    other.process.stop()
    # Two days of one topic, from noon to noon: a file is written again, without them.
    before = {path.name for path in days(node)}
    words = ["history", "delete", TOPICS[1], "--from", "2026-01-01T12:00:00Z", "--to", "2026-01-02T12:00:00Z", "--yes", "--http", node.http]
    assert run(*words)["samples"] == 2400 and run(*words)["samples"] == 0
    assert rows_of(node, f"topic = '{TOPICS[1]}'") == 5000 - 2400 == total(node, TOPICS[1])
    assert rows_of(node, "true") == len(rows) - 2400 and len({path.name for path in days(node)} - before) == 2
    assert run("history", "verify", "--data", node.data)["ok"]
    # A lost index comes back with all of them.
    node.process.stop()
    for path in (node.data / "history").glob("index.db*"):
        path.unlink()
    failed = tieline("history", "query", "#", "--data", node.data, check=False)
    assert failed.returncode != 0
    node.start()
    until(lambda: "tieline history repair" in json.dumps(node.request("/v1/status")[1]), lambda: node.request("/v1/status"))
    node.process.stop()
    assert len(days(node)) == 3
    kill_again_and_again("history", "repair", "--data", node.data, "--yes")
    # Damage in a day file is found, and costs what cannot be read.
    file = days(node)[1]
    whole = file.read_bytes()
    file.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
    found = tieline("history", "verify", "--data", node.data, check=False)
    assert found.returncode == 3 and f"{file.name} is not what was written" in found.stdout, found.stdout
    lost = run("history", "repair", "--data", node.data, "--yes")["lost_samples"]
    assert run("history", "verify", "--data", node.data)["ok"]
    node.start()
    wait_total(node, len(rows) - 2400 - lost)
