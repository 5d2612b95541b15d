// The console in each of its languages, in a real browser against a node with the demonstration: TIELINE_URL=http://… node test/langs.mjs

import { readFileSync } from 'node:fs';
import { assert, DESKTOP, PHONE, reader, Runner, until } from './browser.mjs';
import { accessible } from './checks.mjs';

const BASE = process.env.TIELINE_URL.replace(/\/$/, '');
const run = new Runner();
await run.start();
const get = reader(BASE);

const LANGUAGES = {
  de: { locale: 'de-DE', tag: 'de', topics: 'Topics', alarms: 'Alarme', acknowledge: 'Quittieren', critical: 'kritisch', trend: 'Werte wie aufgezeichnet', day: /\d\d\.\d\d\.20\d\d/, comma: /\d,\d/ },
  pt: { locale: 'pt-BR', tag: 'pt-BR', topics: 'Tópicos', alarms: 'Alarmes', acknowledge: 'Reconhecer', critical: 'crítica', trend: 'Valores como gravados', day: /\d\d\/\d\d\/20\d\d/, comma: /\d,\d/ },
  es: { locale: 'es-ES', tag: 'es', topics: 'Temas', alarms: 'Alarmas', acknowledge: 'Reconocer', critical: 'crítica', trend: 'Valores como se grabaron', day: /\d\d\/\d\d\/20\d\d/, comma: /\d,\d/ },
};
const textsOf = (language) => JSON.parse(readFileSync(new URL(`../src/lang/${language}.json`, import.meta.url), 'utf8')).texts;

const moving = await until('a measurement', async () => (await get('/v1/points?filter=%23&limit=1000')).points.find((point) => point.kind === 'float' && !point.writable && point.unit)?.topic, 60_000);
const BREAKER = 'demo/feeder2/relay/breaker';
await until('devices are online', async () => (await get('/v1/devices')).devices.every(({ state }) => state === 'online'), 60_000);
const opened = await fetch(`${BASE}/v1/command`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ topic: BREAKER, value: false }) });
assert(opened.ok, await opened.text());
const alarm = await until('an alarm', async () => (await get('/v1/alarms?limit=10')).alarms.find(({ topic }) => topic === BREAKER), 60_000);
const { devices: [{ topic: device }] } = await get('/v1/devices');
/** Names of the demonstration may be English words. */
const points = (await get('/v1/points?filter=%23&limit=1000')).points;
const named = new Set(points.flatMap(({ topic, states }) => [...topic.split('/'), ...(states ?? [])]));
const VIEWS = {
  topics: `topics?point=${encodeURIComponent(BREAKER)}`, value: `topics?point=${encodeURIComponent(moving)}`, devices: `devices?device=${encodeURIComponent(device)}`, alarms: `alarms?alarm=${encodeURIComponent(`${alarm.topic}|${alarm.kind}`)}`,
  journal: 'alarms?tab=journal', report: 'alarms?tab=report', trends: `trends?p=${encodeURIComponent(moving)}&from=now-5m&to=now`, events: 'events', diagrams: 'diagrams', boards: 'boards',
  reservations: 'reservations', sessions: 'sessions', status: 'status', users: 'users',
};

/** Notes in the page the first text of the menu that is ever shown. */
const watchFirst = () => {
  new MutationObserver(() => (globalThis.firstText ??= document.querySelector('nav')?.textContent || undefined)).observe(document, { childList: true, subtree: true });
};
const open = async (options, hash = '', search = '') => {
  const page = await run.page('about:blank', options);
  await page.addInitScript(watchFirst);
  await page.goto(`${BASE}/${search}#/${hash}`);
  await until('live', async () => (await page.locator('.app').getAttribute('data-link', { timeout: 500 }).catch(() => null)) === 'live');
  return page;
};
const langOf = (page) => page.evaluate(() => document.documentElement.lang);
const frames = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
const settled = async (page, hash) => {
  await page.evaluate((to) => void (location.hash = `#/${to}`), hash);
  await frames(page);
  await page.locator('main .panel >> visible=true').first().waitFor();
  await until('nothing is waited for', async () => (await page.locator('.waiting').count()) === 0);
  await frames(page);
};

/** Buttons and the like whose text is wider than they are, and the page where it is wider than the screen. */
const overflows = (page) => page.evaluate(() => {
  const found = [];
  for (const element of document.querySelectorAll('button, a.button, select, th, dt, .head span, nav a')) {
    const box = element.getBoundingClientRect();
    if (box.width === 0 || element.closest('.clip, [hidden]') || element.matches('.clip, .visually-hidden') || element.querySelector('.clip, :scope > .visually-hidden:only-child')) continue;
    const range = document.createRange();
    range.selectNodeContents(element);
    const text = range.getBoundingClientRect();
    const shown = element.matches('select') ? element.scrollWidth > element.clientWidth + 1 : text.width > box.width + 1 || text.right > box.right + 1;
    if (shown && element.textContent.trim()) found.push(`${element.tagName} ${element.textContent.trim()}`);
  }
  const nav = document.querySelector('nav');
  if (innerWidth > 760 && nav.scrollWidth > nav.clientWidth) found.push(`the menu is ${nav.scrollWidth - nav.clientWidth} px too long`);
  if (document.documentElement.scrollWidth > innerWidth) found.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  return found;
});

