"""History in other people's databases: each sample once, also if the node or a database is killed, away, slow or restored."""

import json
import shutil

import paho.mqtt.client as paho
import pytest
from authority import Authority
from databases import MARIADBD, POSTGRES_FOLDERS, Mariadb, Postgres, Victoria
from peers.ports import free_port
from waiting import until

KILLS = 4

needs_postgres = pytest.mark.skipif(not POSTGRES_FOLDERS, reason="PostgreSQL is not installed")
needs_mariadb = pytest.mark.skipif(not MARIADBD, reason="MariaDB is not installed")
needs_victoria = pytest.mark.skipif(not shutil.which("victoria-metrics"), reason="VictoriaMetrics is not installed")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority")).issue("database", names="IP:127.0.0.1")


@pytest.fixture(scope="module")
def postgres_server(authority):
    with Postgres(*authority.files("database")) as server:
        yield server


@pytest.fixture(scope="module")
def mariadb_server(authority):
    with Mariadb(*authority.files("database")) as server:
        yield server


@pytest.fixture
def postgres(postgres_server):
    return postgres_server.fresh()


@pytest.fixture
def mariadb(mariadb_server):
    return mariadb_server.fresh()


@pytest.fixture(params=[pytest.param("postgres", marks=needs_postgres), pytest.param("mariadb", marks=needs_mariadb)])
def database(request):
    """Each database with tables in turn, with nothing in it."""
    return request.getfixturevalue(request.param)


class Load:
    """A publisher at QoS 1 that counts upwards, in several topics, and knows what was acknowledged."""

    TOPICS = 5

    def __init__(self):
        self.next, self.acknowledged, self.pending = 0, set(), {}

    def connect(self, node):
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self.client.max_inflight_messages_set(100)
        self.pending = {}
        self.client.on_publish = lambda client, data, mid, reason, properties: reason.is_failure or self.acks.append(mid)
        self.acks = []
        self.client.connect("127.0.0.1", node.mqtt_port)
        self.client.loop_start()
        until(self.client.is_connected, "the publisher connects")

    def push(self, count, payload=None):
        for _ in range(count):
            self.next += 1
            text = json.dumps({"v": self.next}) if payload is None else payload
            sent = self.client.publish(f"load/{self.next % self.TOPICS}", text, 1)
            self.pending[sent.mid] = self.next

    def collect(self):
        while self.acks:
            number = self.pending.pop(self.acks.pop(), None)
            if number:
                self.acknowledged.add(number)
        return len(self.acknowledged)

    def push_all(self, count, payload=None):
        """Publishes, and waits until all is acknowledged."""
        target = self.collect() + count
        self.push(count, payload)
        until(lambda: self.collect() >= target, lambda: f"{self.collect()} of {target} acknowledged", 30)

    def drop(self):
        self.client.disconnect()
        self.client.loop_stop()
        self.collect()


def status(node):
    return node.request("/v1/status")[1]["history"]["databases"][0]


def up_to_date(node, seconds=60):
    return until(
        lambda: status(node)["state"] == "ok" and status(node)["backlog"] == 0 and status(node),
        lambda: f"{status(node)} {node.process.said()}",
        seconds,
    )


def test_each_sample_is_there_once_whoever_is_killed(start_node, database):
    load, node = Load(), start_node(more=database.toml())
    for kill in range(KILLS):
        load.connect(node)
        load.push_all(300)
        load.push(200)
        if kill % 2:
            database.kill()
            load.push_all(100)
            database.start()
            load.drop()
        else:
            node.process.kill()
            load.drop()
            node.start()
    load.connect(node)
    load.push_all(10)
    up_to_date(node)
    found = database.numbers()
    assert len(found) == len(set(found)), "twice"
    assert load.acknowledged <= set(found), f"lost {sorted(load.acknowledged - set(found))[:10]}"
    recorded = [row["v"] for row in node.history("load/+")]
    assert sorted(found) == sorted(recorded)
    assert status(node)["missing"] == 0
    load.drop()


def test_a_database_that_is_away_hangs_or_refuses_holds_up_nobody(start_node, database):
    # The first host is not there.
    hosts = [f"127.0.0.1:{free_port()}", f"127.0.0.1:{database.port}"]
    load, node = Load(), start_node(more=database.toml(hosts=hosts, timeout="1s"))
    load.connect(node)
    load.push_all(50)
    up_to_date(node)
    ways = [
        (database.kill, database.start),
        (database.pause, database.resume),
        (lambda: database.lock(True), lambda: database.lock(False)),
    ]
    for leave, come in ways:
        leave()
        load.push_all(400)
        until(lambda: status(node)["state"] == "away", lambda: status(node), 30)
        assert node.request("/healthz")[0] == 200
        assert any("database plant: away" in words for words in node.health()["detail"]), node.health()
        assert 'tieline_database_up{database="plant"} 0' in node.metrics()
        come()
        up_to_date(node)
    assert sorted(database.numbers()) == list(range(1, load.next + 1))
    load.drop()


