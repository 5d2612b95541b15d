"""DNP3 Secure Authentication: our two sides over real sockets, and what tshark says of their bytes."""

import json
import subprocess

from dissection import fields, tshark
from node import BINARY, Device, OurOutstation
from recording import RecordingProxy
from waiting import until

SECURE = """
[secure]
critical = "standard"

[[secure.user]]
number = 1
role = "operator"
update_key = "user1.key"

[[secure.user]]
number = 2
role = "viewer"
update_key = "user2.key"
"""


def keygen(path, *words):
    subprocess.run([BINARY, "dnp3", "keygen", path, *words], check=True, timeout=30)
    return path


def operate(address, *words, mode="select"):
    command = [BINARY, "dnp3", "master", address, "--operate", "binary-output:3=true", "--mode", mode, "--json", *words]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)


def status(done):
    return json.loads(done.stdout)["status"]


def faults(path, port):
    """What tshark finds malformed. It warns of each object of group 120, which version 4 does not know."""
    wrong = "dnp3 && (_ws.malformed || _ws.expert.severity >= 8388608)"
    return tshark(path, "-d", f"tcp.port=={port},dnp3", "-Y", wrong, "-V")


def station(folder):
    keygen(folder / "user1.key")
    keygen(folder / "user2.key", "--bits", "128")
    return OurOutstation(folder, OurOutstation.CONFIG + SECURE)


def test_who_proves_itself_operates_and_nobody_else(tmp_path):
    path = tmp_path / "secure.pcap"
    with station(tmp_path) as device, RecordingProxy(device.address, path) as proxy:
        for mode in ("select", "direct"):
            assert status(operate(proxy.address, "--update-key", tmp_path / "user1.key", mode=mode)) == "success"
        viewer = ("--update-key", tmp_path / "user2.key", "--user", "2")
        assert status(operate(proxy.address, *viewer)) == "not_authorized"
        forged = keygen(tmp_path / "forged.key")
        assert status(operate(proxy.address, "--update-key", forged, mode="direct")) == "authentication_failed"
        assert status(operate(proxy.address, mode="direct")) == "timeout"
        operated = [json.loads(line) for line in device.errors if '"operated"' in line]
        assert [one["status"] for one in operated] == ["success", "success"]
        until(lambda: any("authentication-refused" in line for line in device.errors), "the refusal is told")
        functions = set(fields(path, "dnp3", "dnp3.al.func", proxy.port))
        assert {"3", "4", "5", "32", "129", "131"} <= functions
        assert faults(path, proxy.port) == ""


class SecureDevice(Device):
    """A device that challenges who operates it."""

    def __init__(self, name, address, key):
        super().__init__(name, address)
        self.key = key

    def toml(self):
        return f'{super().toml()}[device.{self.name}.secure]\nupdate_key = "{self.key}"\n'


def test_a_node_operates_a_device_that_challenges_it(tmp_path, start_node):
    path = tmp_path / "node.pcap"
    with station(tmp_path) as outstation, RecordingProxy(outstation.address, path) as proxy:
        device = SecureDevice("relay1", proxy.address, tmp_path / "user1.key")
        node = start_node(device)
        node.wait_state(device, "online")
        for mode in ("select", "direct", "select"):
            assert node.command(device.point("binary-output", 3), True, mode)["status"] == "success"
        outstation.do("update binary 4 true")
        node.wait_value(device.point("binary", 4), v=True)
        assert faults(path, proxy.port) == ""


def test_a_key_that_others_may_read_is_refused(tmp_path):
    key = keygen(tmp_path / "user1.key")
    key.chmod(0o644)
    done = operate("127.0.0.1:1", "--update-key", key)
    assert done.returncode != 0 and "others may read it" in done.stderr
    again = subprocess.run([BINARY, "dnp3", "keygen", key], capture_output=True, text=True, timeout=30)
    assert again.returncode != 0, "an existing key is not overwritten"
