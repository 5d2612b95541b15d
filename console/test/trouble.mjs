// What the console says when things go wrong, made with the stand-in node.

import { readdirSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { assert, DESKTOP, until } from './browser.mjs';
import { startMock } from './mock.mjs';

/** What the page may weigh in octets of gzip: its script before a chart is shown, and all of it. */
const FIRST_VIEW_OCTETS_MAX = 46_000;
const SCRIPT_OCTETS_MAX = 70_000;
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
  await page.context().close();
  await run.test('the page is small', () => {
    const folder = new URL('../dist/assets/', import.meta.url);
    const sizes = readdirSync(folder).filter((name) => name.endsWith('.js'))
      .map((name) => ({ name, octets: gzipSync(readFileSync(new URL(name, folder)), { level: 9 }).length }));
    const all = sizes.reduce((sum, { octets }) => sum + octets, 0);
    const first = sizes.find(({ name }) => name.startsWith('index')).octets;
    assert(first <= FIRST_VIEW_OCTETS_MAX && all <= SCRIPT_OCTETS_MAX, `${first} octets first, ${all} in all`);
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
      await run.shot(page, 'large');
      await page.context().close();
    });
  } finally {
    mock.close();
  }
}
