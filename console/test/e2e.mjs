// The console in a real browser against a node: TIELINE_URL=http://… node test/e2e.mjs
// Without TIELINE_URL a stand-in node is started, and the tests that need trouble run as well.
// SCREENSHOTS names a folder for pictures. Prints `N passed, N failed`; the exit code says the same.

import { assert, DESKTOP, PHONE, reader, Runner, until } from './browser.mjs';
import { accessible, colorsOf } from './checks.mjs';
import { startMock } from './mock.mjs';
import { trouble } from './trouble.mjs';

const mock = process.env.TIELINE_URL ? null : await startMock();
const BASE = (process.env.TIELINE_URL ?? mock.url).replace(/\/$/, '');
const run = new Runner();
await run.start();

const get = reader(BASE);

/** What the node offers: the test takes its subjects from here, so that any node with devices will do. */
async function survey() {
  const online = await until('a device is online', async () => {
    const { devices } = await get('/v1/devices');
    return devices.find((d) => d.state === 'online') && devices.filter((d) => d.state === 'online').map((d) => d.topic);
  }, 60_000);
  const { points } = await get('/v1/points?filter=%23&limit=1000');
  const there = points.filter((p) => online.includes(p.device));
  const bools = there.filter((p) => p.writable && p.kind === 'bool');
  const breaker = bools.find((p) => /breaker/.test(p.topic)) ?? bools[0];
  const number = there.find((p) => p.writable && p.kind !== 'bool' && typeof p.max === 'number');
  const moving = await until('a measurement moves', async () => {
    const before = await values();
    await new Promise((done) => setTimeout(done, 1_500));
    const after = await values();
    return there.find((p) => p.kind === 'float' && !p.writable && before.has(p.topic) && before.get(p.topic) !== after.get(p.topic))?.topic;
  }, 60_000);
  assert(breaker, 'no writable two-state point is configured on a device that is online');
  return { online, breaker: breaker.topic, number, moving };
}

async function values() {
  const { topics } = await get('/v1/topics?filter=%23&limit=1000');
  return new Map(topics.filter((t) => t.kind === 'point').map((t) => [t.topic, t.value.v]));
}

const row = (page, topic) => page.locator(`[role=treeitem][id="row-${topic}"]`);
const go = (page, hash) => page.evaluate((to) => void (location.hash = to), hash);

/** Filters for a topic so that its row is in view. */
async function find(page, topic) {
  await page.fill('#filter', topic);
  await row(page, topic).waitFor();
  return row(page, topic);
}

const drawn = (page) => colorsOf(page, '#chart canvas');

const bigValue = async (page) => (await page.locator('#big-value').textContent())?.trim() ?? '';

/** Two steps: choose the state, check what the confirmation says, go through. Returns the result's text. */
async function operate(page, topic, label) {
  await page.locator('.operate .pair button', { hasText: label }).click();
  const ask = page.locator('[role=alertdialog]');
  await ask.waitFor();
  const said = await ask.textContent();
  assert(said.includes(topic), `the confirmation does not name the point: ${said}`);
  assert(said.includes(`→ ${label.toLowerCase()}`) || said.includes(label.toLowerCase()), `nor the new value: ${said}`);
  assert(await page.evaluate(() => document.activeElement?.textContent === 'Cancel'), 'the keyboard is not on Cancel');
  await run.shot(page, 'operate-confirm');
  await page.click('#confirm');
  const result = page.locator('#command-result');
  await until('a result', async () => /Done|Refused|unknown/.test((await result.textContent()) ?? ''));
  return (await result.textContent()).trim();
}

const subject = await survey();
console.log(`node ${BASE}: ${subject.online.length} devices online; ${subject.moving} moves, ${subject.breaker} is operated`);
const page = await run.page(`${BASE}/`);

await run.test('the tree shows live values', async () => {
  await until('live', async () => (await page.locator('#link').textContent())?.includes('live'));
  await until('rows', async () => (await page.locator('[role=treeitem]').count()) > 1);
  const line = await find(page, subject.moving);
  await until('a value', async () => /\d/.test((await line.locator('.value').textContent()) ?? ''));
  assert((await line.locator('.quality').textContent()).includes('good'), 'the quality is not shown');
  assert(/\d+ (s|min|h)/.test(await line.locator('.age').textContent()), 'the age is not shown');
});

