import { expect, test } from 'vitest';
import type { Override, Reservation } from '../../src/lib/api';
import { tenures, tenureText } from '../../src/lib/tenures';

const NOW = Date.parse('2026-11-20T12:00:00Z');
const time = (minutes: number) => new Date(NOW + minutes * 60_000).toISOString();

function reservation(task: string, slots: [string, number, number, boolean][]): Reservation {
  const all = slots.map(([device, from, until, current]) => ({ device, start: time(from), end: time(until), current }));
  return { task, requester: `of ${task}`, priority: 'LOW', slots: all, grace_end: null, lease_s: null, lease_end: null };
}

const OVERRIDE: Override = { pattern: 'site/*', until: null, who: 'http 10.0.0.1:1 anna' };
const ALL = [
  reservation('night', [['site/ahu10', -10, 20, true], ['site/ahu2', 600, 700, false], ['site/ahu2', -60, -30, false]]),
  reservation('urgent', [['site/ahu10', -1, 30, false]]),
];

test('overrides come first, then devices by name, then who has it, who waits and who comes later', () => {
  const rows = tenures(ALL, [OVERRIDE], NOW);
  expect(rows.map(({ what, state, task }) => [what, state, task])).toEqual([
    ['site/*', 'override', ''], ['site/ahu2', 'later', 'night'], ['site/ahu10', 'held', 'night'], ['site/ahu10', 'waits', 'urgent'],
  ]);
  expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length);
});

test('a text selects by device, task, requester, priority and state', () => {
  const found = (text: string) => tenures(ALL, [OVERRIDE], NOW, text).map(({ what, task }) => `${what} ${task}`.trim());
  expect(found('urgent')).toEqual(['site/ahu10 urgent']);
  expect(found('AHU10 held')).toEqual(['site/ahu10 night']);
  expect(found('anna')).toEqual(['site/*']);
  expect(found('nothing')).toEqual([]);
});

test('a device says who has it, and for how long', () => {
  expect(tenures(ALL, [OVERRIDE], NOW).map((row) => tenureText(row, NOW))).toEqual([
    'Override site/* by http 10.0.0.1:1 anna, until it is set off',
    'Reserved later for night by of night, in 10 h for 1 h',
    'Reserved for night by of night, 20 min left',
    'Waits for urgent by of urgent, 30 min left',
  ]);
});
