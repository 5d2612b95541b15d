"""BACnet devices of a node under test."""

import csv
import io
import json


class BacnetDevice:
    """One `[device.NAME]` that speaks BACnet/IP. Points are rows of name, type, index and further columns by name."""

    COLUMNS = ["name", "type", "index", "property", "array_index", "scale", "offset", "writable", "write_priority", "min", "max"]
    COLUMNS += ["states", "every", "cov"]

    def __init__(self, name, address, points, poll="100ms", more="", **bacnet):
        self.name, self.address, self.points, self.poll, self.more = name, address, points, poll, more
        # A peer that dies is to be away within seconds.
        self.bacnet = {"apdu_timeout": "500ms", "retries": 2, **bacnet}
        self.topic = f"test/{name}"

    def toml(self):
        lines = [f"[device.{self.name}]", f'topic = "{self.topic}"', 'protocol = "bacnet"', f'address = "{self.address}"']
        lines += [f'points = "{self.name}.csv"', f'poll = {{ every = "{self.poll}" }}', self.more, f"[device.{self.name}.bacnet]"]
        return "\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in self.bacnet.items()), ""])

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
