// The languages of the console. English is in the sources: `t('Acknowledge')`, `t('{n} alarms', { n })`, and with two forms
// `plural(n, '{n} site', '{n} sites')`. They are no functions: the build puts the text of its language in their place, so that a
// page has the texts of one language, and English costs nothing (build.mjs makes one set of files for each).

import { type AST, parse } from 'svelte/compiler';
import type { Plugin } from 'vite';
import de from './src/lang/de.json' with { type: 'json' };
import es from './src/lang/es.json' with { type: 'json' };
import pt from './src/lang/pt.json' with { type: 'json' };

/** A translation; of a count the text for one, and that for others. */
export type Text = string | readonly [one: string, other: string];
export interface Dictionary {
  /** By the English texts of the sources. */
  texts: Record<string, Text>;
  /** By the words with which the node names states and kinds. */
  words: Record<string, string>;
}
export const DICTIONARIES = { de, es, pt } as unknown as Record<string, Dictionary>;
/** Counts that have the form of one, as they are shown: the rules of CLDR for whole numbers below a million. */
export const ONE: Record<string, RegExp> = { de: /^1$/, es: /^1$/, pt: /^[01]$/ };

interface Node {
  type: string;
  start: number;
  end: number;
  [name: string]: unknown;
}

/** A use of a text in a source. */
export interface Use extends Span {
  key: string;
  /** The English text for one, where it has its own. */
  one: string | null;
  count: Span | null;
  values: Map<string, Span>;
  /** Where it is: in a script or an expression, between tags, or a whole attribute or a part of one. */
  place: 'code' | 'markup' | 'attribute' | 'part';
  line: number;
}
interface Span {
  start: number;
  end: number;
}

const BEFORE = '<script lang="ts">';

/** The syntax tree of a source: that of a script is that of a component without markup. */
export function treeOf(code: string, file: string): { root: AST.Root; text: string; shift: number } {
  const isScript = file.endsWith('.ts');
  const text = isScript ? `${BEFORE}${code}\n</script>` : code;
  return { root: parse(text, { modern: true, filename: file }), text, shift: isScript ? BEFORE.length : 0 };
}

/** Calls `visit` for every node, with those above it, the nearest first. */
export function walk(node: unknown, visit: (node: Node, above: readonly Node[]) => void, above: readonly Node[] = []): void {
  if (Array.isArray(node)) for (const one of node) walk(one, visit, above);
  else if (typeof node === 'object' && node !== null) {
    const known = node as Node;
    const isNode = typeof known.type === 'string';
    if (isNode) visit(known, above);
    const inside = isNode ? [known, ...above] : above;
    for (const [name, value] of Object.entries(node)) if (name !== 'loc' && name !== 'metadata' && typeof value === 'object') walk(value, visit, inside);
  }
}

/** The uses of texts in a source, in their order. */
export function uses(code: string, file: string): Use[] {
  const { root, text, shift } = treeOf(code, file);
  const found = new Map<number, Use>();
  walk(root, (node, above) => {
    const callee = node.callee as Node | undefined;
    if (node.type !== 'CallExpression' || callee?.type !== 'Identifier' || (callee.name !== 't' && callee.name !== 'plural')) return;
    const line = text.slice(0, node.start).split('\n').length;
    const wrong = (what: string) => new Error(`${file}:${line}: ${what}: ${text.slice(node.start, node.end)}`);
    const given = [...(node.arguments as Node[])];
    const literal = (one: Node | undefined) => {
      if (one?.type !== 'Literal' || typeof one.value !== 'string') throw wrong('a text must be a literal');
      return one.value;
    };
    const count = callee.name === 'plural' ? (given.shift() ?? null) : null;
    const one = count && literal(given.shift());
    const key = literal(given.shift());
    const values = new Map<string, Span>(count ? [['n', count]] : []);
    const object = given.shift();
    if (object) for (const property of (object.properties as Node[] | undefined) ?? []) values.set(String((property.key as Node).name ?? (property.key as Node).value), property.value as Node);
    for (const name of placeholders(key)) if (!values.has(name)) throw wrong(`{${name}} has no value`);
    found.set(node.start, { key, one, count, values, place: placeOf(node, above), line, start: node.start, end: node.end });
  });
  return [...found.values()].sort((a, b) => a.start - b.start).map((use) => ({ ...use, start: use.start - shift, end: use.end - shift, count: use.count && moved(use.count, -shift), values: new Map([...use.values].map(([name, span]) => [name, moved(span, -shift)])) }));
}

