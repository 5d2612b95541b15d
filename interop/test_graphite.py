"""History in Grafana's built-in data source for Graphite: the requests that Grafana sends, and answers as it reads them.

The requests are those of pkg/tsdb/graphite (query.go, resource_handler.go, healthcheck.go) and of the data source's front end.
"""

import base64
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from node import tieline
from simulated import SimulatedDevice
from waiting import until

HISTORY = "[history]\nenabled = true\n"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
START = 1_790_000_000
#: The plant's samples: one each ten seconds.
SAMPLES = [(START + 10 * number, number) for number in range(60)]


def ask(node, path, form=None, user=None, **query):
    """A request as Grafana's backend sends it; status and JSON."""
    url = f"http://{node.http}/graphite/{path}"
    if query:
        url += "?" + urllib.parse.urlencode(query, doseq=True)
    headers = {**(FORM if form is not None else {}), **basic(user)}
    body = urllib.parse.urlencode(form, doseq=True).encode() if form is not None else None
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def render(node, *targets, start=START, end=START + 600, points=1000, **more):
    """createGraphiteRequest of query.go."""
    form = {"from": start, "until": end, "format": "json", "maxDataPoints": points, "target": targets}
    return ask(node, "render", form, **more)


def series(node, *targets, **more):
    status, answer = render(node, *targets, **more)
    assert status == 200, answer
    return {one["target"]: one["datapoints"] for one in answer}


def check_frames(answer):
    """toDataFrames and parseDataTimePoint: a name, and points of a number or null and a number of seconds."""
    for one in answer:
        assert set(one) == {"target", "datapoints"} and isinstance(one["target"], str)
        for value, seconds in one["datapoints"]:
            assert value is None or isinstance(value, (int, float))
            assert type(seconds) is int


def line(topic, seconds, value):
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    return {"topic": topic, "t": when, "v": value}


def basic(user):
    return {"Authorization": "Basic " + base64.b64encode(user.encode()).decode()} if user else {}


def imported(node, rows, user=None):
    headers = {"Content-Type": "application/json", **basic(user)}
    asked = urllib.request.Request(f"http://{node.http}/v1/history", json.dumps(rows).encode(), headers, method="PUT")
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert answer.status == 200


@pytest.fixture
def node(start_node, tmp_path):
    node = start_node(more=HISTORY)
    rows = [line(topic, seconds, value + at) for at, topic in enumerate(["plant/feeder1/amps", "plant/feeder2/amps"]) for seconds, value in SAMPLES]
    rows += [line("plant/feeder1/breaker", seconds, value % 2 == 1) for seconds, value in SAMPLES]
    rows += [line("plant/feeder1", START, 1.5), line("plant/a.b/c d", START, 3), line("other", START, 4)]
    imported(node, rows)
    return node


def test_the_health_check_succeeds(node):
    now = int(time.time())
    status, answer = render(node, "constantLine(100)", start=now - 3600, end=now, points=100)
    assert (status, answer) == (200, [{"target": "100", "datapoints": [[100.0, now - 3600], [100.0, now]]}])


def test_series_have_the_points_of_their_topics(node):
    status, answer = render(node, "plant.feeder1.amps")
    check_frames(answer)
    assert (status, [one["target"] for one in answer]) == (200, ["plant.feeder1.amps"])
    assert answer[0]["datapoints"] == [[float(value), seconds] for seconds, value in SAMPLES]
    # GET, with the times of the older front end; what is not known is ignored.
    status, answer = ask(node, "render", target="plant.feeder1.amps", format="json", until="now", cacheTimeout="5", **{"from": "-24h"})
    assert (status, answer) == (200, [])
    assert set(series(node, "plant.*.amps")) == {"plant.feeder1.amps", "plant.feeder2.amps"}
    assert set(series(node, "plant.feeder[1-1].*", "other")) == {"plant.feeder1.amps", "plant.feeder1.breaker", "other"}
    assert set(series(node, "plant.{feeder1,feeder2}.a*s")) == {"plant.feeder1.amps", "plant.feeder2.amps"}
    assert series(node, "plant.a%2Eb.c%20d") == {"plant.a%2Eb.c%20d": [[3.0, START]]}
    assert series(node, "plant.nothing", "plant.a.b.c d") == {}


