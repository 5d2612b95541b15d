"""What a node does with the sockets that the system allows it."""

import contextlib
import resource
import socket

from bus import Paho
from waiting import until

IDLE = 1100


def test_idle_connections_of_http_keep_nobody_else_out(start_node):
    node = start_node()
    host, port = node.http.rsplit(":", 1)
    with contextlib.ExitStack() as idle:
        client = idle.enter_context(Paho(node))  # first: paho waits with select, which takes no large descriptors
        for _ in range(IDLE):
            idle.enter_context(socket.create_connection((host, int(port)), timeout=10))
        client.subscribe("calm/http")
        client.publish("calm/http", "still")
        assert client.next().payload == b"still"
    assert node.health()["status"] == "ok"
    until(lambda: "\ntieline_http_connections 1\n" in node.metrics(), node.metrics)


def test_a_low_soft_limit_of_open_files_is_raised(start_node):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, soft), hard))
    try:
        node = start_node()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert resource.prlimit(node.process.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
