// Boards in a real browser, against the demonstration substation: TIELINE_URL=http://… node test/boards.mjs

import { assert, PHONE, Runner, until } from './browser.mjs';
import { accessible } from './checks.mjs';

const BASE = process.env.TIELINE_URL.replace(/\/$/, '');

const run = new Runner();
await run.start();
const page = await run.page(`${BASE}/`);
const board = page.locator('.board');
const panel = (kind) => board.locator(`[data-panel=${kind}]`);
const text = (locator) => locator.first().textContent({ timeout: 500 }).catch(() => '');
const asked = () => new URLSearchParams(page.url().split('?')[1]);
async function operate(topic, value) {
  const body = JSON.stringify({ topic, value });
  const answer = await fetch(`${BASE}/v1/command`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  assert(answer.ok, `${topic}: HTTP ${answer.status} ${await answer.text()}`);
}

await run.test('two keys show the board, with a panel of each kind', async () => {
  await page.locator('nav a', { hasText: 'Boards' }).waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('b');
  for (const kind of ['value', 'bar', 'trend', 'table', 'alarms', 'diagram', 'text']) await panel(kind).first().waitFor();
  await until('a value with its unit', async () => /[\d.]+ kV/.test(await text(panel('value').locator('b'))));
  await until('the bar', async () => /^[\d.]+$/.test(await panel('bar').first().locator('[data-topic]').getAttribute('data-value')));
  await until('the trend', async () => Number(await panel('trend').locator('.chart').getAttribute('data-points')) > 2);
  await until('the table', async () => (await panel('table').locator('tbody tr[data-topic]').count()) >= 2);
  await until('the diagram', async () => (await panel('diagram').locator('[data-position=closed]').count()) >= 3);
  assert(/press g e/.test(await text(panel('text'))), await text(panel('text')));
});

await run.test('a variable is chosen, and is in the address', async () => {
  await page.selectOption('select[name=board-feeder]', 'feeder2');
  await until('the address', () => asked().get('feeder') === 'feeder2');
  await until('its topics', async () => (await panel('bar').first().locator('[data-topic]').getAttribute('data-topic')) === 'demo/feeder2/relay/current');
  assert((await text(panel('trend').locator('h3'))) === 'Load of feeder2', await text(panel('trend').locator('h3')));
  await page.goBack();
  await until('feeder1 again', async () => (await panel('bar').first().locator('[data-topic]').getAttribute('data-topic')) === 'demo/feeder1/relay/current');
  await page.goForward();
});

await run.test('alarms of what is chosen are there, and what is outside of its limits is marked', async () => {
  await operate('demo/feeder2/relay/breaker', false);
  const alarm = panel('alarms').locator('[data-alarm="demo/feeder2/relay/breaker|state"]');
  await alarm.waitFor();
  assert(/breaker is open/.test(await alarm.textContent()), await alarm.textContent());
  await until('the diagram has it', async () => (await panel('diagram').locator('[data-alarm-priority=critical]').count()) === 1);
  await run.shot(page, 'board');
  await page.selectOption('select[name=board-feeder]', 'feeder1');
  await alarm.waitFor({ state: 'detached' });
  await page.goBack();
  await alarm.waitFor();
  await operate('demo/feeder2/relay/breaker', true);
});

await run.test('a frozen link has the times, and its trends stay', async () => {
  await board.getByRole('button', { name: 'freeze' }).click();
  await until('times', () => /^\d{4}-.*Z$/.test(asked().get('from') ?? '') && /^\d{4}-.*Z$/.test(asked().get('to') ?? ''));
  assert(await board.getByText('other panels show the present').isVisible(), 'it does not say what is of the present');
  assert(await board.getByRole('button', { name: 'freeze' }).isDisabled(), 'it can be frozen twice');
  const other = await run.page(page.url());
  await until('the same trend', async () => Number(await other.locator('[data-panel=trend] .chart').getAttribute('data-points', { timeout: 500 }).catch(() => 0)) > 2);
  await other.context().close();
  await board.getByRole('button', { name: 'live' }).click();
  await until('live', () => asked().get('to') === 'now');
});

await run.test('titles and values lead to trends, points and alarms', async () => {
  const hrefs = await board.locator('a').evaluateAll((all) => all.map((one) => one.getAttribute('href')));
  for (const wanted of ['#/trends?p=demo/feeder2/relay/current,demo/feeder2/relay/breaker&', '#/topics?point=demo/substation/incomer/voltage', '#/alarms?alarm=']) assert(hrefs.some((href) => href.startsWith(wanted)), `${wanted} is not in ${hrefs}`);
  await panel('trend').locator('h3 a').click();
  await page.locator('tr[data-trend="demo/feeder2/relay/current"]').waitFor();
  await page.goBack();
  await panel('bar').first().waitFor();
});

await run.test('the search finds it; a name that is none is said', async () => {
  await page.goto(`${BASE}/#/topics`);
  await page.keyboard.press('Control+k');
  await page.fill('#find', 'feeders');
  await page.locator('#found [data-kind=board]').waitFor();
  await page.keyboard.press('Enter');
  await panel('bar').first().waitFor();
  await page.goto(`${BASE}/#/boards?name=none`);
  await board.getByText('There is no board none').waitFor();
});

await run.test('it is accessible in both themes, and on a phone', async () => {
  await page.goto(`${BASE}/#/boards?name=feeders`);
  await panel('diagram').locator('svg').first().waitFor();
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await accessible(page, `the board, ${colorScheme}`);
    await run.shot(page, `board-${colorScheme}`);
  }
  const phone = await run.page(`${BASE}/#/boards`, PHONE);
  await phone.locator('[data-panel=bar]').first().waitFor();
  const wide = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert(wide <= 0, `the page is ${wide} px too wide`);
  await accessible(phone, 'the board on a phone');
  await run.shot(phone, 'board-phone');
  await phone.context().close();
});

await page.context().close();
process.exit(await run.finish());
