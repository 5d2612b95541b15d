// What the console says when things go wrong, made with the stand-in node.

import { readdirSync, readFileSync } from 'node:fs';
import { assert, DESKTOP, until } from './browser.mjs';
import { startMock } from './mock.mjs';

/** What the script of the first view may weigh in bytes of gzip. */
const FIRST_VIEW_BYTES_MAX = 52_000;
/** What all files of the console may weigh as they are sent. */
const ALL_BYTES_MAX = 100_000;
/** Besides, what is read only where it is looked at: files of their own, with limits of their own. */
const APART_BYTES_MAX = { Boards: 7_000, BoardEdit: 6_000, DiagramBox: 5_000, Diagrams: 4_000, Guide: 4_000, Keys: 2_000, Marks: 2_000, Reservations: 4_000, Sessions: 3_000, Sites: 4_000, sites: 2_000, Users: 6_000 };
/** The same of each other language, whose texts are longer. */
const TRANSLATED_BYTES_MAX = { first: 55_000, all: 104_000 };
const EXPECTED = /Failed to load resource|ERR_/;

export async function trouble(run, base) {
  const cause = (body) => fetch(`${base}/mock`, { method: 'POST', body: JSON.stringify(body) });
  const page = await run.page(`${base}/#/topics?point=north/feeder3/breaker`, DESKTOP, EXPECTED);
  const seen = (selector, pattern) =>
    until(`${selector} says ${pattern}`, async () => pattern.test((await page.locator(selector).first().textContent({ timeout: 500 }).catch(() => '')) ?? ''));

  await run.test('a refusal is shown by its name and in the audit', async () => {
    await page.locator('.operate .pair button', { hasText: 'Off' }).click();
    await page.click('#confirm');
    await seen('#command-result', /Refused: local.*local mode/s);
    await seen('#audit', /refused: local/);
    await run.shot(page, 'refused');
  });

  await run.test('a command without an answer is unknown, not refused', async () => {
    await cause({ device: 'north/feeder2', mute: true });
    await page.evaluate(() => void (location.hash = '#/topics?point=north/feeder2/breaker'));
    await seen('#point-title', /feeder2/);
    await page.locator('.operate .pair button', { hasText: 'Off' }).click();
    await page.click('#confirm');
    await seen('#command-result', /Outcome unknown.*may have/s);
    await seen('#audit', /timed out: timeout/);
    await run.shot(page, 'unknown');
    await cause({ device: 'north/feeder2', mute: false });
  });

  await run.test('history that is not recorded is an alarm on every view', async () => {
    await cause({ history: 'disk_full' });
    await seen('#alarm-history', /disk is full.*no space left/s);
    await cause({ history: 'ok' });
    await page.locator('#alarm-history').waitFor({ state: 'detached' });
  });

  await run.test('a device that is away marks its points and the device list', async () => {
    await cause({ device: 'north/pv2', state: 'away' });
    await page.evaluate(() => void (location.hash = '#/topics?point=north/pv2/power'));
    await seen('.now', /bad · away/);
    await page.evaluate(() => void (location.hash = '#/devices'));
    await seen('#devices [role=option]', /north\/pv2.*away/s);
    await run.shot(page, 'away');
    await cause({ device: 'north/pv2', state: 'online' });
  });

  await run.test('sites of a centre are listed, and the one that is away is first', async () => {
    const site = (name, more) => ({ name, state: 'up', since: new Date(Date.now() - 90_000).toISOString(), lag_s: 0.2, waiting: 3, lost: 0, records: 900, samples: 16_200, clock_offset_s: 0.004, ...more });
    const events = (more) => ({ wanted: 1, asked: 2, waiting: 0, waiting_bytes: 0, sent: 700, lost: 0, not_kept: 0, received: 95, repeated: 0, ...more });
    const names = ['plant-a', 'plant-b', 'plant-c', 'plant-d', 'plant-e'];
    const more = { 'plant-d': { state: 'away', lag_s: 91, waiting: 1_204 }, 'plant-b': { clock_offset_s: -7.2, lost: 12, events: events({ waiting: 41 }) }, 'plant-c': { events: events({}) }, 'plant-e': { events: events({ lost: 3 }) } };
    assert((await page.locator('nav a', { hasText: 'Sites' }).count()) === 0, 'a node that is no centre has no view of sites');
    await cause({ sites: names.map((name) => site(name, more[name] ?? {})) });
    await page.locator('nav a', { hasText: 'Sites' }).click();
    await seen('#sites [role=option]', /plant-d.*■ away/s);
    await seen('[id="site-plant-b"]', /■ 12.*▲ −7 s/s);
    await seen('[id="site-plant-b"]', /41 waiting/);
    await seen('[id="site-plant-c"]', /↓700 ↑95/);
    await seen('[id="site-plant-e"]', /■ 3 lost/);
    await seen('nav a[href="#/sites"]', /1\saway/);
    await seen('[data-trouble="1 site"]', /■ away/);
    await run.shot(page, 'sites');
    await page.fill('#filter', 'plant-c');
    await until('one site', async () => (await page.locator('#sites [role=option]').count()) === 1);
    await cause({ sites: [] });
  });

  await run.test('a core tells who leads, and is named where nobody does', async () => {
    const cluster = { cluster: 'grid', node: 'core1', role: 'leader', term: 7, leader: 'core1', lag: 0, trouble: '' };
    await cause({ cluster });
    await page.evaluate(() => void (location.hash = '#/status'));
    await seen('[data-cluster-role="leader"]', /leader.*grid, leader core1, term 7/s);
    await cause({ cluster: { ...cluster, role: 'standby', leader: undefined, lag: 12 } });
    await seen('[data-cluster-role="standby"]', /leader unknown, term 7, 12 messages behind the log/s);
    await seen('[data-trouble="core grid"]', /■ without a leader/);
    await cause({ cluster: null });
  });

  await run.test('a topic that is cleared leaves the tree', async () => {
    await page.evaluate(() => void (location.hash = '#/topics'));
    await page.fill('#filter', 'pv1/alarm/ground');
    await page.locator('[id="row-north/pv1/alarm/ground"]').waitFor();
    await cause({ remove: 'north/pv1/alarm/ground' });
    await page.locator('[id="row-north/pv1/alarm/ground"]').waitFor({ state: 'detached' });
    await page.fill('#filter', '');
  });

  await run.test('a node that goes away is said at once, and comes back by itself', async () => {
    await cause({ down: true });
    await seen('#link', /reconnecting/);
    await seen('#alarm-link', /Not live/);
    await run.shot(page, 'reconnecting');
    await cause({ down: false });
    await seen('#link', /^\s*live/);
    await page.locator('#alarm-link').waitFor({ state: 'detached' });
  });
  await run.test('a device that is away makes its groups bad, by the counts of the node, and $SYS counts for nothing', async () => {
    await cause({ device: 'north/pv2', state: 'away' });
    await page.evaluate(() => void (location.hash = '#/topics'));
    await page.fill('#filter', 'pv2');
    const group = (path) => page.locator(`[data-group="${path}"]`);
    for (const path of ['north', 'north/pv2']) {
      await until(`${path} is bad`, async () => (await group(path).getAttribute('data-group-quality')) === 'bad');
    }
    // Its six points, and the topic that holds them all, a second later.
    await until('all counted', async () => (await page.locator('.app').getAttribute('data-bad')) === '7');
    const [total, shown] = await page.evaluate(async () => {
      const { topics } = await (await fetch('/v1/topics?filter=%23&limit=1000')).json();
      return [topics.length, Number(document.querySelector('.app').dataset.total)];
    });
    assert(total === shown, `${shown} topics are counted, ${total} are there`);
    assert((await group('$SYS').count()) === 0, 'the node itself is a group');
    await cause({ device: 'north/pv2', state: 'online' });
    await until('all good', async () => (await group('north/pv2').getAttribute('data-group-quality')) === 'good');
    await page.fill('#filter', '');
  });

  await run.test('a published value shows its own quality and time', async () => {
    await cause({ publish: { topic: 'shop/pump', kind: 'point', value: { v: 5, q: 'bad', why: ['sensor broken'], t: '2020-01-02T03:04:05.000Z' } } });
    await cause({ publish: { topic: 'shop/bare', kind: 'json', value: 5 } });
    await page.evaluate(() => void (location.hash = '#/topics?point=shop/pump'));
    const point = page.locator('.point[data-topic="shop/pump"]');
    await until('bad', async () => (await point.getAttribute('data-quality').catch(() => '')) === 'bad');
    assert((await point.getAttribute('data-time')) === '2020-01-02T03:04:05.000Z', 'the time is not that of the value');
    await seen('.now', /bad · sensor broken.*2020-01-02.*2\d{3} d ago/s);
    await page.evaluate(() => void (location.hash = '#/topics?point=shop/bare'));
    await until('no quality', async () => (await page.locator('.point[data-topic="shop/bare"]').getAttribute('data-quality').catch(() => '')) === 'none');
    for (const topic of ['shop/pump', 'shop/bare']) await cause({ remove: topic });
    await page.evaluate(() => void (location.hash = '#/topics'));
  });

  await run.test('a node that stands still is marked within 5 s, and nothing is green', async () => {
    const root = page.locator('.app');
    await until('live', async () => (await root.getAttribute('data-link')) === 'live');
    const began = Date.now();
    await cause({ frozen: true });
    await until('it is marked', async () => (await root.getAttribute('data-link')) !== 'live', 10_000);
    const took = Date.now() - began;
    assert(took <= 5_000, `it took ${took} ms`);
    await seen('#alarm-link', /Not live.*said nothing for \d+ s.*\d+ s old/);
    const green = await page.evaluate(() => document.querySelectorAll('[data-stale=false], [data-group-stale=false], .q.good, .state.good, .calm').length);
    assert(green === 0, `${green} things are shown as if they were live`);
    await run.shot(page, 'frozen');
    await page.evaluate(() => void (location.hash = '#/devices'));
    await page.waitForTimeout(500);
    assert((await page.locator('#devices .state.good').count()) === 0, 'a device is shown online');
    const age = Number(await root.getAttribute('data-age-ms'));
    const really = Date.now() - began;
    assert(age >= really - 1_200 && age <= really + 1_500, `the age is ${age} ms, and the node stands still for ${really} ms`);
    await cause({ frozen: false });
    await until('live again', async () => (await root.getAttribute('data-link')) === 'live');
  });

  await run.test('an ended login is said, and leads back to where one was; a failed one keeps the user', async () => {
    await page.evaluate(() => void (location.hash = '#/topics?point=north/pv1/power'));
    await seen('#point-title', /power/);
    await cause({ login: '' });
    await seen('#alarm-link', /Not logged in/);
    assert((await page.locator('.app').getAttribute('data-link')) === 'login', 'it is not marked');
    await run.shot(page, 'logged-out');
    await page.click('#log-in');
    await page.fill('input[name=user]', 'anna');
    await page.fill('input[name=password]', 'wrong');
    await page.click('form button');
    await page.locator('text=The user or the password is wrong').waitFor();
    assert((await page.inputValue('input[name=user]')) === 'anna', 'the user has to be typed again');
    await run.shot(page, 'login');
    await page.goto(`${base}/#/topics?point=north/pv1/power`);
    await page.fill('input[name=user]', 'anna');
    await page.fill('input[name=password]', 'right');
    await page.click('form button');
    await seen('#point-title', /north\/pv1\/power/);
    await until('who it is', async () => (await page.locator('.app').getAttribute('data-user')) === 'anna');
    await run.shot(page, 'logged-in');
  });

  await run.test('only what one may do has a button, and what one may not see is not waited for', async () => {
    await cause({ may: { command: false, system: false, status: false, sessions: false, busiest: false, audit: false } });
    await page.goto(`${base}/#/topics?point=north/feeder1/breaker`);
    await page.reload();
    await seen('#may-not', /may not operate this point as anna/);
    await until('live', async () => (await page.locator('.app').getAttribute('data-link')) === 'live');
    assert((await page.locator('.operate').count()) === 0, 'there is a button');
    assert((await page.locator('nav a', { hasText: 'Sessions' }).count()) === 0, 'there is a view that may not be seen');
    await page.evaluate(() => void (location.hash = '#/status'));
    await seen('.overview', /may not see the status of the node/);
    assert((await page.locator('.waiting').count()) === 0, 'something is waited for');
    await run.shot(page, 'reader');
    await cause({ may: { command: true, system: true, status: true, sessions: true, busiest: true, audit: true } });
  });

  await run.test('one logs out', async () => {
    await page.reload();
    await page.locator('header .user button').click();
    await page.locator('input[name=password]').waitFor();
    await cause({ login: null });
  });

  await run.test('no wait is endless', async () => {
    await cause({ down: true });
    for (const view of ['topics', 'devices', 'sessions', 'status', 'topics?point=north/pv1/power', 'devices?device=north/pv1']) {
      await page.goto(`${base}/#/${view}`);
      await page.reload();
      await page.locator('.app').waitFor();
      await until(`${view} says what is the matter`, async () => {
        const waits = await page.locator('.waiting').evaluateAll((all) => all.map((one) => one.dataset.waiting));
        return waits.length > 0 && waits.every((word) => word === 'failed');
      }, 9_000);
      assert(!/Waiting for/.test(await page.locator('main').textContent()), `${view} is still waiting`);
    }
    await run.shot(page, 'waiting');
    await cause({ down: false });
    await until('live', async () => (await page.locator('.app').getAttribute('data-link')) === 'live');
  });
  await page.context().close();
  await run.test('the page is small', () => {
    const folder = new URL('../dist/', import.meta.url);
    // The documentation is not part of the console.
    const files = readdirSync(folder, { recursive: true }).filter((name) => /\.\w+$/.test(name) && !name.startsWith('docs/'));
    const languageOf = (name) => /^assets\/(\w+)\//.exec(name)?.[1];
    const names = files.filter((name) => !languageOf(name));
    const size = (name) => readFileSync(new URL(name, folder)).length;
    const plain = names.filter((name) => !/\.(br|gz)$/.test(name));
    // What a browser is sent: the packed file where there is one.
    const sent = plain.map((name) => size(names.includes(`${name}.br`) ? `${name}.br` : name));
    const isOf = (part) => (name) => name.includes(`/${part}-`);
    const sum = (of) => sent.reduce((bytes, one, i) => bytes + (of(plain[i]) ? one : 0), 0);
    const all = sum((name) => !Object.keys(APART_BYTES_MAX).some((part) => isOf(part)(name)));
    const first = size(names.find((name) => /index-.*\.js\.gz$/.test(name)));
    assert(first <= FIRST_VIEW_BYTES_MAX && all <= ALL_BYTES_MAX, `${first} bytes first, ${all} in all`);
    console.log(`        ${all} bytes in all, ${first} first`);
    for (const [part, most] of Object.entries(APART_BYTES_MAX)) {
      const bytes = sum(isOf(part));
      assert(bytes > 0 && bytes <= most, `${bytes} bytes of ${part}`);
      console.log(`        ${bytes} bytes of ${part}`);
    }
    const languages = [...new Set(files.map(languageOf).filter(Boolean))];
    assert(languages.length === 3, `languages: ${languages}`);
    const shared = plain.filter((name) => !name.endsWith('.js') || isOf('boot')(name)).reduce((bytes, name) => bytes + sent[plain.indexOf(name)], 0);
    for (const language of languages) {
      const own = files.filter((name) => languageOf(name) === language);
      assert(own.every((name) => /\.js\.(br|gz)$/.test(name)), `${language} has unpacked scripts`);
      const whole = shared + own.filter((name) => name.endsWith('.br') && !Object.keys(APART_BYTES_MAX).some((part) => isOf(part)(name))).reduce((bytes, name) => bytes + size(name), 0);
      const begin = size(own.find((name) => /index-.*\.js\.gz$/.test(name)));
      assert(begin <= TRANSLATED_BYTES_MAX.first && whole <= TRANSLATED_BYTES_MAX.all, `${language}: ${begin} bytes first, ${whole} in all`);
      console.log(`        ${whole} bytes in all of ${language}, ${begin} first`);
    }
  });
  await large(run);
}

