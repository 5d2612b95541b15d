"""Locks of an upstream through its edges: one queue for the clients of the core and of all edges; a lock ends with its session, its
edge, or the link; a message that names it is taken from the session that has it, wherever that is connected."""

import pytest
from node import Node, tieline
from test_edge_upstreams import upstreams, wait_for_states
from test_edges import ACCESS, Cut, edge_of, edge_table, folder, wait_for_link
from test_locks import Program, locks, waiting
from waiting import until

AWAY = "the upstream is away, and this topic is its own: nothing was published"
LOST = "the connection to the upstream of this lock was lost, and the lock with it"


def edge_at(tmp_path, name, upstream, more=""):
    table = edge_table(upstream, f'client_id = "{name}"\n{more}')
    return Node(folder(tmp_path, name), more=table)


def not_held(lock):
    return f"this session does not have the lock {lock}"


def holder(node, lock):
    """Who has a lock, as the node says: the edge's session and the client."""
    found = [one for one in locks(node)["locks"] if one["name"] == lock]
    return (found[0].get("via"), found[0].get("client")) if found else None


@pytest.fixture
def core(tmp_path):
    with Node(folder(tmp_path, "core")) as node:
        yield node
        node.alive()


@pytest.fixture
def edge(tmp_path, core):
    with edge_at(tmp_path, "edge-a", edge_of(core)) as node:
        wait_for_link(node, "up")
        yield node
        node.alive()


def test_clients_of_two_edges_and_of_the_core_wait_in_one_queue(tmp_path, core, edge):
    lock = "plant/writer"
    with edge_at(tmp_path, "edge-b", edge_of(core)) as other:
        wait_for_link(other, "up")
        # Clients of the same name at different nodes are different ones.
        with Program(edge, "one") as one, Program(other, "one") as two, Program(core, "one") as three, Program(edge, "two") as four:
            first = one.acquire(lock, wait="30s")
            assert first == {"status": "acquired", "lock": lock, "number": first["number"], "scope": "session"}
            assert holder(core, lock) == ("edge-a", "one")
            assert two.acquire(lock, wait="0s")["reason"] == "held"
            assert two.acquire(lock, wait="50ms")["reason"] == "timeout"
            asked = []
            for number, program in enumerate((two, three, four), 1):
                asked.append((program, program.ask("acquire", lock=lock)))
                waiting(core, number)
            assert one.acquire(lock) == first, "asked for again, it is the same acquisition"
            # What depends on it is taken from the one that has it.
            assert one.set("plant/mode", "auto", f"{lock}#{first['number']}") == ""
            assert core.request("/v1/topics/plant/mode")[1]["value"] == "auto"
            words = f"this session has the lock {lock} with the number {first['number']}, expected 7"
            assert one.set("plant/mode", "off", f"{lock}#7") == words
            for program in (two, three, four):
                assert program.set("plant/mode", "off", lock) == not_held(lock)
            (shown,) = locks(edge)["locks"]
            assert (shown["client"], shown["upstream"], shown["number"], shown["waiting"]) == ("one", "upstream", first["number"], 1)
            assert "edge-a/one" in tieline("locks", "--http", core.http).stdout
            # In the order of the requests, whatever ends the one before: a release, the end of its session.
            assert one.release(lock, number=7)["reason"] == "not_held"
            assert one.release(lock, number=first["number"]) == {"status": "released", "lock": lock}
            second = two.hears(asked[0][1])
            assert second["number"] > first["number"] and holder(core, lock) == ("edge-b", "one")
            two.close()
            third = three.hears(asked[1][1])
            assert third["number"] > second["number"] and holder(core, lock) == (None, "one")
            assert four.release(lock)["status"] == "released", "it gives up its request"
            assert four.hears(asked[2][1])["reason"] == "given_up"
            assert one.set("plant/mode", "off", lock) == not_held(lock)
    until(lambda: locks(edge)["locks"] == [], lambda: locks(edge))


def test_a_lock_of_the_upstream_ends_with_its_session_or_connection(core, edge):
    one = Program(edge, "one", expiry=3600)
    kept = one.acquire("plant/kept")["number"]
    one.acquire("plant/lost", scope="connection")
    with Program(core, "two") as two:
        of_lost, of_kept = two.ask("acquire", lock="plant/lost"), two.ask("acquire", lock="plant/kept")
        waiting(core, 2)
        one.vanish()
        assert two.hears(of_lost)["status"] == "acquired"
        one = Program(edge, "one", expiry=3600, clean=False)
        assert one.set("plant/a", "1", f"plant/kept#{kept}") == ""
        assert one.set("plant/a", "1", "plant/lost") == not_held("plant/lost")
        one.client.loop_stop()
        with Program(edge, "one") as new:
            assert two.hears(of_kept)["number"] > kept
            assert new.set("plant/a", "1", "plant/kept") == not_held("plant/kept")
            # An operator takes one away, at the edge.
            assert new.acquire("plant/x")["status"] == "acquired"
            answer = two.ask("acquire", lock="plant/x")
            waiting(core, 1)
            assert tieline("locks", "release", "plant/x", "--http", edge.http).stdout == "released: plant/x\n"
            assert two.hears(answer)["status"] == "acquired"
            assert new.set("plant/a", "1", "plant/x") == not_held("plant/x")


