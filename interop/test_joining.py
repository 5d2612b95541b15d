"""Sites join a centre over a real nats-server: tokens, keys, permissions, and what is refused."""

import datetime
import json
import time

import pytest
from nats_peer import SERVER, Client, Refused, Server
from node import Node, tieline
from waiting import until

pytestmark = pytest.mark.skipif(SERVER is None, reason="no nats-server: .ci/nats builds it")


class Centre:
    """A centre that was set up as docs/joining.md says, with its server."""

    def __init__(self, folder):
        self.folder, config = folder, folder / "nats.conf"
        listen = ["--listen", "127.0.0.1:-1", "--store", folder / "nats"]
        told = tieline("fabric", "config", "--data", folder / "data", *listen, "-o", config).stderr
        assert "seed_file" in told and "[centre]" in told, told
        self.server = Server(config, folder)
        fabric = f'[fabric]\nservers = ["{self.server.url}"]\nseed_file = "data/fabric/centre.nk"\n[centre]\n'
        self.node = Node(folder, more=fabric)
        until(lambda: any("sites can connect" in line for line in self.node.process.errors), self.node.process.said, 30)

    def stop(self):
        self.node.__exit__()
        self.server.stop()

    def site(self, verb, *words, check=True):
        """`tieline site …`; its JSON."""
        done = tieline("site", verb, *words, "--http", self.node.http, "--json", check=check)
        return json.loads(done.stdout if done.returncode == 0 else done.stderr)

    def listed(self, name):
        return next(site for site in self.site("list")["sites"] if site["name"] == name)

    def join(self, token, name, check=True, more=()):
        """Joins with the data folder of that name; the command as it ended."""
        data = ["--data", self.folder / name]
        return tieline("join", f"http://{self.node.http}", "--token", token, *data, *more, "--json", check=check)

    def invite(self, name, *words):
        self.site("add", name)
        return self.site("token", name, *words)["token"]

    def joined(self, name):
        """A site that has joined; its seed."""
        self.join(self.invite(name), name)
        return self.seed(name)

    def seed(self, name):
        return (self.folder / name / "fabric" / "site.nk").read_text().strip()

    def client(self, seed):
        return Client(self.server.port, seed)

    def is_refused(self, seed):
        try:
            self.client(seed).close()
        except Refused:
            return True
        return False


@pytest.fixture(scope="module")
def centre(tmp_path_factory):
    centre = Centre(tmp_path_factory.mktemp("centre"))
    yield centre
    centre.stop()


def error(done):
    return json.loads(done.stderr)["error"]


def test_a_token_brings_in_one_site_in_one_command(centre):
    token = centre.invite("north")
    assert centre.listed("north")["state"] == "invited"
    seconds = []

    def joined():
        begin = time.monotonic()
        done = centre.join(token, "north", more=["--name", "north"])
        seconds.append(time.monotonic() - begin)
        return json.loads(done.stdout)

    first = joined()
    assert (first["site"], first["new"], first["connected"]) == ("north", True, True)
    # Asked again with the same key, the answer is the same.
    again = [joined() for _ in range(2)]
    assert all((answer["new"], answer["key"]) == (False, first["key"]) for answer in again)
    print(f"measured: a site joined in {seconds[0]:.2f} s")
    listed = centre.listed("north")
    assert (listed["state"], listed["key"], listed["token_expires"]) == ("active", first["key"], None)
    assert listed["last_seen"]
    fabric = centre.folder / "north" / "fabric"
    assert (fabric / "site.nk").stat().st_mode & 0o777 == 0o600
    settings = (fabric / "joined.toml").read_text()
    assert centre.server.url in settings and 'name = "north"' in settings

    other = centre.join(token, "other", check=False)
    assert other.returncode == 3 and "used already, with another key" in error(other)
    elsewhere = centre.join(centre.site("token", "north")["token"], "else", more=["--name", "south"], check=False)
    assert elsewhere.returncode == 3 and 'not for the site "south"' in error(elsewhere)
    assert token not in (centre.folder / "data/fabric/sites.json").read_text()


