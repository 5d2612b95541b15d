"""An outstation of opendnp3 2.x (dnp3-python==0.3.0b1).

    update TYPE INDEX VALUE [flags=0x01] [time=MS]   changes a point
    refuse TYPE INDEX STATUS                         answers with a control status, by name
    stop                                             ends its connection and listens no more; its events are kept
    start                                            listens again, and says that it has restarted

First line: `{"listen": "127.0.0.1:PORT"}`. Later: `{"command": {"step": "select"|"operate"|"direct", "type", "index",
"value"}}` for every control that arrives, with what became of it in `"status"`.

Ten points of each type, times and intervals (g50v4 with qualifier 00, in class 0) among them. Analog 0-4 are double
float, 5-9 are 32-bit integers. Events of all carry a time and are class 1, 2 or 3 by index modulo 3.
"""

import argparse
import ctypes
import os

import lines
from ports import free_port
from pydnp3 import asiodnp3, asiopal, opendnp3, openpal

POINTS = 10
REFUSALS = {}


class Application(opendnp3.IOutstationApplication):
    """Takes the time from a master; the rest is the library's default."""

    def SupportsWriteAbsoluteTime(self):
        return True

    def WriteAbsoluteTime(self, timestamp):
        lines.say(time_written=timestamp.msSinceEpoch)
        return True


class Commands(opendnp3.ICommandHandler):
    """Says what arrives, refuses what it was told to refuse, and follows what it accepts with its status point."""

    outstation = None

    def Start(self):
        pass

    def End(self):
        pass

    def Select(self, command, index):
        return self.judge("select", command, index)

    def Operate(self, command, index, op_type):
        direct = op_type != opendnp3.OperateType.SELECT_BEFORE_OPERATE
        return self.judge("direct" if direct else "operate", command, index)

    def judge(self, step, command, index):
        kind, value = meaning(command)
        status = opendnp3.CommandStatus.NOT_SUPPORTED if index >= POINTS else REFUSALS.get((kind, index))
        status = status or opendnp3.CommandStatus.SUCCESS
        lines.say(command={"step": step, "type": kind, "index": index, "value": value, "status": status.name.lower()})
        if status == opendnp3.CommandStatus.SUCCESS and step != "select":
            self.outstation.Apply(update(kind, index, follow(kind, value), 0x01, None))
        return status


def meaning(command):
    """A control as (type, value): the name of a relay's code, or the number for an analog output."""
    if isinstance(command, opendnp3.ControlRelayOutputBlock):
        return "binary_output", command.functionCode.name.lower()
    return "analog_output", command.value


def follow(kind, value):
    """The value of the status point after a control."""
    return value if kind == "analog_output" else value in ("latch_on", "pulse_on", "close_pulse_on")


def update(kind, index, value, flags, time):
    """One change, ready for the outstation."""
    make = {
        "binary": lambda: opendnp3.Binary(value, *quality(flags, time)),
        "double_bit": lambda: opendnp3.DoubleBitBinary(value, *quality(flags, time)),
        "counter": lambda: opendnp3.Counter(value, *quality(flags, time)),
        "analog": lambda: opendnp3.Analog(value, *quality(flags, time)),
        "binary_output": lambda: opendnp3.BinaryOutputStatus(value, *quality(flags, time)),
        "analog_output": lambda: opendnp3.AnalogOutputStatus(value, *quality(flags, time)),
    }
    return asiodnp3.UpdateBuilder().Update(make[kind](), index).Build()


def quality(flags, time):
    return [opendnp3.Flags(flags)] + ([] if time is None else [opendnp3.DNPTime(time)])


def parse(kind, text):
    """A value as written in a command."""
    if kind in ("binary", "binary_output"):
        return {"true": True, "false": False}[text]
    if kind == "double_bit":
        names = {"intermediate": "INTERMEDIATE", "off": "DETERMINED_OFF", "on": "DETERMINED_ON"}
        return getattr(opendnp3.DoubleBit, names.get(text, "INDETERMINATE"))
    return int(text) if kind == "counter" else float(text)


def stack(arguments):
    """The configuration: types, variations, classes."""
    sizes = opendnp3.DatabaseSizes.AllTypes(POINTS)
    if arguments.no_intervals:
        sizes.numTimeAndInterval = 0
    config = asiodnp3.OutstationStackConfig(dbSizes=sizes)
    config.outstation.eventBufferConfig = opendnp3.EventBufferConfig().AllTypes(arguments.events)
    config.outstation.params.allowUnsolicited = not arguments.no_unsolicited
    # A confirm that crosses a response of it is lost to this library: reads then wait for this time-out.
    config.outstation.params.unsolConfirmTimeout = openpal.TimeDuration().Milliseconds(300)
    config.link.LocalAddr = arguments.address
    config.link.RemoteAddr = arguments.master
    config.link.KeepAliveTimeout = openpal.TimeDuration().Max()
    for index in range(POINTS):
        for name, (data, static, event) in variations(whole=index >= 5).items():
            assign(getattr(config.dbConfig, name), data, index, static, index % 3 + 1, event)
    return config


