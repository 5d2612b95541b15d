"""BACnet/SC as BACpypes3 has it: its codec of messages, which this file joins to WebSockets, and a link under an application.

The library has no hub and no node: `sc/service.py` of 0.0.110 only carries bytes. It reads a message with an origin as one with
data options, so that headers are read here; all messages are written by the library.
"""

import asyncio
import ssl
import uuid

import websockets
from bacpypes3.comm import Server
from bacpypes3.pdu import PDU, LocalBroadcast, LocalStation, VirtualAddress
from bacpypes3.sc.bvll import ConnectRequest, EncapsulatedNPDU, HeartbeatACK

PROTOCOL = "hub.bsc.bacnet.org"
ALL = b"\xff" * 6
MESSAGE_MAX, NPDU_MAX = 1600, 1497


def context(server, certificate, key, authorities):
    """TLS 1.3 where both sides show certificates of the same authority."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(authorities)
    made.load_cert_chain(certificate, key)
    return made


def arguments_of_tls(parser):
    for name in ("certificate", "key", "authorities"):
        parser.add_argument(f"--{name}")


def written(message, number, destination=None):
    """The bytes of a message of the library."""
    message.bvlcMessageID = number
    if destination:
        message.bvlcDestinationVirtualAddress = VirtualAddress(destination)
    return bytes(message.encode().pduData)


def read(data):
    """Function, number, origin, destination, and what follows."""
    function, flags, number, rest = data[0], data[1], int.from_bytes(data[2:4], "big"), data[4:]
    addresses = []
    for flag in (8, 4):
        addresses.append(rest[:6] if flags & flag else None)
        rest = rest[6:] if flags & flag else rest
    return function, number, *addresses, rest


class HubLink(Server[PDU]):
    """Under a network layer: a node that is connected to the first hub that takes it."""

    def __init__(self, uris, tls, vmac):
        super().__init__()
        self.uris, self.tls, self.vmac = uris, tls, vmac
        self.uuid, self.socket, self.number = uuid.uuid4(), None, 0
        self.task = asyncio.ensure_future(self.run())

    def next(self):
        self.number = (self.number + 1) % 65536
        return self.number

    async def indication(self, pdu):
        to = ALL if isinstance(pdu.pduDestination, LocalBroadcast) else bytes(pdu.pduDestination.addrAddr)
        if self.socket:
            await self.socket.send(written(EncapsulatedNPDU(bytes(pdu.pduData)), self.next(), to))

    async def run(self):
        while True:
            for uri in self.uris:
                try:
                    async with websockets.connect(uri, ssl=self.tls, subprotocols=[PROTOCOL], compression=None, proxy=None) as socket:
                        await self.serve(socket)
                except (OSError, websockets.WebSocketException):
                    pass
                self.socket = None
            await asyncio.sleep(0.1)

    async def serve(self, socket):
        request = ConnectRequest(VirtualAddress(self.vmac), self.uuid, MESSAGE_MAX, NPDU_MAX)
        await socket.send(written(request, self.next()))
        async for data in socket:
            function, number, origin, destination, rest = read(data)
            match function:
                case 0x07:
                    self.socket = socket
                case 0x01:
                    to = LocalBroadcast() if destination == ALL else LocalStation(self.vmac)
                    await self.response(PDU(rest, source=LocalStation(origin), destination=to))
                case 0x0A:
                    await socket.send(written(HeartbeatACK(), number, origin))
                case 0x08:
                    return
