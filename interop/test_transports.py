"""Every transport, in both roles, against foreign masters and outstations, and against ourselves."""

import json
import re
import socket
import ssl
import subprocess

import pytest
from carriers import Gateway, Line, Passing, Serial, Tls, Udp, accepting, certificate
from dissection import tshark
from node import BINARY, Device, OurOutstation
from processes import Lines, Peer
from waiting import until

CARRIERS = [Tls, Udp, Serial]
OUTSTATIONS = ["opendnp3_outstation", "dnp3py_outstation"]
MASTERS = ["opendnp3_master", "dnp3py_master"]


class OurMaster(Lines):
    """`tieline dnp3 master`, following."""

    def __init__(self, address, *flags):
        super().__init__([BINARY, "dnp3", "master", address, *flags, "--poll", "200ms", "--json"])

    def wait_reading(self, **wanted):
        def found():
            return [one for one in map(json.loads, list(self.lines)) if all(one.get(k) == v for k, v in wanted.items())]

        return until(found, lambda: f"{wanted}\n{self.said()}", 20)[-1]

    def wait_listening(self):
        """The address at which it listens."""
        pattern = re.compile("listening on (.*)")
        found = until(lambda: [m for m in map(pattern.search, list(self.errors)) if m], self.said, 20)
        return found[0].group(1)


class Ours(OurOutstation):
    """`tieline dnp3 outstation` with other flags."""

    def __init__(self, folder, *flags):
        file = folder / "outstation.toml"
        file.write_text(self.CONFIG)
        Lines.__init__(self, [BINARY, "dnp3", "outstation", "--config", file, "--json", *flags])
        self.address = self.first().get("listen")
        self._answered = 0


@pytest.mark.parametrize("peer", OUTSTATIONS)
@pytest.mark.parametrize("carrier", CARRIERS)
def test_our_master(carrier, peer, tmp_path):
    way = carrier(tmp_path)
    with Peer(peer) as device, OurMaster(way.to_outstation(device.address), *way.flags) as centre:
        centre.wait_reading(type="analog", index=3)
        device.do("update binary 4 true")
        centre.wait_reading(type="binary", index=4, value=True, event=True)
        # One of the peers gives whole numbers only.
        device.do("update analog 3 12")
        centre.wait_reading(type="analog", index=3, value=12, event=True)


@pytest.mark.parametrize("peer", MASTERS)
@pytest.mark.parametrize("carrier", CARRIERS)
def test_our_outstation(carrier, peer, tmp_path):
    way = carrier(tmp_path)
    where = ["--connect", way.path] if carrier is Serial else ["--listen", "127.0.0.1:0"]
    with Ours(tmp_path, *where, *way.flags) as device, Peer(peer, way.to_ours(device.address)) as centre:
        centre.do("integrity")
        centre.wait_reading(type="analog", index=3, value=0)
        device.do("update analog 3 12.5")
        centre.do("events")
        centre.wait_reading(type="analog", index=3, value=12.5)
        # More than one frame and more than one datagram.
        for index in range(10):
            device.do(f"update counter {index} {index + 100}")
        centre.do("integrity")
        centre.wait_reading(type="counter", index=9, value=109)


def trusting(folder, name, other):
    ours, theirs = folder / f"{name}.pem", folder / f"{other}.pem"
    return ["--over", "tls", "--tls-cert", ours, "--tls-key", folder / f"{name}.key", "--tls-pin", theirs]


def ends(kind, folder):
    """The flags of two ends of ours."""
    if kind != "tls":
        return ["--over", kind], ["--over", kind]
    certificate(folder, "centre")
    certificate(folder, "device")
    return trusting(folder, "centre", "device"), trusting(folder, "device", "centre")


@pytest.mark.parametrize("lean", [False, True])
@pytest.mark.parametrize("kind", ["tcp", "tls", "udp"])
def test_master_connects(kind, lean, tmp_path):
    centre_flags, device_flags = ends(kind, tmp_path)
    device = Ours(tmp_path, "--listen", "127.0.0.1:0", *device_flags)
    with device, OurMaster(device.address, *centre_flags, *(["--lean"] if lean else [])) as centre:
        centre.wait_reading(type="analog", index=3, value=0)
        device.do("update analog 3 12.5")
        centre.wait_reading(type="analog", index=3, value=12.5, unsolicited=True)


@pytest.mark.parametrize("kind", ["tcp", "tls", "udp"])
def test_outstation_connects(kind, tmp_path):
    centre_flags, device_flags = ends(kind, tmp_path)
    with OurMaster("127.0.0.1:0", "--listen", *centre_flags) as centre:
        with Ours(tmp_path, "--connect", centre.wait_listening(), *device_flags) as device:
            centre.wait_reading(type="analog", index=3, value=0)
            device.do("update analog 3 12.5")
            centre.wait_reading(type="analog", index=3, value=12.5, unsolicited=True)


