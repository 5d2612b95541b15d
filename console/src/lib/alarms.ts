// Alarms: what the node says of them, their order, which of them the address asks for, and consequences below their causes.

import { matcher } from './filter';

/** An alarm that is not normal. */
export interface Alarm {
  topic: string;
  kind: string;
  /** Its occurrence. */
  seq: number;
  state: 'unacknowledged' | 'acknowledged' | 'returned' | 'latched' | 'shelved' | 'suppressed' | 'out_of_service' | 'normal';
  /** The state as in ISA-18.2. */
  letter: string;
  priority: string;
  group: string;
  text: string;
  active: boolean;
  acked: boolean;
  latched: boolean;
  chattering: boolean;
  /** Its input is bad. */
  uncertain: boolean;
  value: unknown;
  limit: unknown;
  since: string;
  changed: string;
  acked_by: string | null;
  repeats: number;
  shelved: { until: string; once: boolean; who: string; why: string } | null;
  out_of_service: { until: string | null; who: string; why: string } | null;
  /** The alarm whose consequence it is. */
  cause: { topic: string; kind: string } | null;
  /** Its consequences. */
  count: number;
  advice: { cause: string; consequence: string; action: string; respond_in_s: number | null };
}

export interface AlarmCounts {
  /** Whether the node has rules of alarms. */
  configured: boolean;
  flood: boolean;
}

/** What became of a request for one alarm. */
export interface AlarmResult {
  topic: string;
  kind: string;
  status: 'done' | 'refused';
  reason?: string | null;
  detail?: string | null;
}

/** A change of an alarm in the journal. */
export interface AlarmChange {
  id: number;
  time: string;
  topic: string;
  kind: string;
  seq: number;
  transition: string;
  priority: string;
  text: string;
  value: unknown;
  who: string | null;
  why: string | null;
}

/** The most urgent first. */
export const PRIORITIES = ['critical', 'high', 'medium', 'low', 'event'];
/** A shape beside each colour. */
export const MARKS: Record<string, string> = { critical: '■', high: '▲', medium: '◆', low: '▼', event: '●' };
/** Alarms of one request: the limit of the node. */
export const AT_ONCE_MAX = 1_000;
const ASIDE = ['shelved', 'suppressed', 'out_of_service'];

export const keyOf = ({ topic, kind }: { topic: string; kind: string }) => `${topic}|${kind}`;
/** Whether it is not annunciated, by a person or by its rule. */
export const isAside = ({ state }: Alarm) => ASIDE.includes(state);
/** Whether a person has yet to acknowledge it. */
export const isNew = (alarm: Alarm) => !alarm.acked && !isAside(alarm);

const MARGIN_MS = 900_000;
/** The trend of an alarm, from before it began. */
export const trendHash = ({ topic, since }: Pick<Alarm, 'topic' | 'since'>) => `#/trends?p=${encodeURIComponent(topic.replaceAll(',', '%2C'))}&from=${new Date(Date.parse(since) - MARGIN_MS).toISOString()}&to=now`;

/** What the address of the view asks for. */
export interface AlarmsAsked {
  tab: string;
  /** Words, or a filter of MQTT. */
  q: string;
  /** This priority and above. */
  priority: string;
  state: string;
  group: string;
  order: string;
  /** The key of the alarm in the panel. */
  alarm: string;
  /** The range of the journal and of the report. */
  from: string;
  to: string;
}

const DEFAULTS: AlarmsAsked = { tab: 'active', q: '', priority: '', state: '', group: '', order: 'worst', alarm: '', from: 'now-24h', to: 'now' };

export const parseAlarms = (query: string): AlarmsAsked => ({ ...DEFAULTS, ...Object.fromEntries(new URLSearchParams(query)) });

export function alarmsQuery(asked: Partial<AlarmsAsked>): string {
  const given = Object.entries(asked).filter(([name, value]) => value !== DEFAULTS[name as keyof AlarmsAsked]);
  return new URLSearchParams(given).toString().replaceAll('%2F', '/');
}

