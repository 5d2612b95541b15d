"""Users, roles and tokens with clients that are not ours: mosquitto, paho, and bare HTTP."""

import base64
import hashlib
import hmac
import http.client
import json
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
import pytest
from node import Node, tieline
from waiting import until

SECRET = "0123456789abcdef0123456789abcdef"
ROLES = """
[role.works]
rules = [
  "allow read site/#", "deny read site/secret/#", "allow publish site/{user}/#", "allow publish reply/{client}/#",
  "allow read reply/{client}/#", "allow command site/#", "allow read $SYS/#",
]
"""
ACCESS = """
[access]
users = "users.toml"
roles = "roles.toml"
loopback = "closed"
messages_per_s = 200
subscriptions_max = 5
[access.jwt]
keys = ["hs.key"]
leeway = "0s"
"""


class Guarded(Node):
    """A node whose users are in files beside its configuration."""

    def __init__(self, folder, more=""):
        self.folder = folder
        (folder / "roles.toml").write_text(ROLES)
        (folder / "hs.key").write_text(SECRET)
        self.add("anna", "works")
        self.add("sec", "SECAUD")
        self.add("boss", "ENGINEER", "VIEWER")
        super().__init__(folder, more=ACCESS + more)

    def user(self, verb, name, *words, word=None):
        tieline("access", "user", verb, name, "--users", self.folder / "users.toml", *words, input=word)

    def add(self, name, *roles):
        self.user("add", name, *(word for role in roles for word in ("--role", role)), word=f"password-{name}\n")

    def ask(self, path, user=None, token=None, body=None, cookie=None):
        """The status of a request, and its JSON or text."""
        headers = {}
        if user:
            headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:password-{user}".encode()).decode()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if cookie:
            headers["Cookie"] = cookie
        data = None if body is None else json.dumps(body).encode()
        if data:
            headers["Content-Type"] = "application/json"
        asked = urllib.request.Request(f"http://{self.http}{path}", data, headers)
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def metric(self, name):
        _, text = self.ask("/metrics", user="boss")
        found = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(f"{name} ")]
        return float(found[0]) if found else None

    def audit(self):
        status, text = self.ask("/v1/audit?limit=1000", user="sec")
        assert status == 200, text
        return json.loads(text)["entries"]


