"""The demonstration building: a node collects from it and commands it, and other implementations find in it what a node finds."""

import asyncio
import json
import tomllib

import pytest
from bacpypes3.ipv4.app import NormalApplication
from bacpypes3.local.device import DeviceObject
from bacpypes3.pdu import Address
from bacpypes3.primitivedata import Null, ObjectIdentifier
from bacpypes3.service.cov import ChangeOfValueServices
from node import Node, tieline
from peers.ports import free_port
from pymodbus.client import ModbusTcpClient
from sunspec2.modbus.client import SunSpecModbusClientDeviceTCP
from waiting import until

DEVICES = 13


class Client(NormalApplication, ChangeOfValueServices):
    """A BACnet client of BACpypes3."""


class Building(Node):
    """A node with the demonstration building."""

    WORDS = ("--demo", "building")

    def files(self):
        """What the demonstration has written for the node."""
        return tomllib.loads((self.data / "demo" / "tieline.toml").read_text())

    def place(self, name):
        """Where a device of it is, and its instance or unit."""
        files = self.files()
        device = files["device"][name]
        address = device["address"] if "address" in device else files["channel"][device["channel"]]["address"]
        return address, device.get("bacnet", {}).get("instance") or device["modbus"]["unit"]

    def topics(self, topic_filter):
        """The last values of topics that have a quality."""
        lines = tieline("topics", topic_filter, "--json", "--http", self.http).stdout.splitlines()
        found = {line["topic"]: line["value"] for line in map(json.loads, lines)}
        return {topic: value for topic, value in found.items() if isinstance(value, dict) and "q" in value}

    def value(self, topic):
        found = self.get(topic)
        return found and found.get("v")


@pytest.fixture
def building(tmp_path):
    with Building(tmp_path) as node:
        yield node


def online(node):
    devices = node.request("/v1/devices")[1]
    devices = devices["devices"] if isinstance(devices, dict) else devices
    return len(devices) == DEVICES and all(device["state"] == "online" for device in devices)


def test_every_device_is_good_and_its_values_move(building):
    until(lambda: online(building), lambda: building.request("/v1/devices")[1])
    # A device is online before each of its points was read.
    is_good = lambda points: len(points) >= 136 and {value["q"] for value in points.values()} == {"good"}
    points = until(lambda: is_good(found := building.topics("demo/#")) and found, lambda: building.topics("demo/#"))
    for topic in ["floor1/ahu/outdoor/temperature", "floor1/meter/energy", "main/meter/power", "roof/pv1/energy", "floor2/room203/temperature"]:
        topic, before = f"demo/{topic}", points[f"demo/{topic}"]["v"]
        until(lambda topic=topic, before=before: building.value(topic) != before, topic, 30)


def test_a_room_follows_its_set_point_and_an_inverter_its_limit(building):
    room, pv = "demo/floor1/room101", "demo/roof/pv1"
    before = until(lambda: building.value(f"{room}/temperature"), building.process.said)
    assert building.command(f"{room}/setpoint", before + 3)["status"] == "success"
    building.wait_value(f"{room}/setpoint", q="good", v=pytest.approx(before + 3, abs=0.01))
    # A minute of the building passes in a second.
    until(lambda: building.value(f"{room}/temperature") > before + 1.5, lambda: building.value(f"{room}/temperature"), 60)
    until(lambda: (building.value(f"{pv}/power") or 0) > 4, lambda: building.get(f"{pv}/power"))
    done = tieline("command", f"{pv}/limit", "10", "--http", building.http)
    assert "confirmed by a reading: 10.0" in done.stdout, done
    until(lambda: building.value(f"{pv}/power") == 3.0 and building.value(f"{pv}/operating_state") == 5, lambda: building.get(f"{pv}/power"))
    assert building.command("demo/floor2/ahu/fan/command", False)["status"] == "success"
    building.wait_value("demo/floor2/ahu/fan/status", v=False, q="good")
    building.wait_value("demo/floor2/ahu/mode", v=1, q="good")
    assert building.command("demo/main/meter/charging", False)["status"] == "success"
    building.wait_value("demo/main/meter/charging", v=False, q="good")
    refused = building.command(f"{room}/setpoint", 40)
    assert refused["reason"] == "out_of_range", refused


