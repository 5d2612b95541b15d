"""Commands from every door to foreign outstations, and their refusals by name."""

import hashlib
import json
import signal

import pytest
from bus import Paho, Sub, publish, request
from node import tieline
from test_devices import device_for


@pytest.fixture
def running(outstation, start_node):
    """A node with one online device: (peer, device, node)."""
    device = device_for(outstation)
    node = start_node(device)
    node.wait_state(device, "online")
    return outstation, device, node


def test_by_mqtt_request(running):
    peer, device, node = running
    topic = device.point("binary-output", 3)
    assert request(node, f"$command/{topic}", "true")["status"] == "success"
    peer.wait_command(step="select", type="binary_output", index=3, value="latch_on")
    peer.wait_command(step="operate", type="binary_output", index=3, value="latch_on")
    body = json.dumps({"value": False, "mode": "direct"})
    assert request(node, f"$command/{topic}", body)["status"] == "success"
    peer.wait_command(step="direct", type="binary_output", index=3, value="latch_off")


def test_correlation_data_comes_back(running):
    peer, device, node = running
    with Paho(node) as client:
        answer, correlation = client.request(f"$command/{device.point('analog-output', 2)}", b"17", b"\x00\x01tag")
    assert (answer["status"], correlation) == ("success", b"\x00\x01tag")
    peer.wait_command(step="operate", type="analog_output", index=2, value=17)


def test_without_a_response_topic(running):
    peer, device, node = running
    publish(node, f"$command/{device.point('binary-output', 1)}", "true")
    peer.wait_command(step="operate", type="binary_output", index=1, value="latch_on")


def test_by_http_and_command_line(running):
    peer, device, node = running
    topic = device.point("binary-output", 5)
    assert node.command(topic, True)["status"] == "success"
    peer.wait_command(step="operate", type="binary_output", index=5, value="latch_on")
    done = tieline("command", topic, "false", "--mode", "direct", "--json", "--http", node.http)
    assert json.loads(done.stdout)["status"] == "success"
    peer.wait_command(step="direct", type="binary_output", index=5, value="latch_off")
    entries = node.audit(topic)["entries"]
    assert len(entries) >= 2 and all(entry["topic"] == topic for entry in entries), entries


def test_the_audit_log_is_verified_over_http(running):
    """As docs/commands.md says: each record follows from the one before."""

    def follows(before, record):
        text = json.dumps({k: v for k, v in record.items() if k != "chain"}, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(bytes.fromhex(before["chain"]) + text.encode()).hexdigest() == record["chain"]

    _, device, node = running
    for value in (True, "Zürich \"1\"", False):
        node.command(device.point("binary-output", 5), value)
    records = node.request("/v1/audit?limit=1000")[1]["entries"][::-1]
    assert len(records) >= 6 and records[0]["id"] == 1
    assert all(follows(before, record) for before, record in zip([{"chain": "00" * 32}, *records], records))
    last = f"{records[-1]['id']}:{records[-1]['chain']}"
    done = tieline("access", "verify", node.data, "--record", last)
    assert "ok," in done.stdout


@pytest.mark.parametrize("mode", ["select", "direct"])
@pytest.mark.parametrize("status", ["not_supported", "local", "hardware_error", "blocked"])
def test_refusals_of_the_device_come_back_by_name(running, status, mode):
    peer, device, node = running
    topic = device.point("binary-output", 4)
    peer.do(f"refuse binary_output 4 {status}")
    answer = request(node, f"$command/{topic}", json.dumps({"value": True, "mode": mode}))
    assert (answer["status"], answer["reason"]) == ("refused", status), answer
    answer = node.command(topic, True, mode)
    assert (answer["status"], answer["reason"]) == ("refused", status), answer


@pytest.mark.parametrize("word, value", [("Close", "latch_on"), ("open", "latch_off"), ("ON", "latch_on"), ("off", "latch_off")])
def test_words_for_states_work_at_every_door(running, word, value):
    peer, device, node = running
    for number, ask in enumerate(
        [
            lambda topic: request(node, f"$command/{topic}", word),
            lambda topic: request(node, f"$command/{topic}", json.dumps({"value": word})),
            lambda topic: node.command(topic, word),
            lambda topic: json.loads(tieline("command", topic, word, "--no-confirm", "--json", "--http", node.http).stdout),
        ]
    ):
        answer = ask(device.point("binary-output", number))
        assert answer["status"] == "success" and answer["expected"] == (value == "latch_on"), answer
        peer.wait_command(step="operate", type="binary_output", index=number, value=value)
    answer = node.command(device.point("binary-output", 0), "ajar")
    assert answer["reason"] == "wrong_type" and '"open" or "close"' in answer["detail"], answer


def test_an_answer_that_does_not_come_is_an_unknown_outcome(running):
    peer, device, node = running
    topic = device.point("binary-output", 2)
    peer.process.send_signal(signal.SIGSTOP)
    try:
        done = tieline("command", topic, "true", "--mode", "direct", "--http", node.http, check=False)
    finally:
        peer.process.send_signal(signal.SIGCONT)
    reasons = ("outcome unknown: timeout: ", "outcome unknown: away: ")  # whichever the node notices first
    assert done.returncode == 5 and done.stderr.startswith(reasons), done
    done = tieline("command", "test/none", "true", "--http", "127.0.0.1:1", check=False)
    assert done.returncode == 4 and "no answer from" in done.stderr, done


def test_refusals_of_the_node_reach_no_device(running):
    peer, device, node = running
    wrong = [
        (device.point("binary-output", 77), True, "unknown_topic"),
        (device.point("binary", 1), True, "not_writable"),
        (device.point("binary-output", 1), 4.5, "wrong_type"),
    ]
    for topic, value, reason in wrong:
        answer = node.command(topic, value)
        assert (answer["status"], answer["reason"]) == ("refused", reason), answer
        answer = request(node, f"$command/{topic}", json.dumps(value))
        assert (answer["status"], answer["reason"]) == ("refused", reason), answer
    assert peer.objects("command") == []


def test_a_command_to_a_device_that_is_away(running):
    peer, device, node = running
    peer.kill()
    node.wait_state(device, "away")
    answer = node.command(device.point("binary-output", 1), True)
    assert (answer["status"], answer["reason"]) == ("refused", "away"), answer


def test_an_operated_point_reports_back(running):
    peer, device, node = running
    topic = device.point("binary-output", 6)
    node.wait_value(topic, v=False)
    with Sub(node, topic) as subscriber:
        assert node.command(topic, True)["status"] == "success"
        if peer.kind == "opendnp3_outstation":  # the other reports no output events, only its integrity poll shows it
            subscriber.wait(topic, v=True, q="good")
