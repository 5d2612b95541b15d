"""BACnet/SC: devices of BACpypes3 behind a hub that only forwards, over TLS 1.3; hubs that die, refuse and babble."""

import uuid

import pytest
from authority import Authority
from bacnet import BacnetDevice
from bus import Sub
from dissection import complaints, fields, frames
from node import tieline
from processes import Peer
from test_trace import capture, wait_lines
from waiting import until

POINTS = [
    ("supply", "analog-input", 1, {"cov": "true"}),
    ("valve", "analog-output", 1, {"writable": "true", "write_priority": "10"}),
    ("alarm", "binary-input", 1, {"states": "normal/alarm"}),
    ("label", "characterstring-value", 1),
]
UUID = str(uuid.UUID(int=0x6F1F8D4E_6A3B_4A44_9A51_5D3E4C0B7A10))


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("hub", names="IP:127.0.0.1,DNS:localhost").issue("node").issue("device")
    return made


def files(authority, name):
    certificate, key = authority.files(name)
    return {"certificate": str(certificate), "key": str(key), "authorities": str(authority.file)}


def words(authority, name):
    return [word for key, file in files(authority, name).items() for word in (f"--{key}", file)]


def start_hub(authority, port=0):
    return Peer("bacpypes3_hub", "--port", str(port), *words(authority, "hub"))


def start_device(authority, *hubs, more=()):
    uris = [word for hub in hubs for word in ("--hub", f"wss://{hub.address}/")]
    return Peer("bacpypes3_server", *uris, *words(authority, "device"), *more)


def network(tls, *hubs, more=""):
    """`[network.campus]` with one hub or two."""
    urls = [f'{key} = "wss://{hub.address}/sc"' for key, hub in zip(("hub", "failover"), hubs, strict=False)]
    table = ", ".join(f'{key} = "{file}"' for key, file in tls.items())
    return "\n".join(["[network.campus]", *urls, f'uuid = "{UUID}"', f"tls = {{ {table} }}", more, ""])


def ahu(points=POINTS, poll="500ms", address=None, more="", **bacnet):
    return BacnetDevice("ahu", address, points, poll=poll, more=f'network = "campus"\n{more}', instance=1001, **bacnet)


def metric(node, name):
    lines = [line for line in node.metrics().splitlines() if line.startswith(f"tieline_bacnet_{name}")]
    return {line.split()[0].removeprefix("tieline_bacnet_"): int(float(line.split()[1])) for line in lines}


def logged(node, *wanted):
    """Waits for a line of the log with these words."""

    def found():
        return [line for line in node.process.errors + node.process.lines if all(word in line for word in wanted)]

    return until(found, lambda: f"{wanted}\n{node.process.said()}", 30)[-1]


def vmac(hub, of_device=False):
    """The virtual address that the node has at a hub, or the device: those of devices begin with 10, which no random one does."""
    found = lambda: [one for one in hub.do("nodes")["nodes"] if one.startswith("10:") == of_device]
    return until(found, hub.said, 60)[0]


@pytest.fixture
def hub(authority):
    with start_hub(authority) as peer:
        yield peer


@pytest.fixture
def device(authority, hub):
    with start_device(authority, hub) as peer:
        until(lambda: hub.objects("node"), hub.said)
        yield peer


def test_a_device_is_read_commanded_and_tells_changes(authority, hub, device, start_node):
    one = ahu()
    node = start_node(one, more=network(files(authority, "node"), hub))
    node.wait_state(one, "online")
    for name, value in [("supply", 21.5), ("valve", 5.0), ("alarm", True), ("label", "AHU 1 läuft")]:
        node.wait_value(one.point(name), v=value, q="good")
    until(lambda: device.do("subscriptions")["count"] == 1, device.said)
    with Sub(node, f"{one.topic}/#") as subscriber:
        device.do("set analog-input,1 30.5")
        subscriber.wait(one.point("supply"), v=30.5, q="good")
    assert node.command(one.point("valve"), 42.5)["status"] == "success"
    node.wait_value(one.point("valve"), v=42.5)
    assert device.do("priorities analog-output,1")["set"] == [10]
    assert len(hub.do("nodes")["nodes"]) == 2
    assert metric(node, "hub_networks")['hub_networks{hub="primary"}'] == 1
    # The standard's own order: a node that goes says so.
    assert node.process.stop() == 0
    until(lambda: hub.objects("gone"), hub.said)


def test_three_hundred_values_come_through_a_hub(authority, hub, start_node):
    points = [(f"v{number}", "analog-value", number) for number in range(300)]
    with start_device(authority, hub, more=["--values", "300"]):
        one = ahu(points, poll="1s")
        node = start_node(one, more=network(files(authority, "node"), hub))
        for number in (0, 1, 150, 299):
            node.wait_value(one.point(f"v{number}"), seconds=60, v=number / 2, q="good")
        values = node.get(f"{one.topic}/all")
        assert values is not None
        assert all(node.get(one.point(f"v{number}"))["v"] == number / 2 for number in range(300))


