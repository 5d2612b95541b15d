"""Simulated devices of a node under test."""

import csv
import io


class SimulatedDevice:
    """One `[device.NAME]` that is simulated. Points are rows of name, type and further columns by name."""

    COLUMNS = ["name", "type", "value", "curve", "noise", "decimals", "every", "unit", "writable", "min", "max", "states"]

    def __init__(self, name, points, poll="1s", more="", list=None, faults=(), **simulated):
        self.name, self.points, self.poll, self.more, self.faults, self.simulated = name, points, poll, more, faults, simulated
        self.list = list or name
        self.topic = f"test/{name}"

    def toml(self):
        lines = [f"[device.{self.name}]", f'topic = "{self.topic}"', 'protocol = "simulated"', f'points = "{self.list}.csv"']
        lines += [f'poll = {{ every = "{self.poll}" }}', self.more, f"[device.{self.name}.simulated]"]
        lines += [f"{key} = {value!r}" for key, value in self.simulated.items()]
        for fault in self.faults:
            lines += [f"[[device.{self.name}.simulated.faults]]", *(f"{key} = {value!r}" for key, value in fault.items())]
        return "\n".join([*lines, ""])

    def csv(self):
        text = io.StringIO()
        rows = csv.DictWriter(text, self.COLUMNS, lineterminator="\n")
        rows.writeheader()
        for name, kind, *more in self.points:
            rows.writerow({"name": name, "type": kind, **(more[0] if more else {})})
        return text.getvalue()

    def point(self, name):
        """The topic of a point."""
        return f"{self.topic}/{name}"
