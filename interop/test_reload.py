"""Devices of other implementations that come, change and go while the node runs; those that stay notice nothing."""

import signal
import threading

import pytest
from bacnet import BacnetDevice
from bus import Sub
from carriers import Gate, Gateway, accepting
from modbus import ModbusDevice
from node import BINARY, Device, OurOutstation, tieline
from processes import Lines, Peer
from simulated import SimulatedDevice
from waiting import until

LEVEL = ("level", "holding-register", 10)
SPEED = ("speed", "holding-register", 11, {"writable": "true", "min": "0", "max": "3000"})
SCALED = ("level", "holding-register", 10, {"scale": "0.1"})
# A machine that is slow makes no value stale and loses no connection.
PATIENT = {"stale_after_missed": 1000, "timeout": "30s"}


@pytest.fixture
def server():
    with Peer("pymodbus_server", "--units", "1", "2") as peer:
        for unit in (1, 2):
            peer.do(f"set {unit} holding-registers 10 {unit}00 {unit}50")
        yield peer


def stats(node, device):
    """What is counted of a device."""
    found = node.request("/v1/devices")[1]["devices"]
    return next(one for one in found if one["topic"] == device.topic)["stats"]


def polled_again(node, device):
    """Waits until a device has answered another poll; its counts."""
    before = stats(node, device)["polls"]
    until(lambda: stats(node, device)["polls"] > before, lambda: node.process.said())
    return stats(node, device)


def test_devices_that_stay_notice_nothing(server, start_node):
    gates = [Gate(server.address) for _ in range(4)]
    device = lambda number, points: ModbusDevice(f"pump{number}", gates[number].address, points, **PATIENT)
    first, second, third, other = (device(number, [LEVEL, SPEED]) for number in range(4))
    node = start_node(first, second, third)
    for one in (first, second, third):
        node.wait_value(one.point("level"), v=100, q="good")
    until(lambda: stats(node, first)["connects"] == 1, node.process.said)
    before = stats(node, first)
    with Sub(node, f"{first.topic}/#", f"{third.topic}/#", f"{other.topic}/#", "$topics/removed/#") as sub:
        sub.wait(first.point("level"), v=100)
        sub.wait(third.point("level"), v=100)
        done = node.reload(first, device(1, [SCALED, SPEED]), other)
        assert done.stdout == "devices: 1 added, 1 removed, 1 changed (1 without a new connection), 1 unchanged\n"
        sub.wait(other.point("level"), v=100, q="good")
        sub.wait(third.point("level"), payload=None, retained=False)
        sub.wait(f"$topics/removed/{third.point('level')}")
        polled_again(node, first)
        # Each value that was told of the device that stays is good.
        told = [body for _, topic, body in sub.messages() if topic == first.point("level")]
        assert told and all(body["q"] == "good" and body["v"] == 100 for body in told), told
    node.wait_value(second.point("level"), v=10.0, q="good")
    assert [gate.connections for gate in gates] == [1, 1, 1, 1]
    until(lambda: [gate.open() for gate in gates] == [1, 1, 0, 1], lambda: [gate.open() for gate in gates])
    after = stats(node, first)
    assert (after["connects"], after["losses"], after["timeouts"], after["since"]) == (1, 0, 0, before["since"])
    # Its topics are gone, and what was recorded stays.
    assert node.get(third.point("level")) is None and node.get(f"$SYS/devices/{third.topic}/state") is None
    assert {one["name"] for one in node.request("/v1/devices")[1]["devices"]} == {"pump0", "pump1", "pump3"}
    assert node.history(third.point("level"))
    metrics = node.metrics()
    for line in (
        'tieline_reloads_total{result="done"} 1',
        'tieline_reload_devices_total{change="added"} 1',
        'tieline_reload_devices_total{change="changed"} 1',
        "tieline_reload_kept_connections_total 1",
        "tieline_reload_devices_unchanged 1",
        'tieline_modbus_devices{state="online"} 3',
    ):
        assert line in metrics, line
    # The same file once more.
    assert tieline("reload", "--http", node.http).stdout == "devices: 0 added, 0 removed, 0 changed, 3 unchanged\n"
    assert [gate.connections for gate in gates] == [1, 1, 1, 1]


