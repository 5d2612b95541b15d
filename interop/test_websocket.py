"""MQTT over WebSocket with wsproto, which is not ours: the handshake, frames cut and joined in every way, and rules that are broken."""

import json
import socket
import struct

import pytest
from bus import read_to_end
from streams import GOODBYE, PING, PONG, connect, packet, publish, subscribe, take
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason, Opcode


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """One node for all, for nothing that a client does may harm it."""
    from node import Node

    more = '[mqtt]\npacket_bytes_max = "64KiB"\n[mqtt.websocket]\nlisten = "127.0.0.1:0"\n'
    with Node(tmp_path_factory.mktemp("websocket"), more=more) as running:
        yield running
        running.alive()


class Web:
    """A WebSocket of wsproto over a socket; messages of the node are read as a stream of MQTT."""

    def __init__(self, node, name=None, **request):
        self.socket = socket.create_connection(door(node), timeout=20)
        self.protocol = WSConnection(ConnectionType.CLIENT)
        self.events, self.stream, self.frames = [], bytearray(), []
        asked = {"host": "127.0.0.1", "target": "/mqtt", "subprotocols": ["mqtt"], **request}
        self.socket.sendall(self.protocol.send(Request(**asked)))
        self.answer = self.event()
        if name:
            self.say(connect(name))
            assert self.packet().kind == 2

    def event(self):
        """The next event."""
        while True:
            if self.events:
                return self.events.pop(0)
            raw = self.socket.recv(65536)
            self.protocol.receive_data(raw or None)
            self.events += self.protocol.events()

    def say(self, *pieces, last=True):
        """Sends a message, a frame for each piece."""
        for number, piece in enumerate(pieces, 1):
            finished = last and number == len(pieces)
            self.socket.sendall(self.protocol.send(BytesMessage(data=piece, message_finished=finished)))

    def packet(self):
        """The next packet of MQTT; a ping or a close before it fails."""
        while (whole := take(self.stream)) is None:
            event = self.event()
            assert isinstance(event, BytesMessage), event
            self.stream += event.data
        return whole

    def closed(self):
        """The code of the node's close, and that nothing comes behind it."""
        while isinstance(event := self.event(), (BytesMessage, Pong)):
            self.stream += event.data if isinstance(event, BytesMessage) else b""
        assert isinstance(event, CloseConnection), event
        assert self.socket.recv(1) == b""
        return event.code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def door(node):
    host, port = json.loads(node.process.lines[0])["mqtt_websocket"].rsplit(":", 1)
    return host, int(port)


