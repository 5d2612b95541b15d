"""Protocol traces: what a device says, in words and as a capture that Wireshark opens."""

import json

import pytest
from dissection import complaints, fields, frames, tshark
from modbus import LibModbus, ModbusDevice, SerialPair
from node import BINARY, Device, OurOutstation, tieline
from processes import Lines, Peer
from simulated import SimulatedDevice
from test_hostile import BadDevice, garbage
from waiting import until

POINTS = [
    ("run", "coil", 4, {"writable": "true"}),
    ("speed", "holding-register", 10, {"writable": "true", "max": "3000"}),
    ("beyond", "holding-register", 1003),
]


@pytest.fixture
def server():
    with Peer("pymodbus_server", "--units", "1", "2") as peer:
        peer.do("set 1 holding-registers 10 1500")
        yield peer


@pytest.fixture
def outstation(tmp_path):
    with OurOutstation(tmp_path) as station:
        yield station


def trace(node, device, *words, **options):
    """The lines of `tieline trace --json`."""
    done = tieline("trace", device.topic, "--http", node.http, "--json", *words, **options)
    return [json.loads(line) for line in done.stdout.splitlines()]


def capture(node, device, path, *words):
    tieline("trace", device.topic, "--http", node.http, "--pcapng", path, *words)
    return path


def wait_lines(node, device, wanted, *words):
    """The lines, once one of them is as wanted."""

    def found():
        lines = trace(node, device, *words)
        return lines if any(wanted(line) for line in lines) else None

    return until(found, lambda: trace(node, device, *words), 20)


def test_a_modbus_device_is_traced_in_words(server, start_node):
    device = ModbusDevice("pump", server.address, POINTS)
    node = start_node(device)
    node.wait_value(device.point("speed"), v=1500)
    assert node.command(device.point("speed"), 1750)["status"] == "success"
    lines = wait_lines(node, device, lambda line: line["summary"].endswith("write single register 10: done"))
    assert lines[0]["kind"] == "connected" or lines[0]["kind"] == "state"
    kinds = {line["kind"] for line in lines}
    assert {"connected", "sent", "received", "state"} <= kinds, kinds
    written = [line for line in lines if line["summary"].endswith("write single register 10: 1750")]
    assert [line["points"] for line in written] == [["speed"]]
    assert written[0]["fields"]["function"] == 6 and written[0]["fields"]["unit"] == 1
    # By point: only what carries it, requests and answers alike.
    runs = trace(node, device, "--point", "run")
    assert runs and all("run" in line["points"] for line in runs), runs
    assert {line["kind"] for line in runs} == {"sent", "received"}
    # By error: what the device refuses.
    errors = trace(node, device, "--errors")
    assert errors and all(line["error"] for line in errors)
    assert any("exception 2 (illegal_data_address)" in line["error"] and "beyond" in line["points"] for line in errors)
    refused = tieline("trace", device.topic, "--http", node.http, "--point", "nothing", check=False)
    assert refused.returncode == 3 and "the name of a point" in refused.stderr


def test_captures_decode(server, outstation, start_node, tmp_path):
    pump, relay = ModbusDevice("pump", server.address, POINTS), Device("relay", outstation.address)
    node = start_node(pump, relay)
    node.wait_value(pump.point("speed"), v=1500)
    outstation.do("update analog 3 42")
    node.wait_value(relay.point("analog", 3), v=42.0)
    assert node.command(relay.point("binary-output", 1), True)["status"] == "success"
    modbus = capture(node, pump, tmp_path / "pump.pcapng")
    assert frames(modbus, "modbus") > 4
    assert complaints(modbus, "mbtcp", unless="modbus.exception_code") == ""
    assert "test/pump" in tshark(modbus, "-T", "fields", "-e", "frame.comment")
    assert set(fields(modbus, "mbtcp", "tcp.port")) >= {"502"}
    dnp3 = capture(node, relay, tmp_path / "relay.pcapng")
    assert complaints(dnp3, "dnp3") == ""
    functions = set(fields(dnp3, "dnp3", "dnp3.al.func"))
    assert {"1", "129", "3"} <= functions or {"1", "129", "4"} <= functions, functions


def test_a_dnp3_device_is_traced_by_point_and_error(outstation, start_node):
    device = Device("relay", outstation.address)
    node = start_node(device)
    node.wait_state(device, "online")
    outstation.do("update analog 3 42")
    node.wait_value(device.point("analog", 3), v=42.0)
    lines = wait_lines(node, device, lambda line: any("g32" in detail and "42" in detail for detail in line["details"]))
    assert any("enable-unsolicited" in line["summary"] for line in lines)
    events = trace(node, device, "--point", "analog/3")
    assert events and all("analog/3" in line["points"] for line in events)
    assert not any("binary/0" in line["points"] and "analog/3" not in line["points"] for line in events)
    assert not [line for line in trace(node, device, "--errors") if line["kind"] in ("sent", "received")]


