"""A controlled station of c104 (lib60870-C): TCP, or TLS with certificates that both sides show.

Points are those of POINTS; the column `time` says which of them have CP56Time2a. Commands: `set ADDRESS VALUE [FLAG…]` keeps a value,
`report ADDRESS VALUE [FLAG…] [at=RFC3339]` keeps it and reports it, `refuse on|off` (commands), `initialized`, `get ADDRESS`,
`counts`, `quit`. Flags are those of the library: Invalid, NonTopical, Substituted, Blocked, Overflow, Carry, Adjusted. Each command
of a client is said, `{"command": …}`, and each time that a clock is set to, `{"clock": …}`; with `--acknowledged` each spontaneous
short float with a time whose frame a client has acknowledged, too, `{"acknowledged": {"address", "value"}}`.
"""

import argparse
import datetime
import os
import struct
import sys

import c104
import lines
from ports import free_port

Type, Quality, Counter = c104.Type, c104.Quality, c104.BinaryCounterQuality

# Address: type, how its information is made, the initial value.
POINTS = {
    10: (Type.M_SP_NA_1, lambda v, **m: c104.SingleInfo(bool(v), **m), 1),
    11: (Type.M_SP_TB_1, lambda v, **m: c104.SingleInfo(bool(v), **m), 0),
    20: (Type.M_DP_NA_1, lambda v, **m: c104.DoubleInfo(c104.Double(int(v)), **m), 2),
    21: (Type.M_DP_TB_1, lambda v, **m: c104.DoubleInfo(c104.Double(int(v)), **m), 1),
    30: (Type.M_ST_NA_1, lambda v, **m: c104.StepInfo(c104.Int7(int(v)), False, **m), -7),
    31: (Type.M_ST_TB_1, lambda v, **m: c104.StepInfo(c104.Int7(int(v)), True, **m), 63),
    40: (Type.M_BO_NA_1, lambda v, **m: c104.BinaryInfo(c104.Byte32(int(v)), **m), 0xDEADBEEF),
    50: (Type.M_ME_NA_1, lambda v, **m: c104.NormalizedInfo(c104.NormalizedFloat(v), **m), -0.5),
    51: (Type.M_ME_ND_1, lambda v, **m: c104.NormalizedInfo(c104.NormalizedFloat(v), **m), 0.25),
    60: (Type.M_ME_NB_1, lambda v, **m: c104.ScaledInfo(c104.Int16(int(v)), **m), -1000),
    61: (Type.M_ME_TE_1, lambda v, **m: c104.ScaledInfo(c104.Int16(int(v)), **m), 1000),
    70: (Type.M_ME_NC_1, lambda v, **m: c104.ShortInfo(v, **m), 50.25),
    71: (Type.M_ME_TF_1, lambda v, **m: c104.ShortInfo(v, **m), 0.1),
    80: (Type.M_IT_NA_1, lambda v, **m: c104.BinaryCounterInfo(int(v), c104.UInt5(3), **m), 12345),
    90: (Type.M_PS_NA_1, lambda v, **m: c104.StatusAndChanged(c104.PackedSingle(int(v)), c104.PackedSingle(1), **m), 0x8001),
    95: (Type.M_EP_TD_1, lambda v, **m: c104.ProtectionEventInfo(c104.EventState(int(v)), c104.UInt16(9), **m), 2),
    96: (Type.M_EP_TE_1, lambda v, **m: c104.ProtectionStartInfo(c104.StartEvents(int(v)), c104.UInt16(9), **m), 5),
}
# Address: type, the point that shows it.
COMMANDS = {
    5010: (Type.C_SC_NA_1, 10),
    5020: (Type.C_DC_NA_1, 20),
    5030: (Type.C_RC_NA_1, 30),
    5040: (Type.C_BO_NA_1, 40),
    5050: (Type.C_SE_NA_1, 50),
    5060: (Type.C_SE_NB_1, 60),
    5070: (Type.C_SE_NC_1, 70),
    5071: (Type.C_SE_TC_1, 71),
}


class Acknowledged:
    """Says of which reports the frames were acknowledged; for one client at a time."""

    START_ACT, SHORT_WITH_TIME, SPONTANEOUS = 0x07, 36, 3

    def __init__(self, server):
        # Sequence number of the frame, address, value; the oldest first.
        self.waiting = []
        server.on_send_raw(callable=self.on_sent)
        server.on_receive_raw(callable=self.on_received)

    def on_sent(self, server: c104.Server, data: bytes) -> None:
        if len(data) > 18 and data[2] & 1 == 0 and (data[6], data[8]) == (self.SHORT_WITH_TIME, self.SPONTANEOUS):
            number, address = int.from_bytes(data[2:4], "little") >> 1, int.from_bytes(data[12:15], "little")
            self.waiting.append((number, address, struct.unpack("<f", data[15:19])[0]))

    def on_received(self, server: c104.Server, data: bytes) -> None:
        if data[2] & 3 == 3:
            self.waiting = [] if data[2] == self.START_ACT else self.waiting
            return
        next_number = int.from_bytes(data[4:6], "little") >> 1
        # A number of 15 bits that is not ahead of the acknowledgement.
        while self.waiting and 0 < (next_number - self.waiting[0][0]) % 0x8000 < 0x4000:
            _, address, value = self.waiting.pop(0)
            lines.say(acknowledged={"address": address, "value": value})


