"""MQTT 5 by hand over a stream: what goes over it is seen byte by byte, and nothing is read before it is asked for."""

import socket
import struct

from bus import varint


def text(words):
    """A text as MQTT writes it."""
    return struct.pack(">H", len(words.encode())) + words.encode()


def packet(first, body):
    return bytes([first]) + varint(len(body)) + body


def user_property(name, value):
    return b"\x26" + text(name) + text(value)


def connect(name, aliases_max=0):
    """CONNECT with a clean start, without keep alive."""
    properties = b"\x22" + struct.pack(">H", aliases_max) if aliases_max else b""
    return packet(0x10, text("MQTT") + b"\5\2\0\0" + varint(len(properties)) + properties + text(name))


def subscribe(topic_filter, properties=b"", number=1, qos=0):
    body = struct.pack(">H", number) + varint(len(properties)) + properties + text(topic_filter)
    return packet(0x82, body + bytes([qos]))


def unsubscribe(topic_filter, number=2):
    return packet(0xA2, struct.pack(">H", number) + b"\0" + text(topic_filter))


def publish(topic, payload, retain=False):
    return packet(0x30 | retain, text(topic) + b"\0" + payload)


PING, PONG, GOODBYE = b"\xc0\0", b"\xd0\0", b"\xe0\0"


class Packet:
    """One packet: its first byte, its body, and how many bytes it took on the stream."""

    def __init__(self, first, body, data):
        self.kind, self.first, self.body, self.data = first >> 4, first, body, data

    def publish(self):
        """(topic, payload, alias, marked as a delta) of a PUBLISH of QoS 0."""
        assert self.first & 0xF6 == 0x30, hex(self.first)
        length = struct.unpack(">H", self.body[:2])[0]
        topic, rest = self.body[2 : 2 + length].decode(), self.body[2 + length :]
        properties, payload = rest[1 : 1 + rest[0]], rest[1 + rest[0] :]
        assert rest[0] < 128
        mark = user_property("tieline-delta", "1")
        marked = properties.endswith(mark)
        properties = properties.removesuffix(mark)
        assert not properties or (len(properties) == 3 and properties[0] == 0x23), properties
        return topic, payload, struct.unpack(">H", properties[1:])[0] if properties else None, marked


def take(buffer):
    """Takes the first whole packet out of a buffer; None while there is none."""
    length, at = 0, 1
    while True:
        if at >= len(buffer):
            return None
        byte = buffer[at]
        length |= (byte & 0x7F) << 7 * (at - 1)
        at += 1
        if byte < 0x80:
            break
    if len(buffer) < at + length:
        return None
    taken = Packet(buffer[0], bytes(buffer[at : at + length]), at + length)
    del buffer[: at + length]
    return taken


class Hand:
    """A client that reads one packet at a time, when it is told to."""

    def __init__(self, node, name, aliases_max=0, room=None):
        self.socket = socket.socket()
        if room:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self.socket.settimeout(20)
        self.socket.connect(("127.0.0.1", node.mqtt_port))
        self.buffer = bytearray()
        self.send(connect(name, aliases_max))
        assert self.read().kind == 2

    def send(self, data):
        self.socket.sendall(data)

    def read(self):
        while (whole := take(self.buffer)) is None:
            data = self.socket.recv(65536)
            assert data, "the connection ended"
            self.buffer += data
        return whole

    def settle(self):
        """Waits until the node has taken all that was sent."""
        self.send(PING)
        assert self.read().kind == 13

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