def token(seconds=600, **claims):
    """A token as RFC 7519 has it, made without a library of ours."""
    part = lambda raw: base64.urlsafe_b64encode(raw).rstrip(b"=")
    head = part(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    body = part(json.dumps({"sub": "tom", "exp": time.time() + seconds, **claims}).encode())
    signature = hmac.new(SECRET.encode(), head + b"." + body, hashlib.sha256).digest()
    return b".".join([head, body, part(signature)]).decode()


class Client:
    """One paho client of MQTT 5 that is connected, or was refused."""

    def __init__(self, node, user=None, password=None, name="", properties=None):
        self.got, self.acks, self.ended, self.subs = [], {}, [], {}
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5)
        # As fast as it can, however slow the disk is that acknowledgements wait for.
        self.client.max_inflight_messages_set(1000)
        if user is not None:
            self.client.username_pw_set(user, password)
        self.code = None
        self.is_resumed = False

        def on_connect(_client, _userdata, flags, code, _properties):
            self.is_resumed, self.code = flags.session_present, code.value

        self.client.on_connect = on_connect
        self.client.on_message = lambda _c, _u, message: self.got.append((message.topic, message.payload.decode()))
        self.client.on_disconnect = lambda _c, _u, _f, code, _p: self.ended.append(code.value)
        self.client.on_publish = lambda _c, _u, mid, code, _p: self.acks.__setitem__(mid, code.value)
        self.client.on_subscribe = lambda _c, _u, mid, codes, _p: self.subs.__setitem__(mid, [c.value for c in codes])
        self.client.reconnect_delay_set(60, 60)
        clean = mqtt.MQTT_CLEAN_START_FIRST_ONLY if properties is None else False
        self.client.connect("127.0.0.1", node.mqtt_port, clean_start=clean, properties=properties)
        self.client.loop_start()
        until(lambda: self.code is not None, lambda: "no CONNACK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.disconnect()
        self.client.loop_stop()

    def publish(self, topic, text="1", retain=False):
        """The reason of the PUBACK."""
        info = self.client.publish(topic, text, qos=1, retain=retain)
        until(lambda: info.mid in self.acks, lambda: f"no PUBACK for {topic}")
        return self.acks[info.mid]

    def subscribe(self, topic):
        """The reason of the SUBACK."""
        _, mid = self.client.subscribe(topic, qos=1)
        until(lambda: mid in self.subs, lambda: f"no SUBACK for {topic}")
        return self.subs[mid][0]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Guarded(tmp_path_factory.mktemp("access")) as running:
        yield running
        running.alive()


def mosquitto(node, topic, *words):
    port = str(node.mqtt_port)
    command = ["mosquitto_pub", "-h", "127.0.0.1", "-p", port, "-t", topic, "-m", "1", "-q", "1", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
def test_mosquitto_comes_in_with_a_password_and_not_without(node, version):
    assert mosquitto(node, "site/anna/x", "-V", version, "-u", "anna", "-P", "password-anna").returncode == 0
    assert mosquitto(node, "site/anna/x", "-V", version, "-u", "anna", "-P", "wrong").returncode != 0
    assert mosquitto(node, "site/anna/x", "-V", version, "-u", "nobody", "-P", "password-anna").returncode != 0
    assert mosquitto(node, "site/anna/x", "-V", version).returncode != 0


def test_what_a_role_allows_is_done_and_nothing_else(node):
    with Client(node, "anna", "password-anna", "desk") as anna, Client(node, "boss", "password-boss", "boss") as boss:
        assert (anna.code, boss.code) == (0, 0)
        assert anna.publish("site/anna/a") == 0
        assert anna.publish("site/boss/a") == 0x87
        assert anna.publish("other") == 0x87
        assert anna.subscribe("#") == 1, "some of it may be read"
        assert anna.subscribe("other/#") == 0x87
        assert boss.publish("site/secret/key", "hidden", retain=True) == 0
        assert boss.publish("other", "hidden", retain=True) == 0
        assert boss.publish("site/open", "seen", retain=True) == 0
        until(lambda: ("site/open", "seen") in anna.got, lambda: anna.got)
        assert all(text != "hidden" for _, text in anna.got), anna.got
    with Client(node, "anna", "password-anna", "desk") as anna:
        anna.subscribe("site/#")
        until(lambda: ("site/open", "seen") in anna.got, lambda: anna.got)
        assert all(text != "hidden" for _, text in anna.got), f"last values: {anna.got}"
    # The first that a user is denied of each kind is written; what follows is counted.
    denied = lambda: {line["mode"] for line in node.audit() if line["phase"] == "denied"}
    until(lambda: {"publish", "read"} <= denied(), denied)


def asking(topic, payload, **properties):
    """Arguments of a publish with properties."""
    words = Properties(PacketTypes.PUBLISH)
    for name, value in properties.items():
        setattr(words, name, value)
    return {"topic": topic, "payload": payload, "qos": 1, "properties": words}


def test_who_asks_for_topics_gets_those_that_it_may_read(node):
    with Client(node, "boss", "password-boss", "boss") as boss, Client(node, "anna", "password-anna", "asks") as anna:
        boss.publish("site/secret/fetched", "hidden", retain=True)
        boss.publish("site/fetched", "seen", retain=True)
        assert anna.subscribe("reply/asks/#") == 1
        assert anna.subscribe("$topics/+/site/#") == 0 and anna.subscribe("$topics/added/other/#") == 0x87
        for request in ({"filter": "#"}, {"filter": "site/#", "values": False}):
            anna.client.publish(**asking("$fetch", json.dumps(request), ResponseTopic="reply/asks/1"))
            until(lambda: any(topic == "reply/asks/1" for topic, _ in anna.got), lambda: anna.got)
            answer = next(text for topic, text in anna.got if topic == "reply/asks/1")
            names = {topic["topic"] for topic in json.loads(answer)["topics"]}
            assert "site/fetched" in names and not any(name.startswith("site/secret") for name in names), names
            assert "hidden" not in answer
            anna.got.clear()
        refused = [
            ({"filter": "other/#"}, "reply/asks/1"),
            ({"filter": "site/#"}, "site/boss/answers"),
            ({"topic": "site/secret/fetched"}, "reply/asks/1"),
        ]
        for request, to in refused:
            sent = anna.client.publish(**asking("$fetch", json.dumps(request), ResponseTopic=to))
            until(lambda sent=sent: sent.mid in anna.acks, lambda: anna.acks)
            assert anna.acks[sent.mid] == 0x87, request
        boss.publish("site/secret/later", "hidden", retain=True)
        boss.publish("site/later", "seen", retain=True)
        until(lambda: ("$topics/added/site/later", "added") in anna.got, lambda: anna.got)
        assert not any("secret" in topic for topic, _ in anna.got), anna.got


def test_changes_reach_sessions_that_are_here(node):
    node.add("temp", "works")
    with until(lambda: admitted(node, "temp"), lambda: "temp is not let in") as temp:
        assert temp.publish("site/temp/a") == 0
        node.user("roles", "temp", "--role", "VIEWER")
        until(lambda: temp.publish("site/temp/a") == 0x87, lambda: "the old role still holds")
        assert not temp.ended
        node.user("remove", "temp")
        until(lambda: temp.ended, lambda: "the session goes on")
        assert temp.ended[0] == 0x87
    # Records that no command waits for are on the disk a while after the client hears.
    phases = lambda: {line["phase"] for line in node.audit()}
    until(lambda: {"policy", "session_ended"} <= phases(), phases)


@pytest.fixture
def own_node(tmp_path):
    """A node that no other test has sessions at."""
    with Guarded(tmp_path) as node:
        yield node


def test_what_waits_is_judged_again_when_rights_shrink(own_node):
    """Away, and here behind a closed window: what was never sent goes, and is counted."""
    node = own_node
    node.add("temp2", "works")
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval, properties.ReceiveMaximum = 600, 1
    with until(lambda: admitted(node, "temp2"), lambda: "temp2 is not let in"):
        pass
    come = lambda: Client(node, "temp2", "password-temp2", "patient", properties)
    with come() as patient:
        assert patient.subscribe("site/#") == 1
    narrow = ROLES + '[role.narrow]\nrules = ["allow read site/free/#"]\n'
    (node.folder / "roles.toml").write_text(narrow)
    with Client(node, "boss", "password-boss", "boss") as boss:
        for topic in ["site/free/1", "site/closed/1", "site/free/2", "site/closed/2"]:
            assert boss.publish(topic, topic) in (0, 0x10)
        before = node.metric("tieline_mqtt_withheld_total")
        node.user("roles", "temp2", "--role", "narrow")
        withheld = lambda: node.metric("tieline_mqtt_withheld_total") - before
        until(lambda: withheld() == 2, lambda: f"{withheld()} of what waits are withheld: {node.process.said()}")
        with come() as patient:
            until(lambda: len(patient.got) >= 2, lambda: patient.got)
            assert boss.publish("site/closed/3") in (0, 0x10) and boss.publish("site/free/3", "last") in (0, 0x10)
            until(lambda: ("site/free/3", "last") in patient.got, lambda: patient.got)
            assert [topic for topic, _ in patient.got] == ["site/free/1", "site/free/2", "site/free/3"]
    node.user("remove", "temp2")


def test_updates_that_nothing_waits_for_are_judged_by_what_holds(own_node):
    """QoS 0, over the threads that have the sockets: a change of the rules holds for the next update, either way."""
    node = own_node
    narrow = ROLES.replace('"allow read site/#"', '"allow read site/free/#"')
    with Client(node, "anna", "password-anna") as anna, Client(node, "boss", "password-boss") as boss:
        _, mid = anna.client.subscribe("site/#", qos=0)
        until(lambda: mid in anna.subs, lambda: "no SUBACK")

        def heard(*names):
            """The topics that arrive of these; the last one does."""
            before = len(anna.got)
            assert all(boss.publish(f"site/{name}") in (0, 0x10) for name in names)
            until(lambda: (f"site/{names[-1]}", "1") in anna.got[before:], lambda: anna.got)
            return [topic.removeprefix("site/") for topic, _ in anna.got[before:]]

        def change(roles):
            reloads = node.metric("tieline_access_reloads_total")
            (node.folder / "roles.toml").write_text(roles)
            until(lambda: node.metric("tieline_access_reloads_total") > reloads, lambda: "the file is not read")

        names = ["closed/a", "secret/a", "closed/b", "free/a"]
        for _ in range(2):
            assert heard(*names) == ["closed/a", "closed/b", "free/a"]
            change(narrow)
            assert heard(*names) == heard(*names) == ["free/a"]
            change(ROLES)


def admitted(node, user):
    """A client, once the node has taken the file that has its user."""
    client = Client(node, user, f"password-{user}")
    if client.code == 0:
        return client
    client.__exit__()
    time.sleep(1)
    return None


def test_a_token_lets_in_until_it_ends(node):
    with Client(node, "", token(roles=["VIEWER"])) as tom:
        assert tom.code == 0
        assert tom.subscribe("site/#") == 1
        assert tom.publish("site/tom/a") == 0x87
    for wrong in [token(roles=["VIEWER"])[:-4] + "AAAA", token(-1, roles=["VIEWER"]), token(roles=["NONE"]), token()]:
        with Client(node, "", wrong) as tom:
            assert tom.code in (0x86, 0x87), wrong
    with Client(node, "tom", token(3, roles=["VIEWER"])) as tom:
        assert tom.code == 0
        until(lambda: tom.ended, lambda: "the session outlives its token")
        assert tom.ended[0] == 0x87


def packet(first, body):
    """A packet whose body is shorter than 16,384 bytes."""
    assert len(body) < 16_384
    length = [len(body)] if len(body) < 128 else [len(body) % 128 | 128, len(body) // 128]
    return bytes([first, *length]) + body


def field(raw):
    return len(raw).to_bytes(2, "big") + raw


class Scram:
    """The client's side of SCRAM-SHA-256 (RFC 5802) in MQTT 5, from the standard library alone."""

    def __init__(self, node, user, password):
        self.password = password.encode()
        self.first = f"n={user},r=fyko+d2lbbFgONRv9qkxdawL"
        self.stream = socket.create_connection(("127.0.0.1", node.mqtt_port), 30)

    def properties(self, data):
        """The method and what it says."""
        inner = b"\x15" + field(b"SCRAM-SHA-256") + b"\x16" + field(data)
        assert len(inner) < 16_384
        length = [len(inner)] if len(inner) < 128 else [len(inner) % 128 | 128, len(inner) // 128]
        return bytes(length) + inner

    def send(self, raw):
        self.stream.sendall(raw)

    def receive(self):
        """The type of the next packet and its body."""
        first = self.stream.recv(1)
        if not first:
            return None, b""
        length = shift = 0
        while True:
            byte = self.stream.recv(1)[0]
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        body = b""
        while len(body) < length:
            body += self.stream.recv(length - len(body))
        return first[0] >> 4, body

    def data(self, body, at):
        """The authentication data of a packet whose properties begin there."""
        at += 1 if body[at] < 128 else 2
        while at < len(body):
            kind, at = body[at], at + 1
            size = {0x11: 4, 0x13: 2, 0x21: 2, 0x22: 2, 0x24: 1, 0x25: 1, 0x27: 4, 0x28: 1, 0x29: 1, 0x2A: 1}.get(kind)
            if size:
                at += size
                continue
            length = int.from_bytes(body[at : at + 2], "big")
            value, at = body[at + 2 : at + 2 + length], at + 2 + length
            if kind == 0x16:
                return value
        return None

    def connect(self):
        flags = field(b"MQTT") + b"\x05\x02\x00\x3c"
        properties = self.properties(f"n,,{self.first}".encode())
        self.send(packet(0x10, flags + properties + field(b"scram-client")))
        return self.finish()

    def again(self):
        self.send(packet(0xF0, b"\x19" + self.properties(f"n,,{self.first}".encode())))
        return self.finish()

    def finish(self):
        """The reason of the last packet; the server's signature is checked."""
        kind, body = self.receive()
        if kind != 15:
            return kind, body[1] if kind == 2 else body[:1]
        assert body[0] == 0x18
        challenge = self.data(body, 1).decode()
        nonce, salt, rounds = (part[2:] for part in challenge.split(","))
        salted = hashlib.pbkdf2_hmac("sha256", self.password, base64.b64decode(salt), int(rounds))
        sign = lambda key, raw: hmac.new(key, raw, hashlib.sha256).digest()
        key = sign(salted, b"Client Key")
        unproved = f"c=biws,r={nonce}"
        signed = f"{self.first},{challenge},{unproved}".encode()
        signature = sign(hashlib.sha256(key).digest(), signed)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature))).decode()
        self.send(packet(0xF0, b"\x18" + self.properties(f"{unproved},p={proof}".encode())))
        kind, body = self.receive()
        if kind in (2, 15):
            reason = body[1] if kind == 2 else body[0]
            if reason == 0:
                expected = base64.b64encode(sign(sign(salted, b"Server Key"), signed))
                assert self.data(body, 2 if kind == 2 else 1) == b"v=" + expected
            return kind, reason
        return kind, body[0] if body else None


def test_scram_proves_a_password_without_sending_it(node):
    good = Scram(node, "anna", "password-anna")
    assert good.connect() == (2, 0)
    assert good.again() == (15, 0), "a client that is in proves itself again"
    for user, password in [("anna", "wrong"), ("nobody", "password-anna")]:
        assert Scram(node, user, password).connect() == (2, 0x86)
    good.password = b"wrong"
    assert good.again() == (14, 0x87), "who does not is disconnected"


def test_a_client_identifier_belongs_to_its_user(node):
    with Client(node, "boss", "password-boss", "plc-1") as boss, Client(node, "anna", "password-anna", "plc-1") as anna:
        assert (boss.code, anna.code) == (0, 0x85)
        assert boss.publish("site/open", "still here") == 0


def test_each_has_limits(node):
    with Client(node, "anna", "password-anna", "limits") as anna:
        assert [anna.subscribe(f"site/{number}") for number in range(6)] == [1, 1, 1, 1, 1, 0x97]
    with Client(node, "anna", "password-anna", "rates") as anna:
        infos = [anna.client.publish("site/anna/n", str(number), qos=1) for number in range(600)]
        until(lambda: len(anna.acks) >= 600, lambda: len(anna.acks))
        codes = [anna.acks[info.mid] for info in infos]
        assert codes.count(0x97) > 0 and codes.count(0) >= 200, {code: codes.count(code) for code in set(codes)}
    assert node.metric("tieline_access_over_rate_total") > 0


def test_http_knows_the_same_users(node):
    assert node.ask("/v1/status")[0] == 401
    assert node.ask("/metrics")[0] == 401
    assert node.ask("/healthz")[0] == 200
    assert "detail" not in json.loads(node.ask("/healthz")[1])
    assert node.ask("/v1/status", user="anna")[0] == 200
    status, text = node.ask("/v1/me", user="anna")
    me = json.loads(text)
    assert (status, me["user"], me["roles"]) == (200, "anna", ["works"])
    assert node.ask("/v1/me", token=token(roles=["VIEWER"]))[0] == 200
    assert node.ask("/v1/me", token=token(-1, roles=["VIEWER"]))[0] == 401
    assert node.ask("/v1/publish", user="anna", body={"topic": "site/anna/h", "payload": "1", "retain": True})[0] == 200
    assert node.ask("/v1/publish", user="anna", body={"topic": "site/boss/h", "payload": "1"})[0] == 403
    assert node.ask("/v1/publish", user="boss", body={"topic": "site/secret/h", "payload": "1", "retain": True})[0] == 200
    listed = json.loads(node.ask("/v1/topics?filter=site/%23", user="anna")[1])["topics"]
    topics = {topic["topic"] for topic in listed}
    assert "site/anna/h" in topics and not any(topic.startswith("site/secret") for topic in topics)
    assert node.ask("/v1/topics/site/secret/h", user="anna")[0] == 403
    assert node.ask("/v1/history?topic=site/anna/h", user="anna")[0] == 200
    assert node.ask("/v1/history?topic=site/%23", user="anna")[0] == 403
    assert node.ask("/v1/audit", user="anna")[0] == 403
    assert node.ask("/v1/command", user="sec", body={"topic": "site/x", "value": True})[0] == 403
    assert node.ask("/v1/command", user="anna", body={"topic": "site/x", "value": True})[0] == 404


#: These answer anybody.
# A site that joins has no user: it has the token of its body.
PUBLIC = {
    *(("get", path) for path in ("/healthz", "/login", "/login/callback", "/login/provider", "/v1/openapi.json")),
    *(("post", path) for path in ("/login", "/login/provider-logout", "/logout", "/v1/join")),
    *(("post", path) for path in ("/v1/login/device", "/v1/login/device/token")),
}


def test_every_route_needs_an_authenticated_caller(node):
    """Each operation that the document has, called by nobody: refused before its query or its body is looked at."""
    paths = json.loads(node.ask("/v1/openapi.json")[1])["paths"]
    operations = {(method, path) for path, methods in paths.items() for method in methods}
    assert PUBLIC < operations and len(operations) > 20, operations
    for method, path in operations:
        connection = http.client.HTTPConnection(node.http, timeout=30)
        connection.request(method.upper(), path.replace("{topic}", "site/x"), b"nonsense" if method != "get" else None)
        answer = connection.getresponse()
        connection.close()
        # The login answers 401, too, to a wrong password: without the header.
        is_refused = answer.status == 401 and "WWW-Authenticate" in answer.headers
        assert is_refused != ((method, path) in PUBLIC), (method, path, answer.status)


def test_the_console_asks_who_one_is(node):
    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_):
            return None

    opener = urllib.request.build_opener(Stay)

    def post(path, form, headers=None):
        asked = urllib.request.Request(f"http://{node.http}{path}", urllib.parse.urlencode(form).encode(), headers or {})
        try:
            return opener.open(asked, timeout=30)
        except urllib.error.HTTPError as answer:
            return answer

    page = urllib.request.urlopen(f"http://{node.http}/", timeout=30)
    assert page.url.endswith("/login") and "Password" in page.read().decode()
    assert post("/login", {"user": "anna", "password": "wrong"}).status == 401
    assert post("/login", {"user": "anna", "password": "password-anna"}, {"Origin": "http://evil.example"}).status == 403
    let_in = post("/login", {"user": "anna", "password": "password-anna"})
    assert (let_in.status, let_in.headers["Location"]) == (303, "/")
    cookie = let_in.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    cookie = cookie.split(";")[0]
    assert node.ask("/v1/status", cookie=cookie)[0] == 200
    assert node.ask("/v1/audit", cookie=cookie)[0] == 403
    asked = urllib.request.Request(f"http://{node.http}/v1/live?filter=site/%23", headers={"Cookie": cookie})
    with urllib.request.urlopen(asked, timeout=30) as live:
        assert live.readline().startswith(b"event:")
        assert post("/logout", {}, {"Cookie": cookie}).status == 303
        live.read()  # what was read with the login ends with it
    assert node.ask("/v1/status", cookie=cookie)[0] == 401