class Controlled:
    """A station that keeps what it is told."""

    def __init__(self, arguments):
        self.refuses = False
        self.server = self.listen(arguments)
        self.server.on_clock_sync(callable=self.on_clock)
        self.acknowledged = Acknowledged(self.server) if arguments.acknowledged else None
        self.station = self.server.add_station(common_address=arguments.common_address)
        self.points = {address: self.station.add_point(io_address=address, type=kind) for address, (kind, _, _) in POINTS.items()}
        for address, (_, _, value) in POINTS.items():
            self.keep(address, str(value))
        self.commands = {}
        for address, (kind, _) in COMMANDS.items():
            # A direct command is taken as well as one that was selected.
            mode = c104.CommandMode.DIRECT if kind == Type.C_BO_NA_1 or arguments.direct else c104.CommandMode.SELECT_AND_EXECUTE
            point = self.station.add_point(io_address=address, type=kind, command_mode=mode)
            point.on_receive(callable=self.on_command)
            self.commands[address] = point
        self.server.start()

    @staticmethod
    def listen(arguments):
        # The library does not say which free port it takes.
        port = arguments.port or free_port()
        security = None
        if arguments.tls:
            security = c104.TransportSecurity(validate=True, only_known=False)
            security.set_certificate(cert=f"{arguments.tls}/server.pem", key=f"{arguments.tls}/server.key")
            security.set_ca_certificate(cert=f"{arguments.tls}/authority.pem")
            security.set_version(min=c104.TlsVersion.TLS_1_2, max=c104.TlsVersion.TLS_1_2)
        return c104.Server(ip="127.0.0.1", port=port, tick_rate_ms=50, transport_security=security)

    def on_clock(self, server: c104.Server, ip: str, date_time: datetime.datetime) -> c104.ResponseState:
        lines.say(clock=date_time.isoformat())
        return c104.ResponseState.SUCCESS

    def on_command(self, point: c104.Point, previous_info: c104.Information, message: c104.IncomingMessage) -> c104.ResponseState:
        said = {"address": point.io_address, "value": plain(point.value), "select": bool(message.is_select_command)}
        lines.say(command={**said, "originator": message.originator_address, "refused": self.refuses})
        return c104.ResponseState.FAILURE if self.refuses else c104.ResponseState.SUCCESS

    def keep(self, address, value, flags=(), at=None):
        kind, make, _ = POINTS[address]
        quality = Counter() if kind == Type.M_IT_NA_1 else Quality()
        for flag in flags:
            quality |= getattr(type(quality), flag)
        members = {"quality": quality}
        if at or kind.name.endswith(("TB_1", "TD_1", "TE_1", "TF_1")):
            members["recorded_at"] = datetime.datetime.fromisoformat(at or "2026-11-20T09:30:10.123+00:00")
        self.points[address].info = make(float(value), **members)

    def run(self, words):
        match words:
            case ["set" | "report" as verb, address, value, *more]:
                at = next((word[3:] for word in more if word.startswith("at=")), None)
                flags = [word for word in more if not word.startswith("at=")]
                self.keep(int(address), value, flags, at)
                if verb == "report" and not self.points[int(address)].transmit(cause=c104.Cot.SPONTANEOUS):
                    raise ValueError("nobody is connected")
            case ["refuse", word]:
                self.refuses = word == "on"
            case ["initialized"]:
                self.station.signal_initialized(cause=c104.Coi.REMOTE_RESET)
            case ["get", address]:
                return {"value": plain(self.commands[int(address)].value)}
            case ["counts"]:
                return {"open": self.server.open_connection_count, "active": self.server.active_connection_count}
            case _:
                raise ValueError("set, report, refuse, initialized, get, counts or quit expected")


def plain(value):
    """A value of the library as JSON."""
    if isinstance(value, bool) or value is None:
        return value
    return str(value) if isinstance(value, c104.Byte32) else float(value) if hasattr(value, "__float__") else int(value)


def serve(arguments):
    controlled = Controlled(arguments)
    lines.say(listen=f"127.0.0.1:{controlled.server.port}")
    for line in lines.lines():
        lines.answer(controlled.run, line)
    os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--common-address", type=int, default=7)
    parser.add_argument("--direct", action="store_true", help="commands need no select")
    parser.add_argument("--acknowledged", action="store_true", help="says which reports were acknowledged")
    parser.add_argument("--tls", help="a folder with server.pem, server.key and authority.pem")
    lines.add_restarts(parser)
    lines.run(serve, parser.parse_args())


sys.exit(main())
