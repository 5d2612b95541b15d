"""Edges: nodes that show the topics of another node to their own clients, with real processes and clients that are not ours."""

import json
import shutil
import socket
import threading

import pytest
from authority import Authority
from bus import Paho, Sub, publish, request
from node import Node, tieline
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from simulated import SimulatedDevice
from test_mqtt_doors import address
from waiting import until

FAST = 'retry_max = "400ms"\nlinger = "100ms"\n'
POINT = {"v": 5.5, "q": "good", "t": "2026-11-20T09:36:00.123Z"}


def point(value, **members):
    return json.dumps({**POINT, "v": value, **members}, separators=(",", ":"))


def folder(path, name):
    (path / name).mkdir()
    return path / name


def edge_table(upstream, more="", silence="2s"):
    return f'[edge]\nupstream = "{upstream}"\nsilence = "{silence}"\n{FAST}{more}\n'


def edge_of(node):
    return f"mqtt://{node.mqtt}"


def link(node):
    """The link to the upstream, as /v1/status shows it."""
    status, answer = node.request("/v1/status")
    assert status == 200, answer
    return answer["edge"]


def wait_for_link(node, state, **members):
    def is_so():
        seen = link(node)
        return seen["state"] == state and all(seen[name] == value for name, value in members.items())

    until(is_so, lambda: json.dumps(link(node)))
    return link(node)


@pytest.fixture
def core(tmp_path):
    with Node(folder(tmp_path, "core")) as node:
        yield node
        node.alive()


@pytest.fixture
def edge(tmp_path, core):
    with Node(folder(tmp_path, "edge"), more=edge_table(edge_of(core))) as node:
        wait_for_link(node, "up")
        yield node
        node.alive()


def test_a_client_of_an_edge_gets_what_nobody_had_asked_for(core, edge):
    publish(core, "plant/1/power", point(5.5), "-r")
    publish(core, "plant/2/power", point(6.5), "-r")
    publish(core, "plant/2/name", "pump", "-r")
    publish(core, "other/1", "x", "-r")
    assert edge.request("/v1/topics?filter=plant/%23")[1]["topics"] == []
    with Sub(edge, "plant/+/power") as sub:
        sub.wait("plant/1/power", v=5.5, q="good", t=POINT["t"])
        sub.wait("plant/2/power", v=6.5)
        publish(core, "plant/1/power", point(5.6), "-r")
        sub.wait("plant/1/power", v=5.6)
        assert {topic for _, topic, _ in sub.messages()} == {"plant/1/power", "plant/2/power"}
        # One more asks for the same, and gets it as the last value that the edge has.
        with Sub(edge, "plant/1/power") as other:
            other.wait("plant/1/power", retained=True, v=5.6)
        # A filter that covers the first one.
        with Sub(edge, "#") as all_:
            all_.wait("plant/2/name", payload="pump")
            all_.wait("other/1", payload="x")
            publish(core, "plant/2/name", "valve", "-r")
            all_.wait("plant/2/name", payload="valve")
            assert link(edge)["asked"] == 1


def test_what_is_not_retained_passes_with_its_properties(core, edge):
    with Sub(edge, "event/#", qos=1) as sub:
        until(lambda: link(edge)["asked"] == 1, lambda: json.dumps(link(edge)))
        until(lambda: core.request("/v1/status")[1]["subscriptions"] >= 1, core.process.said)
        publish(core, "event/1", "now", "-D", "publish", "content-type", "text/plain")
        sub.wait("event/1", payload="now", retained=False)
        said = [json.loads(line) for line in sub.lines if line.startswith("{")]
        assert said[0]["properties"]["content-type"] == "text/plain", said
    assert edge.request("/v1/topics?filter=event/%23")[1]["topics"] == []


def test_a_value_that_is_removed_upstream_is_removed_here(core, edge):
    publish(core, "plant/1", "x", "-r")
    with Sub(edge, "plant/#") as sub:
        sub.wait("plant/1", payload="x")
        publish(core, "plant/1", "", "-r")
        sub.wait("plant/1", payload=None)
        until(lambda: edge.request("/v1/topics?filter=plant/%23")[1]["topics"] == [], edge.process.said)


def test_what_the_last_client_had_is_unsubscribed_and_forgotten(core, edge):
    publish(core, "plant/1", "x", "-r")
    before = core.request("/v1/status")[1]["subscriptions"]
    with Sub(edge, "plant/#") as sub:
        sub.wait("plant/1", payload="x")
        assert core.request("/v1/status")[1]["subscriptions"] == before + 1
    until(lambda: core.request("/v1/status")[1]["subscriptions"] == before, core.process.said)
    until(lambda: edge.request("/v1/topics?filter=plant/%23")[1]["topics"] == [], edge.process.said)
    seen = link(edge)
    assert (seen["filters"], seen["asked"], seen["topics"]) == (0, 0, 0)


