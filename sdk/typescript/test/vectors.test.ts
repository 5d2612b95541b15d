/** The shared vectors: `== name` starts a receiver of values up to 4,096 bytes, `<` is a payload, `>` what comes of it. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Broken, Codecs, Decoder, hunk, hunkOf, matches, type Point, Receiver, Sender } from "../src/delta.js";

const VECTORS = new URL("../../../../vectors/delta/", import.meta.url);
const lines = (name: string) => readFileSync(new URL(name, VECTORS), "utf8").split("\n");
const bytes = (hex: string) => Uint8Array.from(Buffer.from(hex.replaceAll(" ", ""), "hex"));

/** What comes of a payload, in the words of the vectors. */
function words(decoder: Decoder, payload: Uint8Array): unknown {
  try {
    const value = decoder.apply(payload);
    if (typeof value === "string") return value;
    return value instanceof Uint8Array ? Buffer.from(value).toString() : shown(value);
  } catch (error) {
    assert.ok(error instanceof Broken, String(error));
    return "lost";
  }
}

function shown({ value, quality, reasons, micros }: Point): unknown {
  const v = value instanceof Uint8Array ? { hex: Buffer.from(value).toString("hex") } : value;
  return { v, quality, reasons, micros };
}

function expected(text: string): unknown {
  if (text.startsWith("bytes ")) return JSON.parse(text.slice(6));
  if (!text.startsWith("point ")) return text;
  // Integers beyond 2^53 are bigint: their digits are taken before JSON rounds them.
  const long = /"v":(-?\d{17,}),/.exec(text)?.[1];
  const point = JSON.parse(text.slice(6));
  const numbers: Record<string, number> = { inf: Infinity, "-inf": -Infinity };
  const micros = BigInt(Date.parse(`${point.t.slice(0, 19)}Z`)) * 1000n + BigInt(point.t.slice(20, -1).padEnd(6, "0"));
  const v = long === undefined ? (numbers[point.v] ?? point.v) : BigInt(long);
  return { v, quality: point.q, reasons: point.why ?? [], micros };
}

for (const name of ["sent.txt", "hand.txt", "published.txt"]) {
  test(name, () => {
    let decoder = new Decoder(new Codecs());
    let told: unknown;
    let checked = 0;
    for (const [at, line] of lines(name).entries()) {
      if (line.startsWith("==")) decoder = new Decoder(new Codecs(), 4096);
      if (line.startsWith("<")) told = words(decoder, bytes(line.slice(1)));
      if (line.startsWith(">")) {
        assert.deepEqual(told, expected(line.slice(2)), `${name} line ${at + 1}`);
        checked += 1;
      }
    }
    assert.ok(checked >= 80);
  });
}