def frame(first, payload, masked=True, length=None):
    """A frame by hand, for what wsproto does not send."""
    key = b"\x37\xfa\x21\x3d" if masked else b""
    bit = 0x80 if masked else 0
    count = len(payload)
    if length is None:
        length = bytes([bit | count]) if count < 126 else bytes([bit | 126]) + struct.pack(">H", count)
    if masked:
        payload = bytes(byte ^ key[at % 4] for at, byte in enumerate(payload))
    return bytes([first]) + length + key + payload


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({}, 101),
        ({"subprotocols": ["chat", "mqtt"]}, 101),
        ({"target": "/mqtt?token=x"}, 101),
        ({"subprotocols": []}, 400),
        ({"subprotocols": ["mqttv3.1"]}, 400),
        ({"subprotocols": ["MQTT"]}, 400),
        ({"target": "/"}, 404),
        ({"target": "/mqtt/"}, 404),
        ({"extra_headers": [(b"Origin", b"http://127.0.0.1:8080")]}, 101),
        ({"extra_headers": [(b"Origin", b"https://localhost")]}, 101),
        ({"extra_headers": [(b"Origin", b"https://localhost.evil.example")]}, 403),
        ({"extra_headers": [(b"Origin", b"null")]}, 403),
    ],
)
def test_handshakes(node, request_, status):
    """wsproto checks Sec-WebSocket-Accept and the subprotocol; it has no extension to agree on."""
    with Web(node, **request_) as web:
        if status == 101:
            assert isinstance(web.answer, AcceptConnection), web.answer
            assert (web.answer.subprotocol, web.answer.extensions) == ("mqtt", [])
            web.say(connect("shaken"))
            assert web.packet().kind == 2
        else:
            assert isinstance(web.answer, RejectConnection) and web.answer.status_code == status, web.answer
            assert isinstance(web.event(), RejectData)


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["GET /mqtt HTTP/1.1"], 426),
        (["GET /mqtt HTTP/1.0", "Upgrade: websocket", "Connection: Upgrade"], 400),
        (["POST /mqtt HTTP/1.1", "Upgrade: websocket", "Connection: Upgrade"], 405),
        (["GET /mqtt HTTP/1.1", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 8"], 426),
        (["GET /mqtt HTTP/1.1", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"], 400),
        (["GET /mqtt HTTP/1.1", *(f"X-{number}: x" for number in range(65))], 431),
        (["GET /mqtt HTTP/1.1", "X: " + "x" * 9000], 431),
        (["\x16\x03\x01\x02\x00"], 400),
    ],
)
def test_requests_that_are_none(node, lines, status):
    with socket.create_connection(door(node), timeout=20) as connection:
        request = "\r\n".join([*lines, "Host: 127.0.0.1", "Sec-WebSocket-Protocol: mqtt", "", ""])
        connection.sendall(request.encode("latin-1"))
        assert read_to_end(connection).startswith(f"HTTP/1.1 {status} ".encode())


def test_bytes_behind_the_handshake_are_not_lost(node):
    """CONNECT comes in the same segment as the request."""
    with socket.create_connection(door(node), timeout=20) as connection:
        web = WSConnection(ConnectionType.CLIENT)
        request = web.send(Request(host="127.0.0.1", target="/mqtt", subprotocols=["mqtt"]))
        connection.sendall(request + frame(0x82, connect("early")))
        events = []
        while not any(isinstance(event, BytesMessage) for event in events):
            web.receive_data(connection.recv(4096))
            events += web.events()
        assert events[-1].data[0] == 0x20


def test_a_packet_in_many_frames(node):
    """Every byte of a stream in a frame of its own, as messages, as parts of one, and with nothing between."""
    topic = publish("web/cut", b"payload" * 5)
    raw = subscribe("web/cut") + topic
    with Web(node, "cut") as web:
        for piece in raw:
            web.say(bytes([piece]))
        assert [web.packet().kind, web.packet().publish()[1]] == [9, b"payload" * 5]
        web.say(*(bytes([piece]) for piece in topic))
        assert web.packet().publish()[1] == b"payload" * 5
        web.say(b"", topic[:3], b"", b"", topic[3:], b"")
        web.say(b"")
        assert web.packet().publish()[1] == b"payload" * 5


def test_many_packets_in_a_frame(node):
    """And the end of one frame is the middle of a packet."""
    with Web(node, "many") as web:
        raw = subscribe("web/many") + b"".join(publish("web/many", b"%d" % number) for number in range(200)) + PING
        web.say(raw[:1001])
        web.say(raw[1001:1007], raw[1007:])
        kinds = []
        payloads = []
        while len(payloads) < 200 or 13 not in kinds:
            one = web.packet()
            kinds.append(one.kind)
            if one.kind == 3:
                payloads.append(int(one.publish()[1]))
        assert payloads == list(range(200)) and kinds.count(9) == kinds.count(13) == 1


@pytest.mark.parametrize("raw", [0, 1, 100, 110, 116, 117, 125, 126, 65_000])
def test_payloads_of_every_length_of_a_head(node, raw):
    payload = bytes(number % 251 for number in range(raw))
    with Web(node, "lengths") as web:
        web.say(subscribe("web/length"))
        assert web.packet().kind == 9
        web.say(publish("web/length", payload))
        assert web.packet().publish()[1] == payload


def test_pings_are_answered_between_fragments(node):
    with Web(node, "pings") as web:
        for payload in [b"", b"still there?", bytes(125)]:
            web.say(PING[:1], last=False)
            web.socket.sendall(web.protocol.send(Ping(payload=payload)))
            pong = web.event()
            assert isinstance(pong, Pong) and bytes(pong.payload) == payload, pong
            web.say(PING[1:])
            assert web.packet().kind == 13
        # A pong that nobody asked for says nothing.
        web.socket.sendall(web.protocol.send(Pong(payload=b"unasked")))
        web.say(PING)
        assert web.packet().kind == 13


@pytest.mark.parametrize("code", [1000, 1001, 1003, 1011, 3000, 4999])
def test_a_close_is_answered_with_its_code(node, code):
    with Web(node, "closes") as web:
        web.socket.sendall(web.protocol.send(CloseConnection(code=code, reason="Größe")))
        assert web.closed() == code


def test_a_close_without_a_code_is_answered(node):
    with Web(node, "codeless") as web:
        web.socket.sendall(frame(0x88, b""))
        assert read_to_end(web.socket) == b"\x88\x00"


def test_a_goodbye_of_mqtt_closes_normally(node):
    with Web(node, "goodbye") as web:
        web.say(GOODBYE)
        assert web.closed() == CloseReason.NORMAL_CLOSURE


def test_a_text_is_refused(node):
    with Web(node, "text") as web:
        web.socket.sendall(web.protocol.send(TextMessage(data="hello")))
        assert web.closed() == CloseReason.UNSUPPORTED_DATA
        assert not web.stream


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (frame(0x82, PING, masked=False), 1002),
        (frame(0x89, b"", masked=False), 1002),
        (frame(0x88, struct.pack(">H", 1000), masked=False), 1002),
        (frame(0xC2, PING), 1002),  # a reserved bit: no extension was agreed on
        (frame(0xA2, PING), 1002),
        (frame(0x92, PING), 1002),
        (frame(0x83, PING), 1002),  # reserved opcodes
        (frame(0x8B, b""), 1002),
        (frame(0x80, PING), 1002),  # a continuation of nothing
        (frame(0x02, PING[:1]) + frame(0x82, PING[1:]), 1002),  # a message within a message
        (frame(0x02, PING[:1]) + frame(0x81, b"x"), 1002),
        (frame(0x09, b""), 1002),  # a ping in parts
        (frame(0x89, bytes(126)), 1002),  # a ping of 126 bytes
        (frame(0x82, PING, length=b"\xfe\0\2"), 1002),  # a length that is longer than it needs to be
        (frame(0x82, PING, length=b"\xff" + struct.pack(">Q", 2)), 1002),
        (frame(0x82, PING, length=b"\xff" + struct.pack(">Q", 1 << 63)), 1002),
        (frame(0x88, b"\3"), 1002),  # a close of half a code
        (frame(0x88, struct.pack(">H", 1005)), 1002),  # codes that are never sent
        (frame(0x88, struct.pack(">H", 999)), 1002),
        (frame(0x88, struct.pack(">H", 5000)), 1002),
        (frame(0x88, struct.pack(">H", 1000) + b"\xff"), 1007),
        (frame(0x01, b"x"), 1003),
    ],
)
def test_a_broken_rule_closes_with_its_code(node, raw, code):
    with Web(node, "broken") as web:
        web.socket.sendall(raw)
        assert web.closed() == code
        assert not web.stream
    with Web(node, "broken") as web:  # and nobody else is disturbed
        web.say(PING)
        assert web.packet().kind == 13


