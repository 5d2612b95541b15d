import { expect, test } from 'vitest';
import { filterError, filterMatches, matcher } from '../../src/lib/filter';

const check = (filter: string, topic: string, expected: boolean) =>
  expect(filterMatches(filter, topic), `${filter} on ${topic}`).toBe(expected);

test('filters select as MQTT 5.0 sections 4.7.1.2 and 4.7.1.3 say', () => {
  check('sport/tennis/player1/#', 'sport/tennis/player1', true);
  check('sport/tennis/player1/#', 'sport/tennis/player1/score/wimbledon', true);
  check('sport/#', 'sports', false);
  check('sport/tennis/+', 'sport/tennis/player1', true);
  check('sport/tennis/+', 'sport/tennis/player1/ranking', false);
  check('sport/+', 'sport', false);
  check('sport/+', 'sport/', true);
  check('+/+', '/finance', true);
  check('+', '/finance', false);
  check('#', '$SYS/a', false);
  check('+/a', '$SYS/a', false);
  check('$SYS/#', '$SYS/a', true);
  check('a/b', 'a', false);
});

test('wrong filters are named', () => {
  expect(filterError('a/#/b')).toMatch(/whole last level/);
  expect(filterError('a#')).toMatch(/whole last level/);
  expect(filterError('a+/b')).toMatch(/whole level/);
  expect(filterError('')).toMatch(/empty/);
  expect(filterError('+/a/#')).toBeNull();
});

test('the filter box takes MQTT filters or words', () => {
  expect(matcher('  ').test).toBeNull();
  expect(matcher('#').test).toBeNull();
  expect(matcher('a/#/b')).toMatchObject({ test: null, error: expect.stringMatching(/last level/) });
  expect(matcher('north/+/breaker').test?.('north/feeder1/breaker')).toBe(true);
  expect(matcher('Feeder1 break').test?.('north/feeder1/breaker')).toBe(true);
  expect(matcher('feeder1 pv').test?.('north/feeder1/breaker')).toBe(false);
});
