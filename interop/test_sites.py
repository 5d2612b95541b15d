"""Sites and their centre, over a real nats-server: each point that was acknowledged at a site is at the centre once, whatever is killed."""

import json
import re
import signal
import time
from pathlib import Path

import pytest
from bus import request
from nats_peer import SERVER
from node import Node, tieline
from site_nodes import (
    Publisher,
    Server,
    centre_of,
    folder,
    plant_of,
    restart,
    row_of,
    site_of,
    values,
    wait_for_all,
    wait_for_clock,
    wait_for_samples,
    wait_for_site,
)
from waiting import until

pytestmark = pytest.mark.skipif(SERVER is None, reason="no nats-server: .ci/nats builds it")


@pytest.fixture
def server(tmp_path):
    server = Server(folder(tmp_path, "nats"))
    yield server
    server.kill()


def test_each_point_of_a_site_is_at_the_centre_once_whatever_is_killed(tmp_path, server):
    publisher = Publisher()
    with centre_of(tmp_path, server) as centre, site_of(tmp_path, server, "north") as site:
        wait_for_site(centre, "up")
        publisher.publish(site, 30)
        wait_for_all(centre, publisher)
        # None was stored twice: the store would show two that are equal as one.
        wait_for_samples(centre, 30)
        # The centre is killed while points come.
        publisher.publish(site, 10)
        centre.process.kill()
        publisher.publish(site, 10)
        centre.start()
        wait_for_all(centre, publisher)
        # The site is.
        publisher.publish(site, 10)
        restart(site)
        publisher.publish(site, 10)
        wait_for_all(centre, publisher)
        assert row_of(centre)["lost"] == 0
        # Both are, at once.
        publisher.publish(site, 10)
        centre.process.kill()
        restart(site)
        centre.start()
        publisher.publish(site, 5)
        wait_for_all(centre, publisher)
        # The server between them is.
        server.kill()
        publisher.publish(site, 20)
        until(lambda: site.request("/v1/status")[1]["site"]["state"] == "away", site.process.said)
        server.start()
        publisher.publish(site, 10)
        wait_for_all(centre, publisher)
        until(lambda: site.request("/v1/status")[1]["site"]["waiting"] == 0, site.process.said)
        assert row_of(centre)["lost"] == 0
        metrics = site.metrics()
        assert "tieline_site_lost_records_total 0" in metrics and "tieline_site_up 1" in metrics
        assert 'tieline_centre_site_up{site="north"} 1' in centre.metrics()


def test_the_centre_shows_the_newest_values_and_which_sites_are_away(tmp_path, server):
    with centre_of(tmp_path, server) as centre:
        with site_of(tmp_path, server, "north") as site:
            wait_for_site(centre, "up")
            point = '{"v":5.5,"q":"good","t":"2026-11-20T09:36:00.123Z"}'
            site.set("plant/power", point)
            site.set("plant/name", "pump")
            there = "sites/north/plant/power"
            centre.wait_value(there, v=5.5, q="good", t="2026-11-20T09:36:00.123Z")
            until(lambda: centre.get("sites/north/plant/name") == "pump", centre.process.said)
            # A value that is older does not take the place of a newer one, and is recorded.
            site.set("plant/power", '{"v":4.5,"q":"good","t":"2026-11-20T09:35:00.000Z"}')
            centre.wait_history(there, v=4.5)
            assert centre.get(there)["v"] == 5.5
            # Only the site writes there.
            assert centre.set(there, "7")[0] == 400
        wait_for_site(centre, "away")
        centre.wait_value(there, v=5.5, q="bad", why=["away"])
        centre.wait_value("$SYS/sites/north/state", v="away")
        # What is there after a restart is what history has, until the site is heard.
        restart(centre)
        centre.wait_value(there, v=5.5, q="bad", why=["away"])
        assert "north" in tieline("sites", "--http", centre.http).stdout
        with Node(tmp_path / "north", more=f'{server.table()}[site]\nname = "north"\n') as site:
            wait_for_site(centre, "up")
            centre.wait_value(there, v=5.5, q="good")
            assert len(values(centre, there)) == 2
            assert "as site north" in tieline("status", "--http", site.http).stdout


