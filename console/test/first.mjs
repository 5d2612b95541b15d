// The first steps, in a browser on a node without devices and topics: TIELINE_URL=http://… TIELINE_BIN=… node test/first.mjs

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { assert, DESKTOP, reader, Runner, until } from './browser.mjs';
import { accessible } from './checks.mjs';

const BASE = process.env.TIELINE_URL.replace(/\/$/, '');
const HOST = BASE.replace(/^http:\/\//, '');
const BIN = process.env.TIELINE_BIN;

const run = new Runner();
await run.start();
const get = reader(BASE);
const page = await run.page(`${BASE}/`);
const guide = page.locator('#guide');
const step = (name) => guide.locator(`[data-step="${name}"]`).getAttribute('data-done', { timeout: 500 }).catch(() => null);
const becomes = (name, state) => until(`${name} is ${state}`, async () => (await step(name)) === state);
async function put(topic, value) {
  const response = await fetch(`${BASE}/v1/topics/${topic}`, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify(value) });
  assert(response.ok, await response.text());
}

await run.test('an empty node shows three ways to its first data, with commands and pages of this node', async () => {
  await until('it is empty', async () => (await guide.getAttribute('data-empty', { timeout: 500 }).catch(() => null)) === 'true');
  const titles = await guide.locator('h4').evaluateAll((all) => all.map((one) => one.firstChild.textContent.trim()));
  assert(titles.join() === 'Try the demonstration,Add a device,Import', titles.join());
  const pages = await guide.locator('a[href^="/docs/"]').evaluateAll((all) => all.map((one) => one.href));
  assert(pages.length >= 11, `${pages.length} pages`);
  for (const href of new Set(pages)) {
    const response = await fetch(href);
    assert(response.ok && response.headers.get('content-type').startsWith('text/html'), `${href}: HTTP ${response.status}`);
  }
  await run.shot(page, 'first');
});

await run.test('its commands are commands, and those for this node reach it', async () => {
  const commands = await guide.locator('code').evaluateAll((all) => all.map((one) => one.textContent));
  const verbs = commands.filter((text) => text.startsWith('tieline ')).map((text) => text.split(' ').slice(1));
  assert(verbs.length >= 11, commands.join('; '));
  for (const words of verbs) {
    const end = words.findIndex((word) => /[^a-z0-9]/.test(word));
    const help = execFileSync(BIN, [...words.slice(0, end < 0 ? words.length : end), '--help'], { encoding: 'utf8' });
    for (const option of words.filter((word) => word.startsWith('-'))) assert(help.includes(option), `${words.join(' ')}: no ${option}`);
  }
  const folder = mkdtempSync(join(tmpdir(), 'tieline-first-'));
  const backup = verbs.find(([verb]) => verb === 'backup');
  assert(backup.at(-1) === HOST, backup.join(' '));
  execFileSync(BIN, backup, { cwd: folder });
  assert(statSync(join(folder, backup[2])).size > 0, 'the backup is empty');
  rmSync(folder, { recursive: true });
  const [, metrics] = commands.find((text) => text.startsWith('curl ')).split(' ');
  assert((await (await fetch(metrics)).text()).includes('tieline_'), `${metrics} has no metrics`);
});

await run.test('the list says what the node says, and what it does not say is not known', async () => {
  const { history, devices } = await get('/v1/status');
  assert(history.state === 'ok' && devices.total === 0, 'the node is not as this test wants it');
  const wanted = { 'A device is online': 'open', 'All values are good': 'open', 'History is recording': 'done', 'Alarm rules': 'open', 'A second user': 'open', TLS: 'open', 'A backup of the last 7 days': 'unknown', 'Metrics are scraped': 'unknown' };
  for (const [name, state] of Object.entries(wanted)) await becomes(name, state);
  assert((await guide.locator('[data-step]').count()) === Object.keys(wanted).length, 'there are other steps');
  assert((await guide.getAttribute('data-open')) === '5', 'other steps are open');
});

for (const colorScheme of ['light', 'dark']) {
  await run.test(`no serious accessibility fault in ${colorScheme}`, async () => {
    const other = await run.page(`${BASE}/#/status`, { ...DESKTOP, colorScheme });
    await other.locator('#guide[data-empty=true]').waitFor();
    await accessible(other, 'first steps');
    await run.shot(other, `${colorScheme}-first`);
    await other.context().close();
  });
}

await run.test('a step ticks itself when the node has a value, and opens again when it is bad', async () => {
  await put('shop/pump', { v: 5, q: 'good' });
  await becomes('All values are good', 'done');
  await until('it is not empty', async () => (await guide.getAttribute('data-empty')) === 'false');
  assert((await guide.locator('h4').count()) === 0, 'the ways to the first data are still shown');
  await put('shop/pump', { v: 5, q: 'bad' });
  await becomes('All values are good', 'open');
});

await run.test('it is put away in this browser, and called back', async () => {
  await guide.getByRole('button', { name: 'Put away' }).click();
  await guide.waitFor({ state: 'detached' });
  await page.reload();
  await page.locator('[data-topic="shop/pump"]').first().waitFor();
  const back = page.getByRole('button', { name: 'First steps' });
  await back.waitFor();
  assert((await guide.count()) === 0, 'it came back by itself');
  await back.click();
  await becomes('History is recording', 'done');
});

await page.context().close();
process.exit(await run.finish());
