// Trends of several points: what the address says, times, buckets, axes, and what is asked of the node.

import type { HistoryRow, PointMeta } from './api';
import { gapMs, type Series, toSeries } from './history';
import { asNumber } from './tree';

/** Points of one trend; more lines cannot be told apart. */
export const POINTS_MAX = 8;
/** Units of one trend: one axis at each side. */
export const UNITS_MAX = 2;
/** Rows of values as recorded that are asked for in one call; more are asked for as buckets. */
export const RAW_ROWS_MAX = 8_000;

/** What a trend shows. Times are in the words of Grafana: `now`, `now-6h`, or an instant. */
export interface Trend {
  topics: string[];
  from: string;
  to: string;
}

export interface Range {
  /** ms since 1970. */
  from: number;
  to: number;
}

export const PRESETS: [string, string][] = [
  ['15 min', 'now-15m'], ['1 h', 'now-1h'], ['6 h', 'now-6h'], ['24 h', 'now-24h'], ['2 d', 'now-2d'], ['7 d', 'now-7d'], ['30 d', 'now-30d'],
];
const UNITS_MS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const START = 'now-1h';
/** No range is narrower. */
const SPAN_MS_MIN = 100;

/** Reads the part of the address after `?`. Topics are separated by commas; a comma in a topic is escaped twice. */
export function parseTrend(query: string): Trend {
  const params = new URLSearchParams(query);
  const topics = (params.get('p') ?? '').split(',').filter(Boolean).map((topic) => topic.replaceAll('%2C', ','));
  return { topics: [...new Set(topics)].slice(0, POINTS_MAX), from: params.get('from') ?? START, to: params.get('to') ?? 'now' };
}

export function trendQuery({ topics, from, to }: Trend): string {
  const names = topics.map((topic) => encodeURIComponent(topic.replaceAll(',', '%2C')).replaceAll('%2F', '/'));
  return `p=${names.join(',')}&from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}`;
}

/** An instant in ms since 1970; null where the text is none. */
export function instant(text: string, now: number): number | null {
  const relative = /^now(?:-(\d{1,9})([smhdw]))?$/.exec(text);
  if (relative) return now - Number(relative[1] ?? 0) * (UNITS_MS[relative[2] ?? 's'] ?? 0);
  const ms = /^\d{10,15}$/.test(text) ? Number(text) : /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(ms) ? null : ms;
}

/** The range of a trend; null where it is none. */
export function rangeOf({ from, to }: Trend, now: number): Range | null {
  const range = { from: instant(from, now), to: instant(to, now) };
  return range.from !== null && range.to !== null && range.to - range.from >= SPAN_MS_MIN ? (range as Range) : null;
}

export const isLive = ({ to }: Trend) => to === 'now';

/** A span as `6h`, for a range that ends now; null where no whole number of seconds is it. */
function spanText(ms: number): string | null {
  for (const [unit, size] of [['d', 86_400_000], ['h', 3_600_000], ['m', 60_000], ['s', 1_000]] as const) {
    if (ms >= size && ms % size === 0) return `${ms / size}${unit}`;
  }
  return null;
}

/** A range as texts: one that reaches the present follows it. */
export function toTexts({ from, to }: Range, now: number): Pick<Trend, 'from' | 'to'> {
  const span = Math.round((to - from) / 1000) * 1000;
  const follows = to >= now - 1_000 ? spanText(Math.max(1_000, span)) : null;
  if (follows !== null) return { from: `now-${follows}`, to: 'now' };
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
}

/** The range beside this one: earlier, or later up to the present. */
export function shift({ from, to }: Range, by: -1 | 1, now: number): Range {
  const span = to - from;
  const end = Math.min(now, to + by * span);
  return { from: end - span, to: end };
}

/** Twice the range around its middle, up to the present. */
export function zoomOut({ from, to }: Range, now: number): Range {
  const span = to - from;
  const end = Math.min(now, to + span / 2);
  return { from: end - 2 * span, to: end };
}

const STEPS: [string, number][] = [
  ['100ms', 100], ['200ms', 200], ['500ms', 500], ['1s', 1_000], ['2s', 2_000], ['5s', 5_000], ['10s', 10_000], ['15s', 15_000], ['30s', 30_000],
  ['1m', 60_000], ['2m', 120_000], ['5m', 300_000], ['10m', 600_000], ['15m', 900_000], ['30m', 1_800_000],
  ['1h', 3_600_000], ['2h', 7_200_000], ['6h', 21_600_000], ['12h', 43_200_000], ['1d', 86_400_000], ['7d', 604_800_000],
];

export interface Step {
  /** As the node takes it; null for values as recorded. */
  every: string | null;
  ms: number;
}

/** The narrowest bucket of which no more than one is in a pixel. */
export function step(spanMs: number, pixels: number): Step {
  const [every, ms] = STEPS.find(([, size]) => spanMs / size <= pixels) ?? STEPS[STEPS.length - 1]!;
  return { every, ms };
}

/** Whether values as recorded are worth asking for: a pixel is less than a second. */
export const asksRaw = (spanMs: number, pixels: number) => spanMs / pixels < 1_000;

export type Side = 'left' | 'right' | 'state';

