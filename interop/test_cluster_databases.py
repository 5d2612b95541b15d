"""A core with standbys that writes its history to a database: each sample once, whichever member leads."""

import shutil
import signal

import pytest
from nats_peer import SERVER as NATS
from node import tieline
from test_cluster import Member, pair, server  # noqa: F401 (a fixture)
from test_databases import (  # noqa: F401 (fixtures)
    Load,
    authority,
    database,
    mariadb,
    mariadb_server,
    postgres,
    postgres_server,
    status,
    up_to_date,
)
from waiting import until

pytestmark = pytest.mark.skipif(not NATS, reason="no nats-server: .ci/nats builds it")


def check(member, load, database):  # noqa: F811 (no fixture)
    """The database has what was acknowledged, and all that is recorded, once."""
    up_to_date(member)
    found = database.numbers()
    assert len(found) == len(set(found)), "twice"
    assert load.acknowledged <= set(found), f"lost {sorted(load.acknowledged - set(found))[:10]}"
    assert sorted(found) == sorted(row["v"] for row in member.history("load/+"))
    assert status(member)["missing"] == 0, status(member)


def has_all(database, load):  # noqa: F811 (no fixture)
    """The database has each acknowledged sample once. A node that was just started may not know yet what it owes."""
    expected = sorted(load.acknowledged)
    until(lambda: len(database.numbers()) >= len(expected), lambda: f"lost {sorted(load.acknowledged - set(database.numbers()))[:10]}")
    assert sorted(database.numbers()) == expected, "lost, or twice"


def test_the_next_leader_goes_on_where_the_last_one_stopped(tmp_path, server, database):  # noqa: F811 (fixtures)
    leader, other = pair(tmp_path, server, database.toml())
    load = Load()
    with leader, other:
        for kill in range(3):
            load.connect(leader)
            load.push_all(300)
            if kill == 1:
                # The database is away, so that the next leader has what this one did not write.
                database.kill()
                load.push_all(200)
            load.push(100)
            leader.process.kill()
            load.drop()
            if kill == 1:
                database.start()
            other.wait_role("leader")
            leader.again()
            leader.wait_role("standby", lag=0, leader=other.name)
            leader, other = other, leader
        load.connect(leader)
        load.push_all(10)
        check(leader, load, database)
        load.drop()


def test_a_leader_that_was_frozen_writes_nothing_twice(tmp_path, server, database):  # noqa: F811 (fixtures)
    first, second = pair(tmp_path, server, database.toml())
    load = Load()
    with first, second:
        load.connect(first)
        load.push_all(300)
        load.push(300)
        first.process.process.send_signal(signal.SIGSTOP)
        second.wait_role("leader")
        load.drop()
        load.connect(second)
        load.push_all(300)
        first.process.process.send_signal(signal.SIGCONT)
        load.push_all(100)
        first.wait_role("standby", leader="b")
        until(lambda: first.seen().get("lag") == 0, first.process.said)
        check(second, load, database)
        # It leads again, and goes on from where the other one is.
        second.process.kill()
        load.drop()
        first.wait_role("leader")
        load.connect(first)
        load.push_all(100)
        check(first, load, database)
        load.drop()


class Changing(Member):
    """A node that is a member of the core at times."""

    is_member = False

    def configure(self, *devices, more=""):
        self.config.write_text(self.text if self.is_member else f'[node]\nname = "{self.name}"\n{self.more}')

    def __init__(self, path, name, server, more=""):  # noqa: F811 (no fixture)
        self.more = more
        super().__init__(path, name, server, more)

    def turn(self, is_member):
        """Is killed, and runs with or without `[cluster]` from here on."""
        self.process.kill()
        self.is_member = is_member
        self.configure()
        return self.again()


def test_a_node_that_joins_and_leaves_a_core_writes_each_sample_once(tmp_path, server, database):  # noqa: F811 (fixtures)
    toml, load = database.toml(), Load()

    def say(node, count=200, is_away=False):
        """Samples; the database may be away, so that they are written in the next mode or by another node."""
        load.connect(node)
        if is_away:
            database.kill()
        load.push_all(count)
        load.drop()

    with Changing(tmp_path, "a", server, toml) as first:
        say(first)
        # MariaDB that is killed while it makes a table with partitions cannot make it later.
        up_to_date(first)
        # Another member has a copy of what the node recorded when it was alone, some of which is not in the database.
        say(first, is_away=True)
        archive = tmp_path / "a.backup"
        tieline("backup", "-o", archive, "--http", first.http)
        with Changing(tmp_path, "b", server) as second:
            second.process.kill()
            shutil.rmtree(second.data)
            tieline("restore", archive, "--data", second.data)
            second.text, second.more = second.text + toml, toml
            first.turn(is_member=True).wait_role("leader")
            second.turn(is_member=True).wait_role("standby", leader="a")
            say(first)
            database.start()
            check(first, load, database)
            # The first leaves with samples that the database does not have; the core goes on.
            say(first, is_away=True)
            until(lambda: second.seen().get("lag") == 0, second.process.said)
            first.turn(is_member=False)
            say(first)
            second.wait_role("leader")
            say(second)
            database.start()
            for node in (first, second):
                up_to_date(node)
            has_all(database, load)
            # The core ends, too: both write for themselves.
            say(second, is_away=True)
            second.turn(is_member=False)
            for node in (first, second):
                say(node)
            database.start()
            for node in (first, second):
                up_to_date(node)
            has_all(database, load)
            assert [status(node)["missing"] for node in (first, second)] == [0, 0]
