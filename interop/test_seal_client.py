"""The Python client of seal servers, against our server and, frame by frame, by itself."""

import asyncio
import contextlib
import random
import ssl
import subprocess

import pytest
import rsfn
from carriers import certificate
from node import BINARY, tieline
from processes import Lines
from test_seal import CONTENT, TOKEN, folder  # noqa: F401  the fixture
from tieline.seal import Blocking, Broken, Cluster, Reason, Refused, Server, Unavailable, protocol


@pytest.fixture
def servers(folder):  # noqa: F811
    """Two servers with the same keys."""
    free = "127.0.0.1:0"
    words = ["seal", "serve", "--config", folder / "seal.toml", "--http", free, "--protocol", free, "--json"]
    processes = [Lines([str(word) for word in (BINARY, *words)]) for _ in range(2)]
    yield [(process, Server(process.first()["protocol"])) for process in processes]
    for process in processes:
        process.stop()


def test_what_one_server_packs_the_other_implementation_opens(servers):
    with Blocking([server for _, server in servers], TOKEN) as cluster:
        message = cluster.pack("alice", "12345678", CONTENT)
        assert rsfn.unpack(message, rsfn.ALICE, rsfn.BRUNO) == CONTENT
        unpacked = cluster.unpack("alice", rsfn.pack(3, 0, rsfn.BRUNO, rsfn.ALICE, CONTENT), sender="12345678")
        assert (unpacked.sender, unpacked.treatment, unpacked.content) == ("12345678", 0, CONTENT)


def test_what_no_server_would_do_is_refused_by_reason(servers):
    message = rsfn.pack(3, 0, rsfn.BRUNO, rsfn.ALICE, CONTENT)
    with Blocking([server for _, server in servers], TOKEN) as cluster:
        for ask, reason in [
            (lambda: cluster.pack("nobody", "12345678", CONTENT), Reason.REQUEST),
            (lambda: cluster.pack("alice", "99999999", CONTENT), Reason.REQUEST),
            (lambda: cluster.unpack("alice", message[:-1]), Reason.MESSAGE),
        ]:
            with pytest.raises(Refused) as refused:
                ask()
            assert refused.value.reason == reason, refused.value
    with Blocking([servers[0][1]], "another token", patience_seconds=0.2) as cluster:
        with pytest.raises(Unavailable, match="token"):
            cluster.pack("alice", "12345678", CONTENT)


def test_one_of_two_servers_killed_under_load_loses_no_request(servers):
    async def load():
        async with Cluster([server for _, server in servers], TOKEN) as cluster:
            answered, killed = 0, False

            async def ask():
                nonlocal answered, killed
                for _ in range(20):
                    assert len(await cluster.pack("alice", "12345678", CONTENT)) > len(CONTENT)
                    answered += 1
                    if not killed and min(cluster.sent) > 50:  # both are at work
                        killed = True
                        servers[0][0].kill()

            await asyncio.gather(*(ask() for _ in range(32)))
            return answered, cluster.sent, cluster.connected

    answered, sent, connected = asyncio.run(load())
    assert answered == 640 and connected == 1 and 50 < min(sent) < 320, (answered, sent)


def test_weights_share_the_load(servers):
    async def load():
        weighted = [Server(servers[0][1].address, weight=3), servers[1][1]]
        async with Cluster(weighted, TOKEN) as cluster:
            while cluster.connected < 2:
                await cluster.pack("alice", "12345678", CONTENT)
            before = cluster.sent
            await asyncio.gather(*(cluster.pack("alice", "12345678", CONTENT) for _ in range(80)))
            return [now - then for now, then in zip(cluster.sent, before, strict=True)]

    assert asyncio.run(load()) == [60, 20]


RESPONSES = [
    (bytes.fromhex("00000012 81 00000000 01 00000400 0000000000400000"), protocol.Welcome(1, 1024, 4 << 20)),
    (bytes.fromhex("00000008 82 00000007 aabbcc"), protocol.Packed(b"\xaa\xbb\xcc")),
    (
        bytes.fromhex("00000010 83 00000008 3132333435363738 00 04 6f"),
        protocol.Unpacked("12345678", 0, 4, b"o"),
    ),
    (bytes.fromhex("00000009 84 00000000 00000002"), protocol.Pong(2)),
    (bytes.fromhex("00000005 85 00000000"), protocol.Closing()),
]


