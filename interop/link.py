"""DNP3 link frames by hand."""

import struct

from carriers import frame_bytes


def crc(data):
    """CRC-16/DNP."""
    value = 0
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0xA6BC if value & 1 else 0)
    return struct.pack("<H", value ^ 0xFFFF)


assert crc(b"123456789") == b"\x82\xea"


def frame(control, destination, source, user=b""):
    head = struct.pack("<BBBBHH", 5, 0x64, 5 + len(user), control, destination, source)
    blocks = [user[at : at + 16] for at in range(0, len(user), 16)]
    return head + crc(head) + b"".join(block + crc(block) for block in blocks)


class Frame:
    """A link frame that was checked."""

    def __init__(self, data):
        self.data, (self.control, self.destination, self.source) = data, struct.unpack("<BHH", data[3:8])
        assert data[:2] == b"\x05\x64" and crc(data[:8]) == data[8:10], data.hex()
        self.user, rest = b"", data[10:]
        while rest:
            length = min(18, len(rest))
            block, check = rest[: length - 2], rest[length - 2 : length]
            assert crc(block) == check, data.hex()
            self.user, rest = self.user + block, rest[length:]


def take_frames(buffer):
    """Takes the whole frames off the front of a buffer."""
    found = []
    while len(buffer) >= 10 and len(buffer) >= frame_bytes(buffer):
        length = frame_bytes(buffer)
        found.append(Frame(bytes(buffer[:length])))
        del buffer[:length]
    return found
