"""DNP3 link frames by hand."""

import struct

from carriers import frame_octets


def crc(octets):
    """CRC-16/DNP."""
    value = 0
    for octet in octets:
        value ^= octet
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

    def __init__(self, octets):
        self.octets, (self.control, self.destination, self.source) = octets, struct.unpack("<BHH", octets[3:8])
        assert octets[:2] == b"\x05\x64" and crc(octets[:8]) == octets[8:10], octets.hex()
        self.user, rest = b"", octets[10:]
        while rest:
            length = min(18, len(rest))
            block, check = rest[: length - 2], rest[length - 2 : length]
            assert crc(block) == check, octets.hex()
            self.user, rest = self.user + block, rest[length:]


def take_frames(buffer):
    """Takes the whole frames off the front of a buffer."""
    found = []
    while len(buffer) >= 10 and len(buffer) >= frame_octets(buffer):
        length = frame_octets(buffer)
        found.append(Frame(bytes(buffer[:length])))
        del buffer[:length]
    return found