def test_wrong_files_change_nothing_and_every_error_is_told(server, start_node):
    gate = Gate(server.address)
    device = ModbusDevice("pump", gate.address, [LEVEL], **PATIENT)
    node = start_node(device)
    node.wait_value(device.point("level"), v=100)
    wrong = ModbusDevice("pump", gate.address, [("level", "holding-register", "x"), ("a", "coil", 1, {"scale": "no"})], unit=300)
    refused = node.reload(wrong, more='[http]\nlisten = "nowhere"\n', check=False)
    assert refused.returncode == 3
    for words in ("pump.csv:2", "pump.csv:3", "index", "scale", "http.listen", "modbus.unit", "tieline.toml:"):
        assert words in refused.stderr, f"{words} is not in {refused.stderr}"
    status, problem = node.request("/v1/reload", {})
    assert status == 422 and "pump.csv:2" in problem["detail"]
    node.process.process.send_signal(signal.SIGHUP)
    until(lambda: 'tieline_reloads_total{result="refused"} 3' in node.metrics(), node.process.said)
    until(lambda: any("was refused" in line for line in node.health()["detail"]), node.health)
    server.do("set 1 holding-registers 10 77")
    node.wait_value(device.point("level"), v=77, q="good")
    assert gate.connections == 1
    # Who asked for it, and why it was refused, is on record.
    records = lambda: node.audit("$config")["entries"]
    until(lambda: len(records()) == 3, records)
    assert [record["phase"] for record in records()] == ["reload_refused"] * 3
    by_signal, over_http = records()[:2]
    assert by_signal["who"] != over_http["who"] and over_http["who"].startswith("http 127.0.0.1:"), records()
    assert over_http["reason"] == "config" and over_http["detail"].startswith("4 errors, the first: "), over_http
    assert "pump.csv:2" in over_http["detail"], over_http
    # What is right again is taken.
    node.reload(device)
    until(lambda: node.health()["detail"] == [], node.health)
    assert [record["phase"] for record in records()] == ["reload"] + ["reload_refused"] * 3


def test_a_device_moves_from_one_gateway_to_another(server, start_node):
    with Peer("pymodbus_server", "--units", "1", "2") as elsewhere:
        elsewhere.do("set 1 holding-registers 10 1000")
        elsewhere.do("set 2 holding-registers 10 2000")
        gates = [Gate(server.address), Gate(elsewhere.address)]
        channels = "".join(f'[channel.g{at}]\naddress = "{gate.address}"\n' for at, gate in enumerate(gates))
        device = lambda name, gateway, unit: ModbusDevice(name, "", [LEVEL], channel=f"g{gateway}", unit=unit, **PATIENT)
        one, two, three = device("one", 0, 1), device("two", 0, 2), device("three", 1, 1)
        node = start_node(one, two, three, more=channels)
        for place, value in ((one, 100), (two, 200), (three, 1000)):
            node.wait_value(place.point("level"), v=value, q="good")
        done = node.reload(one, device("two", 1, 2), three, more=channels)
        assert done.stdout == "devices: 0 added, 0 removed, 1 changed (0 without a new connection), 2 unchanged\n"
        node.wait_value(two.point("level"), v=2000, q="good")
        for place in (one, three):
            counts = polled_again(node, place)
            assert (counts["connects"], counts["losses"], counts["timeouts"]) == (1, 0, 0), counts
        assert [gate.connections for gate in gates] == [1, 1]
        # The last one leaves its gateway.
        node.reload(two, three, more=channels)
        until(lambda: gates[0].open() == 1 or gates[0].open() == 0, "its end")
        node.reload(device("two", 1, 2), three, more=channels)
        until(lambda: gates[0].open() == 0, lambda: gates[0].open())


