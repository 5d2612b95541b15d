"""The line protocol of every peer.

In, on standard input: one command a line, in words. Out, on standard output: one JSON object a line, either the
answer to a command (`{"answer": "ok", …}` or `{"answer": "error", "why": …}`, in the order of the commands) or
something that happened (any other member). Whatever a library prints goes to standard error.

With `--restarts`, `off` kills the device and `on` starts another at its address; each is said, `{"state": "off"}`, once it is so.
"""

import json
import os
import signal
import sys
import threading

from ports import free_port

_lock = threading.Lock()
_out = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)


def say(**members):
    """Prints one object."""
    with _lock:
        print(json.dumps(members), file=_out, flush=True)


def answer(run, line):
    """Runs one command and prints its answer: ok with what `run` returns, or why it failed."""
    try:
        say(answer="ok", **(run(line.split()) or {}))
    except Exception as problem:  # a peer outlives a bad command
        say(answer="error", why=f"{type(problem).__name__}: {problem}")


def lines():
    """The commands, until `quit` or the end of the input."""
    for line in sys.stdin:
        if line.strip() == "quit":
            say(answer="ok")
            return
        if line.strip():
            yield line


def options(words):
    """`flags=0x01 time=5` as numbers by name."""
    pairs = (word.split("=", 1) for word in words)
    return {name: int(value, 0) for name, value in pairs}


def add_restarts(parser):
    parser.add_argument("--restarts", action="store_true", help="`off` kills the device, `on` starts another at its address")


def run(serve, arguments):
    """Serves; with `--restarts` in a child of this process, which starts at once since all modules are loaded."""
    if not arguments.restarts:
        return serve(arguments)
    arguments.port = arguments.port or free_port()
    child = Child(serve, arguments)
    for line in sys.stdin:
        match line.strip():
            case "off":
                child.kill()
                say(state="off")
            case "on":
                child = Child(serve, arguments)
                say(state="on")
            case _:
                child.take(line)
    child.kill()


class Child:
    """A process that serves, and reads its commands from a pipe."""

    def __init__(self, serve, arguments):
        read, self.commands = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(self.commands)
            os.dup2(read, 0)
            sys.stdin = os.fdopen(0)
            try:
                serve(arguments)
            finally:
                os._exit(1)
        os.close(read)

    def take(self, line):
        try:
            os.write(self.commands, line.encode())
        except BrokenPipeError:
            say(answer="error", why="the device is off")

    def kill(self):
        """As a power failure would."""
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.commands)