const weight = (alarm: Alarm) => (isNew(alarm) ? 0 : 20) + (alarm.active ? 0 : 10) + PRIORITIES.indexOf(alarm.priority);
/** One number to sort thousands by: what is compared first, then the time in milliseconds. */
const rank = (alarm: Alarm, order: string) => (order === 'time' ? 0 : weight(alarm) * 1e14) - Date.parse(alarm.since);
const byTime = (a: Alarm, b: Alarm) => (a.since < b.since ? 1 : a.since > b.since ? -1 : a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.kind < b.kind ? -1 : 1);

/** Unacknowledged first, then active, then by priority, the newest first. */
export const byWorst = (a: Alarm, b: Alarm) => weight(a) - weight(b) || byTime(a, b);

/** The alarms that the address asks for, in its order. */
export function select(alarms: Iterable<Alarm>, { tab, q, priority, state, group, order }: AlarmsAsked): { found: Alarm[]; error: string | null } {
  const { test, error } = matcher(q);
  const lowest = priority ? PRIORITIES.indexOf(priority) : PRIORITIES.length;
  // Words may also be those of the text; a filter is one of topics.
  const name = /[+#]/.test(q) ? ({ topic }: Alarm) => topic : ({ topic, kind, text }: Alarm) => `${topic} ${kind} ${text}`;
  const found: { alarm: Alarm; by: number }[] = [];
  for (const alarm of alarms) {
    if (isAside(alarm) !== (tab === 'aside') || PRIORITIES.indexOf(alarm.priority) > lowest) continue;
    if ((state && alarm.state !== state) || (group && alarm.group !== group) || (test && !test(name(alarm)))) continue;
    found.push({ alarm, by: rank(alarm, order) });
  }
  found.sort((a, b) => a.by - b.by || byTime(a.alarm, b.alarm));
  return { found: found.map(({ alarm }) => alarm), error };
}

export interface AlarmRow {
  key: string;
  alarm: Alarm;
  /** How many causes it is below. */
  level: number;
  /** Its consequences, and theirs. */
  below: number;
  open: boolean;
}

/** Rows of alarms in order; consequences are below their cause where that is opened. */
export function fold(alarms: readonly Alarm[], opened: ReadonlySet<string>): AlarmRow[] {
  const there = new Set(alarms.some(({ cause }) => cause) ? alarms.map(keyOf) : []);
  const under = new Map<string, Alarm[]>();
  for (const alarm of alarms) {
    const cause = alarm.cause && keyOf(alarm.cause);
    const place = cause !== null && there.has(cause) ? cause : '';
    const list = under.get(place);
    if (list) list.push(alarm);
    else under.set(place, [alarm]);
  }
  const rows: AlarmRow[] = [];
  const count = (key: string): number => (under.get(key) ?? []).reduce((sum, alarm) => sum + 1 + count(keyOf(alarm)), 0);
  const put = (place: string, level: number) => {
    for (const alarm of under.get(place) ?? []) {
      const key = keyOf(alarm);
      const open = opened.has(key);
      rows.push({ key, alarm, level, below: under.size > 1 ? count(key) : 0, open });
      if (open) put(key, level + 1);
    }
  };
  put('', 0);
  return rows;
}

/** What the banner says, without consequences: of each priority how many are unacknowledged and how many active, and the worst that is unacknowledged. */
export interface AlarmSummary {
  by: { priority: string; fresh: number; active: number }[];
  worst: Alarm | null;
}

export function summarize(alarms: Iterable<Alarm>): AlarmSummary {
  const by = PRIORITIES.map((priority) => ({ priority, fresh: 0, active: 0 }));
  let worst: Alarm | null = null;
  for (const alarm of alarms) {
    const sum = by[PRIORITIES.indexOf(alarm.priority)];
    if (!sum || alarm.cause || isAside(alarm)) continue;
    if (alarm.active) sum.active++;
    if (alarm.acked) continue;
    sum.fresh++;
    if (worst === null || byWorst(alarm, worst) < 0) worst = alarm;
  }
  return { by, worst };
}
