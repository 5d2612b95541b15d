import { describe, expect, it } from 'vitest';
import type { Site } from '../../src/lib/api';
import { bySite, clockText, isClockWrong, messagesText, places } from '../../src/lib/sites';

const site = (name: string, more: Partial<Site> = {}): Site => ({
  name, state: 'up', since: '', lag_s: 0, waiting: 0, lost: 0, records: 0, samples: 0, ...more,
});

describe('sites', () => {
  it('shows first what is away, then what lags', () => {
    const all = [site('a', { lag_s: 0.4 }), site('b', { lag_s: 12 }), site('c', { state: 'away' }), site('d')];
    expect(bySite(all, '').map(({ name }) => name)).toEqual(['c', 'b', 'a', 'd']);
    expect(bySite(all, ' D ').map(({ name }) => name)).toEqual(['d']);
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