def test_a_frame_of_any_length_passes_through(node):
    """A head that announces 2^62 bytes costs nothing; the packets inside are taken as they come."""
    with Web(node, "endless") as web:
        web.socket.sendall(frame(0x82, PING, length=b"\xff" + struct.pack(">Q", 1 << 62)))
        assert web.packet().kind == 13
        web.socket.sendall(bytes(byte ^ b"\x21\x3d"[at] for at, byte in enumerate(PING)))
        assert web.packet().kind == 13


def test_a_packet_beyond_the_limit_is_told_and_closed_on(node):
    """DISCONNECT with 0x95, then the close of the WebSocket."""
    with Web(node, "large") as web:
        web.say(packet(0x30, bytes(70_000))[:100])
        told = web.packet()
        assert (told.kind, told.body[0]) == (14, 0x95)
        assert web.closed() == CloseReason.NORMAL_CLOSURE


def test_what_is_said_is_binary_and_whole(node):
    """Frames of a server are not masked, not in parts, and begin as they must, whatever their length."""
    with Web(node, "framed") as web:
        web.say(subscribe("web/frames"))
        assert web.packet().kind == 9
        for raw in [1, 125, 126, 40_000]:
            web.say(publish("web/frames", bytes(raw)))
            head = exactly(web.socket, 2)
            length = head[1]
            assert head[0] == 0x80 | Opcode.BINARY and length < 128
            if length == 126:
                length = struct.unpack(">H", exactly(web.socket, 2))[0]
                assert length > 125
            assert take(bytearray(exactly(web.socket, length))).publish()[1] == bytes(raw)


def exactly(connection, count):
    raw = b""
    while len(raw) < count:
        piece = connection.recv(count - len(raw))
        assert piece, "the connection ended"
        raw += piece
    return raw


def test_a_client_that_vanishes_leaves_nothing(node):
    """In the handshake, in a head, in a frame, in a packet."""
    whole = frame(0x82, connect("gone"))
    for cut in [1, 3, 7, len(whole) - 1]:
        with Web(node) as web:
            web.socket.sendall(whole[:cut])
    with socket.create_connection(door(node), timeout=20) as connection:
        connection.sendall(b"GET /mq")
    with Web(node, "gone") as web:
        web.say(PONG)  # which is the server's to say: told, and closed on
        assert web.packet().kind == 14
        assert web.closed() == CloseReason.NORMAL_CLOSURE
