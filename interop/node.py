"""The node under test: its binary, its configuration, its doors. What a test knows of them is here and nowhere else."""

import csv
import io
import json
import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from processes import Lines
from waiting import until

BINARY = Path(os.environ.get("TIELINE_BIN", Path(__file__).parent.parent / "target/debug/tieline"))
POINTS = 10
INPUTS = ["binary", "double-bit", "counter", "analog"]
OUTPUTS = ["binary-output", "analog-output"]


def tieline(*words, check=True, seconds=60, **options):
    """Runs one command of the binary to its end."""
    command = [str(word) for word in (BINARY, *words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, **options)
    assert not check or done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done


class Device:
    """One `[device.NAME]` with a point list of ten points of each type, named `TYPE/INDEX`."""

    def __init__(self, name, address, **options):
        self.name, self.address = name, address
        self.topic = f"test/{name}"
        self.types = options.pop("types", INPUTS + OUTPUTS)
        self.poll = options.pop("poll", {"integrity": "15m", "events": "200ms"})
        self.dnp3 = {"master": 1, "outstation": 10, "unsolicited": True, "response_timeout": "1s", **options}

    def toml(self):
        poll = ", ".join(f'{key} = "{value}"' for key, value in self.poll.items())
        return "\n".join(
            [
                f"[device.{self.name}]",
                f'topic = "{self.topic}"',
                'protocol = "dnp3"',
                f'address = "{self.address}"',
                f'points = "{self.name}.csv"',
                f"poll = {{ {poll} }}",
                f"[device.{self.name}.dnp3]",
                *(f"{key} = {json.dumps(value)}" for key, value in self.dnp3.items()),
                "",
            ]
        )

    def csv(self):
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["name", "type", "index"])
        rows.writerows([f"{kind}/{index}", kind, index] for kind in self.types for index in range(POINTS))
        return text.getvalue()

    def point(self, kind, index):
        """The topic of a point."""
        return f"{self.topic}/{kind}/{index}"

    def health(self, leaf):
        """The topic of a fact about the device."""
        return f"$SYS/devices/{self.topic}/{leaf}"


