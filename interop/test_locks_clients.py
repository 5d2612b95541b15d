"""Locks of sessions with the client libraries: one program has a lock, it is kept over reconnections, and what depends on it is refused without it."""

import asyncio
import json
import subprocess
import threading

import paho.mqtt.client as mqtt
import pytest
import typescript
from processes import HERE, Lines
from test_access import Guarded
from test_edges import Cut
from tieline.client import Denied, Refused, Unreachable
from tieline.locks import Locks
from waiting import until


class Program:
    """A client with its locks."""

    def __init__(self, port, name, expiry=60, user=None, **options):
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5, reconnect_on_failure=True)
        self.client.reconnect_delay_set(0.05, 0.1)
        if user:
            self.client.username_pw_set(user, f"password-{user}")
        self.locks = Locks(self.client, **options)
        properties = mqtt.Properties(mqtt.PacketTypes.CONNECT)
        properties.SessionExpiryInterval = expiry
        self.client.connect("127.0.0.1", port, properties=properties, clean_start=False)
        self.client.loop_start()

    def __enter__(self):
        return self.locks

    def __exit__(self, *_):
        self.client.disconnect()
        self.client.loop_stop()


def held(node):
    return {lock["name"]: (lock.get("client"), lock["waiting"]) for lock in node.request("/v1/locks")[1]["locks"]}


def test_one_has_a_lock_and_the_next_waits(start_node):
    node = start_node()
    with Program(node.mqtt_port, "one") as one, Program(node.mqtt_port, "two") as two:
        with one.hold("plant/writer") as lock:
            lock.publish("plant/mode", "auto", retain=True)
            assert node.get("plant/mode") == "auto" and lock.is_held and held(node) == {"plant/writer": ("one", 0)}
            with pytest.raises(Refused) as refused:
                two.take("plant/writer", wait="0s")
            assert refused.value.reason == "held"
            with pytest.raises(Refused, match="already"):
                one.take("plant/writer")
            got = []
            waiter = threading.Thread(target=lambda: got.append(two.take("plant/writer", wait="30s")))
            waiter.start()
            until(lambda: held(node) == {"plant/writer": ("one", 1)}, lambda: held(node))
        waiter.join(30)
        assert got[0].number > lock.number and not lock.is_held
        with pytest.raises(Refused, match="does not have the lock"):
            lock.publish("plant/mode", "late", retain=True)
        got[0].release()
        got[0].release()
        until(lambda: held(node) == {}, lambda: held(node))
        with pytest.raises(Refused, match="lock is") as refused:
            one.take("plant/+")
        assert refused.value.reason == "malformed" and node.get("plant/mode") == "auto"


def test_blocks_of_asyncio_have_locks(start_node):
    node = start_node()
    with Program(node.mqtt_port, "one") as one, Program(node.mqtt_port, "two") as two:

        async def run():
            async with one.hold("a") as lock, two.hold("b"):
                await asyncio.to_thread(lock.publish, "plant/mode", b"auto", retain=True)
                assert set(held(node)) == {"a", "b"}
            assert held(node) == {}
            async with one.hold("a"):
                waiting = asyncio.ensure_future(two.hold("a").__aenter__())
                while held(node) != {"a": ("one", 1)}:
                    await asyncio.sleep(0.01)
                waiting.cancel()
                while held(node) != {"a": ("one", 0)}:
                    await asyncio.sleep(0.01)
            assert held(node) == {}

        asyncio.run(run())


def test_a_lock_is_kept_over_a_link_that_breaks_and_lost_where_another_had_it(start_node):
    node = start_node()
    with Cut() as link:
        link.target, link.is_cut = node.mqtt_port, False
        with Program(int(link.address.rsplit(":", 1)[1]), "one") as one, Program(node.mqtt_port, "two") as two:
            lost = []
            kept, gone, released = (one.take(name, on_lost=lost.append) for name in ("kept", "gone", "released"))
            link.cut()
            until(lambda: not kept.is_held, "it knows that the link is cut")
            one.timeout = 0.1
            with pytest.raises(Unreachable):
                one.take("other")
            one.timeout = 30
            released.release()
            assert node.request("/v1/locks/release", {"lock": "gone"})[0] == 200
            other = two.take("gone", wait="10s")
            link.mend()
            until(lambda: kept.is_held and lost, lambda: f"{kept.is_held} {lost}", 30)
            assert lost == [gone] and gone.lost and not gone.is_held and kept.lost is None
            kept.publish("plant/mode", "auto", retain=True)
            until(lambda: held(node) == {"kept": ("one", 0), "gone": ("two", 0)}, lambda: held(node))
            gone.release()
            other.release()
            kept.release()


def test_after_a_restart_nobody_has_a_lock(start_node):
    node = start_node()
    http, address = node.http, node.mqtt
    with Program(node.mqtt_port, "one") as one:
        lost = []
        lock = one.take("plant/writer", on_lost=lost.append)
        node.process.stop()
        node.start(http=http, mqtt=address)
        until(lambda: lost == [lock], lambda: f"{lock.lost}", 30)
        until(lambda: held(node) == {}, lambda: held(node))
        with one.hold("plant/writer", wait="10s") as again:
            assert again.number > lock.number


def test_who_may_not_have_a_lock(tmp_path):
    with Guarded(tmp_path) as node, Program(node.mqtt_port, "anna-1", user="anna", reply="site/anna/reply") as anna:
        with pytest.raises(Denied):
            anna.take("plant/writer")


PEER = HERE / "peers" / "locks.mjs"
has_typescript = pytest.mark.skipif(not typescript.are_installed(), reason="the TypeScript packages are not installed")


@pytest.fixture(scope="module")
def built():
    typescript.build_client()


def run(*words):
    done = subprocess.run(["node", PEER, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == "ok\n", done.stdout + done.stderr


@has_typescript
def test_typescript_has_locks(start_node, built):
    node = start_node()
    run(node.mqtt)
    assert held(node) == {} and node.get("plant/mode") == "auto"


@has_typescript
def test_typescript_keeps_locks_over_a_link_that_breaks(start_node, built):
    node = start_node()
    with Cut() as link, Program(node.mqtt_port, "two") as two:
        link.target, link.is_cut = node.mqtt_port, False
        peer = Lines(["node", PEER, link.address.removeprefix("mqtt://"), "kept", node.http])
        said = lambda: [json.loads(line) for line in list(peer.lines)]
        until(lambda: said() == [{"held": ["stays", "goes"]}], peer.said, 30)
        link.cut()
        until(lambda: {"away": True} in said(), peer.said, 30)
        assert node.request("/v1/locks/release", {"lock": "goes"})[0] == 200
        other = two.take("goes", wait="10s")
        link.mend()
        until(lambda: len(said()) == 4, peer.said, 30)
        assert {"lost": "goes"} in said() and {"held": ["stays"], "mode": "auto"} in said(), said()
        assert peer.process.wait(30) == 0
        other.release()


@has_typescript
def test_typescript_says_who_may_not_have_a_lock(tmp_path, built):
    with Guarded(tmp_path) as node:
        run(node.mqtt, "denied")
