"""Lean messages: agreed on with our own outstation, fallen back from with everyone else."""

import json

import pytest
from node import OurOutstation, tieline
from processes import Peer

FOREIGN = ["opendnp3_outstation", "dnp3py_outstation"]


def read_once(address, *words):
    """What a master of ours reads in one round trip of each class."""
    done = tieline("dnp3", "master", address, "--once", "--json", *words, seconds=30)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    # Events are told once.
    return [one for one in told if not one.get("event")]


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_standard_outstation_is_spoken_to_in_frames(kind):
    with Peer(kind) as peer:
        plain = read_once(peer.address)
        lean = read_once(peer.address, "--lean")
        assert plain and len(lean) == len(plain)


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_node_that_offers_commands_a_standard_outstation(kind, start_node):
    from node import Device

    with Peer(kind) as peer:
        device = Device("feeder", peer.address, lean=True)
        node = start_node(device)
        node.wait_value(device.point("binary", 0), q="good")
        peer.do("update binary 0 true")
        node.wait_value(device.point("binary", 0), v=True)


@pytest.mark.parametrize("kind", ["opendnp3_master", "dnp3py_master"])
def test_an_outstation_that_accepts_is_standard_to_a_standard_master(kind, tmp_path):
    with OurOutstation(tmp_path, "lean = true\n" + OurOutstation.CONFIG) as device, Peer(kind, device.address) as centre:
        centre.do("integrity")
        device.do("update counter 2 77")
        centre.do("integrity")
        centre.wait_reading(type="counter", index=2, value=77)


def test_our_own_agree(tmp_path):
    with OurOutstation(tmp_path, "lean = true\n" + OurOutstation.CONFIG) as device:
        assert read_once(device.address, "--lean")
