"""The masters of real captures, played at our outstation: it answers what must be answered, and is well after each."""

import json
import os
import socket
import struct
from pathlib import Path

import pytest
from carriers import Capture
from dissection import tshark
from link import frame, take_frames
from node import BINARY, OurOutstation, tieline
from processes import Lines

FOLDER = Path(os.environ.get("TIELINE_SHARED", Path(__file__).parents[2] / "shared")) / "data/dnp3/captures"
FILES = sorted(FOLDER.glob("*.pcap")) if FOLDER.is_dir() else []
PORTS = (20000, 20001)
NAMES = {
    0: "confirm",
    1: "read",
    2: "write",
    3: "select",
    4: "operate",
    5: "direct-operate",
    6: "direct-operate-no-response",
    7: "freeze",
    13: "cold-restart",
    14: "warm-restart",
    20: "enable-unsolicited",
    21: "disable-unsolicited",
    22: "assign-class",
    23: "delay-measure",
    24: "record-time",
    25: "open-file",
    26: "close-file",
    27: "delete-file",
    32: "authentication",
}
UNANSWERED = (0, 6, 8, 10, 12, 33)
CONTROLS = (3, 4, 5)
# What each master asks, and the indications of our answer as two bytes: 80 in the first says that we started; in the second
# 01 stands for a function, 02 for objects, and 04 for parameters that we do not know. Of controls also the status, 0 for
# success. Bits that tell of events are left out: they depend on what was operated before.
SEEN = {
    "assign_class": ["assign-class 80 00"],
    "auth_change_session_keys": ["authentication 80 01", "authentication 80 01"],
    "auth_control_challenge_response": ["direct-operate 80 00 status 0", "authentication 80 01"],
    "cold_restart_and_response": ["cold-restart 80 00"],
    "dataset_exchange": ["read 80 02", "read 80 02", "read 80 02"],
    "direct_operate_analog_output": ["direct-operate 80 00 status 0"],
    "direct_operate_no_ack_crob": ["direct-operate-no-response"],
    "directoperate_and_response": ["direct-operate 80 00 status 0"],
    "disable_unsolcited_and_response": ["disable-unsolicited 80 00"],
    "enable_unsolicited_and_response": ["enable-unsolicited 80 00"],
    "file_delete": ["delete-file 80 00"],
    "file_read": ["open-file 80 00", "read 80 00", "close-file 80 00"],
    "file_write": ["open-file 80 00", "write 80 00", "close-file 80 00"],
    "immediate_freeze": ["freeze 80 00"],
    "lan_time_sync": ["record-time 80 00", "write 80 00"],
    "operate_aggressive_mode": ["direct-operate 80 02"],
    "read_and_response": ["read 80 00"],
    "select_operate_and_responses": ["select 80 00 status 0", "operate 80 00 status 0"],
    "serial_time_sync": ["delay-measure 80 00", "write 80 00"],
    "warm_restart_and_response": ["warm-restart 80 00"],
    "write_binary_output": ["write 80 02"],
    "write_iin_and_response": ["write 00 00"],
    "write_vto_empty_string": ["write 80 02"],
    "zeek-dnp3_del_measure": ["delay-measure 80 00"],
    "zeek-dnp3_en_spon": ["enable-unsolicited 80 00"],
    "zeek-dnp3_file_del": ["delete-file 80 00"],
    "zeek-dnp3_file_read": ["open-file 80 00", "read 80 00", "confirm", "write 80 00", "write 80 00", "close-file 80 00"],
    "zeek-dnp3_file_write": ["open-file 80 00", "write 80 00", "close-file 80 00"],
    "zeek-dnp3_read": ["read 80 00"],
    "zeek-dnp3_read_p20001": ["read 80 00"],
    "zeek-dnp3_rec_time": ["record-time 80 00"],
    "zeek-dnp3_select_operate": ["select 80 00 status 0", "operate 80 00 status 0"],
    "zeek-dnp3_udp_en_spon": ["enable-unsolicited 80 00", "link status"],
    "zeek-dnp3_udp_select_operate": ["select 80 00 status 0", "operate 80 00 status 0", "read 80 00", "link status"],
    "zeek-dnp3_udp_write": ["write 00 00"],
    "zeek-dnp3_write": ["write 80 00"],
}


