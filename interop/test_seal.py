"""`tieline seal` against another implementation of the envelope: through its server, with keys from PKCS#12."""

import gzip
import hashlib
import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
import rsfn
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from node import BINARY, tieline
from processes import Lines
from waiting import until

CONTENT = "<DOC>ç €</DOC>".encode("utf-16-be")
TOKEN = "a token of this test"
CONFIG = f"""
[client.test]
token_sha256 = "{hashlib.sha256(TOKEN.encode()).hexdigest()}"
rights = ["pack:*", "unpack:*"]

[domain.alice]
ispb = "12345678"
[[domain.alice.key]]
version = 3
file = "alice.p12"
password_file = "password"
[[domain.alice.peer]]
ispb = "12345678"
certificate = "{rsfn.VECTORS}/bruno.cert.pem"
"""


def certificate(party):
    return x509.load_pem_x509_certificate((rsfn.VECTORS / f"{party.name}.cert.pem").read_bytes())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Alice's key as PKCS#12, and a configuration in which she knows Bruno."""
    folder = tmp_path_factory.mktemp("seal")
    closed = pkcs12.serialize_key_and_certificates(
        b"alice", rsfn.ALICE.key, certificate(rsfn.ALICE), None, BestAvailableEncryption(b"a password")
    )
    (folder / "alice.p12").write_bytes(closed)
    (folder / "password").write_text("a password\n")
    (folder / "seal.toml").write_text(CONFIG)
    return folder


@pytest.fixture(scope="module")
def server(folder):
    """Where a server listens."""
    free = "127.0.0.1:0"
    words = ["seal", "serve", "--config", folder / "seal.toml", "--http", free, "--protocol", free, "--json"]
    process = Lines([str(word) for word in (BINARY, *words)])
    yield process.first()["http"]
    process.stop()


def ask(server, path, body):
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/octet-stream"}
    request = urllib.request.Request(f"http://{server}/v1/seal/{path}", body, headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers, answer.read()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("treatment", [0, 4, 8, 2, 10])
def test_the_other_opens_what_the_server_packs(server, version, treatment):
    _, message = ask(server, f"pack?domain=alice&to=12345678&version={version}&treatment={treatment}", CONTENT * 50)
    signed = rsfn.unpack(message, rsfn.ALICE, rsfn.BRUNO)
    plain = gzip.decompress(signed) if treatment in (8, 10) else signed
    assert plain.startswith(CONTENT * 50) and len(plain) - len(CONTENT * 50) < 8


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("treatment", [0, 4, 8, 2, 10])
def test_the_server_opens_what_the_other_packs(server, version, treatment):
    content = gzip.compress(CONTENT) if treatment in (8, 10) else CONTENT
    message = rsfn.pack(version, treatment, rsfn.BRUNO, rsfn.ALICE, content)
    headers, plain = ask(server, "unpack?domain=alice&from=12345678", message)
    assert plain == CONTENT
    assert headers["tieline-treatment"] == str(treatment) and headers["tieline-from"] == "12345678"


def test_what_the_other_damaged_is_one_answer(server):
    message = rsfn.pack(3, 0, rsfn.BRUNO, rsfn.ALICE, CONTENT)
    told = set()
    for at in (100, 400, 590):
        damaged = message[:at] + bytes([message[at] ^ 1]) + message[at + 1 :]
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(server, "unpack?domain=alice", damaged)
        told.add((refused.value.code, refused.value.read()))
    assert len(told) == 1 and told.pop()[0] == 422


def test_files_are_opened_with_a_key_from_pkcs12(folder):
    message, content = folder / "message", folder / "content"
    message.write_bytes(rsfn.pack(3, 8, rsfn.BRUNO, rsfn.ALICE, gzip.compress(CONTENT)))
    key = ["--key", folder / "alice.p12", "--password-file", folder / "password"]
    tieline("seal", "unpack", *key, "--from", rsfn.VECTORS / "bruno.cert.pem", message, "-o", content)
    assert content.read_bytes() == CONTENT
    (folder / "wrong").write_text("another password")
    key[3] = folder / "wrong"
    refused = tieline("seal", "unpack", *key, "--from", rsfn.VECTORS / "bruno.cert.pem", message, check=False)
    assert refused.returncode == 1 and "password" in refused.stderr


@pytest.fixture(scope="module")
def token(tmp_path_factory, folder):
    """Alice's key in a token of SoftHSM: the environment that reaches it."""
    home = tmp_path_factory.mktemp("softhsm")
    (home / "tokens").mkdir()
    (home / "softhsm2.conf").write_text(f"directories.tokendir = {home}/tokens\nobjectstore.backend = file\n")
    environment = os.environ | {"SOFTHSM2_CONF": str(home / "softhsm2.conf")}
    (home / "key").write_bytes(rsfn.ALICE.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    for words in (
        ["--init-token", "--free", "--label", "bank", "--so-pin", "12345678", "--pin", "a pin"],
        ["--import", home / "key", "--token", "bank", "--label", "spb", "--id", "01fe", "--pin", "a pin"],
    ):
        subprocess.run(["softhsm2-util", *words], env=environment, check=True, capture_output=True)
    (folder / "pin").write_text("a pin\n")
    return environment


URI = f"pkcs11:token=bank;object=spb;id=%01%FE?module-path={rsfn.SOFTHSM}"
TOKEN_KEY = f"""
file = "{URI}"
certificate = "{rsfn.VECTORS}/alice.cert.pem"
password_file = "pin"
"""


def test_a_key_in_a_token_signs_and_decrypts(folder, token):
    (folder / "token.toml").write_text(CONFIG.replace('file = "alice.p12"\npassword_file = "password"\n', TOKEN_KEY))
    free = "127.0.0.1:0"
    words = ["seal", "serve", "--config", folder / "token.toml", "--http", free, "--protocol", free, "--json"]
    with Lines([str(word) for word in (BINARY, *words)], env=token) as process:
        server = process.first()["http"]
        for version in (2, 3):
            _, message = ask(server, f"pack?domain=alice&to=12345678&version={version}", CONTENT)
            assert rsfn.unpack(message, rsfn.ALICE, rsfn.BRUNO).startswith(CONTENT)
            _, plain = ask(server, "unpack?domain=alice", rsfn.pack(version, 0, rsfn.BRUNO, rsfn.ALICE, CONTENT))
            assert plain.startswith(CONTENT)
        with ThreadPoolExecutor(16) as pool:
            asked = [pool.submit(ask, server, "pack?domain=alice&to=12345678", CONTENT) for _ in range(64)]
            assert all(rsfn.unpack(one.result()[1], rsfn.ALICE, rsfn.BRUNO) == CONTENT for one in asked)
        message = rsfn.pack(3, 0, rsfn.BRUNO, rsfn.ALICE, CONTENT)
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(server, "unpack?domain=alice", message[:100] + bytes([message[100] ^ 1]) + message[101:])
        assert refused.value.code == 422


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("object=spb", "object=spc"), "0 such private keys"),
        (("token=bank", "token=bonk"), "0 tokens of that name"),
        ((f"module-path={rsfn.SOFTHSM}", "module-path=/nowhere.so"), "/nowhere.so"),
        (("?module-path", "?module"), "expected token, serial"),
        (("alice.cert", "bruno.cert"), "another key"),
        (('"pin"', '"password"'), "password is wrong"),
    ],
)
def test_what_is_wrong_with_a_token_is_said(folder, token, change, says):
    config = CONFIG.replace('file = "alice.p12"\npassword_file = "password"\n', TOKEN_KEY.replace(*change))
    (folder / "wrong.toml").write_text(config)
    refused = tieline("seal", "serve", "--config", folder / "wrong.toml", check=False, env=token)
    assert refused.returncode != 0 and says in refused.stderr, refused.stderr