def test_a_list_that_loses_a_point(server, start_node):
    gate = Gate(server.address)
    device = lambda *points: ModbusDevice("pump", gate.address, list(points), **PATIENT)
    pump = device(SPEED, LEVEL)
    node = start_node(pump)
    node.wait_value(pump.point("speed"), v=150)
    with Sub(node, f"{pump.topic}/#", "$topics/removed/#") as sub:
        sub.wait(pump.point("speed"), v=150)
        node.reload(device(LEVEL, ("valve", "coil", 3, {"writable": "true"})))
        sub.wait(f"$topics/removed/{pump.point('speed')}")
        sub.wait(pump.point("valve"), v=False, q="good")
    assert node.get(pump.point("speed")) is None
    until(lambda: node.get(f"{pump.topic}/all").keys() == {"level", "valve"}, lambda: node.get(f"{pump.topic}/all"))
    assert node.command(pump.point("speed"), 5)["reason"] == "unknown_topic"
    # The number of another point is no reason to write there.
    assert node.command(pump.point("valve"), True)["status"] == "success"
    assert server.do("get 1 coils 3 1")["values"] == [1]
    assert server.do("get 1 holding-registers 10 2")["values"] == [100, 150]
    assert gate.connections == 1 and polled_again(node, pump)["losses"] == 0
    node.reload(pump)
    node.wait_value(pump.point("speed"), v=150, q="good")
    assert node.command(pump.point("speed"), 160)["status"] == "success"


def test_a_reload_while_a_device_is_away(server, start_node):
    device = lambda *points: ModbusDevice("pump", server.address, list(points))
    pump = device(LEVEL)
    node = start_node(pump)
    node.wait_value(pump.point("level"), v=100)
    server.kill()
    node.wait_state(pump, "away")
    since = stats(node, pump)["since"]
    node.reload(device(SCALED, SPEED))
    found = node.wait_state(pump, "away")
    assert found["stats"]["since"] == since
    # A value by another scale is another value.
    node.wait_value(pump.point("level"), v=None, q="bad")
    with Peer("pymodbus_server", "--port", str(server.port)) as again:
        again.do("set 1 holding-registers 10 500")
        node.wait_state(pump, "online")
        node.wait_value(pump.point("level"), v=50.0, q="good")
        node.wait_value(pump.point("speed"), v=0, q="good")
        assert node.command(pump.point("speed"), 9)["status"] == "success"


def test_commands_that_are_under_way_are_answered(tmp_path, start_node):
    points = [("setpoint", "float", {"value": "21", "writable": "true"})]
    slow = SimulatedDevice("slow", points, delay="8s", timeout="20s")
    other = SimulatedDevice("other", points)
    node = start_node(slow, other)
    node.wait_state(slow, "online", seconds=30)
    answers = []
    ask = lambda: answers.append(node.command(slow.point("setpoint"), 22, timeout_ms=20_000))
    asking = threading.Thread(target=ask)
    asking.start()
    phases = lambda: [record["phase"] for record in node.audit(slow.point("setpoint"))["entries"]]
    until(lambda: "sent" in phases(), phases)
    node.reload(other)
    asking.join(10)
    assert len(answers) == 1 and answers[0]["status"] == "unknown", answers
    assert answers[0]["reason"] == "reconfigured", answers
    assert node.command(slow.point("setpoint"), 23)["reason"] == "unknown_topic"
    assert node.command(other.point("setpoint"), 23)["status"] == "success"
    assert "lost" in phases(), phases()


