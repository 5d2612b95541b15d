// The worst of many devices, from the start page with two keys: TIELINE_URL=http://… WORST=topic TOTAL=n node test/worst.mjs

import { assert, Runner, until } from './browser.mjs';

const BASE = process.env.TIELINE_URL.replace(/\/$/, '');
const { WORST } = process.env;
const TOTAL = Number(process.env.TOTAL);
const ANSWER_BYTES_MAX = 30_000;
const SENT_BYTES_MAX = 100_000;

const run = new Runner();
await run.start();
const page = await run.page('about:blank');
const sizes = new Map();
const files = new Map();
const network = await page.context().newCDPSession(page);
await network.send('Network.enable');
const urls = new Map();
network.on('Network.responseReceived', ({ requestId, response }) => urls.set(requestId, response.url));
network.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
  const url = urls.get(requestId) ?? '';
  if (url.includes('/v1/devices?')) sizes.set(url, encodedDataLength);
  else if (!url.includes('/v1/')) files.set(url, encodedDataLength);
});
await page.goto(`${BASE}/`);
const list = page.locator('[aria-label="Devices"][data-total]');

await run.test('the start page asks for the worst devices only, in a short answer', async () => {
  await page.locator('.overview li', { hasText: WORST }).waitFor();
  const [url, bytes] = await until('the answer', () => [...sizes][0]);
  assert(new URL(url).searchParams.get('order') === 'worst', url);
  assert(bytes <= ANSWER_BYTES_MAX, `${url}: ${bytes} bytes`);
  console.log(`        ${bytes} bytes`);
});

await run.test('a node without rules of alarms shows none', async () => {
  assert((await page.locator('#alarm-banner, nav a[href="#/alarms"]').count()) === 0, 'there is a banner or a view of alarms');
});

await run.test('two keys show the worst device first, and then all', async () => {
  const began = Date.now();
  for (const key of ['g', 'd']) await page.keyboard.press(key);
  await until('the worst', async () => (await page.locator('#devices [role=option]').first().getAttribute('data-device').catch(() => null)) === WORST);
  console.log(`        shown after ${Date.now() - began} ms`);
  await until('all devices', async () => Number(await list.getAttribute('data-listed')) === TOTAL && Number(await list.getAttribute('data-total')) === TOTAL);
  assert((await page.locator('#devices [role=option]').first().getAttribute('data-device')) === WORST, 'another device is first');
  assert((await page.locator('#devices [role=option]').count()) < 100, 'rows that are not in view are in the page');
  await page.locator('#devices').focus();
  for (const key of ['Home', 'Enter']) await page.keyboard.press(key);
  await until('its panel', () => page.url().includes(`device=${WORST}`));
  await run.shot(page, 'worst');
});

await run.test('the files of the console are sent compressed', async () => {
  const sum = [...files.values()].reduce((all, bytes) => all + bytes, 0);
  assert(files.size >= 3 && sum <= SENT_BYTES_MAX, `${files.size} files, ${sum} bytes`);
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
  console.log(`        ${files.size} files of ${sum} bytes, first paint after ${Math.round(paint)} ms`);
});

await page.context().close();
process.exit(await run.finish());
