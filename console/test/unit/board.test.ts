import { expect, test } from 'vitest';
import { boardQuery, boardRange, filled, isFrozen, isOutside, parseBoard, share, valuesOf } from '../../src/lib/board';

const VARIABLES = { variables: [{ name: 'feeder', label: 'Feeder', values: ['feeder1', 'feeder2'] }] };

test('an address is a name, values of variables and a range', () => {
  for (const query of ['', 'name=feeders', 'name=feeders&feeder=site/feeder2', 'name=a&from=now-6h&to=now', 'name=a&x=1&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z']) expect(boardQuery(parseBoard(query))).toBe(query);
  expect(parseBoard('name=a&feeder=f2')).toEqual({ name: 'a', from: null, to: 'now', values: { feeder: 'f2' } });
});

test('a variable is what is chosen if it may be, else the first', () => {
  expect(valuesOf(VARIABLES, { feeder: 'feeder2' })).toEqual({ feeder: 'feeder2' });
  for (const chosen of [{}, { feeder: 'secret' }, { other: 'feeder2' }] as Record<string, string>[]) expect(valuesOf(VARIABLES, chosen)).toEqual({ feeder: 'feeder1' });
});

test('variables are put into all texts of a panel', () => {
  const panel = { kind: 'trend' as const, title: '{feeder}', width: 6, height: 5, topics: ['a/{feeder}/i', 'a/{feeder}/{feeder}'], filter: '{feeder}/#', text: '{other} {feeder}' };
  expect(filled(panel, { feeder: 'f2' })).toEqual({ ...panel, title: 'f2', topics: ['a/f2/i', 'a/f2/f2'], filter: 'f2/#', text: '{other} f2' });
});

test('a range is that of the address, else that of the board', () => {
  expect(boardRange({ range: '6h' }, parseBoard(''))).toMatchObject({ from: 'now-6h', to: 'now' });
  expect(boardRange({ range: '6h' }, parseBoard('from=now-1d&to=now'))).toMatchObject({ from: 'now-1d', to: 'now' });
  const frozen = (from: string, to: string) => isFrozen({ from, to }, 0);
  expect(frozen('2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z')).toBe(true);
  expect([frozen('now-1h', 'now'), frozen('2026-01-01T00:00:00Z', 'now'), frozen('x', 'y')]).toEqual([false, false, false]);
});

test('a bar ends at its ends, and limits are inside', () => {
  expect([-5, 0, 5, 10, 15].map((value) => share(value, 0, 10))).toEqual([0, 0, 0.5, 1, 1]);
  const limits = { low: 1, high: 2 };
  expect([0.9, 1, 2, 2.1, null].map((value) => isOutside(value, limits))).toEqual([true, false, false, true, false]);
  expect(isOutside(1e9, {})).toBe(false);
});
