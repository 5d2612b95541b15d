"""A Modbus server of pymodbus: TCP, TLS, or RTU frames over TCP; several units behind one connection.

Commands: `set UNIT TABLE ADDRESS VALUE…`, `get UNIT TABLE ADDRESS COUNT`, `restart`, `quit`. Tables are coils, discrete-inputs,
holding-registers and input-registers. Each write of a client is said: `{"write": …}`; with `--reads` each read, too, when its
answer has been given to the connection. A restart ends all connections, and all values are 0 then.
"""

import argparse
import asyncio
import os
import ssl
import sys
import threading

import lines
from pymodbus import ModbusDeviceIdentification
from pymodbus.constants import ExcCodes
from pymodbus.framer import FramerType
from pymodbus.server import ModbusTcpServer, ModbusTlsServer
from pymodbus.simulator import DataType, SimData, SimDevice

CODES = {"coils": 1, "discrete-inputs": 2, "holding-registers": 3, "input-registers": 4}
IDENTITY = {"VendorName": "Acme", "ProductCode": "PM-5", "MajorMinorRevision": "1.2"}


def device(unit, addresses, says_reads=False):
    """Four tables of as many addresses, which say what clients write, and perhaps what they read."""

    async def watch(function, start, address, count, registers, values):
        if values is None and says_reads:
            read = {"unit": unit, "address": address, "values": [int(value) for value in registers[address : address + count]]}
            # In a later turn of the loop than the answer.
            asyncio.get_running_loop().call_later(0.005, lambda: lines.say(read=read))
        if values is not None:
            lines.say(write={"unit": unit, "function": function, "address": address, "values": [int(value) for value in values]})

    bits = lambda: [SimData(0, values=[False] * addresses, datatype=DataType.BITS)]
    registers = lambda: [SimData(0, values=[0] * addresses, datatype=DataType.REGISTERS)]
    return SimDevice(unit, simdata=(bits(), bits(), registers(), registers()), action=watch)


def server_of(arguments, devices):
    address, identity = ("127.0.0.1", arguments.port), ModbusDeviceIdentification(info_name=IDENTITY)
    if not arguments.tls:
        return ModbusTcpServer(devices, identity=identity, address=address, framer=FramerType.RTU if arguments.rtu else FramerType.SOCKET)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(f"{arguments.tls}/server.pem", f"{arguments.tls}/server.key")
    tls.load_verify_locations(f"{arguments.tls}/authority.pem")
    tls.verify_mode = ssl.CERT_REQUIRED
    return ModbusTlsServer(devices, address=address, sslctx=tls)


async def run(server, words):
    match words:
        case ["restart"]:
            await server.restart()
        case ["set", unit, table, address, *values]:
            values = [bool(int(value)) if CODES[table] < 3 else int(value, 0) for value in values]
            refused = await server.running.context.async_setValues(int(unit), CODES[table], int(address), values)
            if isinstance(refused, ExcCodes):
                raise ValueError(f"exception {refused}")
        case ["get", unit, table, address, count]:
            values = await server.running.context.async_getValues(int(unit), CODES[table], int(address), int(count))
            return {"values": [int(value) for value in values]}
        case _:
            raise ValueError("set, get or quit expected")


class Restarting:
    """A server that can be started again at its address."""

    def __init__(self, arguments):
        self.arguments = arguments

    async def start(self):
        units = [device(unit, self.arguments.addresses, self.arguments.reads) for unit in self.arguments.units]
        self.running = server_of(self.arguments, units)
        await self.running.serve_forever(background=True)
        host, self.arguments.port = self.running.transport.sockets[0].getsockname()[:2]
        return f"{host}:{self.arguments.port}"

    async def restart(self):
        await self.running.shutdown()
        await self.start()


async def serve(arguments):
    server = Restarting(arguments)
    lines.say(listen=await server.start())
    loop = asyncio.get_running_loop()

    def read():
        for line in lines.lines():
            done = asyncio.run_coroutine_threadsafe(run(server, line.split()), loop)
            lines.answer(lambda _words: done.result(10), line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    await asyncio.Event().wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--units", type=int, nargs="+", default=[1])
    parser.add_argument("--addresses", type=int, default=1000, help="of each table")
    parser.add_argument("--rtu", action="store_true")
    parser.add_argument("--reads", action="store_true", help="says what is read")
    parser.add_argument("--tls", help="a folder with server.pem, server.key and authority.pem")
    asyncio.run(serve(parser.parse_args()))


sys.exit(main())
