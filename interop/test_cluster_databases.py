"""A core with standbys that writes its history to a database: each sample once, whichever member leads."""

import signal

import pytest
from nats_peer import SERVER as NATS
from test_cluster import pair, server  # noqa: F401 (a fixture)
from test_databases import Load, authority, needs_postgres, postgres, postgres_server, status, up_to_date  # noqa: F401 (fixtures)
from waiting import until

pytestmark = [needs_postgres, pytest.mark.skipif(not NATS, reason="no nats-server: .ci/nats builds it")]


def check(member, load, database):
    """The database has what was acknowledged, and all that is recorded, once."""
    up_to_date(member)
    found = database.numbers()
    assert len(found) == len(set(found)), "twice"
    assert load.acknowledged <= set(found), f"lost {sorted(load.acknowledged - set(found))[:10]}"
    assert sorted(found) == sorted(row["v"] for row in member.history("load/+"))
    assert status(member)["missing"] == 0, status(member)


def test_the_next_leader_goes_on_where_the_last_one_stopped(tmp_path, server, postgres):  # noqa: F811 (fixtures)
    leader, other = pair(tmp_path, server, postgres.toml())
    load = Load()
    with leader, other:
        for kill in range(3):
            load.connect(leader)
            load.push_all(300)
            if kill == 1:
                # The database is away, so that the next leader has what this one did not write.
                postgres.kill()
                load.push_all(200)
            load.push(100)
            leader.process.kill()
            load.drop()
            if kill == 1:
                postgres.start()
            other.wait_role("leader")
            leader.again()
            leader.wait_role("standby", lag=0, leader=other.name)
            leader, other = other, leader
        load.connect(leader)
        load.push_all(10)
        check(leader, load, postgres)
        load.drop()


def test_a_leader_that_was_frozen_writes_nothing_twice(tmp_path, server, postgres):  # noqa: F811 (fixtures)
    first, second = pair(tmp_path, server, postgres.toml())
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
        check(second, load, postgres)
        # It leads again, and goes on from where the other one is.
        second.process.kill()
        load.drop()
        first.wait_role("leader")
        load.connect(first)
        load.push_all(100)
        check(first, load, postgres)
        load.drop()
