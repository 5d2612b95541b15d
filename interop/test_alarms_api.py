"""Alarms over HTTP and the command line: values come over MQTT, people acknowledge and shelve, the journal and the report say what
happened, and nothing of it is lost with the process."""

import base64
import csv
import io
import json
import urllib.error
import urllib.parse
import urllib.request

import pytest
from bus import Sub, publish
from node import Node, tieline
from tieline import sync
from waiting import until

RULES = """topic,kind,limit,hysteresis,priority,latch,group,text,action,respond_in
plant/+/current,high,400,10,high,,feeders,overload,shed load,10m
plant/+/breaker,state,false,,critical,yes,feeders,tripped,,
secret/#,high,1,,low,,,hidden,,
"""
ALARM = '[alarm]\nrules = "alarms.csv"\nshelve_max = "4h"\noperators = 2\n'
CURRENT, BREAKER, SECRET = ("plant/a/current", "high"), ("plant/a/breaker", "state"), ("secret/x", "high")


def alarms(node, query="", ask=None):
    status, answer = (ask or node.request)(f"/v1/alarms{query}")
    assert status == 200, answer
    return answer["alarms"]


def named(shown):
    return [(alarm["topic"], alarm["kind"]) for alarm in shown]


def wait_alarm(node, alarm, **wanted):
    """Waits until an alarm has these members; the alarm."""

    def found():
        fits = lambda shown: all(shown[key] == member for key, member in wanted.items())
        return [shown for shown in alarms(node) if (shown["topic"], shown["kind"]) == alarm and fits(shown)]

    return until(found, lambda: f"{alarm} {wanted}: {alarms(node)}")[0]


def wait_quiet(node, alarm):
    until(lambda: alarm not in named(alarms(node)), lambda: f"{alarm}: {alarms(node)}")


def act(node, verb, *targets, ask=None, **body):
    """A request of a person; the status and the result of each alarm."""
    body["alarms"] = [{"topic": topic, "kind": kind, **({"seq": seq} if seq else {})} for topic, kind, seq in targets]
    status, answer = (ask or node.request)(f"/v1/alarms/{verb}", body)
    assert status == 200, answer
    return [(result["status"], result.get("reason")) for result in answer["results"]]


def journal(node, query="", ask=None):
    status, answer = (ask or node.request)(f"/v1/alarms/journal{query}")
    assert status == 200, answer
    return answer["rows"]


def transitions(rows, alarm):
    return [row["transition"] for row in rows if (row["topic"], row["kind"]) == alarm]


def wait_journal(node, alarm, *wanted):
    """Waits until the journal says that this happened to an alarm, in this order, and nothing else."""
    found = lambda: transitions(journal(node), alarm)
    return until(lambda: found() == list(wanted), lambda: f"{alarm}: {found()}, expected {wanted}")


@pytest.fixture
def node(tmp_path):
    (tmp_path / "alarms.csv").write_text(RULES)
    with Node(tmp_path, more=ALARM) as node:
        yield node


def test_an_alarm_is_raised_acknowledged_and_returns(node):
    watcher = Sub(node, "$alarms/#")
    publish(node, CURRENT[0], "412")
    alarm = wait_alarm(node, CURRENT, state="unacknowledged")
    expect = {"priority": "high", "severity": 700, "group": "feeders", "text": "overload", "value": 412, "limit": 400, "acked": False}
    assert {key: alarm[key] for key in expect} == expect
    assert (alarm["advice"]["action"], alarm["advice"]["respond_in_s"]) == ("shed load", 600)
    shown = watcher.wait("$alarms/plant/a/current/high", state="unacknowledged")
    assert shown["seq"] == alarm["seq"]
    counts = node.request("/v1/alarms/counts")[1]
    assert (counts["unacknowledged"]["high"], counts["active"]["high"], counts["rows"]) == (1, 1, 1), counts
    # An occurrence that nobody has seen is not acknowledged; what is not there has no result but a refusal.
    assert act(node, "ack", (*CURRENT, alarm["seq"] - 1 or 99), ("plant/none", "high", 1))[1] == ("refused", "unknown_alarm")
    assert act(node, "ack", (*CURRENT, alarm["seq"]), why="seen") == [("done", None)]
    wait_alarm(node, CURRENT, state="acknowledged", acked=True)
    assert act(node, "ack", (*CURRENT, alarm["seq"])) == [("refused", "nothing_to_acknowledge")]
    publish(node, CURRENT[0], "350")
    wait_quiet(node, CURRENT)
    until(lambda: not watcher.messages()[-1][2], watcher.said)
    wait_journal(node, CURRENT, "raised", "acknowledged", "returned")
    rows = journal(node)
    assert [row["annunciated"] for row in rows] == [True, False, False] and rows[1]["why"] == "seen", rows
    assert sorted(row["id"] for row in rows) == [row["id"] for row in rows] and len({row["id"] for row in rows}) == 3


