/**
 * MQTT.js in Chromium: `node browser.mjs PAGE WEBSOCKET FILTER…` opens a page that subscribes to each filter twice, with deltas and
 * without, and prints a line of JSON for each value that either was told. Ends when standard input does.
 */

import { createRequire } from "node:module";

const { chromium } = createRequire(new URL("../../console/package.json", import.meta.url))("playwright-core");

const [page, socket, ...filters] = process.argv.slice(2);
const say = (words) => process.stdout.write(`${JSON.stringify(words)}\n`);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
const tab = await browser.newPage();
tab.on("pageerror", (error) => say({ error: String(error) }));
await tab.exposeFunction("say", say);
await tab.goto(page);
await tab.evaluate(([to, wanted]) => window.follow(to, wanted), [socket, filters]);
process.stdin.on("end", async () => {
  await browser.close();
  process.exit(0);
});
process.stdin.resume();
