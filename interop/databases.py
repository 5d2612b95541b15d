"""Databases of other people, each with a folder of its own on a free port: PostgreSQL, MariaDB, VictoriaMetrics."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

from peers.ports import free_port
from waiting import until

POSTGRES_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
MARIADBD = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")
PASSWORD = "correct horse"


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


class Tables(Server):
    """A server of databases with tables, of which each test gets a fresh one. It does not run as root, and a test that it is killed
    in loses nothing by what is not on the disk: nothing is synced."""

    USER = None

    def __init__(self, certificate=None, key=None):
        self.folder = Path(tempfile.mkdtemp(prefix=f"tieline-{self.USER}-"))
        self.root = os.getuid() == 0
        self.password = self.keep("password", PASSWORD + "\n")
        self.tls = certificate and [self.keep(name, file.read_text()) for name, file in (("c.pem", certificate), ("k.pem", key))]
        if self.root:
            shutil.chown(self.folder, self.USER, self.USER)
        self.port, self.count, self.database = free_port(), 0, None
        self.begin()
        self.start()

    def keep(self, name, text):
        file = self.folder / name
        file.write_text(text)
        file.chmod(0o600)
        if self.root:
            shutil.chown(file, self.USER, self.USER)
        return file

    def run(self, program, *words, **options):
        command = [str(word) for word in (program, *words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd="/", **options)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self):
        # What was killed leaves shared memory and locks until its children are gone, and recovers first.
        def starts():
            self.spawn([str(word) for word in self.command()], self.folder / "log")
            return until(lambda: self.answers() or self.process.poll() is not None, self.log, 60) and self.answers()

        until(starts, self.log, 60)

    def log(self):
        return (self.folder / "log").read_text()[-2000:]

    def fresh(self):
        """Another database, with nothing in it."""
        self.count += 1
        self.database = f"plant{self.count}"
        self.sql(f"create database {self.database}", None)
        return self

    def numbers(self):
        return [float(row[0]) for row in self.sql(f"select value from {self.table('numbers')} where topic like 'load/%'")]

    def toml(self, **more):
        keys = {
            "kind": self.KIND,
            "hosts": [f"127.0.0.1:{self.port}"],
            "user": "tieline",
            "password_file": str(self.password),
            "database": self.database,
            "every": "20ms",
            **more,
        }
        return "\n".join(["[history.database.plant]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items()), ""])


class Postgres(Tables):
    """PostgreSQL that asks for a password."""

    KIND, USER = "postgresql", "postgres"

    def begin(self):
        self.bin, self.data = POSTGRES_FOLDERS[-1], self.folder / "data"
        words = ["-U", "tieline", "-A", "scram-sha-256", "--pwfile", self.password, "-E", "UTF8", "--no-sync"]
        self.run(*self.as_user(), self.bin / "initdb", "-D", self.data, *words)

    def as_user(self):
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if self.root else []

    def command(self):
        words = ["-D", self.data, "-p", self.port, "-h", "127.0.0.1", "-k", "", "-c", "fsync=off"]
        if self.tls:
            words += ["-c", "ssl=on", "-c", f"ssl_cert_file={self.tls[0]}", "-c", f"ssl_key_file={self.tls[1]}"]
        return [*self.as_user(), self.bin / "postgres", *words]

    def answers(self):
        ready = [str(self.bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-t", "1"]
        return subprocess.run(ready, check=False).returncode == 0

    def table(self, name):
        return f"tieline.{name}"

    def sql(self, text, database=""):
        """The rows of a query, each a list of texts; of the test's database, without one (None) of the server."""
        words = ["-v", "ON_ERROR_STOP=1", "-X", "-A", "-t", "-q", "-F", "\t", "-c", text]
        out = self.tool("psql", "-d", self.database if database == "" else "postgres", *words)
        return [line.split("\t") for line in out.splitlines()]

    def tool(self, program, *words):
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "tieline"]
        return self.run(self.bin / program, *where, *words, env={**os.environ, "PGPASSWORD": PASSWORD})

    def dump(self):
        return self.tool("pg_dump", "-d", self.database)

    def restore(self, dump):
        """The database as it was, while somebody writes to it."""
        file = self.keep("dump.sql", dump)
        self.sql("create database other", None)
        self.tool("psql", "-q", "-X", "-v", "ON_ERROR_STOP=1", "-d", "other", "-f", file)
        self.sql(f"alter database {self.database} with allow_connections false", None)
        self.sql(f"drop database {self.database} with (force)", None)
        self.sql(f"alter database other rename to {self.database}", None)

    def lock(self, locked):
        """Whether the user may come in."""
        self.sql(f"alter database {self.database} with allow_connections {not locked}", None)
        self.sql(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{self.database}'", None)

    def encrypted(self):
        """How many connections of nodes are encrypted."""
        rows = self.sql("select ssl from pg_stat_ssl join pg_stat_activity using (pid) where application_name like 'tieline %'")
        return rows.count(["t"])


class Mariadb(Tables):
    """MariaDB that asks for a password; its administrator comes by a Unix socket."""

    KIND, USER = "mariadb", "mysql"

    def begin(self):
        small = ["--innodb-log-file-size=16M", "--innodb-buffer-pool-size=32M", "--debug-no-sync", "--innodb-flush-method=nosync"]
        self.words = [f"--datadir={self.folder}/data", *([f"--user={self.USER}"] if self.root else []), *small]
        more = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        self.run("mariadb-install-db", "--no-defaults", *self.words, *more)
        self.run(MARIADBD, "--no-defaults", *self.words, "--bootstrap", input=(
            "flush privileges;\n"
            f"create user tieline identified by '{PASSWORD}';\n"
            "grant all on `plant%`.* to tieline;\n"
        ))

    def command(self):
        words = [f"--socket={self.folder}/socket", f"--pid-file={self.folder}/pid", "--bind-address=127.0.0.1"]
        if self.tls:
            words += [f"--ssl-cert={self.tls[0]}", f"--ssl-key={self.tls[1]}"]
        return [MARIADBD, "--no-defaults", *self.words, *words, f"--port={self.port}", "--skip-name-resolve"]

    def answers(self):
        ping = ["mariadb-admin", "--no-defaults", f"--socket={self.folder}/socket", "-u", "root", "ping"]
        return subprocess.run(ping, check=False, capture_output=True).returncode == 0

    def table(self, name):
        return name

    def sql(self, text, database=""):
        """The rows of a query, each a list of texts; of the test's database, without one (None) of the server."""
        words = ["-N", "--batch", "--raw", "-e", text, *([self.database] if database == "" else [])]
        out = self.tool("mariadb", "--init-command=set time_zone='+00:00'", *words)
        return [["" if word == "NULL" else word for word in line.split("\t")] for line in out.splitlines()]

    def tool(self, program, *words, **options):
        return self.run(program, "--no-defaults", f"--socket={self.folder}/socket", "-u", "root", *words, **options)

    def dump(self):
        return self.tool("mariadb-dump", "--single-transaction", "--hex-blob", self.database)

    def restore(self, dump):
        self.lock(True)
        self.sql(f"drop database {self.database}", None)
        self.sql(f"create database {self.database}", None)
        self.tool("mariadb", self.database, input=dump)
        self.lock(False)

    def lock(self, locked):
        self.sql(f"alter user tieline account {'lock' if locked else 'unlock'}", None)
        self.sql("kill user tieline", None)

    def statements(self):
        """How many LOAD DATA it has run."""
        return int(self.sql("show global status like 'Com_load'", None)[0][1])

    def encrypted(self):
        return int(self.sql("show global status like 'Ssl_finished_accepts'", None)[0][1])


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