/** 5,000 meters, 30,000 topics: beyond what is followed whole. */
async function large(run) {
  const mock = await startMock({ more: 5_000 });
  try {
    await run.test('a large node is read by pages and followed only where one looks', async () => {
      const page = await run.page(`${mock.url}/`, DESKTOP, EXPECTED);
      const asked = [];
      page.on('request', (request) => request.url().includes('/v1/live') && asked.push(decodeURIComponent(request.url())));
      await until('all names', async () => /20\.0k/.test((await page.locator('[id="row-fleet"]').textContent({ timeout: 500 }).catch(() => '')) ?? ''));
      for (const path of ['fleet', 'fleet/block1', 'fleet/block1/meter1', 'fleet/block1/meter1/voltage']) {
        const branch = page.locator(`[id="row-${path}"]`);
        if ((await branch.getAttribute('aria-expanded')) !== 'true') await branch.click();
      }
      const value = page.locator('[id="row-fleet/block1/meter1/voltage/a"] .value');
      const before = await value.textContent();
      await until('it is live', async () => (await value.textContent()) !== before);
      assert(asked.every((url) => !url.includes('filter=#')), `the whole node was asked for: ${asked}`);
      assert((await page.locator('[role=treeitem]').count()) < 80, 'rows out of view exist');
      // What nobody looks at is counted all the same.
      const trouble = (state) => fetch(`${mock.url}/mock`, { method: 'POST', body: JSON.stringify({ device: 'fleet/block100/meter5000', state }) });
      const says = (selector, name, value) => until(`${selector} says ${value}`, async () => (await page.locator(selector).getAttribute(name)) === value);
      await says('.app', 'data-bad', '0');
      await trouble('away');
      await says('.app', 'data-bad', '4');
      await says('[data-group="fleet"]', 'data-group-quality', 'bad');
      assert(!/no value is uncertain or bad/.test(await page.locator('.overview').textContent()), 'all is said to be well');
      await run.shot(page, 'large-bad');
      await trouble('online');
      await says('[data-group="fleet"]', 'data-group-quality', 'good');
      const stale = await page.locator('[role=treeitem][data-topic]').evaluateAll((rows) => rows.filter((row) => row.dataset.stale !== 'false').length);
      assert(stale === 0, `${stale} rows in view are not followed`);
      await run.shot(page, 'large');
      await page.context().close();
    });
  } finally {
    mock.close();
  }
}
