"""Clients that send on and on, and read only then: each reads why its connection ended, over each way in, and no reset comes
before it."""

import contextlib
import socket
import struct

import pytest
from streams import PING, Hand, connect, packet, publish, take, text
from test_mqtt_doors import address
from test_mqtt_hostile import PACKET_BYTES_MAX, Target
from test_websocket import Web, frame
from waiting import until

#: Bytes that follow what ends the connection: far more than sockets hold.
FLOOD_BYTES = 8 << 20
CASES = {
    0x93: b"".join(packet(0x34, text("a") + struct.pack(">H", number) + b"\0x") for number in range(1, 1026)),
    0x95: publish("a", bytes(PACKET_BYTES_MAX)),
    0x97: packet(0x82, b"\0\1\0" + (text("#") + b"\0") * 4097),
}
FLOOD = PING * (FLOOD_BYTES // len(PING))


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Target(tmp_path_factory.mktemp("words")) as running:
        yield running
        running.alive()


class Plain:
    """A client over TCP, or over TLS."""

    def __init__(self, connection):
        self.socket, self.stream = connection, bytearray()
        self.say(connect("flood"))
        assert self.packet().kind == 2

    def say(self, data):
        self.socket.sendall(data)

    def packet(self):
        while (whole := take(self.stream)) is None:
            data = self.socket.recv(65536)
            assert data, "the connection ended before"
            self.stream += data
        return whole

    def ends(self):
        assert self.socket.recv(1) == b""


class Framed(Web):
    """A client over WebSocket."""

    def __init__(self, node):
        super().__init__(node, "flood")

    def say(self, *pieces, last=True):
        if pieces[0] is not FLOOD:
            return super().say(*pieces, last=last)
        piece = frame(2, FLOOD[:60_000])
        self.socket.sendall(piece * (FLOOD_BYTES // 60_000))

    def ends(self):
        assert self.closed() == 1000


@contextlib.contextmanager
def come(node, way):
    if way == "websocket":
        with Framed(node) as client:
            yield client
        return
    door = ("127.0.0.1", node.mqtt_port) if way == "tcp" else address(node, "mqtt_tls")
    with socket.create_connection(door, timeout=20) as plain:
        if way == "tcp":
            yield Plain(plain)
            return
        with node.trust.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped:
            yield Plain(wrapped)


@pytest.mark.parametrize("way", ["tcp", "tls", "websocket"])
@pytest.mark.parametrize("reason", CASES, ids=hex)
def test_who_floods_and_reads_then_reads_the_reason(node, way, reason):
    waited = node.metric('tieline_socket_lingering_closes_total{column="mqtt"}')
    cut = node.metric('tieline_socket_lingering_closes_cut_total{column="mqtt"}')
    with come(node, way) as client:
        client.say(CASES[reason])
        client.say(FLOOD)
        while (whole := client.packet()).kind != 14:
            pass
        assert whole.body[0] == reason
        client.ends()
    assert node.metric('tieline_socket_lingering_closes_total{column="mqtt"}') == waited + 1
    assert node.metric('tieline_socket_lingering_closes_cut_total{column="mqtt"}') == cut


def test_who_does_not_end_its_side_is_cut(node):
    """Until then it counts as a connection."""
    cut = node.metric('tieline_socket_lingering_closes_cut_total{column="mqtt"}')
    with Hand(node, "stays") as client:
        client.send(b"\xd0\0")
        assert client.read().kind == 14
        assert client.socket.recv(1) == b""
        until(lambda: node.metric('tieline_socket_lingering_closes_cut_total{column="mqtt"}') == cut + 1, "it is cut", 30)