def test_commands_go_on_while_other_devices_change(server, start_node):
    gates = [Gate(server.address), Gate(server.address)]
    steady = ModbusDevice("steady", gates[0].address, [SPEED], **PATIENT)
    level = lambda scale: ("level", "holding-register", 10, {"scale": scale})
    changed = lambda scale: ModbusDevice("changed", gates[1].address, [level(scale)], **PATIENT)
    node = start_node(steady, changed("1"))
    node.wait_state(steady, "online")
    answers, is_over = [], threading.Event()

    def ask():
        while not is_over.is_set():
            answers.append(node.command(steady.point("speed"), len(answers) % 3000))

    asking = threading.Thread(target=ask)
    asking.start()
    for scale in ("2", "3", "4", "5", "6"):
        node.reload(steady, changed(scale))
        node.wait_value("test/changed/level", v=100.0 * float(scale), q="good")
        # One that was sent while it changed, or behind that.
        before = len(answers)
        until(lambda: len(answers) > before, node.process.said)
    is_over.set()
    asking.join(10)
    assert len(answers) >= 5 and {answer["status"] for answer in answers} == {"success"}, answers
    assert [gate.connections for gate in gates] == [1, 1]


def test_what_needs_a_restart_is_named(server, start_node):
    device = ModbusDevice("pump", server.address, [LEVEL])
    node = start_node(device)
    more = '[http]\nlisten = "127.0.0.1:1"\n[history]\nkeep = "3d"\n'
    done = node.reload(device, more=more)
    assert done.stdout.splitlines()[1:] == ["restart needed: http.listen", "restart needed: history.keep"]
    assert "tieline_reload_restart_needed 2" in node.metrics()
    until(lambda: any("restart needed for http.listen, history.keep" in line for line in node.health()["detail"]), node.health)
    assert node.health()["status"] == "ok"


def test_a_device_that_cannot_be_started_is_named_and_tried_again(server, start_node):
    device = ModbusDevice("pump", server.address, [LEVEL])
    node = start_node(device)
    taken = accepting(lambda connection: connection.close())
    listening = Device("relay", taken)
    listening.toml_of = listening.toml
    listening.toml = lambda: listening.toml_of().replace("address =", "listen =")
    done = node.reload(device, listening, check=False)
    assert done.returncode == 7 and "not started: device.relay: " in done.stdout, (done.returncode, done.stdout)
    node.wait_state(listening, "away")
    until(lambda: any("device.relay could not be started" in line for line in node.health()["detail"]), node.health)
    with OurOutstation(node.folder) as outstation:
        relay = Device("relay", outstation.address)
        done = node.reload(device, relay)
        assert "1 changed" in done.stdout
        node.wait_state(relay, "online")
    until(lambda: node.health()["detail"] == [], node.health)


def test_bacnet_devices_change_in_place(start_node):
    points = [("supply", "analog-input", 1), ("fan", "binary-output", 1, {"writable": "true"})]
    scaled = [("outside", "analog-input", 2), ("supply", "analog-input", 1, {"scale": "10"}), points[1]]
    with Peer("bacpypes3_server") as first, Peer("bacpypes3_server") as second:
        device = lambda name, peer, points: BacnetDevice(name, peer.address, points, cov=True, poll="500ms", apdu_timeout="5s")
        one, two = device("one", first, points), device("two", second, points)
        node = start_node(one, two)
        for place in (one, two):
            node.wait_value(place.point("supply"), v=21.5, q="good")
        until(lambda: len(second.objects("subscribe")) == 2, second.said)
        done = node.reload(one, device("two", second, scaled))
        assert "1 changed (1 without a new connection), 1 unchanged" in done.stdout
        node.wait_value(two.point("supply"), v=215.0, q="good")
        node.wait_value(two.point("outside"), v=-3.25, q="good")
        assert node.command(two.point("fan"), True)["status"] == "success"
        # What was subscribed to stays so, and only the new one is asked for.
        until(lambda: len(second.objects("subscribe")) == 3, second.said)
        counts = polled_again(node, two)
        assert (counts["connects"], counts["losses"], counts["timeouts"]) == (1, 0, 0), counts
        # A device that leaves takes its subscriptions with it.
        node.reload(one)
        until(lambda: second.do("subscriptions")["count"] == 0, second.said)
        assert node.get(two.point("supply")) is None
        counts = polled_again(node, one)
        assert (counts["connects"], counts["losses"], counts["timeouts"]) == (1, 0, 0), counts


