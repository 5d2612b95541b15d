import { expect, test } from 'vitest';
import type { Override, Reservation, Tag } from '../../src/lib/api';
import { tenures, tenureText } from '../../src/lib/tenures';

const NOW = Date.parse('2026-11-20T12:00:00Z');
const time = (minutes: number) => new Date(NOW + minutes * 60_000).toISOString();

function reservation(task: string, slots: [string, number, number, boolean][]): Reservation {
  const all = slots.map(([device, from, until, current]) => ({ device, start: time(from), end: time(until), current }));
  return { task, requester: `of ${task}`, priority: 'LOW', slots: all, grace_end: null, lease_s: null, lease_end: null };
}

const OVERRIDE: Override = { pattern: 'site/*', until: null, who: 'http 10.0.0.1:1 anna' };
const TAGS: Tag[] = [
  { id: 3, topic: 'site/ahu7', kind: 'note', why: 'filter dirty', owner: 'anna', placed: time(-60) },
  { id: 7, topic: 'site/ahu2', kind: 'do_not_operate', why: 'permit 4711', owner: 'anna', placed: time(-120) },
];
const ALL = [
  reservation('night', [['site/ahu10', -10, 20, true], ['site/ahu2', 600, 700, false], ['site/ahu2', -60, -30, false]]),
  reservation('urgent', [['site/ahu10', -1, 30, false]]),
];

test('tags that forbid and overrides come first, then devices by name, then who has it, who waits and who comes later', () => {
  const rows = tenures(ALL, [OVERRIDE], TAGS, NOW);
  expect(rows.map(({ what, state, task }) => [what, state, task])).toEqual([
    ['site/ahu2', 'do_not_operate', 'permit 4711'], ['site/*', 'override', ''], ['site/ahu2', 'later', 'night'], ['site/ahu7', 'note', 'filter dirty'], ['site/ahu10', 'held', 'night'], ['site/ahu10', 'waits', 'urgent'],
  ]);
  expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length);
});

test('a text selects by device, task, requester, priority and state', () => {
  const found = (text: string) => tenures(ALL, [OVERRIDE], TAGS, NOW, text).map(({ what, task }) => `${what} ${task}`.trim());
  expect(found('urgent')).toEqual(['site/ahu10 urgent']);
  expect(found('AHU10 held')).toEqual(['site/ahu10 night']);
  expect(found('anna')).toEqual(['site/ahu2 permit 4711', 'site/*', 'site/ahu7 filter dirty']);
  expect(found('nothing')).toEqual([]);
});

test('a device says who has it, and for how long', () => {
  expect(tenures(ALL, [OVERRIDE], TAGS, NOW).map((row) => tenureText(row, NOW))).toEqual([
    'Do not operate: permit 4711 (tag 7 on site/ahu2 by anna, for 2 h)',
    'Override site/* by http 10.0.0.1:1 anna, until it is set off',
    'Reserved later for night by of night, in 10 h for 1 h',
    'Note: filter dirty (tag 3 on site/ahu7 by anna, for 60 min)',
    'Reserved for night by of night, 20 min left',
    'Waits for urgent by of urgent, 30 min left',
  ]);
});
