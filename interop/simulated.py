"""Simulated devices of a node under test."""

from listed import ListedDevice


class SimulatedDevice(ListedDevice):
    """One `[device.NAME]` that is simulated."""

    PLACE = ("name", "type")
    COLUMNS = ("name", "type", "value", "curve", "noise", "decimals", "every", "unit", "writable", "min", "max", "states")

    def __init__(self, name, points, poll="1s", more="", list=None, faults=(), **simulated):
        super().__init__(name, points)
        self.poll, self.more, self.faults, self.simulated = poll, more, faults, simulated
        self.list = list or name

    def toml(self):
        lines = [f"[device.{self.name}]", f'topic = "{self.topic}"', 'protocol = "simulated"', f'points = "{self.list}.csv"']
        lines += [f'poll = {{ every = "{self.poll}" }}', self.more, f"[device.{self.name}.simulated]", *self.keys(self.simulated)]
        for fault in self.faults:
            lines += [f"[[device.{self.name}.simulated.faults]]", *self.keys(fault)]
        return "\n".join([*lines, ""])
