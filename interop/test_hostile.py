"""Devices that misbehave beside one that does not."""

import random
import socket
import threading
import time

import pytest
from bus import Sub
from node import Device
from processes import Peer
from waiting import until


class BadDevice:
    """Listens on a free port and gives every connection to `serve`."""

    def __init__(self, serve):
        self.serve, self.connections = serve, 0
        self.over = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while not self.over.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection):
        with connection:
            try:
                self.serve(connection, self.over)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        self.listener.close()


def garbage(connection, over):
    """Random bytes, with the start bytes of frames among them, as fast as they are taken for a while."""
    source = random.Random(1815)
    for _ in range(2000):
        if over.is_set():
            return
        connection.sendall(source.choice([b"", b"\x05\x64", b"\x05\x64\x05\x44"]) + source.randbytes(97))
        over.wait(0.005)


def silence(connection, over):
    """Takes everything and never answers."""
    connection.settimeout(0.2)
    while not over.is_set():
        try:
            if not connection.recv(4096):
                return
        except TimeoutError:
            continue


def dribble(connection, over):
    """One byte at a time of a frame that never ends."""
    for byte in b"\x05\x64\xff\x44\x01\x00\x0a\x00" + bytes(10_000):
        if over.wait(0.05):
            return
        connection.sendall(bytes([byte]))


def closing(connection, over):
    """Ends every connection at once."""


class Mute:
    """Passes a connection on to `target` until it falls silent, which leaves the connection open."""

    def __init__(self, target):
        host, port = target.rsplit(":", 1)
        self.target, self.silent = (host, int(port)), threading.Event()
        self.bad = BadDevice(self.serve)
        self.address = self.bad.address

    def serve(self, connection, over):
        with socket.create_connection(self.target) as device:
            ends = [(connection, device), (device, connection)]
            passing = [threading.Thread(target=self._pass, args=one, daemon=True) for one in ends]
            for thread in passing:
                thread.start()
            for thread in passing:
                thread.join()

    def _pass(self, source, sink):
        try:
            while data := source.recv(65536):
                if not self.silent.is_set():
                    sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def test_a_device_that_falls_silent_is_told_and_comes_back(outstation, start_node):
    mute = Mute(outstation.address)
    with mute.bad, Peer("opendnp3_outstation") as other_peer:
        types = ["binary", "analog"]
        device, other = Device("silent", mute.address, types=types), Device("other", other_peer.address, types=types)
        node = start_node(device, other)
        for one in (device, other):
            node.wait_value(one.point("analog", 1), v=0, q="good")
        with Sub(node, device.health("state"), f"{other.topic}/#") as subscriber:
            mute.silent.set()
            value = node.wait_value(device.point("analog", 1), v=0, q="bad")
            assert value["why"] == ["away"], value
            subscriber.wait(device.health("state"), v="away")
            outstation.do("update analog 1 5")  # told by nobody until the device is back
            other_peer.do("update analog 1 6")
            subscriber.wait(other.point("analog", 1), v=6, q="good", seconds=3)
            mute.silent.clear()
            node.wait_value(device.point("analog", 1), v=5, q="good", seconds=40)
            subscriber.wait(device.health("state"), v="online", retained=False)
            bad = [body for _, topic, body in subscriber.messages() if topic == other.point("analog", 1)]
            assert {body["q"] for body in bad} == {"good"}, bad


@pytest.mark.parametrize("serve", [garbage, silence, dribble, closing], ids=lambda serve: serve.__name__)
def test_a_bad_device_disturbs_no_good_one(start_node, serve):
    with Peer("opendnp3_outstation") as good_peer, BadDevice(serve) as bad_peer:
        good, bad = Device("good", good_peer.address), Device("bad", bad_peer.address)
        node = start_node(good, bad)
        node.wait_state(good, "online")
        until(lambda: bad_peer.connections, "the node connects to the bad device")
        with Sub(node, f"{good.topic}/#", bad.health("state")) as subscriber:
            value = node.wait_value(bad.point("binary", 0), q="bad")
            assert value["why"], value
            worst = 0.0
            for number in range(1, 31):
                sent = time.monotonic()
                good_peer.do(f"update analog 1 {number}")
                subscriber.wait(good.point("analog", 1), v=number, q="good", seconds=5)
                worst = max(worst, time.monotonic() - sent)
            topic = bad.health("state")
            states = until(lambda: [one[2] for one in subscriber.messages() if one[1] == topic], "a state is told")
            assert "online" not in str(states[-1]), states
        print(f"measured: {serve.__name__}: a change of the good device took {worst * 1000:.0f} ms at worst")
        assert worst < 3
        assert node.get(good.point("binary", 0))["q"] == "good"
        assert node.health()["status"] in ("ok", "degraded")
    node.alive()