def test_a_flood_of_wrong_passwords_stops_nobody(tmp_path):
    with Guarded(tmp_path) as node, Client(node, "boss", "password-boss", "boss") as boss:
        guess = lambda number: mosquitto(node, "x", "-V", "mqttv5", "-u", "anna", "-P", f"guess{number}").returncode
        # Several at a time: one after the other, a slow machine makes no flood.
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(guess, range(40)))
        began = time.monotonic()
        assert boss.publish("site/x") == 0
        assert time.monotonic() - began < 5
        # A user in good standing is taken even from an address whose strangers are not looked at for a while.
        with Client(node, "boss", "password-boss", "boss-2") as again:
            assert again.code == 0
        _, text = node.ask("/metrics", user="boss")
        ends = {line.split('"')[1]: float(line.split()[-1]) for line in text.splitlines() if "logins_total{" in line}
        assert ends["wrong"] >= 10 and ends["too_often"] >= 1, ends


def test_a_password_that_the_node_knows_cannot_be_guessed_at_speed(tmp_path):
    """On one connection, as fast as they go, with the right one at the end."""
    with Guarded(tmp_path) as node:
        assert node.ask("/v1/me", user="anna")[0] == 200
        connection = http.client.HTTPConnection(node.http, timeout=30)

        def status(user, word):
            shown = base64.b64encode(f"{user}:{word}".encode()).decode()
            connection.request("GET", "/v1/me", headers={"Authorization": f"Basic {shown}"})
            answer = connection.getresponse()
            answer.read()
            return answer.status

        began = time.monotonic()
        codes = [status("anna", f"guess{number}") for number in range(2000)]
        looked_at, took = codes.count(401), time.monotonic() - began
        assert set(codes) == {401, 429} and looked_at <= 11 + took, (looked_at, took)

        def refused_since():
            """When the last guess before one that was looked at was refused: from then on a second brings one more."""
            since = None
            while since is None:
                asked = time.monotonic()
                while status("anna", "guess") == 429:
                    since, asked = asked, time.monotonic()
            return since

        since = refused_since()
        while status("anna", "password-anna") != 429:
            assert time.monotonic() - since > 1, "the right guess would have been found"
            since = refused_since()
        # Another user of this address is not held up by that.
        assert status("sec", "password-sec") == 200


