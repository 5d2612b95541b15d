"""What foreign masters make of the objects that few devices have: attributes, dead-bands, frozen analogs."""

import struct

from dissection import complaints, fields
from node import OurOutstation
from processes import Peer
from recording import RecordingProxy
from waiting import until

CONFIG = (
    OurOutstation.CONFIG.replace('event = "g32v8"\n', 'event = "g32v8"\ndead_band = 0.5\n')
    + """
[[point]]
type = "frozen-analog"
range = "0-9"
static = "g31v7"
event = "g33v7"
class = 3

[attributes]
manufacturer = "Acme"
name = "Feeder 3"
latitude = 1.5
"""
)
EVENTS = (33, 7)
# tshark knows frozen analogs in responses, and not that all of them can be asked for.
ASKED_FOR = "dnp3.al.obj == 0x1f00 || dnp3.al.obj == 0x2100"


def test_dnp3py_reads_attributes_dead_bands_and_frozen_analogs(tmp_path):
    path = tmp_path / "reads.pcap"
    with (
        OurOutstation(tmp_path, CONFIG) as device,
        RecordingProxy(device.address, path) as proxy,
        Peer("dnp3py_master", proxy.address) as centre,
    ):
        device.do("update analog 3 12.5")
        device.do("update frozen-analog 3 12.5")

        def read(*words):
            objects = centre.do(f"read {' '.join(words)}")["objects"]
            return [(group, variation, bytes.fromhex(data)) for group, variation, data in objects]

        # One attribute, then all: the set, the type, its length, and the value.
        assert read("0", "252", "0", "0") == [(0, 252, b"\x00\x00\x01\x04Acme")]
        every = {variation: data for _, variation, data in read("0", "254", "0", "0")}
        assert every[247] == b"\x00\x00\x01\x08Feeder 3" and every[205] == b"\x00\x00\x04\x04" + struct.pack("<f", 1.5)
        # Dead-bands, all and a range.
        assert read("34", "0") == [(34, 3, b"\x00\x09" + struct.pack("<f", 0.5) * 10)]
        assert read("34", "3", "2", "3") == [(34, 3, b"\x02\x03" + struct.pack("<f", 0.5) * 2)]
        # Frozen analogs, and the events of the freeze.
        values = struct.iter_unpack("<Bf", read("31", "0")[0][2][2:])
        assert [value for _, value in values][3] == 12.5
        frozen = read("33", "0")
        assert [block[:2] for block in frozen] == [EVENTS]
        centre.do("integrity")
        centre.wait_reading(type="analog", index=3, value=12.5)
    seen = {int(one, 0) for one in fields(path, "dnp3", "dnp3.al.obj", proxy.port)}
    assert {0x00FC, 0x00FE, 0x2200, 0x2203, 0x1F00, 0x1F07, 0x2100, 0x2107} <= seen
    assert complaints(path, "dnp3", proxy.port, unless=ASKED_FOR) == ""


def test_opendnp3_asks_for_them_and_goes_on(tmp_path):
    """It has no place for them: what it is sent must be well-formed all the same, and disturb nothing. A poll of
    everything must not bring frozen analogs: it takes nothing of a response that holds them."""
    path = tmp_path / "reads.pcap"
    config = CONFIG.replace('event = "g33v7"\nclass = 3\n', "class = 0\nin_class_0 = false\n")
    with (
        OurOutstation(tmp_path, config) as device,
        RecordingProxy(device.address, path) as proxy,
        Peer("opendnp3_master", proxy.address) as centre,
    ):
        device.do("update analog 3 12.5")
        centre.wait_reading(type="analog", index=3, value=12.5)
        for kind in ("34 0", "31 0", "33 0"):
            centre.do(f"read {kind}")
        device.do("update analog 4 1.5")
        centre.do("integrity")
        centre.wait_reading(type="analog", index=4, value=1.5)

        def answered():
            told = {int(one, 0) for one in fields(path, "dnp3", "dnp3.al.obj", proxy.port)}
            return {0x2203, 0x1F07} <= told

        until(answered, centre.said)
    assert complaints(path, "dnp3", proxy.port, unless=ASKED_FOR) == ""
