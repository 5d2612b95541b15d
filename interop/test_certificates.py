"""Users who show a certificate (mutual TLS): paho, mosquitto and bare HTTPS, with certificates of OpenSSL."""

import json
import subprocess
import urllib.error
import urllib.request

import paho.mqtt.client as mqtt
import pytest
from authority import Authority, user_roles
from carriers import certificate
from node import Node, tieline
from test_mqtt_doors import address
from waiting import until

FILES = '{ certificate = "node.pem", key = "node.key", authorities = "authority.pem" }'
MORE = f"""
[http]
tls = {FILES}
[mqtt.tls]
listen = "127.0.0.1:0"
certificate = "node.pem"
key = "node.key"
authorities = "authority.pem"
[mqtt.websocket]
listen = "127.0.0.1:0"
tls = {FILES}
[access]
users = "users.toml"
loopback = "closed"
[access.certificates]
role_areas = ["north"]
"""
USERS = """
[user.anna]
roles = ["OPERATOR"]
[user.gate]
roles = ["INSTALLER"]
certificates = ["dns:gate7.example"]
[user.gone]
roles = ["VIEWER"]
disabled = true
"""
LOCAL = "DNS:localhost,IP:127.0.0.1"


class Guarded(Node):
    """A node where certificates name users."""

    def __init__(self, folder):
        self.authority = Authority(folder)
        issue = self.authority.issue
        issue("node", names=LOCAL)
        issue("anna")
        issue("seventh", subject="/CN=device 7", names="DNS:gate7.example")
        issue("gone")
        issue("nobody")
        issue("north", extensions=[user_roles(([0, 2], "north"), ([4], "south"))])
        issue("south", extensions=[user_roles(([2], "south"))])
        issue("broken", extensions=["1.2.840.10070.8.1=DER:30:03:02:01:01"])
        (folder / "users.toml").write_text(USERS)
        super().__init__(folder, more=MORE)

    def users(self, text):
        (self.folder / "users.toml").write_text(text)

    def ask(self, path, name, body=None):
        """The status of a request of who shows a certificate, and its JSON."""
        asked = urllib.request.Request(f"https://localhost:{self.http.rsplit(':', 1)[1]}{path}", body)
        if body:
            asked.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(asked, timeout=30, context=self.authority.context(name)) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            return refused.code, json.loads(refused.read())


