"""A core with standbys, over a real nats-server: what was acknowledged is at the next leader, whatever becomes of the one before."""

import datetime
import json
import shutil
import signal
import socket
from pathlib import Path

import nats_peer
import pytest
from nats_peer import SERVER as NATS
from node import Node, tieline
from persistent import persistent
from simulated import SimulatedDevice
from site_nodes import ROOM, Server, folder, plant_of, wait_for_all, wait_for_clock, wait_for_samples
from site_nodes import Publisher as Points
from waiting import until

pytestmark = pytest.mark.skipif(not (NATS and Path(NATS).exists()), reason="no nats-server: .ci/nats builds it")


class Member(Node):
    """A node of the core `core`."""

    def __init__(self, path, name, server, more="", device=None):
        self.name, self.device = name, device
        self.text = f'[node]\nname = "{name}"\n{server.table()}[cluster]\nname = "core"\nsilence = "1s"\n{more}'
        super().__init__(folder(path, name))

    def configure(self, *devices, more=""):
        self.config.write_text(self.text + (self.device.toml() if self.device else ""))
        if self.device:
            (self.folder / f"{self.device.name}.csv").write_text(self.device.csv())

    def again(self):
        """The same member at the same addresses."""
        return self.start(self.http, self.mqtt)

    def seen(self):
        """How it says that it does; nothing while it changes its role."""
        try:
            status, answer = self.request("/v1/cluster")
        except OSError:
            return {}
        return answer if status == 200 else {}

    def serves(self):
        """Whether a balancer would send clients here."""
        try:
            return self.request("/healthz")[0] == 200
        except OSError:
            return False

    def wait_role(self, role, seconds=20.0, **wanted):
        def found():
            seen = self.seen()
            if role == "leader" and not self.serves():
                return None
            return seen if seen.get("role") == role and all(seen.get(key) == v for key, v in wanted.items()) else None

        return until(
            found,
            lambda: f"{self.name} {role}: {self.seen()}\n{self.process.said()}",
            seconds,
        )


@pytest.fixture
def server(tmp_path):
    path = folder(tmp_path, "nats")
    # No power is cut here, and a leader must not step down because other tests keep the disk busy: without `sync_interval: always`.
    # What is left on the disk of the machine does not matter: the server would refuse a log that may grow larger than that.
    server = Server(path, f'jetstream {{ store_dir: "{path}/js", max_file_store: 1TB }}\n')
    yield server
    server.kill()


def put(member, topic, text):
    """Sets a value, which is stored then."""
    status, _, answer = member.set(topic, text)
    assert status in (200, 201), f"{answer}\n{member.process.said()}"


def value(member, topic):
    """The last value of a topic, be it a point or not."""
    found = member.get(topic)
    return found["v"] if isinstance(found, dict) else found


def pair(path, server, *more):
    """The leader and a standby that has all."""
    first = Member(path, "a", server, *more)
    first.wait_role("leader")
    second = Member(path, "b", server, *more)
    second.wait_role("standby", lag=0, leader="a")
    return first, second


def connect(port, level, name=b"x"):
    """The answer to a CONNECT."""
    properties = b"\0" if level == 5 else b""
    body = b"\0\x04MQTT" + bytes([level, 2, 0, 60]) + properties + len(name).to_bytes(2, "big") + name
    with socket.create_connection(("127.0.0.1", port), timeout=15) as client:
        client.sendall(b"\x10" + bytes([len(body)]) + body)
        return client.makefile("rb").read()