def test_a_cut_and_its_end(core, edge):
    for at in range(300):
        publish(core, f"plant/{at}", point(at), "-r") if at < 3 else None
    core.request("/v1/publish", {"topic": "plant/text", "payload": "words", "retain": True})
    with Sub(edge, "plant/#") as sub, Sub(edge, "$SYS/edge/state") as state:
        state.wait("$SYS/edge/state", v="up", q="good")
        sub.wait("plant/2", v=2, q="good")
        sub.wait("plant/text", payload="words")
        mqtt, http = core.mqtt, core.http
        core.process.process.kill()
        core.process.process.wait()
        sub.wait("plant/0", v=0, q="bad", why=["away"], t=POINT["t"])
        sub.wait("plant/2", v=2, q="bad", why=["away"])
        state.wait("$SYS/edge/state", v="away", q="bad")
        seen = wait_for_link(edge, "away", topics=4, away=4)
        assert seen["upstream"] == f"mqtt://{mqtt}" and seen["why"], seen
        assert "is away" in tieline("status", "--http", edge.http).stdout
        health = edge.request("/healthz")[1]
        assert any("edge: mqtt://" in detail for detail in health["detail"]), health
        # A client that comes now sees the last values, and that they are not what is.
        with Sub(edge, "plant/1") as late:
            late.wait("plant/1", retained=True, v=1, q="bad", why=["away"])
        core.start(http=http, mqtt=mqtt)
        publish(core, "plant/1", point(11), "-r")
        sub.wait("plant/1", v=11, q="good")
        sub.wait("plant/0", v=0, q="good")
        state.wait("$SYS/edge/state", v="up", q="good")
        wait_for_link(edge, "up", away=0, topics=4)
        # What comes while all is well, comes as deltas.
        publish(core, "plant/2", point(2.25), "-r")
        sub.wait("plant/2", v=2.25)


def test_an_edge_of_an_edge(tmp_path, core, edge):
    publish(core, "plant/1", point(1), "-r")
    with Node(folder(tmp_path, "far"), more=edge_table(edge_of(edge))) as far:
        with Sub(far, "plant/+") as sub:
            sub.wait("plant/1", v=1, q="good")
            publish(core, "plant/1", point(2), "-r")
            sub.wait("plant/1", v=2)
            http, mqtt = core.http, core.mqtt
            core.process.process.kill()
            core.process.process.wait()
            sub.wait("plant/1", v=2, q="bad", why=["away"])
            assert link(far)["state"] == "up", "the way to the next node is there"
            core.start(http=http, mqtt=mqtt)
            until(lambda: sub.messages()[-1][2]["q"] == "good", sub.said)
            # And the way up is as long.
            wait_for_link(edge, "up")
            with Paho(far) as paho:
                assert acknowledged(paho, "plant/9", "from far", retain=True) == 0
            sub.wait("plant/9", payload="from far")
            assert core.request("/v1/topics/plant/9")[1]["value"] == "from far"


def test_a_value_that_the_upstream_removes_by_a_rule_is_removed_here(tmp_path):
    more = '[[topic]]\nfilter = "plant/short"\nremove = { after = "400ms" }\n'
    with Node(folder(tmp_path, "core"), more=more) as core:
        with Node(folder(tmp_path, "edge"), more=edge_table(edge_of(core))) as edge:
            with Sub(edge, "plant/#") as sub:
                wait_for_link(edge, "up", asked=1)
                with Sub(edge, "$topics/removed/#") as removed:
                    for value in ("one", "two"):
                        publish(core, "plant/short", value, "-r")
                        sub.wait("plant/short", payload=value)
                        removed.wait("$topics/removed/plant/short", payload="removed")
                        wait_for_link(edge, "up", topics=0)
                        assert edge.request("/v1/topics/plant/short")[0] == 404
            # Subscribers are told nothing, as at the upstream.
            assert [payload for _, _, payload in sub.messages()] == ["one", "two"], sub.messages()