def test_discovery_finds_meters_and_inverters(building, tmp_path):
    meters, inverter = building.place("main-meter")[0], building.place("roof-pv2")[0]
    found = [json.loads(line) for line in tieline("discover", "modbus", meters, "--units", "1-4", "--json").stdout.splitlines()]
    assert [(device["unit"], device["manufacturer"]) for device in found] == [(unit, "Tieline") for unit in (1, 2, 3)], found
    out = tmp_path / "proposed"
    [device] = [json.loads(line) for line in tieline("discover", "sunspec", inverter, "--out", out, "--json").stdout.splitlines()]
    assert (device["model"], device["serial"]) == ("Demo PV 20 kW", "PV0002"), device
    assert device["sunspec_models"] == [1, 103, 120, 123, 160]
    tieline("config", "check", out / "devices.toml")


async def with_bacpypes3(work):
    """Runs work with an application of BACpypes3 on a free port, and ends the application."""
    address = Address(f"127.0.0.1:{free_port()}")
    client = Client(DeviceObject(objectIdentifier="device,999", objectName="peer"), address)
    try:
        return await asyncio.wait_for(work(client), 60)
    finally:
        client.close()


def test_bacpypes3_reads_and_commands_rooms_and_air_handlers(building):
    (room, room_instance), (ahu, ahu_instance) = building.place("floor1-room102"), building.place("floor2-ahu")

    async def work(client):
        for address, instance, objects in [(room, room_instance, 6), (ahu, ahu_instance, 13)]:
            [i_am] = await client.who_is(instance, instance, Address(address))
            assert i_am.iAmDeviceIdentifier == ObjectIdentifier(f"device,{instance}")
            listed = await client.read_property(Address(address), ObjectIdentifier(f"device,{instance}"), "object-list")
            assert len(listed) == objects + 1, listed
            for found in listed[1:]:
                answer = await client.read_property_multiple(
                    Address(address), [found, ["object-name", "present-value", "status-flags", "property-list"]]
                )
                values = {str(name): value for _, name, _, value in answer}
                assert len(values) == 4 and values["object-name"], answer
        setpoint, damper = ObjectIdentifier("analog-value,1"), ObjectIdentifier("analog-output,1")
        read = lambda what, name="present-value": client.read_property(Address(room), what, name)
        # Where the controller has it moves; a command at a priority stands, until it is relinquished.
        for priority, value in [(10, 24.5), (8, 18.0)]:
            await client.write_property(Address(room), setpoint, "present-value", value, None, priority)
            assert await read(setpoint) == value
        priorities = await read(setpoint, "priority-array")
        assert [number for number in range(1, 17) if priorities[number - 1].null is None] == [8, 10]
        for priority, value in [(8, 24.5), (10, 22.0)]:
            await client.write_property(Address(room), setpoint, "present-value", Null(()), None, priority)
            assert await read(setpoint) == value
        refused = await outcome(client.write_property(Address(room), setpoint, "present-value", 50.0, None, 8))
        assert "value-out-of-range" in str(refused), refused
        await client.write_property(Address(room), damper, "present-value", 90.0, None, 8)
        async with client.change_of_value(Address(room), damper, lifetime=60) as changes:
            told = {}
            while len(told) < 2:
                name, value = await changes.get_value()
                told[str(name)] = value
            assert told["present-value"] == 90.0, told
            await client.write_property(Address(room), damper, "present-value", Null(()), None, 8)
            while True:
                name, value = await changes.get_value()
                if str(name) == "present-value":
                    # The controller's own, which depends on the time of the building.
                    assert value != 90.0
                    break

    asyncio.run(with_bacpypes3(work))
    # What another client has commanded the node shows.
    building.wait_value("demo/floor1/room102/setpoint", v=22.0, q="good")


