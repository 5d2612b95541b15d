"""A hub of BACnet/SC that only forwards, over TLS 1.3 with certificates of both sides; its messages are those of BACpypes3.

Commands: `nodes` (virtual addresses), `garbage VMAC` (what no hub may send, to a node), `huge VMAC` (a message that is too long),
`kick VMAC` (a Disconnect-Request), `heartbeat VMAC` (is it there?), `refuse ERROR UUID` (once, as in `node-duplicate-vmac`), `plain` (HTTP without a WebSocket for each that connects), `quit`. It says `node`, `gone`, `answered`, and `error` of nodes that
refuse something.
"""

import argparse
import asyncio
import http
import os
import sys
import threading
import uuid

import lines
import websockets
from bacpypes3.basetypes import ErrorClass, ErrorCode
from bacpypes3.pdu import PDU, VirtualAddress
from bacpypes3.sc.bvll import (
    LPCI,
    ConnectAccept,
    ConnectRequest,
    DisconnectACK,
    DisconnectRequest,
    HeartbeatACK,
    HeartbeatRequest,
    Result,
)
from secure_connect import ALL, MESSAGE_MAX, NPDU_MAX, PROTOCOL, arguments_of_tls, context, read, written

GARBAGE = [
    "00", "ffffffff", "0a10000100", "01080001ffffffffffff01", "010200 01c1", "010000 01", "0600000102", "00000001 0602",
    "0108000102000000007701200a0b0c", "0108000102000000007701", "0109000102000000007749 0100", "c80800010200000000770102",
    "0c08000102000000007700ff0102", "020800010200000000 77", "07000001" + "00" * 26, "0108000102000000007701000000ff",
]


class Hub:
    def __init__(self):
        self.nodes, self.refusals, self.plain = {}, {}, False

    async def serve(self, socket):
        node = await self.admit(socket)
        if node is None:
            return
        self.nodes[node] = socket
        lines.say(node=node.hex(":"))
        try:
            async for data in socket:
                await self.take(socket, node, data)
        except websockets.ConnectionClosed:
            pass
        finally:
            if self.nodes.get(node) is socket:
                del self.nodes[node]
            lines.say(gone=node.hex(":"))

    async def admit(self, socket):
        """The virtual address of a node that may come."""
        pdu = PDU(await socket.recv())
        header = LPCI.decode(pdu)
        asked = ConnectRequest.decode(pdu)
        node, number = bytes(asked.vmac_address.addrAddr), header.bvlcMessageID
        refusal = "node-duplicate-vmac" if node in self.nodes else self.refusals.pop(str(asked.device_uuid), None)
        if refusal:
            nak = Result(6, 1, 0, ErrorClass.communication, ErrorCode(refusal), "as it was told")
            await socket.send(written(nak, number))
            return None
        accept = ConnectAccept(VirtualAddress(b"\x02\0\0\0\0\x01"), uuid.uuid4(), MESSAGE_MAX, NPDU_MAX)
        await socket.send(written(accept, number))
        return node

    async def take(self, socket, node, data):
        function, number, _, to, rest = read(data)
        match function:
            case 0x00 if len(rest) >= 7:
                lines.say(error=int.from_bytes(rest[5:7], "big"), to=(to or b"").hex(":"))
            case 0x0A if to is None:
                await socket.send(written(HeartbeatACK(), number))
            case 0x0B if to is None:
                lines.say(answered=node.hex(":"))
            case 0x08 if to is None:
                await socket.send(written(DisconnectACK(), number))
                await socket.close()
            case _ if to == ALL:
                forwarded = bytes([data[0], data[1] | 8]) + data[2:4] + node + data[4:]
                for other in [other for name, other in self.nodes.items() if name != node]:
                    await other.send(forwarded)
            case _ if to in self.nodes:
                await self.nodes[to].send(bytes([data[0], data[1] & ~4 | 8]) + data[2:4] + node + data[10:])

    async def say(self, node, *messages):
        for message in messages:
            await self.nodes[bytes.fromhex(node.replace(":", ""))].send(message)

    async def run(self, words):
        match words:
            case ["nodes"]:
                return {"nodes": sorted(node.hex(":") for node in self.nodes)}
            case ["garbage", node]:
                await self.say(node, *(bytes.fromhex(one) for one in GARBAGE))
            case ["huge", node]:
                await self.say(node, b"\x01\x08\0\1\2\0\0\0\0\x77" + b"\1\0" * 50_000)
            case ["kick", node]:
                await self.say(node, written(DisconnectRequest(), 77))
            case ["heartbeat", node]:
                await self.say(node, written(HeartbeatRequest(), 78))
            case ["refuse", refusal, node]:
                self.refusals[node] = refusal
            case ["plain", yes]:
                self.plain = yes == "yes"
            case _:
                raise ValueError("see the head of the file")
        return None

    def process(self, connection, _request):
        return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, "closed\n") if self.plain else None


async def serve(arguments):
    hub = Hub()
    tls = context(True, arguments.certificate, arguments.key, arguments.authorities)
    listening = websockets.serve(
        hub.serve, "127.0.0.1", arguments.port, ssl=tls, subprotocols=[PROTOCOL], compression=None, process_request=hub.process
    )
    async with listening as server:
        port = server.sockets[0].getsockname()[1]
        lines.say(listen=f"127.0.0.1:{port}")
        loop = asyncio.get_running_loop()

        def commands():
            for line in lines.lines():
                done = asyncio.run_coroutine_threadsafe(hub.run(line.split()), loop)
                lines.answer(lambda _words, done=done: done.result(10), line)
            os._exit(0)

        threading.Thread(target=commands, daemon=True).start()
        await asyncio.Event().wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    arguments_of_tls(parser)
    asyncio.run(serve(parser.parse_args()))


sys.exit(main())