def test_a_live_feed_asks_for_what_it_shows(core, edge):
    publish(core, "plant/1", point(1), "-r")
    with socket.create_connection(edge.http.rsplit(":", 1)) as reader:
        reader.sendall(b"GET /v1/live?filter=plant/%23 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        reader.settimeout(15)
        read = b""
        while b"plant/1" not in read:
            read += reader.recv(65536)
    until(lambda: link(edge)["asked"] == 0, lambda: json.dumps(link(edge)))


def test_an_edge_is_told_what_it_may_have(tmp_path, core):
    more = edge_table(edge_of(core), 'topics = ["plant/#"]\nkeep = ["plant/alarm"]')
    publish(core, "plant/alarm", "on", "-r")
    publish(core, "site/1", "theirs", "-r")
    with Node(folder(tmp_path, "edge"), more=more) as edge:
        until(lambda: edge.request("/v1/topics/plant/alarm")[0] == 200, edge.process.said)
        with Sub(edge, "#") as sub:
            # What is not the upstream's is the edge's own.
            publish(edge, "site/1", "ours", "-r")
            sub.wait("site/1", payload="ours")
            sub.wait("plant/alarm", payload="on")
        assert core.request("/v1/topics/site/1")[1]["value"] == "theirs"


class Cut:
    """A way to a node that can be cut and mended: a bridge that passes bytes on."""

    def __init__(self, node=None):
        self.target, self.pairs, self.is_cut, self.is_held = None, [], True, False
        if node:
            self.lead_to(node)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "mqtt://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            if self.is_cut:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self.target))
            self.pairs += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, source, sink):
        try:
            while data := source.recv(65536):
                # A link that is dead says nothing of it.
                if not self.is_held:
                    sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def lead_to(self, node):
        self.target, self.is_cut = node.mqtt_port, False

    def cut(self):
        self.is_cut = True
        for end in self.pairs:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.pairs = []

    def hold(self):
        self.is_held = True

    def mend(self):
        self.is_cut = self.is_held = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cut()
        self.listener.close()


def test_after_a_cut_the_newest_values_come_and_what_was_removed_goes(tmp_path, core):
    for name in ("stays", "changes", "goes"):
        publish(core, f"plant/{name}", point(1), "-r")
    with Cut(core) as way, Node(folder(tmp_path, "edge"), more=edge_table(way.address)) as edge:
        with Sub(edge, "plant/#") as sub:
            sub.wait("plant/stays", v=1, q="good")
            sub.wait("plant/goes", v=1, q="good")
            way.cut()
            sub.wait("plant/goes", v=1, q="bad", why=["away"])
            publish(core, "plant/goes", "", "-r")
            for value in range(2, 6):
                publish(core, "plant/changes", point(value), "-r")
            assert edge.request("/v1/publish", {"topic": "plant/x", "payload": 1})[0] == 503
            way.mend()
            sub.wait("plant/changes", v=5, q="good")
            sub.wait("plant/stays", v=1, q="good")
            sub.wait("plant/goes", payload=None)
            came = [message[2]["v"] for message in sub.messages() if message[1] == "plant/changes"]
            assert set(came) == {1, 5}, came
            seen = wait_for_link(edge, "up", away=0, topics=2)
            assert seen["filters"] == 1


def test_a_link_that_is_silent_is_broken_and_what_was_on_its_way_is_told(tmp_path, core):
    publish(core, "plant/1", point(1), "-r")
    with Cut(core) as way, Node(folder(tmp_path, "edge"), more=edge_table(way.address)) as edge:
        with Sub(edge, "plant/1") as sub, Paho(edge) as paho:
            sub.wait("plant/1", v=1, q="good")
            way.hold()
            assert acknowledged(paho, "plant/2", "x") == 0x83, "it has no answer, and may have arrived"
            sub.wait("plant/1", v=1, q="bad", why=["away"])
            assert wait_for_link(edge, "away")["why"]
            way.cut()
            way.mend()
            wait_for_link(edge, "up", away=0)
            until(lambda: sub.messages()[-1][2]["q"] == "good", sub.said)
            assert acknowledged(paho, "plant/2", "x") == 0


def test_a_circle_of_upstreams_is_opened_by_one_of_its_nodes(tmp_path):
    with Cut() as way, Node(folder(tmp_path, "c"), more=edge_table(way.address)) as c:
        with Node(folder(tmp_path, "b"), more=edge_table(edge_of(c))) as b:
            with Node(folder(tmp_path, "a"), more=edge_table(edge_of(b))) as a:
                nodes = (a, b, c)

                def states():
                    return sorted(link(node)["state"] for node in nodes)

                until(lambda: states() == ["away", "up", "up"], states)
                way.lead_to(a)
                until(lambda: states() == ["circle", "up", "up"], states)
                opened = next(node for node in nodes if link(node)["state"] == "circle")
                assert link(opened)["why"].count("test") == 4, link(opened)
                assert "the upstreams form a circle" in tieline("status", "--http", opened.http).stdout
                assert any("form a circle" in detail for detail in opened.request("/healthz")[1]["detail"])
                assert 'tieline_edge_link{upstream="upstream",state="circle"} 1' in opened.request("/metrics")[1]
                assert opened.request("/v1/publish", {"topic": "plant/x", "payload": 1})[0] == 503
                way.cut()
                until(lambda: states() == ["away", "up", "up"], states)
                assert c.request("/v1/status")[1]["edge"]["state"] == "away"


def test_the_second_upstream_is_used_while_the_first_is_away(tmp_path, core):
    publish(core, "plant/1", "x", "-r")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        closed = f"mqtt://127.0.0.1:{nobody.getsockname()[1]}"
    more = edge_table("").replace('""', f'["{closed}", "{edge_of(core)}"]')
    with Node(folder(tmp_path, "edge"), more=more) as edge, Sub(edge, "plant/1") as sub:
        sub.wait("plant/1", payload="x")
        assert link(edge)["upstream"] == edge_of(core)