/** What is drawn of a point, by its declaration or by its values. */
export interface Shape {
  unit: string;
  side: Side;
  stepped: boolean;
  bool: boolean;
}

/** Axes of points: the first unit is at the left, the second at the right, two-state values have none. */
export function shapes(topics: readonly string[], meta: ReadonlyMap<string, PointMeta>, value: (topic: string) => unknown): Shape[] {
  const units: string[] = [];
  return topics.map((topic) => {
    const known = meta.get(topic);
    const v = value(topic);
    const bool = known ? known.kind === 'bool' : typeof v === 'boolean';
    const stepped = bool || (known !== undefined && (known.kind !== 'float' || known.writable));
    const unit = known?.unit ?? '';
    if (bool) return { unit, side: 'state', stepped, bool };
    if (!units.includes(unit)) units.push(unit);
    return { unit, side: units.indexOf(unit) === 0 ? 'left' : 'right', stepped, bool };
  });
}

/** Why a point cannot be added, or null. */
export function refusal(topics: readonly string[], topic: string, shape: (topics: readonly string[]) => Shape[]): string | null {
  if (topics.includes(topic)) return t('It is shown already.');
  if (topics.length >= POINTS_MAX) return t('A trend shows up to {n} points. Remove one first.', { n: POINTS_MAX });
  const units = new Set(shape([...topics, topic]).filter(({ side }) => side !== 'state').map(({ unit }) => unit));
  return units.size > UNITS_MAX ? t('A trend shows up to {n} units. Remove the points of one first.', { n: UNITS_MAX }) : null;
}

/** One point as it is drawn. */
export interface Line extends Series {
  topic: string;
  /** Smallest and largest value of each bucket, where there are buckets. */
  low: (number | null)[] | null;
  high: (number | null)[] | null;
  /** Width of a bucket in ms; 0 for values as recorded. */
  bucketMs: number;
}

/** Rows of several topics by topic. */
export function byTopic(rows: readonly (HistoryRow & { topic?: string })[]): Map<string, HistoryRow[]> {
  const found = new Map<string, HistoryRow[]>();
  for (const row of rows) {
    const list = found.get(row.topic ?? '');
    if (list) list.push(row);
    else found.set(row.topic ?? '', [row]);
  }
  return found;
}

/** A line from rows of means (or last values) and, with buckets, of smallest and largest values. */
export function toLine(topic: string, rows: readonly HistoryRow[], edges: { low: readonly HistoryRow[]; high: readonly HistoryRow[] } | null, ms: number, stepped: boolean): Line {
  const series = toSeries(rows, ms, stepped);
  const at = (list: readonly HistoryRow[]) => {
    const values = new Map(list.map((row) => [Date.parse(row.t), asNumber(row.v)]));
    return series.xs.map((x) => values.get(x) ?? null);
  };
  return { topic, ...series, low: edges && at(edges.low), high: edges && at(edges.high), bucketMs: ms };
}

/** A value that was heard live. */
export interface Heard {
  t: number;
  y: number | null;
  q: Series['qs'][number];
}

/** Appends what was heard after the last recorded value. Returns how many were taken. */
export function join(line: Line, heard: readonly Heard[]): number {
  let taken = 0;
  // The newest bucket holds values of its whole width.
  let last = line.xs.length > 0 ? line.xs[line.xs.length - 1]! + Math.max(0, line.bucketMs - 1) : -Infinity;
  for (const { t, y, q } of heard) {
    if (t <= last) continue;
    line.xs.push(t);
    line.ys.push(y);
    line.qs.push(q);
    line.low?.push(y);
    line.high?.push(y);
    last = t;
    taken++;
  }
  return taken;
}

/** The longest pause between two values of a line, in ms. */
export function longestPause({ xs }: Pick<Series, 'xs'>): number {
  return xs.reduce((most, x, i) => Math.max(most, i === 0 ? 0 : x - xs[i - 1]!), 0);
}

/** The value of a line at an instant: the last before it, unless a pause lies between. */
export function valueAt(line: Line, t: number, stepped: boolean): { y: number | null; q: Series['qs'][number]; low: number | null; high: number | null } | null {
  let [low, high] = [0, line.xs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (line.xs[middle]! <= t) low = middle + 1;
    else high = middle;
  }
  const i = low - 1;
  if (i < 0) return null;
  const y = line.ys[i] ?? null;
  if (!stepped && (y === null || t - line.xs[i]! > gapMs(line.xs.slice(Math.max(0, i - 50), i + 1), line.bucketMs))) return null;
  return { y, q: line.qs[i]!, low: line.low?.[i] ?? null, high: line.high?.[i] ?? null };
}

/** The smallest and the largest value of a line within a range; null where it has none. */
export function extent(line: Line, { from, to }: Range): { low: number; high: number } | null {
  let found: { low: number; high: number } | null = null;
  for (const [i, x] of line.xs.entries()) {
    if (x < from || x > to) continue;
    const [low, high] = [line.low?.[i] ?? line.ys[i] ?? null, line.high?.[i] ?? line.ys[i] ?? null];
    if (low === null || high === null) continue;
    found = found ? { low: Math.min(found.low, low), high: Math.max(found.high, high) } : { low, high };
  }
  return found;
}
