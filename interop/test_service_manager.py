"""What a node tells its service manager: sd_notify over a real socket."""

import ctypes
import os
import re
import signal
import socket
import urllib.request
from pathlib import Path

import pytest
from node import Node
from waiting import until

SEIZE, INTERRUPT, DETACH, ALL = 0x4206, 0x4207, 17, 0x40000000
PATIENCE_S = 60


class Manager:
    """The end of systemd: a datagram socket."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(PATIENCE_S)
        self.environment = {"NOTIFY_SOCKET": address}

    def heard(self):
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().split("\n"))

    def wait(self, **wanted):
        """What came up to a message with these members, which is the last."""
        messages = [self.heard()]
        while not wanted.items() <= messages[-1].items():
            messages.append(self.heard())
        return messages

    def forget(self):
        """Takes all that has come."""
        self.socket.setblocking(False)
        try:
            while self.socket.recv(4096):
                pass
        except BlockingIOError:
            self.socket.settimeout(PATIENCE_S)


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    return Manager({"path": str(tmp_path / "notify"), "abstract": f"@tieline-{os.getpid()}-{tmp_path.name}"}[request.param])


def test_a_node_says_when_it_is_ready_and_when_it_stops(tmp_path, manager):
    # Nobody reads its output here: the first thing that is known of its addresses comes from itself.
    with Node(tmp_path, environment=manager.environment) as node:
        ready = manager.heard()
        assert ready["READY"] == "1"
        assert ready["STATUS"] == f"MQTT at {node.mqtt}, HTTP at {node.http}"
        mqtt, http = re.findall(r"127\.0\.0\.1:\d+", ready["STATUS"])
        socket.create_connection(mqtt.split(":"), timeout=PATIENCE_S).close()
        assert urllib.request.urlopen(f"http://{http}/healthz", timeout=PATIENCE_S).status == 200
        assert "devices: none configured" in manager.heard()["STATUS"]
        node.process.process.send_signal(signal.SIGTERM)
        assert manager.wait(STOPPING="1")[-1] == {"STOPPING": "1", "STATUS": "stopping"}


def thread(process, name):
    for task in Path(f"/proc/{process}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            return int(task.name)
    raise AssertionError(f"no thread {name}")


def ptrace(request, task):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, task, None, None) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


@pytest.mark.parametrize("name", ["bus", "http"])
def test_the_watchdog_is_fed_only_while_main_threads_answer(tmp_path, name):
    manager = Manager(str(tmp_path / "notify"))
    environment = {**manager.environment, "WATCHDOG_USEC": "1000000"}
    with Node(tmp_path, environment=environment) as node:
        manager.wait(WATCHDOG="1")
        manager.wait(WATCHDOG="1")
        task = thread(node.process.process.pid, name)
        try:
            ptrace(SEIZE, task)
        except OSError as refused:
            pytest.skip(f"no thread can be stopped here: {refused}")
        ptrace(INTERRUPT, task)
        os.waitpid(task, ALL)
        try:
            # It says so itself, each time that it would have fed the watchdog.
            complaints = lambda: [line for line in node.process.errors if "does not answer" in line]
            until(lambda: complaints(), node.process.said, PATIENCE_S)
            manager.forget()
            said = len(complaints())
            until(lambda: len(complaints()) > said + 2, node.process.said, PATIENCE_S)
            manager.socket.setblocking(False)
            with pytest.raises(BlockingIOError):
                manager.heard()
        finally:
            ptrace(DETACH, task)
        manager.socket.settimeout(PATIENCE_S)
        manager.wait(WATCHDOG="1")


def test_a_watchdog_of_another_process_is_not_fed(tmp_path):
    manager = Manager(str(tmp_path / "notify"))
    environment = {**manager.environment, "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}
    with Node(tmp_path, environment=environment) as node:
        manager.wait(READY="1")
        manager.heard()
        node.process.process.send_signal(signal.SIGTERM)
        assert not [message for message in manager.wait(STOPPING="1") if "WATCHDOG" in message]


def test_a_manager_that_is_not_there_is_no_trouble(tmp_path):
    with Node(tmp_path, environment={"NOTIFY_SOCKET": str(tmp_path / "nobody")}) as node:
        assert node.request("/healthz")[0] == 200
        until(lambda: any("NOTIFY_SOCKET" in line for line in node.process.errors), node.process.said)
