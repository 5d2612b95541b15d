"""Messages that wire/rsfn packs (vectors/rsfn/ours-*) are opened by another implementation."""

import gzip

import pytest
import rsfn

TEXT = "<DOC>ç</DOC>".encode("utf-16-be")
FILE = b"".join((n % 97).to_bytes(4, "big") for n in range(3000))

CASES = [
    ("ours-v3-normal", rsfn.ALICE, rsfn.BRUNO, TEXT),
    ("ours-v3-gzip", rsfn.ALICE, rsfn.BRUNO, FILE),
    ("ours-v3-broadcast", rsfn.ALICE, rsfn.BRUNO, TEXT),
    ("ours-v3-prefix-iv", rsfn.ALICE, rsfn.BRUNO, TEXT),
    ("ours-v2-normal", rsfn.ALICE, rsfn.BRUNO, TEXT),
    ("ours-v2-gzip", rsfn.ALICE, rsfn.BRUNO, FILE),
    ("ours-v2-rsa-1024", rsfn.CARLA, rsfn.DAVID, TEXT),
]


@pytest.mark.parametrize(("name", "sender", "recipient", "content"), CASES)
def test_our_messages_are_opened(name, sender, recipient, content):
    message = bytes.fromhex((rsfn.VECTORS / f"{name}.hex").read_text())
    signed = rsfn.unpack(message, sender, recipient)
    plain = gzip.decompress(signed) if "gzip" in name else signed
    assert plain == content + bytes(len(plain) - len(content)) and len(plain) - len(content) < 8
    damaged = message[:-1] + bytes([message[-1] ^ 1])
    with pytest.raises(Exception):
        rsfn.unpack(damaged, sender, recipient)
