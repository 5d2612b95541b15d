"""Protocol traces of BACnet devices: datagrams in words, and as a capture that Wireshark opens."""

import socket
import threading

import pytest
from bacnet import BacnetDevice
from dissection import complaints, fields, frames
from processes import Peer
from test_trace import capture, trace, wait_lines
from waiting import until

POINTS = [
    ("supply", "analog-input", 1, {"cov": "true"}),
    ("valve", "analog-output", 1, {"writable": "true"}),
    ("gone", "analog-input", 99),
]


@pytest.fixture
def server():
    with Peer("bacpypes3_server") as peer:
        yield peer


def test_a_bacnet_device_is_traced_in_words(server, start_node):
    device = BacnetDevice("ahu", server.address, POINTS, poll="500ms", write_priority=10)
    node = start_node(device)
    node.wait_value(device.point("supply"), v=21.5)
    assert node.command(device.point("valve"), 42.5)["status"] == "success"
    lines = wait_lines(node, device, lambda line: "write-property" in line["summary"] and line["kind"] == "received")
    written = [line for line in lines if line["summary"].endswith("write-property analog-output,1 present-value: 42.5 priority 10")]
    assert [(line["points"], line["fields"]["service"]) for line in written] == [(["valve"], "write-property")], lines
    done = [line for line in lines if "done" in line["summary"] and "write-property" in line["summary"]]
    assert [line["points"] for line in done] == [["valve"]]
    assert any("subscribe-cov analog-input,1" in line["summary"] and line["kind"] == "sent" for line in lines)
    assert any("analog-input,1 present-value: 21.5" in line["details"] for line in lines)
    server.do("set analog-input,1 30")
    node.wait_value(device.point("supply"), v=30.0)
    # By point: requests, answers, changes.
    supply = trace(node, device, "--point", "supply")
    assert supply and all("supply" in line["points"] for line in supply)
    told = [line for line in supply if "cov-notification" in line["summary"]]
    assert any("analog-input,1 present-value: 30" in line["details"] for line in told), supply
    # By error: what the device refuses.
    errors = trace(node, device, "--errors")
    assert errors and all(line["error"] for line in errors)
    refused = [line for line in errors if "analog-input,99 present-value" in line["error"]]
    assert refused and "unknown-object" in refused[0]["error"] and "gone" in refused[0]["points"], errors


def test_a_capture_decodes_as_bacnet(server, start_node, tmp_path):
    device = BacnetDevice("ahu", server.address, POINTS, poll="500ms")
    node = start_node(device)
    node.wait_value(device.point("supply"), v=21.5)
    assert node.command(device.point("valve"), 12.5)["status"] == "success"
    wait_lines(node, device, lambda line: "write-property" in line["summary"] and line["kind"] == "received")
    path = capture(node, device, tmp_path / "ahu.pcapng")
    assert frames(path, "bacapp") > 8
    assert complaints(path, "bacapp") == ""
    assert set(fields(path, "bvlc", "udp.dstport")) >= {"47808"}
    assert "127.0.0.1" in fields(path, "bvlc", "ip.dst")
    services = set(fields(path, "bacapp", "bacapp.confirmed_service"))
    assert {"5", "14", "15"} <= services, services


def test_devices_behind_a_router_have_their_own_traces(start_node, tmp_path):
    points = [("position", "analog-output", 1)]
    with Peer("bacpypes3_router", "--devices", "2") as router:
        devices = [BacnetDevice(f"vav{mac}", router.address, points, network=100, mac=mac) for mac in (1, 2)]
        absent = BacnetDevice("vav9", router.address, points, network=333, mac=9)
        node = start_node(*devices, absent)
        for mac, device in enumerate(devices, 1):
            node.wait_value(device.point("position"), v=mac * 1.5, q="good")
            lines = [line for line in trace(node, device) if line["fields"].get("network") == 100]
            assert lines and {line["fields"]["mac"] for line in lines} == {f"0{mac}"}, lines
            assert any(line["summary"].startswith(f"from network 100 mac 0{mac} | answer") for line in lines)
            path = capture(node, device, tmp_path / f"{mac}.pcapng")
            assert set(fields(path, "bacnet", "bacnet.snet")) == {"100"}
        # What is asked of a device that nobody has is in its own trace alone.
        lines = wait_lines(node, absent, lambda line: line["summary"] == "device away")
        assert {line["fields"]["network"] for line in lines if line["kind"] == "sent"} == {333}
        assert not [line for line in lines if line["kind"] == "received"]


def test_garbage_is_told(start_node, tmp_path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bad:
        bad.bind(("127.0.0.1", 0))

        def answer():
            for number in range(10_000):
                try:
                    _, to = bad.recvfrom(2048)
                    bad.sendto([b"no BACnet", b"\x81\x0a\x00\x07\x01\x00\x77", b"\x81\x0a\x00\x04"][number % 3], to)
                except OSError:
                    return

        threading.Thread(target=answer, daemon=True).start()
        device = BacnetDevice("ahu", f"127.0.0.1:{bad.getsockname()[1]}", POINTS)
        node = start_node(device)
        errors = wait_lines(node, device, lambda line: line["summary"] == "no message of BACnet/IP", "--errors")
        assert any("bytes:" in line["details"][-1] for line in errors if line["kind"] == "received")
        assert capture(node, device, tmp_path / "bad.pcapng").stat().st_size > 100
        assert node.alive()
        until(lambda: "tieline_bacnet_malformed_total 0" not in node.metrics(), node.metrics)
