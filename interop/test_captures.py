"""Every frame of real captures decodes, or is refused with a reason; none is lost."""

import json
import os
from pathlib import Path

import pytest
from dissection import tshark
from node import tieline

FOLDER = Path(os.environ.get("TIELINE_SHARED", Path(__file__).parents[2] / "shared")) / "data/dnp3/captures"
FILES = sorted(FOLDER.glob("*.pcap")) if FOLDER.is_dir() else []


def link_frames(path):
    """How many link frames tshark finds; one packet may hold several."""
    ports = ["-d", "tcp.port==20001,dnp3", "-d", "tcp.port==20000,dnp3", "-d", "udp.port==20000,dnp3"]
    shown = tshark(path, *ports, "-Y", "dnp3", "-T", "fields", "-e", "dnp3.ctl", "-E", "occurrence=a")
    return sum(len(line.split(",")) for line in shown.splitlines() if line)


@pytest.mark.skipif(not FILES, reason="no captures: ../shared/data/dnp3/captures is absent")
@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_decodes(path):
    expected = link_frames(path)
    assert expected > 0
    frames = [json.loads(line) for line in tieline("dnp3", "decode", path, "--json").stdout.splitlines()]
    assert len(frames) == expected, f"{len(frames)} frames, tshark finds {expected}"
    assert len(tieline("dnp3", "decode", path).stdout.splitlines()) >= expected


def test_what_is_no_capture_is_refused(tmp_path):
    file = tmp_path / "no.pcap"
    file.write_bytes(b"this is not a capture")
    done = tieline("dnp3", "decode", file, check=False)
    assert done.returncode != 0 and "no.pcap" in done.stderr and "panicked" not in done.stderr, done