def test_any_chunking_gives_the_same_responses():
    stream = b"".join(data for data, _ in RESPONSES)
    for seed in range(200):
        draw, decoder, found, at = random.Random(seed), protocol.Decoder(), [], 0
        while at < len(stream):
            step = draw.randint(1, 20)
            found += decoder.feed(stream[at : at + step])
            at += step
        assert [response for _, response in found] == [response for _, response in RESPONSES], f"seed {seed}"


def test_what_the_protocol_does_not_have_is_told():
    short, unknown, long, huge = "00000004 81 000000", "00000005 99 00000000", "00000006 84 00000000 00", "00100000 82"
    for data in (short, unknown, long, huge, "00000007 8f 00000001 63 00"):
        with pytest.raises(Broken):
            protocol.Decoder().feed(bytes.fromhex(data))
    for seed in range(500):
        with contextlib.suppress(Broken):
            protocol.Decoder().feed(random.Random(seed).randbytes(60))


@pytest.mark.parametrize("wrong", [("nohost", 1), ("a:b", 1), ("a:70000", 1), ("a:1", 0)])
def test_servers_are_checked(wrong):
    with pytest.raises(ValueError, match="expected"):
        Server(*wrong)


@pytest.fixture(scope="module")
def secured(folder, tmp_path_factory):  # noqa: F811
    """A server with mutual TLS, where it listens, and the certificates."""
    home = tmp_path_factory.mktemp("tls")
    server, client, stranger = (certificate(home, name) for name in ("server", "client", "stranger"))
    tls = f'[tls]\ncertificate = "{server[0]}"\nkey = "{server[1]}"\npinned = ["{client[0]}"]\n'
    (folder / "tls.toml").write_text(tls + (folder / "seal.toml").read_text())
    free = "127.0.0.1:0"
    words = ["seal", "serve", "--config", folder / "tls.toml", "--http", free, "--protocol", free, "--json"]
    with Lines([str(word) for word in (BINARY, *words)]) as process:
        yield process.first(), server, client, stranger


def trusting(server, shown):
    context = ssl.create_default_context(cafile=server[0])
    context.load_cert_chain(*shown)
    return context


def test_both_doors_speak_tls_with_known_clients_only(secured):
    addresses, server, client, stranger = secured
    with Blocking([Server(addresses["protocol"])], TOKEN, tls=trusting(server, client)) as cluster:
        message = cluster.pack("alice", "12345678", CONTENT)
        assert rsfn.unpack(message, rsfn.ALICE, rsfn.BRUNO) == CONTENT
    for wrong in ({"tls": trusting(server, stranger)}, {}):
        with Blocking([Server(addresses["protocol"])], TOKEN, patience_seconds=0.5, **wrong) as cluster:
            with pytest.raises(Unavailable):
                cluster.pack("alice", "12345678", CONTENT)


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_http_speaks_tls_in_both_versions(secured, version):
    addresses, server, client, stranger = secured
    url = f"https://{addresses['http']}/v1/seal/pack?domain=alice&to=12345678"
    curl = ["curl", "-sS", version, "--cacert", server[0], "-w", "%{stderr}%{http_version}"]
    asked = ["-H", f"Authorization: Bearer {TOKEN}", "--data-binary", "@-", url]
    done = subprocess.run([*curl, "--cert", client[0], "--key", client[1], *asked], input=CONTENT, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert rsfn.unpack(done.stdout, rsfn.ALICE, rsfn.BRUNO) == CONTENT
    assert done.stderr.decode() == version.removeprefix("--http")
    for shown in (["--cert", stranger[0], "--key", stranger[1]], []):
        refused = subprocess.run([*curl, *shown, *asked], input=CONTENT, capture_output=True)
        assert refused.returncode != 0 and not refused.stdout


def test_what_is_wrong_with_tls_is_said(folder, secured):  # noqa: F811
    _, server, client, _ = secured
    for tls, says in [
        (f'certificate = "{server[0]}"\nkey = "{client[1]}"', "another certificate"),
        (f'certificate = "{server[0]}"', "tls.key"),
        (f'certificate = "{server[1]}"\nkey = "{server[1]}"', "tls.certificate"),
    ]:
        (folder / "wrong.toml").write_text(f"[tls]\n{tls}\n" + (folder / "seal.toml").read_text())
        refused = tieline("seal", "serve", "--config", folder / "wrong.toml", check=False)
        assert refused.returncode != 0 and says in refused.stderr, refused.stderr
