"""A device of a node under test whose points are rows of a list that the test writes."""

import csv
import io
import json


class ListedDevice:
    """Points are rows of the cells of PLACE and, where there are more, the other columns by name."""

    PLACE = ("name", "type", "index")
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
        for point in self.points:
            place, more = point[: len(self.PLACE)], point[len(self.PLACE) :]
            rows.writerow({**dict(zip(self.PLACE, place, strict=True)), **(more[0] if more else {})})
        return text.getvalue()

    def point(self, name):
        """The topic of a point."""
        return f"{self.topic}/{name}"
