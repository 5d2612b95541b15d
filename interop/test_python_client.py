"""The Python client: every call, on a real node, over links that break; with asyncio and without."""

import asyncio
import inspect
import signal
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest
from node import Device, OurOutstation
from processes import HERE
from simulated import SimulatedDevice
from test_access import Guarded
from test_edges import Cut
from tieline import client, sync
from waiting import until

ROOM = [("valve", "float", {"value": "5", "writable": "true", "min": "0", "max": "100"}), ("level", "float", {"value": "1"})]


@pytest.fixture
def node(start_node):
    device = SimulatedDevice("room", ROOM, poll="100ms")
    node = start_node(device)
    node.wait_state(device, "online")
    return node


def test_values_and_conditions(node):
    async def run():
        async with client.connect(node.http) as tieline:
            first = await tieline.put("plan/limit", 70, if_absent=True)
            with pytest.raises(client.Refused) as refused:
                await tieline.put("plan/limit", 71, if_absent=True)
            assert refused.value.status == 412
            second = await tieline.put("plan/limit", {"high": 80}, if_version=first)
            found = await tieline.get("plan/limit")
            assert (found.value, found.kind, found.version, found.quality) == ({"high": 80}, "json", second, None)
            await tieline.put("plan/ü raw?1%", b"\xff\0")
            assert (await tieline.get("plan/ü raw?1%")).value == b"\xff\0"
            await tieline.publish("plan/note", "words", retain=True)
            assert (await tieline.get("plan/note")).value == "words"
            assert [value.topic async for value in tieline.topics("plan/#")] == ["plan/limit", "plan/note", "plan/ü raw?1%"]
            with pytest.raises(client.Refused):
                await tieline.delete("plan/limit", if_version=first)
            await tieline.delete("plan/limit", if_version=second)
            assert await tieline.get("plan/limit") is None
            point = await tieline.get("test/room/valve")
            assert (point.value, point.quality, point.reasons, point.kind) == (5.0, "good", (), "point")
            assert abs(point.time - datetime.now(timezone.utc)) < timedelta(minutes=1)

    asyncio.run(run())


def test_pages_are_followed(node):
    with sync.connect(node.http) as tieline:
        # One retained message each would take as long as the disk takes a thousand times.
        names = [f"many/{number:04}" for number in range(1100)]
        with subprocess.Popen([sys.executable, "-c", PUBLISH, node.mqtt.rsplit(":", 1)[1]], stdin=subprocess.PIPE) as publisher:
            publisher.communicate("\n".join(names).encode())
        assert [value.topic for value in tieline.topics("many/#")] == names


PUBLISH = """
import sys
import paho.mqtt.client as paho
client = paho.Client(paho.CallbackAPIVersion.VERSION2)
client.max_inflight_messages_set(1000)
client.connect("127.0.0.1", int(sys.argv[1]))
client.loop_start()
for info in [client.publish(line.strip(), "1", 1, retain=True) for line in sys.stdin]:
    info.wait_for_publish(30)
client.disconnect()
"""


def test_what_the_node_knows(node):
    with sync.connect(f"http://{node.http}/") as tieline:
        assert tieline.status()["name"] == "test" and tieline.health()["status"] == "ok"
        assert tieline.me()["may"]["topics"] is True and tieline.sessions() == []
        (device,) = tieline.devices()
        assert tieline.device(device["topic"])["state"] == "online"
        assert [point["topic"] for point in tieline.points()] == ["test/room/valve", "test/room/level"]
        assert [point["topic"] for point in tieline.points("+/+/valve")] == ["test/room/valve"]
        with pytest.raises(sync.Refused, match="no device") as refused:
            tieline.device("no/such")
        assert refused.value.status == 404


def test_commands_say_what_became_of_them(node):
    with sync.connect(node.http) as tieline:
        done = tieline.command("test/room/valve", 40)
        assert (done.topic, done.value, done.expected) == ("test/room/valve", 40, 40.0)
        for topic, value, reason in (("test/room/valve", 500, "out_of_range"), ("test/room/level", 1, "not_writable"), ("no/such", 1, "unknown_topic")):
            with pytest.raises(sync.Refused) as refused:
                tieline.command(topic, value)
            assert refused.value.reason == reason
        phases = [entry["phase"] for entry in tieline.audit("test/room/valve")]
        assert phases == ["refused", "succeeded", "sent", "requested"]
        with pytest.raises(sync.Refused, match="mode"):
            tieline.command("test/room/valve", 1, mode="gently")


def test_a_command_whose_outcome_is_not_known_is_unknown(tmp_path, start_node):
    with OurOutstation(tmp_path) as outstation:
        device = Device("relay", outstation.address, response_timeout="20s")
        node, point = start_node(device), device.point("binary-output", 0)
        node.wait_state(device, "online")

        async def is_sent(tieline):
            return "sent" in [entry["phase"] async for entry in tieline.audit(point)]

        async def run():
            async with client.connect(node.http) as tieline:
                # The device is there, and does not answer.
                outstation.process.send_signal(signal.SIGSTOP)
                sent = asyncio.create_task(tieline.command(point, True, mode="direct", timeout=60))
                while not await is_sent(tieline):
                    await asyncio.sleep(0.01)
                node.process.kill()
                with pytest.raises(client.Unknown):
                    await sent
                with pytest.raises(client.Unreachable):
                    await tieline.command(point, False)

        try:
            asyncio.run(run())
        finally:
            outstation.process.send_signal(signal.SIGCONT)


