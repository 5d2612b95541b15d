"""`tieline discover` finds devices of others, says what they are, and proposes a configuration that a node takes."""

import json
import socket
import struct
import threading

from node import Node, OurOutstation, tieline
from processes import Peer
from waiting import until

#: Of Linux: the system says of each datagram when it came.
SO_TIMESTAMPNS = 35


def words(text, registers):
    """Text as registers."""
    data = text.encode().ljust(2 * registers, b"\0")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]


def sunspec(peer, unit):
    """The common model and a single-phase inverter, at the base address of the standard."""
    common = words("Sunny", 16) + words("I-1000", 16) + words("", 8) + words("2.1", 8) + words("SN42", 16) + [0, 0]
    inverter = [0xFFFF] * 50
    inverter[12:14] = [1500, 0xFFFF]  # 150.0 W
    inverter[14:16] = [5001, 0xFFFE]  # 50.01 Hz
    inverter[22:25] = [0, 7, 1]  # 70 Wh
    inverter[36] = 4
    chain = [0x5375, 0x6E53, 1, 66, *common, 101, 50, *inverter, 0xFFFF, 0]
    peer.do(f"set {unit} holding-registers 40000 {' '.join(map(str, chain))}")


def written(peer):
    """What clients have written; what the test sets is not."""
    return [write for write in peer.objects("write") if write["function"] >= 5]