class Client:
    """One paho client of MQTT 5 that shows a certificate."""

    def __init__(self, node, name, user=None, door="mqtt_tls"):
        self.acks, self.ended, self.code = {}, [], None
        transport = "websockets" if door == "mqtt_websocket" else "tcp"
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5, transport=transport)
        self.client.tls_set_context(node.authority.context(name))
        if user is not None:
            self.client.username_pw_set(user)
        self.client.on_connect = lambda _c, _u, _f, code, _p: setattr(self, "code", code.value)
        self.client.on_disconnect = lambda _c, _u, _f, code, _p: self.ended.append(code.value)
        self.client.on_publish = lambda _c, _u, mid, code, _p: self.acks.__setitem__(mid, code.value)
        self.client.reconnect_delay_set(60, 60)
        self.client.connect(*address(node, door))
        self.client.loop_start()
        until(lambda: self.code is not None, lambda: f"no CONNACK: {self.ended}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.disconnect()
        self.client.loop_stop()

    def publish(self, topic):
        info = self.client.publish(topic, "1", qos=1)
        until(lambda: info.mid in self.acks, lambda: f"no PUBACK for {topic}")
        return self.acks[info.mid]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Guarded(tmp_path_factory.mktemp("certificates")) as running:
        yield running
        running.alive()


@pytest.mark.parametrize("door", ["mqtt_tls", "mqtt_websocket"])
def test_a_certificate_is_enough_and_gives_its_users_rights(node, door):
    with Client(node, "anna", door=door) as anna, Client(node, "seventh", door=door) as gate:
        assert (anna.code, gate.code) == (0, 0)
        assert anna.publish("site/x") == 0x87, "an operator does not publish"
        assert gate.publish("site/x") == 0, "an installer does"


def test_roles_of_iec_62351_8_come_with_the_certificate(node):
    with Client(node, "north") as north:
        assert north.code == 0 and north.publish("site/x") == 0, "an engineer, who is in no file"
    status, said = node.ask("/v1/me", "north")
    assert (status, said["user"], said["roles"]) == (200, "north", ["ENGINEER", "VIEWER"])
    assert node.ask("/v1/me", "south")[0] == 401, "its role holds elsewhere"


@pytest.mark.parametrize("name", ["nobody", "gone", "south", "broken"])
def test_who_is_nobody_here_is_turned_away(node, name):
    with Client(node, name) as stranger:
        assert stranger.code == 0x87
    assert node.ask("/v1/status", name)[0] == 401


def test_a_name_beside_it_must_be_its_users(node):
    with Client(node, "anna", user="anna") as anna, Client(node, "anna", user="gate") as other:
        assert (anna.code, other.code) == (0, 0x86)


def test_https_knows_who_shows_a_certificate(node):
    status, said = node.ask("/v1/me", "anna")
    assert (status, said["user"], said["roles"]) == (200, "anna", ["OPERATOR"])
    publish = json.dumps({"topic": "site/h", "payload": "1"}).encode()
    assert node.ask("/v1/publish", "anna", publish)[0] == 403
    assert node.ask("/v1/publish", "seventh", publish)[0] == 200
    denied = [line for line in node.ask("/v1/audit?limit=1000", "anna")[1].get("entries", [])]
    assert not denied, "an operator reads no audit log"
    with pytest.raises(OSError):  # the handshake ends before a word of HTTP
        node.ask("/v1/me", None)


def test_mosquitto_shows_a_certificate(node):
    host, port = address(node, "mqtt_tls")
    certificate, key = node.authority.files("seventh")
    base = ["mosquitto_pub", "-h", host, "-p", str(port), "--cafile", node.authority.file, "-t", "site/m", "-m", "1"]
    shown = ["--cert", certificate, "--key", key, "-q", "1"]
    for version in ["mqttv311", "mqttv5"]:
        done = subprocess.run([*base, *shown, "-V", version], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    assert subprocess.run([*base, "-q", "1"], capture_output=True, timeout=60).returncode != 0, "none was shown"


def test_changes_reach_sessions_that_a_certificate_opened(tmp_path):
    with Guarded(tmp_path) as node, Client(node, "seventh") as gate:
        assert gate.publish("site/x") == 0
        node.users(USERS.replace('"INSTALLER"', '"VIEWER"'))
        until(lambda: gate.publish("site/x") == 0x87, lambda: "the old role still holds")
        node.users(USERS.replace("gate7", "gate8"))
        until(lambda: gate.ended, lambda: "the certificate is not its any more, and the session goes on")
        assert gate.ended[0] == 0x87


def test_decisions_about_certificates_are_explained_offline(node):
    def ask(user, file, *words):
        shown = ["--certificate", node.folder / f"{file}.pem", "--config", node.config]
        return tieline("access", "test", user, *words, *shown, check=False)

    said = ask("north", "north", "publish", "site/x")
    assert said.returncode == 0 and "ENGINEER: allow publish #" in said.stdout, said.stdout + said.stderr
    assert ask("gate", "seventh", "publish", "site/x").returncode == 0
    assert ask("anna", "anna", "publish", "site/x").returncode == 3
    for user, file, words in [
        ("anna", "north", 'north.pem: found a certificate of "north", expected one of "anna"'),
        ("south", "south", 'without a role here: it brings [2] in "south"'),
        ("broken", "broken", "whose roles of IEC 62351-8 cannot be read"),
    ]:
        said = ask(user, file, "read", "site/x")
        assert said.returncode == 1 and words in said.stderr, said.stderr
    listed = tieline("access", "user", "list", "--users", node.folder / "users.toml").stdout
    assert "certificate" in listed, listed


def test_what_is_wrong_with_listed_certificates_is_told(tmp_path):
    (tmp_path / "tieline.toml").write_text('[access]\nusers = "users.toml"\n[access.certificates]\nuser = "cn"\n')
    (tmp_path / "users.toml").write_text('[user.a]\nroles = []\ncertificates = ["dn:x", "sha256:12", "dns:"]\n')
    refused = tieline("config", "check", tmp_path / "tieline.toml", check=False)
    for words in ['user.a.certificates: found "dn:x"', 'found "sha256:12"', 'found "dns:"', "access.certificates.user"]:
        assert words in refused.stderr, refused.stderr
    both = '[user.a]\nroles = []\ncertificates = ["dns:x"]\n[user.b]\nroles = []\ncertificates = ["dns:x"]\n'
    (tmp_path / "tieline.toml").write_text('[access]\nusers = "users.toml"\n')
    (tmp_path / "users.toml").write_text(both)
    refused = tieline("config", "check", tmp_path / "tieline.toml", check=False)
    assert 'the certificate "dns:x" of "a" and of "b"' in refused.stderr, refused.stderr


def ours(node, verb, *words, name="seventh", check=True, ca="authority.pem"):
    """One of our commands over TLS, as the user that a certificate names."""
    shown = ["--ca", node.folder / ca]
    if name:
        certificate, key = node.authority.files(name)
        shown += ["--cert", certificate, "--key", key]
    host, port = address(node, "mqtt_tls")
    door = {"pub": ["--mqtt", f"mqtts://{host}:{port}"], "sub": ["--mqtt", f"mqtts://{host}:{port}"]}
    where = door.get(verb, ["--http", f"https://localhost:{node.http.rsplit(':', 1)[1]}"])
    return tieline(verb, *words, *where, *shown, check=check)


def test_our_commands_speak_tls(node):
    ours(node, "pub", "site/cli", "5", "--retain")
    assert ours(node, "get", "site/cli", name="anna").stdout.strip() == "5"
    assert "site/cli 5" in ours(node, "sub", "site/cli", "-n", "1", name="anna").stdout
    # The node's own certificate is as good as that of who vouches for it.
    assert ours(node, "get", "site/cli", name="anna", ca="node.pem").stdout.strip() == "5"


@pytest.mark.parametrize("verb", ["get", "sub"])
def test_what_is_wrong_with_tls_is_said(node, verb, tmp_path):
    words = ["site/cli", *(["-n", "1"] if verb == "sub" else [])]
    refused = lambda **options: ours(node, verb, *words, check=False, **options)
    other = Authority(tmp_path, "other")
    (node.folder / "other.pem").write_bytes(other.file.read_bytes())
    other.issue("stranger")
    for own in other.files("stranger"):
        (node.folder / own.name).write_bytes(own.read_bytes())
        (node.folder / own.name).chmod(0o600)
    for options, code, reason in [
        ({"ca": "other.pem"}, 4, "its certificate is not trusted here; --ca names a file with the certificate of its authority"),
        # Of TLS 1.3 these two come after the handshake, when MQTT already waits for its CONNACK.
        ({"name": None}, 4, "it wants a certificate; --cert and --key name one"),
        ({"name": "stranger"}, 4, "it does not trust the certificate of --cert"),
        ({"ca": "missing.pem"}, 1, "missing.pem: found nothing readable"),
        ({"ca": "users.toml"}, 1, "users.toml: found no PEM, expected a file with certificates in PEM"),
        ({"name": "nobody"}, 3, "not authorized" if verb == "sub" else "or a login at /login is needed"),
    ]:
        done = refused(**options)
        assert done.returncode == code and reason in done.stderr, (options, done.stderr)
    plain = {"get": ["--http", node.http], "sub": ["--mqtt", node.mqtt]}[verb]
    done = tieline(verb, *words, *plain, "--ca", node.authority.file, check=False)
    assert done.returncode == 1 and "--ca is for TLS, and the address is without" in done.stderr, done.stderr
    tls = {"get": ["--http", f"https://{node.mqtt}"], "sub": ["--mqtt", f"mqtts://{node.mqtt}"]}[verb]
    done = tieline(verb, *words, *tls, "--ca", node.authority.file, check=False, seconds=40)
    assert done.returncode == 4, done.stderr


@pytest.mark.parametrize("verb", ["get", "sub", "pub"])
def test_a_self_signed_node_is_trusted_by_its_own_certificate(tmp_path, verb):
    certificate(tmp_path, "node")
    files = 'certificate = "node.pem"\nkey = "node.key"\n'
    (tmp_path / "node.key").chmod(0o600)
    with Node(tmp_path, more=f'[http.tls]\n{files}[mqtt.tls]\nlisten = "127.0.0.1:0"\n{files}') as node:
        host, port = address(node, "mqtt_tls")
        where = ["--http", f"https://{node.http}"] if verb == "get" else ["--mqtt", f"mqtts://{host}:{port}"]
        tieline("pub", "site/x", "5", "--retain", "--mqtt", f"mqtts://{host}:{port}", "--ca", tmp_path / "node.pem")
        words = {"get": ["site/x"], "sub": ["site/x", "-n", "1"], "pub": ["site/x", "5"]}[verb]
        done = tieline(verb, *words, *where, "--ca", tmp_path / "node.pem")
        assert "5" in done.stdout or verb == "pub", done
        done = tieline(verb, *words, *where, check=False)
        assert done.returncode in (1, 4) and "--ca names a file with" in done.stderr, done
