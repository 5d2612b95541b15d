"""Locks of sessions: one has a lock at a time, the others wait in order; what depends on a lock is refused to all but the session
that has it; numbers grow over crashes."""

import json

from bus import Paho
from node import Node, tieline
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from test_edges import ACCESS
from waiting import until


def expiring(seconds):
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = seconds
    return properties


class Program(Paho):
    """A client that asks for locks, each request with a response topic of its own."""

    def __init__(self, node, name, expiry=0, clean=True, user=None):
        self.name, self.clean, self.user, self.asked = name, clean, user, 0
        super().__init__(node, name=name, properties=expiring(expiry))
        self.subscribe(f"reply/{name}/+")

    def prepare(self):
        if self.user:
            self.client.username_pw_set(self.user, f"password-{self.user}")
        connect = self.client.connect
        self.client.connect = lambda *words, **more: connect(*words, clean_start=self.clean, **more)

    def reason(self, topic, payload, properties, retain=False):
        """Publishes; the reason code of the acknowledgement and its words."""
        while not self.acknowledged.empty():
            self.acknowledged.get()
        self.client.publish(topic, payload, 1, retain, properties)
        _, reason, said = self.acknowledged.get(timeout=15)
        return reason.value, getattr(said, "ReasonString", "")

    def ask(self, verb, **body):
        """Sends a request; the topic of its answer."""
        self.asked += 1
        properties = Properties(PacketTypes.PUBLISH)
        properties.ResponseTopic = f"reply/{self.name}/{self.asked}"
        assert self.reason(f"$locks/{verb}", json.dumps(body), properties) == (0, "")
        return properties.ResponseTopic

    def hears(self, topic=None):
        """The next answer, which is on this topic."""
        message = self.next()
        assert topic in (None, message.topic), (topic, message.topic, message.payload)
        return json.loads(message.payload)

    def acquire(self, lock, **more):
        return self.hears(self.ask("acquire", lock=lock, **more))

    def release(self, lock, **more):
        return self.hears(self.ask("release", lock=lock, **more))

    def set(self, topic, value, *locks):
        """Publishes what depends on locks; the words of a refusal, none where it is taken."""
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = [("tieline-if-lock", lock) for lock in locks]
        code, words = self.reason(topic, value, properties, retain=True)
        assert (code == 0) == (words == ""), (code, words)
        return words

    def vanish(self):
        """Its connection is lost, without a word."""
        self.client.loop_stop()
        self.client.socket().close()


def locks(node):
    status, answer = node.request("/v1/locks")
    assert status == 200, answer
    return answer


def waiting(node, count):
    until(lambda: locks(node)["waiting"] == count, lambda: locks(node))


def test_one_session_has_a_lock_and_others_wait_in_order(start_node):
    node = start_node()
    with Program(node, "one") as one, Program(node, "two") as two, Program(node, "three") as three:
        first = one.acquire("plant/writer")
        assert first == {"status": "acquired", "lock": "plant/writer", "number": first["number"], "scope": "session"}
        # Asked for again, it is the same acquisition.
        assert one.acquire("plant/writer", scope="connection") == {**first, "scope": "connection"}
        refused = two.acquire("plant/writer", wait="0s")
        assert (refused["status"], refused["reason"]) == ("refused", "held"), refused
        late = two.acquire("plant/writer", wait="50ms")
        assert (late["status"], late["reason"]) == ("refused", "timeout"), late
        of_two = two.ask("acquire", lock="plant/writer")
        waiting(node, 1)
        of_three = three.ask("acquire", lock="plant/writer", wait="1h")
        waiting(node, 2)
        (shown,) = locks(node)["locks"]
        assert (shown["client"], shown["number"], shown["waiting"]) == ("one", first["number"], 2), shown
        assert one.release("plant/writer", number=first["number"] - 1)["reason"] == "not_held"
        assert one.release("plant/writer") == {"status": "released", "lock": "plant/writer"}
        second = two.hears(of_two)
        assert second["status"] == "acquired" and second["number"] > first["number"], second
        assert one.release("plant/writer")["reason"] == "not_held"
        two.close()
        third = three.hears(of_three)
        assert third["number"] > second["number"], third
        assert three.release("plant/writer", number=third["number"])["status"] == "released"
    until(lambda: locks(node) == {"locks": [], "held": 0, "waiting": 0}, lambda: locks(node))


def test_a_message_that_names_a_lock_is_taken_from_the_session_that_has_it(start_node):
    node = start_node()
    with Program(node, "one") as one, Program(node, "two") as two:
        number = one.acquire("plant/writer")["number"]
        assert one.set("plant/mode", "auto", "plant/writer") == ""
        assert one.set("plant/mode", "auto", f"plant/writer#{number}") == ""
        assert two.set("plant/mode", "off", "plant/writer") == "this session does not have the lock plant/writer"
        words = f"this session has the lock plant/writer with the number {number}, expected {number - 1}"
        assert one.set("plant/mode", "off", f"plant/writer#{number - 1}") == words
        assert one.set("plant/mode", "off", "plant/writer", "other") == "this session does not have the lock other"
        assert one.set("plant/mode", "off", "#1").startswith("tieline-if-lock is ")
        one.release("plant/writer")
        assert one.set("plant/mode", "off", "plant/writer") == "this session does not have the lock plant/writer"
        assert two.set("plant/mode", "off") == ""
    unmet = next(line for line in node.metrics().splitlines() if line.startswith("tieline_topics_unmet_total "))
    assert unmet.split()[1] == "4"


