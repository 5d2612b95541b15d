"""Edges with several upstreams, each with topics of its own: the views of several cores side by side."""

import json

import pytest
from bus import Paho, Sub, publish, request
from node import Node, tieline
from simulated import SimulatedDevice
from test_edges import Cut, acknowledged, edge_of, folder, point
from waiting import until

ALL = 'retry_max = "400ms"\nlinger = "100ms"\nsilence = "2s"\n'


def upstreams(*tables):
    """A configuration with upstreams: each a name, an address, and more keys."""
    tables = [f'[[edge.upstream]]\nname = "{name}"\naddress = "{address}"\n{more}\n' for name, address, more in tables]
    return f"[edge]\n{ALL}{''.join(tables)}"


def states(node):
    return {one["name"]: one["state"] for one in node.request("/v1/status")[1]["edge"]["upstreams"]}


def wait_for_states(node, **expected):
    until(lambda: states(node) == expected, lambda: json.dumps(node.request("/v1/status")[1]["edge"]))


VAV = ("setpoint", "float", {"value": "21", "writable": "true"})


@pytest.fixture
def cores(tmp_path):
    device = SimulatedDevice("vav", [VAV])
    with Node(folder(tmp_path, "west")) as west, Node(folder(tmp_path, "east"), device) as east:
        yield west, east, device
        west.alive()
        east.alive()


def test_the_topics_of_several_cores_are_side_by_side(tmp_path, cores):
    west, east, _ = cores
    publish(west, "plant/1", point(1), "-r")
    publish(east, "plant/1", point(2), "-r")
    publish(east, "other/1", point(3), "-r")
    tables = (("west", edge_of(west), 'prefix = "west"'), ("east", edge_of(east), 'prefix = "far/east"\ntopics = ["plant/#"]'))
    with Node(folder(tmp_path, "edge"), more=upstreams(*tables)) as edge, Sub(edge, "#") as sub:
        with Sub(edge, "$SYS/edge/+/state") as state, Paho(edge) as paho:
            wait_for_states(edge, west="up", east="up")
            sub.wait("west/plant/1", v=1)
            sub.wait("far/east/plant/1", v=2)
            # Where a topic is published decides where it goes, by the name that it has there.
            for qos in (0, 1, 2):
                paho.publish("west/plant/2", f"value {qos}", qos=qos, retain=True)
                sub.wait("west/plant/2", payload=f"value {qos}")
            assert west.request("/v1/topics/plant/2")[1]["value"] == "value 2"
            assert edge.set("far/east/plant/3", "from http")[0] == 200
            assert east.request("/v1/topics/plant/3")[1]["value"] == "from http"
            assert west.request("/v1/topics/plant/3")[0] == 404
            assert edge.request("/v1/topics/far/east/plant/3")[1]["value"] == "from http"
            # Versions are those of the core that has the topic, and it decides.
            for here, core, there in (("west/plant/2", west, "plant/2"), ("far/east/plant/3", east, "plant/3")):
                version = core.request(f"/v1/topics/{there}")[1]["seq"]
                until(lambda: edge.request(f"/v1/topics/{here}")[1]["seq"] == version, sub.said)
                assert edge.set(here, "x", If_Match=f'"{version + 1}"')[0] == 412
                assert edge.set(here, "conditional", If_Match=f'"{version}"')[0] == 200
                assert core.request(f"/v1/topics/{there}")[1]["value"] == "conditional"
            # What is no upstream's is the edge's own.
            assert edge.set("far/east/other/1", "own")[0] == 200
            assert edge.request("/v1/topics/far/east/other/1")[1]["value"] == "own"
            publish(west, "plant/1", "", "-r")
            sub.wait("west/plant/1", payload=None)
            publish(west, "plant/1", point(1), "-r")
            sub.wait("west/plant/1", v=1)
            # One link is lost: only its values say so.
            east.process.process.kill()
            east.process.process.wait()
            sub.wait("far/east/plant/1", v=2, q="bad", why=["away"])
            wait_for_states(edge, west="up", east="away")
            state.wait("$SYS/edge/east/state", v="away")
            assert edge.request("/v1/topics/west/plant/1")[1]["value"]["q"] == "good"
            assert acknowledged(paho, "west/plant/4", "x") == 0 and acknowledged(paho, "far/east/plant/4", "x") == 0x83
        shown = tieline("status", "--http", edge.http).stdout
        assert "west: mqtt://" in shown and "east: mqtt://" in shown and " is away: " in shown, shown
        detail = edge.request("/healthz")[1]["detail"]
        assert [words for words in detail if words.startswith("edge: ")][0].startswith("edge: east: mqtt://"), detail
        metrics = edge.request("/metrics")[1]
        assert 'tieline_edge_link{upstream="west",state="up"} 1' in metrics
        assert 'tieline_edge_link{upstream="east",state="away"} 1' in metrics
        east.start(http=east.http, mqtt=east.mqtt)
        wait_for_states(edge, west="up", east="up")


