"""Modbus devices of another implementation to the node: what they have, what they are told, how they fail."""

import pytest
from authority import Authority
from bus import Sub
from modbus import LibModbus, ModbusDevice, SerialPair
from processes import Peer

POINTS = [
    ("run", "coil", 4, {"writable": "true", "states": "stopped/running"}),
    ("door", "discrete-input", 5),
    ("level", "input-register", 6, {"scale": "0.1"}),
    ("speed", "holding-register", 10, {"writable": "true", "min": "0", "max": "3000"}),
    ("signed", "holding-register", 11, {"format": "i16"}),
    ("energy", "holding-register", 12, {"format": "u32"}),
    ("power", "holding-register", 14, {"format": "f32", "order": "cdab", "writable": "true"}),
    ("alarm", "holding-register", 16, {"format": "bit[3]", "writable": "true"}),
    ("mode", "holding-register", 16, {"format": "bits[4..7]"}),
    ("label", "holding-register", 20, {"format": "string[8]"}),
    ("price", "holding-register", 30, {"format": ">d"}),
]




INITIAL = [
    "coils 4 1",
    "discrete-inputs 5 1",
    "input-registers 6 215",
    "holding-registers 10 1500",
    "holding-registers 11 0xfff6",
    "holding-registers 12 0x0001 0x0002",
    "holding-registers 14 0x0000 0x4248",  # 50.0, the low word first
    "holding-registers 16 0x0058",
    "holding-registers 20 0x5075 0x6d70 0x2031 0x0000",
    "holding-registers 30 0x4028 0x8000 0 0",  # 12.25
]

EXPECT = {
    "run": True,
    "door": True,
    "level": 21.5,
    "speed": 1500,
    "signed": -10,
    "energy": 65538,
    "power": 50.0,
    "alarm": True,
    "mode": 5,
    "label": "Pump 1",
    "price": 12.25,
}


@pytest.fixture
def server():
    with Peer("pymodbus_server", "--units", "1", "2") as peer:
        fill(peer)
        yield peer


def fill(peer, unit=1):
    for words in INITIAL:
        peer.do(f"set {unit} {words}")


def check_values(node, device):
    for name, value in EXPECT.items():
        node.wait_value(device.point(name), v=value, q="good")


def test_every_format_reaches_subscribers_and_history(server, start_node):
    device = ModbusDevice("pump", server.address, POINTS)
    node = start_node(device)
    node.wait_state(device, "online")
    check_values(node, device)
    with Sub(node, f"{device.topic}/#") as subscriber:
        subscriber.wait(device.point("level"), retained=True, v=21.5)
        server.do("set 1 input-registers 6 300")
        subscriber.wait(device.point("level"), retained=False, v=30.0, q="good")
        server.do("set 1 discrete-inputs 5 0")
        subscriber.wait(device.point("door"), v=False)
    node.wait_history(device.point("level"), v=30.0, q="good")


def test_commands_are_written_and_read_back(server, start_node):
    device = ModbusDevice("pump", server.address, POINTS, poll="10s")
    node = start_node(device)
    node.wait_state(device, "online")
    node.wait_value(device.point("speed"), v=1500)
    for name, value, shown, raw in [
        ("speed", 1750, 1750, "get 1 holding-registers 10 1"),
        ("run", "stopped", False, "get 1 coils 4 1"),
        ("power", -2.5, -2.5, "get 1 holding-registers 14 2"),
        ("alarm", False, False, "get 1 holding-registers 16 1"),
    ]:
        answer = node.command(device.point(name), value)
        assert answer["status"] == "success", (name, answer)
        node.wait_value(device.point(name), seconds=3, v=shown)  # long before the next poll
        held = server.do(raw)["values"]
        assert held == {"speed": [1750], "run": [0], "power": [0, 0xC020], "alarm": [0x50]}[name], (name, held)
    assert node.command(device.point("speed"), 3001)["reason"] == "out_of_range"
    assert node.command(device.point("level"), 1)["reason"] == "not_writable"
    assert server.do("get 1 holding-registers 10 1")["values"] == [1750]


def test_a_point_that_the_device_does_not_have_costs_itself_alone(server, start_node):
    points = [*POINTS, ("beyond", "holding-register", 1003), ("last", "holding-register", 999)]
    server.do("set 1 holding-registers 999 77")
    device = ModbusDevice("pump", server.address, points)
    node = start_node(device)
    check_values(node, device)
    node.wait_value(device.point("last"), v=77, q="good")
    node.wait_value(device.point("beyond"), v=None, q="bad", why=["offline"])
    node.wait_state(device, "online")


