// Sites of a centre: their order in the list, and their places on the map of links.

import type { Site } from './api';
import { countText, durationText } from './format';

/** Sites that the map shows. */
export const MAP_MAX = 40;
/** Clocks that differ by more are marked: samples of two sites cannot be compared by time any more. */
const CLOCK_S_MAX = 1;

/** Sites whose name has the text: those that are away, then those that lag the most, then by name. */
export function bySite(sites: readonly Site[], text: string): Site[] {
  const word = text.trim().toLowerCase();
  const rank = (site: Site) => (site.state === 'up' ? 1 : 0);
  // Less than a second of lag is no reason to change places.
  const lag = (site: Site) => Math.floor(site.lag_s);
  return sites
    .filter((site) => site.name.toLowerCase().includes(word))
    .sort((a, b) => rank(a) - rank(b) || lag(b) - lag(a) || a.name.localeCompare(b.name));
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
  if (events.lost > 0) return `■ ${countText(events.lost)} lost`;
  if (events.waiting > 0) return `${countText(events.waiting)} waiting`;
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
