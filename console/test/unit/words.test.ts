import { expect, test } from 'vitest';
import { isUnknown, topicPath } from '../../src/lib/api';
import { readChoice } from '../../src/lib/choice';
import { arrange, sums } from '../../src/lib/devices';
import * as format from '../../src/lib/format';
import { Ring, sparkPath } from '../../src/lib/ring';
import { deviceHash, parseRoute, routeHash } from '../../src/lib/route';
import { FOLLOW_ALL_TOPICS_MAX, liveUrl, scope } from '../../src/lib/scope';
import { snippets } from '../../src/lib/snippets';

test('values read steadily', () => {
  const check = (v: unknown, fraction: boolean, text: string, type = '') =>
    expect(format.valueText(v, fraction, type), JSON.stringify(v)).toBe(text);
  check(59.98123, true, '59.981');
  check(60, true, '60.000');
  check(60, false, '60');
  check(11432.66, true, '11432.7');
  check(-0.00001, true, '-1.000e-5');
  check(-0.0004, true, '-4.000e-4');
  check(0, true, '0.000');
  check(12_345_678, false, '12345678');
  check(2, false, 'on', 'double_bit');
  check(true, false, 'on');
  check(null, false, '–');
  check('inf', false, 'inf');
  check({ hex: '00ff1a' }, false, '00 ff 1a');
  check({ x: 1 }, false, '{"x":1}');
  check(1, false, 'off', 'double-bit');
  expect([999, 12_600, 1_048_575, 4.6 * 1024 ** 2].map(format.bytesText)).toEqual(['999 B', '12.3 KiB', '1.0 MiB', '4.6 MiB']);
  expect(format.typeText('binary-output')).toBe('binary output');
  expect(format.shortText({ x: 1, y: 2 })).toBe('{ 2 }');
  expect(format.shortText({ hex: '00' })).toBeNull();
});

test('ages read in one unit', () => {
  const check = (ms: number, text: string) => expect(format.ageText(ms)).toBe(text);
  check(0, '0 s');
  check(-900, '0 s');
  check(-5_000, '−5 s');
  check(99_000, '99 s');
  check(100_000, '1 min');
  check(5_999_000, '99 min');
  check(6_000_000, '1 h');
  check(72 * 3_600_000, '3 d');
  expect(format.durationText(142)).toBe('142 ms');
  expect(format.durationText(2_100)).toBe('2 s');
});

test('rates, counts and counters are short', () => {
  expect([12.3, 1.25, 0.05, 0.001].map(format.rateText)).toEqual(['12/s', '1.3/s', '3/min', '']);
  expect([999, 12_345, 123_456, 4_560_000].map(format.countText)).toEqual(['999', '12.3k', '123k', '4.6M']);
  expect(format.statText('rtt_ms', 1.834)).toEqual({ label: 'rtt', text: '1.8 ms' });
  expect(format.statText('unsolicited_received', 7)).toEqual({ label: 'unsolicited received', text: '7' });
  expect(format.statText('received_bytes', 3_004_400)).toEqual({ label: 'received', text: '3.0MB' });
});

test('times are shown in the chosen zone', () => {
  format.showUtc(true);
  const t = Date.parse('2026-11-20T09:36:00.123Z');
  expect(format.timeText(t, true)).toBe('2026-11-20 09:36:00.123 UTC');
  format.showUtc(false);
});

test('sparklines lie in their box', () => {
  const ring = new Ring();
  expect(sparkPath(ring, 59, 10, false)).toBe('');
  ring.push(1);
  ring.push(2);
  expect(sparkPath(ring, 59, 10, false)).toBe('M58.0 9.0L59.0 1.0');
  expect(sparkPath(ring, 59, 10, true)).toBe('M58.0 9.0H59.0V1.0');
  for (let i = 0; i < 100; i++) ring.push(7);
  expect(sparkPath(ring, 59, 10, false)).toMatch(/^M0\.0 5\.0L/);
  expect(ring.length).toBe(60);
});

test('a typed value is checked against kind and limits', () => {
  const meta = { kind: 'float' as const, min: 0, max: 100 };
  const check = (text: string, value: number | null, error: RegExp | null, kind: 'float' | 'int' = 'float') => {
    const choice = readChoice(text, { ...meta, kind });
    expect(choice.value, text).toBe(value);
    if (error) expect(choice.error).toMatch(error);
    else expect(choice.error).toBeNull();
  };
  check('', null, null);
  check(' 12,5 ', 12.5, null);
  check('1e1', 10, null);
  check('0x10', null, /not a number/);
  check('1 2', null, /not a number/);
  check('-1', null, /below the minimum of 0/);
  check('101', null, /above the maximum of 100/);
  check('2.5', null, /whole number/, 'int');
});

