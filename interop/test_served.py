"""`tieline modbus server` and `tieline bacnet server`: a node reads what the list says that a device has, and commands it."""

import json
import re
import socket
import time
from pathlib import Path

import pytest
from node import BINARY, Node, tieline
from processes import Lines
from pymodbus.client import ModbusTcpClient
from waiting import until

METER = """name,type,index,format,scale,unit,writable,min,max,value,curve,noise,decimals,description
limit,holding-register,0,u16,0.1,%,true,0,100,50,,,,
power,input-register,0,i32,0.01,kW,,,,,linear(limit 2),,,twice the limit
slow,input-register,2,f32,,kW,,,,0,follow(power 10s),,,
voltage,input-register,4,u16,0.1,V,,,,,sine(230 5 1m),0.2,1,
relay,coil,0,,,,true,,,true,,,,
door,discrete-input,3,,,,,,,,,,,
model,input-register,10,string[8],,,,,,PM-5,,,,
"""
ROOM = """name,type,index,unit,writable,min,max,states,value,curve,noise,decimals
setpoint,analog-value,1,°C,true,15,28,,21,,,
temperature,analog-input,1,°C,,,,,18,follow(setpoint 3s),0.02,2
fan,binary-output,1,,true,,,off/on,true,,,
hot,binary-input,1,,,,,normal/hot,,above(temperature 24 0.5),,
mode,multi-state-value,1,,,,,,2,,,
"""


class Served(Lines):
    """A server of a list on a free port."""

    def __init__(self, folder, protocol, text, *words):
        self.list = folder / f"{protocol}.csv"
        self.list.write_text(text)
        super().__init__([BINARY, protocol, "server", self.list, "--listen", "127.0.0.1:0", *words, "--json"])
        self.address = self.first()["listen"]
        self._answered = 1

    def ask(self, line):
        """Sends one line and returns its answer."""
        self.send(line)
        self._answered += 1
        return until(lambda: len(self.lines) >= self._answered and self.lines[self._answered - 1], self.said)

    def written(self):
        """What clients have written: names and values."""
        said = [json.loads(line) for line in self.errors if line.startswith("{")]
        return [(event["point"], event["value"]) for event in said if event.get("event") == "written"]

    def device(self, more):
        """The table of a node's device that reads it by the same list."""
        protocol = self.list.stem
        return f'[device.served]\ntopic = "test/served"\nprotocol = "{protocol}"\naddress = "{self.address}"\npoints = "{self.list}"\n{more}\n'


def near(value, wanted, within):
    return value is not None and abs(value - wanted) <= within


def test_a_node_reads_a_modbus_server_by_the_same_list(tmp_path):
    with Served(tmp_path, "modbus", METER) as served, Node(tmp_path, more=served.device('poll = { every = "200ms" }')) as node:
        value = lambda name: (node.get(f"test/served/{name}") or {}).get("v")
        node.wait_value("test/served/limit", v=50.0, q="good")
        node.wait_value("test/served/power", v=100.0, q="good")
        node.wait_value("test/served/relay", v=True, q="good")
        node.wait_value("test/served/door", v=False, q="good")
        node.wait_value("test/served/model", v="PM-5", q="good")
        assert 224 < value("voltage") < 236
        assert node.command("test/served/limit", 12.5)["status"] == "success"
        node.wait_value("test/served/power", v=25.0)
        until(lambda: near(value("slow"), 25, 5), lambda: value("slow"), 60)
        assert node.command("test/served/relay", False)["status"] == "success"
        until(lambda: served.written() == [("limit", 12.5), ("relay", False)], served.said)
        assert served.ask("set door on") == "ok"
        node.wait_value("test/served/door", v=True)
        assert served.ask("set power 3") == 'error: the point "power" has a curve, or is a text'
        assert served.ask("st door on").startswith("error: the line is")
        assert served.ask("quit") == "ok"
        assert served.process.wait(10) == 0


def test_the_same_seed_and_start_give_the_same_registers(tmp_path):
    words = ["--seed", "7", "--start", "2026-06-01T06:00:00Z", "--speed", "0.001", "--unit", "1,3"]

    def registers():
        with Served(tmp_path, "modbus", METER, *words) as served:
            host, port = served.address.rsplit(":", 1)
            with ModbusTcpClient(host, port=int(port)) as client:
                assert client.read_input_registers(0, count=1, device_id=2).exception_code == 10
                assert client.write_register(0, 1001, device_id=1).exception_code == 3
                return client.read_input_registers(0, count=14, device_id=3).registers

    assert registers() == registers()


