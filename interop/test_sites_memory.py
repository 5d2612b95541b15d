"""What a site costs its centre: memory for each of its topics, besides the newest samples of its history."""

import re
from pathlib import Path

import pytest
from nats_peer import SERVER
from node import Node
from simulated import SimulatedDevice
from site_nodes import Server, folder
from waiting import until

pytestmark = pytest.mark.skipif(SERVER is None, reason="no nats-server: .ci/nats builds it")

DEVICES, POINTS, SITES = 500, 18, 3
# 5 MB of a site.
BYTES_MAX = 5_000_000 / (DEVICES * POINTS)


@pytest.fixture
def server(tmp_path):
    server = Server(folder(tmp_path, "nats"))
    yield server
    server.kill()


def metric(node, name):
    text = node.request("/metrics")[1]
    return float(re.search(rf"^{name} (\S+)$", text, re.MULTILINE)[1])


def memory(centre):
    """Bytes that the process has in memory, without files and without the newest samples, which are bounded for all sites together."""
    status = Path(f"/proc/{centre.process.process.pid}/status").read_text()
    anonymous = int(re.search(r"^RssAnon:\s+(\d+)", status, re.MULTILINE)[1]) * 1024
    return anonymous - metric(centre, "tieline_history_memory_bytes")


def site(path, server, name):
    """Its points are read once; no topic has the name of a topic of another site."""
    points = [(f"p{number}", "float", {"value": str(number)}) for number in range(POINTS)]
    devices = [SimulatedDevice(f"{name}-{number}", points, poll="1h", list=f"{name}-0") for number in range(DEVICES)]
    return Node(folder(path, name), *devices, more=f'{server.table()}[site]\nname = "{name}"\n')


def wait_for_topics(centre, sites):
    until(lambda: metric(centre, "tieline_centre_topics") >= sites * DEVICES * POINTS, centre.process.said, 60)
    until(lambda: metric(centre, "tieline_history_stored_points_total") >= sites * DEVICES * POINTS, centre.process.said, 60)


def test_a_topic_of_a_site_takes_little_of_its_centre(tmp_path, server):
    more = f"{server.table()}[centre]\n"
    # Without transparent huge pages, where the system has them on: memory that is not used counts with them.
    with Node(folder(tmp_path, "centre"), more=more, environment={"MIMALLOC_ALLOW_THP": "0"}) as centre:
        # With the first site come threads, and their buffers.
        with site(tmp_path, server, "first"):
            wait_for_topics(centre, 1)
        before = memory(centre)
        for number in range(SITES):
            with site(tmp_path, server, f"s{number}"):
                wait_for_topics(centre, number + 2)

        def each():
            return (memory(centre) - before) / (SITES * DEVICES * POINTS)

        # What was needed while they joined goes back to the system after a while.
        until(lambda: each() <= BYTES_MAX, lambda: f"{each():.0f} bytes a topic, at most {BYTES_MAX:.0f}", 30)
        print(f"{each():.0f} bytes a topic")
