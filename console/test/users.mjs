// Users in the console, on a node whose users log in: TIELINE_URL=http://… node test/users.mjs
// The user ada (password-ada) is a SECADM, sec a SECAUD, and anna may neither see nor change users.

import { assert, DESKTOP, PHONE, Runner, until } from './browser.mjs';
import { accessible } from './checks.mjs';

const BASE = process.env.TIELINE_URL.replace(/\/$/, '');
const run = new Runner();
await run.start();

async function logIn(user, options = DESKTOP, password = `password-${user}`) {
  const page = await run.page(`${BASE}/#/users`, options, /Failed to load resource|ERR_/);
  await page.fill('input[name=user]', user);
  await page.fill('input[name=password]', password);
  await page.click('form button');
  await page.locator('#me').waitFor();
  return page;
}

const page = await logIn('ada');
const row = (user) => page.locator(`#users tr[data-user="${user}"]`);
const has = (user, name, value) => until(`${name} of ${user} is ${value}`, async () => (await row(user).getAttribute(name).catch(() => null)) === value);
const open = (user, kind) => row(user).locator(`[data-change="${kind}"]`).click();
const said = (text) => until(`it says ${text}`, async () => ((await page.locator('#said').textContent()) ?? '').includes(text));

await run.test('an administrator sees users, roles and logins', async () => {
  await has('anna', 'data-roles', 'works');
  await until('its own login', async () => (await page.locator('#logins tr[data-own="true"][data-user="ada"]').count()) === 1);
  await page.locator('#roles tr[data-role="works"]', { hasText: 'deny read site/secret/#' }).waitFor();
  assert(/ada with SECADM/.test(await page.locator('#me').textContent()), 'it does not say who one is');
  assert((await row('ada').locator('td').nth(2).textContent()) !== '–', 'no last login');
  await accessible(page, 'users');
  await run.shot(page, 'users');
});

await run.test('a user is added with the keyboard alone, and what is refused stays to be mended', async () => {
  await page.focus('#add-user');
  await page.keyboard.press('Enter');
  await page.locator('#change').waitFor();
  await accessible(page, 'adding a user');
  await page.keyboard.type('eve');
  await until('the role has the focus', async () => {
    await page.keyboard.press('Tab');
    return page.evaluate(() => document.activeElement.value === 'VIEWER');
  });
  await page.keyboard.press('Space');
  await page.fill('#change input[name=password]', 'short');
  await page.keyboard.press('Enter');
  await page.locator('#change [role=alert]', { hasText: 'expected 12 at least' }).waitFor();
  await page.fill('#change input[name=password]', 'password-eve');
  await page.keyboard.press('Enter');
  await said('eve is added.');
  await has('eve', 'data-roles', 'VIEWER');
});

await run.test('roles, disabling and removing are asked before and hold after', async () => {
  await open('eve', 'roles');
  await page.check('#change input[value="works"]');
  await page.uncheck('#change input[value="VIEWER"]');
  await page.click('#do-change');
  await has('eve', 'data-roles', 'works');
  await open('eve', 'disable');
  await page.keyboard.press('Escape');
  await page.locator('#change').waitFor({ state: 'detached' });
  await has('eve', 'data-disabled', 'false');
  await open('eve', 'disable');
  await page.click('#do-change');
  await has('eve', 'data-disabled', 'true');
  await open('eve', 'enable');
  await page.click('#do-change');
  await has('eve', 'data-disabled', 'false');
  await open('eve', 'password');
  await page.fill('#change input[name=password]', 'another-password');
  await page.click('#do-change');
  await said('eve has another password.');
  const eve = await logIn('eve', DESKTOP, 'another-password');
  assert((await eve.locator('#users').count()) === 0 && (await eve.locator('nav a[href="#/users"]').count()) === 0, 'eve sees users');
  await eve.context().close();
  await open('eve', 'remove');
  await page.click('#do-change');
  await row('eve').waitFor({ state: 'detached' });
});

await run.test('one cannot lock oneself out', async () => {
  await open('ada', 'disable');
  await page.click('#do-change');
  await page.locator('#change [role=alert]', { hasText: 'from yourself' }).waitFor();
  await page.locator('#change button', { hasText: 'Cancel' }).click();
  await has('ada', 'data-disabled', 'false');
});

await run.test('it says why a user may do something, and which rule decides', async () => {
  await row('anna').locator('button', { hasText: 'Why' }).click();
  await until('the topic is asked for', () => page.evaluate(() => document.activeElement.name === 'topic'));
  await page.keyboard.type('site/secret/x');
  await page.keyboard.press('Enter');
  await page.locator('#answer', { hasText: 'anna may not read site/secret/x: a rule that denies outweighs all that allow.' }).waitFor();
  await page.locator('#why-rules tr[data-is="denies"]', { hasText: 'deny read site/secret/#' }).waitFor();
  await page.fill('#why input[name=user]', 'nobody');
  await page.click('#why button');
  await page.locator('#answer', { hasText: 'there is no user' }).waitFor();
  await accessible(page, 'an answer');
});

await run.test('one ends one’s other logins', async () => {
  const other = await logIn('ada', PHONE);
  await accessible(other, 'users on a phone');
  await page.click('#end-others');
  await said('1 other login has ended.');
  await until('the other is logged out', async () => (await other.locator('.app').getAttribute('data-link').catch(() => 'login')) === 'login');
  await other.context().close();
});

await run.test('who may only read has no button that changes anything, and g u leads there', async () => {
  const sec = await logIn('sec');
  await sec.evaluate(() => void (location.hash = '#/topics'));
  await sec.locator('#users').waitFor({ state: 'detached' });
  await sec.keyboard.press('g');
  await sec.keyboard.press('u');
  await sec.locator('#users tr[data-user="anna"]').waitFor();
  assert((await sec.locator('[data-change], #add-user').count()) === 0, 'a button that is not allowed');
  await sec.context().close();
});

process.exit(await run.finish());
