"""A BACnet/IP device of BACpypes3: objects of all common types, COV, a priority array; `--values N` adds analog values. With
`--hub URI`, which may come twice, it is a node of BACnet/SC.

Commands: `set TYPE,INSTANCE VALUE`, `flags TYPE,INSTANCE [NAME…]` (in-alarm, fault, out-of-service),
`log SECONDS_AGO VALUE` (a record of trend-log,1, which logs analog-input,1; `fault` for a failure), `log-both
SECONDS_AGO VALUE VALUE` (of trend-log-multiple,1, which logs analog-input,1 and analog-input,2), `ranges` (how often
records were asked for), `get TYPE,INSTANCE PROPERTY`, `priorities TYPE,INSTANCE`, `delete TYPE,INSTANCE`, `forget` (all subscriptions),
`revise` (another database revision), `i-am ADDRESS`, `subscriptions`, `silent yes|no`, `quit`. Each write of a client is
said, `{"write": …}`, and each subscription and time; with `--notified` each present value of an analog object, too, whose confirmed
notification was acknowledged: `{"notified": {"object", "value"}}`.
"""

import argparse
import asyncio
import datetime
import os
import sys
import threading

import lines
from bacpypes3.apdu import ConfirmedCOVNotificationRequest, ErrorRejectAbortNack, ReadRangeACK
from bacpypes3.app import Application
from bacpypes3.appservice import ApplicationServiceAccessPoint
from bacpypes3.basetypes import (
    DateTime,
    DeviceObjectPropertyReference,
    EngineeringUnits,
    ErrorType,
    EventState,
    LogData,
    LogDataLogData,
    LoggingType,
    LogMultipleRecord,
    LogRecord,
    LogRecordLogDatum,
    Reliability,
    ResultFlags,
    StatusFlags,
)
from bacpypes3.comm import bind
from bacpypes3.constructeddata import ArrayOf, SequenceOf
from bacpypes3.ipv4.app import NormalApplication
from bacpypes3.local.analog import AnalogInputObject, AnalogOutputObject, AnalogValueObjectCmd
from bacpypes3.local.binary import BinaryInputObject, BinaryOutputObject, BinaryValueObject
from bacpypes3.local.device import DeviceObject
from bacpypes3.local.multistate import MultiStateInputObject, MultiStateOutputObject
from bacpypes3.netservice import NetworkServiceAccessPoint, NetworkServiceElement
from bacpypes3.object import CharacterStringValueObject, IntegerValueObject, TrendLogMultipleObject, TrendLogObject
from bacpypes3.pdu import Address, LocalStation
from bacpypes3.primitivedata import Date, ObjectIdentifier, Real, Time
from bacpypes3.service.cov import ChangeOfValueServices
from ports import free_port


# Records of one answer to ReadRange, which the library does not serve by itself.
RECORDS_OF_ANSWER = 7


def moment(record):
    """When a record is of, as the device says it."""
    date, time = record.timestamp.date, record.timestamp.time
    return datetime.datetime(1900 + date[0], date[1], date[2], time[0], time[1], time[2], 10000 * time[3])