def test_a_list_is_filtered_sorted_and_comes_in_pages(node):
    for topic, value in [(SECRET[0], 5), (CURRENT[0], 500), ("plant/b/current", 500), (BREAKER[0], "false")]:
        publish(node, topic, value)
    until(lambda: len(alarms(node)) == 4, lambda: alarms(node))
    everything = named(alarms(node))
    assert everything == [BREAKER, ("plant/b/current", "high"), CURRENT, SECRET]
    assert named(alarms(node, "?order=time")) == [BREAKER, ("plant/b/current", "high"), CURRENT, SECRET]
    assert named(alarms(node, "?priority=critical")) == [BREAKER]
    assert named(alarms(node, "?filter=plant/a/%23&state=unacknowledged")) == [BREAKER, CURRENT]
    assert named(alarms(node, "?group=feeders&cause=none&order=worst")) == everything[:3]
    pages, after = [], ""
    while after is not None:
        status, answer = node.request(f"/v1/alarms?limit=1{after}")
        assert status == 200 and len(answer["alarms"]) == 1
        pages += named(answer["alarms"])
        after = answer["next"] and f"&after={urllib.parse.quote(answer['next'])}"
    assert pages == everything
    for query in ["?state=loud", "?cause=x", "?priority=urgent", "?after=1", "?limit=0", "?order=best", "?more=1"]:
        assert node.request(f"/v1/alarms{query}")[0] == 400, query


def test_malformed_requests_are_refused_whole(node):
    publish(node, CURRENT[0], "412")
    seq = wait_alarm(node, CURRENT)["seq"]
    target = {"topic": CURRENT[0], "kind": "high", "seq": seq}
    for verb, body in [
        ("ack", {}),
        ("ack", {"alarms": []}),
        ("ack", {"alarms": [target] * 1001}),
        ("ack", {"alarms": [{"topic": CURRENT[0], "kind": "high"}]}),
        ("ack", {"alarms": [target], "all": True}),
        ("ack", {"alarms": [{**target, "kind": "loud"}]}),
        ("shelve", {"alarms": [target], "why": "x"}),
        ("shelve", {"alarms": [target], "why": "x", "for": "soon"}),
    ]:
        status, answer = node.request(f"/v1/alarms/{verb}", body)
        assert (status, answer["title"]) == (400, "Bad Request"), (verb, body, answer)
    assert act(node, "shelve", (*CURRENT, seq), **{"for": "1h"}) == [("refused", "why_missing")]
    assert act(node, "shelve", (*CURRENT, seq), why="x", **{"for": "5h"}) == [("refused", "time")]
    assert act(node, "note", (*CURRENT, seq)) == [("refused", "why_missing")]
    assert wait_alarm(node, CURRENT)["state"] == "unacknowledged"


