/** MQTT.js against a server that grants deltas and says what the vectors say. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { test } from "node:test";
import { connect } from "mqtt";
import mqtt from "mqtt-packet";
import { type Event } from "../src/delta.js";
import { Deltas } from "../src/mqtt.js";

const SENT = readFileSync(new URL("../../../../vectors/delta/sent.txt", import.meta.url), "utf8");
const SAID = SENT.split("\n").filter((line) => line.startsWith("<")).map((line) => Buffer.from(line.slice(1).replaceAll(" ", ""), "hex"));

test("values are rebuilt, and what was lost is asked for", { timeout: 20_000 }, async () => {
  const asked = deferred();
  let offer: unknown;
  const server = createServer((socket) => {
    const parser = mqtt.parser({ protocolVersion: 5 });
    const say = (packet: mqtt.Packet) => socket.write(mqtt.generate(packet, { protocolVersion: 5 }));
    socket.on("data", (bytes: Buffer) => parser.parse(bytes));
    socket.on("error", () => undefined);
    parser.on("packet", (packet: mqtt.Packet) => {
      if (packet.cmd === "connect") say({ cmd: "connack", reasonCode: 0, sessionPresent: false });
      if (packet.cmd === "subscribe") {
        offer = packet.properties?.userProperties?.["tieline-delta"];
        const properties = { userProperties: { "tieline-delta": "point" } };
        // The answer and what follows come in one piece, as servers send last values.
        socket.cork();
        say({ cmd: "suback", messageId: packet.messageId ?? 0, granted: [0], properties });
        for (const [at, payload] of [0, 1, 2, 5].map((which, at) => [at, SAID[which] ?? ""] as const)) {
          const topic = at === 0 ? "a/x" : "";
          const marked = at === 0 ? { userProperties: { "tieline-delta": "1" } } : {};
          say({ cmd: "publish", topic, payload, qos: 0, dup: false, retain: false, properties: { topicAlias: 17, ...marked } });
        }
        socket.uncork();
      }
      if (packet.cmd === "publish") asked.resolve(`${packet.topic} ${packet.payload}`);
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  const client = connect(`mqtt://127.0.0.1:${port}`, {
    protocolVersion: 5,
    properties: { topicAliasMaximum: 20 },
    resubscribe: false,
    reconnectPeriod: 0,
  });
  const events: Event[] = [];
  const deltas = new Deltas(client as never, (event) => events.push(event));
  deltas.subscribe("a/#");
  assert.equal(await asked.promise, "$tieline/resync a/x");
  assert.equal(offer, deltas.receiver.offer);
  const told = events.map((event) => {
    if (event.kind === "lost") return event.why;
    return event.value instanceof Uint8Array ? "bytes" : [event.topic, event.value.value];
  });
  const why = "a delta from revision 9 while revision 7 is held";
  assert.deepEqual(told, [["a/x", 49.89], ["a/x", 49.99], ["a/x", 50.04], why]);
  await client.endAsync(true);
  server.close();
});

function deferred() {
  let resolve: (value: unknown) => void = () => undefined;
  const promise = new Promise((settle) => (resolve = settle));
  return { promise, resolve };
}