test("any bytes are survived", () => {
  let draw = 4;
  const random = (below: number) => {
    draw = (Math.imul(draw, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((draw / 2 ** 32) * below);
  };
  const said = lines("sent.txt").filter((line) => line.startsWith("<")).map((line) => bytes(line.slice(1)));
  const decoder = new Decoder(new Codecs(), 1000);
  for (let turn = 0; turn < 20_000; turn++) {
    const payload = (said[random(said.length)] ?? new Uint8Array()).slice();
    for (let times = random(3); times > 0; times--) payload[random(payload.length)] = random(256);
    const value = words(decoder, payload);
    assert.ok(value === "lost" ? decoder.isWaiting : true);
  }
});

test("a sender says what that of the node would", () => {
  for (const part of lines("published.txt").join("\n").split("== ").slice(1)) {
    const after = (mark: string) => part.split("\n").filter((line) => line.startsWith(mark)).map((line) => line.slice(mark.length));
    const values = after("> bytes ").map((text) => JSON.parse(text) as string);
    const payloads = after("< ");
    const sender = new Sender<undefined>();
    assert.ok(sender.handleConnack("point,hunk"));
    const decoder = new Decoder(new Codecs());
    for (const [at, value] of values.entries()) {
      const saying = sender.say("a/x", Buffer.from(value), undefined);
      assert.ok(saying.marked);
      const hex = Buffer.from(saying.payload).toString("hex").toUpperCase();
      assert.equal(hex, payloads[at]?.replaceAll(" ", ""), value);
      assert.equal(words(decoder, saying.payload), value);
    }
    assert.ok(sender.stats.deltas > values.length / 4, JSON.stringify(sender.stats));
  }
});

test("hunks lead to any value", () => {
  let draw = 11;
  const random = (below: number) => {
    draw = (Math.imul(draw, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((draw / 2 ** 32) * below);
  };
  const noise = (below: number) => Buffer.from(Array.from({ length: random(below) }, () => random(256)));
  let found = 0;
  for (let turn = 0; turn < 3000; turn++) {
    const fields = Array.from({ length: random(20) }, () => `{"id":${random(99_999)},"on":true}`);
    const base = turn % 2 ? Buffer.from(fields.join(",")) : noise(300);
    let value = base;
    for (let times = random(6); times > 0; times--) {
      const at = random(value.length + 1);
      value = Buffer.concat([value.subarray(0, at), noise(40), value.subarray(at + random(40))]);
    }
    const bytesMax = random(2) ? Math.floor(value.length / 2) : value.length * 4 + 16;
    const delta = hunkOf(base, value, bytesMax);
    if (!delta) continue;
    assert.ok(delta.length <= bytesMax);
    assert.deepEqual(Buffer.from(hunk(base, Uint8Array.from(delta), value.length)), value);
    found += 1;
  }
  assert.ok(found > 1500);
});

test("what a sender is refused goes whole, and what it holds is bounded", () => {
  const sender = new Sender<string>({ topicsMax: 3, bytesMax: 2000 });
  const value = (number: number) => Buffer.from(`a value of more than a few bytes, ${number}`);
  assert.equal(sender.say("a", value(0), "how").marked, false);
  sender.handleConnack("hunk");
  const kinds = [0, 1, 2].map((number) => sender.say("a", value(number), "how"));
  assert.deepEqual(kinds.map(({ isDelta }) => isDelta), [false, true, true]);
  // The second was refused, but a newer value has gone out; then the last.
  assert.equal(sender.handleRefused("a", kinds[1]?.number), undefined);
  assert.deepEqual(sender.handleRefused("a", kinds[2]?.number), { value: new Uint8Array(value(2)), how: "how" });
  assert.equal(sender.say("a", value(2), "how").isDelta, false);
  assert.equal(sender.say("a", value(3), "how").isDelta, true);
  sender.handleDisconnect();
  assert.equal(sender.say("a", value(4), "how").marked, false);
  sender.handleConnack("hunk");
  assert.deepEqual([sender.say("a", value(5), "how").isDelta, sender.say("$a", value(5), "how").marked], [false, false]);
  for (let number = 0; number < 50; number++) sender.say(`t/${number}`, value(number), "how");
  assert.equal(sender.handleRefused("t/0"), undefined);
  assert.equal(sender.handleRefused("t/49")?.how, "how");
});

test("filters", () => {
  const check = (filter: string, topic: string, expect: boolean) =>
    assert.equal(matches(filter, topic), expect, `${filter} ${topic}`);
  check("#", "a/b", true);
  check("#", "$SYS/a", false);
  check("+/b", "$SYS/b", false);
  check("$SYS/#", "$SYS", true);
  check("a/+", "a", false);
  check("a/+", "a/", true);
  check("a/+/c", "a/b/c", true);
  check("a/+", "a/b/c", false);
  check("a/#", "a", true);
});

test("codecs have their numbers", () => {
  const codecs = new Codecs();
  const own = (base: Uint8Array) => base;
  assert.throws(() => codecs.register(3, "own", own), RangeError);
  assert.throws(() => codecs.register(16, "own", own), RangeError);
  assert.throws(() => codecs.register(8, "hunk", own), RangeError);
  codecs.register(8, "own", own);
  codecs.forget("hunk");
  assert.deepEqual(new Receiver(codecs).offer, "point,own");
});

test("a receiver decodes only what is marked and asks once", () => {
  const said = lines("sent.txt").filter((line) => line.startsWith("<")).map((line) => bytes(line.slice(1)));
  const one = (at: number) => said[at] ?? assert.fail();
  const receiver = new Receiver();
  assert.deepEqual(receiver.handleSuback("a/#", "point"), ["point"]);
  assert.deepEqual(receiver.handleSuback("b/#", undefined), []);
  const plain = Buffer.from("as it is");
  assert.deepEqual(receiver.handlePublish("b/c", plain), [{ kind: "value", topic: "b/c", value: plain }]);
  assert.equal(receiver.handlePublish("a/x", one(0), 3, true)[0]?.kind, "value");
  assert.equal(receiver.handlePublish("", one(1), 3)[0]?.topic, "a/x");
  const why = "a delta from revision 7 while revision 6 is held";
  assert.deepEqual(receiver.handlePublish("", one(3), 3), [{ kind: "lost", topic: "a/x", why }]);
  assert.deepEqual(receiver.handlePublish("", one(4), 3), []);
  assert.deepEqual([receiver.pollResync(), receiver.pollResync()], ["a/x", undefined]);
  assert.equal(receiver.handlePublish("a/x", one(0), undefined, true)[0]?.kind, "value");
  // A message of an overlapping subscription changes nothing. Some libraries say the name where there was an alias alone.
  assert.deepEqual(receiver.handlePublish("a/x", plain, 1), [{ kind: "value", topic: "a/x", value: plain }]);
  assert.deepEqual(receiver.handlePublish("", plain, 1), [{ kind: "value", topic: "a/x", value: plain }]);
  assert.equal(receiver.handlePublish("a/x", one(1), 3)[0]?.kind, "value");
  assert.deepEqual(receiver.stats, { values: 5, deltas: 2, lost: 1, waiting: 1, forgotten: 0 });
  receiver.handleUnsuback("a/#");
  assert.deepEqual(receiver.handlePublish("a/x", plain)[0], { kind: "value", topic: "a/x", value: plain });
});