def test_a_lock_ends_with_its_session_or_with_its_connection(start_node):
    node = start_node()
    one = Program(node, "one", expiry=3600)
    kept = one.acquire("kept")["number"]
    one.acquire("lost", scope="connection")
    with Program(node, "two") as two:
        of_lost = two.ask("acquire", lock="lost")
        of_kept = two.ask("acquire", lock="kept")
        waiting(node, 2)
        # Its connection is lost, and its session stays.
        one.vanish()
        assert two.hears(of_lost)["status"] == "acquired"
        # Another connection goes on with the session, and a third one takes it over: the lock is the session's.
        one = Program(node, "one", expiry=3600, clean=False)
        assert one.set("a", "1", f"kept#{kept}") == ""
        one.client.loop_stop()
        with Program(node, "one", expiry=3600, clean=False) as again:
            assert again.acquire("kept")["number"] == kept
            assert again.set("a", "1", "kept") == ""
        assert locks(node)["waiting"] == 1
        # It ends when its client begins with a new one.
        with Program(node, "one") as new:
            assert two.hears(of_kept)["number"] > kept
            assert new.set("a", "1", "kept") == "this session does not have the lock kept"


def test_limits_of_locks_are_told(start_node):
    node = start_node()
    with Program(node, "one") as one, Program(node, "two") as two:
        for number in range(64):
            assert one.acquire(f"a/{number}")["status"] == "acquired"
        refused = one.acquire("a/64")
        assert (refused["reason"], refused["detail"]) == ("limit", "the session has or waits for 64 locks, as many as it may")
        assert one.acquire("x" * 257)["detail"] == "the name of a lock has 1 to 256 bytes"
        assert one.acquire("a/+")["reason"] == "malformed"
        assert one.acquire("a/0", wait="soon")["detail"].startswith('wait is "soon", expected a duration')
        assert two.acquire("a/0", wait="0s")["reason"] == "held"
        page = node.request("/v1/locks?limit=10")[1]
        assert (len(page["locks"]), page["next"], page["held"]) == (10, page["locks"][-1]["name"], 64)
        listed = [json.loads(line) for line in tieline("locks", "--json", "--http", node.http).stdout.splitlines()]
        assert [lock["name"] for lock in listed] == sorted(f"a/{number}" for number in range(64))
        # An operator takes one away; the next that waits has it then.
        answer = two.ask("acquire", lock="a/1")
        waiting(node, 1)
        assert tieline("locks", "release", "a/1", "--http", node.http).stdout == "released: a/1\n"
        assert two.hears(answer)["status"] == "acquired"
        (line,) = until(lambda: node.audit("$locks/a/1")["entries"], "the audit log has no record")
        assert line["phase"] == "lock_released", line
        assert node.request("/v1/locks/release", {"lock": "b"})[0] == 404
        assert one.set("a", "1", "a/1") == "this session does not have the lock a/1"
    until(lambda: locks(node)["held"] == 0, lambda: locks(node))
    metrics = node.metrics()
    for line in ("tieline_locks_revoked_total 1", 'tieline_locks_refused_total{reason="limit"} 1', "tieline_locks_held 0"):
        assert line in metrics, metrics


def test_numbers_grow_over_kills_and_no_lock_outlives_one(start_node):
    node = start_node()
    port, last = node.mqtt_port, 0
    for count in (1, 5, 20):
        one = Program(node, "one", expiry=3600, clean=False)
        for _ in range(count):
            number = one.acquire("writer")["number"]
            assert number > last
            last = number
            one.release("writer")
        held = one.acquire("writer")["number"]
        assert held > last and one.set("a", "1", f"writer#{held}") == ""
        last = held
        node.process.kill()
        one.client.loop_stop()
        node.start(mqtt=f"127.0.0.1:{port}")
        # The session is there again, and the lock is not.
        with Program(node, "one", expiry=3600, clean=False) as again:
            assert again.set("a", "2", f"writer#{held}") == "this session does not have the lock writer"
        assert locks(node)["held"] == 0


ROLES = """
[role.writer]
rules = ["allow publish plant/#", "allow read plant/#", "allow publish reply/#", "allow read reply/#", "allow publish $locks/plant/#"]
[role.reader]
rules = ["allow publish #", "allow read #"]
"""


def test_a_lock_takes_the_right_to_publish_to_its_name(tmp_path):
    (tmp_path / "roles.toml").write_text(ROLES)
    for user, role in (("anna", "writer"), ("bert", "reader")):
        words = ["access", "user", "add", user, "--users", tmp_path / "users.toml", "--role", role]
        tieline(*words, input=f"password-{user}\n")
    with Node(tmp_path, more=ACCESS) as node:
        with Program(node, "one", user="anna") as anna, Program(node, "two", user="bert") as bert:
            assert anna.acquire("plant/writer")["status"] == "acquired"
            assert anna.set("plant/a", "1", "plant/writer") == ""
            denied = "the user may not use this lock: that is the right to publish to $locks/ and its name"
            properties = Properties(PacketTypes.PUBLISH)
            properties.ResponseTopic = "reply/two/1"
            body = json.dumps({"lock": "plant/writer"})
            assert bert.reason("$locks/acquire", body, properties) == (0x87, denied)
            assert anna.reason("$locks/acquire", json.dumps({"lock": "other"}), properties) == (0x87, denied)
            assert bert.set("plant/a", "1", "plant/writer") == denied
