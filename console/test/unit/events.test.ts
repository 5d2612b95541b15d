import { expect, test } from 'vitest';
import type { HistoryRow, PointMeta } from '../../src/lib/api';
import { eventsQuery, parseEvents, sequence, statePoints } from '../../src/lib/events';

const row = (topic: string, ms: number, v: unknown, more: Partial<HistoryRow> = {}): HistoryRow => ({ topic, t: new Date(ms).toISOString(), v, q: 'good', ...more });

test('events are in the order of the times of their devices, newest first, with the time between them', () => {
  // The relay was read before the breaker, and tripped after it.
  const rows = [row('a/relay', 1_004, true), row('b/breaker', 1_003, false), row('a/relay', 1_009, false)];
  expect(sequence(rows, false).map(({ topic, t, after }) => [topic, t, after])).toEqual([['a/relay', 1_009, 5], ['a/relay', 1_004, 1], ['b/breaker', 1_003, null]]);
});

test('what a poll repeats is no event, another quality is', () => {
  const rows = [row('a', 1, true), row('a', 2, true), row('a', 3, true, { q: 'bad', why: ['away'] }), row('b', 3, true)];
  expect(sequence(rows, false).map(({ topic, t }) => `${topic}${t}`)).toEqual(['b3', 'a3', 'a1']);
  expect(sequence(rows, true)).toHaveLength(4);
  expect(new Set(sequence(rows, true).map(({ key }) => key)).size).toBe(4);
});

test('a clock that is not synchronized is said apart from the quality', () => {
  const [event] = sequence([row('a', 1, true, { why: ['time_unsynced'] })], false);
  expect(event).toMatchObject({ synchronized: false, why: [], q: 'good' });
});

test('points with states are chosen by words or by a filter', () => {
  const point = (topic: string, kind: PointMeta['kind'], type: string) => [topic, { topic, name: topic, kind, type, index: 0, writable: false }] as const;
  const meta = new Map<string, PointMeta>([point('s/f1/breaker', 'bool', 'binary'), point('s/f1/position', 'int', 'double-bit'), point('s/f1/current', 'float', 'analog'), point('s/f2/breaker', 'bool', 'binary')]);
  const check = (text: string, topics: string[]) => expect(statePoints(meta, text).topics, text).toEqual(topics);
  check('', ['s/f1/breaker', 's/f1/position', 's/f2/breaker']);
  check('f1', ['s/f1/breaker', 's/f1/position']);
  check('s/+/breaker', ['s/f1/breaker', 's/f2/breaker']);
  expect(statePoints(meta, 's/#/x').error).toContain('last level');
});

test('the list is its address', () => {
  const asked = { filter: 's/+/breaker & more', from: 'now-24h', to: 'now', all: true };
  expect(parseEvents(eventsQuery(asked))).toEqual(asked);
  expect(parseEvents('')).toEqual({ filter: '', from: 'now-1h', to: 'now', all: false });
});