def test_commands_and_calls_go_to_the_core_that_has_the_point(tmp_path, cores):
    west, east, device = cores
    tables = (("west", edge_of(west), 'prefix = "west"'), ("east", edge_of(east), 'prefix = "east"'))
    with Node(folder(tmp_path, "edge"), more=upstreams(*tables)) as edge:
        wait_for_states(edge, west="up", east="up")
        setpoint, vav = f"east/{device.point('setpoint')}", f"east/{device.topic}"
        until(lambda: east.request(f"/v1/topics/{device.point('setpoint')}")[0] == 200, east.process.said)
        answer = request(edge, f"$command/{setpoint}", "22.5")
        assert (answer["status"], answer["topic"]) == ("success", setpoint), answer
        status, told = edge.request("/v1/command", {"topic": setpoint, "value": 23})
        assert (status, told["status"], told["topic"]) == (200, "success", setpoint), told
        status, told = edge.request("/v1/set", {"points": [{"topic": setpoint, "value": 19}], "confirm": True})
        assert (status, told["confirmed"], told["points"][0]["topic"]) == (200, 1, setpoint), told
        both = [{"topic": topic, "value": 1} for topic in (setpoint, "west/plant/1")]
        assert edge.request("/v1/set", {"points": both})[0] == 422
        # A reservation is found by its name alone, at the core that has it.
        asked = {"task": "night", "requester": "optimizer", "priority": "LOW", "slots": [{"device": vav, "for": "1h"}]}
        assert edge.request("/v1/reservations", asked)[1]["result"] == "SUCCESS"
        assert [one["task"] for one in east.request("/v1/reservations")[1]["reservations"]] == ["night"]
        task = {"task": "night", "requester": "optimizer"}
        assert edge.request("/v1/reservations/renew", task)[1]["result"] == "SUCCESS"
        assert edge.request("/v1/reservations/cancel", task)[1]["result"] == "SUCCESS"
        assert edge.request("/v1/reservations/cancel", task)[0] == 404


def test_a_circle_through_one_of_several_upstreams_leaves_the_others(tmp_path, cores):
    west, _, _ = cores
    publish(west, "plant/1", point(1), "-r")
    with Cut() as way:
        below = upstreams(("a", way.address, 'prefix = "a"'))
        with Node(folder(tmp_path, "b"), more=below) as b:
            tables = (("b", edge_of(b), 'prefix = "b"'), ("west", edge_of(west), 'prefix = "west"'))
            with Node(folder(tmp_path, "a"), more=upstreams(*tables)) as a:
                wait_for_states(a, b="up", west="up")
                way.lead_to(a)

                def opened():
                    return sorted([states(a)["b"], states(b)["a"]])

                until(lambda: opened() == ["circle", "up"], opened)
                assert states(a)["west"] == "up"
                with Sub(a, "west/#") as sub:
                    sub.wait("west/plant/1", v=1, q="good")


def test_upstreams_with_the_same_topics_are_refused(tmp_path):
    file = tmp_path / "node.toml"
    file.write_text(upstreams(("west", "mqtt://w", ""), ("east", "mqtt://e", 'prefix = "east"')))
    done = tieline("config", "check", "--config", file, check=False)
    assert done.returncode != 0 and 'topics "east/#", which are topics of the upstream "west", too' in done.stderr, done.stderr


def test_urgent_topics_and_bulk_have_sessions_of_their_own(tmp_path, cores):
    west, _, _ = cores
    urgent, bulk = "plant/1/breaker", "plant/1/samples"
    publish(west, urgent, point(1), "-r")
    publish(west, "plant/1/power", point(5), "-r")
    table = ("west", edge_of(west), 'protection = ["+/+/breaker"]\nbulk = ["+/+/samples"]\nprefix = "w"\nclient_id = "north"')
    with Node(folder(tmp_path, "edge"), more=upstreams(table)) as edge, Sub(edge, "w/#") as sub, Paho(edge) as paho:
        wait_for_states(edge, **{"west-protection": "up", "west-bulk": "up", "west": "up"})
        sub.wait(f"w/{urgent}", v=1)
        sub.wait("w/plant/1/power", v=5)
        sessions = west.request("/v1/sessions")[1]
        assert {"north", "north-protection", "north-bulk"} <= {one["client"] for one in sessions["sessions"]}, sessions
        # Updates of both, and a message of a client, which goes where the topic's values come from.
        publish(west, urgent, point(2), "-r")
        publish(west, "plant/1/power", point(6), "-r")
        sub.wait(f"w/{urgent}", v=2)
        sub.wait("w/plant/1/power", v=6)
        assert acknowledged(paho, f"w/{urgent}", point(3)) == 0
        sub.wait(f"w/{urgent}", v=3)
        assert acknowledged(paho, "w/plant/1/power", point(7)) == 0
        sub.wait("w/plant/1/power", v=7)
        for number in range(3):
            publish(west, bulk, point(number), "-r")
            sub.wait(f"w/{bulk}", v=number)
        assert [body["v"] for _, topic, body in sub.messages() if topic == f"w/{bulk}"] == [0, 1, 2]
        # None of them came twice.
        assert [body["v"] for _, topic, body in sub.messages() if topic == f"w/{urgent}"] == [1, 2, 3]