def attempts(attempt, refusal):
    """Tries until no more is looked at; the answers before. Each second that passes brings one more."""
    began, answers = time.monotonic(), []
    while (answer := attempt(len(answers))) != refusal:
        answers.append(answer)
        assert len(answers) < min(100, 12 + time.monotonic() - began), answers
    return answers


def log_in(node, header, user, word, source):
    """The reason of CONNACK; none where the connection is closed without one."""
    with socket.create_connection(("127.0.0.1", node.mqtt_port), 30, (source, 0)) as stream:
        names = field(b"") + field(user.encode()) + field(word.encode())
        stream.sendall(header + packet(0x10, field(b"MQTT") + b"\x05\xc2\x00\x3c\x00" + names))
        try:
            answer = stream.recv(100)
        except ConnectionResetError:
            answer = b""
        return answer[3] if answer else None


def test_clients_of_a_proxy_are_told_apart(tmp_path):
    more = '[mqtt]\nproxy_protocol_from = ["127.0.0.2"]\n[http]\nforwarded_from = ["127.0.0.1"]\n'
    with Guarded(tmp_path, more) as node:
        v1 = lambda last: f"PROXY TCP4 192.0.2.{last} 198.51.100.1 5555 1883\r\n".encode()
        v2 = lambda last: b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes([192, 0, 2, last, 1, 2, 3, 4, 0, 9, 7, 91])
        proxy = "127.0.0.2"
        assert log_in(node, v1(7), "anna", "password-anna", proxy) == 0
        codes = attempts(lambda number: log_in(node, (v1 if number % 2 else v2)(8), "sec", "wrong", proxy), 0x9F)
        assert codes[:10] == [0x86] * 10 and set(codes) == {0x86}, codes
        # Of others behind the proxy nobody is kept out, and it is not the proxy's address that counts.
        assert log_in(node, v1(9), "sec", "password-sec", proxy) == 0
        assert log_in(node, v2(10), "boss", "password-boss", proxy) == 0
        assert log_in(node, b"", "boss", "password-boss", proxy) is None, "a proxy that does not say who comes"
        # Who is no proxy speaks for itself, and for nobody else.
        assert log_in(node, b"", "boss", "password-boss", "127.0.0.1") == 0
        assert log_in(node, v1(7), "anna", "password-anna", "127.0.0.1") is None
        refused = [line for line in node.audit() if line["phase"] == "login_refused" and "192.0.2.8" in line["who"]]
        assert refused and refused[0]["reason"] in ("wrong", "too_often"), refused

        def status(client, user, word):
            shown = base64.b64encode(f"{user}:{word}".encode()).decode()
            headers = {"Authorization": f"Basic {shown}", "X-Forwarded-For": f"10.9.9.9, {client}"}
            asked = urllib.request.Request(f"http://{node.http}/v1/me", headers=headers)
            try:
                with urllib.request.urlopen(asked, timeout=30) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code

        assert set(attempts(lambda _: status("192.0.2.20", "anna", "wrong"), 429)) == {401}
        assert status("192.0.2.21", "sec", "password-sec") == 200


