"""Sites and their centre: nodes over a real nats-server, and what they are waited for."""

import json
import subprocess

from nats_peer import SERVER
from node import Node
from simulated import SimulatedDevice
from waiting import until


class Server:
    """A nats-server at a free port, which it keeps over restarts."""

    def __init__(self, folder, config=None, address="127.0.0.1"):
        self.folder, self.address, self.port, self.more = folder, address, -1, []
        if config is not None:
            (folder / "nats.conf").write_text(config)
            self.more = ["-c", str(folder / "nats.conf")]
        self.start()

    def start(self):
        words = [SERVER, *self.more, "-a", self.address, "-p", str(self.port), "--ports_file_dir", str(self.folder)]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ports = self.folder / f"nats-server_{self.process.pid}.ports"

        def port():
            try:
                return int(json.loads(ports.read_text())["nats"][0].rsplit(":", 1)[1])
            except (OSError, ValueError, KeyError):
                return None

        self.port = until(port, "the server has no port")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def table(self):
        return f'[fabric]\nservers = ["nats://127.0.0.1:{self.port}"]\n'


def folder(path, name):
    (path / name).mkdir()
    return path / name


def site_of(path, server, name, more=""):
    return Node(folder(path, name), more=f'{server.table()}[site]\nname = "{name}"\n{more}')


ROOM = [("valve", "float", {"value": "5", "writable": "true", "min": "0", "max": "100"}), ("level", "float", {"value": "1"})]


def plant_of(path, server, name, more=""):
    """A site with a device that can be commanded."""
    device = SimulatedDevice("room", ROOM, poll="100ms")
    return Node(folder(path, name), device, more=f'{server.table()}[site]\nname = "{name}"\n{more}')


def centre_of(path, server, more=""):
    return Node(folder(path, "centre"), more=f'{server.table()}[centre]\nsilence = "3s"\n{more}')


def restart(node):
    """`kill -9`, and the same node again."""
    node.process.kill()
    node.start()


class Publisher:
    """Publishes points of which no two are equal; what was acknowledged is stored at the site."""

    def __init__(self, topics=3):
        self.topics = [f"plant/{number}/power" for number in range(topics)]
        self.values = {topic: [] for topic in self.topics}
        self.next = 0

    def publish(self, site, count):
        for _ in range(count):
            self.next += 1
            topic = self.topics[self.next % len(self.topics)]
            status, _, answer = site.set(topic, str(self.next))
            assert status in (200, 201), answer
            self.values[topic].append(self.next)


def values(node, topic):
    return [row["v"] for row in node.history(topic)]


def wait_for_all(centre, publisher, site="north", seconds=20.0):
    """Each value once and in order, as the oracle has them."""
    for topic, expected in publisher.values.items():
        there = f"sites/{site}/{topic}"

        def says():
            return f"{there}: {len(values(centre, there))} of {len(expected)}\n{centre.process.said()}"

        until(lambda: len(values(centre, there)) >= len(expected), says, seconds)
        assert values(centre, there) == expected


def row_of(centre, site="north"):
    sites = centre.request("/v1/sites")[1]["sites"]
    return next((row for row in sites if row["name"] == site), None)


def wait_for_site(centre, state, site="north"):
    def row():
        row = row_of(centre, site)
        return row if row and row["state"] == state else None

    return until(row, lambda: f"{row_of(centre, site)}\n{centre.process.said()}")


def wait_for_samples(centre, count):
    """Waits until so many samples were stored since the start of the centre; never more."""

    def is_so():
        # The list of sites is made again each half second.
        samples = (row_of(centre) or {"samples": 0})["samples"]
        assert samples <= count
        return samples == count

    until(is_so, lambda: f"{row_of(centre)}\n{centre.process.said()}")


def wait_for_clock(centre, site="north"):
    """A site takes no call before it knows the clock of its centre."""
    wait_for_site(centre, "up", site)
    until(lambda: "clock_offset_s" in row_of(centre, site), lambda: f"{row_of(centre, site)}")
