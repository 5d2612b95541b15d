"""Calls of the client libraries, each with both languages and a real node: what they change, what they say, and what they lack."""

import csv
import hashlib
import io
import json
import re
import tarfile
import typing
import urllib.request
from datetime import UTC, datetime, timedelta

import callers
import pytest
import typescript
from bus import publish
from callers import LANGUAGES, caller, python_calls, snake, typescript_calls
from nats_peer import SERVER
from node import tieline
from processes import HERE
from simulated import SimulatedDevice
from test_alarms_api import ALARM, BREAKER, CURRENT, RULES, wait_alarm
from test_boards import board
from test_joining import Centre
from test_locks import Program
from test_notifications import on_call_mail, rota, route, webhook
from test_notifications import start  # noqa: F401 (a fixture)
from test_notify import authority, hook, post  # noqa: F401 (fixtures)
from test_users import Administered
from tieline import client
from waiting import until

SDK = HERE.parent / "sdk"
ROOM = [("valve", "float", {"value": "5", "writable": "true", "min": "0", "max": "100"}), ("open", "bool", {"value": "true"})]
LOG = '[[topic]]\nfilter = "site/log"\nkeep = { events = 10 }\n'
DIAGRAM = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><title>One</title><text data-topic="test/room/valve">-</text></svg>'


@pytest.fixture(params=LANGUAGES)
def connect(request):
    """Makes clients of one language."""
    if request.param == "typescript":
        if not typescript.are_installed():
            pytest.skip("the TypeScript packages are not installed")
        request.getfixturevalue("built")
    made = []

    def make(url, **login):
        made.append(caller(request.param, url, **login))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def built():
    callers.build()


def refused(call, *words, status, reason="", kind=client.Refused, **options):
    with pytest.raises(kind) as error:
        call(*words, **options)
    assert error.value.status == status and getattr(error.value, "reason", "") == reason, error.value


def test_devices_and_what_stands_in_their_way(start_node, connect):
    device = SimulatedDevice("room", ROOM, poll="100ms")
    node = start_node(device)
    node.wait_state(device, "online")
    call = connect(node.http)
    assert [one["topic"] for one in call("devices", order="worst", limit=1)] == ["test/room"]
    refused(call, "devices", order="best", status=400)
    tag = call("place_tag", "test/room", "hold", "crew 3", requester="anna")
    assert (tag["owner"], tag["topic"]) == ("anna", "test/room") and call("tags", "test/room/valve") == call("tags") == [tag]
    refused(call, "place_tag", "no/such", "hold", "crew 3", status=404, reason="unknown_topic")
    refused(call, "command", "test/room/valve", 40, status=409, reason="tagged")
    call("lift_tag", tag["id"], requester="anna")
    refused(call, "lift_tag", tag["id"], status=404, reason="unknown_tag")
    assert call("tags") == call("overrides") == call("reservations") == call("locks") == []
    assert tieline("override", "on", "test/*", "--http", node.http).returncode == 0
    assert [one["pattern"] for one in call("overrides", "test/room/valve")] == ["test/*"] and call("overrides", "other") == []
    tieline("reserve", "test/room", "--task", "night", "--for", "8h", "--as", "anna", "--http", node.http)
    assert [(one["task"], one["slots"][0]["device"]) for one in call("reservations", "test/room")] == [("night", "test/room")]
    with Program(node, "one") as one:
        number = one.acquire("plant/writer")["number"]
        (lock,) = call("locks")
        assert (lock["client"], lock["number"], lock["waiting"]) == ("one", number, 0)
        call("release_lock", "plant/writer")
        assert call("locks") == []
        refused(call, "release_lock", "plant/writer", status=404)