def test_the_command_line_lists_acknowledges_and_shelves(node):
    http = ["--http", node.http]
    assert tieline("alarms", *http).stdout == "none\n"
    publish(node, CURRENT[0], "412")
    publish(node, BREAKER[0], "false")
    seqs = {alarm: wait_alarm(node, alarm)["seq"] for alarm in (CURRENT, BREAKER)}
    table = tieline("alarms", "list", *http).stdout.splitlines()
    assert table[1].split()[:2] == ["critical", "unacknowledged"] and f"plant/a/current/high@{seqs[CURRENT]}" in table[2], table
    lines = [json.loads(line) for line in tieline("alarms", "plant/a/#", "--priority", "critical", "--json", *http).stdout.splitlines()]
    assert named(lines) == [BREAKER]
    done = tieline("alarms", "ack", f"plant/a/current/high@{seqs[CURRENT]}", "plant/none/high", *http, check=False)
    assert (done.returncode, done.stdout) == (7, f"acknowledged: plant/a/current/high@{seqs[CURRENT]}\n"), done
    assert done.stderr.startswith("refused: plant/none/high"), done
    assert tieline("alarms", "ack", "plant/a/current/high@999", *http, check=False).returncode == 3
    # Without a number, the occurrence that there is.
    done = tieline("alarms", "ack", "-", *http, input="plant/a/breaker/state\n")
    assert done.stdout == f"acknowledged: plant/a/breaker/state@{seqs[BREAKER]}\n"
    done = tieline("alarms", "shelve", "plant/a/current/high", "--for", "2h", "--why", "repair", "--json", *http)
    assert json.loads(done.stdout)["status"] == "done"
    assert wait_alarm(node, CURRENT, state="shelved")["shelved"]["why"] == "repair"
    assert named(alarms(node, "?state=shelved")) == [CURRENT] and node.request("/v1/alarms/counts")[1]["shelved"] == 1
    tieline("alarms", "unshelve", "plant/a/current/high", *http)
    tieline("alarms", "note", "plant/a/current/high", "--why", "crew is on its way", *http)
    tieline("alarms", "out-of-service", "plant/a/current/high", "--why", "dismantled", *http)
    wait_alarm(node, CURRENT, state="out_of_service")
    tieline("alarms", "in-service", "plant/a/current/high", *http)
    # The breaker is latched: it stays until it is reset.
    assert tieline("alarms", "reset", "plant/a/breaker/state", *http, check=False).returncode == 3
    publish(node, BREAKER[0], "true")
    wait_alarm(node, BREAKER, state="latched")
    tieline("alarms", "reset", "plant/a/breaker/state", *http)
    wait_quiet(node, BREAKER)
    wait_journal(node, BREAKER, "raised", "acknowledged", "returned", "reset")
    noted = ["--transition", "noted", "--json", *http]
    until(lambda: tieline("alarms", "journal", *noted).stdout, lambda: journal(node))
    assert json.loads(tieline("alarms", "journal", *noted).stdout)["why"] == "crew is on its way"
    table = list(csv.DictReader(io.StringIO(tieline("alarms", "journal", "plant/a/breaker", "--csv", *http).stdout)))
    assert [row["transition"] for row in table] == ["raised", "acknowledged", "returned", "reset"]
    rules = [json.loads(line) for line in tieline("alarms", "rules", "--json", *http).stdout.splitlines()]
    rules = [rule for rule in rules if not rule["built_in"]]
    assert [(rule["line"], rule["kind"], rule["latch"]) for rule in rules] == [(2, "high", False), (3, "state", True), (4, "high", False)]


