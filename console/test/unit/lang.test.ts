import { parse } from 'svelte/compiler';
import { describe, expect, test } from 'vitest';
import { DICTIONARIES, english, ONE, placeholders, tags, translated, treeOf, uses, walk } from '../../lang';
import { LANGUAGES } from '../../src/lib/language';
import { daysOf, decimalOf } from '../../src/lib/locale';

const SOURCES: [name: string, code: string][] = Object.entries(import.meta.glob<string>('../../src/**/*.{svelte,ts}', { query: '?raw', import: 'default', eager: true }))
  .filter(([name]) => !name.endsWith('.d.ts')).map(([name, code]) => [name.replace('../../', ''), code]);
const ALL = SOURCES.flatMap(([name, code]) => uses(code, name).map((use) => ({ ...use, name })));
const isPlural = (text: unknown): text is [string, string] => Array.isArray(text) && text.length === 2;
const forms = (text: unknown): string[] => (isPlural(text) ? text : [String(text)]);

describe.each(Object.entries(DICTIONARIES))('in %s', (language, { texts, words }) => {
  test('every text of the sources has a translation, and every translation is used', () => {
    expect(ALL.length).toBeGreaterThan(500);
    const missing = ALL.filter(({ key }) => !Object.hasOwn(texts, key)).map(({ name, line, key }) => `${name}:${line}: ${key}`);
    expect(missing).toEqual([]);
    const used = new Set(ALL.map(({ key }) => key));
    expect(Object.keys(texts).filter((key) => !used.has(key))).toEqual([]);
  });

  test('a translation has the values and the tags of its text, and two forms where it counts', () => {
    for (const { key, one, values, name, line, place } of ALL) {
      const text = texts[key];
      const where = `${name}:${line}: ${key}`;
      const all = forms(text);
      const other = all[all.length - 1]!;
      expect(placeholders(other).sort(), where).toEqual(placeholders(key).sort());
      // One is one: it need not be written.
      for (const form of all) expect(placeholders(form).filter((value) => value !== 'n').sort(), where).toEqual(placeholders(key).filter((value) => value !== 'n').sort());
      for (const form of all) expect(tags(form), where).toEqual(place === 'markup' ? tags(key) : []);
      for (const form of all) expect(form.trim().length, where).toBeGreaterThan(0);
      for (const form of all) expect(/\s*$/.exec(form)![0], where).toBe(/\s*$/.exec(english(key))![0]);
      if (one !== null) expect(isPlural(text), where).toBe(true);
      if (isPlural(text)) expect(values.has('n'), where).toBe(true);
    }
  });

  test('words are those of the other languages', () => {
    for (const other of Object.values(DICTIONARIES)) expect(Object.keys(words)).toEqual(Object.keys(other.words));
    for (const [word, text] of Object.entries(words)) expect(text.trim(), word).not.toBe('');
  });

  test('one is what the rules of the language say', () => {
    const rules = new Intl.PluralRules(language);
    for (let n = 0; n < 1_000; n++) expect(ONE[language]!.test(String(n)), `${n}`).toBe(rules.select(n) === 'one');
  });

  test('every component is one in it', () => {
    for (const [name, code] of SOURCES) {
      const text = translated(code, name, language);
      expect(() => treeOf(text, name), name).not.toThrow();
      expect(uses(text, name), name).toEqual([]);
    }
  });
});

test('English is the text of the source', () => {
  const check = (code: string, expected: string, language = 'en') => expect(translated(code, 'x.svelte', language)).toBe(expected);
  check(`<p>{t('Close')}</p>`, '<p>Close</p>');
  check(`<p title={t('Close')} class="a {t('Close')}">{t('{n} < {b}', { n, b: a.b ?? 'c' })}</p>`, `<p title="Close" class="a Close">{n} &#60; {a.b ?? 'c'}</p>`);
  check(`{x ? t('a "b" \\'c\\'') : t('{n}', { n: t('Close') })}`, "{x ? 'a \"b\" \\'c\\'' : `${'Close'}`}");
  check(`<p>{plural(n, '1 site', '{n} sites')}{t('to|another value')}{t('Press <kbd>?</kbd> & <i>', {})}</p>`, "<p>{(n === 1 ? '1 site' : `${n} sites`)}to" + 'Press <kbd>?</kbd> &#38; &#60;i&#62;</p>');
  check(`<p>{plural(n, '1 site', '{n} sites')}{t('Close')}</p>`, '<p>{(/^1$/.test(n) ? `1 Standort` : `${n} Standorte`)}Schließen</p>'.replace('`1 Standort`', "'1 Standort'"), 'de');
  check(`<p>{t('{n} alarms', { n: countText(n) })}</p>`, '<p>{(/^[01]$/.test(countText(n)) ? `${countText(n)} alarme` : `${countText(n)} alarmes`)}</p>', 'pt');
  expect(() => translated('{t(x)}', 'x.svelte', 'en')).toThrow(/x.svelte:1: a text must be a literal/);
  expect(() => translated("\n{t('{n}')}", 'x.svelte', 'en')).toThrow(/x.svelte:2: \{n\} has no value/);
  expect(() => translated("{t('of nobody')}", 'x.svelte', 'de')).toThrow(/x.svelte:1: de has no 'of nobody'/);
});

