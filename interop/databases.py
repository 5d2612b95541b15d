"""Databases of other people, each with a folder of its own on a free port: PostgreSQL, VictoriaMetrics."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

from waiting import until

POSTGRES_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
PASSWORD = "correct horse"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def family(pid):
    """A process and all that descend from it: each backend of PostgreSQL is in a session of its own."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(words[1]), []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


class Server:
    """A process that is killed, stopped and continued with its children."""

    def spawn(self, command, log):
        with open(log, "ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)

    def signal(self, number):
        for pid in family(self.process.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def kill(self):
        """Ends it as a power failure would."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def pause(self):
        """It is there and does nothing."""
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Postgres(Server):
    """PostgreSQL that asks for a password. It does not run as root."""

    def __init__(self, settings=""):
        self.bin = POSTGRES_FOLDERS[-1]
        self.folder = Path(tempfile.mkdtemp(prefix="tieline-postgres-"))
        self.data = self.folder / "data"
        self.as_user = []
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
            self.as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        secret = self.folder / "password"
        secret.write_text(PASSWORD + "\n")
        secret.chmod(0o644)
        self.password = secret
        self._run("initdb", "-D", self.data, "-U", "tieline", "-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8", "--no-sync")
        self.port = free_port()
        self.settings = settings
        self.start()
        self.sql("create database plant", database="postgres")

    def _run(self, program, *words, **options):
        command = [*self.as_user, self.bin / program, *words]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, cwd="/", **options)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self):
        words = ["-D", self.data, "-p", self.port, "-h", "127.0.0.1", "-k", "", *self.settings.split()]
        # What was killed leaves shared memory until its children are gone, and recovers first.
        def starts():
            self.spawn([str(word) for word in [*self.as_user, self.bin / "postgres", *words]], self.folder / "log")
            return until(lambda: self.answers() or self.process.poll() is not None, self.log, 60) and self.answers()

        until(starts, self.log, 60)

    def log(self):
        return (self.folder / "log").read_text()[-2000:]

    def use_certificate(self, certificate, key):
        """Speaks TLS, too, from its next start on, which is now."""
        for file, name in ((certificate, "server.pem"), (key, "server.key")):
            shutil.copy(file, self.folder / name)
            (self.folder / name).chmod(0o600)
            if self.as_user:
                shutil.chown(self.folder / name, "postgres", "postgres")
        self.settings = f"-c ssl=on -c ssl_cert_file={self.folder}/server.pem -c ssl_key_file={self.folder}/server.key"
        self.kill()
        self.start()

    def answers(self):
        ready = [str(self.bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-t", "1"]
        return subprocess.run(ready, check=False).returncode == 0

    def sql(self, text, database="plant"):
        """The rows of a query, each a list of texts."""
        words = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "tieline", "-d", database, "-X", "-A", "-t", "-q", "-F", "\t"]
        out = self._run("psql", "-v", "ON_ERROR_STOP=1", *words, "-c", text, env={**os.environ, "PGPASSWORD": PASSWORD})
        return [line.split("\t") for line in out.splitlines()]

    def tool(self, program, *words):
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "tieline"]
        return self._run(program, *where, *words, env={**os.environ, "PGPASSWORD": PASSWORD})

    def toml(self, **more):
        keys = {
            "kind": "postgresql",
            "hosts": [f"127.0.0.1:{self.port}"],
            "user": "tieline",
            "password_file": str(self.password),
            "database": "plant",
            "every": "20ms",
            **more,
        }
        return "\n".join(["[history.database.plant]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items()), ""])


class Victoria(Server):
    """VictoriaMetrics."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="tieline-victoria-"))
        self.port = free_port()
        self.start()

    def start(self):
        words = [f"-storageDataPath={self.folder}/data", f"-httpListenAddr=127.0.0.1:{self.port}", "-retentionPeriod=100y"]
        self.spawn(["victoria-metrics", *words, "-dedup.minScrapeInterval=1ms", "-memory.allowedBytes=64MiB"], self.folder / "log")
        until(self.answers, lambda: (self.folder / "log").read_text()[-2000:], 30)

    def answers(self):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).status == 200
        except OSError:
            return False

    def values(self, match):
        """The values of each series, by its topic and quality."""
        urllib.request.urlopen(f"http://127.0.0.1:{self.port}/internal/force_flush", timeout=30).read()
        query = urllib.parse.urlencode({"match[]": match, "reduce_mem_usage": "0"})
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/export?{query}", timeout=30).read().decode()
        found = {}
        for line in text.splitlines():
            series = json.loads(line)
            found.setdefault((series["metric"]["topic"], series["metric"]["q"]), []).extend(series["values"])
        return found

    def toml(self):
        url = f"http://127.0.0.1:{self.port}/write"
        return f'[history.database.metrics]\nkind = "victoriametrics"\nurl = "{url}"\nevery = "20ms"\n'