const moved = ({ start, end }: Span, by: number): Span => ({ start: start + by, end: end + by });

function placeOf(node: Node, [tag, holder]: readonly Node[]): Use['place'] {
  if (tag?.type !== 'ExpressionTag' || tag.expression !== node) return 'code';
  if (holder?.type === 'Fragment') return 'markup';
  if (holder?.type !== 'Attribute') return 'code';
  return Array.isArray(holder.value) ? 'part' : 'attribute';
}

export const placeholders = (text: string): string[] => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
/** A key without what tells it from another use of the same English text: `From|a source`. */
export const english = (key: string): string => key.replace(/\|.*/, '');
/** Tags that a text between tags may have. */
const TAG = /<\/?(?:b|kbd)>/g;
export const tags = (text: string): string[] => text.match(TAG) ?? [];

/** A source with the texts of a language, in English those of the source. */
export function translated(code: string, file: string, language: string): string {
  const all = uses(code, file);
  const dictionary = DICTIONARIES[language];
  /** A part of the source, with all that is translated in it. */
  const part = ({ start, end }: Span): string => {
    let [text, at] = ['', start];
    for (const use of all) {
      if (use.start < at || use.end > end) continue;
      const tag = use.place === 'code' ? use : { start: code.lastIndexOf('{', use.start), end: code.indexOf('}', use.end) + 1 };
      text += code.slice(at, tag.start) + written(use);
      at = tag.end;
    }
    return text + code.slice(at, end);
  };
  const written = (use: Use): string => {
    const text = dictionary ? dictionary.texts[use.key] : use.one === null ? english(use.key) : ([use.one, english(use.key)] as const);
    if (text === undefined) throw new Error(`${file}:${use.line}: ${language} has no '${use.key}'`);
    const quoted = use.place === 'attribute' ? '"' : '';
    if (typeof text === 'string') return use.place === 'code' ? literal(text, use) : `${quoted}${markup(text, use)}${quoted}`;
    const count = part(use.count ?? use.values.get('n')!);
    const isOne = dictionary ? `${ONE[language]}.test(${count})` : `${count} === 1`;
    const chosen = `${isOne} ? ${literal(text[0], use)} : ${literal(text[1], use)}`;
    return use.place === 'code' ? `(${chosen})` : `{(${chosen})}`;
  };
  const literal = (text: string, { values }: Use): string => {
    if (placeholders(text).length === 0) return `'${text.replace(/['\\]/g, '\\$&')}'`;
    const parts = text.split(/\{(\w+)\}/);
    return `\`${parts.map((one, i) => (i % 2 === 0 ? one.replace(/[`\\]/g, '\\$&') : `\${${part(values.get(one)!)}}`)).join('')}\``;
  };
  const markup = (text: string, { values, place }: Use): string => text.split(/\{(\w+)\}/).map((one, i) => (i % 2 === 0 ? escaped(one, place === 'markup') : `{${part(values.get(one)!)}}`)).join('');
  return part({ start: 0, end: code.length });
}

function escaped(text: string, tagged: boolean): string {
  const plain = (one: string) => one.replace(/[&<>{}"\u00a0]/g, (sign) => `&#${sign.codePointAt(0)};`);
  if (!tagged) return plain(text);
  const between = text.split(TAG).map(plain);
  return between.map((one, i) => one + (tags(text)[i] ?? '')).join('');
}

/** Puts the texts of a language into the sources of the console. */
export function lang(language: string): Plugin {
  return {
    name: 'lang',
    enforce: 'pre',
    config: () => ({ define: { LANG: JSON.stringify(language), LANG_WORDS: JSON.stringify(DICTIONARIES[language]?.words ?? {}) } }),
    transform(code, id) {
      const [file = ''] = id.split('?');
      if (!/\/console\/src\/.*\.(ts|svelte)$/.test(file) || /\?(svelte|raw)/.test(id) || /\/src\/lang[/.]/.test(file) || !/\b(t|plural)\(/.test(code)) return null;
      return { code: translated(code, file, language), map: null };
    },
  };
}
