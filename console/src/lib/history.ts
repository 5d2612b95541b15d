// From history rows to what a chart draws: series, spans of doubtful quality, and gaps.

import type { Grade, HistoryRow, Quality } from './api';
import { asNumber } from './tree';

export interface Span {
  /** ms since 1970. */
  from: number;
  to: number;
  q: Quality | 'none';
}

export interface Series {
  /** ms since 1970, ascending. */
  xs: number[];
  ys: (number | null)[];
  qs: Quality[];
  spans: Span[];
}

/** Up to this width every value is shown as it was recorded. */
const RAW_MS_MAX = 15 * 60_000;
/** Buckets that a chart aims for. */
const BUCKETS = 400;

const STEPS: [string, number][] = [
  ['1s', 1_000], ['2s', 2_000], ['5s', 5_000], ['10s', 10_000], ['30s', 30_000],
  ['1m', 60_000], ['2m', 120_000], ['5m', 300_000], ['10m', 600_000], ['30m', 1_800_000],
  ['1h', 3_600_000], ['2h', 7_200_000], ['6h', 21_600_000], ['1d', 86_400_000], ['7d', 604_800_000],
];

/** The bucket for a range: null for values as recorded. */
export function bucket(rangeMs: number, raw = rangeMs <= RAW_MS_MAX): { every: string | null; ms: number } {
  if (raw) return { every: null, ms: 0 };
  const [every, ms] = STEPS.find(([, step]) => rangeMs / step <= BUCKETS) ?? STEPS[STEPS.length - 1]!;
  return { every, ms };
}

/**
 * A pause between two values that says that nothing was recorded, in ms.
 * A device that reports by exception pauses by nature, so the measure is the point's own rhythm.
 */
export function gapMs(xs: readonly number[], bucketMs: number): number {
  const pauses = xs.slice(1).map((x, i) => x - xs[i]!).sort((a, b) => a - b);
  const usual = pauses[Math.floor(pauses.length * 0.9)] ?? 0;
  return Math.max(60_000, 2.5 * bucketMs, 8 * usual);
}

/** Rows as a series. Steps hold each value until the next and know no gaps. */
export function toSeries(rows: readonly HistoryRow[], bucketMs: number, stepped: boolean): Series {
  const series: Series = { xs: [], ys: [], qs: [], spans: [] };
  const times = rows.map((row) => Date.parse(row.t));
  const gap = stepped ? Infinity : gapMs(times, bucketMs);
  let last = -Infinity;
  for (const [i, row] of rows.entries()) {
    const t = times[i]!;
    if (Number.isNaN(t) || t < last) continue;
    if (t - last > gap && series.xs.length > 0) {
      series.spans.push({ from: last + bucketMs, to: t, q: 'none' });
      add(series, last + 1, null, series.qs[series.qs.length - 1]!);
    }
    add(series, t, asNumber(row.v), row.q ?? 'good');
    last = t;
  }
  return series;
}

function add(series: Series, t: number, y: number | null, q: Quality): void {
  series.xs.push(t);
  series.ys.push(y);
  series.qs.push(q);
}

/** Appends a live value; one that is not newer than the last is left out. Returns whether it was taken. */
export function append(series: Series, t: number, v: unknown, q: Grade): boolean {
  if (t <= (series.xs[series.xs.length - 1] ?? -Infinity)) return false;
  add(series, t, asNumber(v), q === 'uncertain' || q === 'bad' ? q : 'good');
  return true;
}

/** Where values were not good, from each until the next good one (or `end`), joined where they touch. */
export function qualitySpans(series: Series, end: number): Span[] {
  const spans: Span[] = [];
  for (const [i, q] of series.qs.entries()) {
    if (q === 'good') continue;
    const from = series.xs[i]!;
    const to = series.xs[i + 1] ?? Math.max(end, from);
    const before = spans[spans.length - 1];
    if (before && before.q === q && before.to >= from) before.to = to;
    else spans.push({ from, to, q });
  }
  return [...spans, ...series.spans];
}
