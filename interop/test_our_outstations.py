"""Several outstations of ours behind one port, told apart by their link addresses."""

import json
import re
import subprocess

import pytest
from carriers import Line, Passing, Serial
from node import BINARY, OurOutstation, tieline
from processes import Lines, Peer
from test_transports import OurMaster, ends
from waiting import until

MASTERS = ["opendnp3_master", "dnp3py_master"]


class OurOutstations(OurOutstation):
    """`tieline dnp3 outstation` with the same database at each of the link addresses."""

    def __init__(self, folder, *flags, addresses=(11, 12), config=OurOutstation.CONFIG):
        (folder / "relay.toml").write_text(config)
        file = folder / "port.toml"
        tables = [f'[[outstation]]\nconfig = "relay.toml"\naddress = {address}\n' for address in addresses]
        file.write_text("\n".join(tables))
        Lines.__init__(self, [BINARY, "dnp3", "outstation", "--config", file, "--json", *flags])
        self.address = self.first().get("listen")
        self._answered = 0

    def told(self, **wanted):
        all_told = [json.loads(line) for line in list(self.errors) if line.startswith("{")]
        return [one for one in all_told if all(one.get(key) == value for key, value in wanted.items())]


def listening(folder):
    return OurOutstations(folder, "--listen", "127.0.0.1:0")


@pytest.mark.parametrize("peer", MASTERS)
def test_foreign_masters_read_two(peer, tmp_path):
    with (
        listening(tmp_path) as device,
        Peer(peer, device.address, "--outstation", "11") as first,
        Peer(peer, device.address, "--outstation", "12") as second,
    ):
        device.do("outstation 11 update analog 3 11.5")
        device.do("outstation 12 update analog 3 12.5")
        for master, value in ((first, 11.5), (second, 12.5)):
            master.do("integrity")
            master.wait_reading(type="analog", index=3, value=value)
        assert not first.readings(type="analog", index=3, value=12.5)
        # Events too are each outstation's own.
        device.do("outstation 12 update binary 5 true")
        second.do("events")
        second.wait_reading(type="binary", index=5, value=True)
        first.do("events")
        device.do("outstation 11 update binary 6 true")
        first.do("events")
        first.wait_reading(type="binary", index=6, value=True)
        assert not first.readings(type="binary", index=5, value=True)


@pytest.mark.parametrize("kind", ["tcp", "tls", "udp"])
def test_our_master_over_every_transport(kind, tmp_path):
    centre_flags, device_flags = ends(kind, tmp_path)
    with OurOutstations(tmp_path, "--listen", "127.0.0.1:0", *device_flags) as device:
        for address in (11, 12):
            with OurMaster(device.address, *centre_flags, "--outstation", str(address)) as centre:
                centre.wait_reading(type="analog", index=3, value=0)
                device.do(f"outstation {address} update analog 3 {address}.5")
                centre.wait_reading(type="analog", index=3, value=address + 0.5, unsolicited=True)
        until(lambda: device.told(event="restart-cleared", outstation=12), device.said)


def test_a_line_with_two_drops(tmp_path):
    near, far = Serial(tmp_path), Serial(tmp_path)
    Passing(Line(near.far), Line(far.far))
    with OurOutstations(tmp_path, "--connect", far.path, *far.flags):
        for address in ("11", "12"):
            done = tieline("dnp3", "master", near.path, *near.flags, "--outstation", address, "scan", "g1v2:3", "--json")
            assert '"index":3' in done.stdout, done


def test_outstations_connect_to_their_master(tmp_path):
    with OurMaster("127.0.0.1:0", "--listen", "--outstation", "12") as centre:
        with OurOutstations(tmp_path, "--connect", centre.wait_listening()) as device:
            centre.wait_reading(type="analog", index=3, value=0)
            device.do("outstation 12 update analog 3 12.5")
            centre.wait_reading(type="analog", index=3, value=12.5, unsolicited=True)


def test_several_masters_of_one_of_them_over_datagrams(tmp_path):
    config = OurOutstation.CONFIG.replace("master = 1\n", "") + "\n[[master]]\naddress = 1\n[[master]]\naddress = 2\n"
    device = OurOutstations(tmp_path, "--listen", "127.0.0.1:0", "--over", "udp", config=config)
    with device, OurMaster(device.address, "--over", "udp", "--outstation", "11") as first:
        with OurMaster(device.address, "--over", "udp", "--outstation", "11", "--master", "2") as second:
            for centre in (first, second):
                centre.wait_reading(type="analog", index=3, value=0)
            device.do("outstation 11 update analog 3 12.5")
            for centre in (first, second):
                centre.wait_reading(type="analog", index=3, value=12.5, event=True)


def test_lines_name_their_outstation(tmp_path):
    with listening(tmp_path) as device:
        assert "several outstations" in device.ask("update analog 3 1")
        assert device.ask("outstation 13 update analog 3 1") == "error: there is no outstation 13"
        assert "its link address" in device.ask("outstation relay update analog 3 1")
        device.do("outstation 12 local on")
        tieline("dnp3", "master", device.address, "--outstation", "11", "operate", "binary-output:2=true")
        words = ["dnp3", "master", device.address, "--outstation", "12", "operate", "binary-output:2=true"]
        assert "local" in tieline(*words, check=False).stdout
        assert device.told(event="operated", outstation=11, status="success", master=1)


def test_what_only_one_outstation_may_have_is_refused(tmp_path):
    (tmp_path / "relay.toml").write_text(OurOutstation.CONFIG)
    command = [BINARY, "dnp3", "outstation", "--config", tmp_path / "relay.toml", "--config", tmp_path / "relay.toml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and re.search("address: found 10 a second time", done.stderr), done


def test_strangers_are_not_heard_by_default(tmp_path):
    (tmp_path / "relay.toml").write_text(OurOutstation.CONFIG)
    command = [BINARY, "dnp3", "outstation", "--config", tmp_path / "relay.toml", "--listen", "0.0.0.0:0", "--over", "udp"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode != 0 and "--udp-remote" in done.stderr, done
