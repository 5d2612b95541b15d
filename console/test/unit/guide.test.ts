import { expect, test } from 'vitest';
import type { Counts, Status } from '../../src/lib/api';
import { demoCommand, httpOption, isEmpty, type Known, steps, ways } from '../../src/lib/guide';

const counts = (more: Partial<Counts>): Counts => ({ good: 0, uncertain: 0, bad: 0, unstated: 0, total: 0, ...more });
const status = (total: number, online: number, history: Status['history']['state'] = 'ok'): Known['status'] => ({ name: 'plant 1', devices: { total, online }, history: { state: history } });
const page = { protocol: 'http:', host: '127.0.0.1:8080' };
const nothing: Known = { status: null, counts: null, me: null, users: null, alarms: null, page };
const states = (known: Partial<Known>) => steps({ ...nothing, ...known }).map(({ state }) => state);

test('what the node has not said is not known, and never done', () => {
  expect(states({})).toEqual(['unknown', 'unknown', 'unknown', 'unknown', 'unknown', 'open', 'unknown', 'unknown']);
});

test('steps tick themselves from the state of the node', () => {
  const done = { status: status(2, 1), counts: counts({ good: 3, total: 3 }), alarms: true, me: { user: 'anna' }, users: 2, page: { ...page, protocol: 'https:' } };
  expect(states(done)).toEqual(['done', 'done', 'done', 'done', 'done', 'done', 'unknown', 'unknown']);
  const open = { status: status(2, 0, 'disk_full'), counts: counts({ good: 3, bad: 1, total: 4 }), alarms: false, me: { user: null } };
  expect(states(open)).toEqual(['open', 'open', 'open', 'open', 'open', 'open', 'unknown', 'unknown']);
});

test('a second user is one who may log in, as far as the node says', () => {
  const of = (user: string | null, users: number | null) => steps({ ...nothing, me: { user }, users })[4];
  expect([of('anna', 2), of('anna', 1), of('anna', null), of(null, null)]).toMatchObject([
    { state: 'done' }, { state: 'open', said: 'there is one' }, { state: 'unknown' }, { state: 'open', said: 'the node asks nobody who they are' },
  ]);
});

test('values that are not there are not good, and values without a quality are not bad', () => {
  expect(states({ counts: counts({}) })[1]).toBe('open');
  expect(states({ counts: counts({ unstated: 2, total: 2 }) })[1]).toBe('done');
  expect(states({ counts: counts({ good: 2, uncertain: 1, total: 3 }) })[1]).toBe('open');
});

test('a centre without devices needs a site', () => {
  const centre = (sites: number, away: number): Known['status'] => ({ ...status(0, 0)!, centre: { state: 'up', why: '', since: '', sites, away } });
  expect([centre(0, 0), centre(2, 2), centre(2, 1)].map((known) => steps({ ...nothing, status: known })[0])).toMatchObject([
    { name: 'A site is up', state: 'open', said: '0 of 0' }, { state: 'open' }, { state: 'done', said: '1 of 2' },
  ]);
});

test('a node is empty without devices and without topics of its users, and only if it says both', () => {
  const empty = (known: Partial<Known>) => isEmpty({ ...nothing, ...known });
  expect(empty({ status: status(0, 0), counts: counts({}) })).toBe(true);
  expect(empty({ status: status(0, 0), counts: counts({ total: 1 }) })).toBe(false);
  expect(empty({ status: status(1, 0), counts: counts({}) })).toBe(false);
  expect(empty({ status: status(0, 0) })).toBe(false);
  expect(empty({ counts: counts({}) })).toBe(false);
});

test('the demonstration takes neither the ports nor the folder of this node', () => {
  expect(demoCommand({ http: '127.0.0.1:8080', mqtt: '0.0.0.0:1883' })).toBe('tieline run --demo --data demo-data --http 127.0.0.1:8081 --mqtt 127.0.0.1:1884');
  expect(demoCommand({ http: '[::1]:9000', mqtt: '127.0.0.1:9001' })).toBe('tieline run --demo --data demo-data');
});

test('commands name this node', () => {
  expect(httpOption(page)).toBe('');
  expect(httpOption({ ...page, host: '10.0.0.5:8080' })).toBe(' --http 10.0.0.5:8080');
  expect(httpOption({ ...page, host: 'plant.example' })).toBe(' --http plant.example:80');
  expect(httpOption({ protocol: 'https:', host: 'plant.example' })).toBe(' --http https://plant.example');
  const at = { ...page, host: '10.0.0.5:90' };
  const all = [...ways({ http: '10.0.0.5:90', mqtt: '' }, at).flatMap(({ list }) => list.map(({ text }) => text)), ...steps({ ...nothing, status: status(0, 0), page: at }).map(({ command }) => command)];
  expect(all).toContain('tieline reload --http 10.0.0.5:90');
  expect(all).toContain('tieline backup -o plant_1.tar --http 10.0.0.5:90');
  expect(all).toContain('curl http://10.0.0.5:90/metrics');
});
