"""The operator's side of nats-servers: `tieline fabric start`, `status`, `check`, with real servers and every kind of access."""

import base64
import json
import os
import signal
import socket
import time

import pytest
from authority import Authority
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nats_peer import SERVER, Server, public
from node import BINARY, Node, tieline
from peers.ports import free_port
from processes import Lines
from waiting import until

pytestmark = pytest.mark.skipif(SERVER is None, reason="no nats-server: .ci/nats builds it")


class Started:
    """`tieline fabric start` with ports of its own."""

    def __init__(self, folder, *more, name="nats", listen="127.0.0.1:0"):
        self.data, store = folder / "data", folder / name
        words = ["--data", self.data, "--store", store, "--server", SERVER, "--listen", listen, "--monitor", "127.0.0.1:0"]
        self.process = Lines([BINARY, "fabric", "start", *words, *more, "--json"])

    def hello(self):
        self.said = self.process.first(30)
        self.monitor, self.url = self.said["monitor"], self.said["url"]
        return self

    def logged(self, text):
        return any(text in line for line in self.process.errors)

    def stop(self):
        return self.process.stop(20)


def status(*monitors, check=True):
    words = [word for monitor in monitors for word in ("--monitor", monitor)]
    done = tieline("fabric", "status", *words, "--json", check=check)
    return json.loads(done.stdout) if done.stdout else done


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_server_is_started_again_and_stopped_in_order(tmp_path):
    started = Started(tmp_path).hello()
    try:
        conf = tmp_path / "data/fabric/nats.conf"
        assert conf.stat().st_mode & 0o777 == 0o600 and "sync_interval: always" in conf.read_text()
        seed = tmp_path / "data/fabric/centre.nk"
        fabric = f'[fabric]\nservers = ["{started.url}"]\nseed_file = "{seed}"\n[centre]\n'
        with Node(tmp_path, more=fabric) as node:
            until(lambda: any("sites can connect" in line for line in node.process.errors), node.process.said, 30)
            found = status(started.monitor)
            [server] = found["servers"]
            assert (server["name"], server["health"], server["slow_consumers"]) == ("centre", "ok", 0)
            assert server["connections"] >= 2 and len(found["connections"]) >= 2
            checked = json.loads(tieline("fabric", "check", started.url, "--seed", seed, "--json").stdout)
            assert (checked["name"], checked["keeps_logs"]) == ("centre", True)

            os.kill(started.said["pid"], signal.SIGKILL)
            until(lambda: started.logged("it is started again"), started.process.said)
            until(lambda: started.logged("listens again"), started.process.said)

            def is_back():
                done = tieline("fabric", "status", "--monitor", started.monitor, "--json", check=False)
                return done.returncode == 0 and json.loads(done.stdout)["servers"][0]["connections"] >= 2

            until(is_back, started.process.said, 30)
            # Asked to end, it has its clients go, and ends.
            assert started.stop() == 0, started.process.said()
            assert started.logged("lame duck mode")
        ended = tieline("fabric", "status", "--monitor", started.monitor, "--json", check=False)
        assert ended.returncode == 4, ended.stderr
    finally:
        started.stop()


def test_what_is_wrong_is_said_before_anything_runs(tmp_path):
    def refused(*words):
        done = tieline("fabric", "start", "--data", tmp_path / "data", "--store", tmp_path / "nats", *words, check=False)
        return done.returncode, done.stderr

    code, said = refused("--server", tmp_path / "none")
    assert code == 1 and "cannot be run, expected nats-server on the path" in said
    old = tmp_path / "nats-server"
    old.write_text("#!/bin/sh\necho 'nats-server: v2.9.10'\n")
    old.chmod(0o755)
    code, said = refused("--server", old)
    assert code == 3 and "the server is nats-server 2.9.10, expected 2.12.0 or newer" in said
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        code, said = refused("--server", SERVER, "--listen", listen, "--monitor", "127.0.0.1:0")
    assert code == 1 and "ended before it listened" in said and "address already in use" in said
    code, said = refused("--server", SERVER, "--tls-cert", tmp_path / "no.pem", "--tls-key", tmp_path / "no.key")
    assert code == 1 and "does not take its configuration" in said and "no.pem" in said
    code, said = refused("--server", SERVER, "--peer", "n2:6222")
    assert code == 1 and "expected --peer twice, found it 1 times" in said
    code, said = refused("--server", SERVER, "--peer", "n2:6222", "--peer", "n3:6222")
    assert code == 1 and "--name is missing" in said