def test_the_minute_before_a_device_went_away(server, start_node, tmp_path):
    device = ModbusDevice("pump", server.address, POINTS)
    node = start_node(device)
    node.wait_value(device.point("speed"), v=1500)
    assert node.request(f"/v1/trace/{device.topic}?from=away")[0] == 404
    server.kill()
    node.wait_state(device, "away")
    lines = wait_lines(node, device, lambda line: line["summary"] == "device away", "--from", "away")
    assert lines[-1]["summary"] == "device away" and lines[-1]["error"]
    assert any("read holding registers" in line["summary"] and line["kind"] == "received" for line in lines)
    assert any(line["kind"] == "closed" for line in lines)
    assert frames(capture(node, device, tmp_path / "away.pcapng", "--from", "away"), "modbus") > 2
    # It is kept while the device is tried again and again, and when it is back.
    with Peer("pymodbus_server", "--port", str(server.port)) as again:
        again.do("set 1 holding-registers 10 9")
        node.wait_state(device, "online")
        assert trace(node, device, "--from", "away") == lines


def test_a_trace_is_followed(server, start_node):
    device = ModbusDevice("pump", server.address, POINTS)
    node = start_node(device)
    node.wait_value(device.point("speed"), v=1500)
    command = [BINARY, "trace", device.topic, "--http", node.http, "--follow", "--point", "speed"]
    with Lines([str(word) for word in command]) as follower:
        until(lambda: any("10: 1500" in line or "1500" in line for line in follower.lines), follower.said)
        server.do("set 1 holding-registers 10 77")
        until(lambda: any(line.split(" [")[0].endswith(" 77") for line in follower.lines), follower.said)
        assert all("[speed" in line or line.startswith("  ") for line in follower.lines), follower.said()


def test_bytes_that_are_no_protocol_are_told(start_node, tmp_path):
    with BadDevice(garbage) as bad:
        relay, pump = Device("relay", bad.address), ModbusDevice("pump", bad.address, POINTS)
        node = start_node(relay, pump)
        for device in (relay, pump):
            errors = wait_lines(node, device, lambda line: "no frame" in line["summary"], "--errors")
            told = next(line for line in errors if "no frame" in line["summary"])
            assert "bytes:" in told["details"][-1]
            assert capture(node, device, tmp_path / f"{device.name}.pcapng").stat().st_size > 100
        assert node.alive()


def test_a_serial_line_is_captured_frame_by_frame(start_node, tmp_path):
    pair = SerialPair()
    with LibModbus(tmp_path, "rtu", pair.paths[0], "7") as server:
        server.do("set holding-registers 10 1500")
        serial = f'serial = {{ port = "{pair.paths[1]}", baud = 19200 }}'
        device = ModbusDevice("pump", serial, POINTS[:2], unit=7)
        node = start_node(device)
        node.wait_value(device.point("speed"), v=1500)
        path = capture(node, device, tmp_path / "serial.pcapng")
        assert frames(path, "mbrtu") > 2
        assert complaints(path, "mbrtu") == ""
        assert "1500" in fields(path, "modbus", "modbus.regval_uint16")


def test_devices_of_one_connection_have_their_own_traces(server, start_node):
    server.do("set 2 holding-registers 10 222")
    channel = f'[channel.gateway]\naddress = "{server.address}"\n'
    one = ModbusDevice("one", "", POINTS, channel="gateway", unit=1)
    two = ModbusDevice("two", "", POINTS, channel="gateway", unit=2)
    node = start_node(one, two, more=channel)
    node.wait_value(two.point("speed"), v=222)
    node.wait_value(one.point("speed"), v=1500)
    for device, unit in ((one, 1), (two, 2)):
        units = {line["fields"].get("unit") for line in trace(node, device) if line["kind"] in ("sent", "received")}
        assert units == {unit}


def test_a_trace_on_the_disk_is_there_after_a_restart(server, start_node, tmp_path):
    device = ModbusDevice("pump", server.address, POINTS, more='trace = { disk = "64KiB" }')
    node = start_node(device)
    node.wait_value(device.point("speed"), v=1500)
    first = wait_lines(node, device, lambda line: "1500" in line["summary"], "--from", "disk")
    node.__exit__()
    node.start()
    node.wait_value(device.point("speed"), v=1500, q="good")
    again = wait_lines(node, device, lambda line: line["time"] > first[-1]["time"], "--from", "disk")
    assert again[: len(first)] == first
    folder = node.data / "trace" / "device-test%2Fpump"
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 64 * 1024
    assert all(file.stat().st_mode & 0o077 == 0 for file in folder.iterdir())
    assert frames(capture(node, device, tmp_path / "disk.pcapng", "--from", "disk"), "modbus") > 2


def test_a_device_that_is_not_traced_says_so(server, start_node):
    device = ModbusDevice("pump", server.address, POINTS, more="trace = { enabled = false }")
    node = start_node(device)
    node.wait_value(device.point("speed"), v=1500)
    refused = tieline("trace", device.topic, "--http", node.http, check=False)
    assert refused.returncode == 3 and "[device.pump.trace]" in refused.stderr, refused.stderr
    unknown = tieline("trace", "test/none", "--http", node.http, check=False)
    assert unknown.returncode == 3 and "no device" in unknown.stderr


def test_a_simulated_device_has_states_and_no_bytes(start_node, tmp_path):
    device = SimulatedDevice("room", [("temperature", "float", {"value": "20"})])
    node = start_node(device)
    node.wait_value(device.point("temperature"), v=20)
    lines = wait_lines(node, device, lambda line: line["summary"] == "device online")
    assert {line["kind"] for line in lines} == {"state"}, lines
    words = ["--http", node.http, "--pcapng", tmp_path / "room.pcapng"]
    refused = tieline("trace", device.topic, *words, check=False)
    assert refused.returncode != 0 and "no connection" in refused.stderr
    assert not (tmp_path / "room.pcapng").exists()
