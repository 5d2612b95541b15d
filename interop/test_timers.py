"""What the bus sends by timer comes when it is due: quiet, and while the node delivers to many besides."""

import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from bus import Sub, connect_packet, raw
from node import Node
from waiting import until

VIEWS, TOPICS = 200, 5
# A timer that nothing wakes the bus for comes up to ten seconds late. How late the others are is printed, and compared by hand.
LATE_MAX = 1.0
# A process that only sleeps: how late it wakes is the floor, in the same moments on the same machine.
SLEEPER = """
import json, select, sys, time
wakes = []
while True:
    began = time.time()
    over = select.select([sys.stdin], [], [], 0.005)[0]
    now = time.time()
    wakes.append((now, max(0, now - began - 0.005)))
    if over:
        break
json.dump(wakes, sys.stdout)
"""
STALL = 0.02
READERS, BURST, BURST_EVERY = 10, 50, 0.01


def views(seed):
    """Delays of the views in seconds, and their configuration."""
    chance = random.Random(seed)
    delays = [chance.randrange(20, 2000) for _ in range(VIEWS)]
    tables = [
        f'[[view]]\nname = "v{view}"\nfrom = "in/{view}/+"\nto = "out/{view}/{{1}}"\ndelay = "{delay}ms"\n'
        for view, delay in enumerate(delays)
    ]
    return [delay / 1000 for delay in delays], "".join(tables)


class Load:
    """Bursts of short messages that several clients read."""

    def __init__(self, node):
        words = ["mosquitto_sub", "-h", "127.0.0.1", "-p", str(node.mqtt_port), "-t", "load/#", "-F", " "]
        self.readers = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for _ in range(READERS)]
        self.socket, self.over = raw(node), threading.Event()
        self.socket.sendall(connect_packet(name=b"load"))
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        topics = [f"load/{number}".encode() for number in range(BURST)]
        bodies = [struct.pack("!H", len(topic)) + topic + b"x" * 50 for topic in topics]
        burst = b"".join(bytes([0x30, len(body)]) + body for body in bodies)
        while not self.over.wait(BURST_EVERY):
            self.socket.sendall(burst)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.socket.close()
        for reader in self.readers:
            reader.kill()
            reader.wait()


class Idle:
    """No load."""

    def __init__(self, _node):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Sleeper:
    """Says when the whole machine stood still: then nobody could be in time."""

    def __init__(self):
        words = [sys.executable, "-c", SLEEPER]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def stop(self):
        self.wakes = json.loads(self.process.communicate(timeout=60)[0])

    def late(self):
        return sorted(late for _, late in self.wakes)

    def stalled(self, start, end):
        """The seconds between two moments in which the machine stood still."""
        stalls = ((woke - late, woke) for woke, late in self.wakes if late > STALL)
        return sum(max(0, min(end, woke) - max(start, due)) for due, woke in stalls)


def moments(node, delays, chance):
    """When each of the delayed values was due, and when it came. The reader is a process of its own, which nothing in this one delays."""
    sent, pace = {}, threading.Event()
    places = [(view, topic) for view in range(VIEWS) for topic in range(TOPICS)]
    chance.shuffle(places)
    with Sub(node, "out/#", more=("-F", "came %U %t")) as reader, raw(node) as writer:
        writer.sendall(connect_packet(name=b"writer"))
        # Otherwise what it publishes waits for acknowledgements of TCP, 40 ms.
        writer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for view, topic in places:
            name = f"in/{view}/{topic}".encode()
            sent[view, topic] = time.time()
            writer.sendall(bytes([0x31, 2 + len(name) + 1]) + struct.pack("!H", len(name)) + name + b"1")
            pace.wait(0.002)  # one by one, so that each has a moment of its own
        arrivals = until(lambda: arrivals_of(reader, len(places)), reader.said, 30)
    came = {topic: float(at) for at, topic in arrivals}
    return [(sent[view, topic] + delays[view], came[f"out/{view}/{topic}"]) for view, topic in places]


def arrivals_of(reader, count):
    """Time and topic of each message, once all are there."""
    lines = [line.split()[1:] for line in list(reader.lines) if line.startswith("came ")]
    return lines if len(lines) >= count else None


def percentiles(late):
    p50, p99, most = (late[int(len(late) * part)] * 1000 for part in (0.5, 0.99, 0.999))
    return f"p50 {p50:.2f} ms, p99 {p99:.2f} ms, the last {most:.2f} ms"


def cpu_seconds(node):
    """What the node has used of the processor."""
    words = Path(f"/proc/{node.process.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("load", [Idle, Load])
def test_what_is_due_comes_when_it_is_due(tmp_path, load):
    seed = random.randrange(1 << 32)
    delays, more = views(seed)
    with Node(tmp_path, more=more) as node, load(node):
        sleeper = Sleeper()
        before, cpu = time.monotonic(), cpu_seconds(node)
        timers = moments(node, delays, random.Random(seed))
        share = (cpu_seconds(node) - cpu) / (time.monotonic() - before)
        sleeper.stop()
    late = sorted(came - due for due, came in timers)
    print(
        f"measured: {len(late)} timers, {load.__name__.lower()} (the node takes {share:.0%} of a core): {percentiles(late)} late; "
        f"a process that only sleeps: {percentiles(sleeper.late())}; seed {seed}"
    )
    by_the_node = sorted(came - due - sleeper.stalled(due, came) for due, came in timers)
    assert by_the_node[-1] < LATE_MAX, f"{by_the_node[-5:]}, {percentiles(late)}, seed {seed}"
    assert late[0] > 0, f"before its time: {late[:5]}, seed {seed}"