def test_points_are_as_many_as_asked_for(node):
    for points in (1, 7, 59, 100):
        (found,) = series(node, "plant.feeder1.amps", points=points).values()
        assert len(found) <= points + 1, points
    (means,) = series(node, "plant.feeder1.amps", points=11).values()
    by_minute = {seconds // 60 * 60: [value for at, value in SAMPLES if at // 60 == seconds // 60] for seconds, _ in SAMPLES}
    assert means == [[sum(values) / len(values), seconds] for seconds, values in by_minute.items()]
    (greatest,) = series(node, "consolidateBy(plant.feeder1.amps, 'max')", points=11).values()
    assert greatest == [[float(max(values)), seconds] for seconds, values in by_minute.items()]
    (last,) = series(node, "consolidateBy(plant.feeder1.breaker, 'last')", points=11).values()
    assert {value for value, _ in last} <= {0.0, 1.0} and len(last) == len(by_minute)


def test_names_can_be_browsed(node):
    def find(query):
        """handleMetricsFind of resource_handler.go: times in the query, the pattern in a form."""
        status, answer = ask(node, "metrics/find", {"query": query}, **{"from": str(START), "until": str(START + 600)})
        assert status == 200, answer
        for one in answer:
            assert all(type(one[key]) is int for key in ("leaf", "expandable", "allowChildren"))
        return [(one["text"], one["id"], one["leaf"], one["expandable"], one["allowChildren"]) for one in answer]

    assert find("*") == [("other", "other", 1, 0, 0), ("plant", "plant", 0, 1, 1)]
    # A topic that has others below it is there twice, as in Graphite.
    assert find("plant.f*") == [
        ("feeder1", "plant.feeder1", 0, 1, 1), ("feeder2", "plant.feeder2", 0, 1, 1), ("feeder1", "plant.feeder1", 1, 0, 0),
    ]  # fmt: skip
    assert find("plant.a%2Eb.*") == [("c%20d", "plant.a%2Eb.c%20d", 1, 0, 0)]
    assert find("plant.nothing.*") == []
    # The older front end asks by GET.
    assert [one["text"] for one in ask(node, "metrics/find", query="plant.*.amps")[1]] == ["amps", "amps"]
    assert ask(node, "metrics/expand", query="plant.*.amps") == (200, {"results": ["plant.feeder1.amps", "plant.feeder2.amps"]})


def test_the_query_editor_has_what_it_asks_for(node):
    functions = ask(node, "functions")[1]
    assert set(functions) == {"consolidateBy"}
    for word in functions["consolidateBy"]["params"][1]["options"]:
        assert series(node, f"consolidateBy(other, '{word}')") == {"other": [[4.0, START]]}
    assert re.fullmatch(r"1\.1\.\d+", ask(node, "version")[1])
    assert ask(node, "tags/autoComplete/tags", expr=["a=b"], tagPrefix="x", limit="100") == (200, [])
    assert ask(node, "tags/autoComplete/values", expr=["a=b"], tag="name") == (200, [])


def test_annotations_are_events(node):
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(START + 60))
    status, made = node.request("/v1/history/edits", {"topic": "plant/feeder1/amps", "kind": "annotation", "at": at, "text": "load shed", "why": "note"})
    assert status == 200, made
    # handleEvents of resource_handler.go.
    event = {"id": made["id"], "when": START + 60, "what": "plant/feeder1/amps", "tags": ["plant.feeder1.amps"], "data": "load shed"}
    assert ask(node, "events/get_data", **{"from": str(START), "until": str(START + 600)}) == (200, [event])
    assert ask(node, "events/get_data", tags="plant.feeder1.amps", **{"from": str(START), "until": str(START + 600)})[1] == [event]
    assert ask(node, "events/get_data", tags="plant.feeder2.amps", **{"from": str(START), "until": str(START + 600)})[1] == []
    assert ask(node, "events/get_data", **{"from": str(START + 120), "until": str(START + 600)})[1] == []


