"""An outstation of dnp3py (0.6.0), which reports when asked; its TCP runner sends nothing unsolicited.

The same commands and events as `opendnp3_outstation.py`. Ten points of each type; events of all inputs are class 1, 2
or 3 by index modulo 3. Analogs are 32-bit integers on the wire; of the events only those of counters carry a time.
"""

import argparse
import asyncio
import os
import sys
import threading

import lines
from dnp3.core.enums import CommandStatus, ControlCode
from dnp3.core.flags import AnalogQuality, BinaryQuality, CounterQuality
from dnp3.core.timestamp import DNP3Timestamp
from dnp3.database import AnalogInputConfig, BinaryInputConfig, CounterConfig, Database
from dnp3.database.point import AnalogOutputConfig, BinaryOutputConfig, EventClass
from dnp3.outstation import CommandResult, DefaultCommandHandler, Outstation, OutstationConfig, OutstationTcpRunner

POINTS = 10
REFUSALS = {}
CODES = {
    ControlCode.NUL: "nul",
    ControlCode.PULSE_ON: "pulse_on",
    ControlCode.PULSE_OFF: "pulse_off",
    ControlCode.LATCH_ON: "latch_on",
    ControlCode.LATCH_OFF: "latch_off",
    ControlCode.CLOSE_PULSE_ON: "close_pulse_on",
    ControlCode.TRIP_PULSE_ON: "trip_pulse_on",
}


class Commands(DefaultCommandHandler):
    """Says what arrives, refuses what it was told to refuse, and follows what it accepts with its status point."""

    def __init__(self, database):
        self.database = database

    def judge(self, step, kind, index, value):
        status = CommandStatus.NOT_SUPPORTED if index >= POINTS else REFUSALS.get((kind, index), CommandStatus.SUCCESS)
        lines.say(command={"step": step, "type": kind, "index": index, "value": value, "status": status.name.lower()})
        if status == CommandStatus.SUCCESS and step != "select" and kind == "binary_output":
            self.database.update_binary_output(index, value in ("latch_on", "pulse_on", "close_pulse_on"))
        return CommandResult(status)

    def select_binary_output(self, index, code, count, on_time, off_time):
        return self.judge("select", "binary_output", index, CODES.get(code, int(code)))

    def operate_binary_output(self, index, code, count, on_time, off_time, select_sequence):
        return self.judge("operate", "binary_output", index, CODES.get(code, int(code)))

    def direct_operate_binary_output(self, index, code, count, on_time, off_time):
        return self.judge("direct", "binary_output", index, CODES.get(code, int(code)))

    def select_analog_output(self, index, value):
        return self.judge("select", "analog_output", index, value)

    def operate_analog_output(self, index, value, select_sequence):
        return self.judge("operate", "analog_output", index, value)

    def direct_operate_analog_output(self, index, value):
        return self.judge("direct", "analog_output", index, value)


def database():
    points = Database()
    for index in range(POINTS):
        event = [EventClass.CLASS_1, EventClass.CLASS_2, EventClass.CLASS_3][index % 3]
        points.add_binary_input(index, BinaryInputConfig(event_class=event))
        points.add_analog_input(index, AnalogInputConfig(event_class=event))
        points.add_counter(index, CounterConfig(event_class=event))
        points.add_binary_output(index, BinaryOutputConfig(event_class=EventClass.NONE))
        points.add_analog_output(index, AnalogOutputConfig())
        for initial in ("binary", "analog", "counter"):
            change(points, initial, index, "false" if initial == "binary" else "0", {})
        points.update_binary_output(index, False)
        points.update_analog_output(index, 0)
    return points


def change(points, kind, index, value, given):
    """Applies one `update` command."""
    qualities = {"binary": BinaryQuality, "analog": AnalogQuality, "counter": CounterQuality}
    quality = qualities.get(kind.removesuffix("_output"), BinaryQuality)(given.get("flags", 0x01))
    time = DNP3Timestamp(given["time"]) if "time" in given else None
    truth = {"true": True, "false": False}
    match kind:
        case "binary":
            points.update_binary_input(index, truth[value], quality, time)
        case "binary_output":
            points.update_binary_output(index, truth[value], quality, time)
        case "analog":
            points.update_analog_input(index, float(value), quality, time)
        case "analog_output":
            points.update_analog_output(index, float(value), quality, time)
        case "counter":
            points.update_counter(index, int(value), quality, time)
        case _:
            raise ValueError(f"no points of type {kind}")


async def serve(arguments):
    points = database()
    config = OutstationConfig(address=arguments.address, master_address=arguments.master)
    outstation = Outstation(database=points, config=config, handler=Commands(points))
    runner = OutstationTcpRunner(outstation=outstation, host="127.0.0.1", port=arguments.port)
    running = asyncio.create_task(runner.run())
    while not runner.is_running:
        await asyncio.sleep(0.01)
    lines.say(listen="{}:{}".format(*runner.local_address[:2]))
    loop = asyncio.get_running_loop()

    def run(words):
        match words:
            case ["update", kind, index, value, *rest]:
                change(points, kind, int(index), value, lines.options(rest))
            case ["refuse", kind, index, status]:
                REFUSALS[kind, int(index)] = CommandStatus[status.upper()]
            case _:
                raise ValueError("update, refuse or quit expected")

    def read():
        for line in lines.lines():
            loop.call_soon_threadsafe(lines.answer, run, line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    await running


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--address", type=int, default=10)
    parser.add_argument("--master", type=int, default=1)
    asyncio.run(serve(parser.parse_args()))


sys.exit(main())
