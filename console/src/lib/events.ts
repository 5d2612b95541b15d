// The sequence of events: changes of states in the order of the times of their devices.

import { api, type HistoryRow, type PointMeta } from './api';
import { matcher } from './filter';
import { type Range, rangeOf, type Trend } from './trend';

/** Topics of one question to the history: the limit of the node. */
const TOPICS_AT_ONCE = 64;
/** Points whose changes are read at a time. */
export const POINTS_MAX = 512;
/** Rows of one question; where there are more the list says so. */
export const ROWS_MAX = 10_000;

export interface EventsAsked extends Pick<Trend, 'from' | 'to'> {
  /** Words, or a filter of MQTT. */
  filter: string;
  /** Also values that are no change: repeated by an integrity poll, for example. */
  all: boolean;
}

export function parseEvents(query: string): EventsAsked {
  const params = new URLSearchParams(query);
  return { filter: params.get('filter') ?? '', from: params.get('from') ?? 'now-1h', to: params.get('to') ?? 'now', all: params.get('all') === 'true' };
}

export function eventsQuery({ filter, from, to, all }: EventsAsked): string {
  const params = new URLSearchParams({ ...(filter && { filter }), from, to, ...(all && { all: 'true' }) });
  return params.toString();
}

export const rangeOfEvents = (asked: EventsAsked, now: number): Range | null => rangeOf({ topics: [], ...asked }, now);

/** Whether a point has states, and not measurements or counts. */
export const hasStates = ({ kind, type }: PointMeta) => kind === 'bool' || type.startsWith('double');

/** The points with states that a text selects. */
export function statePoints(meta: ReadonlyMap<string, PointMeta>, text: string): { topics: string[]; error: string | null } {
  const { test, error } = matcher(text);
  const points = [...meta.values()].filter((point) => hasStates(point) && (!test || test(point.topic)));
  return { topics: points.map(({ topic }) => topic), error };
}

export interface SequenceRow {
  key: string;
  topic: string;
  /** The time of the device, in ms since 1970. */
  t: number;
  v: unknown;
  q: NonNullable<HistoryRow['q']>;
  why: string[];
  /** Whether the device says that its clock is right. */
  synchronized: boolean;
  /** Time since the event before it; null for the first. */
  after: number | null;
}

const UNSYNCHRONIZED = 'time_unsynced';

/** Rows in order of time as events, newest first. A change is another value or another quality. */
export function sequence(rows: readonly HistoryRow[], all: boolean): SequenceRow[] {
  const before = new Map<string, string>();
  const found: SequenceRow[] = [];
  const timed = rows.map((row) => ({ row, t: Date.parse(row.t) })).filter(({ t }) => !Number.isNaN(t));
  for (const { row, t } of timed.sort((a, b) => a.t - b.t)) {
    const [topic, why] = [row.topic ?? '', row.why ?? []];
    const state = JSON.stringify([row.v, row.q, why]);
    const isChange = before.get(topic) !== state;
    before.set(topic, state);
    if (!isChange && !all) continue;
    const last = found[found.length - 1];
    const [synchronized, others] = [!why.includes(UNSYNCHRONIZED), why.filter((reason) => reason !== UNSYNCHRONIZED)];
    found.push({ key: `${t}.${found.length}`, topic, t, v: row.v, q: row.q ?? 'good', why: others, synchronized, after: last ? t - last.t : null });
  }
  return found.reverse();
}

/** Reads the recorded values of points with states; `cut` says that there are more. */
export async function readEvents(topics: readonly string[], { from, to }: Range): Promise<{ rows: HistoryRow[]; cut: boolean }> {
  const times = { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
  const parts: string[][] = [];
  for (let i = 0; i < Math.min(topics.length, POINTS_MAX); i += TOPICS_AT_ONCE) parts.push(topics.slice(i, i + TOPICS_AT_ONCE));
  const answers: HistoryRow[][] = [];
  // One after another: the node answers a user only a few such questions at a time.
  for (const topic of parts) answers.push(await api.history({ topic, ...times, order: 'time', limit: ROWS_MAX }));
  return { rows: answers.flat(), cut: answers.some((rows) => rows.length >= ROWS_MAX) };
}