class Node:
    """A running node on free ports, with its own folder for configuration and data."""

    WORDS = ()

    def __init__(self, folder, *devices, more="", data=None, environment=None):
        self.folder, self.environment = Path(folder), environment or {}
        self.data = Path(data) if data else self.folder / "data"
        self.config = self.folder / "tieline.toml"
        self.configure(*devices, more=more)
        self.start()

    def configure(self, *devices, more=""):
        """Writes the configuration and the point lists; a node that runs reads them when it reloads."""
        self.devices = devices
        self.config.write_text("\n".join(['[node]\nname = "test"\n', more, *(device.toml() for device in devices)]))
        for device in devices:
            (self.folder / f"{device.name}.csv").write_text(device.csv())

    def reload(self, *devices, more="", check=True):
        """Has it read another configuration; what `tieline reload` came to."""
        self.configure(*devices, more=more)
        return tieline("reload", "--http", self.http, check=check)

    def start(self, http="127.0.0.1:0", mqtt="127.0.0.1:0"):
        addresses = ["--http", http, "--mqtt", mqtt, "--json"]
        words = [BINARY, "run", *self.WORDS, "--config", self.config, "--data", self.data, *addresses]
        self.process = Lines(words, env={**os.environ, **self.environment})
        hello = self.process.first(30)
        self.http, self.mqtt = hello["http"], hello["mqtt"]
        return self

    @property
    def mqtt_port(self):
        return int(self.mqtt.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ran = self.process.process.poll() is None
        code = self.process.stop()
        panics = [line for line in self.process.errors + self.process.lines if "panicked" in line]
        assert not panics, panics
        ends = (0,) if ran else (0, -9)  # a test may have killed it
        assert code in ends, f"ended with {code}: {self.process.said()}"

    def alive(self):
        assert self.process.process.poll() is None, self.process.said()
        return True

    def request(self, path, body=None, seconds=30):
        """One request to the HTTP API; its status and its JSON (or text)."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data else {}
        asked = urllib.request.Request(f"http://{self.http}{path}", data, headers)
        try:
            with urllib.request.urlopen(asked, timeout=seconds) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            status, text = refused.code, refused.read().decode()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def set(self, topic, value, method="PUT", **conditions):
        """Sets or removes a value over HTTP; the status, the ETag and the JSON."""
        headers = {"Content-Type": "text/plain"} | {name.replace("_", "-"): text for name, text in conditions.items()}
        path = f"http://{self.http}/v1/topics/{urllib.parse.quote(topic)}"
        asked = urllib.request.Request(path, None if value is None else value.encode(), headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return answer.status, answer.headers["ETag"], json.load(answer)
        except urllib.error.HTTPError as refused:
            text = refused.read()
            return refused.code, refused.headers["ETag"], json.loads(text) if text else None

    def get(self, topic):
        """The last value of a topic: for a point an object with v, q, t and perhaps why; None where there is none."""
        status, answer = self.request(f"/v1/topics/{urllib.parse.quote(topic)}")
        return answer["value"] if status == 200 else None

    def wait_value(self, topic, seconds=20.0, **wanted):
        """Waits until a topic's last value has these members."""

        def found():
            value = self.get(topic)
            fits = isinstance(value, dict) and all(value.get(key) == member for key, member in wanted.items())
            return value if fits else None

        return until(found, lambda: f"{topic} {wanted}: {self.get(topic)}\n{self.process.said()}", seconds)

    def wait_state(self, device, state, seconds=20.0):
        """Waits until a device is in a state: `online`, `away`, …; its whole description."""

        def found():
            status, answer = self.request(f"/v1/devices/{urllib.parse.quote(device.topic)}")
            return answer if status == 200 and answer["state"] == state else None

        return until(found, lambda: f"{device.topic} {state}: {self.request('/v1/devices')[1]}", seconds)

    def health(self):
        return self.request("/healthz")[1]

    def metrics(self):
        return self.request("/metrics")[1]

    def history(self, topic, *more):
        """Recorded values of one topic, by the command line."""
        words = ["history", "query", topic, "--from", "2020-01-01T00:00:00Z", "--format", "json", "--http", self.http]
        return json.loads(tieline(*words, *more).stdout)

    def wait_history(self, topic, seconds=20.0, **wanted):
        """Waits until a value with these members is in the history."""

        def found():
            rows = self.history(topic)
            return [row for row in rows if all(row.get(key) == member for key, member in wanted.items())]

        return until(found, lambda: f"{topic} {wanted}: {self.history(topic)[-5:]}", seconds)[-1]

    def command(self, topic, value, mode=None, **more):
        """Operates a point over HTTP."""
        body = {"topic": topic, "value": value, **more, **({"mode": mode} if mode else {})}
        return self.request("/v1/command", body)[1]

    def audit(self, topic):
        """What the audit log says of a topic, newest first."""
        return self.request(f"/v1/audit?topic={urllib.parse.quote(topic)}")[1]


class Demo(Node):
    """A node with the demonstration substation."""

    WORDS = ("--demo",)


class OurOutstation(Lines):
    """`tieline dnp3 outstation` on a free port; the same words as a peer's outstation."""

    CONFIG = """address = 10
master = 1
unsolicited = true

[[point]]
type = "binary"
range = "0-9"
class = 1
static = "g1v2"
event = "g2v2"
value = false

[[point]]
type = "double-bit"
range = "0-9"
class = 2
static = "g3v2"
event = "g4v2"

[[point]]
type = "counter"
range = "0-9"
class = 3
static = "g20v1"
event = "g22v5"
value = 0

[[point]]
type = "analog"
range = "0-9"
class = 2
static = "g30v6"
event = "g32v8"
value = 0.0

[[point]]
type = "binary-output"
range = "0-9"
class = 1
static = "g10v2"
event = "g11v2"
value = false
operate = "success"

[[point]]
type = "binary-output"
indices = [20]
class = 1
operate = "not_supported"

[[point]]
type = "analog-output"
range = "0-9"
class = 1
static = "g40v3"
event = "g42v7"
value = 0.0
operate = "success"
"""

    def __init__(self, folder, config=CONFIG):
        file = Path(folder) / "outstation.toml"
        file.write_text(config)
        super().__init__([BINARY, "dnp3", "outstation", "--listen", "127.0.0.1:0", "--config", file, "--json"])
        self.address = self.first()["listen"]
        self._answered = 0

    def ask(self, line, seconds=10.0):
        """Sends one line and returns its answer."""
        self.send(line)
        self._answered += 1

        def answers():
            found = [said for said in list(self.lines) if said == "ok" or said.startswith("error: ")]
            return found if len(found) >= self._answered else None

        return until(answers, lambda: f"{line}\n{self.said()}", seconds)[self._answered - 1]

    def do(self, line):
        answer = self.ask(line)
        assert answer == "ok", f"{line}: {answer}"