def test_wrong_and_expired_tokens_are_refused(centre):
    for token in ("tljoin_x", "", "tljoin_" + "A" * 32):
        wrong = centre.join(token, "unknown", check=False)
        assert wrong.returncode == 3 and "the token is wrong" in error(wrong)
    centre.site("add", "late")
    made = centre.site("token", "late", "--valid", "1s")
    expires = datetime.datetime.fromisoformat(made["expires"])
    until(lambda: datetime.datetime.now(datetime.UTC) > expires, "the token does not expire")
    late = centre.join(made["token"], "late", check=False)
    assert late.returncode == 3 and "the token expired at" in error(late)
    assert centre.listed("late")["state"] == "invited"
    unknown = centre.site("token", "nobody", check=False)
    assert unknown["exit"] == 3 and "there is no site" in unknown["error"]


def test_a_site_reaches_its_own_subjects_alone(centre):
    first, second = centre.client(centre.joined("s1")), centre.client(centre.joined("s2"))
    own = [f"tl.s1.{rest}" for rest in ("up.live", "up.backfill", "up.bulk", "up.events", "t.a.b", "join.key")]
    assert first.publish(*own) == []
    assert first.subscribe("tl.s1.call.x", "tl.s1.call.events", "tl.s1.t.>", "_INBOX_s1.>", "_INBOX_s1.a.b") == []

    # By name, as a site that knows all others would try it: 100 attempts.
    foreign = [
        f"tl.{site}.{rest}"
        for site in ("s2", "S1", "s1%2E", "centre", "s", "s10", "s1%00")
        for rest in ("up.live", "up.events", "call.events", "t.a", "join.key", "x.y")
    ]
    foreign += ["_INBOX_s2.a", "_INBOX_centre.a", "_INBOX.a", "$SYS.REQ.USER.AUTH", "$JS.API.INFO", "$KV.x.y", "tl.s1", "tl"]
    assert len(foreign) == 50
    assert first.publish(*foreign) == foreign
    assert first.subscribe(*foreign) == foreign
    wild = [">", "tl.>", "tl.*.up.*", "tl.*.call.*", "tl.*.t.>", "_INBOX_*.>", "_INBOX_s2.>", "*.s2.>", "$SYS.>", "*"]
    assert first.subscribe(*wild) == wild

    # Of its own subjects a site hears its calls, and does not make them; what goes up only the centre hears.
    own_calls = [f"tl.s1.call.{name}" for name in ("command", "set", "events")]
    assert first.publish(*own_calls) == own_calls
    assert first.subscribe("tl.s1.up.live", "tl.s1.join.key") == ["tl.s1.up.live", "tl.s1.join.key"]
    metrics = centre.node.metrics()
    assert "tieline_joining_up 1" in metrics and 'tieline_joining_connections_total{outcome="admitted"}' in metrics

    # What the second one publishes is heard by nobody but the centre.
    assert second.publish("tl.s2.up.live", "tl.s2.t.a") == []
    assert first.errors() == []
    first.close()
    second.close()


def test_clients_without_a_known_key_stay_out(centre):
    for seed in (None, (centre.folder / "data/fabric/issuer.nk").read_text().strip()):
        assert centre.is_refused(seed)
    made = json.loads(tieline("fabric", "keygen", centre.folder / "own.nk", "--json").stdout)
    seed = (centre.folder / "own.nk").read_text().strip()
    assert centre.is_refused(seed)
    # Put in before: it needs no command but its seed.
    centre.site("add", "own", "--public-key", made["key"])
    client = centre.client(seed)
    assert client.publish("tl.own.up.live", "tl.s1.up.live") == ["tl.s1.up.live"]
    taken = centre.site("add", "second", "--public-key", made["key"], check=False)
    assert taken["exit"] == 3 and "belongs to another site" in taken["error"]
    client.close()


