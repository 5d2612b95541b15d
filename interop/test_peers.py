"""The peers against each other: what a later test expects of them, they do without us."""

import pytest
from processes import Peer

MASTERS = ["opendnp3_master", "dnp3py_master"]
OUTSTATIONS = ["opendnp3_outstation", "dnp3py_outstation"]


@pytest.mark.parametrize("master", MASTERS)
@pytest.mark.parametrize("outstation", OUTSTATIONS)
def test_reads_and_operates(master, outstation):
    with Peer(outstation) as device, Peer(master, device.address) as centre:
        centre.do("integrity")
        centre.wait_reading(type="binary", index=0, value=False)
        device.do("update binary 0 true")
        device.do("update analog 7 -42")
        device.do("update counter 1 4000000000 flags=0x05 time=1700000000123")
        centre.do("events")
        centre.wait_reading(type="binary", index=0, value=True)
        centre.wait_reading(type="analog", index=7, value=-42)
        centre.wait_reading(type="counter", index=1, value=4000000000, flags=0x05, time=1700000000123)
        centre.do("operate binary_output 3 true select")
        device.wait_command(step="select", type="binary_output", index=3, value="latch_on")
        device.wait_command(step="operate", type="binary_output", index=3, value="latch_on")


@pytest.mark.parametrize("outstation", OUTSTATIONS)
def test_operates_directly(outstation):
    with Peer(outstation) as device, Peer("dnp3py_master", device.address) as centre:
        assert centre.do("operate analog_output 2 17 direct")["status"] == "success"
        device.wait_command(step="direct", type="analog_output", index=2, value=17)


def test_reports_unsolicited():
    with Peer("opendnp3_outstation") as device, Peer("dnp3py_master", device.address) as centre:
        centre.do("unsolicited on")
        device.do("update double_bit 4 on flags=0x01 time=1700000000456")
        centre.wait_reading(type="double_bit", index=4, value="on", time=1700000000456, unsolicited=True)


@pytest.mark.parametrize("mode", ["select", "direct"])
@pytest.mark.parametrize("outstation", OUTSTATIONS)
def test_refuses_by_name(outstation, mode):
    with Peer(outstation) as device, Peer("dnp3py_master", device.address) as centre:
        device.do("refuse binary_output 4 local")
        assert centre.do(f"operate binary_output 4 false {mode}")["status"] == "local"
        assert centre.do(f"operate binary_output 12 true {mode}")["status"] == "not_supported"
        assert centre.do(f"operate binary_output 5 true {mode}")["status"] == "success"
        centre.do("integrity")
        centre.wait_reading(type="binary_output", index=5, value=True)