class Publisher:
    """Publishes numbers at QoS 1, and comes back to whichever member leads until each is acknowledged."""

    def __init__(self, member):
        self.acknowledged, self.at_once = [], []
        self.acks = {}
        told = lambda client, data, mid, reason, properties: self.acks.__setitem__(mid, reason)
        self.said = []
        self.client = persistent("publisher", member, on_publish=told)
        self.client.on_connect = lambda client, data, flags, reason, properties: self.said.append(("connect", reason))
        self.client.on_disconnect = lambda client, data, flags, reason, properties: self.said.append(("gone", reason))

    def publish(self, numbers, kill=None):
        """Numbers that are acknowledged by the leader that they were sent to; `kill` is called halfway, and ends it."""
        for place, number in enumerate(numbers):
            info = self.client.publish("plant/count", str(number), 1, retain=True)
            if kill and place == len(numbers) // 2:
                kill()
                return
            until(lambda mid=info.mid: mid in self.acks, f"no PUBACK of {number}")
            reason = self.acks.pop(info.mid)
            assert not reason.is_failure, (number, reason)
            self.acknowledged.append(number)

    def move(self, member):
        """Goes to another leader; what was not acknowledged is sent there."""
        self.client.loop_stop()
        until(lambda: gone(self.client), "the connection ends")
        self.client.connect("127.0.0.1", member.mqtt_port, clean_start=False)
        self.client.loop_start()
        until(self.client.is_connected, lambda: f"the publisher comes back: {self.said}")


def gone(client):
    client.loop(0.01)
    return not client.is_connected()


def test_what_was_acknowledged_is_at_the_next_leader(tmp_path, server):
    first, second = pair(tmp_path, server)
    with first, second:
        # A session whose client is away, and the messages that wait for it.
        granted = []
        away = persistent("away", first, on_subscribe=lambda *_: granted.append(1))
        away.subscribe("plant/#", 1)
        until(lambda: granted, "SUBACK")
        away.disconnect()
        away.loop_stop()
        publisher = Publisher(first)
        publisher.publish(range(1, 21), kill=first.process.kill)
        second.wait_role("leader")
        publisher.move(second)
        publisher.publish(range(100, 105))
        known = publisher.acknowledged
        assert known[-1] == 104 and len(known) >= 14
        assert value(second, "plant/count") == 104
        values = [row["v"] for row in second.history("plant/count")]
        # What has no PUBACK may be there, and is sent again: once more at most.
        assert [value for value in values if value in known] == known, values
        got = []
        back = persistent(
            "away",
            second,
            on_message=lambda _, __, message: got.append(int(message.payload)),
        )
        until(lambda: 104 in got, lambda: got)
        assert [value for value in got if value in known] == known
        back.disconnect()
        publisher.client.disconnect()
        # The first comes back as a standby with all that it missed, and leads when the second is gone.
        first.again()
        first.wait_role("standby", lag=0, leader="b")
        second.process.stop()
        first.wait_role("leader")
        assert [row["v"] for row in first.history("plant/count") if row["v"] in known] == known


def test_a_core_of_three_outlives_two_leaders_one_after_the_other(tmp_path, server):
    first, second = pair(tmp_path, server)
    third = Member(tmp_path, "c", server)
    third.wait_role("standby", lag=0, leader="a")
    members, known = {first, second, third}, []
    with first, second, third:
        publisher = Publisher(first)
        publisher.publish(range(1, 11), kill=first.process.kill)
        leader = until(lambda: leading({second, third}), "one of two leads")
        last = (members - {first, leader}).pop()
        last.wait_role("standby", leader=leader.name)
        publisher.move(leader)
        publisher.publish(range(100, 111), kill=leader.process.kill)
        last.wait_role("leader")
        publisher.move(last)
        publisher.publish(range(200, 203))
        known = publisher.acknowledged
        assert known[-1] == 202 and {4, 104} <= set(known), known
        assert value(last, "plant/count") == 202
        values = [row["v"] for row in last.history("plant/count")]
        assert [value for value in values if value in known] == known, values
        publisher.client.disconnect()
        # The first that was killed comes back, and has what two others acknowledged meanwhile.
        first.again()
        first.wait_role("standby", lag=0, leader=last.name)
        last.process.stop()
        first.wait_role("leader")
        assert [row["v"] for row in first.history("plant/count") if row["v"] in known] == known