def ago(seconds):
    """A time that has passed, as a record has it."""
    at = datetime.datetime.now() - datetime.timedelta(seconds=float(seconds))
    date, time = Date((at.year - 1900, at.month, at.day, at.isoweekday())), Time((at.hour, at.minute, at.second, at.microsecond // 10_000))
    return DateTime(date=date, time=time)


class Device(NormalApplication, ChangeOfValueServices):
    silent, ranges, says_notified = False, 0, False

    def request(self, apdu):
        answered = super().request(apdu)
        if self.says_notified and isinstance(apdu, ConfirmedCOVNotificationRequest):
            answered.add_done_callback(lambda done: self.say_notified(apdu, done))
        return answered

    @staticmethod
    def say_notified(notification, done):
        if not done.cancelled() and not done.exception() and not isinstance(done.result(), ErrorRejectAbortNack):
            object_type, instance = notification.monitoredObjectIdentifier
            values = [one.value for one in notification.listOfValues if str(one.propertyIdentifier) == "present-value"]
            if str(object_type).startswith("analog") and values:
                lines.say(notified={"object": f"{object_type},{instance}", "value": values[0].cast_out(Real)})

    async def do_ReadRangeRequest(self, apdu):
        self.ranges += 1
        log = self.get_object_id(apdu.objectIdentifier)
        records, kind = log.logBuffer, LogRecord if isinstance(log, TrendLogObject) else LogMultipleRecord
        asked = apdu.range
        if asked.byTime:
            reference = LogRecord(timestamp=asked.byTime.referenceTime)
            first = next((place for place, record in enumerate(records) if moment(record) > moment(reference)), len(records))
            count = asked.byTime.count
        else:
            first, count = asked.bySequenceNumber.referenceSequenceNumber - 1, asked.bySequenceNumber.count
        found = records[first:][: min(count, RECORDS_OF_ANSWER)]
        answer = ReadRangeACK(objectIdentifier=apdu.objectIdentifier, propertyIdentifier=apdu.propertyIdentifier, context=apdu)
        has_last = bool(found) and first + len(found) == len(records)
        answer.resultFlags = ResultFlags([int(bool(found) and first == 0), int(has_last), int(first + len(found) < len(records))])
        answer.itemCount, answer.itemData = len(found), SequenceOf(kind)(found)
        if found:
            answer.firstSequenceNumber = first + 1
        await self.response(answer)

    async def indication(self, apdu):
        if not self.silent:
            await super().indication(apdu)

    async def do_WritePropertyRequest(self, apdu):
        object_type, instance = apdu.objectIdentifier
        lines.say(write={"object": f"{object_type},{instance}", "property": str(apdu.propertyIdentifier), "priority": apdu.priority})
        await super().do_WritePropertyRequest(apdu)

    async def do_SubscribeCOVRequest(self, apdu):
        object_type, instance = apdu.monitoredObjectIdentifier
        lines.say(subscribe={"object": f"{object_type},{instance}", "lifetime": apdu.lifetime})
        await super().do_SubscribeCOVRequest(apdu)

    async def do_UTCTimeSynchronizationRequest(self, apdu):
        lines.say(clock={"utc": True, "time": str(apdu.time.time), "date": str(apdu.time.date)})

    async def do_TimeSynchronizationRequest(self, apdu):
        lines.say(clock={"utc": False, "time": str(apdu.time.time), "date": str(apdu.time.date)})


def objects(values):
    flags = {"eventState": "normal", "reliability": "no-fault-detected", "outOfService": False}
    celsius = {**flags, "units": EngineeringUnits.degreesCelsius, "covIncrement": 0.5}
    of = lambda kind, number: {"objectIdentifier": f"{kind},{number}", "objectName": f"{kind} {number}"}
    states = {**flags, "numberOfStates": 4}
    yield AnalogInputObject(**of("analog-input", 1), presentValue=21.5, **celsius)
    yield AnalogInputObject(**of("analog-input", 2), presentValue=-3.25, **celsius)
    yield AnalogOutputObject(**of("analog-output", 1), presentValue=5.0, relinquishDefault=5.0, **celsius)
    yield BinaryInputObject(**of("binary-input", 1), presentValue="active", polarity="normal", **flags)
    yield BinaryOutputObject(**of("binary-output", 1), presentValue="inactive", relinquishDefault="inactive", polarity="normal", **flags)
    yield BinaryValueObject(**of("binary-value", 1), presentValue="active", **flags)
    yield MultiStateInputObject(**of("multi-state-input", 1), presentValue=3, **states)
    yield MultiStateOutputObject(**of("multi-state-output", 1), presentValue=1, relinquishDefault=1, **states)
    yield IntegerValueObject(**of("integer-value", 1), presentValue=-42, units=EngineeringUnits.noUnits)
    yield CharacterStringValueObject(**of("characterstring-value", 1), presentValue="AHU 1 läuft")
    logged = DeviceObjectPropertyReference(objectIdentifier="analog-input,1", propertyIdentifier="present-value")
    about = {"logDeviceObjectProperty": logged, "logBuffer": [], "recordCount": 0, "totalRecordCount": 0, "bufferSize": 1000}
    about |= {"enable": True, "stopWhenFull": False, "loggingType": LoggingType.polled, "statusFlags": StatusFlags([0, 0, 0, 0])}
    yield TrendLogObject(**of("trend-log", 1), reliability="no-fault-detected", **about)
    other = DeviceObjectPropertyReference(objectIdentifier="analog-input,2", propertyIdentifier="present-value")
    about |= {"logDeviceObjectProperty": ArrayOf(DeviceObjectPropertyReference)([logged, other]), "logBuffer": []}
    yield TrendLogMultipleObject(**of("trend-log-multiple", 1), eventState="normal", logInterval=100, **about)
    for number in range(values):
        yield AnalogValueObjectCmd(**of("analog-value", number), presentValue=number / 2, relinquishDefault=number / 2, **celsius)


def find(device, name):
    found = device.get_object_id(ObjectIdentifier(name))
    if found is None:
        raise ValueError(f"no object {name}")
    return found


async def run(device, words):
    match words:
        case ["set", name, value]:
            found = find(device, name)
            kind = found.get_property_type("presentValue")
            found.presentValue = kind(float(value)) if "analog" in name else kind(int(value) if value.lstrip("-").isdigit() else value)
        case ["flags", name, *set_flags]:
            # The library derives its status flags from these, and has no overridden objects.
            found = find(device, name)
            found.eventState = EventState.highLimit if "in-alarm" in set_flags else EventState.normal
            found.reliability = Reliability.noSensor if "fault" in set_flags else Reliability.noFaultDetected
            found.outOfService = "out-of-service" in set_flags
        case ["log", seconds_ago, value]:
            failure = ErrorType(errorClass="device", errorCode="device-busy")
            datum = LogRecordLogDatum(failure=failure) if value == "fault" else LogRecordLogDatum(realValue=float(value))
            record = LogRecord(timestamp=ago(seconds_ago), logDatum=datum, statusFlags=StatusFlags([0, 0, 0, 0]))
            find(device, "trend-log,1").logBuffer.append(record)
        case ["log-both", seconds_ago, *values]:
            data = LogData(logData=[LogDataLogData(realValue=float(value)) for value in values])
            record = LogMultipleRecord(timestamp=ago(seconds_ago), logData=data)
            find(device, "trend-log-multiple,1").logBuffer.append(record)
        case ["ranges"]:
            return {"count": device.ranges}
        case ["get", name, name_of_property]:
            first, *rest = name_of_property.split("-")
            value = getattr(find(device, name), first + "".join(word.capitalize() for word in rest))
            return {"value": value if isinstance(value, (int, float, str)) else str(value)}
        case ["priorities", name]:
            array = find(device, name).priorityArray
            return {"set": [number for number in range(1, 17) if array[number - 1].null is None]}
        case ["delete", name]:
            device.delete_object(find(device, name))
        case ["forget"]:
            for detection in list(device._cov_detections.values()):
                for subscription in list(detection.cov_subscriptions):
                    subscription.cancel_subscription()
                    detection.cancel_subscription(subscription)
            device._cov_detections.clear()
        case ["subscriptions"]:
            return {"count": sum(len(detection.cov_subscriptions) for detection in device._cov_detections.values())}
        case ["revise"]:
            device.device_object.databaseRevision += 1
        case ["i-am", address]:
            device.i_am(Address(address))
        case ["silent", yes]:
            device.silent = yes == "yes"
        case _:
            raise ValueError("see the head of the file")
    return None


class Bare(Device):
    """The same without a link."""

    def __init__(self, about):
        Application.__init__(self)
        self.asap = ApplicationServiceAccessPoint(about, self.device_info_cache)
        self.nsap, self.nse = NetworkServiceAccessPoint(), NetworkServiceElement()
        bind(self.nse, self.nsap)
        bind(self, self.asap, self.nsap)
        self.add_object(about)


def secure_device(about, arguments):
    """The device as a node of BACnet/SC."""
    from secure_connect import HubLink, context

    device = Bare(about)
    vmac = bytes.fromhex(arguments.vmac) if arguments.vmac else b"\x10" + os.urandom(5)
    tls = context(False, arguments.certificate, arguments.key, arguments.authorities)
    device.normal = HubLink(arguments.hub, tls, vmac)
    device.nsap.bind(device.normal, address=LocalStation(vmac))
    return device


async def serve(arguments):
    port = arguments.port or free_port()
    more = {} if arguments.max_apdu is None else {"maxApduLengthAccepted": arguments.max_apdu}
    about = DeviceObject(objectIdentifier=f"device,{arguments.instance}", objectName="peer", **more)
    device = secure_device(about, arguments) if arguments.hub else Device(about, Address(f"127.0.0.1:{port}"))
    for found in objects(arguments.values):
        device.add_object(found)
    device.says_notified = arguments.notified
    await asyncio.sleep(0.1)  # the library binds its socket by itself, and says nothing
    lines.say(listen=f"127.0.0.1:{port}")
    loop = asyncio.get_running_loop()

    def read():
        for line in lines.lines():
            done = asyncio.run_coroutine_threadsafe(run(device, line.split()), loop)
            lines.answer(lambda _words, done=done: done.result(10), line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    await asyncio.Event().wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--instance", type=int, default=1001)
    parser.add_argument("--values", type=int, default=0)
    parser.add_argument("--max-apdu", type=int)
    parser.add_argument("--notified", action="store_true", help="says which notifications were acknowledged")
    parser.add_argument("--hub", action="append")
    parser.add_argument("--vmac")
    for name in ("certificate", "key", "authorities"):
        parser.add_argument(f"--{name}")
    lines.add_restarts(parser)
    lines.run(lambda arguments: asyncio.run(serve(arguments)), parser.parse_args())


sys.exit(main())
