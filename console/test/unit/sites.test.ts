import { describe, expect, it } from 'vitest';
import type { Alarm } from '../../src/lib/alarms';
import type { Site } from '../../src/lib/api';
import { alarmsBySite, bySite, clockText, type Data, isClockWrong, messagesText, places, prefixOf } from '../../src/lib/sites';

const site = (name: string, more: Partial<Site> = {}): Site => ({
  name, state: 'up', since: '', lag_s: 0, waiting: 0, lost: 0, records: 0, samples: 0, ...more,
});

describe('sites', () => {
  it('shows first what is away, then what lags', () => {
    const all = [site('a', { lag_s: 0.4 }), site('b', { lag_s: 12 }), site('c', { state: 'away' }), site('d')];
    expect(bySite(all, '').map(({ name }) => name)).toEqual(['c', 'b', 'a', 'd']);
    expect(bySite(all, ' D ').map(({ name }) => name)).toEqual(['d']);
  });

  it('orders sites of one lag by their most urgent alarms, then by bad and uncertain values', () => {
    const counts = (bad: number, uncertain: number) => ({ good: 0, unstated: 0, total: bad + uncertain, bad, uncertain });
    const data: Record<string, Data> = {
      a: { counts: counts(0, 0), alarms: [] }, b: { counts: counts(0, 3), alarms: [] }, c: { counts: counts(1, 0), alarms: [] },
      d: { counts: null, alarms: [['critical', 0], ['high', 9]] }, e: { counts: null, alarms: [['critical', 1], ['high', 0]] },
    };
    const all = ['a', 'b', 'c', 'd', 'e', 'unknown'].map((name) => site(name));
    expect(bySite(all, '', (name) => data[name]).map(({ name }) => name)).toEqual(['e', 'd', 'c', 'b', 'a', 'unknown']);
    expect(bySite([...all, site('z', { lag_s: 4 }), site('y', { state: 'away' })], '', (name) => data[name])[1]!.name).toBe('z');
  });

  it('finds the prefix of topics of sites', () => {
    expect(prefixOf(['north', 'south'], [])).toBe('sites/');
    expect(prefixOf(['north', 'south'], ['sites', 'sites/north', 'north', 'north/x'])).toBe('sites/');
    expect(prefixOf(['north', 'south'], ['region', 'region/north', 'region/south', 'sites/north'])).toBe('region/');
    expect(prefixOf(['north', 'south'], ['north', 'south', 'south/plant/north'])).toBe('');
  });

  it('counts active alarms of sites, without consequences', () => {
    const alarm = (topic: string, priority: string, more: Partial<Alarm> = {}) => ({ topic, priority, active: true, cause: null, ...more }) as Alarm;
    const all = [alarm('s/a/x', 'high'), alarm('s/a/y', 'high'), alarm('s/a/z', 'critical', { active: false }), alarm('s/a/w', 'high', { cause: { topic: 's/a', kind: 'away' } }), alarm('s/b', 'critical'), alarm('other/a', 'critical')];
    expect([...alarmsBySite(all, 's/', ['critical', 'high'])]).toEqual([['a', [['critical', 0], ['high', 2]]], ['b', [['critical', 1], ['high', 0]]]]);
  });

  it('says how clocks differ', () => {
    const told = (clock_offset_s?: number) => [clockText(site('a', { clock_offset_s })), isClockWrong(site('a', { clock_offset_s }))];
    expect(told()).toEqual(['–', false]);
    expect(told(0.0124)).toEqual(['+12 ms', false]);
    expect(told(-3)).toEqual(['−3 s', true]);
  });

  it('tells of messages what a person has to see', () => {
    const none = { wanted: 0, asked: 0, waiting: 0, sent: 0, lost: 0, received: 0 };
    const told = (more: Partial<typeof none>) => messagesText(site('a', { events: { ...none, ...more } }));
    expect([messagesText(site('a')), told({}), told({ sent: 3, received: 5 }), told({ sent: 3, waiting: 2 }), told({ waiting: 2, lost: 1 })])
      .toEqual(['–', '–', '↓3 ↑5', '2 waiting', '■ 1 lost']);
  });
  it('gives each site a place of its own that its state does not change', () => {
    const names = Array.from({ length: 40 }, (_, n) => `site-${n}`);
    const found = places(names.map((name) => site(name)));
    expect(new Set(found.map(({ x, y }) => `${x} ${y}`)).size).toBe(40);
    const turned = places([...names].reverse().map((name) => site(name, { state: 'away' })));
    expect(turned.map(({ site: { name }, x }) => [name, x])).toEqual(found.map(({ site: { name }, x }) => [name, x]));
    expect(found.every(({ x, y }) => Math.abs(x) <= 80 && Math.abs(y) <= 58)).toBe(true);
  });
});
