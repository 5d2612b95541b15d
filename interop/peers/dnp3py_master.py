"""A master of dnp3py (0.6.0).

The same commands and events as `opendnp3_master.py`; between commands it listens for unsolicited responses, whose
readings carry `"unsolicited": true`. `operate` answers with the `"status"` by name, in both modes. Two commands more:

    unsolicited on|off                      enables or disables all classes
    read GROUP VARIATION [START STOP]       answers with the `"objects"` as the library takes the response apart: group,
                                            variation, and the bytes behind the header in hex
"""

import argparse
import asyncio
import os
import threading

import lines
from dnp3.application.builder import build_all_objects_request, build_range_request
from dnp3.application.parser import parse_response
from dnp3.core.enums import CommandStatus, FunctionCode
from dnp3.master import DefaultSOEHandler, Master, MasterConfig, MasterTcpRunner

IIN = {0x0080: "restart", 0x0010: "need_time", 0x0020: "local", 0x0200: "object_unknown", 0x0400: "parameter_error"}


class Readings(DefaultSOEHandler):
    """Prints what arrives."""

    def say(self, kind, values, info):
        for value in values:
            state = value.state.name.lower() if kind == "double_bit" else value.value
            time = None if value.timestamp is None else round(value.timestamp.timestamp() * 1000)
            reading = {"type": kind, "index": value.index, "value": state, "flags": int(value.quality), "time": time}
            lines.say(reading={**reading, "unsolicited": info.is_unsolicited})

    def on_binary_input(self, values, info):
        self.say("binary", values, info)

    def on_binary_output(self, values, info):
        self.say("binary_output", values, info)

    def on_analog_input(self, values, info):
        self.say("analog", values, info)

    def on_analog_output(self, values, info):
        self.say("analog_output", values, info)

    def on_counter(self, values, info):
        self.say("counter", values, info)

    def on_frozen_counter(self, values, info):
        self.say("frozen_counter", values, info)

    def on_double_bit_input(self, values, info):
        self.say("double_bit", values, info)


class Listening(Master):
    """Keeps the last solicited response, whose control status the library does not hand out."""

    last = None

    def process_response(self, data):
        info = super().process_response(data)
        if info is not None and not info.is_unsolicited:
            self.last = parse_response(data)
        return info


def status(response):
    """The control status, the last byte of the echoed object, by name."""
    raw = b"".join(block.data for block in response.objects if block.header.group in (12, 41))
    return CommandStatus(raw[-1] & 0x7F).name.lower() if raw else None


def indications(fragments):
    bits = 0
    for fragment in fragments:
        bits |= int(fragment.iin)
    return {"iin": [name for bit, name in IIN.items() if bits & bit]}


class Session:
    """Runs the commands, one at a time, and listens between them."""

    sequence = 7

    def __init__(self, arguments):
        host, port = arguments.address.rsplit(":", 1)
        config = MasterConfig(address=arguments.master, outstation_address=arguments.outstation)
        self.master = Listening(handler=Readings(), config=config)
        self.runner = MasterTcpRunner(master=self.master, host=host, port=int(port), response_timeout=5.0)

    async def run(self, words):
        match words:
            case ["integrity"]:
                return indications(await self.runner.integrity_poll())
            case ["events"]:
                return indications(await self.runner.class_poll())
            case ["unsolicited", "on"]:
                return indications(await self.runner.enable_unsolicited())
            case ["unsolicited", "off"]:
                return indications(await self.runner.disable_unsolicited())
            case ["read", group, variation, *span]:
                return await self.read(int(group), int(variation), *map(int, span))
            case ["operate", kind, index, value, *mode]:
                return await self.operate(kind, int(index), value, *(mode or ["select"]))
            case _:
                raise ValueError("integrity, events, unsolicited, read, operate or quit expected")

    async def read(self, group, variation, *span):
        build = build_range_request if span else build_all_objects_request
        self.sequence = (self.sequence + 1) % 16
        await self.runner.request(build(FunctionCode.READ, group, variation, *span, seq=self.sequence))
        blocks = self.master.last.objects
        return {"objects": [[one.header.group, one.header.variation, one.data.hex()] for one in blocks]}

    async def operate(self, kind, index, value, mode):
        def builder():
            build = self.master.command_builder()
            if kind == "analog_output":
                return build.add_analog(index, float(value))
            return build.latch_on(index) if value == "true" else build.latch_off(index)

        if mode == "direct":
            await self.runner.request(self.master.build_direct_operate(builder().build_direct_operate()))
            return {"status": status(self.master.last)}
        await self.runner.request(self.master.build_select(builder().build_select()))
        selected = status(self.master.last)
        if selected == "success":
            await self.runner.request(self.master.build_operate(builder().build_operate()))
        return {"status": status(self.master.last), "select": selected}


async def serve(arguments):
    session = Session(arguments)
    await session.runner.open()
    lines.say(master=arguments.address)
    loop, commands = asyncio.get_running_loop(), asyncio.Queue()

    def read():
        for line in lines.lines():
            loop.call_soon_threadsafe(commands.put_nowait, line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = commands.get_nowait()
        except asyncio.QueueEmpty:
            await session.runner.listen_unsolicited(timeout=0.05)
            continue
        try:
            lines.say(answer="ok", **await session.run(line.split()))
        except Exception as problem:  # a peer outlives a bad command
            lines.say(answer="error", why=f"{type(problem).__name__}: {problem}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="HOST:PORT of the outstation")
    parser.add_argument("--outstation", type=int, default=10)
    parser.add_argument("--master", type=int, default=1)
    asyncio.run(serve(parser.parse_args()))


main()
