"""Notifications: webhooks whose signature is checked, mails at aiosmtpd, alerts at Alertmanager; receivers that fail, and kills."""

import email
import hashlib
import hmac
import json
import os
import re
import shutil
import ssl
import subprocess
import threading
import urllib.request
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from authority import Authority
from peers.ports import free_port
from processes import HERE, Lines
from waiting import until

SECRET = "a secret of two"


@pytest.fixture(scope="module")
def deliver():
    """The engine with its senders: an example of `node/senders`."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("there is no cargo that builds the example")
    words = ["--quiet", "--locked", "--offline", "-p", "tieline-senders", "--example", "deliver"]
    done = subprocess.run([cargo, "build", *words], cwd=HERE.parent, capture_output=True, text=True, timeout=2400)
    assert done.returncode == 0, done.stderr
    return Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "debug" / "examples" / "deliver"


@pytest.fixture
def start(deliver, tmp_path):
    """Starts it with receivers by name; the file of what outlives a restart is always the same."""
    started = []

    def begin(*standing, **receivers):
        process = Lines([deliver, tmp_path / "state", json.dumps(receivers)])
        started.append(process)
        for alarm in [*standing, "start"]:
            process.send(alarm)
        return process

    yield begin
    for process in started:
        process.stop()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority")).issue("mail", names="DNS:localhost")


class Hook:
    """A program behind a webhook: it checks the signature, and answers what `statuses` has, then 204."""

    def __init__(self, *statuses):
        self.statuses, self.taken, self.refused = list(statuses), [], []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802
                body = self.rfile.read(int(self.headers["content-length"]))
                status = hook.statuses.pop(0) if hook.statuses else 204
                self.send_response(status)
                if status == 302:
                    self.send_header("location", f"http://127.0.0.1:{hook.port}/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()
                signed = f"{self.headers['x-tieline-time']}.".encode() + body
                expect = "sha256=" + hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
                is_signed = hmac.compare_digest(expect, self.headers["x-tieline-signature"] or "")
                message = json.loads(body)
                assert message["key"] == self.headers["x-tieline-key"]
                (hook.taken if is_signed and status < 300 else hook.refused).append((self.path, message))

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def kinds(self):
        return [message["kind"] for _, message in self.taken]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def hook():
    hook = Hook()
    yield hook
    hook.close()


def webhook(hook, tmp_path, **fields):
    secret = tmp_path / "secret"
    secret.write_text(SECRET + "\n")
    return {"kind": "webhook", "url": f"http://127.0.0.1:{hook.port}/in", "secret_file": str(secret), "own": True, **fields}


def said(process, *words):
    def line():
        return next((line for line in process.lines if all(word in line for word in words)), None)

    return until(line, process.said)


def counts(process, **expect):
    """Waits until messages have ended so, and not otherwise: `webhook_delivered=2`."""
    words = sorted((*name.rsplit("_", 1), count) for name, count in expect.items())
    line = "counts [" + ", ".join(f'("{kind}", "{end}", {count})' for kind, end, count in words) + "]"

    def asked():
        process.send("counts")
        return line in process.lines[-3:]

    until(asked, process.said)


def test_a_webhook_has_signed_json_of_what_is_raised_and_what_has_returned(start, hook, tmp_path):
    node = start(duty=webhook(hook, tmp_path))
    node.send("calling site/a/current 12")
    until(lambda: hook.kinds() == ["raised"], node.said)
    path, message = hook.taken[0]
    alarm = message["alarms"][0]
    assert (path, message["to"], message["node"], message["total"]) == ("/in", "duty", "test", 1)
    assert message["key"].startswith("12.") and message["key"].endswith(".0")
    fields = {"topic": "site/a/current", "kind": "high", "seq": 12, "priority": "high", "severity": 700, "value": 412.0, "count": 3}
    assert fields.items() <= alarm.items()
    node.send("returned site/a/current 12")
    until(lambda: hook.kinds() == ["raised", "resolved"], node.said)
    node.send("test duty")
    until(lambda: hook.kinds() == ["raised", "resolved", "test"], node.said)
    assert hook.refused == []


def test_heartbeats_come_while_the_bus_turns(start, hook, tmp_path):
    node = start(watch=webhook(hook, tmp_path, heartbeat_ms=1), other=webhook(hook, tmp_path))
    beats = lambda: [message for _, message in hook.taken if message["kind"] == "heartbeat"]  # noqa: E731
    until(lambda: len(beats()) >= 3, node.said)
    assert {(beat["to"], beat["node"], beat["total"], len(beat["alarms"])) for beat in beats()} == {("watch", "test", 0, 0)}
    assert len({beat["key"] for beat in beats()}) == len(beats()) and hook.refused == []
    node.send("halt")
    node.send("test other")
    until(lambda: "test" in hook.kinds(), node.said)
    # One was on its way; many would be due while more tests arrive.
    at_rest = len(beats())
    for _ in range(20):
        node.send("test other")
    until(lambda: hook.kinds().count("test") == 21, node.said)
    assert len(beats()) <= at_rest + 1
    node.send("go")
    until(lambda: len(beats()) > at_rest + 3, node.said)


def test_a_heartbeat_that_fails_is_not_repeated(start, hook, tmp_path):
    hook.statuses = [503, 503]
    node = start(watch=webhook(hook, tmp_path, heartbeat_ms=20))
    until(lambda: hook.taken, node.said)
    said(node, "a heartbeat has not arrived", "it answers 503")
    keys = [message["key"] for _, message in [*hook.refused, *hook.taken]]
    assert len(hook.refused) == 2 and len(set(keys)) == len(keys), keys
    counts(node)


def test_a_webhook_with_another_secret_is_not_what_it_says(start, hook, tmp_path):
    fields = webhook(hook, tmp_path)
    (tmp_path / "secret").write_text("another secret\n")
    node = start(duty=fields)
    node.send("test duty")
    until(lambda: hook.refused, node.said)
    assert hook.taken == []


def test_a_webhook_is_tried_again_and_never_redirected(start, hook, tmp_path):
    hook.statuses = [503, 302]
    node = start(duty=webhook(hook, tmp_path))
    node.send("calling a 1")
    until(lambda: hook.kinds() == ["raised"], node.said)
    assert [path for path, _ in hook.refused + hook.taken] == ["/in"] * 3
    assert len({message["key"] for _, message in hook.refused + hook.taken}) == 1
    counts(node, webhook_delivered=1)
    said(node, "it answers 503")
    said(node, "it answers 302")


def test_a_webhook_that_will_never_take_a_message_is_not_asked_again(start, hook, tmp_path):
    hook.statuses = [400]
    node = start(duty=webhook(hook, tmp_path))
    node.send("calling a 1")
    said(node, "it answers 400")
    node.send("calling b 2")
    until(lambda: hook.kinds() == ["raised"], node.said)
    counts(node, webhook_delivered=1, webhook_refused=1)
    assert [message["alarms"][0]["topic"] for _, message in hook.refused + hook.taken] == ["a", "b"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "0.0.0.0", "[::1]"])
def test_a_webhook_does_not_call_the_machine_itself_unless_it_may(start, hook, tmp_path, host):
    node = start(duty=webhook(hook, tmp_path, url=f"http://{host}:{hook.port}/in", own=False))
    node.send("test duty")
    said(node, "test Err", "Failed", "is an address that messages are not sent to")
    assert hook.taken == hook.refused == []


def test_what_is_on_the_disk_is_sent_after_a_kill(start, tmp_path):
    port = free_port()
    receiver = {"kind": "webhook", "url": f"http://127.0.0.1:{port}/in", "own": True}
    node = start(duty=receiver)
    node.send("calling a 1")
    key = re.search('key="([^"]+)"', said(node, "has not arrived"))[1]
    node.kill()
    hook = Hook()
    try:
        receiver["url"] = f"http://127.0.0.1:{hook.port}/in"
        receiver |= webhook(hook, tmp_path)
        node = start("calling a 1", duty=receiver)
        until(lambda: hook.kinds() == ["raised"], node.said)
        assert hook.taken[0][1]["key"] == key
        counts(node, webhook_delivered=1)
        node.kill()
        node = start(duty=receiver)
        until(lambda: hook.kinds() == ["raised", "resolved"], node.said)
    finally:
        hook.close()


class Mailbox:
    """What a handler of aiosmtpd has taken; an address that begins with `nobody` it has not."""

    def __init__(self):
        self.letters = []

    async def handle_RCPT(self, server, session, envelope, address, options):  # noqa: N802
        if address.startswith("nobody"):
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):  # noqa: N802
        letter = email.message_from_bytes(envelope.content, policy=default)
        self.letters.append((envelope.rcpt_tos, session.ssl is not None, letter))
        return "250 OK"


def mail(port, tls="none", to=("anna@example.org", "bo@example.org"), **fields):
    named = {"kind": "smtp", "host": "localhost", "port": str(port), "tls": tls, "from": "Tieline <node@plant.example>"}
    return {**named, "to": list(to), **fields}


@pytest.fixture
def post(authority):
    """Starts a mail server; returns it with its mailbox."""
    controllers = []

    def begin(**options):
        box = Mailbox()
        controller = Controller(box, hostname="127.0.0.1", port=free_port(), **options)
        controller.start()
        controllers.append(controller)
        return controller, box

    yield begin
    for controller in controllers:
        controller.stop()


def test_a_mail_says_what_has_happened(start, post):
    server, box = post()
    node = start(duty=mail(server.port))
    node.send("calling site/a/current 12")
    until(lambda: box.letters, node.said)
    to, _, letter = box.letters[0]
    assert to == ["anna@example.org", "bo@example.org"]
    assert letter["subject"] == "[high] site/a/current: überload, \u201chot\u201d and 3 consequences"
    assert (letter["from"], letter["auto-submitted"]) == ("Tieline <node@plant.example>", "auto-generated")
    assert letter["message-id"] == f"<{letter['x-tieline-key']}.duty@plant.example>"
    text = letter.get_content()
    assert "value 412" in text and "überload" in text and "3 consequences" in text and "node test" in text


def server_tls(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.files("mail"))
    return context


def test_a_mail_goes_over_tls_with_a_password_and_not_without(start, post, authority, tmp_path):
    def check(server, session, envelope, mechanism, data):
        return AuthResult(success=(data.login, data.password) == (b"node", b"right"), handled=False)

    context = server_tls(authority)
    server, box = post(tls_context=context, require_starttls=True, authenticator=check, auth_required=True)
    password = tmp_path / "password"
    password.write_text("wrong\n")
    fields = {"user": "node", "password_file": str(password), "authorities": str(authority.file)}
    node = start(duty=mail(server.port, "starttls", **fields))
    node.send("calling a 1")
    said(node, "has not arrived", "535")
    assert box.letters == []
    password.write_text("right\n")
    until(lambda: box.letters, node.said)
    assert box.letters[0][1], "not over TLS"


def test_a_mail_server_that_is_not_trusted_or_has_no_tls_gets_nothing(start, post, authority):
    tls, with_tls = post(tls_context=server_tls(authority))
    plain, without_tls = post()
    node = start(plain=mail(plain.port, "starttls"), tls=mail(tls.port, "starttls"))
    node.send("calling a 1")
    said(node, 'to="plain"', "has not arrived")
    said(node, 'to="tls"', "has not arrived")
    assert with_tls.letters == without_tls.letters == []


def test_a_mailbox_that_is_not_there_is_not_tried_again(start, post):
    server, box = post()
    node = start(duty=mail(server.port, to=["nobody@example.org"]))
    node.send("calling a 1")
    said(node, "no such mailbox")
    counts(node, smtp_refused=1)
    assert box.letters == []


@pytest.fixture
def alertmanager(tmp_path):
    if not shutil.which("prometheus-alertmanager"):
        pytest.skip("no prometheus-alertmanager")
    port, config = free_port(), tmp_path / "alertmanager.yml"
    config.write_text("route: {receiver: none, group_by: [topic]}\nreceivers: [{name: none}]\n")
    words = [f"--config.file={config}", f"--storage.path={tmp_path / 'alerts'}", f"--web.listen-address=127.0.0.1:{port}"]
    with Lines(["prometheus-alertmanager", *words, "--cluster.listen-address="]) as process:
        url = f"http://127.0.0.1:{port}"

        def alerts():
            try:
                with urllib.request.urlopen(f"{url}/api/v2/alerts", timeout=5) as answer:
                    return json.load(answer)
            except OSError:
                return None

        until(lambda: alerts() is not None, process.said)
        yield url, alerts


def test_an_alert_stands_at_alertmanager_until_the_alarm_has_returned(start, alertmanager):
    url, alerts = alertmanager
    node = start(oncall={"kind": "alertmanager", "url": url})
    node.send("calling site/a/current 12")
    node.send("calling site/b/current 13")
    until(lambda: len(alerts()) == 2, node.said)
    first = next(alert for alert in alerts() if alert["labels"]["topic"] == "site/a/current")
    labels = {"alertname": "high", "priority": "high", "group": "feeders", "node": "test", "receiver_name": "oncall"}
    assert labels.items() <= first["labels"].items()
    assert first["annotations"]["consequences"] == "3"
    node.send("returned site/a/current 12")
    until(lambda: [alert["labels"]["topic"] for alert in alerts()] == ["site/b/current"], node.said)


def test_a_flood_is_one_message_and_one_at_its_end(start, hook, tmp_path):
    node = start(duty=webhook(hook, tmp_path), board={"kind": "mqtt"})
    node.send("flood on")
    for seq in range(1, 101):
        node.send(f"calling site/{seq} {seq}")
    until(lambda: hook.kinds() == ["flood"], node.said, 30.0)
    flood = hook.taken[0][1]
    assert (flood["total"], [alarm["seq"] for alarm in flood["alarms"]]) == (100, list(range(100, 90, -1)))
    node.send("returned site/7 7")
    node.send("flood off")
    until(lambda: hook.kinds() == ["flood", "flood_over"], node.said)
    assert hook.taken[1][1]["total"] == 99
    published = [json.loads(line.split(" ", 2)[2]) for line in node.lines if line.startswith("published board ")]
    assert [message["kind"] for message in published] == ["flood", "flood_over"]