def leading(members):
    """The one that leads, and serves."""
    return next((member for member in members if member.seen().get("role") == "leader" and member.serves()), None)


def test_a_standby_says_where_the_leader_is(tmp_path, server):
    first, second = pair(tmp_path, server)
    with first, second:
        answer = connect(second.mqtt_port, 5)
        assert (answer[0], answer[3]) == (
            0x20,
            0x9C,
        ) and f"the leader is at {first.mqtt}".encode() in answer
        assert connect(second.mqtt_port, 4) == bytes([0x20, 2, 0, 3])
        status, health = second.request("/healthz")
        assert (status, health["status"], health["role"], health["leader"]) == (
            503,
            "standby",
            "standby",
            "a",
        )
        status, problem = second.request("/v1/topics/a")
        assert status == 503 and f"the leader is a, for MQTT at {first.mqtt}" in problem["detail"]
        assert 'tieline_cluster_role{role="standby"} 1' in second.metrics()
        assert first.request("/healthz")[0] == 200
        assert 'tieline_cluster_role{role="leader"} 1' in first.metrics()
        assert first.request("/v1/status")[1]["cluster"]["role"] == "leader"


def test_a_leader_that_was_stopped_for_a_while_is_fenced(tmp_path, server):
    first, second = pair(tmp_path, server)
    with first, second:
        ends = []
        client = persistent(
            "client",
            first,
            on_disconnect=lambda _, __, ___, reason, ____: ends.append(reason),
        )
        first.process.process.send_signal(signal.SIGSTOP)
        second.wait_role("leader")
        put(second, "plant/one", "1")
        first.process.process.send_signal(signal.SIGCONT)
        first.wait_role("standby", leader="b")
        until(lambda: ends, "the client is disconnected")
        assert ends[0].value == 0x9C, ends
        client.loop_stop()
        until(lambda: first.seen().get("lag") == 0, first.process.said)
        second.process.kill()
        first.wait_role("leader")
        assert value(first, "plant/one") == 1


def test_members_are_restarted_one_after_another(tmp_path, server):
    members = pair(tmp_path, server)
    with members[0], members[1]:
        for number in range(4):
            leader, other = members[number % 2], members[1 - number % 2]
            put(leader, "plant/count", str(number))
            leader.process.stop()
            other.wait_role("leader")
            assert value(other, "plant/count") == number
            leader.again()
            leader.wait_role("standby", lag=0, leader=other.name)


def test_a_member_that_was_away_for_too_long_needs_a_backup(tmp_path, server):
    first, second = pair(tmp_path, server)
    with first, second:
        second.process.stop()
        for one in range(2):
            put(first, "plant/one", str(one))
        # The message before the last has the ledger's record, the last that of the journal.
        last = first.seen()["last"] - 1
        with socket.create_connection(("127.0.0.1", server.port), timeout=15) as nats:
            body = json.dumps({"seq": last})
            said = f'CONNECT {{"verbose":false}}\r\nSUB r 1\r\nPUB $JS.API.STREAM.PURGE.TIELINE_core r {len(body)}\r\n{body}\r\n'
            nats.sendall(said.encode())
            reader = nats.makefile("rb")
            until(lambda: b'"success":true' in reader.readline(), "the log is purged")
        second.again()
        seen = second.wait_role("behind")
        assert "tieline backup" in seen["trouble"] and second.request("/healthz")[1]["role"] == "behind"
        second.process.stop()
        archive = tmp_path / "core.tar"
        tieline("backup", "-o", archive, "--http", first.http)
        second.data.rename(tmp_path / "old")
        tieline("restore", archive, "--data", second.data)
        second.again()
        second.wait_role("standby", lag=0, leader="a")
        first.process.kill()
        second.wait_role("leader")
        assert value(second, "plant/one") == 1