@needs_postgres
def test_what_is_beyond_the_limit_is_given_up_and_said(start_node, postgres):
    limits = '[history]\njournal_bytes_max = "16MiB"\nmemory_bytes_max = "1MiB"\ndatabases_bytes_max = "1MiB"\n'
    load, node = Load(), start_node(more=limits + postgres.toml())
    load.connect(node)
    load.push_all(10)
    up_to_date(node)
    postgres.kill()

    def is_given_up():
        load.push_all(100, "x" * 10_000)
        return node.request("/healthz")[0] == 503

    until(is_given_up, lambda: status(node), 60)
    words = node.health()["detail"]
    assert any("were given up" in word for word in words), words
    assert status(node)["missing"] > 0
    load.push_all(5)
    postgres.start()
    up_to_date(node)
    until(lambda: node.request("/healthz")[0] == 200, lambda: node.health(), 15)
    assert status(node)["missing"] > 0
    assert sorted(postgres.numbers()) == [*range(1, 11), *range(load.next - 4, load.next + 1)]
    load.drop()


def test_a_database_that_was_restored_gets_what_it_lost(start_node, database):
    load, node = Load(), start_node(more=database.toml())
    load.connect(node)
    load.push_all(500)
    up_to_date(node)
    dump = database.dump()
    load.push_all(500)
    up_to_date(node)
    assert len(database.numbers()) == 1000
    database.restore(dump)
    load.push_all(10)
    up_to_date(node)
    assert sorted(database.numbers()) == list(range(1, load.next + 1))
    assert status(node)["missing"] == 0
    load.drop()


def test_a_new_data_folder_writes_beside_what_is_there(start_node, database):
    load, node = Load(), start_node(more=database.toml())
    for _ in range(2):
        load.connect(node)
        load.push_all(100)
        up_to_date(node)
        load.drop()
        node.process.stop()
        shutil.rmtree(node.data)
        node.start()
    assert sorted(database.numbers()) == list(range(1, 201))
    assert len(database.sql(f"select journal from {database.table('positions')}")) >= 2


KINDS = {
    "int": '{"v": 7}',
    "big": '{"v": 9007199254740993}',
    "float": '{"v": 0.1}',
    "true": '{"v": true}',
    "text": '{"v": "für \\\\ \'x\'"}',
    "null": '{"v": null}',
    "bad": '{"v": 1.5, "q": "bad", "why": ["offline"]}',
    "json": '{"a": [1]}',
    "zero": "a\0b",
    "old": '{"v": 1, "t": "2020-02-29T23:59:59.999Z"}',
    "ancient": '{"v": 1, "t": "0001-01-01T00:00:00Z"}',
    "future": '{"v": 1, "t": "9999-12-31T23:59:59Z"}',
}
ROWS = {
    "int": [7, "", "", "good"],
    "big": [9007199254740992, "9007199254740993", "", "good"],
    "float": [0.1, "", "", "good"],
    "true": [1, "", "", "good"],
    "text": ["", "für \\ 'x'", "", "good"],
    "null": ["", "", "", "good"],
    "bad": [1.5, "", "", "bad"],
    "json": ["", '{"a": [1]}', "", "good"],
    "zero": ["", "", "610062", "good"],
    "old": [1, "", "", "good"],
    "ancient": [1, "", "", "good"],
    "future": [1, "", "", "good"],
}


def set_kinds(node):
    for name, payload in KINDS.items():
        assert node.set(f"kinds/{name}", payload)[0] in (200, 201, 204), name
    node.set("others/x", '{"v": 1}')
    up_to_date(node)


def check_kinds(database, as_hex):
    query = f"select topic, value, text, {as_hex}, quality from {database.table('history')}"
    found = [(topic.removeprefix("kinds/"), value, rest) for topic, value, *rest in database.sql(query)]
    rows = {name: [float(value) if value else "", *rest] for name, value, rest in found}
    assert rows == ROWS
    good = {row[0].removeprefix("kinds/") for row in database.sql(f"select topic from {database.table('numbers')}")}
    assert good == {"int", "big", "float", "true", "old", "ancient", "future"}