def test_what_cannot_be_answered_is_refused(node):
    many = ",".join(map(str, range(65)))
    for words, form in [
        ("function", {"target": "alias(other, 'x')"}),
        ("format", {"target": "other", "format": "png"}),
        ("maxDataPoints", {"target": "other", "maxDataPoints": "0"}),
        ("from", {"target": "other", "from": "yesterday"}),
        ("from", {"target": "other", "from": START + 1, "until": START}),
        ("target", {}),
        ("target", {"target": ["other"] * 65}),
        ("braces", {"target": "{" + many + "}"}),
    ]:
        status, answer = ask(node, "render", form)
        assert status == 400 and words in answer["detail"], (form, status, answer)
    assert ask(node, "metrics/find", {"query": ""})[0] == 400
    assert ask(node, "metrics/find", {})[0] == 400
    imported(node, [line(f"many/t{number}", START, number) for number in range(501)])
    assert len(series(node, "many.t[1-4]*")) == 444
    status, answer = render(node, "many.*")
    assert status == 400 and "too many series" in answer["detail"], answer


ROLES = """
[role.reader]
rules = ["allow read plant/feeder1/#"]
[role.keeper]
rules = ["allow admin $history", "allow read #"]
[role.outsider]
rules = ["allow read elsewhere/#"]
"""


def test_rights_are_those_of_the_history(start_node, tmp_path):
    (tmp_path / "roles.toml").write_text(ROLES)
    users = {name: f"{name}:password-of-{name}" for name in ("reader", "keeper", "outsider")}
    for name, user in users.items():
        tieline("access", "user", "add", name, "--users", tmp_path / "users.toml", "--role", name, input=user.split(":")[1] + "\n")
    node = start_node(more=HISTORY + '[access]\nusers = "users.toml"\nroles = "roles.toml"\nloopback = "closed"\n')
    imported(node, [line(topic, START, 1) for topic in ("plant/feeder1/amps", "plant/feeder2/amps", "secret/level")], users["keeper"])
    ids = lambda user, query: [one["id"] for one in ask(node, "metrics/find", {"query": query}, user)[1]]
    assert ids(users["keeper"], "*") == ["plant", "secret"]
    assert ids(users["reader"], "*") == ["plant"]
    assert ids(users["reader"], "plant.*") == ["plant.feeder1"]
    assert set(series(node, "*.*.*", "plant.*.amps", user=users["keeper"])) == {"plant.feeder1.amps", "plant.feeder2.amps"}
    assert set(series(node, "plant.*.amps", user=users["reader"])) == {"plant.feeder1.amps"}
    for target in ("plant.feeder2.amps", "secret.level"):
        assert render(node, target, user=users["reader"])[0] == 403
    assert render(node, "plant.*.amps", user=users["outsider"])[0] == 403
    assert ask(node, "metrics/find", {"query": "plant.*"}, users["outsider"])[0] == 403
    # The test of a data source asks for nothing of the history; its user must be one.
    assert render(node, "constantLine(100)", user=users["outsider"])[0] == 200
    assert render(node, "constantLine(100)")[0] == 401
    assert render(node, "constantLine(100)", user="reader:wrong")[0] == 401


def test_without_history_it_says_so(start_node):
    node = start_node(SimulatedDevice("one", [("level", "float", {"value": "5"})]), more="[history]\nenabled = false\n")
    assert render(node, "constantLine(100)")[0] == 200
    assert render(node, "test.one.level")[0] == 503
    assert ask(node, "metrics/find", {"query": "*"})[0] == 503


def test_new_samples_are_shown(start_node):
    node = start_node(SimulatedDevice("one", [("level", "float", {"value": "5"})], poll="200ms"), more=HISTORY)

    def found():
        now = int(time.time())
        return series(node, "test.one.level", start=now - 60, end=now + 60)

    until(lambda: found(), lambda: found())
