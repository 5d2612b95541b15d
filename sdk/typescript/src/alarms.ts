/** Calls of a node: its alarms. */

import { type Json, type Moment, moment } from "./part.js";
import { Records } from "./records.js";

/** An alarm that is not normal. */
export interface Alarm extends Json {
  topic: string;
  kind: string;
  /** The number of the occurrence. */
  seq: number;
  state: string;
  priority: "critical" | "high" | "medium" | "low" | "event";
  text: string;
  active: boolean;
  acked: boolean;
  since: string;
}

/** Which occurrence of which alarm; an `Alarm` is one. */
export interface AlarmTarget {
  topic: string;
  kind: string;
  seq?: number;
}

/** What became of one alarm of a request. */
export interface AlarmResult {
  topic: string;
  kind: string;
  status: "done" | "refused";
  reason?: string;
  detail?: string;
}

/** A change of an alarm. */
export interface AlarmChange extends Json {
  id: number;
  time: string;
  topic: string;
  kind: string;
  seq: number;
  transition: string;
  state: string;
  priority: string;
  who: string | null;
  why: string | null;
  annunciated: boolean;
}

/** A figure of a report, with what is good. */
export interface AlarmMeasure {
  at_most: number;
  good: number;
  name: string;
  rating: "good" | "acceptable" | "exceeded";
  value: number;
}

/** One of the most frequent alarms. */
export interface FrequentAlarm {
  annunciated: number;
  kind: string;
  percent: number;
  topic: string;
}

/** How many alarms had a priority. */
export interface AlarmPriorityShare {
  annunciated: number;
  percent: number;
  priority: string;
}

/** Times from annunciations to acknowledgements. */
export interface AlarmResponses {
  count: number;
  longest_s: number;
  median_s: number;
}

/** The figures of ISA-18.2 of a time. */
export interface AlarmReport {
  annunciated: number;
  frequent: FrequentAlarm[];
  from: string;
  measures: AlarmMeasure[];
  operators: number;
  priorities: AlarmPriorityShare[];
  responses: AlarmResponses;
  to: string;
}

/** A rule that makes alarms. */
export interface AlarmRule {
  action: string;
  cause: string;
  consequence: string;
  group: string;
  hysteresis: number;
  kind: string;
  latch: boolean;
  limit: unknown;
  line: number;
  off_delay_s: number;
  on_delay_s: number;
  priority: string;
  reference: string | null;
  respond_in_s: number | null;
  suppress_when: string | null;
  text: string;
  topic: string;
}

/** The alarms of a node. */
export class Alarms extends Records {
  /** Alarms that are not normal, those that need attention first; `priority` and above, `state` one or several with commas. */
  alarms(
    filter = "#",
    options: { priority?: string; state?: string; group?: string; order?: "worst" | "time" } = {},
  ): AsyncGenerator<Alarm> {
    return this.pages("/v1/alarms", "alarms", { filter, ...options });
  }

  /** How many alarms there are, by state and priority. */
  alarmCounts(): Promise<Json> {
    return this.connection.get("/v1/alarms/counts");
  }

  /** Acknowledges occurrences of alarms, as `alarms()` gives them; a result for each of them. */
  acknowledge(alarms: AlarmTarget[], why = ""): Promise<AlarmResult[]> {
    return this.act("/v1/alarms/ack", alarms, { why });
  }

  /** Shelves alarms for a time as in `2h`; `once`: until they return, if that is earlier. A result for each of them. */
  shelve(alarms: AlarmTarget[], time: string, why: string, options: { once?: boolean } = {}): Promise<AlarmResult[]> {
    return this.act("/v1/alarms/shelve", alarms, { for: time, why, once: options.once ?? false });
  }

  /** Ends the shelving of alarms; a result for each of them. */
  unshelve(alarms: AlarmTarget[], why = ""): Promise<AlarmResult[]> {
    return this.act("/v1/alarms/unshelve", alarms, { why });
  }

  /** Resets latched alarms, which have returned and are acknowledged; a result for each of them. */
  resetAlarms(alarms: AlarmTarget[], why = ""): Promise<AlarmResult[]> {
    return this.act("/v1/alarms/reset", alarms, { why });
  }

  /** Takes alarms out of service, until they are put in service; a result for each of them. */
  alarmsOutOfService(alarms: AlarmTarget[], why: string): Promise<AlarmResult[]> {
    return this.act("/v1/alarms/out-of-service", alarms, { why });
  }

  /** Puts alarms in service again; a result for each of them. */
  alarmsInService(alarms: AlarmTarget[], why = ""): Promise<AlarmResult[]> {
    return this.act("/v1/alarms/in-service", alarms, { why });
  }

  /** Writes a note about alarms to the journal; a result for each of them. */
  noteAlarms(alarms: AlarmTarget[], why: string): Promise<AlarmResult[]> {
    return this.act("/v1/alarms/note", alarms, { why });
  }

  /** Changes of alarms, the oldest first. */
  alarmJournal(
    filter = "#",
    options: { start?: Moment; end?: Moment; transition?: string } = {},
  ): AsyncGenerator<AlarmChange> {
    const { start, end, transition } = options;
    return this.pages("/v1/alarms/journal", "rows", { filter, from: moment(start), to: moment(end), transition });
  }

  /** The figures of ISA-18.2 of a time, by default the last 30 days, for each of so many operators, with what is good. */
  alarmReport(filter = "#", options: { start?: Moment; end?: Moment; operators?: number } = {}): Promise<AlarmReport> {
    const { start = "30d", end, operators } = options;
    return this.connection.get("/v1/alarms/report", { filter, from: moment(start), to: moment(end), operators });
  }

  /** The rules in use. */
  alarmRules(): AsyncGenerator<AlarmRule> {
    return this.pages("/v1/alarms/rules", "rules");
  }

  private async act(path: string, alarms: AlarmTarget[], body: Json): Promise<AlarmResult[]> {
    const targets = alarms.map(({ topic, kind, seq }) => ({ topic, kind, seq }));
    return (await this.connection.change<{ results: AlarmResult[] }>(path, { ...body, alarms: targets })).results;
  }
}
