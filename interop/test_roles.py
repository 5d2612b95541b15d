"""Roles: an edge, a centre and three sites from nothing, by commands alone, with TLS, tokens and rights of each site."""

import json
import time

import pytest
from authority import Authority
from nats_peer import SERVER
from node import BINARY, tieline
from processes import Lines
from waiting import until

POINTS = "name,type,value,curve,noise,decimals\n" + "".join(f"p{n},float,,sine(20 5 1m),0.5,3\n" for n in range(3))
DEVICE = '[device.d]\ntopic = "d"\nprotocol = "simulated"\npoints = "points.csv"\npoll = { every = "200ms" }\n'


class Run(Lines):
    """`tieline run` with free ports."""

    def __init__(self, folder, *words, plain=True):
        ports = ["--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0"] if plain else []
        super().__init__([BINARY, "run", "--data", folder / "data", *ports, *words, "--json"])

    def hello(self):
        self.hello_ = self.first(30)
        self.http, self.mqtt, self.name = (self.hello_[key] for key in ("http", "mqtt", "name"))
        return self


def get(node, topic):
    done = tieline("get", topic, "--http", node.http, "--json", check=False)
    return done.stdout.strip()


def test_an_edge_by_its_role(tmp_path):
    """It shows its upstream, and writes nothing that was not asked for."""
    core = tmp_path / "core"
    core.mkdir()
    (core / "points.csv").write_text(POINTS)
    (core / "core.toml").write_text(DEVICE)
    with Run(core, "--config", core / "core.toml") as upstream, Run(
        tmp_path / "edge", "--role", "edge", "--upstream", f"mqtt://{upstream.hello().mqtt}", "--name", "e1"
    ) as edge:
        assert edge.hello().name == "e1"
        until(lambda: '"good"' in get(edge, "d/p0"), edge.said)
        assert not list((tmp_path / "edge").rglob("*.toml"))
    shown = tieline("config", "show", "--role", "edge", "--upstream", "mqtt://a", "--upstream", "mqtts://b", "--name", "e1").stdout
    (tmp_path / "shown.toml").write_text(shown)
    assert 'upstream = ["mqtt://a", "mqtts://b"]' in shown
    tieline("config", "check", tmp_path / "shown.toml")
    for words, said in [
        (["--role", "edge"], "expected --upstream"),
        (["--role", "site"], "has joined no centre"),
        (["--role", "site", "--upstream", "mqtt://a"], "--upstream is of edges"),
        (["--role", "edge", "--upstream", "nonsense"], "expected"),
        (["--role", "centre"], "tieline fabric start, or tieline fabric config, makes it"),
    ]:
        done = tieline("run", "--data", tmp_path / "none", *words, check=False)
        assert done.returncode == 1 and said in done.stderr, (words, done)


@pytest.mark.skipif(SERVER is None, reason="no nats-server: .ci/nats builds it")
def test_three_sites_from_nothing(tmp_path):
    begin = time.monotonic()
    authority = Authority(tmp_path).issue("centre", names="IP:127.0.0.1")
    certificate, key = authority.files("centre")
    running = []
    try:
        words = ["--server", SERVER, "--listen", "127.0.0.1:0", "--monitor", "127.0.0.1:0", "--store", tmp_path / "nats"]
        tls = ["--tls-cert", certificate, "--tls-key", key, "--data", tmp_path / "centre/data", "--json"]
        running.append(Lines([BINARY, "fabric", "start", *words, *tls]))
        url = running[0].first(30)["url"]
        (tmp_path / "centre.toml").write_text(f'[http]\ntls = {{ certificate = "{certificate}", key = "{key}" }}\n')
        role = ["--role", "centre", "--fabric", url, "--fabric-ca", authority.file]
        shown = tieline("config", "show", *role, "--data", tmp_path / "centre/data").stdout
        assert f'servers = ["{url}"]' in shown and "[centre]" in shown
        centre = Run(tmp_path / "centre", "--config", tmp_path / "centre.toml", *role).hello()
        running.append(centre)
        https = f"https://{centre.http}"
        at = ["--http", https, "--ca", authority.file, "--json"]
        until(lambda: any("sites can connect" in line for line in centre.errors), centre.said, 30)

        seconds = {}
        for name in ("north", "south", "west"):
            of_site = time.monotonic()
            folder = tmp_path / name
            folder.mkdir()
            (folder / "points.csv").write_text(POINTS)
            (folder / "site.toml").write_text(DEVICE)
            tieline("site", "add", name, *at)
            token = json.loads(tieline("site", "token", name, *at).stdout)["token"]
            (folder / "token").write_text(token)
            join = ["--join", https, "--token-file", folder / "token", "--ca", authority.file]
            site = Run(folder, "--config", folder / "site.toml", "--role", "site", *join)
            running.append(site)

            def shows():
                done = tieline("get", f"sites/{name}/d/p0", *at, check=False)
                return done.returncode == 0 and '"good"' in done.stdout

            until(shows, lambda: f"{site.said()}\n{centre.said()}", 30)
            seconds[name] = time.monotonic() - of_site
        print(f"measured: three sites in {time.monotonic() - begin:.1f} s, each {seconds}")
        # Started again, it joins no more: its token is used.
        assert site.stop() == 0, site.said()
        again = Run(folder, "--config", folder / "site.toml", "--role", "site", *join).hello()
        running.append(again)
        until(lambda: any("has joined before" in line for line in again.errors), again.said)
        joined = tieline("config", "show", "--role", "site", "--data", folder / "data").stdout
        assert 'name = "west"' in joined and url in joined
    finally:
        for one in reversed(running):
            one.stop()