def test_history_as_rows_and_tables(node):
    with sync.connect(node.http) as tieline:
        for number in range(20):
            tieline.publish("plant/power", {"v": number, "q": "good"}, retain=True)
        until(lambda: len(tieline.history("plant/power", last="1h").rows()) == 20, "the samples are there")
        rows = list(tieline.history("plant/power", last="1h"))
        assert [row.value for row in rows] == list(range(20)) and {row.quality for row in rows} == {"good"}
        (bucket,) = tieline.history(["plant/power", "no/such"], start=datetime.now(timezone.utc) - timedelta(hours=1), every="1d", agg="max").rows()
        assert (bucket.value, bucket.count) == (19, 20)
        for table in (tieline.history("plant/power").pandas(), tieline.history("plant/power").polars()):
            assert list(table["value"]) == list(range(20))
        assert tieline.history("plant/power").arrow().num_rows == 20
        with pytest.raises(ValueError, match="time zone"):
            tieline.history("plant/power", start=datetime(2026, 1, 1)).rows()
        stream = tieline.history_stream("plant/power", start="1h")
        assert [next(stream).value for _ in range(20)] == list(range(20))
        tieline.publish("plant/power", {"v": 20, "q": "good"}, retain=True)
        assert next(stream).value == 20
        stream.close()


def test_a_subscription_survives_the_link_and_misses_no_removal(node):
    async def run():
        states = []
        with Cut() as link:
            link.target, link.is_cut = int(node.http.rsplit(":", 1)[1]), False
            here, there = client.connect(node.http), client.connect(link.address.removeprefix("mqtt://"))
            async with here, there:
                for name, value in (("stays", 1), ("changes", 1), ("goes", 1)):
                    await here.put(f"plan/{name}", value)
                values = aiter(there.subscribe("plan/#", on_state=states.append))
                first = {(await anext(values)).topic for _ in range(3)}
                assert first == {"plan/stays", "plan/changes", "plan/goes"}
                # Whether it is there by now: a change is told while the link is.
                await here.put("plan/changes", 2)
                assert (await anext(values)).value == 2
                link.cut()
                await here.put("plan/changes", 3)
                await here.delete("plan/goes")
                nexts = asyncio.ensure_future(anext(values))
                while states[-1:] != ["away"]:
                    await asyncio.sleep(0.01)
                link.mend()
                found = await nexts
                assert (found.topic, found.value) == ("plan/changes", 3), "what did not change comes once"
                gone = await anext(values)
                assert (gone.topic, gone.is_removed, gone.quality) == ("plan/goes", True, None)
                assert states == ["live", "away", "live"]
                await here.delete("plan/stays")
                gone = await anext(values)
                assert (gone.topic, gone.is_removed) == ("plan/stays", True)
                await values.aclose()

    asyncio.run(run())


def test_a_link_that_is_silent_is_away(node, monkeypatch):
    monkeypatch.setattr("tieline.client.live.SILENCE_S", 1.5)

    async def run():
        states = []
        with Cut() as link:
            link.target, link.is_cut = int(node.http.rsplit(":", 1)[1]), False
            async with client.connect(link.address.removeprefix("mqtt://")) as there:
                values = aiter(there.subscribe("test/room/#", on_state=states.append))
                await anext(values)
                nexts = asyncio.ensure_future(anext(values))
                while states != ["live"]:
                    nexts = asyncio.ensure_future(anext(values)) if nexts.done() else nexts
                    await asyncio.sleep(0.01)
                link.hold()
                while states[-1] != "away":
                    nexts = asyncio.ensure_future(anext(values)) if nexts.done() else nexts
                    await asyncio.sleep(0.01)
                nexts.cancel()

    asyncio.run(run())


def test_who_may_what(tmp_path):
    with Guarded(tmp_path) as node:
        login = {"user": "anna", "password": "password-anna"}
        with sync.connect(node.http) as nobody, pytest.raises(sync.Denied) as denied:
            nobody.get("site/a")
        assert denied.value.status == 401
        with sync.connect(node.http, **login) as anna:
            anna.put("site/anna/a", 1)
            assert anna.get("site/anna/a").value == 1 and anna.me()["user"] == "anna"
            with pytest.raises(sync.Denied) as denied:
                anna.put("site/bert/a", 1)
            assert denied.value.status == 403
            with pytest.raises(sync.Denied):
                next(iter(sync.connect(node.http, user="anna", password="wrong").subscribe("site/#")))
        with pytest.raises(ValueError, match="go together"):
            sync.connect(node.http, user="anna")


def test_the_environment_names_the_node(node, monkeypatch):
    monkeypatch.setenv("TIELINE_HTTP", node.http)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with sync.from_env() as tieline:
        assert tieline.status()["name"] == "test"


def test_nobody_listens():
    with sync.connect("127.0.0.1:1") as tieline:
        for call in (tieline.status, lambda: tieline.put("a", 1), lambda: next(tieline.topics())):
            with pytest.raises(sync.Unreachable) as unreachable:
                call()
            assert unreachable.value.status == 0


def test_both_faces_have_the_same_calls():
    def calls(kind):
        public = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
        return {name: list(inspect.signature(call).parameters) for name, call in public.items() if callable(call)}

    assert calls(client.Node) == calls(sync.Node)
    assert set(client.__all__) == set(sync.__all__)


@pytest.mark.parametrize("part", [["-p", "tieline.client"], ["-p", "tieline.sync"], ["-m", "tieline.locks"]])
def test_types(tmp_path, part):
    options = ["--strict", "--no-warn-return-any", "--follow-imports=silent", "--disable-error-code=import-untyped", "--cache-dir", tmp_path]
    done = subprocess.run([sys.executable, "-m", "mypy", *options, *part], cwd=HERE.parent / "sdk/python", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
