import { expect, test } from 'vitest';
import { moved } from '../../src/lib/cursor';

test('keys move a cursor within its list', () => {
  const cases: [string, number, number, number | null][] = [
    ['ArrowDown', -1, 3, 0], ['ArrowDown', 1, 3, 2], ['ArrowDown', 2, 3, 2],
    ['ArrowUp', 1, 3, 0], ['ArrowUp', 0, 3, 0], ['ArrowUp', -1, 3, 0],
    ['Home', 2, 3, 0], ['End', 0, 3, 2], ['End', -1, 0, 0], ['Enter', 1, 3, null], ['toString', 1, 3, null],
  ];
  for (const [key, cursor, count, expected] of cases) expect(moved(key, cursor, count), `${key} at ${cursor} of ${count}`).toBe(expected);
});
