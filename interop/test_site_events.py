"""Messages between sites through their centre, over a real nats-server: what is published at one site and subscribed at another."""

import signal

import pytest
from bus import Sub, publish
from nats_peer import SERVER
from node import Node
from site_nodes import Server, centre_of, folder, restart, row_of, site_of
from test_joining import Centre
from waiting import until

pytestmark = pytest.mark.skipif(SERVER is None, reason="no nats-server: .ci/nats builds it")

SHARE = 'share = ["alarms/#", "weather/#"]\n'


@pytest.fixture
def server(tmp_path):
    server = Server(folder(tmp_path, "nats"))
    yield server
    server.kill()


def link(node):
    """The link of a site, as /v1/status shows it."""
    return node.request("/v1/status")[1]["site"]["events"]


def wait_for_asked(site, count, seconds=20.0):
    """Waits until the centre asks a site for so many filters."""
    until(lambda: link(site)["asked"] == count, lambda: f"{link(site)}\n{site.process.said()}", seconds)


def payloads(sub, topic):
    return [payload for _, where, payload in sub.messages() if where == topic]


def wait_payloads(sub, topic, expected, seconds=20.0):
    """Waits for these messages of a topic: each once, in order."""
    until(lambda: len(payloads(sub, topic)) >= len(expected), lambda: f"{payloads(sub, topic)}\n{sub.said()}", seconds)
    assert payloads(sub, topic) == expected


def test_a_message_of_one_site_is_received_at_another_and_at_the_centre(tmp_path, server):
    with centre_of(tmp_path, server) as centre, site_of(tmp_path, server, "north", SHARE) as north:
        with site_of(tmp_path, server, "south", SHARE) as south:
            publish(north, "alarms/old", "fire", "-r")
            publish(north, "secret/key", "1", "-r")
            with Sub(south, "$sites/north/#", qos=1) as there, Sub(centre, "$sites/+/alarms/#", qos=1) as here:
                # Last values come first.
                there.wait("$sites/north/alarms/old", payload="fire")
                here.wait("$sites/north/alarms/old", payload="fire")
                wait_for_asked(north, 1)
                for number in range(20):
                    publish(north, "alarms/pump", str(number))
                    publish(north, "secret/key", str(number))
                publish(south, "alarms/valve", "7")
                wait_payloads(there, "$sites/north/alarms/pump", list(range(20)))
                wait_payloads(here, "$sites/north/alarms/pump", list(range(20)))
                wait_payloads(here, "$sites/south/alarms/valve", [7])
                # What is not shared does not leave the site, whatever is subscribed.
                assert not [topic for _, topic, _ in there.messages() + here.messages() if "secret" in topic]
                # The properties of a message come with it; a value that is removed goes.
                publish(north, "weather/now", '{"t":5}', "-r", "-D", "PUBLISH", "content-type", "x/y")
                there.wait("$sites/north/weather/now", t=5)
                until(lambda: south.get("$sites/north/weather/now"), south.process.said)
                north.set("weather/now", None, "DELETE")
                until(lambda: south.get("$sites/north/weather/now") is None, south.process.said)
            # Nobody asks for it any more: nothing crosses the link, and no value is left.
            wait_for_asked(north, 0)
            until(lambda: south.get("$sites/north/alarms/old") is None, south.process.said)
            sent = link(north)["sent"]
            publish(north, "alarms/pump", "99")
            assert link(north)["sent"] == sent
            # Nobody but the node publishes there.
            assert south.set("$sites/north/alarms/pump", "1")[0] in (400, 403)


