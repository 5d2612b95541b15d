/**
 * The TypeScript client with MQTT.js: `node deltas.mjs URL FILTER…` says what it is told, a line of JSON each.
 * Standard input: `publish TOPIC QOS VALUE` publishes a value, retained, and says what came of it; `unsaid TOPIC VALUE` leaves a value of
 * the topic unsent; `sender` asks for the publisher's counters; `drop N` keeps the next N payloads from the receiver, `break` ends the connection, `stats` asks for counters.
 */

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { Receiver } from "../../sdk/typescript/dist/src/delta.js";
import { connectProperties, Deltas } from "../../sdk/typescript/dist/src/mqtt.js";

const { connect } = createRequire(new URL("../../sdk/typescript/package.json", import.meta.url))("mqtt");

const say = (words) => process.stdout.write(`${JSON.stringify(words, (_, word) => (typeof word === "bigint" ? `${word}` : word))}\n`);

class Leaky extends Receiver {
  drops = 0;

  handlePublish(topic, payload, ...how) {
    if (this.drops === 0) return super.handlePublish(topic, payload, ...how);
    this.drops -= 1;
    say({ dropped: payload[0] >> 5 });
    return [];
  }
}

const [url, ...filters] = process.argv.slice(2);
const client = connect(url, { protocolVersion: 5, properties: connectProperties(), resubscribe: false, reconnectPeriod: 50 });
const receiver = new Leaky();
const deltas = new Deltas(
  client,
  (event) => {
    if (event.kind === "lost") return say({ lost: event.topic, why: event.why });
    if (event.value instanceof Uint8Array) return say({ topic: event.topic, bytes: Buffer.from(event.value).toString("base64") });
    const { value, reasons, micros, quality } = event.value;
    say({ topic: event.topic, value, reasons, micros, quality });
  },
  receiver,
);
client.on("packetreceive", (packet) => {
  // Deltas hears of the answer first: it is on its way to the caller of `subscribe`.
  if (packet.cmd === "suback") setImmediate(() => say({ granted: packet.properties?.userProperties?.["tieline-delta"] ?? null }));
});
client.on("error", (error) => say({ error: `${error}` }));
for (const filter of filters) deltas.subscribe(filter);

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const [word, count] = line.split(" ");
    if (word === "drop") receiver.drops = Number(count);
    if (word === "break") client.stream.destroy();
    if (word === "stats") say({ stats: receiver.stats });
    if (word === "drop") say({ drops: receiver.drops });
    if (word === "publish") {
      const [, topic, qos, value] = /^publish (\S+) (\d) (.*)$/.exec(line);
      const how = { qos: Number(qos), retain: true };
      deltas.publish(topic, Buffer.from(value), how, (error) => say({ published: value, error: error ? `${error}` : null }));
    }
    // As if a library had lost it.
    if (word === "unsaid") {
      const value = Buffer.from(line.slice(`unsaid ${count} `.length));
      say({ unsaid: deltas.sender.say(count, value, { qos: 1, retain: true }).isDelta });
    }
    if (word === "sender") say({ sender: deltas.sender.stats });
  })
  .on("close", () => process.exit(0));
