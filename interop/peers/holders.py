"""Many programs in one process, each with an MQTT session of its own, that reserve a device and command a point of it.

`holders.py ADDRESS TOPIC POINT VALUE COUNT`: program N reserves the device at `TOPIC` with `{}` replaced by N, and sets its
`POINT`. Each says `{"held": N}` when a reading has confirmed it, or `{"failed": N, "why": …}`; then all wait to be killed.
"""

import asyncio
import itertools
import json
import sys

import lines

CONNECT, CONNACK, PUBLISH, SUBSCRIBE, SUBACK = 0x10, 0x20, 0x30, 0x82, 0x90
RESPONSE_TOPIC = 8


def text(words):
    return len(words.encode()).to_bytes(2, "big") + words.encode()


def packet(kind, body):
    length, rest = b"", len(body)
    while True:
        rest, byte = divmod(rest, 128)
        length += bytes([byte | (0x80 if rest else 0)])
        if not rest:
            return bytes([kind]) + length + body


async def read(stream):
    kind = (await stream.readexactly(1))[0]
    length = 0
    for shift in itertools.count(0, 7):
        byte = (await stream.readexactly(1))[0]
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return kind, await stream.readexactly(length)


class Program:
    def __init__(self, streams, name):
        self.read, self.write = streams
        self.reply = f"reply/{name}"

    @classmethod
    async def connect(cls, address, name):
        host, port = address.rsplit(":", 1)
        program = cls(await asyncio.open_connection(host, int(port)), name)
        await program.call(CONNECT, b"\0\4MQTT\5\2" + (600).to_bytes(2, "big") + b"\0" + text(name), CONNACK)
        await program.call(SUBSCRIBE, b"\0\1\0" + text(program.reply) + b"\0", SUBACK)
        return program

    async def call(self, kind, body, answer):
        self.write.write(packet(kind, body))
        while True:
            kind, body = await read(self.read)
            if kind & 0xF0 == answer:
                return body

    async def ask(self, topic, request):
        response = bytes([RESPONSE_TOPIC]) + text(self.reply)
        body = text(topic) + bytes([len(response)]) + response + json.dumps(request).encode()
        answer = await self.call(PUBLISH, body, PUBLISH)
        return json.loads(answer[answer.index(b"{") :])


async def hold(address, number, device, point, value):
    program = await Program.connect(address, f"holder-{number}")
    slots = [{"device": device, "for": "1h"}]
    answer = await program.ask("$control/reserve", {"task": f"task {number}", "priority": "LOW", "slots": slots})
    if answer.get("result") == "SUCCESS":
        points = [{"topic": f"{device}/{point}", "value": value}]
        answer = await program.ask("$control/set", {"points": points, "confirm": True})
        if answer.get("confirmed") == 1:
            lines.say(held=number)
            return program
    lines.say(failed=number, why=answer)
    return program


async def main(address, topic, point, value, count):
    lines.say(programs=count)
    programs = await asyncio.gather(*(hold(address, number, topic.format(number), point, value) for number in range(count)))
    await asyncio.Event().wait()
    del programs


if __name__ == "__main__":
    address, topic, point, value, count = sys.argv[1:]
    asyncio.run(main(address, topic, point, int(value), int(count)))