def test_what_is_published_over_a_cut_comes_once_when_the_link_is_back(tmp_path, server):
    with centre_of(tmp_path, server) as centre, site_of(tmp_path, server, "north", SHARE) as north:
        with site_of(tmp_path, server, "south", SHARE) as south, Sub(south, "$sites/north/alarms/#", qos=1) as there:
            wait_for_asked(north, 1)
            topic = "$sites/north/alarms/pump"
            numbers = iter(range(1000))
            expected = []

            def say(count):
                for number in [next(numbers) for _ in range(count)]:
                    publish(north, "alarms/pump", str(number))
                    expected.append(number)

            say(5)
            wait_payloads(there, topic, expected)
            # The server between all of them is away.
            server.kill()
            until(lambda: north.request("/v1/status")[1]["site"]["state"] == "away", north.process.said)
            say(10)
            server.start()
            wait_payloads(there, topic, expected, 30)
            # The centre is killed, and takes nothing until the sites have said what they want.
            centre.process.kill()
            say(10)
            centre.start()
            say(5)
            wait_payloads(there, topic, expected, 30)
            # The site that receives is killed: what is published meanwhile waits at the centre.
            kept = ["-c", "-i", "kept", "-x", "3600"]
            with Sub(south, topic, qos=1, more=kept) as before:
                say(1)
                wait_payloads(before, topic, expected[-1:])
                wait_payloads(there, topic, expected)

            def waiting():
                return row_of(centre, "south")["events"]["waiting"]

            until(lambda: waiting() == 0, lambda: f"{row_of(centre, 'south')}\n{centre.process.said()}")
            south.process.kill()
            begin = len(expected)
            say(10)
            south.start()
            with Sub(south, topic, qos=1, more=kept) as after:
                # MQTT may deliver once more what was acknowledged at the moment of the kill.
                def since():
                    return [payload for payload in payloads(after, topic) if payload != expected[begin - 1]]

                until(lambda: len(since()) >= 10, lambda: f"{since()}\n{south.process.said()}", 30)
                assert since() == expected[begin:]
            # The one that sends is.
            restart(north)
            wait_for_asked(north, 1)
            assert link(north)["lost"] == 0 and row_of(centre, "south")["events"]["lost"] == 0


def test_values_of_a_site_that_is_away_do_not_look_good(tmp_path, server):
    topic = "$sites/north/weather/now"
    point = '{"v": 5, "q": "good", "t": "2026-11-20T09:00:00Z"}'
    good, away = {"v": 5, "q": "good"}, {"v": 5, "q": "bad", "why": ["away"]}
    with centre_of(tmp_path, server) as centre, site_of(tmp_path, server, "north", SHARE) as north:
        with site_of(tmp_path, server, "south", SHARE) as south, Sub(south, "$sites/north/#", qos=1) as there:
            publish(north, "weather/now", point, "-r")
            publish(north, "alarms/note", "words", "-r")
            there.wait(topic, **good)
            with Sub(centre, "$sites/north/#", qos=1) as here:
                here.wait(topic, **good)
                # The site is killed. What states no quality stays as it is.
                north.process.kill()
                for sub, node in ((here, centre), (there, south)):
                    sub.wait(topic, **away)
                    assert node.get(topic)["why"] == ["away"] and node.get("$sites/north/alarms/note") == "words"
                north.start()
                for node in (centre, south):
                    node.wait_value(topic, **good)
                # The server between all of them is gone, or is frozen, so that no connection ends: each node marks what it has.
                freeze = lambda: server.process.send_signal(signal.SIGSTOP)
                thaw = lambda: server.process.send_signal(signal.SIGCONT)
                for cut, mend in ((server.kill, server.start), (freeze, thaw)):
                    cut()
                    for node in (centre, south):
                        node.wait_value(topic, seconds=40, **away)
                    mend()
                    for node in (centre, south):
                        node.wait_value(topic, seconds=40, **good)
                # Another value while the site is away; the centre is another process then.
                north.process.kill()
                centre.wait_value(topic, **away)
                centre.process.kill()
                north.start()
                publish(north, "weather/now", point.replace("5", "6"), "-r")
                centre.start()
                south.wait_value(topic, seconds=40, v=6, q="good")


ROLES = """[role.sites]
rules = ["allow read $sites/+/weather/#"]

[role.neighbour]
rules = ["allow read $sites/north/alarms/fire", "deny read $sites/+/weather/#"]
"""


