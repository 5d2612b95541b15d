"""File transfer of our two ends, and what tshark says of it."""

import hashlib
import json
import os
import subprocess

import pytest
from carriers import Line, Passing, Serial
from dissection import complaints, fields
from node import BINARY, OurOutstation
from processes import Lines
from recording import RecordingProxy
from test_transports import Ours, ends


def ask(address, verb, *words, code=0):
    # tshark mixes up messages of several segments, which our masters' next sequence numbers repeat: one segment each.
    command = [BINARY, "dnp3", "file", verb, address, *words, "--block", "200"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_files_come_and_go(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root, capture = tmp_path / "root", tmp_path / "files.pcap"
    (root / "sub").mkdir(parents=True)
    (root / "big.bin").write_bytes(os.urandom(60_001))
    for number in range(200):
        (root / "sub" / f"event-{number:05}.cfg").write_text("")
    files = f'[files]\nroot = "{root}"\nwritable = true\n'
    with OurOutstation(tmp_path, OurOutstation.CONFIG + files) as device, RecordingProxy(device.address, capture) as proxy:
        listed = ask(proxy.address, "list", "/sub", "--json").stdout.splitlines()
        assert [json.loads(line)["name"] for line in listed] == [f"event-{n:05}.cfg" for n in range(200)]
        ask(proxy.address, "get", "big.bin")
        assert digest(tmp_path / "big.bin") == digest(root / "big.bin")
        # What is there of it is not read again.
        info = json.loads(ask(proxy.address, "info", "big.bin", "--json").stdout)
        millis = int(round((root / "big.bin").stat().st_mtime_ns // 1_000_000))
        part = tmp_path / f".again.bin.{info['size']}-{millis}.part"
        part.write_bytes((root / "big.bin").read_bytes()[:50_000])
        assert "going on at byte 50000" in ask(proxy.address, "get", "big.bin", "again.bin").stderr
        assert digest(tmp_path / "again.bin") == digest(root / "big.bin") and not part.exists()
        ask(proxy.address, "put", "big.bin", "sub/copy.bin")
        assert digest(root / "sub" / "copy.bin") == digest(root / "big.bin")
        ask(proxy.address, "put", "big.bin", "sub/copy.bin", "--append")
        assert (root / "sub" / "copy.bin").stat().st_size == 120_002
        ask(proxy.address, "delete", "sub/copy.bin")
        assert "file_not_found" in ask(proxy.address, "delete", "sub/copy.bin", code=1).stderr
        refused = json.loads(ask(proxy.address, "get", "../secret", "--json", code=1).stdout)
        assert refused["status"] == "file_not_found"
        assert {"1", "2", "25", "26", "27", "28"} <= set(fields(capture, "dnp3", "dnp3.al.func", proxy.port))
        # tshark does not know g70v7, and says so.
        assert complaints(capture, "dnp3", proxy.port, unless="dnp3.al.obj == 0x4607") == ""


def serving(folder, *flags, lean=False):
    (folder / "root").mkdir()
    lean = "lean = true\n" if lean else ""
    device = type("Serving", (Ours,), {"CONFIG": f'{lean}{OurOutstation.CONFIG}[files]\nroot = "root"\nwritable = true\n'})
    return device(folder, *flags)


def there_and_back(folder, address, *flags):
    """Writes a file and reads it again."""
    sent, back = folder / "sent.bin", folder / "back.bin"
    sent.write_bytes(os.urandom(20_000))
    ask(address, "put", sent, "there.bin", *flags)
    ask(address, "get", "there.bin", back, *flags)
    assert digest(back) == digest(sent) == digest(folder / "root" / "there.bin")
    assert not [name for name in os.listdir(folder / "root") if name.startswith(".")]


@pytest.mark.parametrize("lean", [False, True])
@pytest.mark.parametrize("kind", ["tcp", "tls", "udp"])
def test_files_over_every_transport(kind, lean, tmp_path):
    centre_flags, device_flags = ends(kind, tmp_path)
    with serving(tmp_path, "--listen", "127.0.0.1:0", *device_flags, lean=lean) as device:
        there_and_back(tmp_path, device.address, *centre_flags, *(["--lean"] if lean else []))


def test_files_over_a_serial_line(tmp_path):
    near, far = Serial(tmp_path), Serial(tmp_path)
    Passing(Line(near.far), Line(far.far))
    with serving(tmp_path, "--connect", far.path, *far.flags):
        there_and_back(tmp_path, near.path, *near.flags)


def test_what_a_crash_left_is_removed(tmp_path):
    with serving(tmp_path, "--listen", "127.0.0.1:0"):
        # Two stations would write into each other's files.
        command = [BINARY, "dnp3", "outstation", "--config", tmp_path / "outstation.toml", "--listen", "127.0.0.1:0"]
        second = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert second.returncode != 0 and "another outstation writes" in second.stderr, second
    part = tmp_path / "root" / ".there.bin.7.part"
    part.write_text("half")
    command = [BINARY, "dnp3", "outstation", "--config", tmp_path / "outstation.toml", "--listen", "127.0.0.1:0", "--json"]
    with Lines(command) as again:
        again.first()
        assert not part.exists()
