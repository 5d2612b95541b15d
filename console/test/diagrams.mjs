// Single-line diagrams in a real browser, against the demonstration substation: TIELINE_URL=http://… node test/diagrams.mjs

import { readFileSync } from 'node:fs';
import { assert, DESKTOP, PHONE, reader, Runner, until } from './browser.mjs';
import { accessible } from './checks.mjs';

const BASE = process.env.TIELINE_URL.replace(/\/$/, '');
const BREAKER = 'demo/feeder2/relay/breaker';
const CURRENT = 'demo/feeder2/relay/current';
const HOSTILE = JSON.parse(readFileSync(new URL('../../vectors/diagrams/svg.json', import.meta.url), 'utf8')).bad;

const run = new Runner();
await run.start();
const get = reader(BASE);
const page = await run.page(`${BASE}/`);
const view = page.locator('.diagram');
const at = (topic, of = page) => of.locator(`.diagram [data-topic="${topic}"]`);
const attribute = (locator, name) => locator.getAttribute(name, { timeout: 500 }).catch(() => null);
const press = async (...keys) => {
  for (const key of keys) await page.keyboard.press(key);
};
/** Operates a breaker as a program does. */
async function operate(topic, value) {
  const body = JSON.stringify({ topic, value });
  const answer = await fetch(`${BASE}/v1/command`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  assert(answer.ok, `${topic}: HTTP ${answer.status} ${await answer.text()}`);
}

await run.test('two keys show the diagram, with values, positions and what is energised', async () => {
  await page.locator('nav a', { hasText: 'Diagrams' }).waitFor();
  await press('g', 'l');
  await view.locator('svg').waitFor();
  await until('the breaker is closed', async () => (await attribute(at(BREAKER), 'data-position')) === 'closed');
  await until('a current', async () => /^[\d.]+ A$/.test(await at(CURRENT).textContent()));
  await until('all is energised', async () => (await attribute(view, 'data-energised')) !== null && (await attribute(view, 'data-dead')) === '0' && (await attribute(view, 'data-unknown')) === '0');
  assert((await at(BREAKER).locator('[data-when]:visible').count()) <= 1, 'more than one position is drawn');
  assert((await at(BREAKER).locator('[data-when=closed]').getAttribute('display')) === 'inline', 'the symbol is not that of a closed breaker');
});

await run.test('what is behind an open breaker is dead, and its alarm is at it', async () => {
  const energised = Number(await attribute(view, 'data-energised'));
  await operate(BREAKER, false);
  await until('open', async () => (await attribute(at(BREAKER), 'data-position')) === 'open');
  await until('dead', async () => Number(await attribute(view, 'data-dead')) > 0);
  assert(Number(await attribute(view, 'data-energised')) < energised, 'as much is energised as before');
  assert((await attribute(page.locator('.diagram [data-symbol=motor]'), 'data-state')) === 'dead', 'the motor is not dead');
  const mark = at(BREAKER).locator('[data-alarm-priority=critical]');
  await mark.waitFor();
  assert((await mark.textContent()) === '■' && (await mark.getAttribute('class')).includes('blink'), 'the alarm is not marked as unacknowledged');
  assert(/open, unacknowledged critical alarm/.test(await at(BREAKER).getAttribute('aria-label')), await at(BREAKER).getAttribute('aria-label'));
  await run.shot(page, 'diagram');
});

await run.test('it is accessible in both themes', async () => {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await accessible(page, `the diagram, ${colorScheme}`);
    await run.shot(page, `diagram-${colorScheme}`);
  }
  await page.emulateMedia({ colorScheme: 'light' });
});

