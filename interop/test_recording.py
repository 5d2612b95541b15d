"""The recorder against peers of one another: tshark reads what it wrote, and finds fault where there is one."""

import socket

from dnp3.datalink.builder import build_unconfirmed_user_data
from dissection import complaints, fields, frames
from processes import Peer
from recording import RecordingProxy


def test_tshark_reads_what_passed(tmp_path):
    path = tmp_path / "peers.pcap"
    with Peer("opendnp3_outstation", "--no-intervals") as device, RecordingProxy(device.address, path) as proxy:
        with Peer("dnp3py_master", proxy.address) as centre:
            centre.do("integrity")
            centre.do("operate binary_output 1 true select")
        assert frames(path, "dnp3", proxy.port) >= 8
        assert complaints(path, "dnp3", proxy.port) == ""
        functions = fields(path, "dnp3", "dnp3.al.func", proxy.port)
        assert {"1", "3", "4", "129"} <= set(functions), functions


def test_tshark_finds_fault(tmp_path):
    path = tmp_path / "wrong.pcap"
    with socket.create_server(("127.0.0.1", 0)) as server:
        with RecordingProxy(f"127.0.0.1:{server.getsockname()[1]}", path) as proxy:
            with socket.create_connection(("127.0.0.1", proxy.port)) as client:
                accepted, _ = server.accept()
                # A read of g30v1 whose range ends after its first byte.
                request = bytes.fromhex("c0 c0 01 1e 01 00 00")
                frame = build_unconfirmed_user_data(
                    destination=10, source=1, dir_from_master=True, user_data=request
                )
                client.sendall(frame.to_bytes())
                assert accepted.recv(1)
                accepted.close()
        assert complaints(path, "dnp3", proxy.port) != ""
