"""Processes that speak in lines: peers, the node's own outstation, brokers' clients."""

import json
import subprocess
import sys
import threading
from pathlib import Path

from waiting import until

HERE = Path(__file__).parent


class Lines:
    """A started process, whose lines of output are collected as they come."""

    def __init__(self, command, **options):
        self.command = [str(word) for word in command]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, **options)
        self.lines, self.errors = [], []
        self._readers = [
            threading.Thread(target=self._collect, args=(stream, into), daemon=True)
            for stream, into in ((self.process.stdout, self.lines), (self.process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    def _collect(self, stream, into):
        for line in stream:
            into.append(line.rstrip("\n"))

    def said(self):
        """What it printed last, for the message of a failed test."""
        return "\n".join([" ".join(self.command), *self.lines[-20:], *self.errors[-20:]])

    def first(self, seconds=20.0):
        """The first line of output, as JSON."""

        def line():
            assert self.lines or self.process.poll() is None, f"ended with {self.process.poll()}: {self.said()}"
            return self.lines

        return json.loads(until(line, self.said, seconds)[0])

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def kill(self):
        """Ends it as a power failure would."""
        self.process.kill()
        self.process.wait()

    def stop(self, seconds=10.0):
        """Asks it to end, and ends it where it does not; the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
        for reader in self._readers:
            reader.join(1.0)
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Peer(Lines):
    """A device or master of another implementation: `peers/NAME.py`."""

    def __init__(self, name, *arguments):
        super().__init__([sys.executable, HERE / "peers" / f"{name}.py", *arguments])
        self.hello = self.first()
        self.address = self.hello.get("listen", "")
        self._answered = 0

    @property
    def port(self):
        return int(self.address.rsplit(":", 1)[1])

    def objects(self, member):
        """All that it said of one kind."""
        return [said[member] for said in map(json.loads, list(self.lines)) if member in said]

    def ask(self, line, seconds=15.0):
        """Sends one command and returns its answer."""
        self.send(line)
        self._answered += 1

        def answers():
            found = [said for said in map(json.loads, list(self.lines)) if "answer" in said]
            return found if len(found) >= self._answered else None

        return until(answers, lambda: f"{line}\n{self.said()}", seconds)[self._answered - 1]

    def do(self, line, seconds=15.0):
        """Sends one command that must succeed."""
        answer = self.ask(line, seconds)
        assert answer["answer"] == "ok", f"{line}: {answer}"
        return answer

    def off(self):
        """Kills the device of a peer with `--restarts`; what it was told and has not answered is forgotten."""
        self._turn("off")
        self._answered = len(self.objects("answer"))

    def on(self):
        """Starts it again at its address, and waits until it is there."""
        starts = len(self.objects("listen"))
        self._turn("on")
        until(lambda: len(self.objects("listen")) > starts, self.said)

    def _turn(self, state):
        turns = len(self.objects("state"))
        self.send(state)
        until(lambda: len(self.objects("state")) > turns, self.said)

    def readings(self, **wanted):
        """The readings with these members."""
        return [one for one in self.objects("reading") if all(one.get(key) == value for key, value in wanted.items())]

    def wait_reading(self, seconds=15.0, **wanted):
        """Waits for a reading with these members."""
        return until(lambda: self.readings(**wanted), lambda: f"{wanted}\n{self.said()}", seconds)[-1]

    def wait_command(self, seconds=15.0, **wanted):
        """Waits for a control with these members."""

        def found():
            commands = self.objects("command")
            return [one for one in commands if all(one.get(key) == value for key, value in wanted.items())]

        return until(found, lambda: f"{wanted}\n{self.said()}", seconds)[-1]