def test_journal_pages_formats_and_report(node):
    for round in range(6):
        publish(node, CURRENT[0], 500)
        seq = wait_alarm(node, CURRENT, active=True)["seq"]
        act(node, "ack", (*CURRENT, seq))
        publish(node, CURRENT[0], 300)
        wait_quiet(node, CURRENT)
    publish(node, SECRET[0], 5)
    wait_alarm(node, SECRET)
    until(lambda: transitions(journal(node), SECRET) == ["raised"], lambda: journal(node))
    everything = journal(node)
    pages, after = [], ""
    while after is not None:
        status, answer = node.request(f"/v1/alarms/journal?limit=4{after}")
        assert status == 200 and len(answer["rows"]) <= 4
        pages += answer["rows"]
        after = answer["next"] and f"&after={answer['next']}"
    assert pages == everything
    raised = journal(node, "?transition=raised&filter=plant/%23")
    assert raised and all(row["transition"] == "raised" and row["topic"] == CURRENT[0] for row in raised)
    with urllib.request.urlopen(f"http://{node.http}/v1/alarms/journal?format=csv&limit=3") as answer:
        assert answer.headers["Content-Type"].startswith("text/csv")
        following = answer.headers["Link"].split(">")[0].lstrip("<")
        rows = list(csv.DictReader(io.TextIOWrapper(answer)))
    assert [int(row["id"]) for row in rows] == [row["id"] for row in everything[:3]]
    with urllib.request.urlopen(f"http://{node.http}{following}") as answer:
        rows = list(csv.DictReader(io.TextIOWrapper(answer)))
    assert [int(row["id"]) for row in rows] == [row["id"] for row in everything[3:6]]
    status, report = node.request("/v1/alarms/report?from=1h")
    assert status == 200, report
    called = [row for row in everything if row["annunciated"]]
    measures = {measure["name"]: measure for measure in report["measures"]}
    assert (report["operators"], report["annunciated"]) == (2, len(called)), report
    # Two operators share them: so many an hour for each.
    assert measures["annunciated_per_hour"]["value"] == pytest.approx(len(called) / 2, abs=0.01)
    assert measures["fleeting"]["value"] == 1 and measures["fleeting"]["rating"] == "exceeded"
    assert report["frequent"][0]["topic"] == CURRENT[0]
    assert sum(row["annunciated"] for row in report["priorities"]) == len(called)
    assert node.request("/v1/alarms/report?filter=secret/%23&operators=1")[1]["annunciated"] == 1
    assert node.request("/v1/alarms/report?from=500d")[0] == 400
    text = tieline("alarms", "report", "--from", "1h", "--http", node.http).stdout
    assert "annunciated_per_hour" in text and CURRENT[0] in text


def test_kill_loses_nothing_that_was_answered(node):
    publish(node, CURRENT[0], "412", "-r")
    publish(node, BREAKER[0], "false", "-r")
    seq = {alarm: wait_alarm(node, alarm)["seq"] for alarm in (CURRENT, BREAKER)}
    assert act(node, "ack", (*CURRENT, seq[CURRENT]), why="seen") == [("done", None)]
    assert act(node, "shelve", (*BREAKER, seq[BREAKER]), why="repair", **{"for": "2h"}) == [("done", None)]
    before = {(alarm["topic"], alarm["kind"]): alarm for alarm in alarms(node)}
    wait_journal(node, CURRENT, "raised", "acknowledged")
    node.process.kill()
    node.start()
    wait_alarm(node, CURRENT, state="acknowledged", seq=seq[CURRENT])
    shelved = wait_alarm(node, BREAKER, state="shelved", seq=seq[BREAKER])
    assert shelved["shelved"] == before[BREAKER]["shelved"]
    assert transitions(journal(node), CURRENT)[:2] == ["raised", "acknowledged"]
    # The next occurrence has a number of its own.
    publish(node, CURRENT[0], "300", "-r")
    wait_quiet(node, CURRENT)
    publish(node, CURRENT[0], "412", "-r")
    assert wait_alarm(node, CURRENT, state="unacknowledged")["seq"] > max(seq.values())


def test_the_python_client_lists_acknowledges_and_shelves(node):
    publish(node, CURRENT[0], "412")
    publish(node, BREAKER[0], "false")
    until(lambda: len(alarms(node)) == 2, lambda: alarms(node))
    with sync.connect(node.http) as client:
        assert named(client.alarms()) == [BREAKER, CURRENT] and client.alarm_counts()["rows"] == 2
        found = list(client.alarms("plant/a/current", state="unacknowledged"))
        assert [result["status"] for result in client.acknowledge(found, why="seen")] == ["done"]
        assert [result["reason"] for result in client.acknowledge(found)] == ["nothing_to_acknowledge"]
        assert client.shelve(found, "1h", "repair", once=True)[0]["status"] == "done"
        assert named(client.alarms(state="shelved")) == [CURRENT]
        assert client.unshelve(found)[0]["status"] == "done"
        changes = lambda: transitions(client.alarm_journal("plant/a/current"), CURRENT)
        expect = ["raised", "acknowledged", "shelved", "unshelved"]
        until(lambda: changes()[:4] == expect, changes)


ROLES = """
[role.reader]
rules = ["allow read plant/#"]
[role.operator]
rules = ["allow read plant/#", "allow acknowledge plant/a/#", "allow publish plant/#", "allow publish secret/#", "allow read $SYS/#"]
"""
ACCESS = '[access]\nusers = "users.toml"\nroles = "roles.toml"\nloopback = "closed"\n'


