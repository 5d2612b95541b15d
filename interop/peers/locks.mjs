// Locks of the TypeScript client: `locks.mjs MQTT` checks what a session does with locks and ends with "ok"; `locks.mjs MQTT kept HTTP`
// keeps a lock and says, line by line, what becomes of it.

import assert from "node:assert/strict";
import mqtt from "../../sdk/typescript/node_modules/mqtt/build/index.js";
import { connect } from "../../sdk/typescript/dist/src/client.js";
import { Denied, Refused, Unreachable } from "../../sdk/typescript/dist/src/errors.js";
import { Locks } from "../../sdk/typescript/dist/src/locks.js";

const [address, verb, argument] = process.argv.slice(2);

async function program(clientId, options = {}) {
  const client = mqtt.connect(`mqtt://${address}`, {
    protocolVersion: 5,
    clientId,
    clean: false,
    reconnectPeriod: 50,
    resubscribe: false,
    properties: { sessionExpiryInterval: 60 },
    ...options,
  });
  const locks = new Locks(client, options.reply ? { reply: options.reply } : {});
  return { client, locks };
}

async function until(holds) {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 10));
}

async function taken() {
  const [one, two] = [await program("one"), await program("two")];
  const number = await one.locks.hold("plant/writer", { wait: "30s" }, async (lock) => {
    await lock.publish("plant/mode", "auto", { retain: true });
    assert.equal(lock.isHeld, true);
    await assert.rejects(two.locks.take("plant/writer", { wait: "0s" }), (error) => error instanceof Refused && error.reason === "held");
    await assert.rejects(one.locks.take("plant/writer"), /already/);
    return lock.number;
  });
  const first = await one.locks.take("plant/writer");
  const waiting = two.locks.take("plant/writer", { wait: "30s" });
  await first.release();
  const second = await waiting;
  assert.ok(second.number > first.number && first.number > number && !first.isHeld);
  await assert.rejects(first.publish("plant/mode", "late", { retain: true }), (error) => error instanceof Refused);
  await second[Symbol.asyncDispose]();
  await second.release();
  await assert.rejects(one.locks.take("plant/+"), (error) => error instanceof Refused && error.reason === "malformed");
  for (const { client } of [one, two]) await client.endAsync();
  await assert.rejects(new Locks(one.client, { timeoutSeconds: 0.1 }).take("plant/writer"), Unreachable);
}

async function kept() {
  const { client, locks } = await program("one");
  const node = connect(argument);
  const say = (told) => console.log(JSON.stringify(told));
  const onLost = ({ name }) => say({ lost: name });
  const [stays] = [await locks.take("stays", { onLost }), await locks.take("goes", { onLost })];
  say({ held: ["stays", "goes"] });
  await until(() => !stays.isHeld);
  say({ away: true });
  await until(() => stays.isHeld);
  await stays.publish("plant/mode", "auto", { retain: true });
  say({ held: [stays.name], mode: (await node.get("plant/mode")).value });
  await client.endAsync();
}

if (verb === "kept") {
  await kept();
} else if (verb === "denied") {
  const { client, locks } = await program("anna-1", { username: "anna", password: "password-anna", reply: "site/anna/reply" });
  await assert.rejects(locks.take("plant/writer"), Denied);
  await client.endAsync();
  console.log("ok");
} else {
  await taken();
  console.log("ok");
}