def test_refusals_do_not_fill_the_audit_log(tmp_path):
    """Names as long as they may be, as often as one likes: one record, and a number."""
    with Guarded(tmp_path) as node:
        # In good standing: what follows comes from the same address.
        assert node.audit() is not None and node.metric("tieline_audit_summed_total") == 0
        for _ in range(300):
            log_in(node, b"", "x" * 4000, "y" * 4000, "127.0.0.1")
        entries = [line for line in node.audit() if line["phase"] == "login_refused"]
        assert len(entries) <= 3 and all(len(line["who"].encode()) <= 512 for line in entries), len(entries)
        assert node.metric("tieline_audit_summed_total") >= 290
        assert (node.data / "audit.jsonl").stat().st_size < 10_000
        said = tieline("access", "verify", node.data)
        assert "ok, " in said.stdout and "to be noted elsewhere" in said.stdout, said.stdout
        text = (node.data / "audit.jsonl").read_text()
        (tmp_path / "copy").mkdir()
        (tmp_path / "copy" / "audit.jsonl").write_text(text.replace('"phase":"login_refused"', '"phase":"denied_refused"', 1))
        said = tieline("access", "verify", tmp_path / "copy", check=False)
        assert said.returncode == 3 and "does not follow" in said.stdout, said.stdout


