import { expect, test } from 'vitest';
import type { HistoryRow, PointMeta } from '../../src/lib/api';
import { rank } from '../../src/lib/find';
import { questionSnippets } from '../../src/lib/snippets';
import {
  byTopic, extent, instant, join, longestPause, parseTrend, rangeOf, refusal, shapes, shift, step, toLine, toTexts, trendQuery, valueAt, zoomOut,
} from '../../src/lib/trend';

const NOW = Date.parse('2026-11-28T12:00:00Z');
const row = (topic: string, s: number, v: unknown, q: HistoryRow['q'] = 'good') => ({ topic, t: new Date(s * 1000).toISOString(), v, q });
const meta = (units: Record<string, [PointMeta['kind'], string]>) =>
  new Map(Object.entries(units).map(([topic, [kind, unit]]) => [topic, { topic, name: topic, type: 'analog', index: 0, kind, unit, writable: false }]));

test('a trend is its address', () => {
  const check = (topics: string[], from: string, to: string) => expect(parseTrend(trendQuery({ topics, from, to }))).toEqual({ topics, from, to });
  check(['a/b', 'c d/e&f'], 'now-6h', 'now');
  check(['a,b', 'c%d'], '2026-11-28T10:00:00.000Z', '2026-11-28T11:00:00.000Z');
  expect(parseTrend('p=a,b,a&from=now-6h&to=now')).toEqual({ topics: ['a', 'b'], from: 'now-6h', to: 'now' });
  expect(parseTrend('')).toEqual({ topics: [], from: 'now-1h', to: 'now' });
  expect(parseTrend(`p=${Array.from({ length: 20 }, (_, i) => i)}`).topics).toHaveLength(8);
});

test('times are those of Grafana, or instants', () => {
  const check = (text: string, ms: number | null) => expect(instant(text, NOW), text).toBe(ms);
  check('now', NOW);
  check('now-15m', NOW - 900_000);
  check('now-30d', NOW - 30 * 86_400_000);
  check('2026-11-28T11:00:00Z', NOW - 3_600_000);
  check(String(NOW), NOW);
  for (const text of ['', 'noon', 'now-', 'now-5y', 'now+1h', '12', 'now-99999999999s']) check(text, null);
  expect(rangeOf({ topics: [], from: 'now', to: 'now-1h' }, NOW)).toBeNull();
});

test('a range is moved, widened, and follows the present where it reaches it', () => {
  const range = { from: NOW - 7_200_000, to: NOW - 3_600_000 };
  expect(shift(range, -1, NOW)).toEqual({ from: NOW - 10_800_000, to: NOW - 7_200_000 });
  expect(toTexts(shift(range, 1, NOW), NOW)).toEqual({ from: 'now-1h', to: 'now' });
  expect(zoomOut(range, NOW)).toEqual({ from: NOW - 9_000_000, to: NOW - 1_800_000 });
  expect(toTexts(zoomOut({ from: NOW - 3_600_000, to: NOW }, NOW), NOW)).toEqual({ from: 'now-2h', to: 'now' });
  expect(toTexts(range, NOW)).toEqual({ from: '2026-11-28T10:00:00.000Z', to: '2026-11-28T11:00:00.000Z' });
});

test('no pixel has more than one bucket', () => {
  for (const [span, pixels] of [[900_000, 1_000], [6 * 3_600_000, 800], [30 * 86_400_000, 1_400]] as const) {
    expect(span / step(span, pixels).ms, `${span} ms on ${pixels} pixels`).toBeLessThanOrEqual(pixels);
  }
  expect(step(900_000, 1_000).every).toBe('1s');
  expect(step(30 * 86_400_000, 1_400).every).toBe('1h');
});

