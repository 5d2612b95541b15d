"""BACnet devices of a node under test."""

from listed import ListedDevice


class BacnetDevice(ListedDevice):
    """One `[device.NAME]` that speaks BACnet/IP. Points are rows of name, type, index and further columns by name."""

    COLUMNS = ["name", "type", "index", "property", "array_index", "scale", "offset", "writable", "write_priority", "min", "max"]
    COLUMNS += ["states", "every", "cov", "trend_log"]

    def __init__(self, name, address, points, poll="100ms", more="", **bacnet):
        super().__init__(name, points)
        self.address, self.poll, self.more = address, poll, more
        # A peer that dies is to be away within seconds.
        self.bacnet = {"apdu_timeout": "500ms", "retries": 2, **bacnet}

    def toml(self):
        lines = [f"[device.{self.name}]", f'topic = "{self.topic}"', 'protocol = "bacnet"']
        lines += [f'address = "{self.address}"'] if self.address else []
        lines += [f'points = "{self.name}.csv"', f'poll = {{ every = "{self.poll}" }}', self.more, f"[device.{self.name}.bacnet]"]
        return "\n".join([*lines, *self.keys(self.bacnet), ""])
