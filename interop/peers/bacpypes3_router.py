"""A BACnet router and broadcast management device of BACpypes3, with devices of one analog value behind it.

The network behind it has the number 100; its devices have the addresses 1, 2, …, and the instances 2001, 2002, ….

Commands: `set MAC VALUE`, `get MAC`, `i-am MAC`, `foreign` (who is registered), `quit`.
"""

import argparse
import asyncio
import os
import socket
import sys
import threading

import lines
from bacpypes3.app import Application
from bacpypes3.appservice import ApplicationServiceAccessPoint
from bacpypes3.basetypes import EngineeringUnits
from bacpypes3.comm import bind
from bacpypes3.ipv4.link import BBMDLinkLayer
from bacpypes3.local.analog import AnalogOutputObject
from bacpypes3.local.device import DeviceObject
from bacpypes3.netservice import NetworkServiceAccessPoint, NetworkServiceElement
from bacpypes3.pdu import Address, GlobalBroadcast, IPv4Address
from bacpypes3.primitivedata import ObjectIdentifier
from bacpypes3.vlan import VirtualNetwork
from bacpypes3.vlan.link import VirtualLinkLayer

NETWORK = 100
ROUTER_MAC = 99


def application(instance, links):
    """A device on links, each with its address and the number of its network, if it knows it."""
    about = DeviceObject(objectIdentifier=f"device,{instance}", objectName=f"device {instance}")
    device = Application()
    device.asap = ApplicationServiceAccessPoint(about, device.device_info_cache)
    device.nsap, device.nse = NetworkServiceAccessPoint(), NetworkServiceElement()
    bind(device.nse, device.nsap)
    bind(device, device.asap, device.nsap)
    for link, address, network in links:
        device.nsap.bind(link, address=address, **({"net": network} if network else {}))
    device.add_object(about)
    return device


def output(number):
    about = {"objectIdentifier": "analog-output,1", "objectName": f"output {number}", "units": EngineeringUnits.percent}
    return AnalogOutputObject(**about, presentValue=number * 1.5, relinquishDefault=number * 1.5, covIncrement=0.1)


async def run(devices, link, words):
    match words:
        case ["set", mac, value]:
            devices[int(mac)].get_object_id(ObjectIdentifier("analog-output,1")).presentValue = float(value)
        case ["get", mac]:
            return {"value": float(devices[int(mac)].get_object_id(ObjectIdentifier("analog-output,1")).presentValue)}
        case ["i-am", mac]:
            devices[int(mac)].i_am(GlobalBroadcast())
        case ["foreign"]:
            return {"count": len(link.bbmdFDT)}
        case _:
            raise ValueError("see the head of the file")
    return None


async def serve(arguments):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = IPv4Address(f"127.0.0.1/8:{port}")
    VirtualNetwork("field")
    link = BBMDLinkLayer(address)
    inner = Address(str(ROUTER_MAC))
    router = application(2000, [(link, address, 10), (VirtualLinkLayer(inner, "field"), inner, NETWORK)])
    devices = {0: router}
    for mac in range(1, arguments.devices + 1):
        own = Address(str(mac))
        devices[mac] = application(2000 + mac, [(VirtualLinkLayer(own, "field"), own, None)])
        devices[mac].add_object(output(mac))
    await asyncio.sleep(0.1)  # the library binds its socket by itself, and says nothing
    lines.say(listen=f"127.0.0.1:{port}")
    loop = asyncio.get_running_loop()

    def read():
        for line in lines.lines():
            done = asyncio.run_coroutine_threadsafe(run(devices, link, line.split()), loop)
            lines.answer(lambda _words, done=done: done.result(10), line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    await asyncio.Event().wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=3)
    asyncio.run(serve(parser.parse_args()))


sys.exit(main())