def test_the_history_is_asked_corrected_and_filled(start_node, connect):
    node = start_node(more=LOG)
    call = connect(node.http)
    then = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    at = lambda minutes: (then + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")  # noqa: E731
    samples = [{"topic": "pump/on", "t": at(minute), "v": value, "q": "good"} for minute, value in ((0, True), (2, False), (6, True))]
    assert call("import_history", samples) == {"status": "ok", "samples": 3, "too_old": 0}
    span = {"start": at(0), "end": at(8)}
    states = call("history_states", "pump/on", **span)
    assert {(one["value"], one["seconds"], one["share"], one["count"]) for one in states} == {(True, 240, 0.5, 2), (False, 240, 0.5, 1)}
    assert len(call("history_states", ["pump/on", "no/such"], every="2m", **span)) == 4
    with urllib.request.urlopen(call("csv_url", "pump/on", **span), timeout=20) as answer:
        assert [row["value"] for row in csv.DictReader(io.StringIO(answer.read().decode()))] == ["true", "false", "true"]
    refused(call, "history_states", "pump/on", every="soon", status=400)
    edit = call("edit", "pump/on", "value", "the meter was off", at=at(2), value=True)
    note = call("annotate", "pump/on", "repaired", "log book", start=at(2), end=at(3))
    assert [one["id"] for one in call("edits", "pump/#")] == [note["id"], edit["id"]]
    assert [one["text"] for one in call("edits", "pump/#", kind="annotation", active=True)] == ["repaired"]
    assert {one["value"] for one in call("history_states", "pump/on", **span)} == {True}
    assert {one["value"] for one in call("history_states", "pump/on", raw=True, **span)} == {True, False}
    assert call("undo", edit["id"], "it was right")["undone"]["why"] == "it was right"
    refused(call, "undo", 4711, "nothing", status=404)
    stats = call("history_stats", "pump/#", limit=1)
    assert stats["topics"][0]["topic"] == "pump/on" and stats["topic_count"] == 1
    assert call("compact_history") == int(then.date() < datetime.now(UTC).date())
    assert call("delete_history", "pump/on", "a test", start=at(1), end=at(3))["samples"] == 1
    assert call("history_states", "pump/on", **span)[0]["share"] == 1
    for text in ("open", "closed", "open"):
        call("publish", "site/log", text, retain=True)
    events = call("events", "site/log", limit=2)
    assert [(one["value"], one["kind"]) for one in events] == [("closed", "text"), ("open", "text")]
    assert [one["seq"] for one in call("events", "site/log", after=events[0]["seq"])] == [events[1]["seq"]]


def test_a_node_is_operated(start_node, connect, tmp_path):
    device = SimulatedDevice("room", ROOM, poll="100ms")
    node = start_node(device)
    node.wait_state(device, "online")
    call = connect(node.http)
    board(tmp_path, "one", "test/room/valve")
    (tmp_path / "diagrams").mkdir()
    (tmp_path / "diagrams" / "one.svg").write_text(DIAGRAM)
    more = SimulatedDevice("hall", ROOM, poll="100ms")
    node.configure(device, more)
    done = call("reload")
    assert (done["status"], done["devices"]["added"], done["devices"]["unchanged"]) == ("ok", 1, 1)
    assert call("reload_views") == {"status": "ok", "views": 0, "derived": 0}
    node.config.write_text("[node]\nnaem = 1\n")
    refused(call, "reload", status=422)
    assert [(one["name"], one["panels"]) for one in call("boards")] == [("one", 1)]
    assert call("board", "one")["panels"][0]["topics"] == ["test/room/valve"]
    refused(call, "board", "two", status=404)
    assert [one["name"] for one in call("diagrams")] == ["one"]
    assert "test/room/valve" in call("diagram", "one")
    refused(call, "diagram", "two", status=404)
    assert call("derived") == []
    assert until(lambda: call("busiest", limit=1), "there is a window")[0]["updates"] > 0
    clock = call("clock")
    assert clock["in_doubt"] is False and call("confirm_clock", clock["time"]) is None
    refused(call, "confirm_clock", "2020-01-01T00:00:00Z", status=409)
    refused(call, "cluster", status=404)
    assert call("sites") == []
    refused(call, "fabric_sites", status=409)


def test_boards_are_made_and_changed_on_a_condition(start_node, connect):
    call = connect(start_node().http)
    text = 'title = "One"\n[[panel]]\nkind = "text"\ntext = "a"\n'
    assert call("check_board", "one", text)["title"] == "One" and call("boards") == []
    refused(call, "check_board", "one", "titel = 1\n", status=422)
    refused(call, "put_board", "one", text, status=412)
    first = call("put_board", "one", text, if_absent=True)
    refused(call, "put_board", "one", text, status=412, if_absent=True)
    second = call("put_board", "one", text.replace("One", "Two"), if_version=first["version"])
    refused(call, "put_board", "one", text, status=412, if_version=first["version"])
    assert second["title"] == "Two" and 'title = "Two"' in call("board_file", "one")
    refused(call, "delete_board", "one", status=412, if_version=first["version"])
    call("delete_board", "one", if_version=second["version"])
    refused(call, "board", "one", status=404)


def test_a_backup_is_complete_or_there_is_none(start_node, connect, tmp_path):
    node = start_node()
    long = "/".join(["a-name-that-is-long"] * 12)
    node.set(long, "1")
    call, file = connect(node.http), tmp_path / "plant.tar"
    made = call("backup", str(file))
    assert call("check_backup", str(file)) == made and made["files"] > 0
    checked = tieline("restore", file, "--check").stdout
    assert checked.startswith(f"ok: {made['files']} files"), checked
    whole = file.read_bytes()
    changed = whole.replace(b"a-name-that-is-long", b"a-name-that-is-wrong"[:-1])
    wrong = {"ends? (too early|of data)": whole[: len(whole) // 2], "has no backup.json": bytes(1024), "is not what was stored": changed}
    for why, content in wrong.items():
        file.write_bytes(content)
        with pytest.raises(client.TielineError, match=f"the backup cannot be used: .*{why}"):
            call("check_backup", str(file))
        assert tieline("restore", file, "--check", check=False).returncode != 0
    names = ["history/" + "long/" * 30 + "file", "short"]
    contents = dict(zip(names, (b"x" * 1000, b"")))
    listed = [{"name": name, "bytes": len(told), "sha256": hashlib.sha256(told).hexdigest()} for name, told in contents.items()]
    manifest = {"version": 1, "time": "2026-11-27T04:57:53.610Z", "files": listed}
    with tarfile.open(tmp_path / "long.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        for name, told in {**contents, "backup.json": json.dumps(manifest).encode()}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(told)
            archive.addfile(entry, io.BytesIO(told))
    long = call("check_backup", str(tmp_path / "long.tar"))
    assert (long["files"], long["bytes"]) == (2, 1000)
    node.process.kill()
    with pytest.raises(client.Unreachable):
        call("backup", str(file))
    assert file.read_bytes() == content and not list(tmp_path.glob("*.part")), "what was there stays"


def test_alarms_are_taken_out_of_service_reset_noted_and_rated(start_node, connect, tmp_path):
    (tmp_path / "alarms.csv").write_text(RULES)
    node = start_node(more=ALARM)
    call = connect(node.http)
    assert [(rule["topic"], rule["kind"]) for rule in call("alarm_rules")][:2] == [("plant/+/current", "high"), ("plant/+/breaker", "state")]
    publish(node, CURRENT[0], "450")
    publish(node, BREAKER[0], "false")
    tripped = [wait_alarm(node, BREAKER)]
    wait_alarm(node, CURRENT)
    assert call("acknowledge", tripped)[0]["status"] == "done"
    assert call("reset_alarms", tripped)[0]["reason"] == "still_active"
    publish(node, BREAKER[0], "true")
    wait_alarm(node, BREAKER, active=False)
    assert call("note_alarms", tripped, "seen on site")[0]["status"] == "done"
    assert call("reset_alarms", tripped)[0]["status"] == "done"
    assert call("alarms_out_of_service", tripped, "the switch is replaced")[0]["status"] == "done"
    assert call("alarm_counts")["out_of_service"] == 1
    assert call("alarms_in_service", tripped)[0]["status"] == "done"
    assert call("shelve", tripped, "1h", "a test")[0]["status"] == call("unshelve", tripped)[0]["status"] == "done"
    changes = lambda: [row["transition"] for row in call("alarm_journal", BREAKER[0])]  # noqa: E731
    until(lambda: changes()[-6:] == ["noted", "reset", "out_of_service", "in_service", "shelved", "unshelved"], changes)
    report = call("alarm_report", "plant/#", start="1d", operators=3)
    assert (report["operators"], report["annunciated"]) == (3, 2) and {one["rating"] for one in report["measures"]} >= {"good"}
    refused(call, "alarm_report", "#", start="never", status=400)


def test_users_come_and_go(tmp_path, connect):
    with Administered(tmp_path) as node:
        ada = connect(node.http, user="ada", password="password-ada")
        assert ada("add_user", "temp", ["works"], password="password-temp")["roles"] == ["works"]
        refused(ada, "add_user", "temp", ["works"], status=409)
        assert "temp" in [user["user"] for user in ada("users")] and "works" in [role["role"] for role in ada("roles")]
        assert ada("set_roles", "temp", ["VIEWER"])["roles"] == ["VIEWER"]
        assert ada("set_password", "temp", "another-password-temp")["by"] == "password"
        why = ada("why", "temp", "publish", "site/temp/a")
        assert why["allowed"] is False and {rule["role"] for rule in why["rules"]} == {"VIEWER"}
        assert ada("why", "anna", "publish", "site/anna/a", client="one")["allowed"] is True
        assert ada("disable_user", "temp")["disabled"] is True
        temp = connect(node.http, user="temp", password="another-password-temp")
        refused(temp, "me", status=401, kind=client.Denied)
        assert ada("enable_user", "temp")["disabled"] is False
        assert temp("me")["roles"] == ["VIEWER"]
        refused(temp, "users", status=403, kind=client.Denied)
        node.log_in("boss")
        assert [login["user"] for login in ada("logins", "boss", limit=10)] == ["boss"]
        assert (ada("end_logins", "boss"), ada("logins", "boss")) == (1, [])
        # Each request has the password: none of them is of a login.
        refused(ada, "end_other_logins", status=409)
        ada("remove_user", "temp")
        refused(ada, "remove_user", "temp", status=404)


def test_receivers_are_tested_and_say_who_is_on_call(start, connect, hook, post, tmp_path):  # noqa: F811
    server, _ = post()
    rota(tmp_path, ("anna", -1, 3), ("carla", 4, 5))
    node = start(on_call_mail(server.port), webhook("chief", hook.port), route("shift", ("chief", "10m")))
    call = connect(node.http)
    assert {one["name"]: one["kind"] for one in call("notifications")["receivers"]} == {"shift": "smtp", "chief": "webhook"}
    assert call("test_notification", "chief")["delivered"] is True and hook.taken
    refused(call, "test_notification", "nobody", status=404)
    (shown,) = call("on_call")["receivers"]
    assert (shown["now"][0]["who"], shown["next"]["who"]) == (["anna"], ["carla"])
    (later,) = call("on_call", shown["next"]["from"])["receivers"]
    assert later["now"][0]["who"] == ["carla"]
    refused(call, "on_call", "never", status=400)


@pytest.mark.skipif(SERVER is None, reason="no nats-server: .ci/nats builds it")
def test_sites_are_added_invited_and_revoked(tmp_path, connect):
    centre = Centre(tmp_path)
    try:
        call = connect(centre.node.http)
        assert call("sites", order="worst", limit=10) == call("fabric_sites") == []
        assert call("add_site", "west")["state"] == "invited"
        refused(call, "add_site", "west", status=409)
        token = call("invite_site", "west", valid_seconds=3600)
        assert (token["name"], bool(token["token"])) == ("west", True)
        centre.join(token["token"], "west")
        assert [(site["name"], site["state"]) for site in call("fabric_sites")] == [("west", "active")]
        assert call("revoke_site", "west")["state"] == "revoked"
    finally:
        centre.stop()


#: What both clients leave to others: pages of the console, databases' protocols, and tools of the command line.
ELSEWHERE = {
    "GET /graphite/events/get_data", "GET /graphite/functions", "GET /graphite/metrics/expand", "POST /graphite/metrics/expand",
    "GET /graphite/metrics/find", "POST /graphite/metrics/find", "GET /graphite/render", "POST /graphite/render",
    "GET /graphite/tags/autoComplete/tags", "GET /graphite/tags/autoComplete/values", "GET /graphite/version",
    "GET /login", "POST /login", "GET /login/callback", "GET /login/provider", "POST /login/provider-logout", "POST /logout",
    "GET /metrics", "GET /metrics/device", "POST /v1/join", "POST /v1/login/device", "POST /v1/login/device/token", "GET /v1/openapi.json",
    "GET /v1/trace/{}",
}  # fmt: skip
#: Sources of the calls, and how each language says them.
SOURCES = {
    "python": [*(SDK / "python/tieline/client").glob("*.py"), SDK / "python/tieline/control/__init__.py"],
    "typescript": [SDK / "typescript/src" / f"{name}.ts" for name in "access alarms client control field live operation records".split()],
}
REQUEST = re.compile(r'[.\s](\w+)(?:<[^(]*?>)?\(\s*(?:"([A-Z]+)",\s*)?f?["`](/(?:v1|healthz)[^"`]*)["`](\s*\)|\s*\+)?')
METHODS = {"change": "POST", "_act": "POST", "act": "POST", "_done": "POST", "done": "POST", "granted": "POST", "_call": "POST", "call": "POST"}


def requests(sources):
    """Methods and paths that sources ask, as in `GET /v1/topics/{}`."""
    found = set()
    for source in sources:
        for call, method, path, ends in REQUEST.findall(source.read_text()):
            if call in ("ask", "_ask"):
                method = "GET" if ends else "POST"
            path = re.sub(r"\$?\{.*?\}", "{}", path)
            found.add(f"{method or METHODS.get(call, 'GET')} {path}")
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_client_has_each_request_or_says_that_it_has_not(start_node, language):
    paths = start_node().request("/v1/openapi.json")[1]["paths"]
    served = {f"{method.upper()} {re.sub(r'{.*?}', '{}', path)}" for path, methods in paths.items() for method in methods}
    asked = requests(SOURCES[language])
    assert asked <= served, asked - served
    assert served - asked == ELSEWHERE, (sorted(served - asked - ELSEWHERE), sorted(ELSEWHERE - (served - asked)))


def test_both_languages_have_the_same_calls(built):
    of_typescript = {snake(name) for name in typescript_calls()}
    # Callbacks are a loop over `subscribe` in Python.
    assert of_typescript - python_calls() == {"on"} and python_calls() <= of_typescript


def test_each_call_is_tested():
    sources = [HERE / name for name in ("test_client_calls.py", "test_python_client.py", "peers/client.mjs")]
    words = set(re.findall(r"\w+", "".join(source.read_text() for source in sources)))
    assert python_calls() <= words, python_calls() - words


@pytest.mark.parametrize("page, calls", [("python", python_calls), ("typescript", typescript_calls)])
def test_each_call_is_in_the_table_of_its_page(built, page, calls):
    rows = [line for line in (SDK / page / "README.md").read_text().splitlines() if line.startswith("| `")]
    listed = set(re.findall(r"`(\w+)\(", "".join(row.split(" | ")[0] for row in rows)))
    assert calls() <= listed, calls() - listed


def test_the_types_of_answers_are_those_of_the_node(start_node):
    schemas = start_node().request("/v1/openapi.json")[1]["components"]["schemas"]
    typed = {name: kind for name in client.__all__ if typing.is_typeddict(kind := getattr(client, name))}
    text = "".join((SDK / "typescript/src" / f"{name}.ts").read_text() for name in "access alarms field operation records".split())
    assert len(typed) > 20 and typed.keys() <= schemas.keys(), typed.keys() - schemas.keys()
    for name, kind in typed.items():
        properties, required = schemas[name]["properties"].keys(), set(schemas[name].get("required", ()))
        hints = typing.get_type_hints(kind, include_extras=True)
        sure_of_python = {member for member, hint in hints.items() if typing.get_origin(hint) is not typing.NotRequired}
        body = re.search(rf"export interface {name} \{{\n(.*?)\n\}}", text, re.S)[1]
        members = dict(re.findall(r"^  (\w+)(\??):", body, re.M))
        sure = {member for member, optional in members.items() if not optional}
        for all_of, sure_of in ((hints.keys(), sure_of_python), (members.keys(), sure)):
            assert all_of <= properties and sure_of <= required, (name, all_of - properties, sure_of - required)