def test_what_clients_publish_goes_up_and_comes_back(core, edge):
    with Sub(core, "plant/#") as above, Sub(edge, "plant/#") as here, Paho(edge) as paho:
        for qos in (0, 1, 2):
            paho.publish("plant/set", f"value {qos}", qos=qos, retain=True)
            above.wait("plant/set", payload=f"value {qos}")
            here.wait("plant/set", payload=f"value {qos}")
        paho.publish("plant/event", "passed", qos=1)
        above.wait("plant/event", payload="passed", retained=False)
    # Over HTTP, where nobody at the edge has asked for the topic.
    assert edge.request("/v1/topics/plant/set")[1]["value"] == "value 2"
    assert edge.set("plant/http", "from http")[0] == 200
    assert core.request("/v1/topics/plant/http")[1]["value"] == "from http"
    assert edge.set("plant/http", None, method="DELETE")[0] == 200
    assert core.request("/v1/topics/plant/http")[0] == 404
    assert edge.request("/v1/topics/plant/nothing")[0] == 404


def seq(node, topic):
    status, found = node.request(f"/v1/topics/{topic}")
    assert status == 200, found
    return found["seq"]


def conditions(**pairs):
    properties = Properties(PacketTypes.PUBLISH)
    properties.UserProperty = [(f"tieline-if-{name}", text) for name, text in pairs.items()]
    return properties


def tagged(node, topic, **conditions):
    """The status and the tag of a topic."""
    return node.set(topic, None, "GET", **conditions)[:2]


def test_versions_are_those_of_the_core_and_it_decides_on_conditions(tmp_path, core, edge):
    """At an edge, and at an edge of it, with the answers of the core."""
    for value in range(3):
        publish(core, "plant/set", f"value {value}", "-r")
    publish(core, "plant/1", point(1), "-r")
    version = seq(core, "plant/set")
    with Node(folder(tmp_path, "far"), more=edge_table(edge_of(edge))) as far, Paho(far) as paho:
        wait_for_link(far, "up")
        with Sub(edge, "plant/#"), Sub(far, "plant/#") as sub:
            sub.wait("plant/set", payload="value 2")
            sub.wait("plant/1", v=1)
            for node in (edge, far):
                assert seq(node, "plant/set") == version
                assert tagged(node, "plant/set") == (200, f'"{version}"')
                assert tagged(node, "plant/set", If_None_Match=f'"{version}"') == (304, f'"{version}"')
                listed = node.request("/v1/topics?filter=plant/%23")[1]["topics"]
                assert {topic["topic"]: topic["seq"] for topic in listed}["plant/set"] == version
                # What is refused is refused in the words of the core.
                status, _, problem = node.set("plant/set", "x", If_Match=f'"{version - 1}"')
                assert (status, problem["detail"]) == (412, f"the version is {version}, expected {version - 1}")
                assert node.set("plant/set", "x", If_None_Match="*")[0] == 412
                assert node.set("plant/none", "x", If_Match="*")[0] == 412
                assert node.set("plant/set", None, method="DELETE", If_Match='"1"')[0] == 412
            for value in range(20):
                node = (edge, far)[value % 2]
                assert node.set("plant/set", f"http {value}", If_Match=f'"{version}"')[0] == 200
                sub.wait("plant/set", payload=f"http {value}")
                version += 1
                until(lambda: seq(edge, "plant/set") == seq(far, "plant/set") == version, sub.said)
            assert seq(core, "plant/set") == version
            # The same over MQTT.
            assert acknowledged(paho, "plant/set", "x", properties=conditions(version="1"), retain=True) == 0x83
            assert acknowledged(paho, "plant/set", "x", properties=conditions(version="one"), retain=True) == 0x83
            assert acknowledged(paho, "plant/set", "mqtt", properties=conditions(version=str(version)), retain=True) == 0
            sub.wait("plant/set", payload="mqtt")
            assert tieline("put", "plant/set", "cli", "--if-version", str(version + 1), "--http", far.http).returncode == 0
            sub.wait("plant/set", payload="cli")
            assert edge.set("plant/set", None, method="DELETE", If_Match=f'"{version + 2}"')[0] == 200
            sub.wait("plant/set", payload=None)
            assert far.set("plant/set", "first", If_None_Match="*")[0] == 200
            sub.wait("plant/set", payload="first")
            # What a publisher says of a version is not believed.
            publish(core, "plant/set", "claim", "-r", "-D", "publish", "user-property", "tieline-version", "7")
            sub.wait("plant/set", payload="claim")
            until(lambda: seq(far, "plant/set") == seq(core, "plant/set"), sub.said)
            # While the core is away, the version is that of before, and no tag of what is shown.
            before, http, mqtt = seq(core, "plant/1"), core.http, core.mqtt
            core.process.process.kill()
            core.process.process.wait()
            sub.wait("plant/1", v=1, q="bad", why=["away"])
            assert seq(far, "plant/1") == seq(edge, "plant/1") == before
            wait_for_link(edge, "away")
            assert tagged(edge, "plant/1") == (200, None)
            assert far.set("plant/1", "x", If_Match=f'"{before}"')[0] == 503
            assert edge.set("plant/1", "x", If_Match=f'"{before}"')[0] == 503
            core.start(http=http, mqtt=mqtt)
            wait_for_link(edge, "up")
            sub.wait("plant/1", v=1, q="good")
            until(lambda: tagged(far, "plant/1") == tagged(core, "plant/1"), sub.said)