def test_what_a_site_selects_goes_up_and_what_waits_comes_later(tmp_path, server):
    publisher = Publisher(1)
    with site_of(tmp_path, server, "north", 'topics = ["plant/#"]\n') as site:
        # Before there is a centre.
        publisher.publish(site, 20)
        site.set("other/power", "1")
        until(lambda: site.request("/v1/status")[1]["site"]["state"] == "away", site.process.said)
        with centre_of(tmp_path, server) as centre:
            wait_for_site(centre, "up")
            publisher.publish(site, 5)
            wait_for_all(centre, publisher)
            wait_for_samples(centre, 25)
            assert centre.history("sites/north/other/power") == []


def test_users_of_the_server_have_the_rights_that_the_docs_give(tmp_path):
    """`tl.north.…` is of the user `north` alone; the centre answers."""
    docs = (Path(__file__).parent.parent / "docs/sites.md").read_text()
    config = re.search(r"^authorization \{.*?^\}$", docs, re.S | re.M).group(0).replace("…", "secret")
    (tmp_path / "password").write_text("secret")
    server = Server(folder(tmp_path, "nats"), config)

    def user(name):
        return f'{server.table()}user = "{name}"\npassword_file = "{tmp_path}/password"\n'

    publisher = Publisher()
    try:
        with (
            Node(folder(tmp_path, "centre"), more=f"{user('centre')}[centre]\n") as centre,
            Node(folder(tmp_path, "north"), more=f'{user("north")}[site]\nname = "north"\n') as site,
            Node(folder(tmp_path, "other"), more=f'{user("north")}[site]\nname = "south"\n') as other,
        ):
            publisher.publish(site, 9)
            wait_for_all(centre, publisher)
            until(lambda: other.request("/v1/status")[1]["site"]["state"] == "away", other.process.said)
            assert row_of(centre, "south") is None
    finally:
        server.kill()


VALVE = "sites/north/test/room/valve"


def test_a_site_without_records_knows_the_clock_of_its_centre(tmp_path, server):
    with centre_of(tmp_path, server) as centre, site_of(tmp_path, server, "north"):
        wait_for_clock(centre)
        assert row_of(centre)["records"] == 0, row_of(centre)


def test_a_point_of_a_site_is_commanded_at_the_centre_as_if_it_were_there(tmp_path, server):
    more = 'commands = "operate"\ntopics = ["test/room/valve"]\n'
    with centre_of(tmp_path, server) as centre, plant_of(tmp_path, server, "north", more) as site:
        wait_for_clock(centre)
        centre.wait_value(VALVE, v=5)
        # What does not go up is asked for.
        level = "sites/north/test/room/level"
        got = request(centre, "$control/get", json.dumps({"topics": [level]}))
        assert [topic["topic"] for topic in got["topics"]] == [level] and got["errors"] == {}, got
        # Over HTTP, MQTT and the command line; the answer is that of the site.
        done = centre.command(VALVE, 40)
        assert (done["status"], done["topic"], done["value"]) == ("success", VALVE, 40), done
        centre.wait_value(VALVE, v=40)
        answer = request(centre, f"$command/{VALVE}", "41")
        assert (answer["status"], answer["topic"]) == ("success", VALVE), answer
        body = {"points": [{"topic": VALVE, "value": 42}], "confirm": True}
        answer = request(centre, "$control/set", json.dumps(body))
        assert (answer["status"], answer["points"][0]["topic"]) == ("success", VALVE), answer
        said = tieline("set", f"{VALVE}=43", "--http", centre.http)
        assert VALVE in said.stdout, said.stdout
        centre.wait_value(VALVE, v=43)
        # What the device or the site refuses is refused in their words.
        status, refused = centre.request("/v1/command", {"topic": VALVE, "value": 400})
        assert (status, refused["reason"]) == (422, "out_of_range"), refused
        status, refused = centre.request("/v1/command", {"topic": "sites/north/no/such", "value": 1})
        assert (status, refused["reason"]) == (404, "unknown_topic"), refused
        mixed = {"points": [{"topic": VALVE, "value": 1}, {"topic": "a", "value": 1}]}
        assert centre.request("/v1/set", mixed)[0] == 400
        # Reservations of the site are the centre's users', too.
        slots = [{"device": "sites/north/test/room", "for": "5m"}]
        asked = {"task": "sites/north/inspect", "requester": "ann", "priority": "LOW", "slots": slots}
        assert centre.request("/v1/reservations", asked)[1]["result"] == "SUCCESS"
        assert site.command("test/room/valve", 1)["reason"] == "reserved"
        assert centre.request("/v1/command", {"topic": VALVE, "value": 44, "requester": "ann"})[0] == 200
        _, reverted = centre.request("/v1/revert", {"points": [VALVE], "requester": "ann"})
        assert reverted["points"][0]["topic"] == VALVE, reverted
        status, denied = centre.request("/v1/reservations", {**asked, "task": "sites/north/urgent", "priority": "HIGH"})
        assert (status, denied["info"].split(":")[0]) == (409, "SITE_REFUSES"), denied
        for change in ("renew", "cancel"):
            ended = centre.request(f"/v1/reservations/{change}", {"task": "sites/north/inspect", "requester": "ann"})
            assert ended[1]["result"] == "SUCCESS" or change == "renew", ended
        # Both audit logs have it.
        until(lambda: {"to_site", "site_answered"} <= {entry["phase"] for entry in centre.audit(VALVE)["entries"]}, centre.process.said)
        who = {entry["who"] for entry in site.audit("test/room/valve")["entries"]}
        assert any(name.startswith("centre: http ") for name in who) and any(name.startswith("centre: mqtt ") for name in who), who
        assert "tieline_centre_calls_total" in centre.metrics() and "tieline_site_calls_total" in site.metrics()


