"""A full disk: said clearly, survived, and over by itself when there is room."""

import os
import subprocess

import pytest
from bus import Paho, connect_packet, raw, read_to_end
from node import Device
from processes import Peer
from waiting import until

SIZE_BYTES = 64 << 20


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, of 64 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", folder], capture_output=True)
    if done.returncode != 0:
        pytest.skip("mounting a small file system is not allowed here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(path):
    """Writes until nothing more fits."""
    with path.open("wb", buffering=0) as ballast:
        for content in (1 << 20, 4096):
            try:
                while True:
                    ballast.write(bytes(content))
            except OSError:
                pass


def test_a_full_disk(small_disk, start_node):
    with Peer("opendnp3_outstation") as peer:
        device = Device("relay1", peer.address)
        node = start_node(device, data=small_disk / "data")
        node.wait_state(device, "online")
        peer.do("update analog 1 1")
        node.wait_history(device.point("analog", 1), v=1)
        fill(small_disk / "ballast")
        numbers = iter(range(2, 1_000_000))
        with Paho(node) as publisher:
            last = 0

            def said_so():
                nonlocal last
                for _ in range(100):
                    publisher.client.publish("load/fill", "x" * 4000, 0)
                last = next(numbers)
                peer.do(f"update analog 1 {last}")
                return node.health().get("history") == "disk_full"

            until(said_so, lambda: node.health(), 60)
            assert node.health()["status"] == "degraded"
            assert "disk_full" in node.metrics() or "disk" in node.metrics()
            node.wait_value(device.point("analog", 1), v=last)  # devices and subscribers go on
            publisher.subscribe("calm")
            publisher.client.publish("calm", "still", 0)
            assert publisher.next().payload == b"still"
            node.alive()
        os.unlink(small_disk / "ballast")
        until(lambda: node.health().get("history") in ("ok", "catching_up"), lambda: node.health(), 60)
        last = next(numbers)
        peer.do(f"update analog 1 {last}")
        node.wait_history(device.point("analog", 1), 60, v=last)
        until(lambda: node.health().get("history") == "ok", lambda: node.health(), 60)


def test_a_disk_that_is_full_at_the_start(small_disk, start_node):
    fill(small_disk / "ballast")
    with Peer("opendnp3_outstation") as peer:
        device = Device("relay1", peer.address)
        node = start_node(device, data=small_disk / "data")
        node.wait_state(device, "online")
        assert node.health()["history"] == "disk_full" and node.health()["status"] == "degraded"
        assert node.request("/v1/status")[1]["history"]["state"] == "disk_full"
        assert 'tieline_history_state{state="disk_full"} 1' in node.metrics()
        peer.do("update analog 1 7")
        node.wait_value(device.point("analog", 1), v=7, q="good")  # live values flow
        output = device.point("binary-output", 1)
        answer = node.command(output, True)
        assert (answer["status"], answer["reason"]) == ("refused", "no_audit"), answer
        assert peer.objects("command") == []
        with Paho(node) as client:
            client.client.publish("kept", "1", 1)
            _, reason, _ = client.acknowledged.get(timeout=10)
            assert reason.is_failure, "what is not stored is not acknowledged"
        with raw(node) as old:  # 3.1.1 has no word for a refusal
            old.sendall(connect_packet() + b"\x32\x09\0\4kept\0\1x")
            assert read_to_end(old) == b"\x20\2\0\0"
        os.unlink(small_disk / "ballast")
        until(lambda: node.health()["status"] == "ok", lambda: node.health(), 20)
        assert node.command(output, True)["status"] == "success"
        peer.do("update analog 1 8")
        node.wait_history(device.point("analog", 1), v=8)
        with Paho(node) as client:
            client.publish("kept", "2")
        node.wait_history("kept", v=2)
