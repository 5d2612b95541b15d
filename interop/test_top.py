"""`tieline top` in a terminal: what it shows, what keys do, and that the terminal is given back however it ends."""

import codecs
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import time

import pyte
import pytest

from node import BINARY, tieline
from waiting import until

LEAVES_SCREEN = "\x1b[?1049l"
SHOWS_CURSOR = "\x1b[?25h"


class Terminal:
    """A process that has a terminal of 120 x 40 for itself."""

    def __init__(self, *words, complaints=None):
        self.ours, theirs = pty.openpty()  # Not its controlling terminal: no SIGHUP says that it is gone.
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.set_blocking(self.ours, False)
        self.before = termios.tcgetattr(self.ours)
        self.text = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.screen = pyte.Screen(120, 40)
        self.emulator = pyte.Stream(self.screen)
        self.process = subprocess.Popen(
            [BINARY, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs if complaints is None else complaints,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
        )
        os.close(theirs)

    def read(self):
        """What the screen shows: only what changed is written to it."""
        try:
            written = self.decoder.decode(os.read(self.ours, 65536))
            self.text += written
            self.emulator.feed(written)
        except (BlockingIOError, OSError):  # Nothing yet, or the other end is closed.
            pass
        return "\n".join(self.screen.display)

    def wait_for(self, words):
        until(lambda: words in self.read(), lambda: f"{words!r} on the screen:\n{self.read()}", seconds=30)

    def press(self, keys):
        os.write(self.ours, keys.encode())

    def ended(self):
        """The exit code; the terminal has to be as it was."""
        def is_over():
            # What a process has written may come some time after its end.
            has_ended = self.process.poll() is not None
            self.read()
            return has_ended and LEAVES_SCREEN in self.text and SHOWS_CURSOR in self.text

        until(is_over, lambda: f"its end and the terminal as before: code {self.process.poll()}, {self.text[-200:]!r}", seconds=30)
        after = termios.tcgetattr(self.ours)
        assert after[:6] == self.before[:6]
        os.close(self.ours)
        return self.process.returncode


@pytest.fixture
def node(start_node):
    return start_node()


@pytest.fixture
def top(node):
    started = []

    def start(*words, complaints=None):
        terminal = Terminal("top", "--http", node.http, "--interval", "100ms", *words, complaints=complaints)
        started.append(terminal)
        return terminal

    yield start
    for terminal in started:
        terminal.process.kill()
        terminal.process.wait()


def publish(node, *topics):
    for topic in topics:
        tieline("pub", topic, "1", "--retain", "--mqtt", node.mqtt)


def test_a_node_is_shown_and_keys_work(node, top):
    publish(node, "site/a/amps")
    terminal = top()
    terminal.wait_for("sessions by lag")
    terminal.wait_for("busiest topics")
    terminal.press("s")
    terminal.wait_for("sessions by waiting")
    terminal.press("/scada\r")
    terminal.wait_for('of "scada"')
    terminal.press("q")
    assert terminal.ended() == 0


@pytest.mark.parametrize("ending", ["q", "\x1b", "\x03", signal.SIGTERM, signal.SIGINT])
def test_the_terminal_is_given_back(top, ending):
    terminal = top()
    terminal.wait_for("sessions by lag")
    if isinstance(ending, str):
        terminal.press(ending)
    else:
        terminal.process.send_signal(ending)
    assert terminal.ended() == 0


@pytest.mark.parametrize("complaints", [None, subprocess.PIPE])
def test_a_terminal_that_hangs_up_ends_it(top, complaints):
    """With or without another place for its last words; it has to end, and spin no longer."""
    terminal = top(complaints=complaints)
    terminal.wait_for("sessions by lag")
    os.close(terminal.ours)
    assert terminal.process.wait(30) == 1
    if complaints:
        assert terminal.process.stderr.read().decode().startswith("tieline: "), "in words"


def test_a_node_that_goes_is_told_of_and_keys_still_work(node, top):
    terminal = top()
    terminal.wait_for("sessions by lag")
    node.process.stop()
    terminal.wait_for("no answer from")
    terminal.press("q")
    assert terminal.ended() == 0


def test_scripts_get_an_object(node):
    publish(node, "site/a/amps", "site/b/amps")
    done = tieline("top", "--once", "--json", "--interval", "100ms", "--http", node.http)
    told = json.loads(done.stdout)
    assert told["name"] == "test" and told["topics"] >= 2 and told["memory_bytes"] > 1_000_000
    assert told["lag"] == {"sessions": 0, "waiting": 0, "bytes": 0, "ms": 0}
    assert isinstance(told["by_lag"], list) and isinstance(told["busiest"], list)
    plain = tieline("top", "--once", "--interval", "100ms", "--http", node.http).stdout
    assert "updates/s" in plain and "client" in plain


def test_what_cannot_be_shown_is_an_error(node):
    piped = tieline("top", "--http", node.http, check=False)
    assert piped.returncode == 1 and "expected --once or --json" in piped.stderr
    gone = tieline("top", "--once", "--http", "127.0.0.1:1", check=False)
    assert gone.returncode == 4 and "no answer from" in gone.stderr
