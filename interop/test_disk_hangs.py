"""A disk that hangs: what cannot be kept is refused before it is taken, memory stays, and it is over by itself."""

import queue
import threading
import time

import pytest
from bus import Paho
from disk import Disk
from node import Device
from processes import Peer
from waiting import until

HUNG_AFTER_S = 5
PUBLISHERS = 24
PAYLOAD = b"x" * 16_384
MEMORY_MAX_BYTES = 340 << 20


@pytest.fixture
def disk(tmp_path, monkeypatch):
    disk = Disk(tmp_path)
    for name, text in disk.environment.items():
        monkeypatch.setenv(name, text)
    yield disk
    disk.answer()


def value_of(node, name):
    """A metric without labels."""
    line = next(line for line in node.metrics().splitlines() if line.startswith(name + " "))
    return float(line.split()[1])


def acknowledged(client, topic, payload, qos=1, retain=True):
    """Publishes; whether the node took it."""
    client.client.publish(topic, payload, qos, retain)
    _, reason, _ = client.acknowledged.get(timeout=20)
    return not reason.is_failure


class Busy(Paho):
    """One that does not wait for answers, up to a wide window."""

    def prepare(self):
        self.client.max_inflight_messages_set(1000)


def hung(node, *parts):
    def told():
        health = node.health()
        words = " ".join(health["detail"])
        return health["status"] == "degraded" and all(f"{part}: hung" in words for part in parts)

    until(told, lambda: f"{node.health()}\n{node.process.said()}", 4 * HUNG_AFTER_S)


def test_memory_stays_while_publishers_go_on(disk, start_node):
    node = start_node(more='[history]\nrecord = ["recorded/#"]\n')
    before = value_of(node, "process_resident_memory_bytes")
    done, answers = threading.Event(), []

    def publish(number):
        with Busy(node, name=f"p{number}") as client:
            taken = refused = 0
            while not done.is_set():
                topic = f"{'recorded' if number % 2 else 'kept'}/{number}"
                client.client.publish(topic, PAYLOAD, 1, True)
                try:
                    while True:
                        _, reason, _ = client.acknowledged.get_nowait()
                        refused, taken = refused + reason.is_failure, taken + (not reason.is_failure)
                except queue.Empty:
                    pass
                if client.client._out_messages and len(client.client._out_messages) > 900:
                    done.wait(0.01)  # its window is full: what is under way waits for the disk
            answers.append((taken, refused))

    disk.hang()
    threads = [threading.Thread(target=publish, args=(number,)) for number in range(PUBLISHERS)]
    [thread.start() for thread in threads]
    try:
        hung(node, "ledger", "history")
        most = 0
        until_s = time.monotonic() + 10
        while time.monotonic() < until_s:
            most = max(most, value_of(node, "process_resident_memory_bytes"))
            done.wait(0.2)
        assert value_of(node, "tieline_ledger_batch_age_seconds") > HUNG_AFTER_S
        assert value_of(node, "tieline_history_write_age_seconds") > HUNG_AFTER_S
        assert 'tieline_ledger_state{state="hung"} 1' in node.metrics()
    finally:
        done.set()
        disk.answer()
        [thread.join() for thread in threads]
    print(f"measured: {before / 2**20:.0f} MiB before, {most / 2**20:.0f} MiB at most while the disk hung")
    assert most < MEMORY_MAX_BYTES, f"{most / 2**20:.0f} MiB"
    until(lambda: node.health()["status"] == "ok", lambda: node.health(), 60)
    said = [line for line in node.process.errors if "does not answer" in line]
    assert len(said) == 2, said


def test_what_is_refused_is_not_delivered(disk, start_node):
    node = start_node(more='[history]\nrecord = ["recorded/#"]\n')
    with Paho(node, name="p") as publisher, Paho(node, name="s") as subscriber:
        subscriber.subscribe("kept/#", "recorded/#", "live/#", qos=0)
        assert acknowledged(publisher, "kept/a", "1") and acknowledged(publisher, "recorded/a", "1")
        assert [subscriber.next().payload for _ in range(2)] == [b"1", b"1"]
        disk.hang()
        waits = [publisher.client.publish(topic, "2", 1, True) for topic in ("kept/a", "recorded/b")]
        # They came before anybody could know: they are passed on, and are answered when the disk is back.
        assert [subscriber.next().payload for _ in range(2)] == [b"2", b"2"]
        hung(node, "ledger", "history")
        # Acknowledgements are in order: what the same connection sends now is answered behind those that wait.
        with Paho(node, name="q") as other:
            for topic in ("kept/a", "recorded/b"):
                for qos in (1, 2):
                    assert not acknowledged(other, topic, "3", qos), topic
            assert acknowledged(other, "live/a", "4", retain=False)  # nothing of it has to be kept
            other.publish("live/b", "5", 0, True)
        assert node.set("kept/a", "3")[0] == 507
        assert [subscriber.next().payload for _ in range(2)] == [b"4", b"5"]
        assert node.get("kept/a") == 2
        with Paho(node, name="new") as newcomer:  # comes in, and lives in memory
            newcomer.subscribe("kept/#")
            assert newcomer.next().payload == b"2"
        assert not any(sent.is_published() for sent in waits)
        disk.answer()
        until(lambda: all(sent.is_published() for sent in waits), lambda: node.health(), 20)
        until(lambda: node.health()["status"] == "ok", lambda: node.health(), 20)
        assert not any(publisher.acknowledged.get(timeout=20)[1].is_failure for _ in waits)
        assert acknowledged(publisher, "kept/a", "6") and acknowledged(publisher, "recorded/b", "6")
    node.process.kill()
    node.start()
    assert (node.get("kept/a"), node.get("recorded/b"), node.get("live/b")) == (6, 6, 5)


def test_devices_go_on(disk, start_node):
    with Peer("opendnp3_outstation") as peer:
        device = Device("relay1", peer.address)
        node = start_node(device)
        node.wait_state(device, "online")
        peer.do("update analog 1 1")
        node.wait_history(device.point("analog", 1), v=1)
        disk.hang()
        for number in range(2, 40):
            peer.do(f"update analog 1 {number}")
            node.wait_value(device.point("analog", 1), v=number, seconds=20)
            node.alive()
        hung(node, "history")
        peer.do("update analog 1 100")
        node.wait_value(device.point("analog", 1), v=100)
        output = device.point("binary-output", 1)
        assert node.command(output, True)["reason"] == "timeout"  # its record is on the way, and nobody knows yet
        hung(node, "audit")
        answer = node.command(device.point("binary-output", 2), True)
        # Behind the first one, or for want of a record: nothing is sent.
        assert answer["status"] == "refused" and answer["reason"] in ("no_audit", "busy", "timeout"), answer
        disk.answer()
        until(lambda: node.health()["status"] == "ok", lambda: node.health(), 20)
        node.wait_state(device, "online")
        assert peer.objects("command") == [], "what nobody waits for is not carried out when the disk is back"
        assert node.command(output, True)["status"] == "success"
        node.wait_history(device.point("analog", 1), v=100)


def test_a_node_stops_all_the_same(disk, start_node):
    node = start_node()
    with Paho(node, name="p") as publisher:
        assert acknowledged(publisher, "a", "1")
        disk.hang()
        publisher.client.publish("a", "2", 1, True)
        publisher.client.publish("b", "2", 1, True)
    assert node.process.stop(40) == 0, node.process.said()