test('a command that was sent and not answered is not a refusal', () => {
  expect(isUnknown({ reason: 'timeout', detail: 'the device did not answer in time; the command may have been carried out' })).toBe(true);
  expect(isUnknown({ reason: 'timeout', detail: 'the request waited for the device too long; nothing was sent' })).toBe(false);
  expect(isUnknown({ reason: 'connection_lost', detail: '' })).toBe(true);
  expect(isUnknown({ reason: 'local', detail: 'local mode' })).toBe(false);
});

test('routes survive the address', () => {
  const route = { view: 'devices' as const, device: 'a b/c', point: 'a b/c/d?e&f', task: 'night &1', pattern: 'site/+/#', query: '' };
  expect(parseRoute(routeHash(route))).toEqual(route);
  expect(parseRoute('')).toEqual({ view: 'topics', device: null, point: null, task: null, pattern: null, query: '' });
  const trends = { view: 'trends' as const, device: null, point: null, task: null, pattern: null, query: 'p=a/b,c%2523&from=now-6h&to=now' };
  expect(parseRoute(routeHash(trends))).toEqual(trends);
  expect(parseRoute('#/nowhere')).toMatchObject({ view: 'topics' });
  expect(deviceHash('a b/c', 'a b/c/d&e')).toBe('#/devices?device=a%20b/c&at=a%20b/c/d%26e');
  expect(parseRoute(deviceHash('a/b', 'a/b/c'))).toMatchObject({ view: 'devices', device: 'a/b', at: 'a/b/c', point: null });
  expect(routeHash({ view: 'topics', device: null, point: 'a/b', task: null, pattern: null, query: '' })).toBe('#/topics?point=a/b');
});

test('a large node is followed only where someone looks', () => {
  const sight = { selected: ['a/b/c'], leaves: ['a/x', '$SYS/uptime'], parents: ['', 'a', '$SYS'], blank: ['z'] };
  expect(scope(100, true, sight)).toEqual({ filters: ['#', '$SYS/#'], groups: ['#'] });
  // Who may not read the topics of the node does not ask for them: the node would refuse all.
  expect(scope(100, false, sight)).toEqual({ filters: ['#'], groups: ['#'] });
  const large = scope(FOLLOW_ALL_TOPICS_MAX + 1, false, sight);
  expect(large).toEqual({ filters: ['+', 'a/b/c', 'a/x', 'z/+'], groups: ['', 'a', 'z'] });
  const leaves = Array.from({ length: 500 }, (_, i) => `b${i}/x`);
  expect(scope(1e6, true, { ...sight, leaves, parents: leaves })).toMatchObject({ filters: { length: 250 }, groups: { length: 256 } });
  expect(liveUrl({ filters: ['#', 'a/+'], groups: [''] })).toBe('/v1/live?filter=%23&filter=a%2F%2B&group=');
});

test('snippets are safe in a shell', () => {
  const list = snippets({ topic: "it's a/b c", origin: 'http://h:1', host: '[::1]', mqtt: '127.0.0.1:2883', from: null, writable: true });
  expect(list.map((s) => s.text)).toEqual([
    "mosquitto_sub -h ::1 -p 2883 -v -t 'it'\\''s a/b c'",
    "curl -s 'http://h:1/v1/topics/it'\\''s%20a/b%20c'",
    "tieline sub 'it'\\''s a/b c'",
    "tieline command 'it'\\''s a/b c' true",
  ]);
  expect(topicPath('$SYS/a b')).toBe('%24SYS/a%20b');
});

test('the worst devices come first, and counters are summed by their names', () => {
  const device = (topic: string, state: string) => ({ topic, state, protocol: 'dnp3', address: 'x', points: 1 }) as never;
  const list = arrange([device('b', 'online'), device('a10', 'online'), device('a2', 'away'), device('c', 'slow')], '');
  expect(list.map((d) => d.topic)).toEqual(['a2', 'c', 'a10', 'b']);
  expect(arrange(list, 'AWAY').map((d) => d.topic)).toEqual(['a2']);
  expect(sums({ polls: 9, poll_failures: 2, timeouts: 2, garbage: 1, rtt_ms: 3, why: '' })).toEqual({ polls: 9, rtt_ms: 3, errors: 3 });
  expect(sums(undefined)).toEqual({ polls: null, rtt_ms: null, errors: null });
});