def test_a_device_by_its_virtual_address(authority, hub, start_node):
    with start_device(authority, hub, more=["--vmac", "1000000000aa"]):
        one = ahu(address="10:00:00:00:00:aa")
        node = start_node(one, more=network(files(authority, "node"), hub))
        node.wait_value(one.point("supply"), v=21.5, q="good")


def test_a_device_that_comes_back_with_another_address_is_found(authority, hub, start_node):
    one = ahu()
    with start_device(authority, hub, more=["--vmac", "1000000000aa"]) as device:
        node = start_node(one, more=network(files(authority, "node"), hub))
        node.wait_value(one.point("supply"), v=21.5, q="good")
        device.kill()
        node.wait_state(one, "away", seconds=30)
    with start_device(authority, hub, more=["--vmac", "1200000000bb"]) as device:
        device.do("set analog-input,1 7")
        node.wait_state(one, "online", seconds=60)
        node.wait_value(one.point("supply"), v=7.0, q="good")
        until(lambda: device.do("subscriptions")["count"] == 1, device.said)


def test_the_failover_hub_takes_over_and_the_primary_comes_back(authority, start_node):
    with start_hub(authority) as first, start_hub(authority) as second, start_device(authority, first, second) as device:
        one = ahu(retries=5)
        node = start_node(one, more=network(files(authority, "node"), first, second))
        node.wait_value(one.point("supply"), v=21.5, q="good")
        first.kill()
        until(lambda: metric(node, "hub_networks")['hub_networks{hub="failover"}'] == 1, node.process.said, 30)
        device.do("set binary-input,1 inactive")
        node.wait_value(one.point("alarm"), seconds=60, v=False, q="good")
        assert node.command(one.point("valve"), 12.5)["status"] == "success"
        with start_hub(authority, first.port) as again:
            until(lambda: metric(node, "hub_networks")['hub_networks{hub="primary"}'] == 1, node.process.said, 60)
            until(lambda: second.objects("gone"), second.said)
            # The device goes back when its own hub tells it to.
            second.do(f"kick {vmac(second, True)}")
            until(lambda: len(again.do("nodes")["nodes"]) == 2, again.said, 30)
            device.do("set binary-input,1 active")
            node.wait_value(one.point("alarm"), seconds=60, v=True, q="good")


def test_a_hub_that_restarts_is_dialled_again(authority, start_node):
    with start_hub(authority) as hub, start_device(authority, hub):
        one = ahu()
        node = start_node(one, more=network(files(authority, "node"), hub))
        node.wait_value(one.point("supply"), v=21.5, q="good")
        hub.kill()
        away = node.wait_state(one, "away", seconds=30)
        assert "hub" in str(away), away
        assert node.command(one.point("valve"), 1.0)["status"] != "success"
        logged(node, "the hub is not connected", "primary")
        with start_hub(authority, hub.port):
            node.wait_state(one, "online", seconds=60)
            # What was asked while there was no hub is not sent later.
            node.wait_value(one.point("valve"), v=5.0, q="good")


def test_a_hub_that_refuses_says_why(authority, hub, device, start_node):
    hub.do(f"refuse node-duplicate-vmac {UUID}")
    one = ahu()
    node = start_node(one, more=network(files(authority, "node"), hub, more='reconnect_max = "2s"'))
    logged(node, "the node has another virtual address")
    node.wait_value(one.point("supply"), v=21.5, q="good", seconds=30)
    hub.do(f"refuse operational-problem {UUID}")
    hub.do(f"kick {vmac(hub)}")
    logged(node, "communication: operational-problem")
    until(lambda: len(hub.do("nodes")["nodes"]) == 2, hub.said, 60)
    hub.do("plain yes")
    hub.do(f"kick {vmac(hub)}")
    logged(node, "HTTP status 503")
    hub.do("plain no")
    node.wait_value(one.point("supply"), v=21.5, q="good", seconds=60)


def test_wrong_certificates_are_refused_with_their_reason(authority, hub, device, start_node, tmp_path):
    other = Authority(tmp_path, "other")
    other.issue("stranger")
    for tls, reason in [
        # The node does not trust the hub.
        ({**files(authority, "node"), "authorities": str(other.file)}, "UnknownIssuer"),
        # The hub does not trust the node.
        ({**files(other, "stranger"), "authorities": str(authority.file)}, "it may not take our certificate"),
        # The certificate of the hub is for another name.
        ({**files(authority, "node"), "name": "hub.example"}, "hub.example"),
    ]:
        one = ahu()
        node = start_node(one, more=network(tls, hub))
        logged(node, "the hub is not connected", reason)
        away = until(lambda: [state for state in [node.request(f"/v1/devices/{one.topic}")[1]] if state["state"] == "away"], reason, 30)
        assert "hub is not connected" in str(away), away
        node.process.stop()
    assert all(one.startswith("10:") for one in hub.objects("node")), hub.said()


