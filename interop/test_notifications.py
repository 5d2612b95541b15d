"""Notifications of a node: an alarm over MQTT in; webhooks, mails, alerts and messages out; kills, acknowledgements, reloads."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from bus import Sub, publish
from node import tieline
from peers.ports import free_port
from test_alarms import ALARM, ask, wait_alarm, with_rules
from test_notify import SECRET, Hook, alertmanager, authority, hook, post  # noqa: F401 (fixtures)
from waiting import until

CURRENT, HIGH = "plant/f1/current", "high"


def webhook(name, port, more=""):
    return f'[notify.{name}]\nkind = "webhook"\nurl = "http://127.0.0.1:{port}/{name}"\nsecret_file = "hook.secret"\nallow_own = true\n{more}\n'


def mail(name, port):
    keys = f'server = "localhost:{port}"\ntls = "none"\nfrom = "Tieline <node@plant.example>"\nto = ["anna@plant.example"]\n'
    return f'[notify.{name}]\nkind = "smtp"\n{keys}\n'


def route(*steps, more=""):
    """A route whose steps are a name, or a name and a time."""
    shown = ", ".join(f'{{ to = "{to}", after = "{after}" }}' for to, after in (step if isinstance(step, tuple) else (step, "0s") for step in steps))
    return f'[[notify.route]]\nfilter = "plant/#"\ngroup_wait = "0s"\n{more}\nsteps = [{shown}]\n'


@pytest.fixture
def start(start_node, tmp_path):
    """Starts a node with alarms, receivers and routes."""

    def begin(*parts):
        with_rules(tmp_path)
        (tmp_path / "hook.secret").write_text(SECRET + "\n")
        return start_node(more="\n".join([ALARM, *parts]))

    return begin


def receivers(node):
    status, answer = node.request("/v1/notify")
    assert status == 200, answer
    return {receiver["name"]: receiver for receiver in answer["receivers"]}


def samples(node, beginning):
    return [line for line in node.request("/metrics")[1].splitlines() if line.startswith(beginning)]


def test_a_webhook_a_mailbox_and_a_topic_are_told_and_told_again_when_it_is_over(start, hook, post):  # noqa: F811
    server, box = post()
    node = start(webhook("duty", hook.port), mail("post", server.port), '[notify.board]\nkind = "mqtt"\n', route("duty", "post", "board"))
    with Sub(node, "$notify/#", qos=1) as seen:
        publish(node, CURRENT, "412.5")
        seq = wait_alarm(node, CURRENT, HIGH)["seq"]
        raised = seen.wait("$notify/board", kind="raised", to="board", node="test")
        assert raised["alarms"][0].items() >= {"topic": CURRENT, "kind": HIGH, "seq": seq, "value": 412.5, "text": "overload"}.items()
        until(lambda: hook.kinds() == ["raised"] and box.letters, node.process.said)
        path, message = hook.taken[0]
        assert (path, message["alarms"]) == ("/duty", raised["alarms"])
        _, _, letter = box.letters[0]
        assert letter["subject"] == f"[high] {CURRENT}: overload"
        assert letter["x-tieline-key"].startswith(f"{seq}.")
        publish(node, CURRENT, "1")
        seen.wait("$notify/board", kind="resolved")
        until(lambda: hook.kinds() == ["raised", "resolved"] and len(box.letters) == 2, node.process.said)
    assert hook.refused == [], "each message is signed"
    until(lambda: all(receiver["waiting"] == 0 for receiver in receivers(node).values()), lambda: receivers(node))
    assert {name: receiver["kind"] for name, receiver in receivers(node).items()} == {"duty": "webhook", "post": "smtp", "board": "mqtt"}
    for kind in ("webhook", "smtp", "mqtt"):
        assert samples(node, f'tieline_notifications_total{{kind="{kind}",end="delivered"}}') == [
            f'tieline_notifications_total{{kind="{kind}",end="delivered"}} 2'
        ]
    assert samples(node, "tieline_notifications_waiting") == ["tieline_notifications_waiting 0"]


def test_an_alert_of_a_node_stands_at_alertmanager(start, alertmanager):  # noqa: F811
    url, alerts = alertmanager
    node = start(f'[notify.oncall]\nkind = "alertmanager"\nurl = "{url}"\n', route("oncall"))
    publish(node, CURRENT, "450")
    until(lambda: alerts(), node.process.said)
    assert alerts()[0]["labels"].items() >= {"alertname": HIGH, "topic": CURRENT, "priority": "high", "node": "test"}.items()
    publish(node, CURRENT, "1")
    until(lambda: not alerts(), node.process.said)


def test_a_kill_between_the_alarm_and_the_delivery_loses_nothing(start):
    port = free_port()
    node = start(webhook("duty", port), route("duty"))
    publish(node, CURRENT, "450", "-r")
    failed = until(lambda: receivers(node)["duty"]["last_failure"], node.process.said)
    assert failed["detail"] and receivers(node)["duty"]["failing_since"], failed
    node.process.kill()
    hook = Hook()  # noqa: F811
    try:
        node.config.write_text(node.config.read_text().replace(f":{port}/", f":{hook.port}/"))
        node.start()
        until(lambda: hook.kinds() == ["raised"], node.process.said)
        seq = wait_alarm(node, CURRENT, HIGH)["seq"]
        key = hook.taken[0][1]["key"]
        assert key.startswith(f"{seq}.") and key.endswith(".0"), key
        # It is told once: after the next start, there is nothing to tell.
        until(lambda: receivers(node)["duty"]["waiting"] == 0, lambda: receivers(node))
        node.process.kill()
        node.start()
        publish(node, CURRENT, "1", "-r")
        until(lambda: "resolved" in hook.kinds(), node.process.said)
        assert {message["key"] for _, message in hook.taken} == {key, f"{seq}.resolved"}
    finally:
        hook.close()


def test_an_acknowledgement_stops_the_later_step(start, hook):  # noqa: F811
    node = start(webhook("duty", hook.port), webhook("chief", hook.port), route("duty", ("chief", "2s")))
    other = "plant/f2/current"
    publish(node, CURRENT, "450")
    until(lambda: hook.kinds() == ["raised"], node.process.said)
    seq = wait_alarm(node, CURRENT, HIGH)["seq"]
    assert ask(node, "ack", (CURRENT, HIGH, seq))[0]["status"] == "done"
    # The next alarm goes the same way, later: when the chief is told of it, the first one's step would have been due.
    publish(node, other, "450")
    told = lambda path: [message["alarms"][0]["topic"] for to, message in hook.taken if to == path]  # noqa: E731
    until(lambda: told("/chief"), node.process.said)
    assert (told("/duty"), told("/chief")) == ([CURRENT, other], [other])


def test_a_reload_changes_who_is_told(start, hook):  # noqa: F811
    node = start()
    assert receivers(node) == {} and samples(node, "tieline_notif") == []
    publish(node, CURRENT, "450")
    wait_alarm(node, CURRENT, HIGH)
    # An alarm that stands begins on a route that is new.
    node.reload(more=ALARM + webhook("duty", hook.port) + route("duty"))
    until(lambda: [path for path, _ in hook.taken] == ["/duty"], node.process.said)
    node.reload(more=ALARM + webhook("chief", hook.port) + route("chief"))
    until(lambda: [path for path, _ in hook.taken] == ["/duty", "/chief"], node.process.said)
    refused = node.reload(more=ALARM + route("nobody"), check=False)
    assert refused.returncode != 0 and "notify.route[0].steps[0].to" in refused.stderr, refused.stderr
    assert set(receivers(node)) == {"chief"}, "nothing has changed"
    publish(node, CURRENT, "1")
    until(lambda: hook.kinds()[2:] == ["resolved"] and hook.taken[2][0] == "/chief", node.process.said)


def test_a_webhook_gets_heartbeats_without_a_route(start, hook):  # noqa: F811
    node = start(webhook("watch", hook.port, 'heartbeat = "10s"'))
    until(lambda: hook.kinds(), node.process.said)
    path, message = hook.taken[0]
    assert (path, message["kind"], message["node"], message["alarms"]) == ("/watch", "heartbeat", "test", [])
    until(lambda: receivers(node)["watch"]["delivered"], lambda: receivers(node))


def rota(folder, *shifts):
    """A calendar of persons, and of days from today on."""
    day = lambda days: f"{datetime.now(UTC) + timedelta(days=days):%Y%m%d}"  # noqa: E731
    events = [f"BEGIN:VEVENT\r\nSUMMARY:{who}\r\nDTSTART;VALUE=DATE:{day(first)}\r\nDTEND;VALUE=DATE:{day(end)}\r\nEND:VEVENT\r\n" for who, first, end in shifts]
    (folder / "rota.ics").write_text(f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{''.join(events)}END:VCALENDAR\r\n")


def on_call_mail(port):
    return mail("shift", port).replace('"anna@plant.example"', '"{on_call}@plant.example"').replace("[notify.shift]\n", '[notify.shift]\non_call = "rota.ics"\n')


def test_the_person_on_call_is_told_and_an_empty_shift_falls_to_the_next_step(start, hook, post, tmp_path):  # noqa: F811
    server, box = post()
    # From yesterday on, so that midnight may pass.
    rota(tmp_path, ("anna", -1, 3), ("bo", -1, 3), ("carla", 4, 5))
    parts = on_call_mail(server.port), webhook("chief", hook.port), route("shift", ("chief", "10m"))
    node = start(*parts)
    publish(node, CURRENT, "450")
    until(lambda: box.letters, node.process.said)
    assert box.letters[0][0] == ["anna@plant.example", "bo@plant.example"]
    shown = [json.loads(line) for line in tieline("notify", "on-call", "--http", node.http, "--json").stdout.splitlines()]
    assert [(one["receiver"], [shift["who"] for shift in one["now"]], one["next"]["who"]) for one in shown] == [("shift", [["anna"], ["bo"]], ["carla"])]
    assert len(shown[0]["holes"]) == 2 and [overlap["who"] for overlap in shown[0]["overlaps"]] == [["anna", "bo"]]
    later = tieline("notify", "on-call", "--at", shown[0]["holes"][0]["from"], "--http", node.http).stdout.splitlines()
    assert [line.split()[1] for line in later[1:]] == ["next", "hole", "hole"], later
    assert node.request("/v1/notify/on-call?at=never")[0] == 400
    # The last shift was over before: the chief is told now, and not after ten minutes.
    rota(tmp_path, ("anna", -9, -8))
    checked = tieline("config", "check", node.config)
    assert "notify.shift.on_call: nobody is on call from" in checked.stdout, checked.stdout
    node.reload(more="\n".join([ALARM, *parts]))
    other = "plant/f2/current"
    publish(node, other, "450")
    until(lambda: [(path, message["alarms"][0]["topic"]) for path, message in hook.taken] == [("/chief", other)], node.process.said)
    assert len(box.letters) == 1
    found = receivers(node)["shift"]
    assert found["nobody"] and found["failing_since"] is None, found
    assert samples(node, 'tieline_notifications_total{kind="smtp",end="nobody"}') == ['tieline_notifications_total{kind="smtp",end="nobody"} 1']
    assert tieline("notify", "test", "shift", "--http", node.http, check=False).stdout == "shift: not delivered: nobody is on call\n"
    (tmp_path / "rota.ics").write_text("BEGIN:VCALENDAR\nBEGIN:VTODO\n")
    refused = node.reload(more="\n".join([ALARM, *parts]), check=False)
    assert refused.returncode != 0 and "rota.ics:2" in refused.stderr and "VEVENT" in refused.stderr, refused.stderr


def test_the_command_line_lists_receivers_and_sends_a_test(start, hook):  # noqa: F811
    own = webhook("own", hook.port).replace("allow_own = true\n", "")
    node = start(webhook("duty", hook.port), own, route("duty"))
    tested = tieline("notify", "test", "duty", "--http", node.http)
    assert (tested.stdout, hook.kinds()) == ("duty: delivered\n", ["test"])
    refused = tieline("notify", "test", "own", "--http", node.http, "--json", check=False)
    answer = json.loads(refused.stdout)
    assert refused.returncode == 1 and answer["delivered"] is False and "127.0.0.1" in answer["detail"], answer
    unknown = tieline("notify", "test", "chief", "--http", node.http, check=False)
    assert unknown.returncode != 0 and "there is no receiver chief" in unknown.stderr, unknown.stderr
    assert node.request("/v1/notify/test", {"to": "duty", "x": 1})[0] == 422
    listed = [json.loads(line) for line in tieline("notify", "list", "--http", node.http, "--json").stdout.splitlines()]
    assert [(one["name"], one["failing_since"] is None, one["waiting"]) for one in listed] == [("duty", True, 0), ("own", False, 0)]
    table = tieline("notify", "--http", node.http).stdout.splitlines()
    assert table[0].split()[:3] == ["receiver", "kind", "state"] and [line.split()[2] for line in table[1:]] == ["ok", "failing"]
    assert samples(node, "tieline_notification_receiver_failing") == [
        'tieline_notification_receiver_failing{receiver="duty"} 0',
        'tieline_notification_receiver_failing{receiver="own"} 1',
    ]