def test_serial_line_between_us(tmp_path):
    near, far = Serial(tmp_path), Serial(tmp_path)
    Passing(Line(near.far), Line(far.far))
    with Ours(tmp_path, "--connect", far.path, *far.flags, "--gap", "5ms") as device:
        with OurMaster(near.path, *near.flags, "--gap", "5ms") as centre:
            centre.wait_reading(type="analog", index=3, value=0)
            device.do("update analog 3 12.5")
            centre.wait_reading(type="analog", index=3, value=12.5)
            # The line is ours alone.
            second = subprocess.run(
                [BINARY, "dnp3", "master", near.path, *near.flags, "--once"], capture_output=True, text=True, timeout=30
            )
            assert second.returncode == 1 and ("busy" in second.stderr or "another program" in second.stderr), second


def test_datagrams_are_well_formed(tmp_path):
    way = Udp(tmp_path)
    with Peer("opendnp3_outstation", "--no-intervals") as device:
        with OurMaster(way.to_outstation(device.address), *way.flags) as centre:
            centre.wait_reading(type="analog", index=3)
            device.do("update analog 3 12.5")
            centre.wait_reading(type="analog", index=3, value=12.5, event=True)
    decode = ["-d", f"udp.port=={way.port},dnp3"]
    assert tshark(way.path, *decode, "-Y", "dnp3", "-T", "fields", "-e", "frame.number").split()
    assert not tshark(way.path, *decode, "-Y", "_ws.malformed || _ws.expert.severity >= 8388608", "-V")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_of_tls(version, tmp_path):
    way = Tls(tmp_path)
    with Ours(tmp_path, "--listen", "127.0.0.1:0", *way.flags) as device:
        host, port = device.address.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as connection:
            secured = way.context(server=False, version=version).wrap_socket(connection)
            secured.sendall(bytes.fromhex("056405C90A000100"))
            assert secured.version() == {ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}[version]


def test_old_versions_and_strangers_are_refused(tmp_path):
    way = Tls(tmp_path)
    stranger = certificate(tmp_path, "stranger")
    with Ours(tmp_path, "--listen", "127.0.0.1:0", *way.flags) as device:
        for words, expect in [
            (["-cert", way.theirs[0], "-key", way.theirs[1], "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], "alert"),
            (["-cert", stranger[0], "-key", stranger[1]], "alert"),
            ([], "alert"),
        ]:
            command = ["openssl", "s_client", "-connect", device.address, "-ign_eof", *words]
            done = subprocess.run(command, input="", capture_output=True, text=True, timeout=30)
            assert expect in done.stderr + done.stdout, done
        with OurMaster(way.to_ours(device.address)) as centre:
            centre.wait_reading(type="analog", index=3, value=0)


def test_a_node_over_tls(start_node, tmp_path):
    way = Tls(tmp_path)
    device = Device("relay1", "127.0.0.1:1")
    with Ours(tmp_path, "--listen", "127.0.0.1:0", *trusting(tmp_path, "theirs", "ours")) as outstation:
        device.address = outstation.address
        keys = 'transport = "tls"\ntls = { certificate = "ours.pem", key = "ours.key", pinned = ["theirs.pem"] }\n'
        toml = device.toml().replace('protocol = "dnp3"\n', f'protocol = "dnp3"\n{keys}')
        device.toml = lambda: toml
        node = start_node(device)
        node.wait_state(device, "online")
        outstation.do("update analog 3 12.5")
        node.wait_value(device.point("analog", 3), v=12.5)
        metrics = node.metrics()
        left = float(re.search(r'tieline_tls_certificate_expires_seconds\{file="[^"]*ours.pem".*\} (\S+)', metrics)[1])
        assert 59 * 86400 < left <= 60 * 86400
        assert 'tieline_socket_tls_handshakes_total{column="field"} 1' in metrics
        # Renewed files are taken at the next handshake; what they are is told.
        (tmp_path / "ours.pem").write_text("")
        node.process.process.send_signal(1)
        until(lambda: any("tls:" in one for one in node.health()["detail"]), lambda: str(node.health()), 20)
        node.wait_state(device, "online")
    assert way.name == "tls"


def test_devices_share_a_connection(start_node, tmp_path):
    """Two outstations behind one gateway, which is a router by link address of our own."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, address in zip(folders, (11, 12)):
        folder.mkdir()
    one, other = [
        OurOutstation(folder, OurOutstation.CONFIG.replace("address = 10", f"address = {address}"))
        for folder, address in zip(folders, (11, 12))
    ]
    with one, other:
        gateway = accepting(lambda connection: Gateway(connection, {11: one.address, 12: other.address}))
        devices = [Device("relay1", gateway, outstation=11), Device("relay2", gateway, outstation=12)]
        dead = Device("relay3", gateway, outstation=13)
        for device in (*devices, dead):
            shared = device.toml().replace(f'address = "{gateway}"', 'channel = "far"')
            device.toml = lambda shared=shared: shared
        more = f'[channel.far]\naddress = "{gateway}"\none_at_a_time = true\n'
        node = start_node(*devices, dead, more=more)
        for device in devices:
            node.wait_state(device, "online")
        one.do("update analog 3 11.5")
        other.do("update analog 3 12.5")
        node.wait_value(devices[0].point("analog", 3), v=11.5)
        node.wait_value(devices[1].point("analog", 3), v=12.5)
        assert node.command(devices[1].point("binary-output", 2), True)["status"] == "success"
        node.wait_value(devices[1].point("binary-output", 2), v=True)
        node.wait_state(dead, "away")
        node.wait_state(devices[0], "online")
