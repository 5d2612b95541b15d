import { DESKTOP, PHONE, Runner, until } from './browser.mjs';
const BASE = 'http://127.0.0.1:8099';
const run = new Runner(); await run.start();
for (const [name, opt] of [['light', { ...DESKTOP, colorScheme: 'light' }], ['dark', { ...DESKTOP, colorScheme: 'dark' }], ['phone', PHONE]]) {
  const page = await run.page(`${BASE}/#/topics`, opt);
  await page.locator('#alarm-banner').waitFor();
  await page.waitForTimeout(700);
  await run.shot(page, `al-${name}-topics`);
  await page.goto(`${BASE}/#/alarms`); await page.locator('[data-alarm]').first().waitFor(); await page.waitForTimeout(300);
  await run.shot(page, `al-${name}-list`);
  await page.locator('[data-alarm="north/feeder2|away"]').click(); await page.waitForTimeout(500);
  await run.shot(page, `al-${name}-detail`);
  await page.locator('article .group button', { hasText: 'Shelve' }).click(); await page.waitForTimeout(300);
  await run.shot(page, `al-${name}-shelve`);
  await page.goto(`${BASE}/#/alarms?tab=aside`); await page.waitForTimeout(400); await run.shot(page, `al-${name}-aside`);
  await page.goto(`${BASE}/#/alarms?tab=journal`); await page.waitForTimeout(500); await run.shot(page, `al-${name}-journal`);
}
console.log(run.errors.join('\n'));
await run.browser.close();
