// Who has which devices: reservations and overrides as rows and sentences.

import type { Override, Reservation } from './api';
import { ageText } from './format';

export interface Tenure {
  id: string;
  /** The device, or the pattern of an override. */
  what: string;
  /** An override is on; its holder has the device; its time has come and another has the device; its time comes. */
  state: 'override' | 'held' | 'waits' | 'later';
  /** Empty of an override. */
  task: string;
  who: string;
  priority: string;
  from: number;
  /** Infinite where it has to be set off. */
  until: number;
}

const natural = new Intl.Collator('en', { numeric: true });
const RANK = { override: 0, held: 1, waits: 2, later: 3 };

/** Overrides, and then what is reserved from now on, by device and time; of both what a text selects. */
export function tenures(reservations: readonly Reservation[], overrides: readonly Override[], now: number, text = ''): Tenure[] {
  const rows: Tenure[] = overrides.map(({ pattern, until, who }) => ({
    id: `override-${pattern}`, what: pattern, state: 'override', task: '', who, priority: '', from: now, until: until === null ? Infinity : Date.parse(until),
  }));
  for (const { task, requester, priority, slots } of reservations) {
    for (const { device, start, end, current } of slots) {
      const [from, until] = [Date.parse(start), Date.parse(end)];
      const state = current ? 'held' : from > now ? 'later' : 'waits';
      if (until > now) rows.push({ id: `${device} ${start} ${task}`, what: device, state, task, who: requester, priority, from, until });
    }
  }
  const words = text.toLowerCase().split(/\s+/);
  return rows
    .filter((row) => words.every((word) => `${row.what} ${row.task} ${row.who} ${row.priority} ${row.state}`.toLowerCase().includes(word)))
    .sort((a, b) => Number(a.state !== 'override') - Number(b.state !== 'override') || natural.compare(a.what, b.what) || RANK[a.state] - RANK[b.state] || a.from - b.from);
}

/** How long it lasts yet, or when it comes. */
export function lastsText({ state, from, until }: Tenure, now: number): string {
  if (until === Infinity) return 'until it is set off';
  return state === 'later' ? `in ${ageText(from - now)} for ${ageText(until - from)}` : `${ageText(until - now)} left`;
}

const WORDS = { override: 'Override', held: 'Reserved', waits: 'Waits', later: 'Reserved later' };

/** A row as a sentence of its device. */
export function tenureText(row: Tenure, now: number): string {
  return `${WORDS[row.state]}${row.task ? ` for ${row.task}` : ` ${row.what}`} by ${row.who}, ${lastsText(row, now)}`;
}
