"""Modbus devices of a node under test."""

import csv
import io
import json


class ModbusDevice:
    """One `[device.NAME]` that speaks Modbus. Points are rows of name, type, index and further columns by name."""

    COLUMNS = ["name", "type", "index", "format", "order", "scale", "offset", "writable", "min", "max", "states", "every"]

    def __init__(self, name, address, points, poll="100ms", more="", channel=None, **modbus):
        self.name, self.address, self.points, self.poll, self.more = name, address, points, poll, more
        self.channel, self.modbus = channel, modbus
        self.topic = f"test/{name}"

    def toml(self):
        where = f'channel = "{self.channel}"' if self.channel else self.address
        where = where if "=" in where else f'address = "{where}"'
        lines = [f"[device.{self.name}]", f'topic = "{self.topic}"', 'protocol = "modbus"', where, f'points = "{self.name}.csv"']
        lines += [f'poll = {{ every = "{self.poll}" }}', self.more, f"[device.{self.name}.modbus]"]
        return "\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in self.modbus.items()), ""])

    def csv(self):
        text = io.StringIO()
        rows = csv.DictWriter(text, self.COLUMNS, lineterminator="\n")
        rows.writeheader()
        for name, kind, index, *more in self.points:
            rows.writerow({"name": name, "type": kind, "index": index, **(more[0] if more else {})})
        return text.getvalue()

    def point(self, name):
        """The topic of a point."""
        return f"{self.topic}/{name}"
