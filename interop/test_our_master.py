"""Our master's single requests, and outstations of others."""

import json

import pytest
from node import tieline
from processes import Peer
from waiting import until

OUTSTATIONS = ["opendnp3_outstation", "dnp3py_outstation"]


@pytest.fixture(params=OUTSTATIONS)
def device(request):
    """Each foreign outstation in turn."""
    with Peer(request.param) as peer:
        yield peer


def ask(device, *words, code=0):
    """What our master prints for one request, line by line."""
    done = tieline("dnp3", "master", device.address, *words, check=False)
    assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}{device.said()}"
    return done.stdout.splitlines()


def test_scans_what_is_named(device):
    device.do("update binary 3 true")
    lines = [line.split()[:3] for line in ask(device, "scan", "g1v0:3-4")]
    # dnp3py answers a range with all that it has.
    asked = lines[3:5] if len(lines) == 10 else lines
    assert asked == [["binary", "3", "true"], ["binary", "4", "false"]]
    assert any(line.startswith("counter 2 0") for line in ask(device, "scan", "class-0"))


def test_operates_several_outputs_in_one_request(device):
    device.do("refuse binary_output 4 local")
    lines = ask(device, "operate", "binary-output:3=true", "binary-output:5=false")
    assert lines == ["control 1 success", "control 2 success", "success"]
    device.wait_command(step="operate", index=3, status="success")
    device.wait_command(step="operate", index=5, status="success")
    lines = ask(device, "operate", "binary-output:6=true", "binary-output:4=true", code=1)
    assert lines == ["control 1 success", "control 2 local", "local"]
    assert not [one for one in device.objects("command") if one["index"] == 6 and one["step"] == "operate"]


def test_a_select_alone_operates_nothing(device):
    assert ask(device, "operate", "binary-output:2=true", "--select-only") == ["success"]
    device.wait_command(step="select", index=2)
    assert not [one for one in device.objects("command") if one["step"] != "select"]
    # Another point than was selected: a device that keeps a selection over connections would take this one's sequence
    # number for the next one in 1 of 16 cases.
    assert ask(device, "operate", "binary-output:1=true", "--operate-only", code=1) == ["no_select"]


def test_operates_without_an_answer(device):
    assert ask(device, "operate", "binary-output:7=true", "--no-response") == ["sent"]
    device.wait_command(step="direct", index=7, status="success")


def test_measures_the_delay(device):
    told = json.loads(ask(device, "delay", "--json")[0])
    assert told["answer"] == "round_trip" and told["ms"] > 0


def test_the_restart_bit_is_cleared_on_demand_only(device):
    ask(device, "scan", "g1v0")
    assert ask(device, "clear-restart") == ["success"]


@pytest.mark.parametrize("how", ["lan", "delay", "write"])
def test_sets_the_clock_of_opendnp3(how):
    with Peer("opendnp3_outstation") as device:
        assert ask(device, "time", "--how", how) == ["success"]
        until(lambda: device.objects("time_written"), device.said)


def test_talks_over_confirmed_links_to_opendnp3():
    with Peer("opendnp3_outstation") as device:
        assert len(ask(device, "scan", "g30v0", "--link-confirms")) == 10
        assert ask(device, "operate", "binary-output:3=true", "--link-confirms") == ["success"]


def test_what_opendnp3_does_not_do_is_told():
    with Peer("opendnp3_outstation") as device:
        assert ask(device, "freeze", code=1) == ["function_not_supported"]
        assert any(line.startswith("frozen-counter 3 0") for line in ask(device, "scan", "g21v0"))
        assert ask(device, "unsolicited", "off") == ["success"]
