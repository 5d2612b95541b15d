"""A node's ends: asked to stop under load, or unable to start."""

import json
import subprocess
import time
from pathlib import Path

from bus import Paho, Sub
from node import BINARY, Device, tieline
from processes import Peer
from waiting import until


def test_stops_at_once_under_load(start_node):
    with Peer("opendnp3_outstation") as peer:
        device = Device("relay1", peer.address)
        node = start_node(device)
        node.wait_state(device, "online")
        live = subprocess.Popen(["curl", "-sN", f"http://{node.http}/v1/live?filter=%23"], stdout=subprocess.PIPE)
        with Sub(node, "#"), Paho(node) as load:
            for number in range(20_000):
                load.client.publish(f"load/{number % 100}", json.dumps({"v": number}), number % 2)
            until(lambda: load.acknowledged.qsize() > 100, "the load is under way")
            started = time.monotonic()
            assert node.process.stop() == 0, node.process.said()
            took = time.monotonic() - started
        live.kill()
        live.wait()
    print(f"measured: a node under load stopped in {took:.1f} s")
    assert took < 5


def refused(*words):
    """Starts a node that cannot start; what it says."""
    started = time.monotonic()
    done = tieline("run", *words, check=False)
    assert done.returncode == 1 and time.monotonic() - started < 5, (done.returncode, done.stderr)
    assert done.stdout == ""
    return done.stderr


def test_a_second_node_on_one_folder_is_refused(start_node):
    node = start_node()
    told = refused("--data", node.data, "--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0")
    assert str(node.data) in told and "another node uses it" in told
    for change in (Path.unlink, Path.touch):  # whatever becomes of the file that says so
        change(node.data / "lock")
        told = refused("--data", node.data, "--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0")
        assert "another node uses it" in told
    node.alive()


def test_an_address_in_use_is_named(start_node, tmp_path):
    node = start_node()
    other = tmp_path / "other"
    assert node.http in refused("--data", other, "--http", node.http, "--mqtt", "127.0.0.1:0")
    assert node.mqtt in refused("--data", other, "--http", "127.0.0.1:0", "--mqtt", node.mqtt)
    listener = f"""[device.d]
protocol = "dnp3"
listen = "{node.http}"
points = "d.csv"
dnp3.outstation = 10
"""
    (tmp_path / "d.toml").write_text(listener)
    (tmp_path / "d.csv").write_text(Device("d", "").csv())
    words = ["--config", tmp_path / "d.toml", "--data", other, "--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0"]
    assert node.http in refused(*words)
    assert BINARY.exists() and node.alive()
