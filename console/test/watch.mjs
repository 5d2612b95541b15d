// Looks at the console of a node as people would, in all views at once, and prints all that it says, as JSON: one line each
// second, until standard input ends. TIELINE_URL=http://… node test/watch.mjs [FILTER …]
// Each filter has a page of the tree of topics; devices, sessions and status have one each. README.md, Attributes.

import { Runner } from './browser.mjs';

const EVERY_MS = 1_000;
const TALL = { viewport: { width: 1440, height: 2400 } };
const BASE = process.env.TIELINE_URL.replace(/\/$/, '');

const run = new Runner();
await run.start();

async function open(view, filter) {
  // A node that is away makes the browser itself complain.
  const page = await run.page(`${BASE}/#/${view}`, TALL, /Failed to load resource|net::ERR/);
  await page.waitForSelector('.app[data-link]');
  if (filter !== undefined) await page.fill('#filter', filter);
  return { view, filter, page };
}

const pages = [];
for (const filter of process.argv.slice(2)) pages.push(await open('topics', filter));
for (const view of ['devices', 'sessions', 'status']) pages.push(await open(view));

/** Runs in the page. */
function read() {
  const all = (selector) => [...document.querySelectorAll(selector)].map((element) => ({ ...element.dataset }));
  return {
    at: Date.now() / 1000,
    root: { ...document.querySelector('.app').dataset },
    topics: all('[role=treeitem][data-topic]'),
    groups: all('[role=treeitem][data-group]'),
    devices: all('[role=option][data-device]'),
    sessions: all('[role=option][data-client]'),
    waiting: all('.waiting'),
  };
}

let over = false;
process.stdin.on('end', () => (over = true)).resume();
while (!over) {
  const next = Date.now() + EVERY_MS;
  for (const { view, filter, page } of pages) {
    process.stdout.write(`${JSON.stringify({ view, filter, ...(await page.evaluate(read)) })}\n`);
  }
  await new Promise((done) => setTimeout(done, Math.max(0, next - Date.now())));
}
await run.browser.close();
for (const error of run.errors) process.stdout.write(`${JSON.stringify({ error })}\n`);
process.exit(0);