def test_three_servers_find_a_leader(tmp_path):
    names = ["n1", "n2", "n3"]
    authority = Authority(tmp_path).issue("server", names="IP:127.0.0.1")
    certificate, key = authority.files("server")
    tls = ["--tls-cert", certificate, "--tls-key", key, "--tls-ca", authority.file]
    # Without the keys of the first one, a cluster does not begin.
    alone = ["--name", "n1", "--peer", "127.0.0.1:1", "--peer", "127.0.0.1:2", *tls]
    absent = tieline("fabric", "start", "--data", tmp_path / "data", "--server", SERVER, *alone, check=False)
    assert absent.returncode == 1 and "the servers of a cluster need the same keys" in absent.stderr
    tieline("fabric", "config", "--data", tmp_path / "data", "-o", tmp_path / "first.conf")
    ports = [f"127.0.0.1:{free_port()}" for _ in names]
    servers = []
    try:
        for name, port in zip(names, ports):
            # Each has a data folder of its own, with the keys that were copied.
            folder = tmp_path / name
            (folder / "data/fabric").mkdir(parents=True)
            for file in ("issuer.nk", "door.nk", "centre.nk"):
                (folder / "data/fabric" / file).write_text((tmp_path / "data/fabric" / file).read_text())
                (folder / "data/fabric" / file).chmod(0o600)
            peers = [word for other in ports if other != port for word in ("--peer", other)]
            servers.append(Started(folder, "--name", name, "--cluster-listen", port, *peers, *tls))
        monitors = [server.hello().monitor for server in servers]

        def led():
            done = tieline("fabric", "status", *(w for m in monitors for w in ("--monitor", m)), "--json", check=False)
            found = json.loads(done.stdout)["servers"]
            leaders = {server.get("leader") for server in found}
            return done.returncode == 0 and len(found) == 3 and len(leaders) == 1 and leaders <= set(names)

        until(led, lambda: "\n".join(server.process.said() for server in servers), 60)
        checked = ["fabric", "check", servers[0].url, "--ca", authority.file, "--seed", tmp_path / "data/fabric/centre.nk"]
        until(lambda: tieline(*checked, check=False).returncode == 0, "the cluster keeps no logs", 30)
        assert json.loads(tieline(*checked, "--json").stdout)["keeps_logs"] is True
        servers[2].stop()
        partly = tieline("fabric", "status", *(w for m in monitors for w in ("--monitor", m)), check=False)
        assert partly.returncode == 7 and "no answer from" in partly.stdout, partly
    finally:
        for server in servers:
            server.process.process.terminate()
        for server in servers:
            server.stop()


class Key:
    """An nkey: `O` of an operator, `A` of an account, `U` of a user."""

    KINDS = {"O": 14, "A": 0, "U": 20}

    def __init__(self, kind):
        self.key = Ed25519PrivateKey.generate()
        prefix = self.KINDS[kind] << 3
        self.raw = bytes([(18 << 3) | (prefix >> 5), (prefix & 31) << 3]) + self.key.private_bytes_raw()
        self.public = public(self.raw, self.key)

    @property
    def seed(self):
        crc = 0
        for byte in self.raw:
            crc ^= byte << 8
            for _ in range(8):
                crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
        return base64.b32encode(self.raw + crc.to_bytes(2, "little")).decode().rstrip("=")

    def sign(self, subject, name, nats, **more):
        """A JWT about another key."""

        def part(text):
            return base64.urlsafe_b64encode(text).decode().rstrip("=")

        body = {"jti": name, "iat": int(time.time()), "iss": self.public, "name": name, "sub": subject.public, **more}
        head = {"typ": "JWT", "alg": "ed25519-nkey"}
        signed = ".".join(part(json.dumps(one).encode()) for one in (head, {**body, "nats": {**nats, "version": 2}}))
        return f"{signed}.{part(self.key.sign(signed.encode()))}"


def credentials(jwt, seed):
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )


@pytest.fixture
def serve(tmp_path):
    """Starts servers with configurations of their own."""
    servers = []

    def serve(config):
        folder = tmp_path / f"server{len(servers)}"
        folder.mkdir()
        (folder / "nats.conf").write_text(f'listen: "127.0.0.1:-1"\n{config}\n')
        servers.append(Server(folder / "nats.conf", folder))
        return servers[-1]

    yield serve
    for server in servers:
        server.stop()