await run.test('an acknowledged alarm stands still, and one that has ended is gone', async () => {
  const { alarms } = await get('/v1/alarms?limit=100');
  const named = alarms.filter(({ topic }) => topic === BREAKER).map(({ topic, kind, seq }) => ({ topic, kind, seq }));
  const send = (action) => fetch(`${BASE}/v1/alarms/${action}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ alarms: named, why: 'a test' }) });
  await send('ack');
  const mark = at(BREAKER).locator('[data-alarm-priority]');
  await until('it stands still', async () => !(await mark.getAttribute('class')).includes('blink'));
  await operate(BREAKER, true);
  await until('closed', async () => (await attribute(at(BREAKER), 'data-position')) === 'closed');
  await until('nothing is dead', async () => (await attribute(view, 'data-dead')) === '0');
  // It is latched until a person resets it.
  await send('reset');
  await mark.waitFor({ state: 'detached' });
});

await run.test('the keyboard walks over the elements and opens a point beside the diagram', async () => {
  await page.locator('.diagram [tabindex="0"]').focus();
  const focused = () => page.evaluate(() => document.activeElement?.dataset?.topic ?? null);
  const seen = new Set([await focused()]);
  for (const key of ['Home', ...Array(12).fill('ArrowDown'), 'ArrowRight', 'ArrowDown', 'ArrowDown', 'End']) {
    await press(key);
    seen.add(await focused());
  }
  assert(seen.size >= 6 && !seen.has(null), `the keyboard came to ${[...seen]}`);
  await at(BREAKER).focus();
  await press('Enter');
  await page.locator(`.point[data-topic="${BREAKER}"]`).waitFor();
  assert(await view.locator('svg').isVisible(), 'the diagram has gone');
  await run.shot(page, 'diagram-point');
  await press('Escape');
  await page.locator('.point').waitFor({ state: 'detached' });
  await at(CURRENT).click();
  await page.locator(`.point[data-topic="${CURRENT}"]`).waitFor();
  await press('Escape');
});

await run.test('the search finds it, and its address opens it', async () => {
  await page.goto(`${BASE}/#/topics`);
  await press('Control+k');
  await page.fill('#find', 'substation demonstration');
  await page.locator('#found [data-kind=diagram]').waitFor();
  await press('Enter');
  await view.locator('svg').waitFor();
  assert(page.url().includes('#/diagrams?name=substation'), page.url());
});

await run.test('files that do more than draw do nothing in the browser, whatever the node lets in', async () => {
  // The browser says what the policy of the page blocks while it reads a file, too.
  const other = await run.page('about:blank', DESKTOP, /Content Security Policy/);
  other.on('dialog', () => run.errors.push('a script of a file has run'));
  await other.route('**/v1/diagrams', (route) => route.fulfill({ json: { diagrams: HOSTILE.map((_, i) => ({ name: `h${i}`, title: `h${i}`, version: 'v', topics: 1 })) } }));
  await other.route('**/v1/diagrams/h*', (route) => route.fulfill({ contentType: 'image/svg+xml', body: HOSTILE[Number(/h(\d+)$/.exec(route.request().url())[1])].svg }));
  const asked = [];
  other.on('request', (request) => asked.push(request.url()));
  for (const [i, { name }] of HOSTILE.entries()) {
    await other.goto(`${BASE}/#/diagrams?name=h${i}`);
    await other.locator(`.diagram[data-diagram=h${i}] svg, .diagram [role=alert]`).first().waitFor();
    const left = await other.evaluate(() => [...document.querySelectorAll('.box *')].filter((element) =>
      /^(script|foreignobject|image|a|style|set|animate\w*|p)$/i.test(element.localName) || [...element.attributes].some(({ name, value }) => /^on/i.test(name) || (/href$/.test(name) && !value.startsWith('#')) || /url\((?!#)/i.test(value))).length);
    assert(left === 0, `${name}: ${left} things are left`);
  }
  const foreign = asked.filter((url) => !url.startsWith(BASE) && !url.startsWith('about:'));
  assert(foreign.length === 0, `it asked ${foreign}`);
  await other.context().close();
});

await run.test('on a phone the diagram fills the screen', async () => {
  const phone = await run.page(`${BASE}/#/diagrams`, PHONE);
  await phone.locator('.diagram svg').waitFor();
  await until('a value', async () => /A$/.test(await at(CURRENT, phone).textContent()));
  const wide = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert(wide <= 0, `the page is ${wide} px too wide`);
  await accessible(phone, 'the diagram on a phone');
  await run.shot(phone, 'diagram-phone');
  await phone.context().close();
});

await page.context().close();
process.exit(await run.finish());