def segments(path):
    """(transport, source port, destination port, TCP sequence, payload) of each packet of a capture of Ethernet and IPv4."""
    data = path.read_bytes()
    order = "<" if data[:4] == b"\xd4\xc3\xb2\xa1" else ">"
    assert struct.unpack(order + "I", data[20:24]) == (1,), f"{path}: Ethernet is expected"
    at = 24
    while at < len(data):
        length = struct.unpack(order + "I", data[at + 8 : at + 12])[0]
        ip, at = data[at + 30 : at + 16 + length], at + 16 + length
        header, total, protocol = (ip[0] & 15) * 4, struct.unpack("!H", ip[2:4])[0], ip[9]
        inner = ip[header:total]
        source, target = struct.unpack("!HH", inner[:4])
        if protocol == 6:
            yield "tcp", source, target, struct.unpack("!I", inner[4:8])[0], inner[(inner[12] >> 4) * 4 :]
        elif protocol == 17:
            yield "udp", source, target, None, inner[8:]


def master_of(path):
    """The transport, and what the master sent: a list of its fragments and link frames, each as frames that go together."""
    transport, buffer, known = None, bytearray(), set()
    for transport_of, _, target, sequence, payload in segments(path):
        again = sequence is not None and sequence in known
        if target in PORTS and payload and not again:
            transport = transport_of
            known.add(sequence)
            buffer += payload
    units, part = [], []
    for one in take_frames(buffer):
        assert one.control & 0x80, "a master sets DIR"
        part.append(one)
        # The last segment of a fragment, or a frame of the link layer alone.
        if not one.user or one.user[0] & 0x80:
            units.append(part)
            part = []
    assert not buffer and not part, f"{path}: ends within a fragment"
    return transport, units


class Master:
    """A recorded master at our outstation."""

    def __init__(self, address, transport, record):
        kind = socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM
        self.socket = socket.socket(socket.AF_INET, kind)
        self.socket.settimeout(10)
        host, port = address.rsplit(":", 1)
        self.socket.connect((host, int(port)))
        self.buffer, self.record, self.segments = bytearray(), record, b""

    def send(self, frames):
        for one in frames:
            self.record.datagram(1, 20000, one)
        self.socket.sendall(b"".join(frames))

    def read(self):
        """The next frames of the outstation."""
        while True:
            found = take_frames(self.buffer)
            if found:
                for one in found:
                    self.record.datagram(20000, 1, one.data)
                return found
            data = self.socket.recv(65536)
            assert data, "the outstation closed the connection"
            self.buffer += data

    def answer(self, addresses, sequence):
        """The first fragment of the answer to a request, confirmed where it asks for that; unsolicited ones are left."""
        outstation, master = addresses
        while True:
            for one in self.read():
                assert (one.destination, one.source) == (master, outstation), one.data.hex()
                assert one.control == 0x44, f"unconfirmed user data of an outstation, found {one.control:02x}"
                if one.user[0] & 0x40:
                    self.segments = b""
                self.segments += one.user[1:]
                if not one.user[0] & 0x80:
                    continue
                control, function = self.segments[:2]
                if function == 130:
                    continue
                assert function == 129 and control & 0x90 == 0x80, self.segments.hex()
                assert control & 0x0F == sequence, f"sequence {control & 15} answers {sequence}"
                return self.segments

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def played(unit, handles):
    """The frames of a unit; where they name a file that was opened in the capture, they name the one that we opened."""
    whole = b"".join(one.user[1:] for one in unit)
    for recorded, ours in handles.items():
        if recorded in whole and unit[0].user:
            fragment, first = whole.replace(recorded, ours), unit[0]
            pieces = [fragment[at : at + 249] for at in range(0, len(fragment), 249)]
            ends = [0x40 * (at == 0) | 0x80 * (at + 1 == len(pieces)) for at in range(len(pieces))]
            users = [bytes([end | at]) + piece for at, (end, piece) in enumerate(zip(ends, pieces))]
            return [frame(0xC4, first.destination, first.source, user) for user in users]
    return [one.data for one in unit]