def test_a_node_subscribes_to_a_bacnet_server_by_the_same_list(tmp_path):
    more = 'poll = { every = "1s" }\nbacnet = { instance = 7, cov = true }'
    with Served(tmp_path, "bacnet", ROOM, "--instance", "7") as served, Node(tmp_path, more=served.device(more)) as node:
        value = lambda name: (node.get(f"test/served/{name}") or {}).get("v")
        node.wait_value("test/served/setpoint", v=21.0, q="good")
        node.wait_value("test/served/mode", v=2, q="good")
        node.wait_value("test/served/fan", v=True, q="good")
        assert node.command("test/served/setpoint", 26)["status"] == "success"
        until(lambda: near(value("temperature"), 26, 0.5), lambda: value("temperature"), 60)
        node.wait_value("test/served/hot", v=True)
        assert node.command("test/served/fan", False)["status"] == "success"
        until(lambda: served.written() == [("setpoint", 26.0), ("fan", False)], served.said)
        assert served.ask("set mode 3") == "ok"
        node.wait_value("test/served/mode", v=3)


def test_states_of_a_bacnet_server_are_those_of_its_list(tmp_path):
    (tmp_path / "wrong.csv").write_text("name,type,index,writable,max,value\nstage,multi-state-value,1,true,4,5\n")
    refused = tieline("bacnet", "server", tmp_path / "wrong.csv", "--listen", "127.0.0.1:0", check=False)
    assert refused.returncode == 1, refused
    assert "wrong.csv:2:1: value: found the state 5, expected states from 1 to 4" in refused.stderr, refused.stderr


def test_the_meter_of_the_documents_is_served(tmp_path):
    text = (Path(__file__).parent.parent / "docs/simulated.md").read_text()
    section = text.split("## Serve a simulated device")[1]
    [meter] = re.findall(r"^```csv\n(.*?)^```", section.split("\n## ")[0], re.MULTILINE | re.DOTALL)
    with Served(tmp_path, "modbus", meter, "--start", "2026-06-01T12:00:00Z") as served, Node(tmp_path, more=served.device("")) as node:
        node.wait_value("test/served/voltage", v=230.0, q="good")
        until(lambda: near((node.get("test/served/available") or {}).get("v"), 10, 1), lambda: node.get("test/served/available"))
        assert served.ask("set voltage 212") == "ok"
        node.wait_value("test/served/voltage", v=212.0, q="good", seconds=30)
        assert node.command("test/served/relay", False)["status"] == "success"
        node.wait_value("test/served/goal", v=0, seconds=30)


def faults(folder, *tables, more=""):
    """The words of a server whose device has these faults."""
    path = folder / "faults.toml"
    path.write_text("\n".join([more, *(f"[[faults]]\n{table}" for table in tables)]))
    return ["--faults", path]


ALWAYS = "at = '0s'\nfor = '1d'"


def client(served):
    host, port = served.address.rsplit(":", 1)
    return ModbusTcpClient(host, port=int(port), timeout=3, retries=0)


def test_a_modbus_server_refuses_garbles_and_is_late(tmp_path):
    with Served(tmp_path, "modbus", METER, *faults(tmp_path, f"kind = 'refuse'\n{ALWAYS}")) as served, client(served) as asked:
        assert asked.read_holding_registers(0, count=1).exception_code == 4
        assert asked.write_register(0, 500).exception_code == 4
        assert served.written() == []
    words = faults(tmp_path, f"kind = 'slow'\nby = '400ms'\n{ALWAYS}", more="delay = '100ms'")
    with Served(tmp_path, "modbus", METER, *words) as served, client(served) as asked:
        began = time.monotonic()
        assert asked.read_holding_registers(0, count=1).registers == [500]
        assert time.monotonic() - began >= 0.5
    with Served(tmp_path, "modbus", METER, *faults(tmp_path, f"kind = 'garbage'\n{ALWAYS}")) as served:
        host, port = served.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=10) as asked:
            asked.sendall(bytes.fromhex("0001 0000 0006 01 03 0000 0001"))
            noise = asked.recv(64)
            assert len(noise) == 16 and noise[2:4] != bytes(2), noise