def test_refusals_of_the_upstream_come_back_with_their_reason(tmp_path):
    more = '[[topic]]\nfilter = "plant/typed"\ntype = "json"\n'
    with Node(folder(tmp_path, "core"), more=more) as core:
        with Node(folder(tmp_path, "edge"), more=edge_table(edge_of(core))) as edge, Paho(edge) as paho:
            wait_for_link(edge, "up")
            paho.publish("plant/typed", "{}", retain=True)
            assert acknowledged(paho, "plant/typed", "no json") == 0x99
            # After a refused PUBREC paho sends PUBREL all the same: it shows what it would at the upstream.
            with Paho(core) as direct:
                expect = acknowledged(direct, "plant/typed", "no json", 2)
            assert acknowledged(paho, "plant/typed", "no json", 2) == expect != 0
            condition = Properties(PacketTypes.PUBLISH)
            condition.UserProperty = [("tieline-if-absent", "true")]
            assert acknowledged(paho, "plant/typed", "[]", properties=condition) == 0x83
            assert core.request("/v1/topics/plant/typed")[1]["value"] == {}
            core.process.process.kill()
            core.process.process.wait()
            wait_for_link(edge, "away")
            assert acknowledged(paho, "plant/typed", "{}") == 0x83


def acknowledged(paho, topic, payload, qos=1, properties=None, retain=False):
    """The reason code of an acknowledgement."""
    while not paho.acknowledged.empty():
        paho.acknowledged.get()
    paho.client.publish(topic, payload, qos, retain, properties=properties)
    return paho.acknowledged.get(timeout=15)[1].value


def test_commands_go_up_and_answers_come_back(tmp_path):
    device = SimulatedDevice("vav", [("setpoint", "float", {"value": "21", "writable": "true"})])
    with Node(folder(tmp_path, "core"), device) as core:
        with Node(folder(tmp_path, "edge"), more=edge_table(edge_of(core))) as edge:
            wait_for_link(edge, "up")
            topic = device.point("setpoint")
            with Sub(edge, topic) as sub:
                sub.wait(topic, v=21)
                answer = request(edge, f"$command/{topic}", "22.5")
                assert answer["status"] == "success", answer
                sub.wait(topic, v=22.5)
                assert request(edge, "$command/test/nothing", "1")["status"] == "refused"


def is_at(node, topic, value):
    until(lambda: node.request(f"/v1/topics/{topic}")[1]["value"]["v"] == value, node.process.said)