async def outcome(call):
    """What a call gives, or the error that it raises."""
    try:
        return await call
    except BaseException as error:  # BACpypes3 raises errors that are no exceptions of Python's kind
        return error


def test_pymodbus_reads_and_resets_meters(building):
    address, main = building.place("main-meter")
    host, port = address.rsplit(":", 1)
    with ModbusTcpClient(host, port=int(port)) as client:
        for unit in (1, 2, main):
            found = client.read_input_registers(0, count=20, device_id=unit)
            assert not found.isError(), found
            volts, amps, hertz = found.registers[:3], found.registers[3:6], found.registers[11]
            assert all(2200 < number < 2400 for number in volts) and all(amps) and 4950 < hertz < 5050, found.registers
        kinds = client.DATATYPE
        energy = client.convert_from_registers(found.registers[12:14], kinds.UINT32)
        power = client.convert_from_registers(found.registers[6:8], kinds.INT32)
        assert energy >= 92_000_000 and abs(power) < 60_000
        coils = client.read_coils(0, count=2, device_id=main)
        assert coils.bits[:2] == [False, True], coils
        assert not client.write_coil(0, True, device_id=main).isError()
        until(lambda: client.read_coils(0, count=1, device_id=main).bits[0] is False, "the reset is over")
        # What is not there, and who is not there.
        assert client.read_input_registers(19, count=2, device_id=1).exception_code == 2
        assert client.write_coil(1, False, device_id=1).exception_code == 2
        assert client.read_input_registers(0, count=1, device_id=9).exception_code == 10


def test_pysunspec2_reads_and_limits_inverters(building):
    address, unit = building.place("roof-pv1")
    host, port = address.rsplit(":", 1)
    device = SunSpecModbusClientDeviceTCP(slave_id=unit, ipaddr=host, ipport=int(port), timeout=10)
    try:
        device.scan()
        assert [model for model in device.models if isinstance(model, int)] == [1, 103, 120, 123, 160], device.models
        common, inverter, nameplate = device.common[0], device.models[103][0], device.models[120][0]
        assert (common.Mn.value, common.Md.value, common.SN.value) == ("Tieline", "Demo PV 30 kW", "PV0001")
        assert (nameplate.DERTyp.value, nameplate.WRtg.cvalue) == (4, 30_000)
        power = until(lambda: inverter.read() or inverter.W.cvalue > 4000 and inverter.W.cvalue, lambda: inverter.W.cvalue)
        assert inverter.Hz.cvalue == pytest.approx(50, abs=0.1) and inverter.PhVphA.cvalue == pytest.approx(231, abs=5)
        assert inverter.A.cvalue == pytest.approx(power / 231, rel=0.05) and inverter.St.value == 4
        assert inverter.WH.cvalue >= 41_000_000 and inverter.TmpTrns.cvalue is None
        strings = device.models[160][0]
        strings.read()
        assert strings.N.value == 2 and [module.IDStr.value for module in strings.module] == ["String 1", "String 2"]
        assert sum(module.DCW.cvalue for module in strings.module) == pytest.approx(inverter.DCW.cvalue, rel=0.1)
        controls = device.models[123][0]
        controls.WMaxLimPct.cvalue = 12.5
        controls.WMaxLim_Ena.value = 1
        controls.write()
        until(lambda: inverter.read() or inverter.W.cvalue == 3750, lambda: inverter.W.cvalue)
        controls.read()
        assert (controls.WMaxLimPct.cvalue, controls.Conn.value, controls.WMaxLimPct_RvrtTms.value) == (12.5, 1, None)
        controls.Conn.value = 0
        controls.write()
        until(lambda: inverter.read() or (inverter.W.cvalue, inverter.St.value) == (0, 1), lambda: inverter.St.value)
    finally:
        device.close()
    building.wait_value("demo/roof/pv1/limit", v=12.5, q="good")
    building.wait_value("demo/roof/pv1/connected", v=False, q="good")