CENTRE = '[centre]\nsilence = "3s"\n'


def test_a_centre_goes_on_with_the_marks_of_the_leader_before(tmp_path, server):
    first, second = pair(tmp_path, server, CENTRE)
    points = Points()
    site = plant_of(tmp_path, server, "north", 'topics = ["plant/#"]\ncommands = "operate"\n')
    with first, second, site:
        points.publish(site, 30)
        wait_for_all(first, points)
        wait_for_samples(first, 30)
        second.wait_role("standby", lag=0)
        first.process.kill()
        points.publish(site, 20)
        second.wait_role("leader")
        wait_for_all(second, points)
        # It has the marks: the 30 do not come again. History would show two that are equal as one.
        wait_for_samples(second, 20)
        # The new leader commands the site.
        wait_for_clock(second)
        assert second.command("sites/north/test/room/valve", 40)["status"] == "success"
        first.again()
        first.wait_role("standby", lag=0, leader="b")
        # The leader is killed while points come.
        points.publish(site, 10)
        second.process.kill()
        points.publish(site, 10)
        first.wait_role("leader")
        points.publish(site, 10)
        wait_for_all(first, points)
        assert site.request("/v1/status")[1]["site"]["lost"] == 0


def test_the_next_leader_of_a_centre_knows_who_joined_and_who_was_revoked(tmp_path):
    # The keys are made once; each member has them.
    data = [folder(tmp_path, name) / "data" for name in ("x", "y")]
    config = tmp_path / "nats.conf"
    tieline("fabric", "config", "--data", data[0], "--listen", "127.0.0.1:-1", "--store", tmp_path / "js", "-o", config)
    # As in `server`.
    config.write_text(config.read_text().replace("sync_interval: always", ""))
    server = nats_peer.Server(config, tmp_path)
    table = f'[cluster]\nname = "core"\nsilence = "1s"\n[centre]\n[fabric]\nservers = ["{server.url}"]\n'

    class Keyed(Member):
        def __init__(self, path, keys):
            self.name, self.device = path.name, None
            self.text = f'[node]\nname = "{self.name}"\n{table}seed_file = "data/fabric/centre.nk"\n'
            if not (path / "data").exists():
                shutil.copytree(keys, path / "data" / "fabric")
            Node.__init__(self, path)

        def site(self, verb, *words):
            return json.loads(tieline("site", verb, *words, "--http", self.http, "--json").stdout)

    def join(member, name):
        member.site("add", name)
        token = member.site("token", name)["token"]
        tieline("join", f"http://{member.http}", "--token", token, "--data", tmp_path / name, "--json")
        return (tmp_path / name / "fabric" / "site.nk").read_text().strip()

    def enters(seed):
        try:
            nats_peer.Client(server.port, seed).close()
        except nats_peer.Refused:
            return False
        return True

    try:
        first = Keyed(tmp_path / "x", data[0] / "fabric")
        first.wait_role("leader")
        seeds = [join(first, "north")]
        # It has read the log from its beginning.
        second = Keyed(tmp_path / "y", data[0] / "fabric")
        with first, second:
            assert second.wait_role("standby", lag=0)["trouble"] == ""
            seeds.append(join(first, "south"))
            first.site("revoke", "north")
            listed = [{key: site[key] for key in ("name", "state", "key")} for site in first.site("list")["sites"]]
            assert [site["state"] for site in listed] == ["revoked", "active"]
            first.process.kill()
            second.wait_role("leader")
            assert [{key: site[key] for key in ("name", "state", "key")} for site in second.site("list")["sites"]] == listed
            until(lambda: any("sites can connect" in line for line in second.process.errors), second.process.said)
            assert [enters(seed) for seed in seeds] == [False, True]
    finally:
        server.stop()


