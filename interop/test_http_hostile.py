"""HTTP peers that mean harm, beside those who ask for health, metrics and their own."""

import json
import resource
import socket
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from bus import Paho, request
from test_topics_memory import client, packet, resident
from waiting import until

MEGABYTE = 1_000_000
TOPICS, PAYLOAD = 2000, 10_000
UNFINISHED = b"POST /v1/publish HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n{"


@pytest.fixture(autouse=True)
def descriptors():
    """Room for the sockets of a crowd."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(node, data):
    """A connection that sends this and reads nothing."""
    host, port = node.http.rsplit(":", 1)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(10)
    connection.connect((host, int(port)))
    connection.sendall(data)
    return connection


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def fill(node):
    """20 MB of last values."""
    publisher = client(node, b"filler")
    payload = b"x" * PAYLOAD
    for number in range(TOPICS):
        topic = f"site/{number:05}".encode()
        publisher.sendall(packet(0x31, len(topic).to_bytes(2) + topic + payload))
    until(lambda: node.request("/v1/status")[1]["topics"] >= TOPICS, "the values are there", 60)


def growth(node, before, seconds=6):
    """By how much the node's memory grows at most for a while."""
    peaks, deadline = [], time.monotonic() + seconds
    until(lambda: peaks.append(resident(node)) or time.monotonic() > deadline, "some time", seconds + 5)
    return max(peaks) - before


@pytest.mark.parametrize("attack", [UNFINISHED, b"", b"GET / HTTP/1.1\r\nX-Slow: "], ids=["body", "nothing", "head"])
def test_a_crowd_of_unfinished_requests_leaves_health_and_metrics(start_node, attack):
    node = start_node()
    crowd = [connect(node, attack) for _ in range(1030)]
    for _ in range(5):
        assert node.request("/healthz", seconds=5)[0] == 200
        status, metrics = node.request("/metrics", seconds=5)
        assert status == 200 and "tieline_http_reserve_connections" in metrics
    # One address has its share, and no more; what is asked for besides is refused with a reason.
    assert "\ntieline_http_connections 2" in metrics
    status, problem = node.request("/v1/status", seconds=5)
    assert status == 503 and "too many connections" in problem["detail"]
    for connection in crowd:
        connection.close()
    until(lambda: node.request("/v1/status")[0] == 200, "the places are free again")


@pytest.mark.parametrize(
    ("path", "count", "bound"),
    [("/v1/topics?limit=10000&bytes=67108864", 200, 80), ("/v1/live", 200, 100), ("/v1/topics?last=true", 200, 80)],
    ids=["pages", "live", "last"],
)
def test_answers_that_nobody_reads_are_not_held(start_node, path, count, bound):
    node = start_node()
    fill(node)
    before = resident(node)
    crowd = [connect(node, get(path)) for _ in range(count)]
    grown = growth(node, before)
    print(f"{count} of {path}: {grown / MEGABYTE:.1f} MB")
    assert grown < bound * MEGABYTE
    assert node.request("/healthz", seconds=5)[0] == 200
    assert len(crowd) == count


def test_one_address_has_a_share_of_the_readers_of_live_changes(start_node):
    node = start_node()
    readers = [connect(node, get("/v1/live")) for _ in range(250)]
    for reader in readers:
        assert reader.recv(12) == b"HTTP/1.1 200"
    status, problem = node.request("/v1/live", seconds=10)
    assert status == 503 and "the limit for one" in problem["detail"], problem
    readers[0].close()
    until(lambda: reads(node), "there is room for one more")


def reads(node):
    """Whether one more reader of live changes gets any."""
    with connect(node, get("/v1/live")) as reader:
        return reader.recv(12) == b"HTTP/1.1 200"


def test_history_answers_that_nobody_reads_hold_few_threads(start_node):
    node = start_node()
    with Paho(node) as publisher:
        for _ in range(100):
            publisher.publish("site/log", "y" * 50_000)
    until(lambda: node.request("/v1/status")[1]["history"]["stored"] >= 100, "it is stored", 30)
    before = resident(node)
    crowd = [connect(node, get("/v1/history?topic=site/log&from=1h")) for _ in range(200)]
    grown = growth(node, before)
    status = dict(line.split(":\t", 1) for line in open(f"/proc/{node.process.process.pid}/status") if ":\t" in line)
    print(f"{len(crowd)} of history: {grown / MEGABYTE:.1f} MB, {status['Threads'].strip()} threads")
    assert grown < 60 * MEGABYTE and int(status["Threads"]) < 40
    metrics = node.request("/metrics", seconds=5)[1]
    assert "\ntieline_http_recalls 4\n" in metrics