def test_keys_are_imported_activated_and_retired_while_a_server_runs(folder):
    config = folder / "keys.toml"
    config.write_text("# as of today\n" + CONFIG)
    words = ["--config", config]
    imported = ["--domain", "alice", "--key", folder / "alice.p12", "--password-file", folder / "password"]

    def states():
        rows = json.loads(tieline("seal", "key", "list", "--json", *words).stdout)
        return [(row["kind"], row["version"], row["state"]) for row in rows]

    assert states() == [("key", 3, "active"), ("peer", None, "active")]
    tieline("seal", "key", "import", *words, *imported)
    assert states() == [("key", 4, "pending"), ("key", 3, "active"), ("peer", None, "active")]
    free = "127.0.0.1:0"
    command = [BINARY, "seal", "serve", *words, "--http", free, "--protocol", free, "--json"]
    with Lines([str(word) for word in command]) as process:
        server = process.first()["http"]
        ask(server, "pack?domain=alice&to=12345678&key_version=3", CONTENT)
        tieline("seal", "key", "activate", *words, "--domain", "alice", "--key-version", "4")
        tieline("seal", "key", "retire", *words, "--domain", "alice", "--key-version", "3")
        process.process.send_signal(signal.SIGHUP)
        until(lambda: any("read again" in line for line in process.errors), process.said)
        ask(server, "pack?domain=alice&to=12345678", CONTENT)
        with pytest.raises(urllib.error.HTTPError):
            ask(server, "pack?domain=alice&to=12345678&key_version=3", CONTENT)
    assert states() == [("key", 4, "active"), ("key", 3, "retired"), ("peer", None, "active")]
    bruno = ["--certificate", rsfn.VECTORS / "bruno.cert.pem", "--ispb", "12345678", "--pending"]
    tieline("seal", "peer", "import", *words, "--domain", "alice", *bruno)
    assert states()[2:] == [("peer", None, "active"), ("peer", None, "pending")]
    wrong = tieline("seal", "key", "import", *words, "--domain", "alice", "--key", folder / "alice.p12", check=False)
    assert wrong.returncode == 1 and "password" in wrong.stderr and "nothing was changed" in wrong.stderr
    assert config.read_text().startswith("# as of today\n")


def test_health_is_answered_whatever_a_crowd_does(server):
    """Of a peer without a token nothing is read; of the others health and metrics are answered all the same."""
    host, port = server.rsplit(":", 1)
    head = b"POST /v1/seal/pack HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000000\r\n"
    crowd = [socket.create_connection((host, int(port)), 10) for _ in range(320)]
    for connection in crowd:
        connection.sendall(head + f"Authorization: Bearer {TOKEN}\r\n\r\n.".encode())
    for path in ("/healthz", "/metrics"):
        with urllib.request.urlopen(f"http://{server}{path}", timeout=10) as answer:
            assert answer.status == 200 and answer.read()
    stranger = socket.create_connection((host, int(port)), 10)
    stranger.sendall(head + b"\r\n.")
    assert b" 401 " in stranger.recv(100)
    for connection in [stranger, *crowd]:
        connection.close()

    def free():
        with urllib.request.urlopen(f"http://{server}/metrics", timeout=10) as answer:
            return "\ntieline_seal_http_connections 1\n" in answer.read().decode()

    until(free, "the places are free again")