def test_a_modbus_device_that_restarts_begins_again(tmp_path):
    words = faults(tmp_path, "kind = 'restart'\nat = '8s'\nfor = '2s'")
    with Served(tmp_path, "modbus", METER, *words) as served, Node(tmp_path, more=served.device('poll = { every = "200ms" }')) as node:
        node.wait_value("test/served/limit", v=50.0, q="good")
        assert node.command("test/served/limit", 12.5)["status"] == "success"
        node.wait_value("test/served/limit", v=12.5, q="good")
        # Its connection ends, and it takes no other until it is on again, with the values that it begins with.
        node.wait_value("test/served/limit", v=12.5, q="bad", seconds=30)
        node.wait_value("test/served/limit", v=50.0, q="good", seconds=60)


@pytest.mark.parametrize("protocol", ["modbus", "bacnet"])
def test_a_node_loses_a_device_that_does_not_answer(tmp_path, protocol):
    """It answers for a while, and then not: its points are bad, half of the commands are carried out all the same."""
    text, point, start = (METER, "limit", 50.0) if protocol == "modbus" else (ROOM, "setpoint", 21.0)
    keys = "timeout = '300ms'" if protocol == "modbus" else "apdu_timeout = '300ms'\nretries = 0"
    more = f"poll = {{ every = '200ms' }}\n[device.served.{protocol}]\n{keys}"
    words = faults(tmp_path, "kind = 'no_answer'\nat = '6s'\nfor = '1d'")
    with Served(tmp_path, protocol, text, *words) as served, Node(tmp_path, more=served.device(more)) as node:
        node.wait_value(f"test/served/{point}", v=start, q="good")
        node.wait_value(f"test/served/{point}", q="bad", seconds=60)
        until(lambda: node.request("/v1/devices/test/served")[1]["state"] == "away", "away", 30)


def test_a_bacnet_server_refuses_is_late_and_has_bad_values(tmp_path):
    more = 'poll = { every = "200ms" }\nstale_after = "1s"'
    words = faults(tmp_path, "kind = 'refuse'\nat = '6s'\nfor = '1d'", more="delay = '50ms'\ndelay_jitter = '50ms'")
    with Served(tmp_path, "bacnet", ROOM, *words) as served, Node(tmp_path, more=served.device(more)) as node:
        node.wait_value("test/served/setpoint", v=21.0, q="good")
        node.wait_value("test/served/setpoint", v=21.0, q="uncertain", seconds=60)
        refused = node.command("test/served/setpoint", 25)
        assert refused["status"] == "refused" and served.written() == [], refused
    (tmp_path / "2").mkdir()
    words = faults(tmp_path, f"kind = 'bad'\npoints = ['temperature']\n{ALWAYS}")
    with Served(tmp_path, "bacnet", ROOM, *words) as served, Node(tmp_path / "2", more=served.device(more)) as node:
        node.wait_value("test/served/temperature", q="bad")
        node.wait_value("test/served/setpoint", v=21.0, q="good")


@pytest.mark.parametrize(
    ("protocol", "fault", "told"),
    [
        ("modbus", "kind = 'bad'\nat = '1s'", 'faults: found "bad" at a Modbus device, expected another kind'),
        ("bacnet", "kind = 'drift'\nat = '1s'\nby = 1\npoints = ['fan']", "expected names of points that are numbers"),
        ("bacnet", "kind = 'noise'\nat = '1s'", "expected no_answer, refuse, garbage, slow, restart"),
    ],
)
def test_faults_that_a_device_cannot_have_are_told(tmp_path, protocol, fault, told):
    (tmp_path / f"{protocol}.csv").write_text(METER if protocol == "modbus" else ROOM)
    done = tieline(protocol, "server", tmp_path / f"{protocol}.csv", *faults(tmp_path, fault), check=False)
    assert done.returncode == 1 and "faults.toml:" in done.stderr and told in done.stderr, done


@pytest.mark.parametrize(
    ("protocol", "row", "told"),
    [
        ("modbus", "a,coil,0,,rump(1 2 3),,", "modbus.csv:2:1: curve: found"),
        ("modbus", "a,input-register,0,,follow(b 1s),,", "which is no point"),
        ("bacnet", "a,loop,1,,,,", 'bacnet.csv:2:1: type: found "loop", expected an analog, binary or multi-state'),
        ("bacnet", "a,analog-input,1,,,,\nb,analog-input,1,,,,", "bacnet.csv:3:1: index: found analog-input,1 a second time"),
    ],
)
def test_lists_that_cannot_be_served_are_told(tmp_path, protocol, row, told):
    (tmp_path / f"{protocol}.csv").write_text(f"name,type,index,value,curve,noise,decimals\n{row}\n")
    done = tieline(protocol, "server", tmp_path / f"{protocol}.csv", check=False)
    assert done.returncode == 1 and told in done.stderr, done
