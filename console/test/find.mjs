// Search over everything, and the sequence of events, in a real browser against a node with the demonstration substation:
// TIELINE_URL=http://… node test/find.mjs

import { assert, DESKTOP, PHONE, reader, Runner, until } from './browser.mjs';
import { accessible } from './checks.mjs';

const BASE = process.env.TIELINE_URL.replace(/\/$/, '');
const BREAKER = 'demo/feeder1/relay/breaker';
const EVENTS = 12;

const run = new Runner();
await run.start();
const get = reader(BASE);
const operate = async (value) => {
  const body = JSON.stringify({ topic: BREAKER, value, mode: 'select', timeout_ms: 5_000 });
  const response = await fetch(`${BASE}/v1/command`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  assert(response.ok, `the command failed: ${await response.text()}`);
};

await until('devices are online', async () => (await get('/v1/devices')).devices.every(({ state }) => state === 'online'), 60_000);
const page = await run.page(`${BASE}/`);
await page.locator('[role=treeitem]').first().waitFor();
const find = async (words) => {
  await page.keyboard.press('Control+k');
  await page.locator('#find').waitFor();
  await page.keyboard.type(words);
};
const first = page.locator('#found li').first();

await run.test('a topic, a device and a view are found and opened by the keyboard alone', async () => {
  await find('feeder1 relay breaker');
  await until('the topic comes first', async () => (await first.textContent())?.includes(BREAKER));
  assert((await first.getAttribute('data-kind')) === 'topic', await first.textContent());
  await run.shot(page, 'find');
  await page.keyboard.press('Enter');
  await until('the point', async () => (await page.locator('#point-title').textContent().catch(() => '')) === BREAKER);
  await find('feeder2 relay');
  await until('the device comes first', async () => (await first.getAttribute('data-kind')) === 'device');
  await page.keyboard.press('Enter');
  await until('the device', () => page.url().includes('#/devices?device=demo/feeder2/relay'));
  await find('trends');
  await until('the view comes first', async () => (await first.getAttribute('data-kind')) === 'view');
  await page.keyboard.press('Enter');
  await page.locator('#trend').waitFor();
});

await run.test('Shift and Enter open the trend of a topic, and Escape closes without a change', async () => {
  await find('transformer load');
  await until('found', async () => (await first.textContent())?.includes('transformer/load'));
  await page.keyboard.press('Shift+Enter');
  await page.locator('tr[data-trend="demo/substation/transformer/load"]').waitFor();
  const before = page.url();
  await find('breaker');
  await page.keyboard.press('ArrowDown');
  await until('the second is chosen', async () => (await page.locator('#find').getAttribute('aria-activedescendant')) === 'found-1');
  await page.keyboard.press('Escape');
  await page.locator('#find').waitFor({ state: 'detached' });
  assert(page.url() === before, page.url());
  await find('no such thing');
  await page.locator('text=Nothing has these words').waitFor();
  await page.keyboard.press('Escape');
});

await run.test('events are those that the node has recorded, newest first, with milliseconds of the device', async () => {
  const before = (await get(`/v1/topics/${BREAKER}`)).value.v;
  for (let i = 0; i < EVENTS; i++) await operate(before === (i % 2 === 1));
  for (const key of ['g', 'e']) await page.keyboard.press(key);
  await page.locator('#events').waitFor();
  await page.fill('#filter', '+/feeder1/relay/breaker');
  const rows = page.locator('[data-event]');
  const recorded = async () => {
    const found = await get(`/v1/history?topic=${BREAKER}&from=1h&order=time`);
    return found.filter((row, i) => i === 0 || JSON.stringify([row.v, row.q, row.why]) !== JSON.stringify([found[i - 1].v, found[i - 1].q, found[i - 1].why]));
  };
  const want = await until('all commands are recorded', async () => {
    const found = await recorded();
    return found.length > EVENTS && found;
  });
  await until('as many events', async () => Number(await page.locator('[data-events]').getAttribute('data-events')) === want.length);
  const shown = await rows.evaluateAll((all) => all.map(({ dataset }) => [dataset.time, dataset.value, dataset.quality]));
  const expected = want.slice().reverse().map((row) => [new Date(row.t).toISOString(), JSON.stringify(row.v), row.q]);
  for (const [i, row] of shown.entries()) assert(row.join() === expected[i].join(), `event ${i} is ${row}, and ${expected[i]} is recorded`);
  assert(/\d\d:\d\d:\d\d\.\d{3}/.test(await rows.first().textContent()), 'the milliseconds are not shown');
  assert(/synchronized/.test(await rows.first().textContent()), 'the state of the clock is not shown');
  assert(/open|closed/.test(await rows.first().textContent()), 'the words of the states are not shown');
});

await run.test('a new event appears by itself, and opens its point', async () => {
  const count = async () => Number(await page.locator('[data-events]').getAttribute('data-events'));
  const before = await count();
  await operate(!(await get(`/v1/topics/${BREAKER}`)).value.v);
  await until('another event', async () => (await count()) > before);
  await operate(!(await get(`/v1/topics/${BREAKER}`)).value.v);
  await page.locator('#events').focus();
  for (const key of ['Home', 'Enter']) await page.keyboard.press(key);
  await until('its point', async () => (await page.locator('#point-title').textContent().catch(() => '')) === BREAKER);
});

for (const colorScheme of ['light', 'dark']) {
  await run.test(`no serious accessibility fault in ${colorScheme}`, async () => {
    const other = await run.page(`${BASE}/#/events?from=now-1h&to=now`, { ...DESKTOP, colorScheme });
    await other.locator('[data-event]').first().waitFor();
    await accessible(other, 'events');
    await run.shot(other, `${colorScheme}-events`);
    await other.keyboard.press('Control+k');
    await other.keyboard.type('feeder');
    await other.locator('#found li[data-kind=topic]').first().waitFor();
    await accessible(other, 'search');
    await run.shot(other, `${colorScheme}-find`);
    await other.context().close();
  });
}

await run.test('a phone shows events in one column', async () => {
  const phone = await run.page(`${BASE}/#/events?from=now-1h&to=now`, PHONE);
  await phone.locator('[data-event]').first().waitFor();
  assert((await phone.evaluate(() => innerWidth)) === PHONE.viewport.width, 'the page is wider than the screen');
  await run.shot(phone, 'phone-events');
  await phone.context().close();
});

await page.context().close();
process.exit(await run.finish());