def test_a_site_takes_commands_only_as_far_as_it_is_told(tmp_path, server):
    with centre_of(tmp_path, server) as centre:
        with plant_of(tmp_path, server, "north") as site, plant_of(
            tmp_path, server, "south", 'commands = "operate"\ncommand_topics = ["test/room/level"]\n'
        ):
            wait_for_clock(centre)
            wait_for_clock(centre, "south")
            for name, words in (("north", "site.commands"), ("south", "site.command_topics")):
                status, refused = centre.request("/v1/command", {"topic": f"sites/{name}/test/room/valve", "value": 1})
                assert (status, refused["status"], refused["reason"]) == (409, "refused", "site_refuses"), refused
                assert words in refused["detail"]
            assert site.audit("test/room/valve")["entries"] == []
        # A site that is away gets nothing, and the caller hears it at once.
        wait_for_site(centre, "away")
        status, away = centre.request("/v1/command", {"topic": VALVE, "value": 1})
        assert (status, away["status"], away["reason"]) == (503, "refused", "away"), away
        assert centre.request("/v1/command", {"topic": "sites/nobody/a", "value": 1})[1]["reason"] == "away"


def test_the_worst_site_comes_first(tmp_path, server):
    def sites(query=""):
        page = centre.request(f"/v1/sites{query}")[1]
        return [site["name"] for site in page["sites"]], page["total"], page["away"]

    with centre_of(tmp_path, server) as centre, plant_of(tmp_path, server, "north"):
        with plant_of(tmp_path, server, "south"):
            wait_for_clock(centre)
            wait_for_clock(centre, "south")
        wait_for_site(centre, "away", "south")
        assert sites() == (["north", "south"], 2, 1)
        assert sites("?order=worst") == (["south", "north"], 2, 1)
        assert sites("?order=worst&limit=1") == (["south"], 2, 1)


def test_an_outcome_that_is_not_known_is_unknown_and_what_comes_late_is_not_done(tmp_path, server):
    """The site is stopped with the call in its hands: nobody knows, nothing is sent again, and it does not wake up to do it."""
    with centre_of(tmp_path, server) as centre, plant_of(tmp_path, server, "north", 'commands = "operate"\n') as site:
        wait_for_clock(centre)
        site.process.process.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        status, unknown = centre.request("/v1/command", {"topic": VALVE, "value": 60})
        assert (status, unknown["status"], unknown["reason"]) == (503, "unknown", "connection_lost"), unknown
        assert 'tieline_centre_calls_total{outcome="unknown"} 1' in centre.metrics()
        # Longer than a site may take to get it.
        until(lambda: time.monotonic() - begin > 6, "time stands still")
        site.process.process.send_signal(signal.SIGCONT)
        wait_for_site(centre, "up")
        done = until(lambda: (answer := centre.command(VALVE, 7)) and answer["status"] == "success" and answer, centre.process.said)
        assert done["value"] == 7
        values = {entry["value"] for entry in site.audit("test/room/valve")["entries"]}
        assert values == {"7"}, values


def test_two_nodes_of_one_name_are_noticed(tmp_path, server):
    with centre_of(tmp_path, server) as centre, site_of(tmp_path, server, "north") as site:
        wait_for_site(centre, "up")
        assert row_of(centre)["doubled"] is False
        with Node(folder(tmp_path, "other"), more=f'{server.table()}[site]\nname = "north"\n'):
            until(lambda: row_of(centre)["doubled"], lambda: f"{row_of(centre)}")
            assert any("two nodes send as the site north" in detail for detail in centre.health()["detail"])
            assert 'tieline_centre_site_doubled{site="north"} 1' in centre.metrics()
            centre.wait_value("$SYS/sites/north/doubled", v=True)
        until(lambda: not row_of(centre)["doubled"], lambda: f"{row_of(centre)}", 30)
        assert site.alive()