await run.test('a value changes by itself', async () => {
  const value = row(page, subject.moving).locator('.value');
  const before = await value.textContent();
  await until('another value', async () => (await value.textContent()) !== before);
  await until('a sparkline', async () => ((await row(page, subject.moving).locator('.spark path').getAttribute('d')) ?? '').length > 10);
  await page.fill('#filter', '');
  await page.waitForTimeout(500);
  await run.shot(page, 'topics');
});

await run.test('the filter takes words and MQTT filters, and says what is wrong', async () => {
  await page.fill('#filter', 'no such topic anywhere');
  await page.locator('text=Nothing matches this filter').waitFor();
  await page.fill('#filter', `${subject.moving.split('/')[0]}/#`);
  await until('matches', async () => /\d+ of \d+/.test((await page.locator('#filter-note').textContent()) ?? ''));
  await page.fill('#filter', 'a/#/b');
  await until('the error', async () => (await page.locator('#filter-note').textContent())?.includes('last level'));
  await page.fill('#filter', '');
});

await run.test('the tree remembers what is open', async () => {
  const state = () => page.locator('[role=treeitem][aria-level="1"]').first().getAttribute('aria-expanded');
  const before = await state();
  await page.locator('[role=treeitem][aria-level="1"] .twist').first().click();
  await until('toggled', async () => (await state()) !== before);
  await page.reload();
  await until('kept', async () => (await page.locator('[role=treeitem]').count()) > 0 && (await state()) !== before);
  await page.locator('[role=treeitem][aria-level="1"] .twist').first().click();
});

await run.test('a point shows its value and draws its history', async () => {
  await (await find(page, subject.moving)).click();
  await until('the value', async () => /\d/.test(await bigValue(page)));
  await until('rows of history', async () => Number(await page.locator('#chart').getAttribute('data-rows')) > 0);
  await until('a drawn chart', async () => (await drawn(page)) > 1);
  await page.locator('.ranges button', { hasText: '1 h' }).click();
  await until('buckets', async () => /of 10s/.test((await page.locator('.foot').textContent()) ?? ''));
  await until('a drawn chart', async () => (await drawn(page)) > 1);
  await page.waitForTimeout(300);
  await run.shot(page, 'point');
});

