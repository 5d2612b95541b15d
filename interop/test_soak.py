"""The demonstration substation through kills, a node that stops, a hung disk and clients that do not read, while all that its
console says is held each second against what the node knows, and all that was acknowledged has to come.

Without a flag each fault comes once; `--soak 30` goes on for 30 minutes, with faults by a seed that it prints."""

import json
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
from assertions import BACK_S, Assertions, Outages
from bus import Paho
from disk import Disk
from node import Demo
from persistent import Publisher, Subscriber, come_back, gone
from processes import Lines
from test_slow import Raw
from truth import Truth
from waiting import until

CONSOLE = Path(__file__).parent.parent / "console"
SLOW_CLIENTS = 10
MEMORY_MAX_BYTES = 400 << 20
OUTAGE_S = 9
HUNG_DISK_S = 10
OLD = "2020-01-02T03:04:05.678Z"


class Watch(Lines):
    """The console in Chromium: each line is all that one view says."""

    def __init__(self, node, *filters):
        settings = {**os.environ, "TIELINE_URL": f"http://{node.http}"}
        super().__init__(["node", "test/watch.mjs", *filters], cwd=CONSOLE, env=settings)
        self.taken = 0

    def take(self):
        """What it said since the last time."""
        lines = self.lines[self.taken :]
        self.taken += len(lines)
        return [json.loads(line) for line in lines]


class Load:
    """Publishers whose messages are counted, values of every quality, and clients that do not read."""

    def __init__(self, node):
        self.node, self.over = node, threading.Event()
        self.publishers, self.subscribers = [Publisher(0, node)], [Subscriber(0, node)]
        self.slow = []
        self.values = Paho(node, name="values")
        self.count = 0

    @property
    def clients(self):
        return [one.client for one in self.publishers + self.subscribers]

    def step(self):
        """A tenth of a second of it."""
        self.count += 1
        points = {
            "soak/good": {"v": self.count, "q": "good"},
            "soak/group/uncertain": {"v": self.count / 8, "q": "uncertain", "t": OLD},
            "soak/group/bad": {"v": self.count % 2 == 0, "q": "bad", "why": ["sensor broken"], "t": OLD},
            "soak/turns": {"v": 1, "q": ("good", "uncertain", "bad")[self.count // 40 % 3], "t": OLD},
        }
        for topic, value in points.items():
            self.values.client.publish(topic, json.dumps(value), 0, True)
        self.values.client.publish("soak/none", f"text {self.count}", 0, True)
        for one in self.publishers:
            one.collect()
            if len(one.waiting) < 100:
                one.push(2)

    def start_slow(self):
        """Clients that subscribe to everything and read nothing."""
        for one in self.slow:
            one.socket.close()
        self.slow = [Raw(self.node.mqtt, f"slow{number}") for number in range(SLOW_CLIENTS)]
        for one in self.slow:
            one.subscribe("#")

    def connected(self):
        come_back(self.clients, self.node)
        self.values = Paho(self.node, name="values")
        self.start_slow()

    def cut(self):
        gone(self.clients)
        self.values.client.loop_stop()


class Soak:
    """One node, one console, and what happens to them."""

    def __init__(self, node, disk):
        self.node, self.disk = node, disk
        self.began = time.time()
        self.load = Load(node)
        self.load.start_slow()
        self.truth = Truth(node)
        self.outages = Outages()
        self.watch = Watch(node, "demo/#", "soak/#")
        self.assertions = Assertions(self.truth, self.outages, self.began)
        until(lambda: len(self.watch.lines) > 10, self.watch.said, 60)
        self.watch.take()
        self.assertions.began = time.time()

    def run(self, seconds, load=True):
        """Lets time pass, and looks at every page."""
        end = time.monotonic() + seconds
        tick = threading.Event()
        while time.monotonic() < end:
            if load:
                self.load.step()
            tick.wait(0.1)
            self.look()

    def look(self):
        self.truth.mark()
        self.assertions.take(self.watch.take())
        assert self.watch.process.poll() is None, self.watch.said()

    def stop_and_go_on(self):
        """The process stands still, its sockets open."""
        self.outages.begin()
        self.node.process.process.send_signal(signal.SIGSTOP)
        self.run(OUTAGE_S, load=False)
        self.outages.end()
        self.node.process.process.send_signal(signal.SIGCONT)
        self.run(BACK_S)

    def kill(self):
        self.outages.begin()
        self.node.process.kill()
        self.load.cut()
        self.run(OUTAGE_S, load=False)
        self.outages.end()
        self.node.start(http=self.node.http, mqtt=self.node.mqtt)
        self.truth.client.client.loop_stop()
        self.truth.subscribe()
        self.load.connected()
        self.run(BACK_S)

    def hang_disk(self):
        """What cannot be kept is refused, and everybody is told; live values go on."""
        self.disk.hang()
        self.run(HUNG_DISK_S)
        until(lambda: self.node.health()["status"] != "ok", lambda: self.node.health(), 20)
        self.disk.answer()
        until(lambda: self.node.health()["status"] == "ok", lambda: self.node.health(), 30)
        self.run(5)

    def crowd(self):
        """New clients that do not read."""
        self.load.start_slow()
        self.run(5)

    FAULTS = (stop_and_go_on, hang_disk, kill, crowd)

    def finish(self):
        """All that was acknowledged has come."""
        load = self.load
        until(lambda: all(one.done() for one in load.publishers), lambda: [one.waiting for one in load.publishers], 60)
        wanted = {
            (f"load/{one.number}/{qos}", value)
            for one in load.publishers
            for qos, values in one.acknowledged.items()
            for value in values
            if value % 5
        }
        for one in load.subscribers:
            until(lambda: wanted <= set(one.seen), lambda: sorted(wanted - set(one.seen))[:20], 60)
        self.assertions.take(self.watch.take(), is_last=True)
        assert self.truth.memory_max < MEMORY_MAX_BYTES, self.truth.memory_max
        checked = self.assertions.checked
        print(f"measured: {sum(checked.values())} assertions of the console: {checked}")
        print(f"measured: {len(wanted)} messages acknowledged, all came; {self.truth.memory_max >> 20} MiB at most")
        assert not self.assertions.wrong, f"{len(self.assertions.wrong)} of {sum(checked.values())}:\n" + "\n".join(
            self.assertions.wrong[:20]
        )
        for what in ("counts by quality", "value, quality, reasons and time", "a node that does not answer is marked", "who does not read is late"):
            assert checked.get(what, 0) > 5, f"{what} was hardly looked at: {checked}"


@pytest.mark.skipif(not (CONSOLE / "node_modules").is_dir(), reason="the console's packages are not installed")
def test_the_console_tells_the_truth_through_faults(tmp_path, request):
    disk = Disk(tmp_path)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    end = time.monotonic() + 60 * request.config.getoption("--soak")
    with Demo(tmp_path, environment=disk.environment) as node:
        soak = Soak(node, disk)
        try:
            soak.run(5)
            for fault in Soak.FAULTS:
                fault(soak)
            while time.monotonic() < end:
                soak.run(chance.uniform(1, 20))
                chance.choice(Soak.FAULTS)(soak)
            soak.finish()
        finally:
            disk.answer()
            soak.truth.close()
            soak.watch.kill()
