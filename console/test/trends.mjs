// Trends of several points in a real browser against a node with the demonstration substation: TIELINE_URL=http://… node test/trends.mjs
// TIELINE_BIN and PYTHON run the commands that the page offers; without them they are read only.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { assert, DESKTOP, PHONE, reader, Runner, until } from './browser.mjs';
import { accessible, colorsOf } from './checks.mjs';

const BASE = process.env.TIELINE_URL.replace(/\/$/, '');
const { TIELINE_BIN, PYTHON } = process.env;
const SDK = fileURLToPath(new URL('../../sdk/python', import.meta.url));
const [LOAD, OIL, BREAKER, VOLTAGE] = ['transformer/load', 'transformer/oil_temperature', 'incomer/breaker', 'incomer/voltage'].map((name) => `demo/substation/${name}`);
const COUNTER = 'test/counter';
const PUBLISH_MS = 100;

const run = new Runner();
await run.start();
const get = reader(BASE);
const publish = async (topic, value) => {
  const body = JSON.stringify({ topic, payload: value, retain: true });
  const response = await fetch(`${BASE}/v1/publish`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  assert(response.ok, `publish: HTTP ${response.status} ${await response.text()}`);
};

await until('devices are online', async () => (await get('/v1/devices')).devices.every(({ state }) => state === 'online'), 60_000);
const page = await run.page(`${BASE}/#/topics`);
const chart = page.locator('#trend');
const line = (topic) => page.locator(`tr[data-trend="${topic}"]`);
const attribute = (name, of = chart) => of.getAttribute(`data-${name}`);
const loaded = () => until('the lines', async () => decodeURIComponent((await attribute('drawn')) ?? '') === query() && Number(await attribute('points')) > 0);
const query = () => decodeURIComponent(page.url().split('?')[1] ?? '');
const see = async (topics, from = 'now-15m', to = 'now') => {
  await page.evaluate((hash) => void (location.hash = hash), `#/trends?p=${topics.join(',')}&from=${from}&to=${to}`);
  await until('its points', async () => (await page.locator('tr[data-trend]').count()) === topics.length);
  await loaded();
};

await run.test('points are added by the keyboard, up to two units', async () => {
  for (const key of ['g', 'h']) await page.keyboard.press(key);
  await page.locator('#trend').waitFor();
  await page.keyboard.press('/');
  for (const words of ['transformer load', 'oil', 'incomer breaker']) {
    await page.keyboard.type(words);
    await page.locator('#picks [aria-selected=true]').waitFor();
    await page.keyboard.press('Enter');
  }
  await until('three points', async () => (await page.locator('tr[data-trend]').count()) === 3);
  assert(query() === `p=${LOAD},${OIL},${BREAKER}&from=now-1h&to=now`, query());
  await page.keyboard.type('incomer voltage');
  await page.locator('#picks [aria-selected=true]').waitFor();
  await page.keyboard.press('Enter');
  await page.locator('.picker [role=alert]', { hasText: 'up to 2 units' }).waitFor();
  await page.keyboard.press('Escape');
  await loaded();
  const sides = await page.locator('tr[data-trend] td:nth-child(7)').allTextContents();
  assert(sides.join() === 'left,right,state', sides.join());
  await until('a drawn chart', async () => (await colorsOf(page, '#trend canvas')) > 3);
});

await run.test('the address is the trend, also after a reload and in another view', async () => {
  await see([LOAD, VOLTAGE], 'now-6h');
  await page.reload();
  await until('its points', async () => (await page.locator('tr[data-trend]').count()) === 2);
  assert((await page.locator('[aria-label=Range] [aria-pressed=true]').textContent()) === '6 h', 'the range is not marked');
  for (const key of ['g', 's']) await page.keyboard.press(key);
  await page.locator('#trend').waitFor({ state: 'detached' });
  for (const key of ['g', 'h']) await page.keyboard.press(key);
  await until('the same trend', async () => query() === `p=${LOAD},${VOLTAGE}&from=now-6h&to=now`);
});

await run.test('the node thins to pixels: no line has more buckets than pixels', async () => {
  for (const from of ['now-15m', 'now-6h', 'now-24h', 'now-7d', 'now-30d']) {
    const [span, unit] = [Number(/\d+/.exec(from)[0]), { m: 60, h: 3600, d: 86_400 }[from.at(-1)]];
    const urls = [];
    const listen = (request) => {
      const { searchParams } = new URL(request.url());
      // What a view before has asked for may come late.
      const asked = (Date.parse(searchParams.get('to')) - Date.parse(searchParams.get('from'))) / 1000;
      if (request.url().includes('/v1/history?') && Math.abs(asked - span * unit) < 1) urls.push({ searchParams });
    };
    page.on('request', listen);
    await see([LOAD, OIL], from);
    page.off('request', listen);
    const width = (await chart.boundingBox()).width;
    const every = urls.map((url) => url.searchParams.get('every')).filter(Boolean).at(-1);
    assert(urls.length > 0, `${from}: nothing was asked for`);
    if (from !== 'now-15m') assert(every, `${from} was asked for as recorded`);
    if (every) {
      const [, n, of] = /^(\d+)(ms|s|m|h|d)$/.exec(every);
      const bucket = Number(n) * { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 }[of];
      assert((span * unit) / bucket <= width, `${from}: buckets of ${every} on ${width} pixels`);
      assert(['mean', 'min', 'max'].every((agg) => urls.some((url) => url.searchParams.get('agg') === agg)), 'the band was not asked for');
    }
    assert((await attribute('every')) === (every ?? 'raw'), `${await attribute('every')} is shown, ${every} was asked for`);
  }
});

await run.test('the cursor tells what the node has recorded, also by the keyboard', async () => {
  await until('some history', async () => (await get(`/v1/history?topic=${LOAD}&from=1h&to=10s`)).length > 0, 30_000);
  const to = new Date();
  await publish('test/doubtful', { v: 4, q: 'bad', why: ['offline'] });
  await see([LOAD, 'test/doubtful'], new Date(to - 60_000).toISOString(), new Date(to.getTime() + 2_000).toISOString());
  await chart.focus();
  await page.keyboard.press('End');
  await until('the cursor', async () => (await attribute('cursor')) !== null);
  for (let i = 0; i < 8; i++) await page.keyboard.press('ArrowLeft');
  const at = Number(await attribute('cursor'));
  const rows = await get(`/v1/history?topic=${LOAD}&from=${new Date(at - 30_000).toISOString()}&to=${new Date(at + 1).toISOString()}`);
  const shown = Number(await attribute('value', line(LOAD)));
  assert(shown === rows.at(-1).v, `${shown} at ${at}, and ${rows.at(-1).v} is recorded`);
  await page.keyboard.press('Home');
  await page.keyboard.press('Escape');
  await until('no cursor', async () => (await attribute('cursor')) === null);
  const over = await page.locator('#trend .u-over').boundingBox();
  await page.mouse.move(over.x + over.width - 2, over.y + 60);
  await until('the quality', async () => (await attribute('quality', line('test/doubtful'))) === 'bad');
  await page.mouse.move(5, 5);
});

await run.test('live values join the history without a gap', async () => {
  let [stopped, i] = [false, 0];
  const publishing = (async () => {
    for (let next = Date.now(); !stopped; next += PUBLISH_MS) {
      await publish(COUNTER, { v: i++, q: 'good' });
      await new Promise((done) => setTimeout(done, Math.max(0, next + PUBLISH_MS - Date.now())));
    }
  })();
  await until('some history', () => i > 30);
  await see([COUNTER]);
  const before = Number(await attribute('points'));
  await until('live values', async () => Number(await attribute('points')) > before + 40);
  stopped = true;
  await publishing;
  const recorded = await get(`/v1/history?topic=${COUNTER}&from=15m&limit=10000`);
  const pauses = recorded.slice(1).map((row, n) => Date.parse(row.t) - Date.parse(recorded[n].t));
  await until('the last value', async () => Number(await attribute('value', line(COUNTER))) === i - 1);
  // The live stream tells the newest value where two came together; the history is read again every 15 s.
  await until('every value', async () => Number(await attribute('points')) >= recorded.length, 30_000);
  assert(Number(await attribute('pause-ms')) <= Math.max(...pauses) + 1, `a pause of ${await attribute('pause-ms')} ms, ${Math.max(...pauses)} ms are recorded`);
  assert(before < recorded.length - 30, 'the history had all values already');
});

await run.test('a range is moved, widened, typed, dragged, and made live again', async () => {
  await see([LOAD]);
  const press = (name) => page.locator(`button[aria-label="${name}"]`).click();
  const times = () => Object.fromEntries(new URLSearchParams(query()));
  await press('Earlier');
  await until('an absolute range', async () => /^2\d{3}-/.test(times().from));
  const earlier = times();
  assert(Date.parse(earlier.to) - Date.parse(earlier.from) === 900_000, JSON.stringify(earlier));
  await press('Later');
  await until('live', () => times().to === 'now');
  await press('Zoom out');
  await until('twice the range', () => times().from === 'now-30m');
  await loaded();
  const over = await page.locator('#trend .u-over').boundingBox();
  await page.mouse.move(over.x + over.width * 0.5, over.y + 50);
  await page.mouse.down();
  await page.mouse.move(over.x + over.width * 0.7, over.y + 60, { steps: 5 });
  await page.mouse.up();
  await until('the range that was dragged', () => times().to !== 'now');
  const span = Date.parse(times().to) - Date.parse(times().from);
  assert(Math.abs(span - 360_000) < 40_000, `${span} ms`);
  await page.locator('button', { hasText: 'from … to' }).click();
  await page.fill('input[name=from]', '2026-01-02T03:04:05');
  await page.fill('input[name=to]', '2026-01-02T04:04:05');
  await page.locator('.bar form .primary').click();
  await until('what was typed', () => Date.parse(times().to) - Date.parse(times().from) === 3_600_000);
  await page.locator('[aria-label=Move] button', { hasText: 'live' }).click();
  await until('live', () => times().to === 'now' && times().from === 'now-1h');
  await page.evaluate(() => void (location.hash = '#/trends?p=a&from=noon&to=now'));
  await page.locator('.foot', { hasText: 'names no range' }).waitFor();
});

await run.test('the zone of the times is said at the axis', async () => {
  const other = await run.page(`${BASE}/#/trends?p=${LOAD}&from=now-15m&to=now`, { ...DESKTOP, timezoneId: 'Europe/Madrid' });
  await until('local times', async () => /^\+0[12]:00$/.test((await other.locator('#trend').getAttribute('data-zone').catch(() => '')) ?? ''));
  await other.locator('body').press('u');
  await until('UTC', async () => (await other.locator('#trend').getAttribute('data-zone')) === 'UTC');
  await other.context().close();
});

await run.test('CSV, a picture, and the same question for curl, the command line and Python', async () => {
  const [to, from] = [0, 120_000].map((ago) => new Date(Math.floor((Date.now() - ago) / 1000) * 1000).toISOString());
  await see([LOAD, OIL], from, to);
  const save = async (press) => {
    const [download] = await Promise.all([page.waitForEvent('download'), press()]);
    return readFileSync(await download.path());
  };
  const csv = (await save(() => page.locator('a', { hasText: 'CSV' }).click())).toString();
  assert(csv.startsWith('topic,time,value,quality,why,count') && csv.includes(`${OIL},`), csv.slice(0, 200));
  const png = await save(() => page.locator('button', { hasText: 'PNG' }).click());
  assert(png.subarray(1, 4).toString() === 'PNG' && png.length > 5_000, `${png.length} bytes`);
  await page.locator('button', { hasText: 'as…' }).click();
  const [curl, cli, python] = await page.locator('#share code').allTextContents();
  const rows = csv.trim().split('\n').length - 1;
  assert(execFileSync('sh', ['-c', curl]).toString() === csv, `${curl}: another answer`);
  if (TIELINE_BIN) {
    const answer = execFileSync('sh', ['-c', cli.replace(/^tieline/, TIELINE_BIN)], { env: { ...process.env, TIELINE_HTTP: new URL(BASE).host } }).toString();
    assert(answer === csv, `${cli}: another answer: ${answer.slice(0, 200)}`);
  }
  if (PYTHON) assert(Number(execFileSync(PYTHON, ['-c', `${python}\nprint(len(rows))`], { env: { ...process.env, PYTHONPATH: SDK } }).toString()) === rows, `${python}: another number of rows`);
  await run.shot(page, 'trends-as');
});

for (const colorScheme of ['light', 'dark']) {
  await run.test(`no serious accessibility fault in ${colorScheme}`, async () => {
    const other = await run.page(`${BASE}/#/trends?p=${LOAD},${OIL},${BREAKER},demo/feeder1/relay/power,demo/feeder2/relay/power&from=now-15m&to=now`, { ...DESKTOP, colorScheme });
    await until('drawn', async () => (await colorsOf(other, '#trend canvas')) > 3);
    await until('values', async () => (await other.locator('tr[data-trend][data-value]').count()) === 5);
    await accessible(other, 'trends');
    await other.locator('#filter').fill('feeder');
    await other.locator('#picks li').first().waitFor();
    await accessible(other, 'the picker');
    await other.keyboard.press('Escape');
    await run.shot(other, `${colorScheme}-trends`);
    await other.context().close();
  });
}

await run.test('a phone shows the drawing above the table', async () => {
  const phone = await run.page(`${BASE}/#/trends?p=${LOAD},${OIL}&from=now-15m&to=now`, { ...PHONE, colorScheme: 'dark' });
  await until('drawn', async () => (await colorsOf(phone, '#trend canvas')) > 1);
  assert((await phone.evaluate(() => innerWidth)) === PHONE.viewport.width, 'the page is wider than the screen');
  await run.shot(phone, 'phone-trends');
  await phone.context().close();
});

await page.context().close();
process.exit(await run.finish());
