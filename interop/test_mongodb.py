"""History by MongoDB's protocol, into FerretDB: each sample once, also if the node or the database is killed, away, slow or restored."""

import datetime

import pytest
from authority import Authority
from peers.ports import free_port
from mongo import FERRETDB, Ferret
from test_databases import Load, status, up_to_date
from waiting import until

KILLS = 4

pytestmark = pytest.mark.skipif(not FERRETDB.exists(), reason="FerretDB is not built: .ci/ferretdb needs Go")


def numbers(ferret):
    return [value for topic, value, *_ in ferret.samples() if topic.startswith("load/")]


def test_each_sample_is_there_once_whoever_is_killed(start_node):
    with Ferret() as ferret:
        load, node = Load(), start_node(more=ferret.toml())
        load.connect(node)
        load.push_all(10)
        # FerretDB does not come back if it is killed while it makes a collection.
        up_to_date(node)
        load.drop()
        for kill in range(KILLS):
            load.connect(node)
            load.push_all(300)
            load.push(200)
            if kill % 2:
                ferret.kill()
                load.push_all(100)
                ferret.start()
                load.drop()
            else:
                node.process.kill()
                load.drop()
                node.start()
        load.connect(node)
        load.push_all(10)
        up_to_date(node)
        found = numbers(ferret)
        assert len(found) == len(set(found)), "twice"
        assert load.acknowledged <= set(found), f"lost {sorted(load.acknowledged - set(found))[:10]}"
        assert sorted(found) == sorted(row["v"] for row in node.history("load/+"))
        assert status(node)["missing"] == 0
        load.drop()


def test_a_database_that_is_away_or_hangs_holds_up_nobody(start_node):
    with Ferret() as ferret:
        # The first host is not there.
        hosts = [f"127.0.0.1:{free_port()}", f"127.0.0.1:{ferret.port}"]
        load, node = Load(), start_node(more=ferret.toml(hosts=hosts, timeout="1s"))
        load.connect(node)
        load.push_all(50)
        up_to_date(node)
        for leave, come in [(ferret.kill, ferret.start), (ferret.pause, ferret.resume), (ferret.pause, ferret.resume)]:
            leave()
            load.push_all(500)
            until(lambda: status(node)["state"] == "away", lambda: status(node), 30)
            assert node.request("/healthz")[0] == 200
            assert any("database plant: away" in words for words in node.health()["detail"]), node.health()
            come()
            up_to_date(node)
        # What a server that hung still does comes to nothing.
        load.push_all(10)
        up_to_date(node)
        assert sorted(numbers(ferret)) == list(range(1, load.next + 1))
        load.drop()


def test_a_database_that_was_restored_gets_what_it_lost(start_node, tmp_path):
    with Ferret() as ferret:
        load, node = Load(), start_node(more=ferret.toml())
        load.connect(node)
        load.push_all(300)
        up_to_date(node)
        ferret.kill()
        ferret.copy(tmp_path / "copy")
        ferret.start()
        load.push_all(300)
        up_to_date(node)
        assert len(numbers(ferret)) == 600
        ferret.kill()
        ferret.restore(tmp_path / "copy")
        ferret.start()
        load.push_all(10)
        up_to_date(node)
        assert sorted(numbers(ferret)) == list(range(1, load.next + 1))
        assert status(node)["missing"] == 0
        load.drop()


def test_values_are_what_they_were(start_node):
    with Ferret() as ferret:
        node = start_node(more=ferret.toml(topics=["kinds/#"], collection="values"))
        kinds = {
            "int": '{"v": 7}',
            "big": '{"v": 9007199254740993}',
            "float": '{"v": 0.1}',
            "true": '{"v": true}',
            "text": '{"v": "für"}',
            "null": '{"v": null}',
            "bad": '{"v": 1.5, "q": "bad", "why": ["offline"]}',
            "json": '{"a": [1]}',
            "old": '{"v": 1, "t": "2020-02-29T23:59:59.999123Z"}',
        }
        for name, payload in kinds.items():
            assert node.set(f"kinds/{name}", payload)[0] in (200, 201, 204), name
        node.set("others/x", '{"v": 1}')
        up_to_date(node)
        documents = {document["topic"].removeprefix("kinds/"): document for document in ferret.documents("values")}
        found = {name: (document["v"][0], document.get("q", ["good"])[0]) for name, document in documents.items()}
        assert found == {
            "int": (7, "good"),
            "big": (9007199254740993, "good"),
            "float": (0.1, "good"),
            "true": (True, "good"),
            "text": ("für", "good"),
            "null": (None, "good"),
            "bad": (1.5, "bad"),
            "json": ('{"a": [1]}', "good"),
            "old": (1, "good"),
        }
        old = documents["old"]
        assert old["t"] == [datetime.datetime(2020, 2, 29, 23, 59, 59, 999000)] and old["us"] == [123]
        assert old["hour"] == datetime.datetime(2020, 2, 29, 23)
        assert documents["bad"]["reasons"] == [1 | 3 << 13] or documents["bad"]["reasons"] == [1]


def test_a_connection_is_encrypted_and_who_writes_is_checked(start_node, tmp_path):
    authority = Authority(tmp_path).issue("database", names="IP:127.0.0.1")
    other = Authority(tmp_path, "other")
    with Ferret((*authority.files("database"), "")) as ferret:
        more = ferret.toml(tls=True, authorities=str(authority.file))
        load, node = Load(), start_node(more=more)
        load.connect(node)
        load.push_all(10)
        up_to_date(node)
        load.drop()
        node.process.stop()
        node.configure(more=ferret.toml(tls=True, authorities=str(other.file)))
        node.start()
        until(lambda: "certificate" in status(node)["detail"].lower(), lambda: status(node), 15)
        node.process.stop()
        ferret.password.write_text("wrong\n")
        node.configure(more=more)
        node.start()
        until(lambda: "authentication" in status(node)["detail"].lower(), lambda: status(node), 15)
        assert sorted(numbers(ferret)) == list(range(1, 11))
