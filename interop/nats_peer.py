"""A nats-server that a centre configures, and a client of its text protocol that shows an nkey: enough to try what it may do."""

import base64
import json
import re
import shutil
import socket
import subprocess
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from waiting import until

BUILT = Path(__file__).parent.parent / ".work/bin/nats-server"
SERVER = str(BUILT) if BUILT.exists() else shutil.which("nats-server")


class Server:
    """A nats-server with a configuration file that lets it listen on any port."""

    def __init__(self, config, folder):
        self.log = open(folder / "nats.log", "w")
        words = [SERVER, "-c", str(config), "--ports_file_dir", str(folder)]
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log)
        ports = folder / f"nats-server_{self.process.pid}.ports"

        def port():
            assert self.process.poll() is None, (folder / "nats.log").read_text()
            try:
                return int(json.loads(ports.read_text())["nats"][0].rsplit(":", 1)[1])
            except (OSError, ValueError, KeyError):
                return None

        self.port = until(port, "the server has no port")
        self.url = f"nats://127.0.0.1:{self.port}"

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Refused(Exception):
    """The server does not let the client in."""


class Client:
    """A connection that shows the key of a seed; the seed is a text of NATS, `SU…`."""

    def __init__(self, port, seed=None, name="test"):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=15)
        self.reader = self.socket.makefile("rb")
        self.subscriptions = 0
        info = json.loads(self.line().removeprefix("INFO "))
        shown = {"verbose": False, "pedantic": False, "lang": "python", "version": "1", "protocol": 1, "name": name}
        if seed:
            raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
            key = Ed25519PrivateKey.from_private_bytes(raw[2:34])
            signature = key.sign(info["nonce"].encode())
            shown["sig"] = base64.urlsafe_b64encode(signature).decode().rstrip("=")
            shown["nkey"] = public(raw, key)
        self.send(f"CONNECT {json.dumps(shown)}", "PING")
        try:
            # The server tells once more where the client is, by when it is in.
            while (answer := self.line()).startswith("INFO "):
                pass
        except ConnectionError as error:
            raise Refused(str(error)) from error
        if answer != "PONG":
            raise Refused(answer)

    def line(self):
        """The next line of the server."""
        line = self.reader.readline()
        if not line:
            raise ConnectionResetError("the server closed the connection")
        return line.decode().rstrip("\r\n")

    def send(self, *lines):
        self.socket.sendall("".join(f"{line}\r\n" for line in lines).encode())

    def errors(self, *lines):
        """What the server says against some lines, in one round trip."""
        self.send(*lines, "PING")
        found = []
        while (line := self.line()) != "PONG":
            if line == "PING":
                self.send("PONG")
            elif not line.startswith("INFO "):
                found.append(line)
        return found

    def publish(self, *subjects):
        """The subjects that may not be published to."""
        told = self.errors(*(line for subject in subjects for line in (f"PUB {subject} 0", "")))
        return denied(told, "Publish")

    def subscribe(self, *subjects):
        """The subjects that may not be subscribed to."""
        first = self.subscriptions
        self.subscriptions += len(subjects)
        told = self.errors(*(f"SUB {subject} {first + number}" for number, subject in enumerate(subjects)))
        return denied(told, "Subscription")

    def is_closed(self):
        """Whether the server has ended the connection; asked again and again."""
        try:
            self.errors()
        except OSError:
            return True
        return False

    def close(self):
        self.socket.close()


def denied(told, what):
    found = [re.fullmatch(rf"-ERR 'Permissions Violation for {what} to \"(.*)\"'", line, re.IGNORECASE) for line in told]
    assert all(found), told
    return [match[1] for match in found]


def public(raw_seed, key):
    """The public half as a text: a prefix, 32 bytes, and a CRC-16 (XMODEM), in base32."""
    prefix = bytes([((raw_seed[0] & 7) << 5) | (raw_seed[1] >> 3)])
    body = prefix + key.public_key().public_bytes_raw()
    crc = 0
    for byte in body:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return base64.b32encode(body + crc.to_bytes(2, "little")).decode().rstrip("=")
