// The editor of boards in a real browser, against the demonstration substation: TIELINE_URL=http://… node test/boardedit.mjs

import { assert, DESKTOP, PHONE, Runner, until } from './browser.mjs';
import { accessible } from './checks.mjs';

const BASE = process.env.TIELINE_URL.replace(/\/$/, '');
/** What the node refuses is said by browsers, too. */
const EXPECTED = /Failed to load resource.*(412|422)/;

const run = new Runner();
await run.start();
const page = await run.page(`${BASE}/#/boards`, DESKTOP, EXPECTED);
const editor = page.locator('[data-board-edit]');
const area = editor.locator('textarea');
const board = page.locator('.board');
const said = (pattern) => until(`it says ${pattern}`, async () => pattern.test((await page.locator('#edit-said').textContent().catch(() => '')) ?? ''));
const shown = (count) => until(`${count} panels`, async () => (await board.locator('article').count()) === count);
const type = async (text) => {
  await area.fill(text);
  await until('the text', async () => (await area.inputValue()) === text);
};
/** The file of a board as the node has it, and its version. */
async function source(name) {
  const answer = await fetch(`${BASE}/v1/boards/${name}?format=toml`);
  return answer.ok ? { text: await answer.text(), version: answer.headers.get('etag') } : null;
}
async function put(name, text, condition) {
  const answer = await fetch(`${BASE}/v1/boards/${name}`, { method: 'PUT', body: text, headers: condition });
  assert(answer.ok, `${name}: HTTP ${answer.status} ${await answer.text()}`);
}
const ONE = 'title = "Shift"\n\n[[panel]]\nkind = "value"\ntopics = ["demo/feeder1/relay/current"]\n';
const TWO = `${ONE}\n[[panel]]\nkind = "text"\ntext = "Call 110"\n`;

await run.test('a board of the configuration is copied, and shown while it is written', async () => {
  await board.locator('[data-panel=bar]').first().waitFor();
  const panels = await board.locator('article').count();
  await page.click('[data-edit]');
  await until('the file', async () => /\[\[panel\]\]/.test(await area.inputValue()));
  await said(/comes from the configuration/);
  assert((await editor.locator('[name=board-name]').inputValue()) === 'feeders-2', 'the name of the copy');
  await shown(panels);
  await type(TWO);
  await shown(2);
  await until('a value of the node', async () => /\d/.test((await board.locator('[data-panel=value] b').first().textContent().catch(() => '')) ?? ''));
  assert(/Call 110/.test(await board.locator('[data-panel=text]').textContent()), 'the text');
  await run.shot(page, 'board-edit');
});

await run.test('an error is marked at its line, and leads there', async () => {
  await type(TWO.replace('kind = "text"', 'kind = "test"'));
  const fault = editor.locator('[data-fault="8"]');
  await fault.waitFor();
  assert(/line 8: .*"text"/.test(await fault.textContent()), await fault.textContent());
  assert((await editor.locator('.gutter .bad').textContent()).trim() === '■ 8', 'the mark');
  assert((await area.getAttribute('aria-invalid')) === 'true', 'the field does not say so');
  await fault.click();
  const at = await area.evaluate((field) => [field === document.activeElement, field.value.slice(0, field.selectionStart).split('\n').length]);
  assert(at[0] && at[1] === 8, `${at}`);
  await run.shot(page, 'board-edit-error');
  // What is shown is the last board without an error; saving says the same.
  await page.keyboard.press('Control+s');
  await fault.waitFor();
  assert((await source('feeders-2')) === null, 'a wrong board was stored');
  await type(TWO);
  await fault.waitFor({ state: 'detached' });
});

await run.test('Tab inserts spaces, Shift-Tab leaves, Ctrl-S saves', async () => {
  await type(TWO);
  await area.evaluate((field) => field.setSelectionRange(0, 0));
  await area.focus();
  await page.keyboard.press('Tab');
  assert((await area.inputValue()).startsWith('  title'), await area.inputValue());
  await type(TWO);
  await page.keyboard.press('Shift+Tab');
  assert(!(await area.evaluate((field) => field === document.activeElement)), 'the text keeps the keyboard');
  await editor.locator('[name=board-name]').fill('Shift 2');
  await area.focus();
  await page.keyboard.press('Control+s');
  await editor.getByText('1 to 64 of a-z').waitFor();
  await editor.locator('[name=board-name]').fill('shift');
  await area.focus();
  await page.keyboard.press('Control+s');
  await said(/shift is saved/);
  assert((await source('shift')).text === TWO, 'the node has another text');
  await until('its address', () => /name=shift/.test(page.url()));
  assert((await editor.getAttribute('data-changed')) === 'false', 'it is not saved');
});