test('every language can be chosen', () => expect(LANGUAGES.map(([code]) => code).sort()).toEqual(['en', ...Object.keys(DICTIONARIES)].sort()));

/** What is no text of a language: names, symbols, units and what programs read. */
const NO_TEXT = /^(Tieline|tieline|CSV|PNG|TLS|IEC 62351-8|UTC|Shift-A|Ctrl-S|toml|Enter|Esc|Shift|Ctrl|[str nd]|rem|px|span|s|min|h|ms)$/;
const SHOWN = ['title', 'aria-label', 'placeholder', 'alt', 'label', 'what'];
const LETTERS = /\p{L}{2,}/u;

/** Texts between tags and in attributes that people read, outside t. */
function literals(code: string, name: string): string[] {
  const found: string[] = [];
  const root = parse(code, { modern: true, filename: name });
  walk(root.fragment, (node, above) => {
    const text = node.type === 'Text' ? String(node.data) : node.type === 'Literal' ? String(node.value) : node.type === 'TemplateElement' ? String((node.value as { raw: string }).raw) : '';
    const bare = text.replace(/[^\p{L}\d\s-]/gu, ' ').trim();
    if (!LETTERS.test(text) || NO_TEXT.test(bare)) return;
    const holder = above.find(({ type }) => type !== 'Fragment')!;
    const attribute = above.find(({ type }) => type === 'Attribute');
    if (attribute ? !SHOWN.includes(String(attribute.name)) : above.some(({ type }) => type.endsWith('Directive'))) return;
    if (node.type !== 'Text') {
      // Of expressions: what is shown, not what is compared, called with or looked up.
      const tag = above.findIndex(({ type }) => type === 'ExpressionTag');
      if (tag < 0 || above.slice(0, tag).some(({ type }) => ['CallExpression', 'BinaryExpression', 'MemberExpression', 'ArrowFunctionExpression'].includes(type))) return;
    } else if (holder.type === 'RegularElement' && ['code', 'kbd', 'style'].includes(String(holder.name))) return;
    found.push(`${name}:${code.slice(0, node.start).split('\n').length}: ${text.trim()}`);
  });
  return found;
}

test('no component shows a text that is not in the dictionaries', () => {
  const components = SOURCES.filter(([name]) => name.endsWith('.svelte'));
  expect(components.length).toBeGreaterThan(40);
  expect(components.flatMap(([name, code]) => literals(code, name))).toEqual([]);
  expect(literals(`<p title="Close">A text{x ? ' or two' : \`\${n} of it\`}</p><Waiting what="The topics" />`, 'x').length).toBe(5);
  expect(literals(`<p class="Close" title={t('Close')}>{t('A text')}{x === 'or two' ? '■' : get('it')} <code>curl</code></p>`, 'x')).toEqual([]);
});

test('days have ten characters, as lists expect, and numbers the sign of their region', () => {
  const check = (locale: string, day: string, sign: string) => expect([daysOf(locale).format(Date.parse('2026-11-20T09:36:00Z')), decimalOf(locale)], locale).toEqual([day, sign]);
  check('de', '20.11.2026', ',');
  check('de-CH', '20.11.2026', '.');
  check('pt', '20/11/2026', ',');
  check('pt-PT', '20/11/2026', ',');
  check('es', '20/11/2026', ',');
  check('es-MX', '20/11/2026', '.');
  check('es-CL', '20-11-2026', ',');
});
