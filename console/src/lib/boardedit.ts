// The file of a board as it is edited: what the node says of it, what the browser keeps of it, where two versions differ.

import type { Board } from './board';
import { recalled } from './settings';

const CALL_MS_MAX = 15_000;

export const NAME_PATTERN = '[a-z0-9_\\-]{1,64}';
export const isName = (name: string): boolean => new RegExp(`^(?:${NAME_PATTERN})$`).test(name);

/** The file of a board, and its version; null where it is new. */
export interface Source {
  text: string;
  version: string | null;
}

/** The node has another version than the one that was edited; null where it has none. */
export class Conflict extends Error {
  constructor(readonly theirs: Source | null) {
    super('the board was changed meanwhile');
  }
}

/** The node refuses. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    words: string,
  ) {
    super(words);
  }
}

async function call(name: string, query: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(`/v1/boards/${name}${query}`, { signal: AbortSignal.timeout(CALL_MS_MAX), ...init });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new Error('the node cannot be reached');
  }
  if (response.ok || response.status === 412) return response;
  const said = (await response.json().catch(() => ({}))) as { detail?: string; title?: string };
  throw new Refusal(response.status, said.detail ?? said.title ?? `the node answered HTTP ${response.status}`);
}

const versionOf = (response: Response): string | null => /^"(.*)"$/.exec(response.headers.get('etag') ?? '')?.[1] ?? null;

export async function readSource(name: string): Promise<Source> {
  const response = await call(name, '?format=toml');
  return { text: await response.text(), version: versionOf(response) };
}

const conditionOf = (version: string | null): Record<string, string> => (version === null ? { 'if-none-match': '*' } : { 'if-match': `"${version}"` });

/** Stores a file in the place of the version that was edited; its version then. */
export async function store(name: string, { text, version }: Source): Promise<string | null> {
  const response = await call(name, '', { method: 'PUT', body: text, headers: { 'content-type': 'application/toml', ...conditionOf(version) } });
  return response.status === 412 ? conflict(name, response) : versionOf(response);
}

export async function removeBoard(name: string, version: string): Promise<void> {
  const response = await call(name, '', { method: 'DELETE', headers: conditionOf(version) });
  if (response.status === 412) await conflict(name, response);
}

async function conflict(name: string, response: Response): Promise<never> {
  throw new Conflict(versionOf(response) === null ? null : await readSource(name));
}

/** The board as it would be; nothing is stored. */
export async function checkText(name: string, text: string, signal: AbortSignal): Promise<Board> {
  const init = { method: 'PUT', body: text, signal, headers: { 'content-type': 'application/toml' } };
  return ((await (await call(name, '?check=true', init)).json()) as { board: Board }).board;
}

/** What is wrong at a place. */
export interface Fault {
  line: number;
  column: number;
  text: string;
}

/** The places that an answer of the node names, and what it says besides. */
export function faultsOf(detail: string): { faults: Fault[]; rest: string } {
  const faults: Fault[] = [];
  const rest: string[] = [];
  for (const line of detail.split('\n')) {
    const found = /^[a-z0-9_-]+\.toml:(\d+):(\d+): (.*)$/.exec(line);
    if (found) faults.push({ line: Number(found[1]), column: Number(found[2]), text: found[3]! });
    else if (!/^(… and )?\d+ (more|errors? in the configuration)$/.test(line)) rest.push(line);
  }
  return { faults, rest: rest.join('\n').trim() };
}

/** The place of a line and a column in a text. */
export function offsetOf(text: string, line: number, column: number): number {
  const lines = text.split('\n');
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  // Columns count characters, and a text in JavaScript has two units for some.
  return Math.min(text.length, before + [...(lines[line - 1] ?? '')].slice(0, column - 1).join('').length);
}

/** Spaces up to the next even column. */
export const indentAt = (text: string, at: number): string => ' '.repeat(2 - ((at - (text.lastIndexOf('\n', at - 1) + 1)) % 2));