/** English texts of the console that are shown. */
const left = async (page, texts) => {
  const shown = await page.evaluate(() => {
    const all = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) if (!walker.currentNode.parentElement.closest('script, style, code, kbd, select[name=language]')) all.push(walker.currentNode.nodeValue.trim());
    for (const element of document.querySelectorAll('[title], [aria-label], [placeholder]')) for (const name of ['title', 'aria-label', 'placeholder']) all.push(element.getAttribute(name)?.trim() ?? '');
    return [...new Set(all)];
  });
  const own = new Set(Object.values(texts).flat().map((text) => text.trim()));
  return shown.filter((text) => Object.hasOwn(texts, text) && !own.has(text) && !named.has(text));
};

for (const [language, words] of Object.entries(LANGUAGES)) {
  const texts = textsOf(language);
  for (const [name, options] of [['wide', DESKTOP], ['narrow', PHONE]]) {
    await run.test(`${language}, ${name}: every view is in the language of the browser, fits, and is accessible`, async () => {
      const page = await open({ ...options, locale: words.locale });
      const wrong = [];
      assert((await langOf(page)) === words.tag, await langOf(page));
      for (const [view, hash] of Object.entries(VIEWS)) {
        await settled(page, hash);
        const [english, wide] = [await left(page, texts), await overflows(page)];
        if (english.length > 0) wrong.push(`${view} says in English: ${english.join('; ')}`);
        if (wide.length > 0) wrong.push(`${view} has no room for: ${wide.join('; ')}`);
        await accessible(page, `${language} ${view}`);
        await run.shot(page, `${language}-${name}-${view}`);
      }
      assert(wrong.length === 0, wrong.join('\n'));
      assert((await page.evaluate(() => globalThis.firstText)).includes(words.topics), 'another language was shown first');
      await page.context().close();
    });
  }

  await run.test(`${language}: alarms, trends, numbers and days are in it; what programs read is not`, async () => {
    const page = await open({ ...DESKTOP, locale: words.locale }, VIEWS.alarms);
    const banner = page.locator('#alarm-banner');
    await banner.waitFor();
    assert((await banner.getAttribute('aria-label')) === words.alarms, 'the banner');
    assert((await page.locator('#alarm-said').getAttribute('aria-live')) === 'assertive', 'new alarms are not said');
    await page.locator('.acts button', { hasText: words.acknowledge }).first().waitFor();
    await until('the day', async () => words.day.test(await page.locator('[data-shown] dl').textContent()));
    const { seq, state } = await page.locator('[data-shown]').evaluate((one) => one.dataset);
    assert(Number(seq) > 0 && /^[a-z_]+$/.test(state), `the attributes: ${seq} ${state}`);
    const priorities = await page.locator('[aria-label] option[value=critical]').textContent();
    assert(priorities.startsWith(words.critical), priorities);
    await settled(page, VIEWS.trends);
    await until('what is drawn', async () => (await page.locator('.trends .foot').textContent()).includes(words.trend));
    await until('a number', async () => words.comma.test(await page.locator(`[data-trend="${moving}"] .value`).textContent()));
    assert(!Number.isNaN(Number(await page.locator(`[data-trend="${moving}"]`).getAttribute('data-value'))), 'the attribute has no number');
    assert((await page.locator('.trends a[download]').getAttribute('href')).includes('format=csv'), 'the link of the CSV');
    await settled(page, VIEWS.value);
    await page.locator('#edits .title select').selectOption('value');
    await page.fill('#edit-form input[name=v]', '4,25');
    await page.fill('#edit-form input[name=from]', new Date(Date.now() - 60_000).toISOString());
    const reason = `comma, ${words.locale}`;
    await page.fill('#edit-form input[name=why]', reason);
    await page.locator('#edit-form .primary').click();
    await page.locator('#edits li[data-kind=value]', { hasText: reason }).first().waitFor();
    const { edits } = await get(`/v1/history/edits?topic=${encodeURIComponent(moving)}`);
    assert(edits.find(({ why }) => why === reason)?.v === 4.25, 'the comma is no point');
    await page.context().close();
  });
}

await run.test('a language is chosen in the help, is kept, and the address may ask for another', async () => {
  const page = await open({ ...DESKTOP, locale: 'fr-FR' });
  const menu = () => page.locator('nav').textContent();
  const becomes = (tag, topics) => until(`it is ${tag}`, async () => (await langOf(page).catch(() => '')) === tag && (await menu().catch(() => '')).includes(topics));
  const choose = async (code) => {
    await page.keyboard.press('?');
    await page.selectOption('select[name=language]', code);
  };
  await becomes('en', 'Topics');
  await choose('pt');
  await becomes('pt-BR', 'Tópicos');
  await page.reload();
  await becomes('pt-BR', 'Tópicos');
  assert((await page.evaluate(() => globalThis.firstText)).includes('Tópicos'), 'English was shown first');
  await page.goto(`${BASE}/?lang=es#/alarms`);
  await becomes('es', 'Temas');
  await page.locator('#alarms').waitFor();
  await choose('de');
  await becomes('de', 'Geräte');
  await until('live', async () => (await page.locator('.app').getAttribute('data-link', { timeout: 500 }).catch(() => null)) === 'live');
  assert(page.url().endsWith('/#/alarms'), page.url());
  await accessible(page, 'German');
  await page.keyboard.press('?');
  await page.locator('dialog').waitFor();
  await accessible(page, 'the help');
  await run.shot(page, 'language');
  await page.selectOption('select[name=language]', '');
  await becomes('en', 'Topics');
  await page.context().close();
});

process.exit(await run.finish());