def keeping(seconds):
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = seconds
    return properties


def test_no_session_goes_for_anothers_and_all_go_with_their_user(tmp_path):
    with Guarded(tmp_path, "[mqtt]\naway_sessions_max = 5\n") as node:
        with Client(node, "anna", "password-anna", "anna-1", keeping(300)):
            pass
        for number in range(8):
            with Client(node, "boss", "password-boss", f"boss-{number}", keeping(3600)) as boss:
                assert boss.code == 0
        # One that leaves once anna is here takes the last place among those that wait.
        until(lambda: node.metric("tieline_mqtt_sessions") == 0, node.metrics)
        with Client(node, "anna", "password-anna", "anna-1", keeping(300)) as anna:
            assert anna.is_resumed, "another user's sessions have pushed it out"
        with Client(node, "sec", "password-sec", "anna-1") as other:
            assert other.code == 0x85, "another user has taken a session that waits"
        node.user("remove", "anna")

        def is_free():
            with Client(node, "sec", "password-sec", "anna-1") as other:
                return other.code == 0

        until(is_free, lambda: "the identifier of a user that is gone is not free")


def test_sessions_that_were_kept_go_with_what_changed_while_the_node_was_down(tmp_path):
    with Guarded(tmp_path) as node:
        names = ["anna", "boss", "sec"]
        for name in names:
            with Client(node, name, f"password-{name}", f"{name}-1", keeping(3600)) as client:
                assert client.code == 0, name
        node.process.stop()
        node.user("password", "anna", word="another-password\n")
        node.user("remove", "sec")
        node.start()
        with Client(node, "anna", "another-password", "anna-1", keeping(3600)) as anna:
            assert anna.code == 0 and not anna.is_resumed, "the session of another password goes on"
        with Client(node, "anna", "another-password", "sec-1") as anna:
            assert anna.code == 0, "the identifier of a user that is gone is not free"
        with Client(node, "boss", "password-boss", "boss-1", keeping(3600)) as boss:
            assert boss.is_resumed, "nothing of it has changed"
        node.process.kill()  # and the session of the new password is there again
        node.start()
        with Client(node, "anna", "another-password", "anna-1", keeping(3600)) as anna:
            assert anna.is_resumed