def lines_of(*arguments):
    """What is found, a line each. Where nothing is, the command says so and has its exit code."""
    done = tieline("discover", *arguments, "--json", check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == (0 if lines else 4), (done.returncode, done.stderr)
    assert lines or "found: " in json.loads(done.stderr)["error"], done.stderr
    return lines


def found(*arguments):
    """Modbus devices that are found."""
    return lines_of(*arguments, "--timeout", "500ms")


def test_devices_say_who_they_are_and_are_only_read():
    with Peer("pymodbus_server", "--units", "1", "7") as peer:
        devices = sorted(found("modbus", peer.address, "--units", "1,7"), key=lambda device: device["unit"])
        assert [device["unit"] for device in devices] == [1, 7]
        for device in devices:
            assert (device["manufacturer"], device["model"], device["version"]) == ("Acme", "PM-5", "1.2"), device
        assert found("sunspec", peer.address) == []
        assert not written(peer)


def test_units_of_a_gateway_share_a_connection(tmp_path):
    with Peer("pymodbus_server", "--units", "1", "7") as peer:
        assert len(found("modbus", peer.address, "--units", "1,7", "--out", str(tmp_path))) == 2
        tables = (tmp_path / "devices.toml").read_text()
        assert tables.count(f'address = "{peer.address}"') == 1 and tables.count('channel = "gateway-1"') == 2, tables
        tieline("config", "check", tmp_path / "devices.toml")


def test_nobody_is_nobody(tmp_path):
    with Peer("pymodbus_server") as peer:
        address = peer.address
    assert found("modbus", address) == []
    done = tieline("discover", "modbus", address, "--out", tmp_path / "proposed", check=False)
    assert done.returncode == 4 and "1 address asked, and none of them takes a connection" in done.stderr, done
    assert not (tmp_path / "proposed").exists()


def test_what_is_proposed_for_sunspec_is_read_by_a_node(tmp_path):
    with Peer("pymodbus_server", "--units", "1", "--addresses", "41000") as peer:
        sunspec(peer, 1)
        [device] = found("sunspec", peer.address, "--units", "1", "--out", str(tmp_path / "proposed"))
        assert (device["manufacturer"], device["serial"], device["sunspec_models"]) == ("Sunny", "SN42", [1, 101]), device
        assert not written(peer)
        tieline("config", "check", tmp_path / "proposed" / "devices.toml")
        node = Node(tmp_path / "proposed")
        try:
            node.__exit__()
            (tmp_path / "proposed" / "tieline.toml").write_text((tmp_path / "proposed" / "devices.toml").read_text())
            node.start()
            topic = "site/sunny-i-1000-1"
            for name, value in [("power", 150.0), ("frequency", 50.01), ("energy", 70.0)]:
                got = node.wait_value(f"{topic}/{name}", q="good")
                until(lambda got=got, value=value: abs(got["v"] - value) < 1e-9, str(got))
        finally:
            node.__exit__()


def devices_of(*arguments):
    """BACnet devices that are found, by instance."""
    return {device["instance"]: device for device in lines_of("bacnet", *arguments, "--timeout", "1s", "--wait", "1s")}


def test_a_bacnet_device_says_what_it_has_and_is_only_read(tmp_path):
    with Peer("bacpypes3_server", "--values", "30") as peer:
        found = devices_of(peer.address, "--out", str(tmp_path / "proposed"))
        device = found[1001]
        assert (device["address"], device["name"], device["network"], device["error"]) == (peer.address, "peer", None, None)
        objects = {(thing["type"], thing["instance"]): thing for thing in device["objects"]}
        supply = objects["analog-input", 1]
        assert (supply["name"], supply["unit"], supply["commandable"]) == ("analog-input 1", "°C", False), supply
        assert objects["analog-value", 7]["commandable"] and objects["analog-output", 1]["commandable"]
        assert not peer.objects("write") and not peer.objects("subscribe")
        tieline("config", "check", tmp_path / "proposed" / "devices.toml")
        node = Node(tmp_path / "proposed")
        try:
            node.__exit__()
            (tmp_path / "proposed" / "tieline.toml").write_text((tmp_path / "proposed" / "devices.toml").read_text())
            node.start()
            for name, value in [("analog-input_1", 21.5), ("binary-value_1", True), ("analog-value_7", 3.5), ("characterstring-value_1", "AHU 1 läuft")]:
                node.wait_value(f"site/peer-1001/{name}", v=value, q="good")
        finally:
            node.__exit__()


def test_bacnet_devices_behind_a_router_are_found():
    with Peer("bacpypes3_router", "--devices", "3") as router:
        # As a foreign device: broadcasts reach all networks.
        found = devices_of("--bbmd", router.address, "--instances", "2000-2999")
        assert sorted(found) == [2000, 2001, 2002, 2003], found
        routed = found[2002]
        assert (routed["address"], routed["network"], routed["mac"]) == (router.address, 100, "02"), routed
        assert [thing["name"] for thing in routed["objects"]] == ["output 2"]
        # Fewer instances, and no objects.
        found = devices_of("--bbmd", router.address, "--instances", "2001-2002", "--devices-only")
        assert sorted(found) == [2001, 2002] and not found[2001]["objects"]


def test_nobody_of_bacnet_is_nobody():
    with Peer("bacpypes3_server") as peer:
        address = peer.address
    assert devices_of(address) == {}
    refused = tieline("discover", "bacnet", check=False)
    assert refused.returncode == 2 and "--broadcast" in refused.stderr


def outstations(*arguments):
    """DNP3 outstations that are found."""
    return lines_of("dnp3", *arguments, "--timeout", "1s")


def test_a_dnp3_outstation_says_which_points_it_has_and_keeps_its_events(tmp_path):
    with OurOutstation(tmp_path) as station:
        station.do("update analog 3 42")
        found = outstations(station.address, "--outstations", "8-11", "--out", str(tmp_path / "proposed"))
        assert [outstation["outstation"] for outstation in found] == [10], found
        points = found[0]["points"]
        assert points["analog"] == list(range(10)) and len(points["binary"]) == 10, points
        # Its own master still gets the event.
        events = tieline("dnp3", "master", station.address, "scan", "class-1", "class-2", "class-3").stdout
        assert "analog 3 42" in events and "event" in events, events
        tieline("config", "check", tmp_path / "proposed" / "devices.toml")


def test_no_outstation_is_no_outstation(tmp_path):
    with OurOutstation(tmp_path) as station:
        address = station.address
        assert outstations(address, "--outstations", "3,4") == []
    assert outstations(address) == []


def test_broadcasts_of_bacnet_go_out_at_their_pace():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as everybody:
        everybody.bind(("", 0))
        everybody.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        everybody.settimeout(20)
        port = everybody.getsockname()[1]
        arrived = []

        def hear():
            while len(arrived) < 12:
                # When it came says the system: this thread may be late.
                datagram, [(_, _, at)], *_ = everybody.recvmsg(100, 100)
                seconds, nanoseconds = struct.unpack("ll", at)
                arrived.append((seconds + nanoseconds / 1e9, datagram))

        hearing = threading.Thread(target=hear)
        hearing.start()
        assert devices_of("--broadcast", f"127.255.255.255:{port}", "--instances", "0-119", "--width", "10") == {}
        hearing.join()
    # BVLC original broadcast, NPDU to all networks, Who-Is from 0 to 9.
    assert arrived[0][1].hex() == "810b00100120ffff00ff100809001909", arrived[0][1].hex()
    times = [at for at, _ in arrived]
    assert times[10] - times[0] > 0.9, times
