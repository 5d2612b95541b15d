// A shift by the keyboard alone, against a node with the demonstration substation: a fault, its alarm and cause, the trend with the
// mark, the device, the command, acknowledgement, note, report. TIELINE_URL=http://… node test/shift.mjs

import { assert, reader, Runner, until } from './browser.mjs';
import { accessible } from './checks.mjs';

const BASE = process.env.TIELINE_URL.replace(/\/$/, '');
const DEVICE = 'demo/feeder2/relay';
const BREAKER = `${DEVICE}/breaker`;
const KEY = `${BREAKER}|state`;
const WHY = 'motor of the works was locked, closed again after a call';
/** From an alarm to its trend, its device and the dialog that commands it. */
const KEYS_MAX = 4;

const run = new Runner();
await run.start();
const get = reader(BASE);
const alarm = async () => (await get('/v1/alarms?limit=10000')).alarms.find(({ topic, kind }) => `${topic}|${kind}` === KEY);
const isClosed = async () => (await get(`/v1/topics/${BREAKER}`)).value.v;
const journal = async () => (await get(`/v1/alarms/journal?from=1h&filter=${BREAKER}&limit=1000`)).rows;

await until('devices are online', async () => (await get('/v1/devices')).devices.every(({ state }) => state === 'online'), 60_000);
const page = await run.page(`${BASE}/`);
// All that a mouse or a finger does begins with one of these; a key makes none of them.
await page.evaluate(() => {
  globalThis.pointed = 0;
  for (const kind of ['pointerdown', 'mousedown', 'touchstart', 'wheel', 'mousemove']) addEventListener(kind, () => globalThis.pointed++, true);
});
let pressed = 0;
const press = async (...keys) => {
  for (const key of keys) {
    pressed++;
    await page.keyboard.press(key);
  }
};
const attribute = (selector, name) => page.locator(selector).first().getAttribute(name, { timeout: 500 }).catch(() => null);
const text = (selector) => page.locator(selector).first().textContent({ timeout: 500 }).catch(() => '');
const focused = (selector) => page.evaluate((of) => document.activeElement?.matches(of) ?? false, selector);
const seen = (what, selector, pattern) => until(what, async () => pattern.test((await text(selector)) ?? ''));
/** Both themes, as the view is. */
async function clean(where) {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await accessible(page, `${where}, ${colorScheme}`);
  }
}