def test_a_killed_edge_has_no_locks(tmp_path, core, edge):
    with edge_at(tmp_path, "edge-b", edge_of(core)) as other:
        wait_for_link(other, "up")
        one = Program(edge, "one")
        first = one.acquire("plant/writer")["number"]
        with Program(other, "two") as two:
            asked = two.ask("acquire", lock="plant/writer")
            waiting(core, 1)
            http, mqtt = edge.http, edge.mqtt
            edge.process.kill()
            one.client.loop_stop()
            second = two.hears(asked)["number"]
            assert second > first and two.set("plant/a", "of two", f"plant/writer#{second}") == ""
            edge.start(http=http, mqtt=mqtt)
            wait_for_link(edge, "up")
            with Program(edge, "one") as again:
                assert again.set("plant/a", "of one", f"plant/writer#{first}") == not_held("plant/writer")
                assert again.acquire("plant/writer", wait="0s")["reason"] == "held"
            assert core.request("/v1/topics/plant/a")[1]["value"] == "of two"


@pytest.mark.parametrize("is_silent", (False, True))
def test_a_lock_is_lost_with_the_link_and_its_client_is_told(tmp_path, core, is_silent):
    with Cut(core) as way, edge_at(tmp_path, "edge-a", way.address) as edge:
        wait_for_link(edge, "up")
        with Program(edge, "one") as one, Program(edge, "late") as late, Program(core, "two") as two:
            topic = one.ask("acquire", lock="plant/writer")
            first = one.hears(topic)["number"]
            own = one.acquire("plant/other")["number"]
            assert own > first
            of_late, of_two = late.ask("acquire", lock="plant/writer"), two.ask("acquire", lock="plant/writer")
            waiting(core, 2)
            # A link that is dead says nothing: each end sees it after its time.
            way.hold() if is_silent else way.cut()
            lost = one.hears(topic)
            assert lost == {"status": "lost", "lock": "plant/writer", "number": first, "reason": "away", "detail": LOST}
            assert one.hears()["lock"] == "plant/other"
            refused = late.hears(of_late)
            assert (refused["status"], refused["reason"]) == ("refused", "away"), refused
            second = two.hears(of_two)["number"]
            assert second > first
            assert one.set("plant/a", "of one", f"plant/writer#{first}") == AWAY
            assert one.acquire("plant/writer", wait="0s")["reason"] == "away"
            assert two.set("plant/a", "of two", f"plant/writer#{second}") == ""
            if is_silent:
                way.cut()
            way.mend()
            wait_for_link(edge, "up")
            for text in ("plant/writer", f"plant/writer#{first}"):
                assert one.set("plant/a", "of one", text) == not_held("plant/writer")
            assert locks(core)["held"] == 1 and locks(edge)["locks"] == []
            two.release("plant/writer")
            third = one.acquire("plant/writer")["number"]
            assert third > second and one.set("plant/a", "of one", f"plant/writer#{third}") == ""
        metrics = edge.metrics()
        assert 'tieline_edge_locks_lost_total{upstream="upstream"} 2' in metrics, metrics
        assert 'tieline_edge_locks{upstream="upstream",state="waiting"} 0' in metrics, metrics


