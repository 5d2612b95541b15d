"""The line protocol of every peer.

In, on standard input: one command a line, in words. Out, on standard output: one JSON object a line, either the
answer to a command (`{"answer": "ok", …}` or `{"answer": "error", "why": …}`, in the order of the commands) or
something that happened (any other member). Whatever a library prints goes to standard error.
"""

import json
import os
import sys
import threading

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
