// Alarms in a real browser, against a node with the rules of interop/test_console.py: TIELINE_URL=http://… MQTT=host:port node test/alarms.mjs

import { assert, DESKTOP, PHONE, reader, Runner, until } from './browser.mjs';
import { accessible } from './checks.mjs';
import { Field } from './field.mjs';

const BASE = process.env.TIELINE_URL.replace(/\/$/, '');
const BROKEN = 'test/zbroken|away';
const FLOOD = Array.from({ length: 10_000 }, (_, i) => `flood/block${Math.floor(i / 100)}/p${i}`);

const run = new Runner();
await run.start();
const get = reader(BASE);
const field = await Field.open(process.env.MQTT);
const set = (topic, v) => field.publish([topic], v);
const alarms = async (query = '') => (await get(`/v1/alarms?limit=10000${query}`)).alarms;
const alarm = async (key) => (await alarms()).find(({ topic, kind }) => `${topic}|${kind}` === key);

const consequences = () => alarms(`&cause=${encodeURIComponent(BROKEN)}`);
await until('the device is away, and its points are bad', async () => (await alarm(BROKEN)) && (await consequences()).length > 1, 60_000);
const page = await run.page(`${BASE}/`);
const banner = page.locator('#alarm-banner');
await banner.waitFor();
const row = (key) => page.locator(`[data-alarm="${key}"]`);
const state = (key, of = row) => of(key).getAttribute('data-state', { timeout: 500 }).catch(() => null);
const inBanner = (priority, what) => banner.locator(`[data-priority=${priority}]`).getAttribute(`data-${what}`, { timeout: 500 }).catch(() => null);
const press = async (...keys) => {
  for (const key of keys) await page.keyboard.press(key);
};
/** The key of the row that the keyboard is on. */
const current = async () => (await page.locator('#alarms').getAttribute('aria-activedescendant'))?.replace(/^alarm-/, '');
const chosen = (key) => until(`the keyboard is on ${key}`, async () => (await current()) === key);

await run.test('the banner is on every view, with the counts of the node and the worst alarm', async () => {
  await set('plant/a/temperature', 95);
  await until('the worst', async () => (await banner.getAttribute('data-worst')) === 'plant/a/temperature|high');
  await until('it is said to screen readers', async () => /plant\/a\/temperature too hot/.test(await page.locator('#alarm-said').textContent()));
  const { unacknowledged, active } = await get('/v1/alarms/counts');
  for (const priority of ['critical', 'high']) {
    await until(`${priority} unacknowledged`, async () => Number(await inBanner(priority, 'unacknowledged')) === unacknowledged[priority]);
    await until(`${priority} active`, async () => Number(await inBanner(priority, 'active')) === active[priority]);
  }
  for (const key of ['t', 'd', 'h', 'e', 's']) {
    await press('g', key);
    assert(await banner.isVisible(), `g ${key} has no banner`);
  }
  assert((await page.locator('#alarm-banner .blink').first().evaluate((mark) => getComputedStyle(mark).animationName)) !== 'none', 'what is unacknowledged does not blink');
});

await run.test('an alarm is acknowledged by the keyboard alone', async () => {
  await press('a');
  await row('plant/a/temperature|high').waitFor();
  await press('Home');
  await chosen('plant/a/temperature|high');
  await run.shot(page, 'alarms');
  await press(' ', 'Shift+A');
  await until('acknowledged', async () => (await state('plant/a/temperature|high')) === 'acknowledged');
  assert((await alarm('plant/a/temperature|high')).acked, 'the node does not say so');
  await until('the banner', async () => (await inBanner('critical', 'unacknowledged')) === '0');
  await until('the result', async () => /✓ acknowledged/.test(await page.locator('[data-result]').textContent()));
});

await run.test('consequences are below their cause, and open and close with the keyboard', async () => {
  await press('.');
  await chosen(BROKEN);
  const below = (await consequences()).length;
  await until('as many', async () => Number(await row(BROKEN).getAttribute('data-below')) === below);
  assert((await page.locator('[data-level="1"]').count()) === 0, 'consequences are shown without a wish');
  await press('ArrowRight');
  await page.locator('[data-level="1"]').first().waitFor();
  await press('ArrowLeft');
  await until('closed', async () => (await page.locator('[data-level="1"]').count()) === 0);
});