await run.test('a fault is on the banner of every view, and is said', async () => {
  await page.locator('#alarm-banner').waitFor();
  assert(await isClosed(), 'the breaker was open before the fault');
  const body = JSON.stringify({ topic: BREAKER, value: false, mode: 'select', timeout_ms: 5_000 });
  const response = await fetch(`${BASE}/v1/command`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  assert(response.ok, await response.text());
  await until('the worst alarm', async () => (await attribute('#alarm-banner', 'data-worst')) === KEY);
  await seen('it is said', '#alarm-said', new RegExp(`Critical alarm: ${BREAKER}`));
  await clean('the start page');
});

await run.test('one key leads to the list, and one to the alarm with its cause', async () => {
  await press('a');
  await until('the keyboard is on it', async () => (await attribute('#alarms', 'aria-activedescendant')) === `alarm-${KEY}`);
  assert(await focused('#alarms'), 'the list does not have the keyboard');
  await clean('the list of alarms');
  await press('Enter');
  await page.locator(`[data-shown="${KEY}"]`).waitFor();
  await seen('its likely cause', `[data-shown="${KEY}"] dl`, /likely cause\s*protection has tripped, or somebody has opened it/);
  await seen('what to do', `[data-shown="${KEY}"] dl`, /find out why, then close it/);
  await clean('the panel of an alarm');
  await run.shot(page, 'shift-alarm');
});

await run.test(`at most ${KEYS_MAX} keys from the alarm to its trend with the mark, its device and the dialog of the command`, async () => {
  pressed = 0;
  await press('t');
  await page.locator(`tr[data-trend="${BREAKER}"]`).waitFor();
  await until('the trend is drawn', async () => Number(await attribute('#trend', 'data-points')) > 0);
  await page.locator('[data-mark=raised]', { hasText: 'breaker is open' }).waitFor();
  await until('the drawing has the keyboard', () => focused('#trend'));
  await clean('the trend');
  await run.shot(page, 'shift-trend');
  await press('d');
  await page.locator(`.device[data-device="${DEVICE}"]`).waitFor();
  await until('the keyboard is on the point', async () => (await attribute('#device-points', 'aria-activedescendant')) === `point-${BREAKER}`);
  assert(await focused('#device-points'), 'the points of the device do not have the keyboard');
  await clean('the device');
  await run.shot(page, 'shift-device');
  await press('o');
  await until('the keyboard is on what the breaker is not', () => focused('.operate .pair button:nth-child(2)'));
  await press('Enter');
  await page.locator('.confirm[role=alertdialog]').waitFor();
  assert(pressed <= KEYS_MAX, `${pressed} keys`);
  console.log(`        ${pressed} keys`);
});

await run.test('the dialog names the change, has the keyboard on Cancel, and closes the breaker', async () => {
  await seen('the change', '#confirm-what', /off.*→.*on/s);
  assert(await page.evaluate(() => document.activeElement?.textContent === 'Cancel'), 'the keyboard is not on Cancel');
  await clean('the dialog of the command');
  await run.shot(page, 'shift-command');
  await page.locator('#confirm:not(:disabled)').waitFor();
  await press('Tab');
  assert(await focused('#confirm'), 'Tab does not lead to the confirmation');
  await press('Enter');
  await seen('done', '#command-result', /Done: on/);
  await until('the breaker is closed', isClosed);
});

await run.test('the alarm is acknowledged, noted and reset by keys of its list', async () => {
  await until('the node says that it is over', async () => !(await alarm()).active);
  await press('a');
  await until('the keyboard is on it', async () => (await attribute('#alarms', 'aria-activedescendant')) === `alarm-${KEY}`);
  await press('Enter');
  await page.locator(`[data-shown="${KEY}"]`).waitFor();
  await press('Shift+A');
  await until('acknowledged', async () => (await alarm()).acked);
  await seen('it is said', `[data-shown="${KEY}"] [data-result]`, /✓ acknowledged/);
  await press('n');
  await until('the reason has the keyboard', () => focused('input[name=why]'));
  await clean('the note');
  await page.keyboard.type(WHY);
  await press('Enter');
  await seen('noted', `[data-shown="${KEY}"] [data-result]`, /✓ noted/);
  await until('the journal has it', async () => (await journal()).some(({ transition, why }) => transition === 'noted' && why === WHY));
  await page.locator(`[data-shown="${KEY}"] [data-change=noted]`, { hasText: WHY }).waitFor();
  await press('r');
  await until('reset', async () => (await alarm()) === undefined);
  await until('it is normal', async () => (await attribute(`[data-shown="${KEY}"]`, 'data-state')) === 'normal');
  await until('no alarm is on the banner', async () => (await attribute('#alarm-banner', 'data-worst')) === null);
});

await run.test('the journal and the report of the shift are one key away each', async () => {
  await press('3');
  for (const change of ['raised', 'returned', 'noted']) await page.locator(`.listing [data-change=${change}]`).first().waitFor();
  await clean('the journal');
  await press('4');
  await page.locator('#report tbody tr').first().waitFor();
  const { measures } = await get('/v1/alarms/report?from=24h');
  const shown = await page.locator('#report tbody tr').evaluateAll((all) => all.map(({ dataset }) => [dataset.measure, dataset.value]));
  const of = (name) => shown.find(([measure]) => measure === name)?.[1];
  for (const { name } of measures) assert(of(name) !== undefined, `the report lacks ${name}`);
  await clean('the report');
  await run.shot(page, 'shift-report');
});

await run.test('nothing was done with a mouse or a finger', async () => {
  assert((await page.evaluate(() => globalThis.pointed)) === 0, 'a pointer was used');
});

await page.context().close();
process.exit(await run.finish());
