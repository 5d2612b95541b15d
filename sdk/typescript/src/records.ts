/** Calls of a node: its history. */

import { eventsOf } from "./connection.js";
import { type Moment, moment, Part } from "./part.js";
import { type Sample, type SampleJson, sampleOf, type StateDuration, type StateJson, stateOf } from "./values.js";

export interface HistoryQuestion {
  /** The same as `start`, as in `24h`. */
  last?: string;
  start?: Moment;
  end?: Moment;
  /** The width of buckets, as in `1h`, and what each shows, as in `mean`. */
  every?: string;
  agg?: string;
  tz?: string;
  fill?: string;
  order?: "topic" | "time";
  raw?: boolean;
  limit?: number;
}

/** An instant, or a time: from `start` on and before `end`. */
export interface EditSpan {
  at?: Moment;
  start?: Moment;
  end?: Moment;
}

/** A sample of the past, as the history writes it. */
export interface ImportedSample {
  topic: string;
  t: string;
  v: unknown;
  q?: string;
  why?: string[];
}

/** Who ended an edit, and why. */
export interface Undone {
  time: string;
  who: string;
  why: string;
}

/** An edit or an annotation of the history. */
export interface HistoryEdit {
  erased?: boolean;
  from: string;
  id: number;
  kind: string;
  q?: string;
  text?: string;
  time: string;
  to: string;
  topic: string;
  undone?: Undone;
  v?: unknown;
  who: string;
  why: string;
}

/** What became of an import. */
export interface HistoryImported {
  samples: number;
  status: "ok";
  too_old: number;
}

/** What was deleted. */
export interface HistoryDeleted {
  chunks: number;
  damaged: number;
  edits: number;
  samples: number;
  status: "ok";
}

const TAIL_SILENCE_MS = 30_000;

/** The history of a node. */
export class Records extends Part {
  /** Recorded values, or buckets of them. */
  async history(topics: string | string[], question: HistoryQuestion = {}): Promise<Sample[]> {
    const rows = await this.connection.get<SampleJson[]>("/v1/history", historyParams(topics, question));
    return rows.map(sampleOf);
  }

  /** The address of the same rows as a file of CSV. */
  csvUrl(topics: string | string[], question: HistoryQuestion = {}): string {
    return this.connection.address("/v1/history", { format: "csv", ...historyParams(topics, question) });
  }

  /** How long topics had each of their values, in the whole time or in each bucket. */
  async historyStates(topics: string | string[], question: Omit<HistoryQuestion, "agg" | "fill" | "order"> = {}): Promise<StateDuration[]> {
    const rows = await this.connection.get<StateJson[]>("/v1/history/states", historyParams(topics, question));
    return rows.map(stateOf);
  }

  /** Recorded values from `start` on, then each new one, none left out and none twice. `Unreachable` where the connection breaks. */
  async *historyStream(topic: string, options: { start?: Moment; signal?: AbortSignal } = {}): AsyncGenerator<Sample> {
    const params = { topic, from: moment(options.start ?? "0s") };
    for await (const [name, told] of eventsOf(this.connection.lines("/v1/history/tail", params, TAIL_SILENCE_MS, options.signal))) {
      if (name === "sample") {
        yield sampleOf(told as SampleJson);
      }
    }
  }

  /** Samples and bytes of each topic, the largest first, and of the whole history. */
  historyStats(topic?: string, options: { limit?: number } = {}): Promise<Record<string, unknown>> {
    return this.connection.get("/v1/history/stats", { topic, ...options });
  }

  /** Stores samples of the past. */
  async importHistory(samples: ImportedSample[]): Promise<HistoryImported> {
    return (await this.connection.send("PUT", "/v1/history", { body: samples })).json() as Promise<HistoryImported>;
  }

  /** Deletes recorded values for good; ends when their bytes are overwritten. */
  async deleteHistory(topic: string, why: string, span: { start?: Moment; end?: Moment } = {}): Promise<HistoryDeleted> {
    const params = { topic, why, from: moment(span.start), to: moment(span.end) };
    return (await this.connection.send("DELETE", "/v1/history", { params })).json() as Promise<HistoryDeleted>;
  }

  /** Writes each day that has ended to its file now; how many. */
  async compactHistory(): Promise<number> {
    return (await this.connection.change<{ days: number }>("/v1/history/compact")).days;
  }

  /** Edits and annotations, the newest first. */
  edits(
    topic = "#",
    options: { start?: Moment; end?: Moment; who?: string; kind?: string; active?: boolean } = {},
  ): AsyncGenerator<HistoryEdit> {
    const { start, end, ...more } = options;
    return this.back("/v1/history/edits", "edits", { topic, from: moment(start), to: moment(end), ...more });
  }

  /** Corrects what answers show of a topic, at an instant or over a time. What was recorded stays. */
  edit(
    topic: string,
    kind: "value" | "quality" | "exclude" | "insert",
    why: string,
    given: EditSpan & { value?: unknown; quality?: string },
  ): Promise<HistoryEdit> {
    const body = { topic, kind, why, ...spanOf(given), v: given.value, q: given.quality };
    return this.connection.change("/v1/history/edits", body);
  }

  /** Says something of a topic at an instant, or over a time; no value changes. */
  annotate(topic: string, text: string, why: string, span: EditSpan): Promise<HistoryEdit> {
    return this.connection.change("/v1/history/edits", { topic, kind: "annotation", text, why, ...spanOf(span) });
  }

  /** Ends an edit or an annotation, which stays in the list. */
  undo(id: number, why: string): Promise<HistoryEdit> {
    return this.connection.change(`/v1/history/edits/${id}/undo`, { why });
  }
}

function historyParams(topics: string | string[], { last, start, end, ...more }: HistoryQuestion) {
  return { topic: [topics].flat(), from: last ?? moment(start), to: moment(end), ...more };
}

function spanOf({ at, start, end }: EditSpan) {
  return { at: moment(at), from: moment(start), to: moment(end) };
}