def test_a_server_that_dies_and_comes_back(server, start_node):
    device = ModbusDevice("pump", server.address, POINTS)
    node = start_node(device)
    check_values(node, device)
    server.kill()
    node.wait_state(device, "away")
    node.wait_value(device.point("speed"), v=1500, q="bad", why=["away"])
    with Peer("pymodbus_server", "--port", str(server.port)) as again:
        fill(again)
        again.do("set 1 holding-registers 10 9")
        node.wait_state(device, "online")
        node.wait_value(device.point("speed"), v=9, q="good")


def test_two_units_behind_one_connection(server, start_node):
    fill(server, 2)
    server.do("set 2 holding-registers 10 222")
    channel = f'[channel.gateway]\naddress = "{server.address}"\n'
    one = ModbusDevice("one", "", POINTS, channel="gateway", unit=1)
    two = ModbusDevice("two", "", POINTS, channel="gateway", unit=2)
    node = start_node(one, two, more=channel)
    node.wait_value(one.point("speed"), v=1500, q="good")
    node.wait_value(two.point("speed"), v=222, q="good")
    assert node.command(two.point("speed"), 333)["status"] == "success"
    node.wait_value(two.point("speed"), v=333)
    assert server.do("get 1 holding-registers 10 1")["values"] == [1500]


def test_rtu_frames_over_tcp(start_node):
    with Peer("pymodbus_server", "--rtu") as server:
        fill(server)
        device = ModbusDevice("pump", server.address, POINTS, framing="rtu")
        node = start_node(device)
        check_values(node, device)
        assert node.command(device.point("speed"), 12)["status"] == "success"
        node.wait_value(device.point("speed"), v=12)


def test_tls(start_node, tmp_path):
    authority = Authority(tmp_path).issue("server", names="IP:127.0.0.1").issue("client")
    with Peer("pymodbus_server", "--tls", str(tmp_path)) as server:
        fill(server)
        tls = 'transport = "tls"\ntls = { certificate = "client.pem", key = "client.key", authorities = "authority.pem" }'
        device = ModbusDevice("pump", server.address, POINTS, more=tls)
        node = start_node(device)
        check_values(node, device)
    assert authority.file.exists()


def fill_libmodbus(peer):
    for words in INITIAL:
        peer.do(f"set {words}")


def test_a_server_of_another_author_that_misbehaves(start_node, tmp_path):
    """Each fault costs polls of its own; quality and values are right after it, and no command is sent twice."""
    with LibModbus(tmp_path, "tcp", "0") as server:
        fill_libmodbus(server)
        device = ModbusDevice("pump", server.address, POINTS, timeout="200ms")
        node = start_node(device)
        check_values(node, device)
        for number, fault in enumerate(["silent 1", "refuse 3", "garbage 1", "silent 5", "delay 50"]):
            server.do(fault)
            server.do(f"set holding-registers 11 {number}")
            node.wait_value(device.point("signed"), seconds=40, v=number, q="good")
        server.do("delay 0")
        node.wait_state(device, "online", seconds=40)
        assert node.command(device.point("speed"), 21)["status"] == "success"
        server.do("silent 100")
        answer = node.command(device.point("speed"), 22)
        assert (answer["status"], answer["reason"]) == ("unknown", "timeout"), answer
        server.do("silent 0")
        node.wait_state(device, "online", seconds=40)
        node.wait_value(device.point("speed"), v=21, q="good")
        assert server.do("get holding-registers 10 1")["values"] == [21], "an unknown outcome is not tried again"


def test_a_serial_line(start_node, tmp_path):
    pair = SerialPair()
    with LibModbus(tmp_path, "rtu", pair.paths[0], "7") as server:
        fill_libmodbus(server)
        serial = f'serial = {{ port = "{pair.paths[1]}", baud = 19200 }}'
        device = ModbusDevice("pump", serial, POINTS, unit=7)
        node = start_node(device)
        check_values(node, device)
        assert node.command(device.point("speed"), 12)["status"] == "success"
        node.wait_value(device.point("speed"), v=12)
        # A unit that is not there costs its time-outs, and no more.
        server.do("set holding-registers 11 5")
        node.wait_value(device.point("signed"), v=5)
