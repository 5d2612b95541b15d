// The console against a node whose process is stopped for a while: TIELINE_URL=http://… TIELINE_PID=… node test/stopped.mjs
// What the screen says is read from its attributes (README.md) and held against the node's own answers.

import { assert, DESKTOP, Runner, until } from './browser.mjs';

const BASE = process.env.TIELINE_URL.replace(/\/$/, '');
const PID = Number(process.env.TIELINE_PID);
const run = new Runner();
await run.start();
const page = await run.page(`${BASE}/`, DESKTOP, /Failed to load resource|ERR_/);
const root = page.locator('.app');
const says = (name, value, ms) => until(`${name} is ${value}`, async () => (await root.getAttribute(name)) === String(value), ms);
const put = async (topic, value) => {
  const answer = await fetch(`${BASE}/v1/topics/${topic}`, { method: 'PUT', body: typeof value === 'string' ? value : JSON.stringify(value) });
  assert(answer.ok, `PUT ${topic}: HTTP ${answer.status}`);
};

/** All topics of the node by the quality that they state, read by pages. */
async function truth() {
  const counts = { good: 0, uncertain: 0, bad: 0, unstated: 0, total: 0 };
  const worst = (value) => ['bad', 'uncertain', 'good'].find((q) => Object.values(value).some((point) => point?.q === q)) ?? 'unstated';
  for (let after = ''; after !== null; ) {
    const query = new URLSearchParams({ filter: '#', limit: '10000', ...(after && { after }) });
    const { topics, next } = await (await fetch(`${BASE}/v1/topics?${query}`)).json();
    for (const { kind, value } of topics) {
      counts[kind === 'point' ? value.q : kind === 'json' && typeof value === 'object' ? worst(value) : 'unstated']++;
      counts.total++;
    }
    after = next;
  }
  return counts;
}

async function counted() {
  return until('the counts of the screen are those of the node', async () => {
    const there = await truth();
    const shown = await root.evaluate((app) => ({ ...app.dataset }));
    return shown.counts === 'complete' && Object.entries(there).every(([name, n]) => Number(shown[name]) === n) && there;
  });
}

await run.test('counts by quality are those of the node, however many topics there are', async () => {
  await says('data-link', 'live');
  const before = await counted();
  console.log(`        ${JSON.stringify(before)}`);
  await put('many/block7/p7', { v: 1, q: 'bad', t: '2020-01-02T03:04:05Z' });
  await put('many/block8/p8', { v: 1, q: 'uncertain' });
  await put('many/bare', '23.5');
  await until('the group is bad', async () => (await page.locator('[data-group="many"]').getAttribute('data-group-quality').catch(() => '')) === 'bad');
  const after = await counted();
  assert(after.bad === before.bad + 1 && after.unstated === before.unstated + 1, JSON.stringify(after));
});

await run.test('a published value shows its own quality and time', async () => {
  await page.evaluate(() => void (location.hash = '#/topics?point=many/block7/p7'));
  const point = page.locator('.point[data-topic="many/block7/p7"]');
  await until('bad', async () => (await point.getAttribute('data-quality').catch(() => '')) === 'bad');
  assert((await point.getAttribute('data-time')) === '2020-01-02T03:04:05.000Z', await point.getAttribute('data-time'));
  await until('it is followed', async () => (await point.getAttribute('data-stale')) === 'false');
});

await run.test('a process that stands still is marked within 5 s, and nothing is green', async () => {
  await says('data-link', 'live');
  const began = Date.now();
  process.kill(PID, 'SIGSTOP');
  try {
    await until('it is marked', async () => (await root.getAttribute('data-link')) !== 'live', 15_000);
    const took = Date.now() - began;
    console.log(`        marked after ${took} ms`);
    assert(took <= 5_000, `it took ${took} ms`);
    const green = await page.evaluate(() => document.querySelectorAll('[data-stale=false], [data-group-stale=false], .q.good, .state.good, .calm').length);
    assert(green === 0, `${green} things are shown as if they were live`);
    // Longer than the stream is waited for: another cannot be opened either.
    await page.waitForTimeout(9_000);
    const [age, really] = [Number(await root.getAttribute('data-age-ms')), Date.now() - began];
    assert(age >= really - 1_500 && age <= really + 2_000, `the age is ${age} ms, and the process stands still for ${really} ms`);
    await run.shot(page, 'stopped');
  } finally {
    process.kill(PID, 'SIGCONT');
  }
  await says('data-link', 'live', 20_000);
  await counted();
});

await run.test('answers and files are compressed', async () => {
  const { headers } = await fetch(`${BASE}/`, { headers: { 'accept-encoding': 'br, gzip' } });
  // The last script is that of the language, which the first one has chosen.
  const script = await page.evaluate(() => [...document.querySelectorAll('script[src]')].at(-1).src);
  for (const [path, takes, coding] of [[script, 'br, gzip', 'br'], [script, 'gzip', 'gzip'], [script, 'identity', null],
    [`${BASE}/v1/points?limit=100`, 'gzip, br', 'gzip'], [`${BASE}/v1/topics?limit=100`, 'gzip', 'gzip'],
    [`${BASE}/v1/topics?limit=100`, 'identity', null]]) {
    const answer = await fetch(path, { headers: { 'accept-encoding': takes } });
    const found = answer.headers.get('content-encoding');
    assert(found === coding, `${path} with ${takes} comes in ${found}`);
    const text = await answer.text();
    const isWhole = () => JSON.parse(text).topics?.length === 100 || JSON.parse(text).points?.length > 0;
    assert(text.length > 1_000 && (path === script || isWhole()), `${path} is not whole`);
  }
  assert(headers.get('vary')?.includes('accept-encoding'), 'caches are not told');
});

await run.test('live updates come compressed, and each at once', async () => {
  const ended = new AbortController();
  const live = await fetch(`${BASE}/v1/live?filter=many/packed`, { headers: { 'accept-encoding': 'gzip' }, signal: ended.signal });
  assert(live.headers.get('content-encoding') === 'gzip', `it comes in ${live.headers.get('content-encoding')}`);
  const [reader, words] = [live.body.pipeThrough(new TextDecoderStream()).getReader(), []];
  const told = async (text) => {
    while (!words.join('').includes(text)) {
      words.push((await reader.read()).value);
    }
  };
  for (const text of ['one', 'two '.repeat(300), 'three']) {
    const began = Date.now();
    await put('many/packed', text);
    await told(text);
    assert(Date.now() - began < 2_000, `${text} took ${Date.now() - began} ms`);
  }
  ended.abort();
});

process.exit(await run.finish());
