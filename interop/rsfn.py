"""A second implementation of RSFN envelopes, for tests, over `cryptography` and so OpenSSL.

`python interop/rsfn.py make` writes new keys and messages of vectors/rsfn; the README there says what they are.
"""

import datetime
import gzip
import io
import os
import sys
import zipfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.x509.oid import NameOID

VECTORS = Path(__file__).parent.parent / "vectors" / "rsfn"
#: Where Debian has SoftHSM's module.
SOFTHSM = "/usr/lib/softhsm/libsofthsm2.so"
HEADER = 588
CLEAR = {2, 3, 6, 10}


class Party:
    """A key pair of the vectors."""

    def __init__(self, name, authority, serial):
        self.name, self.authority, self.serial = name, authority, f"{serial:032X}"
        self.path = VECTORS / f"{name}.key.pem"

    @property
    def key(self):
        return serialization.load_pem_private_key(self.path.read_bytes(), None)

    @property
    def algorithm(self):
        return {1024: 1, 2048: 2}[self.key.key_size]

    def sign(self, content):
        return self.key.sign(content, padding.PKCS1v15(), hashes.SHA256())


ALICE = Party("alice", 1, 0x207D42E885DC9FA9)
BRUNO = Party("bruno", 2, 0x0ABC00000000000000000000DEAD0001)
CARLA = Party("carla", 4, 0x77)  # 1024 bits
DAVID = Party("david", 5, 0x78)  # 1024 bits
PARTIES = [ALICE, BRUNO, CARLA, DAVID]


def header(version, treatment, sender, recipient, wrapped, signature):
    data = HEADER.to_bytes(2, "big") + bytes([version, 0, treatment, 0])
    data += bytes([recipient.algorithm, version - 1, sender.algorithm, 3])
    data += bytes([recipient.authority]) + recipient.serial.encode()
    data += bytes([sender.authority]) + sender.serial.encode()
    return data + wrapped.ljust(256, b"\0") + signature.ljust(256, b"\0")


def triple_des(key):
    """CBC; the vector is the first 8 bytes of the key. The same as `openssl enc -des-ede3-cbc -nopad`."""
    return Cipher(TripleDES(key), modes.CBC(key[:8]))


def through(context, data):
    return context.update(data) + context.finalize()


def pack(version, treatment, sender, recipient, content, prefix_iv=False):
    if version == 2:
        content += bytes(-len(content) % 8)
    signature, wrapped, body = sender.sign(content), b"", content
    if treatment not in CLEAR:
        if version == 2:
            secret = os.urandom(24)
            body = through(triple_des(secret).encryptor(), content)
        else:
            secret = os.urandom(32 if prefix_iv else 44)
            body = AESGCM(secret[:32]).encrypt((secret + secret)[32:44], content, None)
        wrapped = recipient.key.public_key().encrypt(secret, padding.PKCS1v15())
    return header(version, treatment, sender, recipient, wrapped, signature) + body


def unpack(message, sender, recipient):
    """The content as it was signed, padding and all; raises when anything is wrong."""
    version, treatment = message[2], message[4]
    wrapped, signature, body = message[76:332], message[332:588], message[588:]
    expected = header(version, treatment, sender, recipient, wrapped, signature)
    assert message[:HEADER] == expected, "a header that differs"
    if treatment not in CLEAR:
        secret = recipient.key.decrypt(wrapped[: recipient.key.key_size // 8], padding.PKCS1v15())
        if version == 2:
            body = through(triple_des(secret).decryptor(), body)
        else:
            assert len(secret) in (32, 44)
            body = AESGCM(secret[:32]).decrypt((secret + secret)[32:44], body, None)
    else:
        assert wrapped == bytes(256)
    size = sender.key.key_size // 8
    sender.key.public_key().verify(signature[:size], body, padding.PKCS1v15(), hashes.SHA256())
    return body


def hexed(data):
    text = data.hex()
    return "".join(text[at : at + 96] + "\n" for at in range(0, len(text), 96))


def zipped(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("content.xml"), content)
    return file.getvalue()


def make_keys():
    """Keys for these tests and nothing else, with certificates issued in names that the header's codes stand for."""
    issuers = {1: "AC de teste SERPRO", 2: "AC de teste Certisign", 4: "AC de teste Serasa", 5: "AC de teste CAIXA"}
    authority_key = rsa.generate_private_key(65537, 2048)
    for party in PARTIES:
        key = rsa.generate_private_key(65537, 1024 if party in (CARLA, DAVID) else 2048)
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        party.path.write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
        names = [(NameOID.COUNTRY_NAME, "BR"), (NameOID.ORGANIZATION_NAME, "ICP-Brasil")]
        names += [(NameOID.ORGANIZATIONAL_UNIT_NAME, unit) for unit in ("ISPB-12345678", f"CSPB-{party.authority}")]
        names += [(NameOID.COMMON_NAME, f"TESTE {party.name.upper()} T001")]
        certificate = x509.CertificateBuilder(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuers[party.authority])]),
            x509.Name([x509.NameAttribute(*name) for name in names]),
            key.public_key(),
            int(party.serial, 16),
            datetime.datetime(2020, 1, 1),
            datetime.datetime(2120, 1, 1),
        ).sign(authority_key, hashes.SHA256())
        (VECTORS / f"{party.name}.cert.pem").write_bytes(certificate.public_bytes(pem))


def make_messages():
    text = '<?xml version="1.0"?><DOC><BCMSG><NUOp>é €</NUOp></BCMSG></DOC>'.encode("utf-16-be")
    file = b"<SISARQ>" + b"<Linha>0123456789</Linha>" * 40 + b"</SISARQ>"
    compressed = gzip.compress(file, mtime=0)
    cases = [
        ("v3-normal", 3, 0, ALICE, BRUNO, text, text),
        ("v3-empty", 3, 0, BRUNO, ALICE, b"", b""),
        ("v3-security", 3, 1, ALICE, BRUNO, text, text),
        ("v3-broadcast", 3, 2, ALICE, BRUNO, text, text),
        ("v3-file", 3, 4, ALICE, BRUNO, file, file),
        ("v3-gzip", 3, 8, ALICE, BRUNO, compressed, file),
        ("v3-zip", 3, 8, BRUNO, ALICE, zipped(file), file),
        ("v3-clear-gzip", 3, 10, BRUNO, ALICE, compressed, file),
        ("v3-prefix-iv", 3, 0, ALICE, BRUNO, text, text),
        ("v2-normal", 2, 0, ALICE, BRUNO, text, text),
        ("v2-whole-blocks", 2, 4, ALICE, BRUNO, file[:1000], file[:1000]),
        ("v2-gzip", 2, 8, BRUNO, ALICE, compressed, file),
        ("v2-rsa-1024", 2, 0, CARLA, DAVID, text, text),
        ("v2-clear", 2, 3, ALICE, BRUNO, text, text),
    ]
    lines = ["# name | version | treatment | sender | recipient | content, as it was before it was packed"]
    for name, version, treatment, sender, recipient, content, plain in cases:
        message = pack(version, treatment, sender, recipient, content, prefix_iv="prefix" in name)
        (VECTORS / f"{name}.hex").write_text(hexed(message))
        lines.append(f"{name} | {version} | {treatment} | {sender.name} | {recipient.name} | {plain.hex()}")
    (VECTORS / "messages.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__" and sys.argv[1:] == ["make"]:
    make_keys()
    make_messages()
