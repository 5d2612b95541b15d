// Sites of a centre: their order in the list, and their places on the map of links.

import type { Alarm } from './alarms';
import type { Counts, Site } from './api';
import { countText, durationText } from './format';

/** Sites that the map shows. */
export const MAP_MAX = 40;
/** Clocks that differ by more are marked: samples of two sites cannot be compared by time any more. */
const CLOCK_S_MAX = 1;

/** The prefix of topics of sites where the node has none yet: the default of a centre. */
const PREFIX = 'sites/';

/** What the centre knows of the data of a site: never a mean. */
export interface Data {
  /** Null where the centre has not said. */
  counts: Counts | null;
  /** Its active alarms by priority, the most urgent first, without consequences. */
  alarms: readonly [string, number][];
}

/** The worst first: those that are away, then those that lag the most, then by their most urgent alarms, by bad and uncertain values, by name. */
export function bySite(sites: readonly Site[], text: string, data: (name: string) => Data | undefined = () => undefined): Site[] {
  const word = text.trim().toLowerCase();
  const weights = (site: Site) => {
    const known = data(site.name);
    // Less than a second of lag is no reason to change places.
    return [[site.state === 'up' ? 0 : 1, Math.floor(site.lag_s)], (known?.alarms ?? []).map(([, count]) => count), [known?.counts?.bad ?? 0, known?.counts?.uncertain ?? 0]];
  };
  const found = sites.filter((site) => site.name.toLowerCase().includes(word)).map((site) => ({ site, by: weights(site) }));
  // Lists of different lengths: what is not there weighs nothing.
  const more = (a: number[] = [], b: number[] = []) => [...(a.length > b.length ? a : b).keys()].map((i) => (b[i] ?? 0) - (a[i] ?? 0)).find((by) => by !== 0) ?? 0;
  const worse = (a: number[][], b: number[][]) => a.map((one, i) => more(one, b[i])).find((by) => by !== 0) ?? 0;
  return found.sort((a, b) => worse(a.by, b.by) || a.site.name.localeCompare(b.site.name)).map(({ site }) => site);
}

/** Below what the topics of sites are: the prefix that most of their names have among the branches of the node. */
export function prefixOf(names: Iterable<string>, branches: Iterable<string>): string {
  const known = new Set(names);
  const found = new Map<string, number>();
  for (const branch of branches) {
    const at = branch.lastIndexOf('/') + 1;
    if (known.has(branch.slice(at))) found.set(branch.slice(0, at), (found.get(branch.slice(0, at)) ?? 0) + (branch.slice(0, at) === PREFIX ? 1.5 : 1));
  }
  return [...found].sort(([a, one], [b, other]) => other - one || a.length - b.length)[0]?.[0] ?? PREFIX;
}

/** The filter of the topics of a site. */
export const filterOf = (prefix: string, name: string) => `${prefix}${name}/#`;

/** Active alarms of each site by priority. */
export function alarmsBySite(alarms: Iterable<Alarm>, prefix: string, priorities: readonly string[]): Map<string, [string, number][]> {
  const found = new Map<string, [string, number][]>();
  for (const { topic, active, cause, priority } of alarms) {
    if (!active || cause || !topic.startsWith(prefix)) continue;
    const name = topic.slice(prefix.length).split('/')[0]!;
    const counts = found.get(name) ?? priorities.map((one): [string, number] => [one, 0]);
    const sum = counts.find(([one]) => one === priority);
    if (sum) sum[1]++;
    found.set(name, counts);
  }
  return found;
}

export function isClockWrong(site: Site): boolean {
  return Math.abs(site.clock_offset_s ?? 0) > CLOCK_S_MAX;
}

/** How far the clock of the centre is before that of the site. */
export function clockText(site: Site): string {
  const offset = site.clock_offset_s;
  if (offset === undefined) return '–';
  const ms = offset * 1000;
  return `${ms > 0 ? '+' : ''}${durationText(ms)}`;
}

/** Messages between sites on the link of one: what waits for it where something does, else both directions; nothing where none of both asks for any. */
export function messagesText({ events }: Site): string {
  if (!events || events.wanted + events.asked + events.sent + events.received + events.waiting + events.lost === 0) return '–';
  if (events.lost > 0) return t('■ {n} lost', { n: countText(events.lost) });
  if (events.waiting > 0) return t('{n} waiting', { n: countText(events.waiting) });
  return `↓${countText(events.sent)} ↑${countText(events.received)}`;
}

export interface Place {
  site: Site;
  x: number;
  y: number;
  anchor: 'start' | 'end';
}

/** Where sites are around their centre, by name, so that none moves when its state changes. */
export function places(sites: readonly Site[]): Place[] {
  const named = [...sites].sort((a, b) => a.name.localeCompare(b.name));
  return named.map((site, i) => {
    const angle = (2 * Math.PI * (i + 0.5)) / named.length - Math.PI / 2;
    const round = (x: number) => Math.round(x * 10) / 10;
    const [x, y] = [round(80 * Math.cos(angle)), round(58 * Math.sin(angle))];
    return { site, x, y, anchor: x < 0 ? 'end' : 'start' };
  });
}