def variations(whole):
    """For each type: bytes of a point's configuration in memory, static variation, event variation."""
    analog, analog_event = opendnp3.StaticAnalogVariation, opendnp3.EventAnalogVariation
    return {
        "binary": (6, opendnp3.StaticBinaryVariation.Group1Var2, opendnp3.EventBinaryVariation.Group2Var2),
        "doubleBinary": (
            6,
            opendnp3.StaticDoubleBinaryVariation.Group3Var2,
            opendnp3.EventDoubleBinaryVariation.Group4Var2,
        ),
        "counter": (12, opendnp3.StaticCounterVariation.Group20Var1, opendnp3.EventCounterVariation.Group22Var5),
        "analog": (16, analog.Group30Var1, analog_event.Group32Var3)
        if whole
        else (16, analog.Group30Var6, analog_event.Group32Var8),
        "boStatus": (
            6,
            opendnp3.StaticBinaryOutputStatusVariation.Group10Var2,
            opendnp3.EventBinaryOutputStatusVariation.Group11Var2,
        ),
        "aoStatus": (
            16,
            opendnp3.StaticAnalogOutputStatusVariation.Group40Var4,
            opendnp3.EventAnalogOutputStatusVariation.Group42Var8,
        ),
    }


def assign(points, data, index, static, event_class, event):
    """Sets what one point is reported as.

    The binding hands out copies of a point's configuration, so that its attributes cannot be set, and by default events
    carry no time. The array in memory is { vtable, u16 size, pointer }, a point { u16 index, u8 static variation, u8
    class, u8 event variation, … }; the defaults found there are checked before they are overwritten.
    """
    array = ctypes.c_void_p.from_address(id(points) + 16).value
    size = ctypes.c_uint16.from_address(array + 8).value
    start = ctypes.c_void_p.from_address(array + 16).value + index * data
    point = (ctypes.c_uint8 * 5).from_address(start)
    copy = points[index]
    found = [size, point[0], point[2], point[3], point[4]]
    expected = [POINTS, index, int(copy.svariation), 2, int(copy.evariation)]
    assert found == expected, f"this build of the library lays out points in another way: {found}, not {expected}"
    point[2], point[3], point[4] = int(static), 1 << event_class, int(event)


def serve(arguments):
    port = arguments.port or free_port()
    manager = asiodnp3.DNP3Manager(1, asiodnp3.ConsoleLogger().Create())
    retry = asiopal.ChannelRetry().Default()
    listener = asiodnp3.PrintingChannelListener().Create()
    channel = manager.AddTCPServer("server", 0, retry, "127.0.0.1", port, listener)
    commands, application = Commands(), Application()
    outstation = channel.AddOutstation("outstation", commands, application, stack(arguments))
    commands.outstation = outstation
    for kind in ("binary", "double_bit", "counter", "analog", "binary_output", "analog_output"):
        for index in range(POINTS):
            start = {"binary": False, "binary_output": False, "double_bit": opendnp3.DoubleBit.DETERMINED_OFF}
            outstation.Apply(update(kind, index, start.get(kind, 0), 0x01, None))
    outstation.Enable()
    lines.say(listen=f"127.0.0.1:{port}")

    def run(words):
        match words:
            case ["update", kind, index, value, *rest]:
                given = lines.options(rest)
                change = update(kind, int(index), parse(kind, value), given.get("flags", 0x01), given.get("time"))
                outstation.Apply(change)
            case ["refuse", kind, index, status]:
                REFUSALS[kind, int(index)] = getattr(opendnp3.CommandStatus, status.upper())
            case ["stop"]:
                outstation.Disable()
            case ["start"]:
                outstation.SetRestartIIN()
                outstation.Enable()
            case _:
                raise ValueError("update, refuse, stop, start or quit expected")

    for line in lines.lines():
        lines.answer(run, line)
    os._exit(0)  # an orderly shutdown of this library can hang


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--address", type=int, default=10)
    parser.add_argument("--master", type=int, default=1)
    parser.add_argument("--events", type=int, default=1000, help="how many events of each type are kept")
    parser.add_argument("--no-unsolicited", action="store_true")
    parser.add_argument("--no-intervals", action="store_true", help="leave g50v4 out, which tshark 4.0 does not know")
    lines.add_restarts(parser)
    lines.run(serve, parser.parse_args())


main()
