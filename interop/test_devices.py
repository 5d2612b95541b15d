"""Foreign outstations to the node, and from there to subscribers and the history."""

from bus import Sub
from node import INPUTS, OUTPUTS, Device
from processes import Peer

T = 1_700_000_000_123
T_TEXT = "2023-11-14T22:13:20.123Z"


# Devices of these tests say times of 2023: older samples than `keep` are not shown.
KEEP = '[history]\nkeep = "36500d"\n'


def device_for(peer, name="relay1"):
    """The device as the peer serves it."""
    double_bit = peer.kind == "opendnp3_outstation"
    return Device(name, peer.address, types=[kind for kind in INPUTS + OUTPUTS if double_bit or kind != "double-bit"])


def test_changes_reach_subscribers_and_history(outstation, start_node):
    device = device_for(outstation)
    node = start_node(device, more=KEEP)
    node.wait_state(device, "online")
    node.wait_value(device.point("binary", 0), v=False, q="good")
    with Sub(node, f"{device.topic}/#") as subscriber:
        subscriber.wait(device.point("binary", 0), retained=True, v=False)
        outstation.do("update binary 0 true")
        subscriber.wait(device.point("binary", 0), retained=False, v=True, q="good")
        outstation.do("update analog 7 -42")
        subscriber.wait(device.point("analog", 7), v=-42, q="good")
        outstation.do(f"update counter 1 4000000000 time={T}")
        subscriber.wait(device.point("counter", 1), v=4_000_000_000, t=T_TEXT)
    node.wait_history(device.point("binary", 0), v=True, q="good")
    node.wait_history(device.point("analog", 7), v=-42)
    node.wait_history(device.point("counter", 1), v=4_000_000_000, t=T_TEXT)


def test_flags_and_device_time_survive(start_node):
    with Peer("opendnp3_outstation") as outstation:
        device = Device("relay1", outstation.address)
        node = start_node(device, more=KEEP)
        node.wait_state(device, "online")
        node.wait_value(device.point("analog", 3), q="good")
        outstation.do(f"update analog 3 12.5 flags=0x01 time={T}")
        node.wait_value(device.point("analog", 3), v=12.5, q="good", t=T_TEXT)
        outstation.do(f"update double_bit 4 on time={T + 1}")
        node.wait_value(device.point("double-bit", 4), v=2, t=T_TEXT.replace("123Z", "124Z"))
        flags = [(0x05, "comm_lost", "bad"), (0x03, "restart", "uncertain"), (0x11, "local_forced", "uncertain")]
        flags += [(0x21, "over_range", "bad"), (0x41, "reference_err", "uncertain"), (0x00, "offline", "bad")]
        for number, (byte, reason, validity) in enumerate(flags):
            outstation.do(f"update analog 2 {number} flags={byte:#x} time={T + number}")
            value = node.wait_value(device.point("analog", 2), v=number, q=validity)
            assert value["why"] == [reason], value
        for number, (_, _, validity) in enumerate(flags):
            node.wait_history(device.point("analog", 2), v=number, q=validity)


def test_an_outstation_that_dies_and_comes_back(outstation, start_node):
    device = device_for(outstation)
    node = start_node(device)
    node.wait_state(device, "online")
    topic = device.point("binary", 0)
    node.wait_value(topic, v=False, q="good")
    with Sub(node, device.health("state")) as states:
        outstation.kill()
        value = node.wait_value(topic, v=False, q="bad")
        assert "away" in value["why"], value
        node.wait_state(device, "away")
        until_said = [message[2] for message in states.messages()]
        assert until_said, "the state topic says nothing"
        with Peer(outstation.kind, "--port", outstation.port) as again:
            node.wait_state(device, "online", 40)
            node.wait_value(topic, v=False, q="good", seconds=40)
            again.do("update binary 0 true")
            node.wait_value(topic, v=True, q="good")
    node.wait_history(topic, q="bad")