def test_what_is_wrong_with_a_body_is_said_with_its_place(start_node):
    node = start_node()

    def refused(status, expect, data, path="/v1/publish", kind="application/json"):
        asked = urllib.request.Request(f"http://{node.http}{path}", data, {"Content-Type": kind} if kind else {})
        with pytest.raises(urllib.error.HTTPError) as answer:
            urllib.request.urlopen(asked, timeout=10)
        assert answer.value.headers["Content-Type"] == "application/problem+json"
        problem = json.loads(answer.value.read())
        assert (answer.value.code, problem["detail"]) == (status, expect), problem

    refused(422, "the body: topic: found nothing, expected a value", b"{}")
    refused(422, 'the body: retain: found "x", expected a boolean', b'{"topic":"a","payload":1,"retain":"x"}')
    refused(422, "the body: found a list of 0, expected an object", b"[]")
    wrong = "the body: line 1, column 14: found no valid JSON (key must be a string), expected a JSON text"
    refused(400, wrong, b'{"topic":"a",1}')
    refused(415, "the header Content-Type: found \"text/plain\", expected application/json", b"{}", kind="text/plain")
    refused(413, "the body: found 2000000 bytes, expected at most 1048576 bytes", b" " * 2_000_000)
    # Calls of control have answers of their own, with the same words.
    status, answer = node.request("/v1/set", {"points": [{"topic": "a", "value": 1, "mode": 5}]})
    assert "points[0].mode: found 5, expected a string" in json.dumps(answer), (status, answer)


def test_costly_fetches_do_not_stop_the_bus(start_node):
    node = start_node()
    publisher = client(node, b"filler")
    for number in range(10_000):
        topic = f"site/{number:05}/feeder/measurement/of/current/phase/a".encode()
        publisher.sendall(packet(0x31, len(topic).to_bytes(2) + topic + b"1"))
    until(lambda: node.request("/v1/status")[1]["topics"] >= 10_000, "the values are there", 60)
    slow = "([a-z]+[0-9]*/?){6}[^/]{20,40}x$"
    answer = node.request("/v1/topics?" + urllib.parse.urlencode({"select": slow}), seconds=10)
    assert answer[0] == 400 and "bytes when compiled" in answer[1]["detail"], answer
    selector = "(site|feeder|of)/.*[0-9].*/(volts|watts)$"
    asked = json.dumps({"select": selector, "values": False})
    reply, worst = b"reply/flood", 0
    body = b"\0\6$fetch" + bytes([3 + len(reply), 8]) + len(reply).to_bytes(2) + reply + asked.encode()
    flood = socket.create_connection(("127.0.0.1", node.mqtt_port))
    flood.sendall(b"\x10\x12\0\4MQTT\5\2\0\0\0\0\5flood")
    flood.settimeout(10)
    assert flood.recv(64)[0] == 0x20
    with Paho(node) as watcher:
        watcher.subscribe("watch/now", qos=0)
        for batch in range(20):
            flood.sendall(packet(0x30, body) * 100)
            sent = time.monotonic()
            watcher.publish("watch/now", str(batch), qos=0)
            watcher.next(10)
            worst = max(worst, time.monotonic() - sent)
            begun = time.monotonic()
            path = "/v1/topics?" + urllib.parse.urlencode({"filter": "site/00001/#"})
            assert node.request(path, seconds=10)[0] == 200
            worst = max(worst, time.monotonic() - begun)
    metrics = node.request("/metrics")[1]
    refused = next(line for line in metrics.splitlines() if line.startswith("tieline_requests_refused_total"))
    print(f"measured: worst {worst * 1000:.0f} ms; {refused}")
    # Without shares and limits it stood still for seconds. How long it takes on a quiet machine is printed.
    assert worst < 2
    # 64 of one user wait: of each 100 that come together, the others are refused.
    assert int(refused.split()[1]) >= 20 * (100 - 64)
    assert request(node, "$fetch", '{"filter": "site/00001/#"}')["topics"]