await run.test('an alarm is shelved with a reason, by the keyboard, and is in the list of those', async () => {
  await set('plant/a/pressure', 1);
  const key = 'plant/a/pressure|low';
  await row(key).waitFor();
  await press('Home');
  await until('the keyboard is on it', async () => (await press('ArrowDown'), (await current()) === key));
  await press('s');
  await until('the form', () => page.evaluate(() => document.activeElement?.getAttribute('name') === 'why'));
  await page.keyboard.type('gauge is being replaced');
  await press('Enter');
  await until('shelved', async () => (await alarm(key)).state === 'shelved');
  await row(key).waitFor({ state: 'detached' });
  const { shelved } = await alarm(key);
  assert(shelved.why === 'gauge is being replaced', JSON.stringify(shelved));
  await page.getByRole('button', { name: 'Suppressed' }).click();
  await row(key).waitFor();
  await run.shot(page, 'alarms-suppressed');
  await page.getByRole('button', { name: 'Active', exact: true }).click();
  await press('a');
});

await run.test('an occurrence that is over is not acknowledged: the refusal is shown for the alarm', async () => {
  const key = 'plant/b/temperature|high';
  await set('plant/b/temperature', 95);
  await row(key).waitFor();
  await press('Home', ' ');
  const before = Number(await row(key).getAttribute('data-seq'));
  assert((await row(key).getAttribute('aria-selected')) === 'true', 'it is not selected');
  await set('plant/b/temperature', 20);
  await until('returned', async () => (await state(key)) === 'returned');
  await set('plant/b/temperature', 96);
  await until('a newer occurrence', async () => Number(await row(key).getAttribute('data-seq')) > before);
  await press('Shift+A');
  await page.locator(`[data-refused="${key}"][data-reason=old_occurrence]`).first().waitFor();
  assert(!(await alarm(key)).acked, 'the newer occurrence was acknowledged unseen');
  await run.shot(page, 'alarms-refused');
  await press('Escape');
});

await run.test('the panel of an alarm has its advice, its journal and a note', async () => {
  const key = 'plant/b/temperature|high';
  await until('the keyboard is on it', async () => (await press('Home'), (await current()) === key));
  await press('Enter');
  const panel = page.locator(`[data-shown="${key}"]`);
  await panel.waitFor();
  for (const words of ['start the second fan', 'cooling', '10 min', '90']) await panel.getByText(words, { exact: false }).first().waitFor();
  await until('its journal', async () => (await panel.locator('[data-change=raised]').count()) === 2);
  await panel.getByRole('button', { name: 'Note…' }).click();
  await page.keyboard.type('fan ordered');
  await press('Enter');
  await until('noted', async () => /noted/.test(await panel.locator('[data-result]').textContent()));
  await panel.locator('[data-change=noted]', { hasText: 'fan ordered' }).waitFor();
  await run.shot(page, 'alarm');
  await panel.getByRole('link', { name: 'Topic' }).click();
  await until('its topic', async () => (await page.locator('#point-title').textContent().catch(() => '')) === 'plant/b/temperature');
  await page.goBack();
  await panel.getByRole('link', { name: 'Trend' }).click();
  await page.locator('tr[data-trend="plant/b/temperature"]').waitFor();
});

await run.test('filters are in the address', async () => {
  const shown = () => page.locator('[data-alarm]').evaluateAll((all) => all.map(({ dataset }) => dataset.alarm).join(' '));
  for (const [query, wanted] of [['priority=critical&q=b/', 'plant/b/temperature|high'], ['state=acknowledged', 'plant/a/temperature|high'], ['group=field&priority=high', BROKEN]]) {
    await page.goto(`${BASE}/#/alarms?${query}`);
    await until(query, async () => (await shown()) === wanted);
  }
  await page.getByLabel('group').selectOption('plant');
  await until('the address', () => page.url().includes('group=plant'));
  await until('another group', async () => !(await shown()).includes('zbroken'));
});

await run.test('the search finds an alarm', async () => {
  await press('Control+k');
  await page.locator('#find').waitFor();
  await page.keyboard.type('zbroken away');
  const first = page.locator('#found li[data-kind=alarm]').first();
  await until('found', async () => (await first.textContent({ timeout: 500 }).catch(() => ''))?.includes(BROKEN));
  await first.click();
  await page.locator(`[data-shown="${BROKEN}"]`).waitFor();
});

