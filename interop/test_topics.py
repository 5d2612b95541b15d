"""Topics over HTTP and paho: values that are set only if, and what is fetched."""

import json
import urllib.parse

import pytest
from bus import Paho, Sub, request
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from waiting import until


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """One node for all."""
    from node import Node

    with Node(tmp_path_factory.mktemp("topics")) as running:
        yield running
        running.alive()


def test_a_value_is_set_and_removed_over_http(node):
    topic = "put/a"
    assert node.set(topic, "1", If_Match="*")[0] == 412
    status, tag, answer = node.set(topic, "1", If_None_Match="*")
    assert (status, answer["status"]) == (200, "ok") and tag == f'"{answer["seq"]}"'
    assert node.set(topic, "2", If_None_Match="*")[0] == 412
    assert node.request(f"/v1/topics/{topic}")[1]["value"] == 1
    assert node.set(topic, None, "GET", If_None_Match=tag)[:2] == (304, tag)
    status, newer, _ = node.set(topic, "2", If_Match=tag)
    assert status == 200 and newer != tag
    status, _, problem = node.set(topic, "3", If_Match=tag)
    assert status == 412 and problem["detail"] == f"the version is {newer[1:-1]}, expected {tag[1:-1]}"
    assert node.set(topic, None, "DELETE", If_Match=tag)[0] == 412
    assert node.set(topic, None, "DELETE")[0] == 200
    assert node.set(topic, None, "DELETE")[0] == 404
    assert node.get(topic) is None
    for wrong in ["$SYS/x", "a/+", "a/#"]:
        assert node.set(wrong, "1")[0] == 400, wrong
    assert node.set(topic, "1", If_Match="41")[0] == 400
    assert node.set(topic, "")[0] == 400


def test_paho_is_told_why_a_value_was_not_set(node):
    with Paho(node) as client:
        for value, condition, refused in [("1", "true", False), ("2", "true", True), ("3", "false", False)]:
            properties = Properties(PacketTypes.PUBLISH)
            properties.UserProperty = ("tieline-if-absent", condition)
            client.publish("only/if", value, retain=True, properties=properties)
            _, code, told = client.acknowledged.get(timeout=10)
            assert code.is_failure == refused
            if refused:
                assert "expected none" in told.ReasonString
    assert node.get("only/if") == 3


def test_a_topic_is_made_when_somebody_asks_for_it(node):
    with Paho(node) as maker, Paho(node) as reader:
        maker.subscribe("$topics/missing/made/#")
        reader.subscribe("made/a", "made/+/x")
        asked = maker.next()
        assert (asked.topic, asked.payload, asked.retain) == ("$topics/missing/made/a", b"missing", False)
        maker.publish("made/a", "here", retain=True)
        assert reader.next().payload == b"here"
        assert node.request("/v1/topics/made/b")[0] == 404
        assert maker.next().topic == "$topics/missing/made/b"
        assert request(node, "$fetch", '{"filter": "made/c"}')["topics"] == []
        assert maker.next().topic == "$topics/missing/made/c"
        # What is there is not told, nor what has wildcards.
        assert node.request("/v1/topics/made/a")[0] == 200 and request(node, "$fetch", '{"filter": "made/#"}')["topics"]
        assert node.request("/v1/topics/made/d")[0] == 404
        assert maker.next().topic == "$topics/missing/made/d"


@pytest.fixture(scope="module")
def names(node):
    """Topics below `fetch`, all with the value 1."""
    names = [f"fetch/{site}/{unit}/{point}" for site in "ab" for unit in range(10) for point in ("amps", "volts")]
    for name in names:
        assert node.set(name, "1")[0] == 200
    return sorted(names)


ASKED = [
    ({}, lambda name: True),
    ({"depth": 1}, lambda name: False),
    ({"depth": 3}, lambda name: True),
    ({"select": "/[0-4]/volts$"}, lambda name: name[8] in "01234" and name.endswith("volts")),
    ({"select": "^fetch/a", "values": False}, lambda name: name.startswith("fetch/a")),
    ({"filter": "fetch/+/3/#", "bytes": 30}, lambda name: name[8] == "3"),
    ({"after": "fetch/a/5/amps", "before": "fetch/b/2"}, lambda name: "fetch/a/5/amps" < name < "fetch/b/2"),
    ({"last": True, "limit": 3}, lambda name: True),
]


@pytest.mark.parametrize(("asked", "wanted"), ASKED, ids=[json.dumps(asked) for asked, _ in ASKED])
@pytest.mark.parametrize("door", ["http", "mqtt"])
def test_topics_are_fetched_page_by_page(node, names, asked, wanted, door):
    asked = {"filter": "fetch/#", "limit": 7} | asked
    found = []
    for _ in range(20):
        if door == "http":
            words = {name: str(value).lower() if isinstance(value, bool) else value for name, value in asked.items()}
            status, page = node.request(f"/v1/topics?{urllib.parse.urlencode(words)}")
            assert status == 200, page
        else:
            page = request(node, "$fetch", json.dumps(asked))
        assert len(page["topics"]) <= asked["limit"]
        assert all(topic.get("value") == (1 if asked.get("values", True) else None) for topic in page["topics"])
        here = [topic["topic"] for topic in page["topics"]]
        found = here + found if asked.get("last") else found + here
        if page["next"] is None:
            break
        asked["before" if asked.get("last") else "after"] = page["next"]
    assert found == [name for name in names if wanted(name)]


def test_a_request_that_is_wrong_is_answered(node):
    answer = request(node, "$fetch", '{"fitler": "a"}')
    assert (answer["status"], answer["reason"]) == ("refused", "malformed") and "fitler" in answer["detail"]
    assert node.request("/v1/topics?select=(")[0] == 400
    assert node.request("/v1/topics?depth=0")[0] == 400
    with Paho(node) as client:
        client.publish("$fetch", "{}")
        _, code, told = client.acknowledged.get(timeout=10)
        assert code.is_failure and "response topic" in told.ReasonString


def test_mosquitto_sees_topics_come_and_go(node):
    node.set("come/first", "1")
    with Sub(node, "$topics/+/come/#") as watcher:
        node.set("come/second", "1")
        until(lambda: len(watcher.messages()) == 2, watcher.said)
        node.set("come/first", None, "DELETE")
        until(lambda: len(watcher.messages()) == 3, watcher.said)
        told = [(retained, topic) for retained, topic, _ in watcher.messages()]
    first = [(True, "$topics/added/come/first"), (False, "$topics/added/come/second")]
    assert told == [*first, (False, "$topics/removed/come/first")]