def test_a_site_reads_what_the_rules_of_the_centre_give_it(tmp_path, server):
    access = folder(tmp_path, "access")
    (access / "users.toml").write_text('[user."site:west"]\nroles = ["neighbour"]\n')
    (access / "roles.toml").write_text(ROLES)
    table = f'[access]\nusers = "{access / "users.toml"}"\nroles = "{access / "roles.toml"}"\n'
    with centre_of(tmp_path, server, table) as centre, site_of(tmp_path, server, "north", SHARE) as north:
        with site_of(tmp_path, server, "south") as south, site_of(tmp_path, server, "west") as west:
            # 100 attempts by name, and all at once.
            names = [f"{kind}/{number}" for kind in ("alarms", "secret", "notes", "$SYS") for number in range(25)]
            tries = [f"$sites/north/{name}" for name in names]
            assert len(tries) == 100
            wide = ["$sites/#", "$sites/+/#", "$sites/north/#", "$sites/+/alarms/#"]
            given = ["$sites/north/weather/now", "$sites/north/alarms/fire"]
            with Sub(south, *tries, *wide, qos=1) as by_role, Sub(west, *tries, *wide, qos=1) as by_user:
                wait_for_asked(north, 1)
                for name in [name for name in names if not name.startswith("$")]:
                    publish(north, name, "1", "-r")
                publish(north, "alarms/fire", "1", "-r")
                publish(north, "weather/now", "1", "-r")
                by_role.wait("$sites/north/weather/now", payload=1)
                by_user.wait("$sites/north/alarms/fire", payload=1)
                # What comes last comes after all that was refused.
                publish(north, "alarms/fire", "2", "-r")
                publish(north, "weather/now", "2", "-r")
                by_role.wait("$sites/north/weather/now", payload=2)
                by_user.wait("$sites/north/alarms/fire", payload=2)
                assert {topic for _, topic, _ in by_role.messages()} == {given[0]}
                assert {topic for _, topic, _ in by_user.messages()} == {given[1]}
                assert 'tieline_site_events_dropped_total{cause="denied"} 0' not in centre.metrics()
                # Other rules hold from the next message on.
                (access / "roles.toml").write_text(ROLES.replace("+/weather/#", "+/alarms/#", 1))
                until(lambda: (publish(north, "alarms/1", "3"), payloads(by_role, "$sites/north/alarms/1"))[1], by_role.said)
                publish(north, "weather/now", "4", "-r")
                publish(north, "alarms/1", "5")
                by_role.wait("$sites/north/alarms/1", payload=5)
                assert 4 not in payloads(by_role, "$sites/north/weather/now")


def test_sites_that_joined_by_token_share_and_a_revoked_one_receives_nothing(tmp_path):
    centre = Centre(folder(tmp_path, "centre"))
    try:
        for name in ("north", "south"):
            centre.joined(name)
            settings = centre.folder / name / "fabric" / "joined.toml"
            settings.write_text(settings.read_text().replace("[site]\n", '[site]\nshare = ["alarms/#"]\n'))
        nodes = [Node(folder(tmp_path, name), data=centre.folder / name) for name in ("north", "south")]
        with nodes[0] as north, nodes[1] as south, Sub(south, "$sites/north/alarms/#", qos=1) as there:
            wait_for_asked(north, 1)
            publish(north, "alarms/pump", "1")
            there.wait("$sites/north/alarms/pump", payload=1)
            centre.site("revoke", "south")
            until(lambda: south.request("/v1/status")[1]["site"]["state"] == "away", south.process.said)
            publish(north, "alarms/pump", "2")

            def waits():
                return row_of(centre.node, "south")["events"]["waiting"] == 1

            until(waits, lambda: f"{row_of(centre.node, 'south')}\n{centre.node.process.said()}")
            assert payloads(there, "$sites/north/alarms/pump") == [1]
    finally:
        centre.stop()