/** A line of two versions side by side; null where one has none. */
export interface Pair {
  theirs: string | null;
  mine: string | null;
  same: boolean;
}

/** Lines that a person looks through beside each other. */
const PAIRED_MAX = 4_000;

/** Two versions line by line: equal ones at the beginning and the end beside each other, what is between them as it stands. */
export function sideBySide(theirs: string, mine: string): Pair[] {
  const [a, b] = [theirs, mine].map((text) => text.split('\n').slice(0, PAIRED_MAX)) as [string[], string[]];
  const least = Math.min(a.length, b.length);
  let head = 0;
  while (head < least && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < least - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const pairs: Pair[] = a.slice(0, head).map((line) => ({ theirs: line, mine: line, same: true }));
  const [ours, other] = [b.slice(head, b.length - tail), a.slice(head, a.length - tail)];
  for (let i = 0; i < Math.max(ours.length, other.length); i++) pairs.push({ theirs: other[i] ?? null, mine: ours[i] ?? null, same: other[i] === ours[i] });
  return [...pairs, ...a.slice(a.length - tail).map((line) => ({ theirs: line, mine: line, same: true }))];
}

/** A text that was not stored, as the browser keeps it. */
export interface Draft extends Source {
  /** Milliseconds since 1970. */
  at: number;
}

const draftKey = (name: string) => `tieline.board.${name}`;

/** Keeps a text until it is stored, so that a page that is closed loses nothing; whether the browser does. */
export function keepDraft(name: string, draft: Draft | null): boolean {
  try {
    if (draft) localStorage.setItem(draftKey(name), JSON.stringify(draft));
    else localStorage.removeItem(draftKey(name));
    return true;
  } catch {
    return false;
  }
}

export function keptDraft(name: string): Draft | null {
  const found = recalled(draftKey(name)) as Partial<Draft> | null;
  const isDraft = typeof found?.text === 'string' && typeof found.at === 'number' && (found.version === null || typeof found.version === 'string');
  return isDraft ? (found as Draft) : null;
}

/** A text in quotes: TOML takes those of JSON, but for DEL. */
const quoted = (text: string): string => JSON.stringify(text).replaceAll('\x7f', '\\u007F');

/** A first file, with what there is below a topic. */
export function exampleOf(device: string, points: readonly { topic: string; isNumber: boolean }[]): string {
  const list = (topics: string[]) => `[${topics.map(quoted).join(', ')}]`;
  const shown = points.slice(0, 4).map(({ topic }) => topic);
  const drawn = points.filter(({ isNumber }) => isNumber).slice(0, 4).map(({ topic }) => topic);
  const all = device ? `${device}/#` : '#';
  const panel = (of: string, words: string, topics: string[]) => (topics.length > 0 ? `\n${words}\n[[panel]]\n${of}\ntopics = ${list(topics)}\n` : '');
  return `# A board: panels from left to right, in twelve columns.
title = ${quoted(device.split('/').at(-1) || 'New board')}
range = "6h"              # how far back trends reach: 1m to 366d

# A variable stands in { } in topics, filters, titles and texts, and is chosen above the board:
# [[variable]]
# name = "feeder"
# values = ["feeder1", "feeder2"]
${panel('kind = "value"\nwidth = 12               # columns: 1 to 12\nheight = 2               # rows: 1 to 24', '# Present values, with unit and quality. low = and high = mark what is outside.', shown)}${panel('kind = "trend"\nwidth = 12\nheight = 6', '# The past: 1 to 8 topics.', drawn)}
# All below a topic. Other kinds: bar, diagram, text.
[[panel]]
kind = "table"
filter = ${quoted(all)}
width = 6

[[panel]]
kind = "alarms"
title = "Alarms"
filter = ${quoted(all)}
width = 6
`;
}

/** A name for a copy that is none of those that there are. */
export function copyName(name: string, taken: readonly string[]): string {
  const base = name.replace(/-\d+$/, '').slice(0, 60);
  for (let n = 2; ; n++) if (!taken.includes(`${base}-${n}`)) return `${base}-${n}`;
}