def test_reservations_and_overrides_go_on_at_the_next_leader(tmp_path, server):
    first, second = pair(tmp_path, server, "", SimulatedDevice("room", ROOM, poll="100ms"))
    with first, second:
        slots = [{"device": "test/room", "for": "5m"}]
        asked = {"task": "night", "requester": "ann", "priority": "LOW", "slots": slots}
        assert first.request("/v1/reservations", asked)[1]["result"] == "SUCCESS"
        assert first.request("/v1/overrides", {"pattern": "test/ro*", "duration_s": 600})[0] == 200
        first.process.kill()
        second.wait_role("leader")
        kept = lambda: [found["task"] for found in second.request("/v1/reservations")[1]["reservations"]]
        assert kept() == ["night"]
        assert second.request("/v1/overrides")[1]["devices"] == ["test/room"]
        # What ends at one leader does not come back at the next.
        assert second.request("/v1/overrides/off", {"pattern": "test/ro*"})[0] == 200
        first.again()
        first.wait_role("standby", lag=0, leader="b")
        assert second.request("/v1/reservations/cancel", {"task": "night", "requester": "ann"})[0] == 200
        second.process.kill()
        first.wait_role("leader")
        assert first.request("/v1/reservations")[1]["reservations"] == []
        assert first.request("/v1/overrides")[1]["devices"] == []


def test_edits_of_the_history_go_on_at_the_next_leader(tmp_path, server):
    first, second = pair(tmp_path, server)
    edits = "/v1/history/edits"
    with first, second:
        publisher = Publisher(first)
        publisher.publish(range(1, 4))
        publisher.client.disconnect()
        # Not so long ago that it is not kept any longer.
        ago = lambda minutes: (datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=minutes)).isoformat()
        wrong = {"topic": "plant/count", "kind": "insert", "at": ago(20), "v": 0.1, "why": "by hand"}
        assert first.request(edits, wrong)[1]["id"] == 1
        assert first.request(edits, wrong | {"v": 7, "at": ago(10)})[1]["id"] == 2
        assert first.request(f"{edits}/1/undo", {"why": "it was not so"})[0] == 200
        listed = first.request(edits)[1]
        first.process.kill()
        second.wait_role("leader")
        assert second.request(edits)[1] == listed
        assert [row["v"] for row in second.history("plant/count")] == [7, 1, 2, 3]
        # The next one has the next number, and what ends here does not come back at the first.
        assert second.request(edits, wrong)[1]["id"] == 3
        assert second.request(f"{edits}/2/undo", {"why": "neither was that"})[0] == 200
        first.again()
        first.wait_role("standby", lag=0, leader="b")
        second.process.kill()
        first.wait_role("leader")
        assert [row["v"] for row in first.history("plant/count")] == [0.1, 1, 2, 3]


def records(member):
    """The audit log of a member's folder, oldest first, and that its chain holds."""
    done = tieline("access", "verify", member.data, "--json", check=False)
    assert done.returncode == 0, (member.name, done.stdout, done.stderr)
    files = sorted(member.data.glob("audit-*.jsonl")) + [member.data / "audit.jsonl"]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_the_audit_log_goes_on_at_the_next_leader(tmp_path, server):
    device = SimulatedDevice("room", ROOM, poll="100ms")
    members = [Member(tmp_path, name, server, "", device) for name in "abc"]
    first = until(lambda: leading(set(members)), "one leads", 30)
    others = [member for member in members if member is not first]
    for other in others:
        other.wait_role("standby", leader=first.name)
    with members[0], members[1], members[2]:
        topic = "test/room/valve"
        until(lambda: first.get(topic), "the device is polled")
        values = {}
        # Kill by kill: the command before it was answered, so its records are at both others.
        for value in range(7, 9):
            assert first.command(topic, value)["status"] == "success"
            first.process.kill()
            known = first
            first = until(lambda left=set(others): leading(left), "another leads", 30)
            values[value] = first.name
            known.again()
            others = [member for member in members if member is not first]
            for other in others:
                other.wait_role("standby", lag=0, leader=first.name)
        shown = first.request("/v1/audit?limit=1000")[1]["entries"][::-1]
        # All members have the same lines.
        until(lambda: len({tuple(texts(member)) for member in members}) == 1, lambda: [texts(member) for member in members])
        for member in members:
            found = records(member)
            assert found == shown
            assert [line["id"] for line in found] == list(range(1, len(found) + 1)), found
            leaders = [line["detail"] for line in found if line["phase"] == "leads"]
            assert len(leaders) == 3 and all("leads core in term" in words for words in leaders), leaders
            for value in values:
                phases = {line["phase"] for line in found if line["topic"] == topic and line["value"] == str(value)}
                assert {"requested", "sent"} <= phases, (value, found)


