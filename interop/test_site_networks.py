"""Sites in network namespaces, a centre and a real nats-server: whatever happens to links, processes and disks, each point once."""

import signal
from contextlib import contextmanager

import pytest
from nats_peer import SERVER
from networks import Host, may_be_made
from node import Node
from site_nodes import Publisher, Server, centre_of, folder, row_of, wait_for_all, wait_for_samples, wait_for_site
from test_disk_full import fill, small_disk  # noqa: F401 (a fixture)
from waiting import until

pytestmark = [
    pytest.mark.skipif(SERVER is None, reason="no nats-server: .ci/nats builds it"),
    pytest.mark.skipif(not may_be_made(), reason="network namespaces may not be made here"),
]


@pytest.fixture
def hosts():
    hosts = [Host(), Host()]
    yield hosts
    for host in hosts:
        host.remove()


@pytest.fixture
def server(tmp_path):
    server = Server(folder(tmp_path, "nats"), address="0.0.0.0")
    yield server
    server.kill()


class Site:
    """A site in a namespace, and what was published there."""

    def __init__(self, path, host, server, name):
        self.host, self.name, self.publisher = host, name, Publisher()
        table = f'[fabric]\nservers = ["nats://{host.near}:{server.port}"]\n'
        with host:
            self.node = Node(folder(path, name), more=f'{table}[site]\nname = "{name}"\n')

    def publish(self, count):
        with self.host:
            self.publisher.publish(self.node, count)

    def wait_state(self, state):
        def is_so():
            with self.host:
                return self.node.request("/v1/status")[1]["site"]["state"] == state

        until(is_so, lambda: f"{self.name} {state}\n{self.node.process.said()}", 40.0)

    def wait_at(self, centre):
        wait_for_all(centre, self.publisher, self.name, 40.0)


@contextmanager
def frozen(process):
    """It runs no more, and its connections stay."""
    process.send_signal(signal.SIGSTOP)
    yield
    process.send_signal(signal.SIGCONT)


@contextmanager
def north_and_south(path, hosts, server, centre):
    with centre:
        sites = [Site(path, host, server, name) for host, name in zip(hosts, ("north", "south"), strict=True)]
        with sites[0].node, sites[1].node:
            for site in sites:
                wait_for_site(centre, "up", site.name)
                site.publish(10)
                site.wait_at(centre)
            yield centre, *sites


@pytest.mark.parametrize("fault", ["cut", "deaf", "mute", "moved"])
def test_a_broken_link_is_said_on_both_sides_and_loses_nothing(tmp_path, hosts, server, fault):
    with north_and_south(tmp_path, hosts, server, centre_of(tmp_path, server)) as (centre, north, south):
        north.publish(5)
        with getattr(north.host, fault)():
            north.publish(10)
            until(lambda: row_of(centre)["state"] == "away", lambda: f"{row_of(centre)}\n{centre.process.said()}", 40.0)
            north.wait_state("away")
            # The other site has a link of its own.
            south.publish(10)
            south.wait_at(centre)
            assert row_of(centre, "south")["state"] == "up"
        north.publish(5)
        for site in (north, south):
            site.wait_at(centre)
            site.wait_state("up")
            assert wait_for_site(centre, "up", site.name)["lost"] == 0
        wait_for_samples(centre, 30)


@pytest.mark.parametrize("who", ["server", "centre", "site"])
def test_what_is_frozen_goes_on_and_loses_nothing(tmp_path, hosts, server, who):
    with north_and_south(tmp_path, hosts, server, centre_of(tmp_path, server)) as (centre, north, south):
        process = {"server": server.process, "centre": centre.process.process, "site": north.node.process.process}[who]
        north.publish(5)
        with frozen(process):
            south.publish(10)
            if who == "site":
                until(lambda: row_of(centre)["state"] == "away", lambda: f"{row_of(centre)}\n{centre.process.said()}", 40.0)
                south.wait_at(centre)
            else:
                north.publish(10)
                south.wait_state("away")
                north.wait_state("away")
        north.publish(5)
        for site in (north, south):
            site.wait_at(centre)
            site.wait_state("up")
            assert wait_for_site(centre, "up", site.name)["lost"] == 0
        wait_for_samples(centre, 20 if who == "site" else 30)


def test_a_centre_whose_disk_is_full_acknowledges_nothing(tmp_path, hosts, server, small_disk):  # noqa: F811 (a fixture)
    centre = Node(folder(tmp_path, "centre"), more=f'{server.table()}[centre]\nsilence = "3s"\n', data=small_disk / "data")
    ballast = small_disk / "ballast"
    with north_and_south(tmp_path, hosts, server, centre) as (centre, north, south):
        fill(ballast)

        def is_kept_at_the_site():
            # What still fits into the last page of the journal may be acknowledged.
            north.publish(50)
            with north.host:
                waiting = north.node.request("/v1/status")[1]["site"]["waiting"]
            return waiting > 0 and centre.health()["status"] != "ok"

        until(is_kept_at_the_site, lambda: f"{centre.health()}\n{centre.process.said()}", 40.0)
        # An acknowledged value that had no place on the disk would be lost now.
        centre.process.kill()
        ballast.unlink()
        centre.start()
        south.publish(5)
        for site in (north, south):
            site.wait_at(centre)
        until(lambda: centre.health()["status"] == "ok", lambda: f"{centre.health()}", 40.0)
