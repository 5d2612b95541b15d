"""What topics cost: the memory of a node with many of them, and of one that sends all of them to a subscriber."""

import struct
import time
from pathlib import Path

from bus import connect_packet, raw, read_packet, varint
from node import Node

TOPICS = 300_000
PAYLOAD = 1024


def resident(node, key="VmRSS"):
    """Bytes that the process has in memory, or has had (VmHWM)."""
    status = Path(f"/proc/{node.process.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(key)).split()[1]) * 1024


def packet(kind, body):
    return bytes([kind]) + varint(len(body)) + body


def value(number):
    """A retained PUBLISH of QoS 0; all are of one length."""
    topic = f"site/{number // 100:05}/bay/{number:07}".encode()
    return packet(0x31, struct.pack("!H", len(topic)) + topic + f"{number:08}".encode() * (PAYLOAD // 8))


def client(node, name):
    connection = raw(node)
    connection.settimeout(120)
    connection.sendall(connect_packet(name=name))
    assert read_packet(connection) == b"\0\0"
    return connection


def subscribe(connection):
    connection.sendall(packet(0x82, b"\0\1\0\1#\0"))


def test_a_topic_of_a_kilobyte_takes_little_more(tmp_path):
    # The ledger has batches of its own, of which some are on their way: not what is measured.
    more = '[history]\nenabled = false\n[mqtt]\ndurability = "memory"\n'
    with Node(tmp_path, more=more) as node:
        before = resident(node)
        with client(node, b"writer") as writer:
            for start in range(0, TOPICS, 1000):
                writer.sendall(b"".join(value(number) for number in range(start, start + 1000)))
            writer.sendall(b"\xc0\0")
            assert read_packet(writer) == b""
        stored = resident(node)
        # A million in 1.4 GB.
        each = (stored - before) / TOPICS
        assert each <= 1400, f"{each:.0f} bytes a topic"
        Path(f"/proc/{node.process.process.pid}/clear_refs").write_text("5")
        with client(node, b"stalled") as stalled:
            subscribe(stalled)
            with client(node, b"reader") as reader:
                subscribe(reader)
                due = TOPICS * len(value(0)) + len(packet(0x90, b"\0\1\0"))
                began = time.monotonic()
                while due > 0:
                    data = reader.recv(1 << 20)
                    assert data, "the connection ended"
                    due -= len(data)
                assert due == 0
                print(f"{each:.0f} bytes a topic; all of them sent in {time.monotonic() - began:.1f} s")
        growth = resident(node, "VmHWM") - stored
        # The snapshot is a place in the tree, for who reads and for who does not; a value that is sent gets a count of its
        # owners, 32 bytes.
        assert growth <= 32 * TOPICS + (16 << 20), f"{growth} bytes for two subscribers to all"
