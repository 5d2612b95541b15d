/**
 * The TypeScript client of control: `node control.mjs URL DEVICE POINT` reserves, sets, is refused, reverts and overrides, and says
 * what came of each, a line of JSON each. At its end it leaves a reservation behind.
 */

import { Client, Failed, Refused } from "../../sdk/typescript/dist/src/control.js";

const [url, device, point] = process.argv.slice(2);
const say = (words) => process.stdout.write(`${JSON.stringify(words)}\n`);
const [anna, bert] = ["anna", "bert"].map((requester) => new Client(url, { requester }));

say({ preempted: await anna.reserve("of anna", [device], { seconds: 3600 }) });
say({ failed: await bert.reserve("of bert", [device], { seconds: 60 }).catch((error) => error instanceof Failed && error.info) });
say({ set: await anna.set({ [point]: 1700 }, { confirm: true }) });
say({ other: (await bert.set({ [point]: 1 })).points[0].reason });
say({ dry: (await anna.set({ [point]: 5 }, { dryRun: true })).points[0].raw });
say({ empty: await anna.set({}).catch((error) => error instanceof Refused && error.reason) });
say({ reservations: (await anna.reservations()).map(({ task, requester }) => [requester, task]) });
say({ reverted: (await anna.revert([point], [], { confirm: true })).status });
await anna.cancel("of anna");
say({ overridden: await bert.overrideOn(device, { seconds: 60 }) });
say({ overrides: (await anna.overrides()).map(({ pattern, until }) => [pattern, typeof until]) });
say({ override: (await bert.set({ [point]: 1 })).points[0].reason });
await bert.overrideOff();
const { tag } = await bert.placeTag(device, "hold", "crew 3");
say({ tagged: (await anna.set({ [point]: 1 })).points[0].reason });
say({ tags: (await anna.tags(point)).map(({ id, owner, why }) => [id, owner, why]) });
await bert.liftTag(tag.id);
const { values, errors } = await bert.get([point, "no/such"]);
say({ value: values.get(point).v, errors });

let onEnded;
const ended = new Promise((resolve) => (onEnded = resolve));
await anna.reserve("night", [device], { seconds: 3600, leaseSeconds: 1, onEnded });
// Three times its lease.
for (const began = performance.now(); performance.now() < began + 3000; ) {
  await bert.get([point]);
}
say({ lives: (await bert.reservations()).map(({ task, requester }) => [requester, task]) });
await bert.cancel("night", true);
await bert.get([point]);
// The renewals let the process end.
const alive = setTimeout(() => {}, 10_000);
say({ ended: await ended });
clearTimeout(alive);
await anna.reserve("left", [device], { seconds: 3600, leaseSeconds: 1 });
say({ left: (await bert.reservations()).length });
