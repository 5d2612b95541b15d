"""A thousand programs are killed while each holds a device: nothing is left commanded, and nothing is commanded twice."""

import pytest
from modbus import ModbusDevice
from processes import Peer
from waiting import until

DEVICES, KILLS = 250, 4


class Valve(ModbusDevice):
    """A device with one register of a server of pymodbus."""

    COLUMNS = [*ModbusDevice.COLUMNS, "revert"]

    def __init__(self, number, address):
        point = ("position", "holding-register", number, {"writable": "true", "revert": "previous"})
        super().__init__(f"valve-{number}", address, [point], poll="1s", stale_after_missed=1000)


@pytest.fixture
def server():
    with Peer("pymodbus_server", "--units", "1") as peer:
        yield peer


def writes(server):
    """What was written to each register, in order."""
    written = [[] for _ in range(DEVICES)]
    for write in server.objects("write"):
        written[write["address"]].append(write["values"][0])
    return written


def test_a_thousand_holders_are_killed(server, start_node):
    valves = [Valve(number, server.address) for number in range(DEVICES)]
    node = start_node(*valves)
    for valve in valves:
        node.wait_value(valve.point("position"), v=0, q="good")
    for kill in range(KILLS):
        value, topic = 1000 + kill, valves[0].topic.replace("-0", "-{}")
        with Peer("holders", f"127.0.0.1:{node.mqtt_port}", topic, "position", str(value), str(DEVICES)) as holders:
            done = lambda: len(holders.objects("held")) + len(holders.objects("failed")) == DEVICES
            until(done, holders.said, 60)
            assert not holders.objects("failed"), holders.said()
            holders.kill()
        before = [value for earlier in range(kill) for value in (1000 + earlier, 0)]
        expect = [[*before, value, 0]] * DEVICES
        until(lambda: sum(map(len, writes(server))) >= sum(map(len, expect)), lambda: f"{writes(server)}", 60)
        assert writes(server) == expect
        for valve in valves:
            node.wait_value(valve.point("position"), v=0, q="good")
    assert node.request("/v1/reservations")[1]["reservations"] == []