await run.test('what is not saved is asked for, and kept by the browser', async () => {
  await type(`${TWO}# more\n`);
  await page.keyboard.press('Escape');
  await editor.locator('[role=alertdialog]').waitFor();
  await page.keyboard.press('Escape');
  await editor.locator('[role=alertdialog]').waitFor({ state: 'detached' });
  await page.reload();
  await page.click('[data-edit]');
  await said(/which was not saved/);
  assert((await area.inputValue()) === `${TWO}# more\n`, await area.inputValue());
  await page.keyboard.press('Escape');
  await editor.locator('[data-sure]').click();
  await editor.waitFor({ state: 'detached' });
  await shown(2);
  await page.click('[data-edit]');
  await until('the text of the node', async () => (await area.inputValue()) === TWO);
  assert(!/not saved/.test(await page.locator('#edit-said').textContent()), 'it is there again');
  await page.keyboard.press('Escape');
  await editor.waitFor({ state: 'detached' });
});

await run.test('two who save meet, and neither loses a text', async () => {
  await page.click('[data-edit]');
  await until('the text of the node', async () => (await area.inputValue()) === TWO);
  await type(TWO.replace('Call 110', 'Call 111'));
  const theirs = TWO.replace('Call 110', 'Call 112');
  await put('shift', theirs, { 'if-match': (await source('shift')).version });
  await page.keyboard.press('Control+s');
  const conflict = editor.locator('[data-conflict]');
  await conflict.waitFor();
  const differs = await conflict.locator('.differs td').allTextContents();
  assert(differs.length === 2 && /▸ .*112/.test(differs[0]) && /▸ .*111/.test(differs[1]), `${differs}`);
  await accessible(page, 'two versions');
  await run.shot(page, 'board-conflict');
  await conflict.locator('[data-theirs]').click();
  await until('theirs', async () => (await area.inputValue()) === theirs);
  await page.locator('#edit-said button').click();
  await until('mine again', async () => /Call 111/.test(await area.inputValue()));
  await page.keyboard.press('Control+s');
  await said(/shift is saved/);
  assert(/111/.test((await source('shift')).text), 'the node has not mine');
  // The other way: mine takes the place of theirs.
  await type(TWO.replace('Call 110', 'Call 113'));
  await put('shift', theirs, { 'if-match': (await source('shift')).version });
  await page.keyboard.press('Control+s');
  await conflict.locator('[data-mine]').click();
  await said(/shift is saved/);
  await conflict.waitFor({ state: 'detached' });
  assert(/113/.test((await source('shift')).text), 'the node has not mine');
});

await run.test('a board that was deleted meanwhile is saved as a new one', async () => {
  await type(ONE);
  const gone = await fetch(`${BASE}/v1/boards/shift`, { method: 'DELETE', headers: { 'if-match': '*' } });
  assert(gone.ok, `HTTP ${gone.status}`);
  await page.keyboard.press('Control+s');
  await editor.getByText('has deleted this board').waitFor();
  await editor.locator('[data-mine]').click();
  await said(/shift is saved/);
  assert((await source('shift')).text === ONE, 'it is not there');
});

await run.test('a new board begins with a device', async () => {
  await editor.getByRole('button', { name: 'New…' }).click();
  await page.selectOption('[name=board-device]', 'demo/feeder1/relay');
  await until('its topics', async () => /topics = \["demo\/feeder1\/relay\//.test(await area.inputValue()));
  await editor.locator('[name=board-name]').fill('relay');
  await shown(4);
  await area.focus();
  await page.keyboard.press('Control+s');
  await said(/relay is saved/);
  await run.shot(page, 'board-new');
});

await run.test('it is accessible in both themes, and fits on a phone', async () => {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await accessible(page, `the editor, ${colorScheme}`);
    await run.shot(page, `board-edit-${colorScheme}`);
  }
  const phone = await run.page(`${BASE}/#/boards?name=shift`, PHONE, EXPECTED);
  await phone.tap('[data-edit]');
  await until('the text', async () => (await phone.locator('[data-board-edit] textarea').inputValue()) === ONE);
  await phone.locator('[data-board-edit] textarea').fill(`${ONE}kindd = 1\n`);
  await phone.locator('[data-fault="6"]').waitFor();
  const wide = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert(wide <= 0, `the page is ${wide} px too wide`);
  await accessible(phone, 'the editor on a phone');
  await run.shot(phone, 'board-edit-phone');
  await phone.context().close();
});

await run.test('a board is deleted when one is sure', async () => {
  for (const name of ['relay', 'shift']) {
    if (await editor.count()) await editor.getByRole('button', { name: 'Close' }).click();
    await page.goto(`${BASE}/#/boards?name=${name}`);
    await page.locator(`.board[data-board=${name}]`).waitFor();
    await page.click('[data-edit]');
    await editor.getByRole('button', { name: 'Delete…' }).click();
    await editor.locator('[data-sure]').click();
    await editor.waitFor({ state: 'detached' });
    assert((await source(name)) === null, `${name} is there`);
  }
  const kept = await page.evaluate(() => Object.keys(localStorage).filter((key) => key.startsWith('tieline.board.')));
  assert(kept.length === 0, `the browser keeps ${kept}`);
});

await page.context().close();
process.exit(await run.finish());
