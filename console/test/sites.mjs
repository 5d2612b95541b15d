// Sites of a centre in a browser, by the keyboard: the worst first, and a picker. A centre with one site that is away and one that is up
// and has one active alarm: TIELINE_URL=http://… AWAY=name UP=name PREFIX=sites/ node test/sites.mjs

import { assert, DESKTOP, Runner, until } from './browser.mjs';
import { accessible } from './checks.mjs';

const BASE = process.env.TIELINE_URL.replace(/\/$/, '');
const { AWAY, UP, PREFIX } = process.env;

const run = new Runner();
await run.start();
const page = await run.page(`${BASE}/`);
await page.locator('nav a[href="#/sites"]').waitFor();
const press = async (...keys) => {
  for (const key of keys) await page.keyboard.press(key);
};
const attribute = (selector, name) => page.locator(selector).first().getAttribute(name, { timeout: 500 }).catch(() => null);
const row = (name) => `[data-site="${name}"]`;
const below = async (name) => {
  await until(`the filter is that of ${name}`, async () => (await page.locator('#filter').inputValue().catch(() => '')) === `${PREFIX}${name}/#`);
  const topics = () => page.locator('[role=treeitem][data-topic]').evaluateAll((all) => all.map(({ dataset }) => dataset.topic));
  await until('topics', async () => (await topics()).length > 0);
  const other = (await topics()).find((topic) => !topic.startsWith(`${PREFIX}${name}/`));
  assert(other === undefined, `${other} is no topic of ${name}`);
  await until('the top line', async () => (await page.locator('#site').textContent()).includes(name));
};
const shown = (page, name) => until(`${name} has its data`, async () => Number(await page.locator(row(name)).getAttribute(name === AWAY ? 'data-bad' : 'data-alarms-active', { timeout: 500 }).catch(() => 0)) > 0);

await run.test('two keys show the worst site first, with its bad values, and the alarms of the other', async () => {
  await press('g', 'c');
  await shown(page, AWAY);
  await shown(page, UP);
  const names = await page.locator('#sites [role=option]').evaluateAll((all) => all.map(({ dataset }) => dataset.site));
  assert(names.join() === `${AWAY},${UP}`, names.join());
  assert((await attribute(row(AWAY), 'data-state')) === 'away' && (await attribute(row(UP), 'data-state')) === 'up', 'other states');
  assert((await attribute(row(UP), 'data-bad')) === '0' && (await attribute(row(UP), 'data-alarms-active')) === '1', 'the site that is up has other data');
  await run.shot(page, 'centre-sites');
});

await run.test('a site opens its topics', async () => {
  await page.locator('#sites').focus();
  await press('Home', 'Enter');
  await below(AWAY);
});

await run.test('the picker has the worst first, finds a site by its name, and leads back to all', async () => {
  await press('g', 'p');
  await until('the worst is first', async () => (await page.locator('#found li').first().textContent().catch(() => '')).includes(`${AWAY}away`));
  await page.keyboard.type(UP);
  await until('one site', async () => (await page.locator('#found li[data-kind=site]').count()) === 1);
  await press('Enter');
  await below(UP);
  await press('g', 'p');
  await until('both sites', async () => (await page.locator('#found li[data-kind=site]').count()) === 2);
  await run.shot(page, 'centre-picker');
  await press('ArrowUp', 'Enter');
  await page.locator('#sites').waitFor();
  await until('all sites', async () => (await page.locator('#site').textContent()).includes('all sites'));
  await press('g', 't');
  await until('no filter', async () => (await page.locator('#filter').inputValue().catch(() => null)) === '');
});

for (const colorScheme of ['light', 'dark']) {
  await run.test(`no serious accessibility fault in ${colorScheme}`, async () => {
    const other = await run.page(`${BASE}/#/sites`, { ...DESKTOP, colorScheme });
    await shown(other, AWAY);
    await shown(other, UP);
    await accessible(other, 'sites');
    await run.shot(other, `${colorScheme}-centre-sites`);
    await other.keyboard.press('g');
    await other.keyboard.press('p');
    await other.locator('#found li[data-kind=site]').first().waitFor();
    await accessible(other, 'the picker');
    await other.context().close();
  });
}

await page.context().close();
process.exit(await run.finish());
