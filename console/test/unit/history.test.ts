import { expect, test } from 'vitest';
import { append, bucket, gapMs, qualitySpans, toSeries } from '../../src/lib/history';

const row = (s: number, v: unknown, q: 'good' | 'bad' | 'uncertain' = 'good') => ({ t: new Date(s * 1000).toISOString(), v, q });

test('buckets grow with the range', () => {
  const check = (ms: number, every: string | null) => expect(bucket(ms).every, `${ms} ms`).toBe(every);
  check(300_000, null);
  check(900_000, null);
  check(3_600_000, '10s');
  check(86_400_000, '5m');
  check(604_800_000, '30m');
  check(40 * 365 * 86_400_000, '7d');
  expect(bucket(300_000, false).every).toBe('1s');
});

test('a pause is a gap only against the rhythm of the point', () => {
  expect(gapMs([0, 1000, 2000, 3000], 0)).toBe(60_000);
  expect(gapMs([0, 600_000, 1_200_000], 0)).toBe(4_800_000);
  expect(gapMs([], 300_000)).toBe(750_000);
});

test('a gap breaks the line and is named', () => {
  const rows = [...Array.from({ length: 20 }, (_, i) => row(i, i)), row(200, 1)];
  const series = toSeries(rows, 0, false);
  expect(series.ys[20]).toBeNull();
  expect(series.spans).toEqual([{ from: 19_000, to: 200_000, q: 'none' }]);
  expect(toSeries(rows, 0, true).spans).toEqual([]);
});

test('rows out of order or without a time are left out; states become numbers', () => {
  const series = toSeries([row(2, true), row(1, false), { t: 'never', v: 1 }, row(3, null)], 0, true);
  expect(series).toMatchObject({ xs: [2000, 3000], ys: [1, null], qs: ['good', 'good'] });
});

test('doubtful spans last until the next good value and are joined', () => {
  const series = toSeries([row(1, 1), row(2, 1, 'bad'), row(3, 1, 'bad'), row(4, 1), row(5, 1, 'uncertain')], 0, true);
  expect(qualitySpans(series, 9000)).toEqual([
    { from: 2000, to: 4000, q: 'bad' },
    { from: 5000, to: 9000, q: 'uncertain' },
  ]);
});

test('only newer live values are appended', () => {
  const series = toSeries([row(1, 1)], 0, false);
  expect(append(series, 1000, 2, 'good')).toBe(false);
  expect(append(series, 1001, true, 'good')).toBe(true);
  expect(series.ys).toEqual([1, 1]);
});