def texts(member):
    """The files of a member's audit log."""
    files = sorted(member.data.glob("audit-*.jsonl")) + [member.data / "audit.jsonl"]
    return [file.read_text() for file in files if file.exists()]


def test_a_command_is_carried_out_only_with_its_record_in_the_log(tmp_path, server):
    """Each command that was carried out is in the audit log of the next leader."""
    first, second = pair(tmp_path, server, "", SimulatedDevice("room", ROOM, poll="100ms"))
    with first, second:
        topic = "test/room/valve"
        until(lambda: first.get(topic), "the device is polled")
        answers = [first.command(topic, value)["status"] for value in range(20, 30)]
        first.process.kill()
        assert answers == ["success"] * 10
        second.wait_role("leader")
        log = second.audit(topic)["entries"]
        sent = {line["value"] for line in log if line["phase"] == "sent"}
        assert {str(value) for value in range(20, 30)} <= sent, log
        second.process.stop()
        records(second)


def test_members_are_seen_with_what_they_miss(tmp_path, server):
    first, second = pair(tmp_path, server)
    with first, second:
        listed = lambda: {one["name"]: one for one in first.seen().get("members", [])}
        until(lambda: listed().get("b", {}).get("role") == "standby", listed)
        assert listed()["a"]["role"] == "leader" and listed()["a"]["lag"] == 0
        until(lambda: listed()["b"].get("lag") == 0 and "behind_s" in listed()["b"], listed)
        # A standby says the same of both.
        until(lambda: {one["name"]: one["role"] for one in second.seen()["members"]} == {"a": "leader", "b": "standby"}, second.seen)
        said = tieline("cluster", "--http", first.http).stdout
        assert "standby" in said and "reference" in said, said
        assert "b standby, lag" in tieline("status", "--http", first.http).stdout
        assert 'tieline_cluster_member_lag{member="b"} 0' in first.metrics()
        second.process.kill()
        gone = until(lambda: listed()["b"]["role"] == "unknown" and listed()["b"], listed)
        assert "lag" not in gone and "behind_s" not in gone and gone["heard_s"] >= 5, gone
        assert 'tieline_cluster_member_lag{member="b"}' not in first.metrics()
        assert "b unknown, lag unknown" in tieline("status", "--http", first.http).stdout


def test_what_cannot_be_together_is_refused(tmp_path):
    table = '[node]\nname = "a"\n[fabric]\nservers = ["nats://127.0.0.1:4222"]\n[cluster]\nname = "core"\n'
    for more, said in (
        ("[site]\n", "[cluster] and [site]"),
        ('[edge]\nupstream = "127.0.0.1:1883"\n', "[cluster] and [edge]"),
        ('[mqtt]\ndurability = "memory"\n', "mqtt.durability"),
        ('[history.database.m]\nkind = "victoriametrics"\nurl = "http://127.0.0.1:8428/write"\n', "history.database.m"),
    ):
        config = tmp_path / "t.toml"
        config.write_text(table + more)
        done = tieline("config", "check", "--config", config, check=False)
        assert done.returncode != 0 and said in done.stdout + done.stderr, (more, done)
