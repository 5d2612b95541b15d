"""Waits for conditions, with a deadline and never for a fixed time."""

import threading
import time

_never = threading.Event()


def until(condition, what, seconds=15.0):
    """Returns the first true result of `condition`, asked again and again; fails after `seconds`, saying `what`."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            told = what() if callable(what) else what
            raise AssertionError(f"not within {seconds} s: {told}")
        _never.wait(0.01)
