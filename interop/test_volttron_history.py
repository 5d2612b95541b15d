"""What historians of VOLTTRON have stored, moved into a history: from SQLite and PostgreSQL, with each version of their tables."""

import json
import signal
import subprocess

import pytest
import volttron_historians as volttron
from databases import PASSWORD, POSTGRES_FOLDERS, Postgres
from mongo import FERRETDB, Ferret
from node import BINARY, tieline
from waiting import until

needs_ferretdb = pytest.mark.skipif(not FERRETDB.exists(), reason="FerretDB is not built: .ci/ferretdb needs Go")
needs_postgres = pytest.mark.skipif(not POSTGRES_FOLDERS, reason="PostgreSQL is not installed")
SPAN = ("--from", "2016-01-01", "--to", "2018-01-01")
KEEP = '[history]\nkeep = "30000d"\n'
# Topic, seconds after the start, value in the history.
EXPECTED = [
    ("site/b/ahu1/temp", 0, 20.5),
    ("site/b/ahu1/temp", 1, 21.0),
    ("site/b/ahu1/temp", 1.25, -3),
    ("site/b/ahu1/temp", 2, None),
    ("site/b/ahu1/temp", 3, "nan"),
    ("site/b/ahu1/fan", 0, 1),
    ("site/b/ahu1/fan", 1, True),
    ("site/b/ahu1/fan", 2, False),
    ("site/b/ahu2/mode", 0, "auto"),
    ("site/b/ahu2/mode", 1, 'für "alle"'),
    ("site/b/ahu2/mode", 2, '{"setpoint": 21.5, "modes": ["a", "b"]}'),
    ("Campus/Building/$odd_name", 0, 9007199254740993),
]
MAP = ("--map", "campus/building=site/b")


def move(source, *words, check=True, **options):
    return tieline("import", "volttron-history", source, *words, check=check, **options)


def rows_of(folder):
    """All samples of a stopped node's folder, by topic and time."""
    done = tieline("history", "query", "#", *SPAN, "--data", folder, "--format", "json", "--limit", "1000000")
    return json.loads(done.stdout)


