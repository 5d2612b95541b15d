import { expect, test } from 'vitest';
import type { Device, TopicUpdate } from '../../src/lib/api';
import { arrange, withStates } from '../../src/lib/devices';

test('the state of a device changes with its topic, not with the next look at the list', () => {
  const device = (topic: string): Device => ({ topic, protocol: 'dnp3', address: '', state: 'online', points: 1 });
  const devices = [device('site/a'), device('site/b')];
  const update = (topic: string, kind: TopicUpdate['kind'], value: unknown): TopicUpdate => ({ topic, kind, value, seq: 1 });
  const t = '2026-11-20T09:36:00.123Z';
  const away = withStates(devices, [update('$SYS/devices/site/a/state', 'point', { v: 'away', q: 'good', t }), update('site/b/state', 'text', 'away')]);
  expect(away.map(({ state }) => state)).toEqual(['away', 'online']);
  expect(withStates(devices, [update('$SYS/devices/site/b/stats', 'json', {})])).toBe(devices);
});

test('devices are listed worst first, as the node does: those away with the most points', () => {
  const device = (topic: string, state: Device['state'], points: number): Device => ({ topic, protocol: 'dnp3', address: '', state, points });
  const devices = [device('b', 'online', 9), device('d', 'slow', 1), device('c', 'away', 2), device('a', 'online', 1), device('e', 'garbage', 7)];
  expect(arrange(devices, '').map(({ topic }) => topic)).toEqual(['e', 'c', 'd', 'a', 'b']);
});