def test_garbage_of_a_hub_is_counted_and_survived(authority, hub, device, start_node):
    one = ahu()
    node = start_node(one, more=network(files(authority, "node"), hub))
    node.wait_value(one.point("supply"), v=21.5, q="good")
    hub.do(f"garbage {vmac(hub)}")
    until(lambda: metric(node, "hub_malformed")["hub_malformed_total"] >= 8, node.metrics)
    # Each has the error of the standard: bvlc-function-unknown, header-not-understood, bvlc-proprietary-function-unknown.
    until(lambda: {143, 144, 146} <= set(hub.objects("error")), hub.said)
    hub.do(f"heartbeat {vmac(hub)}")
    until(lambda: len(hub.objects("answered")) >= 1, hub.said)
    device.do("set analog-input,1 9")
    node.wait_value(one.point("supply"), v=9.0, q="good")
    # A message that is too long ends the connection, which is made again.
    before = metric(node, "hub_connects")["hub_connects_total"]
    hub.do(f"huge {vmac(hub)}")
    until(lambda: metric(node, "hub_connects")["hub_connects_total"] > before, node.process.said, 30)
    device.do("set analog-input,1 11")
    node.wait_value(one.point("supply"), seconds=60, v=11.0, q="good")
    assert node.alive()


def test_a_trace_has_the_messages_of_the_hub(authority, hub, device, start_node, tmp_path):
    one = ahu()
    node = start_node(one, more=network(files(authority, "node"), hub))
    node.wait_value(one.point("supply"), v=21.5, q="good")
    assert node.command(one.point("valve"), 42.5)["status"] == "success"
    lines = wait_lines(node, one, lambda line: "write-property" in line["summary"] and line["kind"] == "received")
    said = [(line["kind"], line["summary"]) for line in lines]
    assert any(kind == "sent" and "connect-request" in summary for kind, summary in said), said
    assert any(kind == "received" and "connect-accept" in summary for kind, summary in said), said
    assert any(summary.startswith("sc to 10:") and "write-property analog-output,1" in summary for _, summary in said), said
    # Wireshark's own dissectors of BACnet/SC and BACnet read the same.
    path = capture(node, one, tmp_path / "ahu.pcapng")
    assert frames(path, "bscvlc") > 8 and frames(path, "bacapp") > 4
    assert complaints(path, "bscvlc") == ""
    functions = set(fields(path, "bscvlc", "bscvlc.function"))
    assert {"0x01", "0x06", "0x07"} <= functions, functions


def test_what_is_wrong_with_a_hub_is_in_the_check(authority, hub, tmp_path):
    (tmp_path / "ahu.csv").write_text("name,type,index\nsupply,analog-input,1\n")
    config = tmp_path / "tieline.toml"
    good = network(files(authority, "node"), hub)

    def said(*texts):
        config.write_text("\n".join(texts))
        done = tieline("config", "check", str(config), check=False)
        return done.stdout + done.stderr

    device = '[device.ahu]\nprotocol = "bacnet"\nnetwork = "campus"\npoints = "ahu.csv"\n'
    instance = "bacnet = { instance = 1001 }\n"
    assert "error" not in said(good, device, instance).lower()
    for texts, wanted in [
        (('[network.campus]\nhub = "ws://h"\n', device, instance), ['network.campus.hub: found "ws://h"', "network.campus.uuid", "network.campus.tls"]),
        ((good.replace(".key", ".gone"), device, instance), ["network.campus.tls.key"]),
        ((good, device), ["device.ahu.bacnet.instance: found neither address nor bacnet.instance"]),
        ((good, device, 'address = "10.0.0.5"\n', instance), ["device.ahu.address: found \"10.0.0.5\", expected six bytes in hex"]),
        ((good, device, "bacnet = { instance = 1, bbmd = '10.0.0.9' }\n"), ["device.ahu.bacnet.bbmd: found the key", "by the hub of its network"]),
        ((good, device, "bacnet = { network = 5, mac = 1 }\n"), ["address, the virtual address of the router"]),
        ((good, device.replace("bacnet", "modbus"), 'address = "h:502"\n'), ['device.ahu.network: found "campus", which has a hub']),
        (
            (good, device, instance, device.replace("ahu]", "other]"), "bacnet = { instance = 2, retries = 1 }\n"),
            ["device.other.bacnet: found another apdu_timeout or retries than those that device.ahu has of the same network"],
        ),
    ]:
        found = said(*texts)
        assert all(words in found for words in wanted), (wanted, found)
