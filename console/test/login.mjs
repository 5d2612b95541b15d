// The console against a node whose users log in: TIELINE_URL=http://… node test/login.mjs
// The user anna (password-anna) may read site/#, and neither operate nor see the node.

import { assert, DESKTOP, Runner, until } from './browser.mjs';

const BASE = process.env.TIELINE_URL.replace(/\/$/, '');
const HASH = '#/topics?point=site/pump';
const run = new Runner();
await run.start();
const page = await run.page(`${BASE}/${HASH}`, DESKTOP, /Failed to load resource|ERR_/);
const root = page.locator('.app');
const says = (name, value) => until(`${name} is ${value}`, async () => (await root.getAttribute(name).catch(() => null)) === value);

async function logIn(password) {
  await page.fill('input[name=password]', password);
  await page.click('form button');
}

await run.test('a failed login keeps the user, and one that is right leads to the view that was asked for', async () => {
  await page.fill('input[name=user]', 'anna');
  await logIn('wrong');
  await page.locator('text=The user or the password is wrong').waitFor();
  assert((await page.inputValue('input[name=user]')) === 'anna', 'the user has to be typed again');
  await logIn('password-anna');
  await says('data-link', 'live');
  assert(page.url() === `${BASE}/${HASH}`, page.url());
  await says('data-user', 'anna');
  const point = page.locator('.point[data-topic="site/pump"]');
  await until('its value', async () => (await point.getAttribute('data-value').catch(() => '')) === '5');
});

await run.test('what may not be read is neither shown nor counted', async () => {
  await says('data-counts', 'complete');
  await says('data-total', '1');
  assert((await page.locator('[data-topic^="site/secret"]').count()) === 0, 'a secret is shown');
});

await run.test('who may not end a reservation is not asked whether to, and one ends one’s own', async () => {
  const reserve = async (user, task, device) => {
    const headers = { authorization: `Basic ${btoa(`${user}:password-${user}`)}`, 'content-type': 'application/json' };
    const body = { task, requester: 'optimizer', priority: 'LOW', slots: [{ device, for: '1h' }], lease: 'none' };
    return (await fetch(`${BASE}/v1/reservations`, { method: 'POST', headers, body: JSON.stringify(body) })).ok;
  };
  await until('bert may come in', () => reserve('bert', 'of another', 'site/pump'));
  assert(await reserve('anna', 'own', 'site/valve'), 'anna cannot reserve');
  await page.evaluate(() => void (location.hash = '#/reservations?task=of another'));
  await page.locator('#reservations [data-held="site/pump"][data-requester="bert/optimizer"]').waitFor();
  await page.locator('.tenure', { hasText: 'bert/optimizer, LOW' }).waitFor();
  assert((await page.locator('.tenure button', { hasText: 'End' }).count()) === 0, 'a button that is not allowed');
  await page.locator('#reservations [data-held="site/valve"]').click();
  await page.locator('.tenure button', { hasText: 'End…' }).click();
  await page.click('#end');
  await page.locator('#reservations [data-held="site/valve"]').waitFor({ state: 'detached' });
});

await run.test('a login that ends is said at once, and leads back', async () => {
  await page.evaluate(() => void (location.hash = '#/devices'));
  await page.context().request.post(`${BASE}/logout`, { headers: { origin: BASE } });
  await says('data-link', 'login');
  await page.click('#log-in');
  await page.fill('input[name=user]', 'anna');
  await logIn('password-anna');
  await says('data-link', 'live');
  assert(page.url() === `${BASE}/#/devices`, page.url());
});

await run.test('one logs out', async () => {
  await page.locator('header .user button').click();
  await page.locator('input[name=password]').waitFor();
  const status = await page.evaluate(async () => (await fetch('/v1/me')).status);
  assert(status === 401, `/v1/me answers ${status}`);
});

process.exit(await run.finish());