def test_outstations_of_one_line_come_and_go(tmp_path, start_node):
    with OurOutstation(folder(tmp_path, "a")) as one, OurOutstation(folder(tmp_path, "b"), at(11)) as two:
        connections = []
        address = accepting(lambda connection: connections.append(Gateway(connection, {10: one.address, 11: two.address})))
        channel = f'[channel.line]\naddress = "{address}"\none_at_a_time = true\n'
        device = lambda name, outstation, **more: drop(name, outstation, **more)
        first, second = device("first", 10), device("second", 11)
        node = start_node(first, more=channel)
        node.wait_state(first, "online")
        done = node.reload(first, second, more=channel)
        assert "1 added, 0 removed, 0 changed, 1 unchanged" in done.stdout
        node.wait_state(second, "online")
        two.do("update analog 3 7.5")
        node.wait_value(second.point("analog", 3), v=7.5, q="good")
        fewer = device("first", 10, types=["binary", "analog"])
        done = node.reload(fewer, second, more=channel)
        assert "1 changed (1 without a new connection), 1 unchanged" in done.stdout
        assert node.get(first.point("counter", 0)) is None
        one.do("update analog 3 1.25")
        node.wait_value(first.point("analog", 3), v=1.25, q="good")
        node.reload(second, more=channel)
        two.do("update analog 4 3")
        node.wait_value(second.point("analog", 4), v=3, q="good")
        assert stats(node, second)["connects"] == 1 and stats(node, second)["losses"] == 0
        assert len(connections) == 1


def folder(tmp_path, name):
    made = tmp_path / name
    made.mkdir()
    return made


def at(address):
    """An outstation at another address."""
    return OurOutstation.CONFIG.replace("address = 10\n", f"address = {address}\n")


def drop(name, outstation, **more):
    """A device on the channel `line`."""
    device = Device(name, "", outstation=outstation, **more)
    toml = device.toml
    device.toml = lambda: toml().replace('address = ""', 'channel = "line"')
    return device


def test_a_peer_of_dnp3_keeps_its_connection(outstation, start_node):
    gate, other = Gate(outstation.address), Gate(outstation.address)
    types = ["binary", "analog"]
    relay = Device("relay", gate.address, types=types)
    node = start_node(relay)
    node.wait_state(relay, "online")
    done = node.reload(Device("relay", gate.address, types=["binary", "counter"]))
    assert "1 changed (1 without a new connection)" in done.stdout
    node.wait_value(relay.point("counter", 1), q="good")
    outstation.do("update binary 1 true")
    node.wait_value(relay.point("binary", 1), v=True, q="good")
    assert gate.connections == 1
    # Another address is another connection, and the last values stay until then.
    done = node.reload(Device("relay", other.address, types=["binary", "counter"]))
    assert "1 changed (0 without a new connection)" in done.stdout
    until(lambda: stats(node, relay)["connects"] == 2, node.process.said)
    node.wait_value(relay.point("binary", 1), v=True, q="good")
    assert (gate.connections, other.connections) == (1, 1)
    until(lambda: gate.open() == 0, lambda: gate.open())


def test_readers_of_a_trace_see_its_end(server, start_node):
    device = ModbusDevice("pump", server.address, [LEVEL], more='trace = { disk = "1MiB" }')
    other = ModbusDevice("other", server.address, [LEVEL])
    node = start_node(other)
    node.reload(other, device)
    node.wait_value(device.point("level"), v=100)
    files = node.data / "trace"
    until(lambda: list(files.glob("*/*.trace")), lambda: list(files.rglob("*")))
    with Lines([BINARY, "trace", device.topic, "--follow", "--http", node.http]) as reader:
        # It follows once it shows what was traced before.
        until(lambda: reader.lines, reader.said)
        node.reload(other)
        until(lambda: reader.process.poll() is not None, reader.said)
        until(lambda: any("removed from the configuration" in line for line in reader.lines), reader.said)
    assert node.request(f"/v1/trace/{device.topic}")[0] == 404