class Guarded(Node):
    def __init__(self, folder):
        (folder / "alarms.csv").write_text(RULES)
        (folder / "roles.toml").write_text(ROLES)
        for user, role in [("rita", "reader"), ("otto", "operator"), ("erik", "ENGINEER"), ("paul", "SECAUD")]:
            words = ["access", "user", "add", user, "--users", folder / "users.toml", "--role", role]
            tieline(*words, input=f"password-{user}\n")
        super().__init__(folder, more=ALARM + ACCESS)

    def as_user(self, user):
        def ask(path, body=None):
            data = None if body is None else json.dumps(body).encode()
            secret = base64.b64encode(f"{user}:password-{user}".encode()).decode()
            headers = {"Content-Type": "application/json", "Authorization": f"Basic {secret}"}
            asked = urllib.request.Request(f"http://{self.http}{path}", data, headers)
            try:
                with urllib.request.urlopen(asked, timeout=30) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as refused:
                return refused.code, json.load(refused)

        return ask


def test_people_see_and_do_what_they_may(tmp_path):
    with Guarded(tmp_path) as node:
        reader, operator, engineer = map(node.as_user, ("rita", "otto", "erik"))
        more = ["-u", "otto", "-P", "password-otto"]
        for topic, value in [(CURRENT[0], 412), ("plant/b/current", 412), (SECRET[0], 5)]:
            publish(node, topic, value, *more)
        until(lambda: len(alarms(node, ask=engineer)) == 3, lambda: alarms(node, ask=engineer))
        other = ("plant/b/current", "high")
        assert set(named(alarms(node, ask=reader))) == {CURRENT, other}
        assert (reader("/v1/alarms/counts")[1]["rows"], engineer("/v1/alarms/counts")[1]["rows"]) == (2, 3)
        assert [rule["line"] for rule in reader("/v1/alarms/rules")[1]["rules"]] == [2, 3]
        # Topics, too: an alarm is read where its topic is.
        watcher = Sub(node, "$alarms/#", more=["-u", "rita", "-P", "password-rita"])
        until(lambda: len(watcher.messages()) == 2, watcher.said)
        assert {topic for _, topic, _ in watcher.messages()} == {f"$alarms/{'/'.join(alarm)}" for alarm in (CURRENT, other)}
        listed = reader("/v1/topics?filter=$alarms/%23")[1]["topics"]
        assert {entry["topic"] for entry in listed} == {f"$alarms/{'/'.join(alarm)}" for alarm in (CURRENT, other)}
        assert reader(f"/v1/topics/$alarms/{'/'.join(SECRET)}")[0] == 403
        seqs = {(alarm["topic"], alarm["kind"]): alarm["seq"] for alarm in alarms(node, ask=engineer)}
        mine, foreign = (*CURRENT, seqs[CURRENT]), (*other, seqs[other])
        assert act(node, "ack", mine, ask=reader) == [("refused", "denied")]
        # Of one request some may be allowed, and the others are not.
        assert act(node, "ack", mine, foreign, ask=operator) == [("done", None), ("refused", "denied")]
        assert act(node, "out-of-service", mine, ask=operator, why="x") == [("refused", "denied")]
        assert act(node, "out-of-service", mine, ask=engineer, why="x") == [("done", None)]
        until(lambda: "out_of_service" in transitions(journal(node, ask=engineer), CURRENT), lambda: journal(node, ask=engineer))
        rows = journal(node, ask=reader)
        assert {row["topic"] for row in rows} == {CURRENT[0], other[0]}
        by = {row["transition"]: row["who"] for row in rows if row["topic"] == CURRENT[0]}
        assert "otto" in by["acknowledged"] and "erik" in by["out_of_service"], by
        # The journal as a topic has all of them: it needs a rule of its own.
        assert reader("/v1/history?topic=$alarms-journal")[0] == 403
        assert engineer("/v1/history?topic=$alarms-journal")[0] == 200
        assert reader("/v1/alarms/report")[1]["annunciated"] == 2
        audit = node.as_user("paul")("/v1/audit?limit=100")[1]["entries"]
        assert any("otto" in entry.get("who", "") and entry.get("topic") == CURRENT[0] for entry in audit), audit
