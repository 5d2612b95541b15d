// The documentation of a node in a real browser: TIELINE_URL=http://… node test/docs.mjs

import { assert, PHONE, Runner } from './browser.mjs';
import { accessible } from './checks.mjs';

const BASE = process.env.TIELINE_URL.replace(/\/$/, '');
const GROUPS = ['Start', 'Do', 'Look up', 'Understand', 'Runbook', 'By example'];
const run = new Runner();
await run.start();
const page = await run.page(`${BASE}/docs/`);
const open = (name) => page.goto(`${BASE}/docs/${name}.html`);
const shown = () => page.locator('.tabs figure:visible');
const selected = () => page.locator('[role=tab][aria-selected=true]').allTextContents();

await run.test('the groups of the first page are its menu', async () => {
  const links = page.locator('header nav a');
  assert(JSON.stringify(await links.allTextContents()) === JSON.stringify(GROUPS), await links.allTextContents());
  for (const group of GROUPS) {
    await links.filter({ hasText: group }).first().click();
    const anchor = new URL(page.url()).hash.slice(1);
    assert((await page.locator(`h2[id="${anchor}"]`).textContent()) === group, `${group} leads to #${anchor}`);
  }
  await accessible(page, 'the first page');
});

await run.test('a page names its group, and the pages beside it', async () => {
  await open('alarms');
  assert((await page.locator('header nav [aria-current]').textContent()) === 'Do', 'the group of alarms');
  assert((await page.locator('#group [aria-current=page]').textContent()) === 'Alarms', 'the page is marked');
  await page.locator('#group a', { hasText: 'Notifications' }).click();
  await page.waitForURL(/notify\.html$/);
});

await run.test('an example shows one language, and all examples the same', async () => {
  await open('examples');
  const examples = await page.locator('.tabs').count();
  assert(examples >= 8 && (await shown().count()) === examples, `${await shown().count()} blocks of ${examples} examples`);
  assert((await selected()).every((name) => name === 'Shell'), await selected());
  await page.getByRole('tab', { name: 'Python' }).nth(2).click();
  assert((await selected()).every((name) => name === 'Python') && (await shown().count()) === examples, await selected());
  await page.keyboard.press('ArrowRight');
  assert((await selected()).every((name) => name === 'TypeScript'), await selected());
  assert((await shown().first().textContent()).includes('tieline/client'), await shown().first().textContent());
  await accessible(page, 'the examples');
  await open('examples-alarms');
  assert((await selected()).every((name) => name === 'TypeScript'), 'the choice is remembered');
});

await run.test('images are shown', async () => {
  await open('diagrams');
  const image = page.locator('main img').first();
  await image.scrollIntoViewIfNeeded();
  await page.waitForFunction(() => document.querySelector('main img').naturalWidth > 0);
});

await run.test('no page is wider than a phone', async () => {
  const phone = await run.page(`${BASE}/docs/examples.html`, PHONE);
  const wide = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert(wide <= 0, `${wide} px too wide`);
});

process.exit(await run.finish());