def check_all(rows):
    found = sorted((row["topic"], row["t"], repr(row["v"])) for row in rows)

    def shown(seconds):
        return volttron.at(seconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    assert found == sorted((topic, shown(seconds), repr(value)) for topic, seconds, value in EXPECTED)


@pytest.fixture
def stopped(start_node):
    """A node that was stopped, whose folder has a history."""
    node = start_node(more=KEEP)
    node.set("live/x", '{"v": 1}')
    until(lambda: node.history("live/x"), "recorded", 15)
    node.process.stop()
    return node


@pytest.mark.parametrize("prefix, is_old", [("", False), ("plant", False), ("plant", True), ("", True)])
def test_a_sqlite_historian_is_moved(stopped, tmp_path, prefix, is_old):
    path = tmp_path / "historian.sqlite"
    volttron.Sqlite(path, prefix, is_old).fill()
    words = ["--table-prefix", prefix] if prefix and not is_old else []
    done = move(path, *MAP, *words, "--data", stopped.data)
    check_all(rows_of(stopped.data))
    lines = done.stdout.splitlines()
    assert lines[0] == (
        "campus/building/ahu1/temp: mapped site/b/ahu1/temp: 5 samples from 2016-05-01T23:59:58.000Z to 2016-05-02T00:00:01.000Z, "
        "units F, type float, tz UTC"
    )
    assert lines[3].endswith("units kW; renamed from \"Campus/Building/$odd+name\", which cannot be a topic"), lines[3]
    assert "table avg_1h: not needed: aggregates; a query computes them from the samples" in lines
    assert lines[-2].startswith("the oldest sample is of 2016-05-01T23:59:58.000Z: a node removes it, unless history.keep is more than ")
    assert lines[-1] == "12 samples of 4 topics imported, 0 values left out"
    # Once more changes nothing; what the historian wrote meanwhile is added.
    move(path, *MAP, *words, "--data", stopped.data)
    assert len(rows_of(stopped.data)) == 12
    stopped.start()
    served = tieline("history", "query", "#", *SPAN, "--http", stopped.http, "--format", "json")
    check_all(json.loads(served.stdout))
    assert stopped.history("live/x")


def test_a_running_node_takes_what_is_moved(start_node, tmp_path):
    node = start_node(more=KEEP)
    if "put" not in node.request("/v1/openapi.json")[1]["paths"].get("/v1/history", {}):
        pytest.skip("this node does not take samples of the past: PUT /v1/history")
    path = tmp_path / "historian.sqlite"
    volttron.Sqlite(path).fill()
    words = (*MAP, "--http", node.http, "--state", tmp_path / "state")
    for _ in range(2):
        move(path, *words)
        rows = tieline("history", "query", "#", *SPAN, "--http", node.http, "--format", "json")
        check_all(json.loads(rows.stdout))


def test_what_is_left_out_is_said(stopped, tmp_path):
    path = tmp_path / "historian.sqlite"
    historian = volttron.Sqlite(path).fill()
    historian.db.execute("INSERT INTO topics (topic_id, topic_name) VALUES (7, ''), (8, 'CAMPUS')")
    insert = "INSERT INTO data VALUES (?, ?, ?)"
    for row in [("yesterday", 1, "1"), ("2016-06-01T00:00:00+02:00", 8, "{"), ("2016-06-01T00:00:00", 8, "5"), ("2016-06-02T00:00:00", 99, "1")]:
        historian.db.execute(insert, row)
    historian.db.execute(insert, ("2016-06-01T00:00:00", 7, "1"))
    historian.db.commit()
    dry = move(path, "--data", stopped.data, "--dry-run", "--json", check=False)
    assert dry.returncode == 7
    entries = {entry.get("topic", entry.get("topic_id", entry.get("table"))): entry for entry in json.loads(dry.stdout)}
    assert entries["campus/building/ahu1/temp"]["left_out"] == [{"why": "no time", "values": 1, "first": "yesterday"}]
    assert entries["CAMPUS"]["left_out"] == [{"why": "no JSON", "values": 1, "first": "{"}]
    assert (entries["CAMPUS"]["samples"], entries["CAMPUS"]["first"]) == (1, "2016-06-01T00:00:00.000Z")
    assert entries[""]["status"] == "left_out" and entries["99"]["values"] == 1
    assert entries["campus/building/ahu2/mode"]["metadata"] == {}
    assert rows_of(stopped.data) == [] and not (stopped.data / "volttron-history.state").exists()
    done = move(path, "--data", stopped.data, check=False)
    assert done.returncode == 7
    assert "topic 99: left out: 1 value: the table of topics has none of this number" in done.stdout
    assert done.stdout.endswith("13 samples of 6 topics imported, 4 values left out\n"), done.stdout
    assert len(rows_of(stopped.data)) == 13


def test_an_import_that_is_killed_goes_on(stopped, tmp_path):
    path = tmp_path / "historian.sqlite"
    count = 120_000
    values = [(1 + n % 2, n / 10, n) for n in range(count)]
    historian = volttron.Sqlite(path).fill(values=values)
    state = stopped.data / "volttron-history.state"
    words = [str(BINARY), "import", "volttron-history", str(path), "--data", str(stopped.data)]
    places = []
    for kill in range(3):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def place():
            return json.loads(state.read_text())["rows"] if state.exists() else 0

        until(lambda: place() > (places[-1] if places else 0) or process.poll() is not None, "a page is stored", 60)
        process.send_signal(signal.SIGKILL)
        process.wait()
        places.append(place())
    assert places == sorted(set(places)) and 0 < places[0] and places[-1] < count, places
    done = move(path, "--data", stopped.data)
    assert f"{places[-1]} values of earlier runs are not in this report" in done.stdout
    # What came to the historian meanwhile, and is newer, is found by another run.
    historian.add([(3, count, "last")])
    move(path, "--data", stopped.data)
    counted = tieline("history", "query", "#", *SPAN, "--data", stopped.data, "--agg", "count", "--every", "10000d", "--format", "json")
    found = {row["topic"]: row for row in json.loads(counted.stdout)}
    assert sum(row["count"] for row in found.values()) == count + 1, found
    # The place is of one import.
    other = move(path, "--data", stopped.data, "--map", "campus=x", check=False)
    assert other.returncode == 1 and "is not of this import" in other.stderr


def test_what_is_no_historian_is_refused(tmp_path):
    (tmp_path / "file").write_text("text")
    for source, words in [
        (tmp_path / "none", "unable to open"),
        (tmp_path / "file", "not a database"),
        ("mysql://u@h/d", "cannot be read directly"),
        ("redis://h", "no database of a historian"),
    ]:
        done = move(source, "--dry-run", check=False)
        assert done.returncode == 1 and words in done.stderr, done.stderr


@needs_postgres
def test_a_sql_historian_in_postgres_is_moved(stopped, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD + "\n")
    with Postgres() as postgres:
        postgres.fresh()
        volttron.fill_postgres(postgres)
        volttron.fill_postgres(postgres, "old", is_old=True)
        source = f"postgresql://tieline@127.0.0.1:{postgres.port}/{postgres.database}"
        words = (*MAP, "--source-password-file", secret, "--data", stopped.data)
        done = move(source, *words)
        check_all(rows_of(stopped.data))
        assert "units F, type float, tz UTC" in done.stdout.splitlines()[0]
        assert "table old_data: not needed: no table of this historian" in done.stdout
        again = move(source, *words, "--table-prefix", "old", "--restart")
        assert again.stdout.splitlines()[0] == done.stdout.splitlines()[0]
        check_all(rows_of(stopped.data))
        wrong = move(source, "--table-prefix", "x", "--source-password-file", secret, "--dry-run", check=False)
        assert 'has no table "x_data"' in wrong.stderr


@needs_ferretdb
def test_a_mongodb_historian_is_moved(stopped):
    with Ferret() as ferret:
        with ferret.client() as client:
            # FerretDB takes no NaN; it is beside a number that it takes.
            volttron.fill_mongo(client.plant, [value for value in volttron.VALUES if value[2] == value[2]])
        source = f"mongodb://tieline@127.0.0.1:{ferret.port}/plant"
        words = (*MAP, "--source-password-file", ferret.password, "--data", stopped.data)
        for _ in range(2):
            done = move(source, *words)
            check_all([*rows_of(stopped.data), {"topic": "site/b/ahu1/temp", "t": "2016-05-02T00:00:01.000Z", "v": "nan"}])
        assert "units F" in done.stdout.splitlines()[0] and "table hourly_data: not needed: aggregates" in done.stdout
        wrong = move(source + "x", "--source-password-file", ferret.password, "--dry-run", check=False)
        assert wrong.returncode == 1