def test_sessions_from_before_there_were_users_keep_nobody_off(tmp_path):
    with Guarded(tmp_path) as node:
        node.process.stop()
        guarded = node.config.read_text()
        node.config.write_text(guarded.replace(ACCESS, ""))
        node.start()
        for name in ["desk", "bench"]:
            with Client(node, name=name, properties=keeping(3600)) as client:
                assert client.code == 0 and client.subscribe("site/#") == 1
        node.process.stop()
        node.config.write_text(guarded)
        node.start()
        with Client(node, "anna", "password-anna", "desk", keeping(3600)) as anna:
            assert anna.code == 0 and not anna.is_resumed, "what nobody subscribed to is not hers"
        node.process.stop()
        node.config.write_text(guarded.replace(ACCESS, ""))
        node.start()  # nobody shows who it is: users' sessions are anybody's
        for name, goes_on in [("desk", True), ("bench", True), ("new", False)]:
            with Client(node, name=name, properties=keeping(3600)) as client:
                assert client.code == 0 and client.is_resumed == goes_on, name


def test_what_a_node_would_not_take_is_refused_by_the_command(tmp_path):
    with Guarded(tmp_path) as node, Client(node, "anna", "password-anna", "desk") as anna:
        users = tmp_path / "users.toml"
        words = ["access", "user", "add", "eve", "--config", tmp_path / "tieline.toml", "--role", "nosuch"]
        refused = tieline(*words, input="password-eve\n", check=False)
        assert refused.returncode == 1 and 'has the role "nosuch", which there is not' in refused.stderr, refused.stderr
        assert "[user.eve]" not in users.read_text()
        # The next change holds: it would not, had the file been spoilt.
        node.user("disable", "anna")
        until(lambda: anna.ended, lambda: "a disabled user is still here")
        health = lambda: json.loads(node.ask("/healthz", user="boss")[1])
        assert node.ask("/healthz", user="boss")[0] == 200 and health()["status"] == "ok"
        # By hand: what holds is not what the file says, and health says so.
        good = users.read_text()
        users.write_text(good + '\n[user.eve]\nroles = ["nosuch"]\n')
        until(lambda: node.ask("/healthz", user="boss")[0] == 503, lambda: "health is ok")
        assert health()["status"] == "degraded" and "nosuch" in str(health()["detail"]), health()
        refused = tieline("access", "user", "enable", "anna", "--users", users, check=False)
        assert refused.returncode == 1 and "nothing is changed" in refused.stderr, refused.stderr
        users.write_text(good)
        until(lambda: node.ask("/healthz", user="boss")[0] == 200, lambda: health())