def seen_of(function, answer):
    text = f"{NAMES[function]} {answer[2] & 0xF0:02x} {answer[3]:02x}"
    return f"{text} status {answer[-1]}" if function in CONTROLS and len(answer) > 4 else text


# A file that masters write, and one that they delete.
DEEP = "C:/temp/DNPDeviceConfiguration written to Remote Device.xml"


def check_files(name, files):
    """What the masters of files left behind."""
    if "file_del" in name:
        gone = "helloworld.txt" if name == "file_delete" else DEEP
        assert not (files / gone).exists()
    if name == "file_write":
        assert (files / "helloworld.txt").read_text() == "hi there "
    if name == "zeek-dnp3_file_write":
        written = (files / DEEP).read_text("utf-8-sig")
        assert len(written) > 800 and written.startswith("<?xml"), written


class Station(OurOutstation):
    """Our outstation with the addresses of a capture, over its transport, with a folder of files."""

    def __init__(self, folder, addresses, transport):
        self.files = files = folder / "files"
        (files / "C:" / "temp").mkdir(parents=True)
        for name in ("testfile.txt", "helloworld.txt", "test.xml", DEEP):
            (files / name).write_text("This is a test file")
        config = self.CONFIG.replace("address = 10", f"address = {addresses[0]}")
        config = config.replace("master = 1", f"master = {addresses[1]}")
        file = folder / "outstation.toml"
        file.write_text(config + f'[files]\nroot = "{files}"\nwritable = true\n')
        self.over = ["--over", transport]
        command = [BINARY, "dnp3", "outstation", "--listen", "127.0.0.1:0", "--config", file, "--json", *self.over]
        Lines.__init__(self, command)
        self.address, self._answered = self.first()["listen"], 0

    def check_health(self, addresses, transport, record):
        """It runs, says nothing of a fault, answers the link layer and reads."""
        assert self.process.poll() is None, self.said()
        outstation, master = addresses
        with Master(self.address, transport, record) as asking:
            asking.send([frame(0xC9, outstation, master)])
            answer = frame(0x0B, master, outstation)
            # It may tell of its start before.
            assert any(answer in [one.data for one in asking.read()] for _ in range(3))
        words = ["--master", master, "--outstation", outstation, *self.over]
        scan = tieline("dnp3", "master", self.address, *words, "scan").stdout
        assert "binary 0 " in scan and "analog 9 " in scan, scan
        faults = [line for line in self.errors if "panicked" in line or '"level":"ERROR"' in line]
        assert not faults and self.process.poll() is None, faults


@pytest.mark.skipif(not FILES, reason="no captures: ../shared/data/dnp3/captures is absent")
@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_answers(path, tmp_path):
    transport, units = master_of(path)
    addresses = units[0][0].destination, units[0][0].source
    record = Capture(tmp_path / "played.pcap")
    handles, seen = {}, []
    with Station(tmp_path, addresses, transport) as station:
        with Master(station.address, transport, record) as master:
            for unit in units:
                master.send(played(unit, handles))
                request = b"".join(one.user[1:] for one in unit)
                if not request or request[1] in UNANSWERED:
                    seen.append(NAMES[request[1]] if request else "link status")
                    continue
                answer = master.answer(addresses, request[0] & 0x0F)
                seen.append(seen_of(request[1], answer))
                if request[1] == 25 and answer[4:6] == b"\x46\x04":
                    handles[b"\x78\x56\x34\x12"] = answer[10:14]
        station.check_health(addresses, transport, record)
    check_files(path.stem, tmp_path / "files")
    assert seen == SEEN.get(path.stem), f"{path.stem}: {seen}"
    check_record(tmp_path / "played.pcap")


def check_record(path):
    """All that was said decodes, by us and by tshark; what a master said need not."""
    frames = [json.loads(line) for line in tieline("dnp3", "decode", path, "--json").stdout.splitlines()]
    ours = [one for one in frames if one["source"].endswith(":20000")]
    assert ours and not [one for one in ours if one["refused"]], frames
    decode = ["-d", "udp.port==20000,dnp3", "-Y", "udp.srcport == 20000 && _ws.malformed", "-T", "fields"]
    assert not tshark(path, *decode, "-e", "frame.number").split(), tshark(path, "-d", decode[1], "-V")