def level_of(path, name, here, above):
    """A centre at the server `here` that is a site of the one at the server `above`."""
    up = f'[site]\nname = "{name}"\ncommands = "operate"\n[site.fabric]\nservers = ["nats://127.0.0.1:{above.port}"]\n'
    return Node(folder(path, name), more=f'{here.table()}[centre]\nsilence = "3s"\n{up}')


@pytest.fixture
def servers(tmp_path):
    servers = [Server(folder(tmp_path, f"nats-{number}")) for number in range(3)]
    yield servers
    for server in servers:
        server.kill()


def behind_of(node, site):
    return (row_of(node, site) or {}).get("behind") or {}


def test_records_go_up_through_several_centres_and_commands_go_down(tmp_path, servers):
    """Site, region, country, top: each stores each record once, whatever is killed in the middle."""
    low, middle, high = servers
    above = "sites/country/sites/region/sites/north"
    publisher = Publisher()
    with (
        Node(folder(tmp_path, "top"), more=f'{high.table()}[centre]\nsilence = "3s"\n') as top,
        level_of(tmp_path, "country", middle, high) as country,
        level_of(tmp_path, "region", low, middle) as region,
    ):
        with plant_of(tmp_path, low, "north", 'commands = "operate"\n') as site:
            wait_for_clock(top, "country")
            wait_for_clock(country, "region")
            wait_for_clock(region)
            publisher.publish(site, 20)
            # One in the middle is killed while points come.
            region.process.kill()
            publisher.publish(site, 10)
            region.start()
            publisher.publish(site, 5)
            wait_for_all(top, publisher, "country/sites/region/sites/north")
            wait_for_all(region, publisher)
            assert [row_of(*at)["lost"] for at in ((top, "country"), (country, "region"), (region, "north"))] == [0, 0, 0]
            # The top knows how many are behind, and of a command each level keeps who asked.
            until(lambda: (behind_of(top, "country").get("sites"), behind_of(top, "country").get("away")) == (2, 0), lambda: f"{row_of(top, 'country')}")
            assert "2 sites" in tieline("sites", "--http", top.http).stdout
            assert "as site country; centre up; 1 site" in tieline("status", "--http", country.http).stdout
            wait_for_clock(country, "region")
            wait_for_clock(region)
            valve = f"{above}/test/room/valve"
            done = until(lambda: (answer := top.command(valve, 40)) and answer["status"] == "success" and answer, region.process.said)
            assert done["topic"] == valve
            top.wait_value(valve, v=40, q="good")
            refused = top.command(valve, 400)
            assert (refused["status"], refused["reason"]) == ("refused", "out_of_range"), refused
            who = {entry["who"] for entry in site.audit("test/room/valve")["entries"]}
            assert any(name.startswith("centre: centre: centre: http ") for name in who), who
        # The site is away: its values are marked at each level, and those of other sites are not.
        top.wait_value(valve, v=40, q="bad", why=["away"])
        until(lambda: behind_of(top, "country").get("away_topics") == [above], lambda: f"{row_of(top, 'country')}")
        assert row_of(top, "country")["state"] == "up"
        assert any("1 sites behind country are away" in detail for detail in top.health()["detail"])
        assert 'tieline_centre_site_behind_away{site="country"} 1' in top.metrics()
        away = top.command(valve, 41)
        assert (away["status"], away["reason"]) == ("refused", "away"), away


def test_centres_in_a_circle_send_nothing_and_say_so(tmp_path, servers):
    """A is a site of B, and B one of A."""
    one, two, _ = servers
    with level_of(tmp_path, "a", one, two) as a, level_of(tmp_path, "b", two, one) as b:
        a.set("plant/power", "1")
        b.set("plant/power", "2")
        for node in (a, b):
            until(lambda: "circle" in node.request("/v1/status")[1]["site"]["why"], lambda: f"{node.request('/v1/status')[1]}")
        topics = [row["topic"] for node in (a, b) for row in node.request("/v1/topics?filter=sites/%23")[1].get("topics", [])]
        assert all(topic.count("sites/") <= 1 for topic in topics), topics
