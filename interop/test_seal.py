"""`tieline seal` against another implementation of the envelope: through its server, with keys from PKCS#12."""

import gzip
import hashlib
import urllib.error
import urllib.request

import pytest
import rsfn
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from node import BINARY, tieline
from processes import Lines

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