await run.test('a span of the chart is zoomed into, and typed', async () => {
  const { x, y, width } = await page.locator('#chart .u-over').boundingBox();
  await page.mouse.move(x + width * 0.5, y + 50);
  await page.mouse.down();
  await page.mouse.move(x + width * 0.9, y + 60, { steps: 5 });
  await page.mouse.up();
  await until('a range of its own', async () => (await page.locator('.ranges button', { hasText: 'custom' }).getAttribute('aria-pressed')) === 'true');
  await page.locator('.ranges button', { hasText: 'custom' }).click();
  const time = (ago) => new Date(Date.now() - ago - new Date().getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
  await page.fill('input[name=from]', time(120_000));
  await page.fill('input[name=to]', time(0));
  await run.shot(page, 'point-custom');
  await page.locator('.custom button').click();
  await until('values as recorded', async () => /as recorded|No change/.test((await page.locator('.foot').textContent()) ?? ''));
  await page.locator('.ranges button', { hasText: '5 min' }).click();
});

await run.test('recorded values are edited and annotated, and the edit is undone', async () => {
  const choose = (kind) => page.locator('#edits .title select').selectOption(kind);
  await until('rows of history', async () => Number(await page.locator('#chart').getAttribute('data-rows')) > 0);
  await choose('annotation');
  await page.fill('#edit-form input[name=text]', 'sensor replaced');
  await page.fill('#edit-form input[name=why]', 'log book 311');
  await page.locator('#edit-form .primary').click();
  await page.locator('#edits li[data-kind=annotation]', { hasText: 'sensor replaced' }).waitFor();
  await choose('value');
  await page.fill('#edit-form input[name=from]', 'noon');
  await page.fill('#edit-form input[name=v]', '4.25');
  await page.fill('#edit-form input[name=why]', 'frozen');
  await page.locator('#edit-form .primary').click();
  await page.locator('#edits .bad', { hasText: "from is 'noon', expected a time" }).waitFor();
  await page.fill('#edit-form input[name=from]', new Date(Date.now() - 240_000).toISOString());
  await page.locator('#edit-form .primary').click();
  const made = page.locator('#edits li[data-kind=value]', { hasText: '→ 4.25' });
  await made.waitFor();
  await page.locator('#edited').waitFor();
  await run.shot(page, 'edited');
  await accessible(page, 'a point whose history is edited');
  await page.locator('.raw input').check();
  await page.locator('#edited').waitFor({ state: 'detached' });
  await page.locator('.raw input').uncheck();
  await page.locator('#edited').waitFor();
  for (const kind of ['value', 'annotation']) {
    const item = page.locator(`#edits li[data-kind=${kind}]`);
    await item.locator('button', { hasText: 'Undo…' }).click();
    await item.locator('input[name=why]').fill('a test');
    await item.locator('.primary').click();
    await item.waitFor({ state: 'detached' });
  }
  await page.locator('#edited').waitFor({ state: 'detached' });
});

await run.test('commands for other tools can be copied', async () => {
  const texts = await page.locator('.snippet code').allTextContents();
  for (const word of ['mosquitto_sub', 'curl', 'tieline sub']) assert(texts.some((t) => t.startsWith(word)), `${word} is missing`);
  await page.locator('.snippet button').first().click();
  await page.locator('text=✓ copied').waitFor();
});

await run.test('a breaker is operated with confirmation, and back', async () => {
  await go(page, `#/topics?point=${encodeURIComponent(subject.breaker)}`);
  await page.locator('.operate').waitFor();
  const before = await until('its state', async () => /^(on|off)$/.exec(await bigValue(page))?.[0]);
  const labels = before === 'on' ? ['Off', 'On'] : ['On', 'Off'];
  for (const label of labels) {
    const result = await operate(page, subject.breaker, label);
    assert(result.includes('Done'), `the command did not succeed: ${result}`);
    if (label === labels[0]) await run.shot(page, 'operate-done');
    await until(`the point is ${label}`, async () => (await bigValue(page)) === label.toLowerCase());
  }
  await until('audit entries', async () => (await page.locator('#audit li').count()) >= 2);
});

await run.test('a confirmation can be cancelled', async () => {
  await page.locator('.operate .pair button').first().click();
  await page.locator('[role=alertdialog]').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('[role=alertdialog]').waitFor({ state: 'detached' });
  assert(page.url().includes('point='), 'Escape closed the panel as well');
  assert(await page.evaluate(() => document.activeElement?.closest('.operate') !== null), 'the keyboard is lost');
});

if (subject.number) {
  await run.test('a value beyond the limits is refused before it is sent', async () => {
    await go(page, `#/topics?point=${encodeURIComponent(subject.number.topic)}`);
    await page.fill('.operate input', String(subject.number.max + 1));
    await page.locator('text=above the maximum').waitFor();
    assert(await page.locator('.operate button[type=submit]').isDisabled(), 'Set can be pressed');
  });
}

await run.test('devices show health, counters and points', async () => {
  await go(page, '#/devices');
  const list = page.locator('#devices [role=option]');
  await until('devices', async () => (await list.count()) > 0);
  assert((await page.locator('#devices').textContent()).includes('online'), 'no device is shown online');
  await page.locator(`[id="device-${subject.online[0]}"]`).click();
  await until('its points', async () => (await page.locator('#device-points [role=option]').count()) > 0);
  await until('counters', async () => (await page.locator('#device-stats > div').count()) > 0);
  await page.waitForTimeout(500);
  await run.shot(page, 'devices');
  await page.locator('#device-points [role=option]').first().click();
  await page.locator('#point-title').waitFor();
});

await run.test('sessions show who is behind and what was lost, busy topics beside them', async () => {
  await go(page, '#/sessions');
  await page.locator('#sessions').waitFor();
  await until('busy topics', async () => (await page.locator('#busiest tbody tr').count()) > 0, 30_000);
  const { sessions, connected } = await get('/v1/sessions?limit=1000');
  await until('the count', async () => (await page.locator('[aria-label="MQTT sessions"] .bar').textContent()).includes(`${connected} connected`));
  const list = page.locator('#sessions [role=option]');
  if (sessions.length > 0) {
    await until('its clients', async () => (await list.count()) > 0);
    await page.selectOption('#order', 'client');
    const first = sessions.map((session) => session.client).sort()[0];
    await until('another order', async () => (await list.first().textContent()).includes(first));
  }
  await run.shot(page, 'sessions');
  await page.fill('#filter', 'no such client anywhere');
  await page.locator('text=No client matches').waitFor();
  await page.fill('#filter', '');
  await page.locator('#busiest tbody button').first().click();
  await page.locator('#point-title').waitFor();
  await page.keyboard.press('Escape');
});

/** Asks the node as a program does. */
const post = async (path, body) => {
  const response = await fetch(`${BASE}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  assert(response.ok, `${path}: HTTP ${response.status} ${await response.text()}`);
};

await run.test('reservations show who has which device, and are ended in two steps', async () => {
  const [device] = subject.online;
  const slots = [{ device, for: '30m' }];
  await post('/v1/reservations', { task: 'e2e night', requester: 'optimizer', priority: 'LOW', slots, lease: 'none' });
  await go(page, '#/devices');
  for (const key of ['g', 'r']) await page.keyboard.press(key);
  const line = page.locator(`#reservations [data-held="${device}"][data-task="e2e night"]`);
  await line.waitFor();
  assert((await line.getAttribute('data-requester')) === 'optimizer' && (await line.getAttribute('data-state')) === 'held', 'who has it is not said');
  assert(/(30|29) min left/.test(await line.textContent()), await line.textContent());
  await page.fill('#filter', 'e2e night');
  await until('one row', async () => (await page.locator('#reservations [role=option]').count()) === 1);
  await page.locator('#reservations').focus();
  for (const key of ['ArrowDown', 'Enter']) await page.keyboard.press(key);
  await until('its panel', async () => (await page.locator('#tenure-title').textContent().catch(() => '')) === 'e2e night');
  await run.shot(page, 'reservation');
  await page.locator('.tenure button', { hasText: 'End…' }).focus();
  await page.keyboard.press('Enter');
  await until('the focus is on Cancel', () => page.evaluate(() => document.activeElement?.textContent === 'Cancel'));
  await page.keyboard.press('Enter');
  await page.locator('.tenure [role=alertdialog]').waitFor({ state: 'detached' });
  assert((await get('/v1/reservations')).reservations.some(({ task }) => task === 'e2e night'), 'Cancel has ended it');
  await page.locator('.tenure button', { hasText: 'End…' }).click();
  await page.click('#end');
  await page.locator('.tenure').waitFor({ state: 'detached' });
  await line.waitFor({ state: 'detached' });
  assert(!(await get('/v1/reservations')).reservations.some(({ task }) => task === 'e2e night'), 'it has not ended');
  await page.fill('#filter', '');
});

await run.test('a tag is placed where it is needed, refuses a command, and is lifted', async () => {
  await go(page, `#/topics?point=${encodeURIComponent(subject.breaker)}`);
  await page.click('#tag');
  await page.fill('.tagging input', 'e2e permit 4711');
  await page.keyboard.press('Enter');
  await page.locator('.held li[data-state=do_not_operate]', { hasText: 'Do not operate: e2e permit 4711' }).waitFor();
  await page.locator('.tagging').waitFor({ state: 'detached' });
  await run.shot(page, 'tag-point');
  const { tags } = await get('/v1/tags');
  const { id } = tags.find(({ why }) => why === 'e2e permit 4711');
  await go(page, `#/reservations?pattern=${encodeURIComponent(`tag ${id}`)}`);
  await page.locator('.tenure', { hasText: 'e2e permit 4711' }).waitFor();
  await run.shot(page, 'tag-list');
  await page.locator('.tenure button', { hasText: 'Lift…' }).click();
  await page.locator('.tenure [role=alertdialog]', { hasText: 'Is everybody clear' }).waitFor();
  await page.click('#end');
  await page.locator('.tenure').waitFor({ state: 'detached' });
  assert((await get('/v1/tags')).tags.every((tag) => tag.id !== id), 'the tag is there');
});

await run.test('where a device is commanded, it says who has it', async () => {
  const device = subject.online.find((topic) => subject.breaker.startsWith(`${topic}/`));
  await post('/v1/reservations', { task: 'e2e peak', requester: 'optimizer', priority: 'LOW', slots: [{ device, for: '30m' }], lease: 'none' });
  await post('/v1/overrides', { pattern: device });
  for (const hash of [`#/topics?point=${encodeURIComponent(subject.breaker)}`, `#/devices?device=${encodeURIComponent(device)}`]) {
    await go(page, hash);
    await page.locator('.held li[data-state=held]', { hasText: 'Reserved for e2e peak by optimizer' }).waitFor();
    await page.locator('.held li[data-state=override]', { hasText: 'until it is set off' }).waitFor();
    await run.shot(page, hash.includes('point') ? 'held-point' : 'held-device');
  }
  await go(page, `#/reservations?pattern=${encodeURIComponent(device)}`);
  await page.locator('.tenure button', { hasText: 'End…' }).click();
  await page.click('#end');
  await page.locator('.tenure').waitFor({ state: 'detached' });
  assert((await get('/v1/overrides')).overrides.every(({ pattern }) => pattern !== device), 'the override is on');
  await post('/v1/reservations/cancel', { task: 'e2e peak', force: true });
  await go(page, `#/devices?device=${encodeURIComponent(device)}`);
  await page.locator('#device-points').waitFor();
  await page.locator('.held').waitFor({ state: 'detached' });
});

await run.test('the keyboard is enough', async () => {
  await page.evaluate(() => document.activeElement?.blur());
  for (const key of ['Escape', 'g', 't', '/']) await page.keyboard.press(key);
  await until('the filter has the focus', () => page.evaluate(() => document.activeElement?.id === 'filter'));
  await page.keyboard.type(subject.moving);
  await row(page, subject.moving).waitFor();
  await page.keyboard.press('Enter');
  await until('the tree has the focus', () => page.evaluate(() => document.activeElement?.id === 'tree'));
  await page.keyboard.press('Enter');
  await until('the point opens', async () => (await page.locator('#point-title').textContent()) === subject.moving);
  await page.keyboard.press('ArrowUp');
  // What a key does shows with the next animation frame.
  await until('the arrow moves', async () => {
    const active = await page.locator('#tree').getAttribute('aria-activedescendant');
    return active && active !== `row-${subject.moving}`;
  });
  await page.keyboard.press('Escape');
  await page.locator('#point-title').waitFor({ state: 'detached' });
  await page.keyboard.press('?');
  await page.locator('dialog[open]').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  for (const key of ['g', 'd']) await page.keyboard.press(key);
  await until('devices', async () => page.url().includes('#/devices'));
});

for (const colorScheme of ['light', 'dark']) {
  await run.test(`no serious accessibility fault in ${colorScheme}`, async () => {
    const other = await run.page(`${BASE}/`, { ...DESKTOP, colorScheme });
    const point = encodeURIComponent(subject.breaker);
    const device = encodeURIComponent(subject.online[0]);
    for (const hash of ['#/topics', `#/topics?point=${point}`, `#/devices?device=${device}`, '#/reservations?task=none', '#/sessions', '#/status']) {
      await go(other, hash);
      await other.waitForTimeout(1_200);
      await accessible(other, hash);
      await run.shot(other, `${colorScheme}-${/\w+/.exec(hash)[0]}${hash.includes('point') ? '-point' : ''}`);
    }
    await other.context().close();
  });
}

await run.test('a phone shows one column with tabs at the bottom', async () => {
  const phone = await run.page(`${BASE}/`, { ...PHONE, colorScheme: 'dark' });
  await until('rows', async () => (await phone.locator('[role=treeitem]').count()) > 1);
  await run.shot(phone, 'phone-topics');
  const box = await phone.locator('nav').boundingBox();
  assert(box && box.y > 700, 'the tabs are not at the bottom');
  await (await find(phone, subject.moving)).tap();
  await phone.locator('#big-value').waitFor();
  assert(!(await phone.locator('#tree').isVisible()), 'the tree is still beside the point');
  await until('a drawn chart', async () => (await drawn(phone)) > 1);
  const wide = await phone.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert(!wide, 'the page is wider than the screen');
  await run.shot(phone, 'phone-point');
  await phone.locator('nav a', { hasText: 'Devices' }).tap();
  await until('devices', async () => (await phone.locator('#devices [role=option]').count()) > 0);
  await run.shot(phone, 'phone-devices');
  await phone.context().close();
});

await page.context().close();
if (mock) await trouble(run, BASE);
const code = await run.finish();
mock?.close();
process.exit(code);