def test_calls_of_control_at_an_edge_are_those_of_the_upstream(tmp_path):
    """Over HTTP, over MQTT and on the command line; answers come although `topics` does not select a response topic."""
    points = [("setpoint", "float", {"value": "21", "writable": "true"}), ("fan", "bool", {"value": "0", "writable": "true"})]
    vav, own = SimulatedDevice("vav", points), SimulatedDevice("own", points)
    with Node(folder(tmp_path, "core"), vav) as core:
        more = edge_table(edge_of(core), 'topics = ["test/#"]').replace('linger = "100ms"', 'linger = "5s"')
        with Node(folder(tmp_path, "edge"), own, more=more) as edge:
            wait_for_link(edge, "up")
            topic, device = vav.point("setpoint"), vav.topic
            for node, name in ((core, vav.point("setpoint")), (edge, own.point("setpoint"))):
                until(lambda: node.request(f"/v1/topics/{name}")[0] == 200, node.process.said)

            # Commands, with the answer and the status of the upstream.
            status, told = edge.request("/v1/command", {"topic": topic, "value": 22.5, "requester": "optimizer"})
            assert (status, told["status"]) == (200, "success"), told
            assert edge.request("/v1/command", {"topic": "test/nothing", "value": 1})[0] == 404
            is_at(core, topic, 22.5)

            # Many points, of the upstream or of this node, and not of both.
            value = {"topic": topic, "value": 19}
            status, told = edge.request("/v1/set", {"points": [value], "confirm": True})
            assert (status, told["confirmed"]) == (200, 1), told
            assert edge.request("/v1/set", {"points": [value, {**value, "topic": own.point("setpoint")}]})[0] == 422
            assert edge.request("/v1/set", {"points": [{**value, "topic": own.point("setpoint")}]})[1]["accepted"] == 1
            got = edge.request("/v1/get", {"topics": [topic, "test/nothing"]})[1]
            assert got["topics"][0]["value"]["v"] == 19 and got["errors"] == {"test/nothing": "unknown_topic"}, got

            # Reservations are of the caller's name, and hold at the upstream.
            slot = {"device": device, "for": "1h"}
            asked = {"task": "night", "requester": "optimizer", "priority": "LOW", "slots": [slot]}
            assert edge.request("/v1/reservations", asked)[1]["result"] == "SUCCESS"
            listed = core.request("/v1/reservations")[1]["reservations"]
            assert [one["task"] for one in listed] == ["night"] and listed[0]["requester"].endswith("optimizer"), listed
            assert edge.request("/v1/command", {"topic": topic, "value": 1})[0] == 409
            assert core.request("/v1/command", {"topic": topic, "value": 1})[0] == 409
            named = {"points": [value], "requester": "optimizer"}
            assert edge.request("/v1/set", named)[1]["accepted"] == 1
            assert edge.request("/v1/reservations/renew", {"task": "night", "requester": "optimizer"})[0] == 200
            assert edge.request("/v1/reservations", {**asked, "task": "other", "requester": "rival"})[0] == 409
            assert edge.request("/v1/reservations/cancel", {"task": "night", "requester": "optimizer"})[0] == 200
            assert edge.request("/v1/reservations/cancel", {"task": "night"})[0] == 404

            # Over MQTT, with a response topic that is this node's own.
            told = request(edge, "$control/set", json.dumps({"points": [{**value, "value": 18}]}))
            assert told["accepted"] == 1, told
            assert request(edge, f"$command/{topic}", "17")["status"] == "success"
            is_at(core, topic, 17)
            assert request(edge, "$control/get", json.dumps({"topics": [topic]}))["topics"][0]["value"]["v"] == 17
            told = request(edge, "$control/reserve", json.dumps({**asked, "task": "day"}))
            assert told["result"] == "SUCCESS", told
            assert core.request("/v1/reservations/cancel", {"task": "day", "force": True})[0] == 200

            # On the command line.
            assert "confirmed" in tieline("set", f"{topic}=20", "--confirm", "--http", edge.http).stdout
            assert core.request(f"/v1/topics/{topic}")[1]["value"]["v"] == 20
            assert tieline("get", topic, "--http", edge.http).stdout.startswith("20.0  good")
            for version in (1, 2):
                assert f"version {version}" in tieline("put", "test/put", f'"{version}"', "--http", edge.http).stdout

            core.process.process.kill()
            core.process.process.wait()
            wait_for_link(edge, "away")
            assert edge.request("/v1/set", {"points": [value]})[0] == 503
            assert request(edge, "$control/set", json.dumps({"points": [value]}))["reason"] == "away"


ROLES = """
[role.edge]
rules = ["allow read plant/#", "allow publish plant/#", "allow publish $for/#", "allow read $SYS/#", "allow command test/#"]
[role.mute]
rules = ["allow read plant/#", "allow publish plant/#", "allow read $SYS/#"]
[role.anna]
rules = ["allow read plant/#", "allow publish plant/anna/#", "allow read $SYS/#", "allow command test/vav/#"]
[role.local]
rules = ["allow read #", "allow publish #", "allow read $SYS/#", "allow command #"]
"""
ACCESS = """
[access]
users = "users.toml"
roles = "roles.toml"
loopback = "closed"
"""


def guarded(path, name, users):
    """The folder of a node with users, each with one role; the words of the configuration."""
    where = folder(path, name)
    (where / "roles.toml").write_text(ROLES)
    for user, role in users.items():
        words = ["access", "user", "add", user, "--users", where / "users.toml", "--role", role]
        tieline(*words, input=f"password-{user}\n")
    return where


class User(Paho):
    """A client that is a user."""

    def __init__(self, node, user):
        self.user = user
        super().__init__(node)

    def prepare(self):
        self.client.username_pw_set(self.user, f"password-{self.user}")