def test_https_with_users_may_be_reached_from_elsewhere(tmp_path):
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"]
    files = ["-keyout", tmp_path / "node.key", "-out", tmp_path / "node.pem"]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(["openssl", *words, *files, *subject], check=True, capture_output=True)
    open_to_all = '[http]\nlisten = "0.0.0.0:0"\n'
    tls = 'tls = { certificate = "node.pem", key = "node.key" }\n'
    config = tmp_path / "tieline.toml"
    tieline("access", "user", "add", "anna", "--users", tmp_path / "users.toml", "--role", "VIEWER", input="password-anna\n")
    for text, reason in [
        (open_to_all, "without authentication"),
        (open_to_all + tls, "without authentication"),
        (open_to_all + '[access]\nusers = "users.toml"\n', "without TLS"),
    ]:
        config.write_text(text)
        refused = tieline("config", "check", config, check=False)
        assert refused.returncode == 1 and reason in refused.stderr, refused.stderr
    node = Node.__new__(Node)
    node.folder, node.devices, node.data, node.config, node.environment = tmp_path, (), tmp_path / "data", config, {}
    config.write_text(open_to_all + tls + '[access]\nusers = "users.toml"\n')
    with node.start(http="0.0.0.0:0"):
        port = node.http.rsplit(":", 1)[1]
        context = ssl.create_default_context(cafile=tmp_path / "node.pem")
        shown = {"Authorization": "Basic " + base64.b64encode(b"anna:password-anna").decode()}
        asked = urllib.request.Request(f"https://localhost:{port}/v1/me", headers=shown)
        with urllib.request.urlopen(asked, timeout=30, context=context) as answer:
            assert json.loads(answer.read())["user"] == "anna"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"https://localhost:{port}/v1/status", timeout=30, context=context)
        assert refused.value.code == 401


def test_decisions_are_explained_offline(node):
    def ask(user, verb, topic, check=True):
        words = ["access", "test", user, verb, topic, "--config", node.config]
        return tieline(*words, check=check)

    said = ask("anna", "read", "site/secret/key", check=False)
    assert said.returncode == 3 and "denies       works: deny read site/secret/#" in said.stdout, said.stdout
    assert "anna may command site/x" in ask("anna", "command", "site/x").stdout
    part = ask("anna", "read", "#", check=False)
    assert part.returncode == 7 and part.stdout.startswith("anna may in part read #\n"), part
    assert "denies some  works: deny read site/secret/#" in part.stdout, part.stdout
    assert ask("anna", "read", "site/secret/+", check=False).returncode == 3
    whole = ask("anna", "read", "site/public/#")
    assert "it is allowed for every topic of the filter" in whole.stdout, whole.stdout
    assert "no topic and no filter" in ask("anna", "read", "site#", check=False).stderr
    assert "3 users" in tieline("access", "check", "--config", node.config).stdout
    listed = tieline("access", "user", "list", "--users", node.folder / "users.toml").stdout
    assert "anna" in listed and "password-anna" not in listed
    (node.folder / "bad.toml").write_text('[role.x]\nrules = ["allow fly #"]\n')
    (node.folder / "other.toml").write_text('[access]\nusers = "users.toml"\nroles = "bad.toml"\n')
    refused = tieline("access", "check", "--config", node.folder / "other.toml", check=False)
    assert refused.returncode == 1 and "bad.toml:2:10: role.x.rules" in refused.stderr, refused.stderr


def test_our_clients_show_who_they_are(node):
    word = node.folder / "anna.secret"
    word.write_text("password-anna\n")
    who = ["--user", "anna", "--password-file", word]
    tieline("pub", "site/anna/cli", "5", "--retain", "--mqtt", node.mqtt, *who)
    assert tieline("get", "site/anna/cli", "--http", node.http, *who).stdout.strip() == "5"
    assert tieline("get", "site/anna/cli", "--http", node.http, check=False).returncode == 3
    assert "may not read" in tieline("get", "site/secret/x", "--http", node.http, *who, check=False).stderr


def test_only_who_administers_sites_lets_sites_in(own_node):
    """The list of sites decides who sends data: it needs rights of its own, to change it and to read it."""
    own_node.add("door", "SECADM")
    until(lambda: any(entry["phase"] == "policy" for entry in own_node.audit()), own_node.process.said)
    changes = {
        "/v1/fabric/sites": {"name": "north"},
        "/v1/fabric/sites/token": {"name": "north"},
        "/v1/fabric/sites/revoke": {"name": "north"},
    }
    for path, body in [*changes.items(), ("/v1/fabric/sites", None)]:
        assert own_node.ask(path, body=body)[0] == 401, path
        for user in ("anna", "boss"):
            assert own_node.ask(path, user, body=body)[0] == 403, (path, user)
        # It may, and the node is no centre.
        assert own_node.ask(path, "door", body=body)[0] == 409, path
    denied = {entry["topic"] for entry in own_node.audit() if entry["phase"] == "denied"}
    assert "$access/sites" in denied
    # A site that joins is no user: its token is what counts, and here is no centre that could have given one.
    assert own_node.ask("/v1/join", body={"token": "tljoin_x", "key": "U"})[0] in (400, 403, 409)