def test_locks_over_an_edge_of_an_edge(tmp_path, core):
    with Cut(core) as way, edge_at(tmp_path, "edge-a", way.address) as edge, edge_at(tmp_path, "edge-far", edge_of(edge)) as far:
        wait_for_link(edge, "up")
        wait_for_link(far, "up")
        with Program(far, "one") as one, Program(edge, "one") as near, Program(far, "two") as two:
            topic = one.ask("acquire", lock="plant/writer")
            first = one.hears(topic)["number"]
            assert holder(core, "plant/writer") == ("edge-a", "one") and holder(edge, "plant/writer") == ("edge-far", "one")
            # No other client of the same edges has it, whatever its name is.
            for program in (near, two):
                assert program.acquire("plant/writer", wait="0s")["reason"] == "held"
                assert program.set("plant/a", "x", "plant/writer") == not_held("plant/writer")
            assert one.set("plant/a", "of one", f"plant/writer#{first}") == ""
            asked = near.ask("acquire", lock="plant/writer")
            waiting(core, 1)
            one.close()
            second = near.hears(asked)["number"]
            near.release("plant/writer")
            topic = two.ask("acquire", lock="plant/writer")
            third = two.hears(topic)["number"]
            assert third > second > first
            # The link of the edge between is lost.
            way.cut()
            lost = two.hears(topic)
            assert (lost["status"], lost["number"]) == ("lost", third), lost
            until(lambda: locks(core)["held"] == 0, lambda: locks(core))
            way.mend()
            wait_for_link(edge, "up")
            assert two.set("plant/a", "of two", f"plant/writer#{third}") == not_held("plant/writer")
            assert two.acquire("plant/writer")["number"] > third
            # The edge between is killed.
            with Program(core, "core") as last:
                asked = last.ask("acquire", lock="plant/writer")
                waiting(core, 1)
                edge.process.kill()
                near.client.loop_stop()
                assert last.hears(asked)["status"] == "acquired"
                assert two.hears()["status"] == "lost"


def test_locks_have_the_names_of_topics(tmp_path, core):
    tables = (("west", edge_of(core), 'prefix = "west"\nprotection = ["plant/trips/#"]'),)
    with Node(folder(tmp_path, "edge"), more=upstreams(*tables)) as edge:
        wait_for_states(edge, **{"west": "up", "west-protection": "up"})
        with Program(edge, "one") as one, Program(core, "two") as two:
            number = one.acquire("west/plant/trips/writer")
            assert number["lock"] == "west/plant/trips/writer", number
            named = f"west/plant/trips/writer#{number['number']}"
            for topic in ("west/plant/mode", "west/plant/trips/1"):
                assert one.set(topic, "x", named, "west/plant/trips/writer") == ""
                assert two.set(topic.removeprefix("west/"), "y", "plant/trips/writer") == not_held("plant/trips/writer")
            assert holder(core, "plant/trips/writer") == ("edge-test-west", "one")
            # Other names are the edge's own, for its own topics.
            assert one.acquire("plant/trips/writer")["status"] == "acquired"
            elsewhere = "the lock and the topic are of different nodes"
            assert one.set("plant/mode", "x", "plant/trips/writer") == ""
            assert one.set("plant/mode", "x", named).startswith(elsewhere)
            assert one.set("west/plant/mode", "x", "plant/trips/writer").startswith(elsewhere)
            assert one.release("west/plant/trips/writer")["lock"] == "west/plant/trips/writer"
        until(lambda: locks(core)["held"] == 0, lambda: locks(core))


def test_a_lock_is_asked_for_with_the_clients_own_user(tmp_path):
    roles = {
        "core": """
[role.edge]
rules = ["allow publish plant/#", "allow read #", "allow publish $for/#", "allow publish $locks/#", "allow read $SYS/edge/nodes"]
[role.writer]
rules = ["allow publish plant/#", "allow publish $locks/plant/#"]
[role.reader]
rules = ["allow read plant/#", "allow publish plant/#"]
""",
        "edge": '[role.all]\nrules = ["allow publish #", "allow read #", "allow publish $locks/#"]\n',
    }
    users = {"core": (("edge", "edge"), ("anna", "writer"), ("bert", "reader")), "edge": (("anna", "all"), ("bert", "all"))}
    for name, text in roles.items():
        (folder(tmp_path, name) / "roles.toml").write_text(text)
        for user, role in users[name]:
            words = ["access", "user", "add", user, "--users", tmp_path / name / "users.toml", "--role", role]
            tieline(*words, input=f"password-{user}\n")
    (tmp_path / "edge" / "core.password").write_text("password-edge\n")
    with Node(tmp_path / "core", more=ACCESS) as core:
        more = ACCESS + edge_table(edge_of(core), 'client_id = "edge-a"\nuser = "edge"\npassword_file = "core.password"\n')
        with Node(tmp_path / "edge", more=more) as edge, Program(edge, "one", user="anna") as anna, Program(edge, "two", user="bert") as bert:
            until(lambda: anna.acquire("plant/writer", wait="0s")["status"] == "acquired", edge.process.said)
            assert anna.set("plant/a", "1", "plant/writer") == ""
            denied = "the user may not use this lock: that is the right to publish to $locks/ and its name"
            refused = bert.acquire("plant/writer")
            assert (refused["reason"], refused["detail"]) == ("denied", denied), refused
            assert bert.set("plant/a", "1", "plant/writer") == denied
            assert bert.acquire("own", wait="0s")["reason"] == "denied"
