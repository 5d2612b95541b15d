"""Modbus devices of a node under test, and the server of libmodbus."""

import json
import os
import pty
import shlex
import subprocess
import tty

from carriers import Line, Passing
from listed import ListedDevice
from processes import HERE, Lines
from waiting import until


class ModbusDevice(ListedDevice):
    """One `[device.NAME]` that speaks Modbus. Points are rows of name, type, index and further columns by name."""

    COLUMNS = ["name", "type", "index", "format", "order", "scale", "offset", "writable", "min", "max", "states", "every"]

    def __init__(self, name, address, points, poll="100ms", more="", channel=None, stale_after_missed=3, **modbus):
        super().__init__(name, points)
        self.address, self.poll, self.more = address, poll, more
        self.channel, self.stale_after_missed, self.modbus = channel, stale_after_missed, modbus

    def toml(self):
        where = f'channel = "{self.channel}"' if self.channel else self.address
        where = where if "=" in where else f'address = "{where}"'
        lines = [f"[device.{self.name}]", f'topic = "{self.topic}"', 'protocol = "modbus"', where, f'points = "{self.name}.csv"']
        poll = f'poll = {{ every = "{self.poll}", stale_after_missed = {self.stale_after_missed} }}'
        lines += [poll, self.more, f"[device.{self.name}.modbus]"]
        return "\n".join([*lines, *self.keys(self.modbus), ""])


class LibModbus(Lines):
    """The server of libmodbus, built where it is used; commands as in `peers/libmodbus_server.c`."""

    def __init__(self, folder, *words):
        program = folder / "libmodbus_server"
        if not program.exists():
            flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libmodbus"], capture_output=True, text=True, check=True)
            source = HERE / "peers" / "libmodbus_server.c"
            subprocess.run(["cc", "-O1", "-o", program, source, *shlex.split(flags.stdout)], check=True)
        super().__init__([program, *words])
        self.address = self.first()["listen"]
        self._answered = 0

    def do(self, line, seconds=15.0):
        """Sends one command that must succeed; its answer."""
        self.send(line)
        self._answered += 1

        def answers():
            found = [said for said in map(json.loads, list(self.lines)) if "answer" in said]
            return found if len(found) >= self._answered else None

        answer = until(answers, lambda: f"{line}\n{self.said()}", seconds)[self._answered - 1]
        assert answer["answer"] == "ok", f"{line}: {answer}"
        return answer


class SerialPair:
    """Two serial lines that are one: what is written to either path is read from the other."""

    def __init__(self):
        self.ends, self.paths = [], []
        for _ in range(2):
            ours, theirs = pty.openpty()
            tty.setraw(theirs)
            self.paths.append(os.ttyname(theirs))
            self.ends.append((ours, theirs))
        Passing(*(Line(ours) for ours, _ in self.ends))
