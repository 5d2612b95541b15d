"""FerretDB, which speaks MongoDB's protocol over SQLite, in a folder of its own on a free port; read with pymongo."""

import json
import shutil
import tempfile
from pathlib import Path

import pymongo
from databases import PASSWORD, Server
from peers.ports import free_port
from waiting import until

FERRETDB = Path(__file__).parent.parent / ".work/bin/ferretdb"


class Ferret(Server):
    """FerretDB that asks for a password."""

    def __init__(self, certificate=None):
        self.folder = Path(tempfile.mkdtemp(prefix="tieline-ferretdb-"))
        (self.folder / "data").mkdir()
        self.password = self.folder / "password"
        self.password.write_text(PASSWORD + "\n")
        self.port, self.certificate = free_port(), certificate
        self.start()

    def start(self):
        address = f"127.0.0.1:{self.port}"
        listen = [f"--listen-addr={address}"]
        if self.certificate:
            certificate, key, authority = self.certificate
            listen = ["--listen-addr=", f"--listen-tls={address}", f"--listen-tls-cert-file={certificate}", f"--listen-tls-key-file={key}"]
            listen.append(f"--listen-tls-ca-file={authority}")
        words = ["--handler=sqlite", f"--sqlite-url=file:{self.folder}/data/", f"--state-dir={self.folder}", "--debug-addr=-"]
        users = ["--test-enable-new-auth", "--setup-database=plant", "--setup-username=tieline", f"--setup-password={PASSWORD}"]
        self.spawn([str(FERRETDB), *listen, *words, *users, "--telemetry=disable", "--log-level=warn"], self.folder / "log")
        until(self.answers, lambda: (self.folder / "log").read_text()[-2000:], 30)

    def client(self, seconds=20):
        tls = {"tls": True, "tlsAllowInvalidCertificates": True} if self.certificate else {}
        return pymongo.MongoClient(
            "127.0.0.1", self.port, username="tieline", password=PASSWORD, authSource="plant", authMechanism="SCRAM-SHA-256",
            serverSelectionTimeoutMS=seconds * 1000, **tls,
        )

    def answers(self):
        try:
            with self.client(1) as client:
                return client.admin.command("ping")["ok"] == 1
        except pymongo.errors.PyMongoError:
            return False

    def documents(self, collection="tieline", **query):
        with self.client() as client:
            return list(client.plant[collection].find(query))

    def samples(self, **query):
        """Topic, value, milliseconds, microseconds and quality of each sample."""
        found = []
        for document in self.documents(**query):
            count = len(document["t"])
            for at in range(count):
                us = document["us"][at] if "us" in document else 0
                quality = document["q"][at] if "q" in document else "good"
                found.append((document["topic"], document["v"][at], document["t"][at], us, quality))
        return found

    def copy(self, folder):
        """A backup of what is there; it must not run."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / "data", folder)

    def restore(self, folder):
        shutil.rmtree(self.folder / "data")
        shutil.copytree(folder, self.folder / "data")

    def toml(self, **more):
        keys = {
            "kind": "mongodb",
            "hosts": [f"127.0.0.1:{self.port}"],
            "user": "tieline",
            "password_file": str(self.password),
            "auth_database": "plant",
            "database": "plant",
            "every": "20ms",
            **more,
        }
        return "\n".join(["[history.database.plant]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items()), ""])