test('two units have an axis each, and states none', () => {
  const known = meta({ a: ['float', 'kV'], b: ['float', 'A'], c: ['bool', ''], d: ['float', 'Hz'], e: ['float', 'kV'] });
  const shape = (topics: readonly string[]) => shapes(topics, known, () => null);
  expect(shape(['a', 'b', 'c', 'e']).map(({ side }) => side)).toEqual(['left', 'right', 'state', 'left']);
  expect(refusal(['a', 'b'], 'c', shape)).toBeNull();
  expect(refusal(['a', 'b'], 'e', shape)).toBeNull();
  expect(refusal(['a', 'b'], 'd', shape)).toContain('two units'.replace('two', '2'));
  expect(refusal(['a'], 'a', shape)).toContain('already');
  expect(refusal(Array.from({ length: 8 }, (_, i) => `t${i}`), 'a', shape)).toContain('up to 8 points');
});

test('values heard live go on where the history ends, once each', () => {
  const heard = [8, 9, 10, 11, 12].map((s) => ({ t: s * 1000, y: s, q: 'good' as const }));
  const line = toLine('a', Array.from({ length: 10 }, (_, i) => row('a', i, i)), null, 0, false);
  expect(join(line, heard)).toBe(3);
  expect(join(line, heard)).toBe(0);
  expect(line.xs).toEqual(Array.from({ length: 13 }, (_, i) => i * 1000));
  expect(longestPause(line)).toBe(1_000);
  const empty = toLine('a', [], null, 0, false);
  expect(join(empty, heard)).toBe(5);
});

test('a bucket that is not over takes no value again', () => {
  const rows = [row('a', 0, 1), row('a', 10, 2)];
  const line = toLine('a', rows, { low: [row('a', 0, 0), row('a', 10, 1)], high: [row('a', 0, 5), row('a', 10, 6)] }, 10_000, false);
  expect(join(line, [{ t: 15_000, y: 3, q: 'good' }, { t: 20_000, y: 4, q: 'good' }])).toBe(1);
  expect([line.low, line.high]).toEqual([[0, 1, 4], [5, 6, 4]]);
  expect(extent(line, { from: 0, to: 20_000 })).toEqual({ low: 0, high: 6 });
});

test('the cursor tells the last value before it, with its quality', () => {
  const line = toLine('a', [...Array.from({ length: 60 }, (_, i) => row('a', i, i, i === 5 ? 'bad' : 'good')), row('a', 3_000, 9)], null, 0, false);
  const check = (ms: number, y: number | null, q = 'good') => expect(valueAt(line, ms, false), `${ms}`).toMatchObject({ y, q });
  check(5_500, 5, 'bad');
  check(6_000, 6);
  expect(valueAt(line, -1, false)).toBeNull();
  expect(valueAt(line, 1_000_000, false)).toBeNull();
  expect(valueAt(toLine('a', [row('a', 0, true)], null, 0, true), 1_000_000, true)).toMatchObject({ y: 1 });
});

test('rows belong to their topics', () => {
  expect([...byTopic([row('a', 0, 1), row('b', 0, 2), row('a', 1, 3)])].map(([topic, rows]) => [topic, rows.length])).toEqual([['a', 2], ['b', 1]]);
});

test('names are found by words, the nearest first', () => {
  const names = ['site/feeder1/current', 'site/feeder1/current/a', 'site/currents', 'x/feeder10/current'];
  expect(rank(names, 'feeder1 current', 10)).toEqual(['site/feeder1/current', 'x/feeder10/current', 'site/feeder1/current/a']);
  expect(rank(names, 'nothing', 10)).toEqual([]);
  expect(rank(names, '', 2)).toHaveLength(2);
});

test('a question is the same for every tool', () => {
  const texts = questionSnippets({ topics: ['a/b', 'c d'], from: '6h', to: null, every: '30s', origin: 'http://n:8080' }).map(({ text }) => text);
  expect(texts[0]).toBe("curl -s 'http://n:8080/v1/history?topic=a%2Fb&topic=c+d&from=6h&every=30s&agg=mean&format=csv'");
  expect(texts[1]).toBe("tieline history query a/b 'c d' --from 6h --every 30s --agg mean --format csv");
  expect(texts[2]).toContain('.pandas(["a/b","c d"], start="6h", every="30s", agg="mean")');
});