def checks(url, *words):
    """What `tieline fabric check` comes to: its exit code, and what it says."""
    done = tieline("fabric", "check", url, *words, "--timeout", "3s", "--json", check=False)
    told = json.loads(done.stdout or done.stderr)
    return done.returncode, told.get("error", told)


def test_check_over_tls(tmp_path, serve):
    authority = Authority(tmp_path).issue("server", names="IP:127.0.0.1").issue("away", names="DNS:other.example").issue("client")
    other = Authority(tmp_path, "other").file

    def tls(name, more=""):
        certificate, key = authority.files(name)
        return f'tls {{ cert_file: "{certificate}", key_file: "{key}" {more} }}'

    url = serve(tls("server")).url.replace("nats://", "tls://")
    assert checks(url, "--ca", authority.file)[0] == 0
    code, said = checks(url, "--ca", other)
    assert code == 3 and "UnknownIssuer" in said, said
    code, said = checks(url)
    assert code == 3 and "UnknownIssuer" in said, said
    code, said = checks(url, "--ca", tmp_path / "none.pem")
    assert code == 1 and "none.pem" in said, said
    # The name of the certificate is another one.
    code, said = checks(serve(tls("away")).url.replace("nats://", "tls://"), "--ca", authority.file)
    assert code == 3 and "not valid for name" in said, said
    # A server that wants a certificate.
    mutual = serve(tls("server", f', ca_file: "{authority.file}", verify: true')).url.replace("nats://", "tls://")
    certificate, key = authority.files("client")
    assert checks(mutual, "--ca", authority.file, "--cert", certificate, "--key", key)[0] == 0
    code, said = checks(mutual, "--ca", authority.file)
    assert code in (3, 4) and "CertificateRequired" in said, said
    # A server without TLS, asked over it.
    code, said = checks(serve("").url.replace("nats://", "tls://"), "--ca", authority.file)
    assert code in (3, 4) and said.startswith(("the server refuses", "no answer")), said


def test_check_with_every_kind_of_access(tmp_path, serve):
    def file(name, text):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    right, wrong = file("right", "secret\n"), file("wrong", "Secret\n")
    url = serve('authorization { users: [ { user: anna, password: "secret" } ] }').url
    assert checks(url, "--user", "anna", "--password-file", right)[0] == 0
    for words in ([], ["--user", "anna", "--password-file", wrong], ["--user", "otto", "--password-file", right]):
        code, said = checks(url, *words)
        assert code == 3 and "authorization violation" in said, said

    site, unknown = Key("U"), Key("U")
    url = serve(f"authorization {{ users: [ {{ nkey: {site.public} }} ] }}").url
    assert checks(url, "--seed", file("site.nk", site.seed))[0] == 0
    code, said = checks(url, "--seed", file("unknown.nk", unknown.seed))
    assert code == 3 and "authorization violation" in said, said
    code, said = checks(url, "--seed", file("account.nk", Key("A").seed))
    assert code == 1 and "has no seed, expected one that begins with SU" in said, said
    file("open.nk", site.seed).chmod(0o644)
    code, said = checks(url, "--seed", tmp_path / "open.nk")
    assert code == 1 and "has the mode 644, expected 600" in said, said

    operator, account, user = Key("O"), Key("A"), Key("U")
    limits = dict.fromkeys(["subs", "data", "payload", "imports", "exports", "conn", "leaf"], -1) | {"wildcards": True}
    of_account = operator.sign(account, "T", {"type": "account", "limits": limits})
    of_operator = operator.sign(operator, "O", {"type": "operator"})
    allowed = {"type": "user", "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1}
    url = serve(f"operator: {of_operator}\nresolver: MEMORY\nresolver_preload: {{ {account.public}: {of_account} }}").url
    good = account.sign(user, "north", allowed)
    assert checks(url, "--credentials", file("good.creds", credentials(good, user.seed)))[0] == 0
    for name, text in {
        "of another account": credentials(Key("A").sign(user, "north", allowed), user.seed),
        "with another seed": credentials(good, unknown.seed),
        "expired": credentials(account.sign(user, "north", allowed, exp=int(time.time()) - 60), user.seed),
    }.items():
        code, said = checks(url, "--credentials", file("bad.creds", text))
        assert code == 3 and "the server refuses" in said, (name, said)
    code, said = checks(url, "--credentials", file("none.creds", "nothing"))
    assert code == 1 and "these are no credentials" in said, said
    code, said = checks(url, "--credentials", tmp_path / "absent.creds")
    assert code == 1 and "absent.creds" in said, said
