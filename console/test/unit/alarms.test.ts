import { expect, test } from 'vitest';
import { type Alarm, alarmsQuery, byWorst, fold, keyOf, parseAlarms, select, summarize } from '../../src/lib/alarms';

let seq = 0;
const alarm = (topic: string, more: Partial<Alarm> = {}): Alarm => ({
  topic, kind: 'high', seq: ++seq, state: 'unacknowledged', letter: 'B', priority: 'high', group: '', text: '', active: true, acked: false, latched: false, chattering: false, uncertain: false,
  value: 1, limit: 0, since: `2026-11-29T02:00:00.${String(seq).padStart(6, '0')}Z`, changed: '', acked_by: null, repeats: 0, shelved: null, out_of_service: null, cause: null, count: 0,
  advice: { cause: '', consequence: '', action: '', respond_in_s: null }, ...more,
});
const below = (topic: string, cause: string, more: Partial<Alarm> = {}) => alarm(topic, { cause: { topic: cause, kind: 'high' }, ...more });
const topics = (all: readonly Alarm[]) => all.map(({ topic }) => topic).join(' ');

test('the worst is what is unacknowledged, then active, then urgent, then new', () => {
  const acked = { acked: true, state: 'acknowledged' } as const;
  const all = [
    alarm('old'), alarm('new'), alarm('gone', { active: false, state: 'returned' }), alarm('seen', { ...acked, priority: 'critical' }),
    alarm('urgent', { priority: 'critical' }), alarm('latched', { acked: true, active: false, state: 'latched' }), alarm('aside', { state: 'shelved', priority: 'critical' }),
  ];
  expect(topics([...all].sort(byWorst))).toBe('urgent new old gone aside seen latched');
  const { by, worst } = summarize([...all, below('much', 'new', { priority: 'critical' })]);
  expect(worst?.topic).toBe('urgent');
  expect(by.slice(0, 2)).toEqual([{ priority: 'critical', fresh: 1, active: 2 }, { priority: 'high', fresh: 3, active: 2 }]);
});

test('the list has what its address asks for', () => {
  const all = [alarm('s/a', { group: 'one', text: 'too hot' }), alarm('s/b', { priority: 'low' }), alarm('t/a', { priority: 'critical', state: 'shelved' })];
  const check = (query: string, expected: string) => expect(topics(select(all, parseAlarms(query)).found), query).toBe(expected);
  check('', 's/a s/b');
  check('order=time', 's/b s/a');
  check('tab=aside', 't/a');
  check('priority=high', 's/a');
  check('priority=low', 's/a s/b');
  check('group=one', 's/a');
  check('state=acknowledged', '');
  check('q=hot', 's/a');
  check('q=%2B/b', 's/b');
  expect(select(all, parseAlarms('q=a/%23/b')).error).toContain('last level');
  const asked = { ...parseAlarms(''), tab: 'journal', q: 'a & b', alarm: 's/a b|high' };
  expect(parseAlarms(alarmsQuery(asked))).toEqual(asked);
  expect(alarmsQuery(parseAlarms(''))).toBe('');
});

test('consequences are below their cause where it is opened, and those without a cause here are not lost', () => {
  const all = [alarm('device'), below('device/a', 'device'), below('device/b', 'device'), below('device/b/c', 'device/b'), below('other', 'nowhere')];
  const rows = (...opened: string[]) => fold(all, new Set(opened.map((topic) => `${topic}|high`))).map(({ alarm: { topic }, level, below: count, open }) => `${'.'.repeat(level)}${topic} ${count}${open ? ' open' : ''}`);
  expect(rows()).toEqual(['device 3', 'other 0']);
  expect(rows('device')).toEqual(['device 3 open', '.device/a 0', '.device/b 1', 'other 0']);
  expect(rows('device', 'device/b')).toEqual(['device 3 open', '.device/a 0', '.device/b 1 open', '..device/b/c 0', 'other 0']);
  expect(fold(all.slice(1), new Set()).map(({ key }) => key)).toEqual(['device/a', 'device/b', 'other'].map((topic) => keyOf({ topic, kind: 'high' })));
});
