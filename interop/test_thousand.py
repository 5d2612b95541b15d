"""A thousand outstations of ours on one node: all connected, polled and reporting."""

import json
import os
import resource
import subprocess
import time

from node import BINARY, Device
from waiting import until

OUTSTATIONS = int(os.environ.get("TIELINE_OUTSTATIONS", "1000"))
CONFIG = """address = 10
master = 1
unsolicited = true

[[point]]
type = "analog"
range = "0-9"
class = 1
"""


def start(folder):
    """Starts the outstations; each as (process, address)."""
    file = folder / "outstation.toml"
    file.write_text(CONFIG)
    words = [BINARY, "dnp3", "outstation", "--listen", "127.0.0.1:0", "--config", file, "--json"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    started = [subprocess.Popen([str(word) for word in words], **pipes) for _ in range(OUTSTATIONS)]
    return [(process, json.loads(process.stdout.readline())["listen"]) for process in started]


def usage(process):
    """(resident bytes, CPU seconds) of a process so far."""
    with open(f"/proc/{process}/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * resource.getpagesize()
    with open(f"/proc/{process}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return resident, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_all_report(tmp_path, start_node):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 16_384)), hard))
    outstations = start(tmp_path)
    try:
        devices = [Device(f"d{number}", address, types=["analog"]) for number, (_, address) in enumerate(outstations)]
        for device in devices:
            device.poll = {"integrity": "1h", "events": "10s"}
        node = start_node(*devices)
        begun = time.monotonic()

        def online():
            return node.request("/v1/status")[1]["devices"]["online"] == OUTSTATIONS

        until(online, lambda: node.request("/v1/status")[1]["devices"], 120)
        ready = time.monotonic() - begun
        for number, (process, _) in enumerate(outstations):
            process.stdin.write(f"update analog 3 {number + 1}\n")
            process.stdin.flush()
        begun = time.monotonic()

        def late():
            return [d for n, d in enumerate(devices) if (node.get(d.point("analog", 3)) or {}).get("v") != n + 1]

        until(lambda: not late(), lambda: f"{len(late())} devices have not reported", 60)
        reported = time.monotonic() - begun
        resident, cpu = usage(node.process.process.pid)
    finally:
        for process, _ in outstations:
            process.kill()
        for process, _ in outstations:
            process.wait()
    print(
        f"measured: {OUTSTATIONS} outstations online after {ready:.1f} s, a change of each seen in {reported:.1f} s, "
        f"{resident / 1e6:.0f} MB resident, {cpu:.1f} s of CPU"
    )
