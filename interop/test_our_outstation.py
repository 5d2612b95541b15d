"""Our outstation and foreign masters."""

import json
import socket

import pytest
from link import frame
from node import OurOutstation
from processes import Peer
from waiting import until

MASTERS = ["opendnp3_master", "dnp3py_master"]
T = 1_700_000_000_123


@pytest.fixture(params=MASTERS)
def pair(request, tmp_path):
    """Our outstation and each foreign master in turn."""
    with OurOutstation(tmp_path) as device, Peer(request.param, device.address) as centre:
        yield device, centre


def test_reads_every_type(pair):
    device, centre = pair
    device.do("update analog 3 12.5 flags=0x01 time=1700000000000")
    device.do("update counter 2 77")
    centre.do("integrity")
    centre.wait_reading(type="binary", index=0, value=False)
    centre.wait_reading(type="analog", index=3, value=12.5)
    centre.wait_reading(type="counter", index=2, value=77)
    centre.wait_reading(type="binary_output", index=9, value=False)
    centre.wait_reading(type="analog_output", index=9, value=0)
    centre.wait_reading(type="double_bit", index=9)


def test_events_carry_flags_and_time(pair):
    device, centre = pair
    centre.do("integrity")
    centre.wait_reading(type="binary", index=0, value=False)
    device.do(f"update binary 0 true time={T}")
    device.do(f"update analog 3 -12.5 flags=0x05 time={T + 1}")
    device.do(f"update double-bit 1 on time={T + 2}")
    device.do(f"update counter 1 4000000000 time={T + 3}")
    centre.do("events")
    centre.wait_reading(type="binary", index=0, value=True, time=T)
    centre.wait_reading(type="analog", index=3, value=-12.5, flags=0x05, time=T + 1)
    centre.wait_reading(type="double_bit", index=1, value="on", time=T + 2)
    centre.wait_reading(type="counter", index=1, value=4_000_000_000, time=T + 3)


def test_no_event_is_lost_or_told_twice(pair):
    device, centre = pair
    centre.do("integrity")
    for number in range(200):
        device.do(f"update analog {number % 10} {number + 1} time={T + number}")
    expected = sorted(T + number for number in range(200))
    want = set(expected)

    def times():
        centre.do("events")
        return [one["time"] for one in centre.readings(type="analog") if one["time"] in want]

    until(lambda: len(set(times())) == 200, lambda: f"{len(set(times()))} of 200 events")
    assert sorted(times()) == expected


def test_unsolicited_events(tmp_path):
    with OurOutstation(tmp_path) as device, Peer("dnp3py_master", device.address) as centre:
        centre.do("integrity")
        centre.do("unsolicited on")
        device.do(f"update binary 5 true time={T}")
        centre.wait_reading(type="binary", index=5, value=True, time=T, unsolicited=True)
        centre.do("unsolicited off")
        device.do(f"update binary 5 false time={T + 1}")
        centre.do("events")
        centre.wait_reading(type="binary", index=5, value=False, time=T + 1, unsolicited=False)


def test_unsolicited_events_to_opendnp3(tmp_path):
    with OurOutstation(tmp_path) as device, Peer("opendnp3_master", device.address) as centre:
        centre.do("integrity")
        centre.wait_reading(type="binary", index=0)
        device.do(f"update binary 5 true time={T}")
        centre.wait_reading(type="binary", index=5, value=True, time=T, event=True)


@pytest.mark.parametrize("mode", ["select", "direct"])
def test_operates(tmp_path, mode):
    with OurOutstation(tmp_path) as device, Peer("dnp3py_master", device.address) as centre:
        assert centre.do(f"operate binary_output 3 true {mode}")["status"] == "success"
        assert centre.do(f"operate analog_output 2 17 {mode}")["status"] == "success"
        assert centre.do(f"operate binary_output 20 true {mode}")["status"] == "not_supported"
        assert centre.do(f"operate binary_output 15 true {mode}")["status"] == "not_supported"
        device.do("local on")
        assert centre.do(f"operate binary_output 4 true {mode}")["status"] == "local"
        assert "local" in centre.do("integrity")["iin"]
        device.do("local off")
        assert centre.do(f"operate binary_output 4 true {mode}")["status"] == "success"
        centre.do("integrity")
        centre.wait_reading(type="binary_output", index=3, value=True)
        centre.wait_reading(type="analog_output", index=2, value=17)


@pytest.mark.parametrize("mode", ["select", "direct"])
def test_opendnp3_operates(tmp_path, mode):
    with OurOutstation(tmp_path) as device:
        with Peer("opendnp3_master", device.address) as centre:
            centre.do("integrity")
            centre.wait_reading(type="binary_output", index=3, value=False)
            centre.do(f"operate binary_output 3 true {mode}")
            until(lambda: centre.process.poll() is not None, "the process that operated ends")
        with Peer("opendnp3_master", device.address) as centre:
            centre.do("integrity")
            centre.wait_reading(type="binary_output", index=3, value=True)


def test_restart_and_lines_that_are_wrong(tmp_path):
    with OurOutstation(tmp_path) as device, Peer("dnp3py_master", device.address) as centre:
        assert "restart" in centre.do("integrity")["iin"]
        device.do("remove analog 3")
        for line in ["update analog 3 1", "update binary 0 maybe", "update nothing 0 1", "nonsense", "update analog"]:
            assert device.ask(line).startswith("error: "), line
        device.do("restart")
        device.do("quit")
        assert device.process.wait(10) == 0


def test_two_masters_of_one_address_have_their_turns(tmp_path):
    """Each takes the place of the other until the outstation keeps one, says so, and refuses the other for a while."""
    status = frame(0xC9, 10, 1)
    with OurOutstation(tmp_path) as device:
        host, port = device.address.rsplit(":", 1)
        present = []

        def answered(connection):
            """Whether its status is answered; unsolicited responses may come before."""
            came = b""
            try:
                connection.sendall(status)
                while frame(0x0B, 1, 10) not in came:
                    more = connection.recv(64)
                    if not more:
                        return False
                    came += more
            except ConnectionError:
                return False
            return True

        def served():
            present.append(socket.create_connection((host, int(port)), 10))
            return answered(present[-1])

        def events(name):
            return [line for line in list(device.errors) if json.loads(line)["event"] == name]

        # A master that comes back is served at once, twice within a minute.
        assert served() and served() and served() and not events("two-masters")
        until(lambda: not served(), device.said, 60)
        assert events("two-masters") and until(lambda: events("refused"), device.said)
        # Who has the place goes on.
        assert answered(present[-2])
        for connection in present:
            connection.close()
