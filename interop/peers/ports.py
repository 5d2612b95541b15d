"""Ports for a program that has to be told its port before it listens."""

import secrets
import socket
from pathlib import Path

# The kernel gives ports from its own range to connections and to listeners on port 0: below it, nobody gets one by chance.
LOWEST = 10_000
ABOVE = max(LOWEST + 10_000, int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]))


def free_port():
    """A port of 127.0.0.1 that is free for TCP and for UDP."""
    for _ in range(1000):
        address = ("127.0.0.1", LOWEST + secrets.randbelow(ABOVE - LOWEST))
        with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            try:
                stream.bind(address)
                datagrams.bind(address)
            except OSError:
                continue
            return address[1]
    raise OSError("no port is free")
