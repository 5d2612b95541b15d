// Who has which devices: tags, reservations and overrides as rows and sentences.

import type { Override, Reservation, Tag } from './api';
import { ageText } from './format';

export interface Tenure {
  id: string;
  /** The device, the topic of a tag, or the pattern of an override. */
  what: string;
  /** A tag; an override is on; its holder has the device; its time has come and another has the device; its time comes. */
  state: Tag['kind'] | 'override' | 'held' | 'waits' | 'later';
  /** Of a reservation its name, of a tag why; empty of an override. */
  task: string;
  /** The number of a tag. */
  tag?: number;
  who: string;
  priority: string;
  from: number;
  /** Infinite where it has to be set off or lifted. */
  until: number;
}

const natural = new Intl.Collator('en', { numeric: true });
/** Those of 2 and more are sorted by device first. */
const RANK = { do_not_operate: 0, hold: 0, override: 1, note: 2, held: 2, waits: 3, later: 4 };
const group = (row: Tenure) => Math.min(RANK[row.state], 2);

/** Tags that forbid, overrides, and then what is reserved from now on, by device and time; of all what a text selects. */
export function tenures(reservations: readonly Reservation[], overrides: readonly Override[], tags: readonly Tag[], now: number, text = ''): Tenure[] {
  const rows: Tenure[] = overrides.map(({ pattern, until, who }) => ({
    id: `override-${pattern}`, what: pattern, state: 'override', task: '', who, priority: '', from: now, until: until === null ? Infinity : Date.parse(until),
  }));
  for (const { id, topic, kind, why, owner, placed } of tags) {
    rows.push({ id: `tag-${id}`, what: topic, state: kind, task: why, tag: id, who: owner, priority: '', from: Date.parse(placed), until: Infinity });
  }
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
    .sort((a, b) => group(a) - group(b) || natural.compare(a.what, b.what) || RANK[a.state] - RANK[b.state] || a.from - b.from);
}

/** How long it lasts yet, or when it comes. */
export function lastsText({ state, from, until, tag }: Tenure, now: number): string {
  if (tag) return t('for {age}', { age: ageText(now - from) });
  if (until === Infinity) return t('until it is set off');
  return state === 'later' ? t('in {age} for {long}', { age: ageText(from - now), long: ageText(until - from) }) : t('{age} left', { age: ageText(until - now) });
}

/** States of which programs and people must know before they command. */
export const isBlocked = (state: Tenure['state']) => RANK[state] < 2;

/** The words of a state. */
export const WORDS = { do_not_operate: t('Do not operate'), hold: t('Hold'), note: t('Note'), override: t('Override'), held: t('Reserved'), waits: t('Waits'), later: t('Reserved later') };

/** A row as a sentence of its device. */
export function tenureText(row: Tenure, now: number): string {
  if (row.tag) return t('{kind}: {why} (tag {tag} on {topic} by {who}, {lasts})', { kind: WORDS[row.state], why: row.task, tag: row.tag, topic: row.what, who: row.who, lasts: lastsText(row, now) });
  return t('{kind}{what} by {who}, {lasts}', { kind: WORDS[row.state], what: row.task ? t(' for {task}', { task: row.task }) : ` ${row.what}`, who: row.who, lasts: lastsText(row, now) });
}
