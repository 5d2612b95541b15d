"""A device of a node under test whose points are rows of a list that the test writes."""

import csv
import io
import json


class ListedDevice:
    """Points are rows of name, type, index and, where there are more, the other columns by name."""

    COLUMNS = ()

    def __init__(self, name, points):
        self.name, self.points, self.topic = name, points, f"test/{name}"

    @staticmethod
    def keys(table):
        """The lines of a TOML table."""
        return [f"{key} = {json.dumps(value)}" for key, value in table.items()]

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
