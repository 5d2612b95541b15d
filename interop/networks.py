"""Network namespaces with a link each to the machine of the test: links that are cut, both ways or one way, and addresses that change.

Only root may make them. Programs of a namespace are started, and reached at 127.0.0.1, inside of `with host:`.
"""

import ctypes
import os
import shutil
import subprocess
from contextlib import contextmanager
from itertools import count

C = ctypes.CDLL(None, use_errno=True)
NEWNET = 0x40000000
NOBODY = "02:00:00:00:00:99"
NUMBERS = count(1)


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}\n{done.stderr}"


def may_be_made():
    """Whether this user may make namespaces and links between them."""
    if not shutil.which("ip"):
        return False
    name = f"tl{os.getpid()}-try"
    try:
        ip("netns", "add", name)
        ip("-n", name, "link", "add", "name", "near", "type", "veth", "peer", "name", "far")
    except AssertionError:
        return False
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return True


def enter(space):
    """Moves this thread, and what it starts and connects from now on."""
    if C.setns(space.fileno(), NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Host:
    """A namespace with one link: `near` is the address of the test's machine there, `far` its own."""

    def __init__(self):
        number, process = next(NUMBERS), os.getpid()
        self.name, self.link = f"tl{process}-{number}", f"tl{process % 100000}-{number}"
        # Tests run in several processes.
        net = f"10.{64 + (process >> 8) % 64}.{process % 256}"
        self.near, self.far, self.other = (f"{net}.{8 * number + place}" for place in (1, 2, 3))
        ip("netns", "add", self.name)
        ip("link", "add", self.link, "type", "veth", "peer", "name", "site", "netns", self.name)
        ip("addr", "add", f"{self.near}/29", "dev", self.link)
        ip("link", "set", self.link, "up")
        ip("-n", self.name, "addr", "add", f"{self.far}/29", "dev", "site")
        for link in ("lo", "site"):
            ip("-n", self.name, "link", "set", link, "up")

    def __enter__(self):
        # The namespace that a thread is in is only known by an open file.
        self.outside = open("/proc/thread-self/ns/net")
        with open(f"/run/netns/{self.name}") as space:
            enter(space)
        return self

    def __exit__(self, *_):
        with self.outside:
            enter(self.outside)

    def remove(self):
        ip("netns", "del", self.name)

    @contextmanager
    def cut(self):
        """No packet passes."""
        ip("link", "set", self.link, "down")
        yield
        ip("link", "set", self.link, "up")

    @contextmanager
    def deaf(self):
        """What is sent to it goes to nobody."""
        ip("neigh", "replace", self.far, "lladdr", NOBODY, "dev", self.link, "nud", "permanent")
        yield
        ip("neigh", "del", self.far, "dev", self.link)

    @contextmanager
    def mute(self):
        """What it sends goes to nobody."""
        ip("-n", self.name, "neigh", "replace", self.near, "lladdr", NOBODY, "dev", "site", "nud", "permanent")
        yield
        ip("-n", self.name, "neigh", "del", self.near, "dev", "site")

    @contextmanager
    def moved(self):
        """It has another address from now on, as behind a modem that has dialled again."""
        ip("-n", self.name, "addr", "del", f"{self.far}/29", "dev", "site")
        yield
        ip("-n", self.name, "addr", "add", f"{self.other}/29", "dev", "site")
