"""A controlling station of c104 (lib60870-C) on one connection.

`c104_client.py HOST:PORT COMMON_ADDRESS [ADDRESS=TYPE…]`: the points that it knows, and those that it commands. Commands:
`connect`, `disconnect`, `state`, `interrogate [GROUP]`, `counters [read|freeze|freeze_reset|reset]`, `clock`, `test`, `read ADDRESS`,
`command ADDRESS VALUE [select]`, `start`, `values`, `quit`. Each ASDU that comes is said, `{"asdu": …}`. With `--muted`, data transfer
is started by `start` alone. The library as a TLS client asks for a host name that it cannot be given (-0x5d80): see `iec104.Tunnel`.
"""

import argparse

import c104
import lines

Type, Cot = c104.Type, c104.Cot
COMMANDS = {
    Type.C_SC_NA_1: lambda v: c104.SingleCmd(v == "on"),
    Type.C_SC_TA_1: lambda v: c104.SingleCmd(v == "on"),
    Type.C_DC_NA_1: lambda v: c104.DoubleCmd(getattr(c104.Double, v.upper())),
    Type.C_RC_NA_1: lambda v: c104.StepCmd(getattr(c104.Step, v.upper())),
    Type.C_SE_NA_1: lambda v: c104.NormalizedCmd(c104.NormalizedFloat(float(v))),
    Type.C_SE_NB_1: lambda v: c104.ScaledCmd(c104.Int16(int(v))),
    Type.C_SE_NC_1: lambda v: c104.ShortCmd(float(v)),
    Type.C_BO_NA_1: lambda v: c104.BinaryCmd(c104.Byte32(int(v))),
}
FREEZES = {
    "read": c104.Frz.READ,
    "freeze": c104.Frz.FREEZE_WITHOUT_RESET,
    "freeze_reset": c104.Frz.FREEZE_WITH_RESET,
    "reset": c104.Frz.COUNTER_RESET,
}


def on_raw(connection: c104.Connection, data: bytes) -> None:
    if len(data) > 6:
        lines.say(asdu=data[6:].hex(), told=c104.explain_bytes(apdu=data))


class Controlling:
    """A client, its connection and the points that it was told of."""

    def __init__(self, arguments):
        host, port = arguments.address.rsplit(":", 1)
        self.common_address = arguments.common_address
        self.muted = arguments.muted
        self.client = c104.Client(tick_rate_ms=50, command_timeout_ms=3000)
        init = c104.Init.MUTED if self.muted else c104.Init.NONE
        self.connection = self.client.add_connection(ip=host, port=int(port), init=init)
        self.connection.on_receive_raw(callable=on_raw)
        self.station = self.connection.add_station(common_address=self.common_address)
        self.points = {}
        for address, name in (point.split("=") for point in arguments.points):
            self.points[int(address)] = self.station.add_point(io_address=int(address), type=getattr(Type, name))
        self.client.start()

    def run(self, words):
        return getattr(self, words[0])(*words[1:])

    def connect(self):
        self.connection.connect()

    def disconnect(self):
        self.connection.disconnect()

    def state(self):
        # On a busy machine the library may miss that data transfer was started.
        if self.connection.is_connected and self.connection.is_muted and not self.muted:
            self.connection.unmute()
        return {"state": self.connection.state.name}

    def start(self):
        self.muted = False
        return {"done": self.connection.unmute()}

    def interrogate(self, group="0"):
        qualifier = c104.Qoi.STATION if group == "0" else getattr(c104.Qoi, f"GROUP_{group}")
        return {"done": self.connection.interrogation(common_address=self.common_address, cause=Cot.ACTIVATION, qualifier=qualifier)}

    def counters(self, freeze="read"):
        return {"done": self.connection.counter_interrogation(common_address=self.common_address, freeze=FREEZES[freeze])}

    def clock(self):
        return {"done": self.connection.clock_sync(common_address=self.common_address)}

    def test(self):
        return {"done": self.connection.test(common_address=self.common_address)}

    def read(self, address):
        return {"done": self.points[int(address)].read()}

    def command(self, address, value, mode="direct"):
        point = self.points[int(address)]
        point.command_mode = c104.CommandMode.SELECT_AND_EXECUTE if mode == "select" else c104.CommandMode.DIRECT
        point.info = COMMANDS[point.type](value)
        return {"done": point.transmit(cause=Cot.ACTIVATION)}

    def values(self):
        return {"values": {address: plain(point.value) for address, point in self.points.items()}}


def plain(value):
    """A value as JSON has it."""
    if isinstance(value, (bool, float, int)) or value is None:
        return value
    return float(value) if hasattr(value, "__float__") else getattr(value, "name", str(value))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("common_address", type=int)
    parser.add_argument("points", nargs="*")
    parser.add_argument("--muted", action="store_true", help="data transfer is started by a command")
    controlling = Controlling(parser.parse_args())
    lines.say(ready=True)
    for line in lines.lines():
        lines.answer(controlling.run, line)
    controlling.client.stop()


if __name__ == "__main__":
    main()