@pytest.mark.parametrize("role", ["edge", "mute"])
def test_an_edge_publishes_for_its_users_as_far_as_it_may_and_they_may(tmp_path, role):
    above = guarded(tmp_path, "core", {"gate": role, "anna": "anna", "boss": "local"})
    here = guarded(tmp_path, "edge", {"anna": "local", "bert": "local"})
    (here / "core.password").write_text("password-gate\n")
    with Node(above, more=ACCESS) as core:
        more = edge_table(edge_of(core), 'user = "gate"\npassword_file = "core.password"') + ACCESS
        with Node(here, more=more) as edge, User(core, "boss") as boss:
            boss.subscribe("plant/#")
            with User(edge, "anna") as anna, User(edge, "bert") as bert:
                until(lambda: acknowledged(anna, "plant/anna/x", "1") != 0x83, edge.process.said)
                may = role == "edge"
                assert acknowledged(anna, "plant/anna/x", "2") == (0 if may else 0x87)
                # The upstream's rights of the user count, whatever the edge lets it do.
                assert acknowledged(anna, "plant/other", "3") == 0x87
                # There is no such user at the upstream.
                assert acknowledged(bert, "plant/anna/x", "4") == 0x87
                # Nobody says whom it is but the edge.
                claim = Properties(PacketTypes.PUBLISH)
                claim.UserProperty = [("tieline-for", "anna")]
                assert acknowledged(bert, "plant/anna/x", "5", properties=claim) in (0, 0x87)
                if may:
                    message = boss.next()
                    while message.payload != b"2":
                        message = boss.next()
                    assert not getattr(message.properties, "UserProperty", []), message.properties


def test_calls_of_control_through_an_edge_are_those_of_its_users(tmp_path):
    points = [("setpoint", "float", {"value": "21", "writable": "true"})]
    vav, fan = SimulatedDevice("vav", points), SimulatedDevice("fan", points)
    above = guarded(tmp_path, "core", {"gate": "edge", "anna": "anna"})
    here = guarded(tmp_path, "edge", {"anna": "local", "bert": "local"})
    (here / "core.password").write_text("password-gate\n")
    with Node(above, vav, fan, more=ACCESS) as core:
        more = 'topics = ["test/#"]\nuser = "gate"\npassword_file = "core.password"'
        more = edge_table(edge_of(core), more) + ACCESS
        with Node(here, more=more) as edge, User(edge, "anna") as anna, User(edge, "bert") as bert:

            def told(client, what, body):
                return client.request(what, json.dumps(body), b"1")[0]

            def command(client, device):
                return told(client, f"$command/{device.point('setpoint')}", 20)

            until(lambda: command(anna, vav)["status"] == "success", edge.process.said)
            # The edge may, and its user may not.
            assert command(anna, fan)["reason"] == "denied"
            body = {"points": [{"topic": device.point("setpoint"), "value": 19} for device in (vav, fan)]}
            assert told(anna, "$control/set", body)["reason"] == "denied"
            done = told(anna, "$control/set", {"points": body["points"][:1]})
            assert done.get("accepted") == 1, done
            slots = [{"device": vav.topic, "for": "1h"}]
            reserved = told(anna, "$control/reserve", {"task": "night", "priority": "LOW", "slots": slots})
            assert reserved["result"] == "SUCCESS" and reserved["lease_s"] == 60, reserved
            # What she has reserved is hers.
            assert command(anna, vav)["status"] == "success"
            # There is no such user at the upstream. All of them have the same response topic, so he comes last.
            assert command(bert, vav)["reason"] == "denied"


def test_what_an_edge_keeps_is_reloaded_and_other_keys_are_named(tmp_path, core):
    for name in ("a", "b"):
        publish(core, f"plant/{name}", "x", "-r")
    with Node(folder(tmp_path, "edge"), more=edge_table(edge_of(core), 'keep = ["plant/a"]')) as edge:
        wait_for_link(edge, "up", topics=1)
        done = edge.reload(more=edge_table(edge_of(core), 'keep = ["plant/b", "plant/c"]'))
        assert "restart" not in done.stdout, done.stdout
        wait_for_link(edge, "up", topics=1, asked=2)
        assert edge.request("/v1/topics?filter=plant/%23")[1]["topics"][0]["topic"] == "plant/b"
        done = edge.reload(more=edge_table("mqtt://127.0.0.1:1", 'keep = ["plant/b"]\nclient_id = "other"'))
        assert done.stdout.count("restart needed: ") == 2, done.stdout
        assert "edge.upstream\n" in done.stdout and "edge.client_id\n" in done.stdout, done.stdout
        assert link(edge)["state"] == "up"


def wrong_upstream(path, name, upstream, more=""):
    return Node(folder(path, name), more=edge_table(upstream, more, silence="20s"))


