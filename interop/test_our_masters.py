"""Our outstation with two foreign masters at once, each with its own events."""

import pytest
from node import OurOutstation
from processes import Peer

CONFIG = (
    OurOutstation.CONFIG.replace("master = 1\n", "")
    + """
[[master]]
address = 1

[[master]]
address = 2
"""
)


@pytest.fixture
def station(tmp_path):
    """Our outstation and both masters."""
    with (
        OurOutstation(tmp_path, CONFIG) as device,
        Peer("dnp3py_master", device.address, "--master", "1") as first,
        Peer("dnp3py_master", device.address, "--master", "2") as second,
    ):
        yield device, first, second


def test_each_master_is_told_every_event_once(station):
    device, first, second = station
    for master in (first, second):
        assert "restart" in master.do("integrity")["iin"]
    device.do("update binary 5 true")
    first.do("events")
    first.wait_reading(type="binary", index=5, value=True)
    first.do("events")
    told = [r for r in first.objects("reading") if (r["type"], r["index"], r["value"]) == ("binary", 5, True)]
    assert len(told) == 1
    # What one has taken still waits for the other.
    second.do("events")
    second.wait_reading(type="binary", index=5, value=True)


def test_one_master_sees_what_the_other_operates(station):
    device, first, second = station
    first.do("integrity")
    second.do("integrity")
    assert first.do("operate binary_output 3 true select")["status"] == "success"
    second.do("events")
    second.wait_reading(type="binary_output", index=3, value=True)
    device.do("restart")
    device.do("update analog 2 17.5")


def test_each_master_has_its_own_unsolicited_responses(station):
    device, first, second = station
    first.do("integrity")
    second.do("integrity")
    first.do("unsolicited on")
    device.do("update binary 7 true")
    first.wait_reading(type="binary", index=7, value=True, unsolicited=True)
    second.do("events")
    second.wait_reading(type="binary", index=7, value=True, unsolicited=False)