def test_a_revoked_site_is_out_within_seconds(centre):
    token = centre.invite("gone")
    centre.join(token, "gone")
    seed = centre.seed("gone")
    clients = [centre.client(seed) for _ in range(3)]
    stays = centre.client(centre.joined("stays"))
    centre.site("revoke", "gone")
    until(lambda: all(client.is_closed() for client in clients), "the site is still connected", 10)
    assert centre.is_refused(seed)
    assert stays.publish("tl.stays.up.live") == []
    again = centre.join(token, "gone", check=False)
    assert again.returncode == 3
    assert "is revoked" in centre.site("token", "gone", check=False)["error"]
    # Taken up again by its name, with a key of its own.
    assert centre.site("add", "gone")["site"]["state"] == "invited"
    assert centre.is_refused(seed)


def test_a_site_changes_its_key(centre):
    before = centre.joined("turns")
    client = centre.client(before)
    rotated = json.loads(tieline("join", "--rotate", "--data", centre.folder / "turns", "--json").stdout)
    after = centre.seed("turns")
    assert before != after and centre.listed("turns")["key"] == rotated["key"]
    until(client.is_closed, "the connection with the key before goes on", 10)
    assert centre.is_refused(before)
    assert centre.client(after).publish("tl.turns.up.live") == []
    phases = {record["phase"] for record in centre.node.request("/v1/audit?limit=1000")[1]["entries"]}
    assert {"site_added", "site_token", "site_joined", "site_key"} <= phases, phases


def test_a_centre_that_is_a_site_changes_its_key(centre, tmp_path):
    """The key by which it is a site, not those by which it lets in its own sites."""
    region, own = Centre(tmp_path), tmp_path / "own"
    own.mkdir()
    try:
        token, data = centre.invite("region"), ["--data", region.node.data]
        tieline("join", f"http://{centre.node.http}", "--token", token, *data)
        region.node.process.stop()
        region.node.start()
        region.join(region.invite("north"), "north")
        with Node(own, data=tmp_path / "north") as north:
            there = "sites/region/sites/north/plant/power"

            def arrives(value):
                north.set("plant/power", value)
                until(lambda: (centre.node.get(there) or {}).get("v") == float(value), region.node.process.said, 30)

            arrives("1")
            before, below = centre.listed("region")["key"], region.listed("north")["key"]
            rotated = json.loads(tieline("join", "--rotate", *data, "--json").stdout)
            assert rotated["site"] == "region" and centre.listed("region")["key"] == rotated["key"] != before
            # All go on, and after a restart, too.
            arrives("2")
            region.node.process.kill()
            region.node.start()
            arrives("3")
            assert region.listed("north")["key"] == below
            # And it lets in others as before.
            region.join(region.invite("west"), "west")
    finally:
        region.stop()


def test_sites_survive_a_restart_of_the_centre(centre):
    seed = centre.joined("lasting")
    centre.node.process.kill()
    centre.node.start()
    until(lambda: not centre.is_refused(seed), centre.node.process.said, 30)
    assert centre.listed("lasting")["state"] == "active"


def test_a_token_does_not_cross_a_network_without_tls(centre):
    done = tieline("join", "http://192.0.2.1:8080", "--token", "x", "--data", centre.folder / "plain", check=False)
    assert done.returncode == 1 and "expected https://" in done.stderr
    assert not (centre.folder / "plain").exists()
    lonely = tieline("join", "--rotate", "--data", centre.folder / "plain", check=False)
    assert lonely.returncode == 1 and "has not joined" in lonely.stderr


def test_a_node_that_is_no_centre_says_so(start_node):
    node = start_node()
    done = tieline("site", "list", "--http", node.http, check=False)
    assert done.returncode == 3 and "lets no sites in" in done.stderr