def test_a_wrong_upstream_is_told_and_never_green(tmp_path):
    authority, foreign = Authority(tmp_path), Authority(tmp_path, "foreign")
    authority.issue("node", names="DNS:localhost,IP:127.0.0.1")
    core_folder = folder(tmp_path, "core")
    word = "a long enough password"
    users = core_folder / "users.toml"
    tieline("access", "user", "add", "gate", "--users", users, "--role", "VIEWER", input=word + "\n")
    for name in ("node.pem", "node.key"):
        shutil.copy(tmp_path / name, core_folder)
    guarded = """
[mqtt.tls]
listen = "127.0.0.1:0"
certificate = "node.pem"
key = "node.key"
[access]
users = "users.toml"
loopback = "closed"
"""
    with Node(core_folder, more=guarded) as core:
        tls = "mqtts://%s:%d" % address(core, "mqtt_tls")
        with socket.create_server(("127.0.0.1", 0)) as closed:
            nobody = closed.getsockname()[1]
        (tmp_path / "wrong.password").write_text("not the password\n")
        (tmp_path / "right.password").write_text(word + "\n")
        credentials = f'user = "gate"\npassword_file = "{tmp_path}/%s.password"'
        cases = {
            "closed": (f"mqtt://127.0.0.1:{nobody}", "", "refused"),
            "password": (edge_of(core), credentials % "wrong", "refuses this node"),
            "nobody": (edge_of(core), "", "refuses this node"),
            "no_file": (edge_of(core), credentials % "absent", "absent.password"),
            "authority": (tls, f'authorities = "{foreign.file}"\n' + credentials % "right", "certificate"),
            "no_tls": (tls.replace("mqtts", "mqtt"), credentials % "right", ""),
        }
        for name, (upstream, more, words) in cases.items():
            with wrong_upstream(tmp_path, name, upstream, more) as edge:
                seen = wait_for_link(edge, "away")
                assert words in seen["why"], (name, seen)
                assert 'tieline_edge_link{upstream="upstream",state="up"} 0' in edge.request("/metrics")[1]
        for name, upstream, more in (
            ("right", edge_of(core), credentials % "right"),
            ("right_tls", tls, f'authorities = "{authority.file}"\n' + credentials % "right"),
        ):
            with wrong_upstream(tmp_path, name, upstream, more) as edge:
                wait_for_link(edge, "up")


def test_a_client_is_told_when_it_has_all_last_values(core):
    for at in range(700):
        core.request("/v1/publish", {"topic": f"plant/{at}", "payload": at, "retain": True})
    with Paho(core) as client:
        asked = Properties(PacketTypes.SUBSCRIBE)
        asked.UserProperty = [("tieline-delta", "point"), ("tieline-caught-up", "word")]
        client.client.subscribe("plant/#", properties=asked)
        topics = [client.next().topic for _ in range(701)]
        assert topics[-1] == "$tieline/caught-up" and len(set(topics)) == 701
        # Where nothing is due, it is told at once.
        asked = Properties(PacketTypes.SUBSCRIBE)
        asked.UserProperty = [("tieline-delta", "point"), ("tieline-caught-up", "again")]
        client.client.subscribe("other/#", properties=asked)
        told = client.next()
        assert (told.topic, told.payload) == ("$tieline/caught-up", b"again")


def test_a_delta_goes_on_as_it_came(core, edge):
    """What an edge sends of a document is what its upstream has sent, but for the number of the revision."""

    def document(number):
        return json.dumps({"name": "a pump with a long name", "state": "running", "hours": 1000 + number, "bar": 2.5})

    def deltas(client):
        """The payloads of a client without their first byte, from the first delta on."""
        found = []
        while not client.received.empty():
            payload = client.received.get().payload
            found.append(payload[1:] if payload[0] >> 5 >= 2 else None)
        return found

    asked = Properties(PacketTypes.SUBSCRIBE)
    asked.UserProperty = ("tieline-delta", "point,hunk")
    with Paho(core) as above, Paho(edge) as here:
        publish(core, "plant/pump", document(0), "-r")
        publish(core, "plant/point", point(0.5), "-r")
        for client in (above, here):
            client.client.subscribe("plant/#", properties=asked)
            until(lambda: client.received.qsize() >= 2, "last values")
        for number in range(1, 60):
            publish(core, "plant/pump", document(number), "-r", qos=0)
            until(lambda: here.received.qsize() >= 2 + number, f"update {number}")
        sent, passed = deltas(above), deltas(here)
        assert len(sent) == len(passed) == 61 and sent.count(None) == passed.count(None) == 2
        # A checksum goes with every 32nd revision, and revisions differ.
        differing = [pair for pair in zip(sent, passed) if pair[0] != pair[1]]
        assert len(differing) <= 4, differing
    seen = edge.request("/metrics")[1]
    assert 'tieline_edge_values_total{upstream="upstream",form="delta"}' in seen


def test_the_upstream_serves_the_edge_and_not_its_clients(core, edge):
    def deliveries(node):
        return node.request("/v1/status")[1]["totals"]["deliveries"]

    clients = [Paho(edge) for _ in range(10)]
    try:
        for client in clients:
            client.subscribe("plant/#", qos=0)
        until(lambda: link(edge)["asked"] == 1, lambda: json.dumps(link(edge)))
        publish(core, "plant/0", point(0), "-r")
        until(lambda: all(client.received.qsize() == 1 for client in clients), "the first value")
        before, served = deliveries(core), deliveries(edge)
        for number in range(1, 51):
            publish(core, "plant/0", point(number), "-r", qos=0)
            until(lambda: all(client.received.qsize() == 1 + number for client in clients), f"value {number}")
        assert deliveries(core) - before == 50
        assert deliveries(edge) - served >= 500
    finally:
        for client in clients:
            client.close()
