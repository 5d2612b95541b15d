"""A master of opendnp3 2.x (dnp3-python==0.3.0b1).

    integrity                                  reads classes 0 to 3
    events                                     reads classes 1 to 3
    read GROUP VARIATION                       reads all objects of a kind
    operate TYPE INDEX VALUE [select|direct]   TYPE binary_output (VALUE true or false) or analog_output (a number)

Start: disable unsolicited, integrity, enable unsolicited. Later: `{"reading": {"type", "index", "value", "flags",
"time", "event"}}` for every value, `{"state": …}` for the channel.

When a control is done, well or not, this process aborts: the binding copies a result that cannot be copied. The answer
to `operate` therefore only says that it will be sent, and comes before it is; the device shows the outcome.
"""

import argparse
import os

import lines
from pydnp3 import asiodnp3, asiopal, opendnp3, openpal

TYPES = {
    "Binary": "binary",
    "DoubleBitBinary": "double_bit",
    "Counter": "counter",
    "FrozenCounter": "frozen_counter",
    "Analog": "analog",
    "BinaryOutputStatus": "binary_output",
    "AnalogOutputStatus": "analog_output",
}


def visitor(name, info):
    """A visitor that prints each value of one type."""

    class Visitor(getattr(opendnp3, f"IVisitorIndexed{name}")):
        def OnValue(self, indexed):
            measured = indexed.value
            value = measured.value
            if name == "DoubleBitBinary":
                value = value.name.removeprefix("DETERMINED_").lower()
            reading = {"type": TYPES[name], "index": indexed.index, "value": value, "flags": measured.flags.value}
            lines.say(reading={**reading, "time": measured.time.value, "event": info.isEventVariation})

    return Visitor()


class Readings(opendnp3.ISOEHandler):
    """Prints what arrives."""

    def Start(self):
        pass

    def End(self):
        pass

    def Process(self, info, values):
        name = type(values).__name__.removeprefix("ICollectionIndexed")
        if name in TYPES:
            values.Foreach(visitor(name, info))


class Channel(asiodnp3.IChannelListener):
    """Prints whether the connection stands."""

    def OnStateChange(self, state):
        lines.say(state=state.name.lower())


def control(master, kind, index, value, mode):
    """What sends one control; the process ends when it is done."""
    if kind == "binary_output":
        on = {"true": True, "false": False}[value]
        command = opendnp3.ControlRelayOutputBlock(
            opendnp3.ControlCode.LATCH_ON if on else opendnp3.ControlCode.LATCH_OFF
        )
    else:
        command = opendnp3.AnalogOutputDouble64(float(value))
    send = master.DirectOperate if mode == "direct" else master.SelectAndOperate
    return lambda: send(command, index, asiodnp3.PrintingCommandCallback.Get(), opendnp3.TaskConfig().Default())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="HOST:PORT of the outstation")
    parser.add_argument("--outstation", type=int, default=10)
    parser.add_argument("--master", type=int, default=1)
    arguments = parser.parse_args()
    host, port = arguments.address.rsplit(":", 1)
    config = asiodnp3.MasterStackConfig()
    config.master.responseTimeout = openpal.TimeDuration().Seconds(5)
    config.link.LocalAddr, config.link.RemoteAddr = arguments.master, arguments.outstation
    manager = asiodnp3.DNP3Manager(1, asiodnp3.ConsoleLogger().Create())
    retry = asiopal.ChannelRetry(openpal.TimeDuration().Milliseconds(100), openpal.TimeDuration().Milliseconds(500))
    readings, listener = Readings(), Channel()
    application = asiodnp3.DefaultMasterApplication().Create()
    channel = manager.AddTCPClient("client", 0, retry, host, "0.0.0.0", int(port), listener)
    master = channel.AddMaster("master", readings, application, config)
    master.Enable()
    lines.say(master=arguments.address)

    answered = []

    def run(words):
        match words:
            case ["integrity"]:
                master.ScanClasses(opendnp3.ClassField().AllClasses(), opendnp3.TaskConfig().Default())
            case ["events"]:
                master.ScanClasses(opendnp3.ClassField().AllEventClasses(), opendnp3.TaskConfig().Default())
            case ["read", group, variation]:
                kind = opendnp3.GroupVariationID(int(group), int(variation))
                master.ScanAllObjects(kind, opendnp3.TaskConfig().Default())
            case ["operate", kind, index, value, *mode]:
                answered.append(control(master, kind, int(index), value, *(mode or ["select"])))
            case _:
                raise ValueError("integrity, events, read, operate or quit expected")

    for line in lines.lines():
        lines.answer(run, line)
        while answered:
            answered.pop()()
    os._exit(0)  # an orderly shutdown of this library can hang


main()
