"""tshark on what we put on the wire."""

import json

from bus import Paho
from dissection import complaints, fields, frames
from node import Device, OurOutstation
from processes import Peer
from recording import RecordingProxy
from waiting import until


def test_our_master_and_a_foreign_outstation(tmp_path, start_node):
    path = tmp_path / "master.pcap"
    with Peer("opendnp3_outstation", "--no-intervals") as peer, RecordingProxy(peer.address, path) as proxy:
        device = Device("relay1", proxy.address)
        node = start_node(device)
        node.wait_state(device, "online")
        for mode in ("select", "direct"):
            assert node.command(device.point("binary-output", 3), True, mode)["status"] == "success"
            assert node.command(device.point("analog-output", 3), 4.5, mode)["status"] == "success"
        peer.do("update binary 4 true")
        node.wait_value(device.point("binary", 4), v=True)
        wanted = {"0", "1", "3", "4", "5", "20"}
        until(lambda: wanted <= set(fields(path, "dnp3", "dnp3.al.func", proxy.port)), f"the functions {wanted}")
        assert complaints(path, "dnp3", proxy.port) == ""


def test_our_outstation_and_foreign_masters(tmp_path):
    path = tmp_path / "outstation.pcap"
    with OurOutstation(tmp_path) as device, RecordingProxy(device.address, path) as proxy:
        with Peer("dnp3py_master", proxy.address) as centre:
            centre.do("integrity")
            centre.do("unsolicited on")
            for kind, value in [("binary", "true"), ("double-bit", "on"), ("counter", "7"), ("analog", "1.5")]:
                device.do(f"update {kind} 1 {value}")
            centre.wait_reading(type="analog", index=1, value=1.5, unsolicited=True)
            centre.do("operate binary_output 1 true select")
            centre.do("operate analog_output 1 5 direct")
            centre.do("operate binary_output 20 true direct")
        with Peer("opendnp3_master", proxy.address) as centre:
            centre.do("integrity")
            centre.wait_reading(type="analog", index=1, value=1.5)
        assert {"129", "130"} <= set(fields(path, "dnp3", "dnp3.al.func", proxy.port))
        assert complaints(path, "dnp3", proxy.port) == ""


def test_our_broker(tmp_path, start_node):
    path = tmp_path / "mqtt.pcap"
    node = start_node()
    with RecordingProxy(node.mqtt, path) as proxy:
        node.mqtt = proxy.address
        for version, retained in (("3.1.1", []), ("5", ["wire/a"])):
            with Paho(node, version) as client:
                client.subscribe("wire/#")
                client.publish("wire/a", json.dumps({"v": 1}), retain=True)
                client.publish("wire/b", "x" * 5000, qos=0)
                expected = [*retained, "wire/a", "wire/b"]
                assert sorted(client.next().topic for _ in expected) == expected
                client.client.unsubscribe("wire/#")
                client.publish("wire/c", "last")
        assert frames(path, "mqtt", proxy.port) >= 16
        assert complaints(path, "mqtt", proxy.port) == ""
