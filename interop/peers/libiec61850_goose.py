"""A GOOSE publisher or subscriber of libiec61850 (pyiec61850) on a network interface.

`publisher INTERFACE`: a data set of a boolean, a structure (float, quality, time), numbers, a text, a double-point position.
Commands: `publish [N]` sends it N times, `change VALUE` gives the boolean another value and sends it once with another stNum, `st N`,
`sq N`, `confrev N`, `ttl MS`, `simulation on|off`, `commission on|off`, `float X`, `restart` begins again with stNum 1, `quit`.

`subscriber INTERFACE CONTROL_BLOCK`: says each message, `{"message": …}`.
"""

import sys
import time

import lines
import pyiec61850 as iec

GROUP = (0x01, 0x0C, 0xCD, 0x01, 0x00, 0x05)
REFERENCE = "IED1LD0/LLN0$GO$gcb01"


def switch(word):
    return {"on": True, "off": False}[word]


class Publisher:
    def __init__(self, interface):
        parameters = iec.CommParameters()
        parameters.appId, parameters.vlanId, parameters.vlanPriority = 0x1000, 0, 4
        iec.CommParameters_setDstAddress(parameters, *GROUP)
        self.interface, self.parameters = interface, parameters
        self.conf_rev, self.ttl = 3, 2000
        self.boolean, self.number = iec.MmsValue_newBoolean(False), iec.MmsValue_newFloat(1.5)
        structure = iec.MmsValue_createEmptyStructure(3)
        quality = iec.MmsValue_newBitString(13)
        for at, part in enumerate([self.number, quality, iec.MmsValue_newUtcTimeByMsTime(1763631000250)]):
            iec.MmsValue_setElement(structure, at, part)
        position = iec.MmsValue_newBitString(2)
        iec.MmsValue_setBitStringBit(position, 0, True)
        self.values = iec.LinkedList_create()
        members = [self.boolean, structure, iec.MmsValue_newIntegerFromInt32(-1234)]
        members += [iec.MmsValue_newUnsignedFromUint32(3000000000), iec.MmsValue_newVisibleString("abc"), position]
        for member in members:
            iec.LinkedList_add(self.values, member)
        self.restart()

    def restart(self):
        self.publisher = iec.GoosePublisher_createEx(self.parameters, self.interface, True)
        assert self.publisher is not None, f"no publisher on {self.interface}"
        iec.GoosePublisher_setGoCbRef(self.publisher, REFERENCE)
        iec.GoosePublisher_setDataSetRef(self.publisher, "IED1LD0/LLN0$ds01")
        iec.GoosePublisher_setConfRev(self.publisher, self.conf_rev)
        iec.GoosePublisher_setTimeAllowedToLive(self.publisher, self.ttl)

    def publish(self, count=1):
        for _ in range(count):
            assert iec.GoosePublisher_publish(self.publisher, self.values) == 0

    def run(self, words):
        match words:
            case ["publish", *count]:
                self.publish(*map(int, count))
            case ["change", value]:
                iec.MmsValue_setBoolean(self.boolean, switch(value))
                iec.GoosePublisher_increaseStNum(self.publisher)
                self.publish()
            case ["float", value]:
                iec.MmsValue_setFloat(self.number, float(value))
                iec.GoosePublisher_increaseStNum(self.publisher)
                self.publish()
            case ["st", number]:
                iec.GoosePublisher_setStNum(self.publisher, int(number))
            case ["sq", number]:
                iec.GoosePublisher_setSqNum(self.publisher, int(number))
            case ["confrev", number]:
                self.conf_rev = int(number)
                iec.GoosePublisher_setConfRev(self.publisher, self.conf_rev)
            case ["ttl", number]:
                self.ttl = int(number)
                iec.GoosePublisher_setTimeAllowedToLive(self.publisher, self.ttl)
            case ["simulation", word]:
                iec.GoosePublisher_setSimulation(self.publisher, switch(word))
            case ["commission", word]:
                iec.GoosePublisher_setNeedsCommission(self.publisher, switch(word))
            case ["restart"]:
                # Its time is later by more than the milliseconds in which the library counts.
                time.sleep(0.005)
                iec.GoosePublisher_destroy(self.publisher)
                self.restart()
            case _:
                raise ValueError(f"no command: {words}")


def value(member):
    kind = iec.MmsValue_getTypeString(member)
    match kind:
        case "boolean":
            return iec.MmsValue_getBoolean(member)
        case "structure":
            return [value(iec.MmsValue_getElement(member, at)) for at in range(iec.MmsValue_getArraySize(member))]
        case "integer":
            return iec.MmsValue_toInt32(member)
        case "unsigned":
            return iec.MmsValue_toUint32(member)
        case "float":
            return iec.MmsValue_toFloat(member)
        case "bit-string":
            return [iec.MmsValue_getBitStringBit(member, at) for at in range(iec.MmsValue_getBitStringSize(member))]
        case "utc-time":
            return iec.MmsValue_getUtcTimeInMs(member)
        case "visible-string":
            return iec.MmsValue_toString(member)
    return kind


def subscribe(interface, reference):
    receiver = iec.GooseReceiver_create()
    iec.GooseReceiver_setInterfaceId(receiver, interface)
    subscriber = iec.GooseSubscriber_create(reference, None)
    iec.GooseReceiver_addSubscriber(receiver, subscriber)
    iec.GooseReceiver_startThreadless(receiver)
    lines.say(hello=reference)
    last = None
    while True:
        if not iec.GooseReceiver_tick(receiver):
            time.sleep(0.001)
            continue
        numbers = iec.GooseSubscriber_getStNum(subscriber), iec.GooseSubscriber_getSqNum(subscriber)
        if numbers == last or not iec.GooseSubscriber_isValid(subscriber):
            continue
        last = numbers
        lines.say(
            message={
                "st": numbers[0],
                "sq": numbers[1],
                "ttl": iec.GooseSubscriber_getTimeAllowedToLive(subscriber),
                "conf_rev": iec.GooseSubscriber_getConfRev(subscriber),
                "go_id": iec.GooseSubscriber_getGoId(subscriber),
                "data_set": iec.GooseSubscriber_getDataSet(subscriber),
                "test": iec.GooseSubscriber_isTest(subscriber),
                "values": [
                    value(iec.MmsValue_getElement(iec.GooseSubscriber_getDataSetValues(subscriber), at))
                    for at in range(iec.MmsValue_getArraySize(iec.GooseSubscriber_getDataSetValues(subscriber)))
                ],
            }
        )


def main(role, interface, *rest):
    if role == "subscriber":
        subscribe(interface, *rest)
    publisher = Publisher(interface)
    lines.say(hello=REFERENCE)
    for line in lines.lines():
        lines.answer(publisher.run, line)


main(*sys.argv[1:])