await run.test('the journal has what the node has recorded, and its CSV', async () => {
  await page.goto(`${BASE}/#/alarms?tab=journal`);
  await page.locator('[data-change]').first().waitFor();
  const { rows } = await get('/v1/alarms/journal?from=24h&limit=10000');
  const want = rows.reverse().slice(0, 15).map(({ id }) => `change-${id}`);
  await until('the same rows', async () => {
    const shown = await page.locator('[data-change]').evaluateAll((all) => all.map(({ id }) => id));
    return want.every((id) => shown.includes(id));
  });
  const csv = await fetch(`${BASE}${await page.locator('#journal-csv').getAttribute('href')}`);
  assert(csv.ok && csv.headers.get('content-type').startsWith('text/csv'), `HTTP ${csv.status}`);
  assert((await csv.text()).includes('plant/a/temperature'), 'the CSV lacks an alarm');
  await page.fill('#filter', 'shelved');
  await until('only those', async () => (await page.locator('[data-change]').evaluateAll((all) => all.map(({ dataset }) => dataset.change))).every((change) => change === 'shelved'));
});

await run.test('the report has the figures of the node', async () => {
  await page.getByRole('button', { name: 'Report' }).click();
  await page.locator('#report tbody tr').first().waitFor();
  const { measures } = await get('/v1/alarms/report?from=24h');
  const shown = await page.locator('#report tbody tr').evaluateAll((all) => all.map(({ dataset }) => dataset.measure));
  assert(shown.join() === measures.map(({ name }) => name).join(), shown.join());
  await run.shot(page, 'alarms-report');
});

for (const colorScheme of ['light', 'dark']) {
  await run.test(`no serious accessibility fault in ${colorScheme}`, async () => {
    const other = await run.page(`${BASE}/#/alarms?alarm=${BROKEN}`, { ...DESKTOP, colorScheme, reducedMotion: 'reduce' });
    await other.locator(`[data-shown="${BROKEN}"]`).waitFor();
    assert((await other.locator('.blink').first().evaluate((mark) => getComputedStyle(mark).animationName)) === 'none', 'it blinks where motion is unwanted');
    await accessible(other, 'the panel of an alarm');
    await other.getByRole('button', { name: 'Shelve…' }).last().click();
    await accessible(other, 'shelving');
    await run.shot(other, `${colorScheme}-alarm`);
    for (const tab of ['active', 'aside', 'journal', 'report']) {
      await other.goto(`${BASE}/#/alarms?tab=${tab}`);
      await other.locator('[data-alarm], [data-change], #report').first().waitFor();
      await accessible(other, tab);
    }
    await other.context().close();
  });
}

await run.test('a phone shows the list, and the panel instead of it', async () => {
  const phone = await run.page(`${BASE}/#/alarms`, PHONE);
  await phone.locator(`[data-alarm="${BROKEN}"]`).click();
  await phone.locator(`[data-shown="${BROKEN}"]`).waitFor();
  assert((await phone.evaluate(() => innerWidth)) === PHONE.viewport.width, 'the page is wider than the screen');
  assert(!(await phone.locator('#alarms').isVisible()), 'the list is beside the panel');
  await run.shot(phone, 'phone-alarm');
  await phone.context().close();
});

await run.test('10,000 alarms of one second are all on the screen', async () => {
  await page.goto(`${BASE}/#/alarms`);
  await row(BROKEN).waitFor();
  await field.publish(FLOOD, 1);
  await until('all topics', async () => (await get('/v1/status')).topics >= FLOOD.length);
  const total = (await alarms()).filter(({ state }) => !['shelved', 'suppressed', 'out_of_service'].includes(state)).length + FLOOD.length;
  const painted = page.evaluate((wanted) => new Promise((done) => {
    let [last, gap] = [performance.now(), 0];
    const look = (now) => {
      [last, gap] = [now, Math.max(gap, now - last)];
      const listed = Number(document.querySelector('[data-alarms]').dataset.alarms);
      if (listed === wanted) done({ at: Date.now(), gap: Math.round(gap), megabytes: Math.round(performance.memory.usedJSHeapSize / 1e6) });
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }), total);
  const last = await field.publish(FLOOD, 50, 1_000);
  const { at, gap, megabytes } = await painted;
  console.log(`        painted ${at - last} ms after the last, longest pause of frames ${gap} ms, heap ${megabytes} MB`);
  assert((await page.locator('[data-alarm]').count()) < 100, 'rows that are not in view are in the page');
  await page.locator('#alarm-flood').waitFor();
  await run.shot(page, 'alarms-flood');
  await press('End');
  assert((await page.locator('[data-alarm]').count()) > 0, 'the end of the list is empty');
});

field.close();
await page.context().close();
process.exit(await run.finish());