@needs_postgres
@pytest.mark.parametrize("index", ["btree", "brin", "none"])
def test_values_are_what_they_were(start_node, postgres, index):
    set_kinds(start_node(more=postgres.toml(index=index, topics=["kinds/#"])))
    check_kinds(postgres, "encode(bytes, 'hex')")
    days = [row[0] for row in postgres.sql("select relname from pg_class where relname like 'samples_2%' and relkind = 'r'")]
    assert "samples_20200229" in days and len(days) >= 2
    assert len(postgres.sql("select topic from tieline.samples_other")) == 2
    times = postgres.sql("select extract(epoch from time) from tieline.history where topic = 'kinds/old'")
    assert times == [["1583020799.999000"]]


@needs_mariadb
@pytest.mark.parametrize("loads", [True, False])
def test_values_are_in_mariadb_what_they_were(start_node, mariadb, loads):
    """By LOAD DATA, and by INSERT where the server refuses that."""
    mariadb.sql(f"set global local_infile = {int(loads)}", None)
    before = mariadb.statements()
    node = start_node(more=mariadb.toml(kind="mysql", topics=["kinds/#"]))
    set_kinds(node)
    mariadb.sql("set global local_infile = 1", None)
    assert (mariadb.statements() > before) == loads
    check_kinds(mariadb, "hex(bytes)")
    # What is equal is there once. A partition of a day to come that is not there is made.
    last = mariadb.sql("select date_format(utc_date() + interval 7 day, 'd%Y%m%d')")[0][0]
    mariadb.sql(f"alter table samples drop partition {last}")
    node.process.stop()
    node.start()
    node.set("kinds/old", KINDS["old"])
    up_to_date(node)
    assert mariadb.sql(f"select count(*) from samples partition ({last})") == [["0"]]
    assert mariadb.sql("select time from history where topic = 'kinds/old'") == [["2020-02-29 23:59:59.999000"]]
    assert len(mariadb.sql("select topic from samples partition (`later`)")) == 1
    assert len(mariadb.sql("select topic from samples partition (`before`)")) == 2
    today = mariadb.sql("select date_format(utc_date(), 'd%Y%m%d')")[0][0]
    assert len(mariadb.sql(f"select topic from samples partition ({today})")) == 9


@needs_mariadb
def test_mariadb_that_takes_reads_alone_is_away(start_node, mariadb):
    load, node = Load(), start_node(more=mariadb.toml())
    load.connect(node)
    load.push_all(10)
    up_to_date(node)
    mariadb.sql("set global read_only = 1", None)
    load.push_all(10)
    until(lambda: "read_only is set" in (status(node)["detail"] or ""), lambda: status(node), 15)
    mariadb.sql("set global read_only = 0", None)
    up_to_date(node)
    assert sorted(mariadb.numbers()) == list(range(1, 21))
    load.drop()


def test_a_connection_is_encrypted_and_the_certificate_checked(start_node, database, authority, tmp_path):
    other = Authority(tmp_path, "other")
    load, node = Load(), start_node(more=database.toml(tls=True, authorities=str(authority.file)))
    load.connect(node)
    load.push_all(10)
    up_to_date(node)
    assert database.encrypted() > 0
    load.drop()
    node.process.stop()
    node.configure(more=database.toml(tls=True, authorities=str(other.file)))
    node.start()
    until(lambda: "certificate" in status(node)["detail"].lower(), lambda: status(node), 15)
    assert len(database.numbers()) == 10


@needs_victoria
def test_each_sample_is_in_victoriametrics(start_node):
    with Victoria() as victoria:
        load, node = Load(), start_node(more=victoria.toml())
        for kill in range(4):
            load.connect(node)
            load.push_all(200)
            if kill % 2:
                victoria.pause()
                load.push_all(200)
                victoria.resume()
                load.drop()
            else:
                up_to_date(node)
                node.process.kill()
                load.drop()
                node.start()
        load.connect(node)
        node.set("load/bad", '{"v": 1.5, "q": "bad"}')
        node.set("load/text", '{"v": "text"}')
        load.push_all(10)
        # The database gets what the history has in order: what is written last, alone in its topic, tells that all is there.
        node.set("load/last", '{"v": 1000000}')
        up_to_date(node)

        def found():
            series = victoria.values('{__name__="tieline_value"}')
            values = {value for (topic, q), values in series.items() if q == "good" for value in values}
            # Times are milliseconds there: of two samples of one topic and millisecond one is kept.
            return series.get(("load/bad", "bad")) == [1.5] and 1_000_000 in values and len(values)

        count = until(found, lambda: victoria.values('{__name__="tieline_value"}').keys(), 30)
        distinct = len({(row["topic"], row["t"][:23]) for row in node.history("load/+") if not isinstance(row["v"], str)}) - 1
        assert count >= distinct * 0.98, (count, distinct)
        assert 'tieline_database_skipped_points_total{database="metrics"} 1' in node.metrics()
        load.drop()
