// The TypeScript client against a node: each call, with its answers checked here. `client.mjs URL` ends with "ok";
// `client.mjs URL follow FILTER` prints what a subscription says, line by line.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { connect, Denied, Refused, Unknown, Unreachable } from "../../sdk/typescript/dist/src/client.js";

const [url, verb, argument] = process.argv.slice(2);
const node = connect(url);

async function all(items) {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}

async function values() {
  const first = await node.put("plan/limit", 70, { ifAbsent: true });
  await assert.rejects(node.put("plan/limit", 71, { ifAbsent: true }), (error) => error instanceof Refused && error.status === 412);
  const second = await node.put("plan/limit", { high: 80 }, { ifVersion: first });
  const found = await node.get("plan/limit");
  assert.deepEqual([found.value, found.kind, found.version, found.quality], [{ high: 80 }, "json", second, null]);
  await node.put("plan/ü raw?1%", new Uint8Array([255, 0]));
  assert.deepEqual((await node.get("plan/ü raw?1%")).value, new Uint8Array([255, 0]));
  await node.publish("plan/note", "words", { retain: true });
  assert.deepEqual((await all(node.topics("plan/#"))).map(({ topic }) => topic), ["plan/limit", "plan/note", "plan/ü raw?1%"]);
  await assert.rejects(node.delete("plan/limit", { ifVersion: first }), Refused);
  await node.delete("plan/limit", { ifVersion: second });
  assert.equal(await node.get("plan/limit"), undefined);
  const point = await node.get("test/room/valve");
  assert.deepEqual([point.value, point.quality, point.reasons, point.kind], [5, "good", [], "point"]);
  assert.ok(Math.abs(point.time.getTime() - Date.now()) < 60_000 && point.micros < 1000);
}

async function known() {
  assert.equal((await node.status()).name, "test");
  assert.equal((await node.health()).status, "ok");
  assert.equal((await node.me()).may.topics, true);
  assert.deepEqual(await node.sessions(), []);
  const [device] = await node.devices();
  assert.equal((await node.device(device.topic)).state, "online");
  assert.deepEqual((await all(node.points("+/+/valve"))).map(({ topic, writable }) => [topic, writable]), [["test/room/valve", true]]);
  await assert.rejects(node.device("no/such"), (error) => error instanceof Refused && error.status === 404);
}

async function commands() {
  const done = await node.command("test/room/valve", 40);
  assert.deepEqual([done.value, done.expected], [40, 40]);
  const refusals = [["test/room/valve", 500, "out_of_range"], ["test/room/level", 1, "not_writable"], ["no/such", 1, "unknown_topic"]];
  for (const [topic, value, reason] of refusals) {
    await assert.rejects(node.command(topic, value), (error) => error instanceof Refused && error.reason === reason);
  }
  const phases = (await all(node.audit("test/room/valve"))).map(({ phase }) => phase);
  assert.deepEqual(phases, ["refused", "succeeded", "sent", "requested"]);
  const free = createServer().listen(0, "127.0.0.1");
  await once(free, "listening");
  const { port } = free.address();
  free.close();
  await once(free, "close");
  await assert.rejects(connect(`127.0.0.1:${port}`).command("test/room/valve", 1), Unreachable);
}

async function history() {
  for (let number = 0; number < 20; number++) await node.publish("plant/power", { v: number, q: "good" }, { retain: true });
  const stream = node.historyStream("plant/power", { start: "1h" });
  for (let number = 0; number < 20; number++) assert.equal((await stream.next()).value.value, number);
  await node.publish("plant/power", { v: 20, q: "good" }, { retain: true });
  assert.equal((await stream.next()).value.value, 20);
  await stream.return();
  const rows = await node.history("plant/power", { last: "1h" });
  assert.deepEqual(rows.map(({ value, quality }) => [value, quality]), Array.from({ length: 21 }, (_, number) => [number, "good"]));
  const start = new Date(Date.now() - 3_600_000);
  const [bucket] = await node.history(["plant/power", "no/such"], { start, every: "1d", agg: "max" });
  assert.deepEqual([bucket.value, bucket.count], [20, 21]);
  const csv = await (await fetch(node.csvUrl("plant/power", { last: "1h" }))).text();
  assert.equal(csv.trim().split("\n").length, 22);
}

async function subscriptions() {
  await new Promise((resolve, reject) => {
    const end = node.on("test/room/level", (value) => {
      end();
      value.value === 1 ? resolve() : reject(value);
    }, reject);
  });
  await assert.rejects(all(connect(url).subscribe("a//#/b")), Refused);
  const closed = connect(url);
  const pending = all(closed.subscribe("none/#"));
  closed.close();
  await assert.rejects(pending, /closed/);
}

if (verb === "follow") {
  const say = (told) => console.log(JSON.stringify(told));
  for await (const value of node.subscribe(argument, { onState: (state) => say({ state }) })) {
    say({ topic: value.topic, value: value.value, kind: value.kind });
  }
} else if (verb === "denied") {
  await assert.rejects(node.get("site/a"), (error) => error instanceof Denied && error.status === 401);
  const anna = connect(url, { user: "anna", password: "password-anna" });
  await anna.put("site/anna/a", 1);
  await assert.rejects(anna.put("site/bert/a", 1), (error) => error instanceof Denied && error.status === 403);
  console.log("ok");
} else if (verb === "unknown") {
  await assert.rejects(node.command(argument, true, { mode: "direct", timeoutSeconds: 60 }), Unknown);
  console.log("ok");
} else {
  for (const part of [values, known, commands, history, subscriptions]) await part();
  console.log("ok");
}
