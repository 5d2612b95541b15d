/** Values of topics, samples of the history, and outcomes of commands. */

export type Quality = "good" | "uncertain" | "bad";

/** The last value of a topic. */
export interface Value {
  topic: string;
  /** The value of a point; of other kinds the whole payload: parsed JSON, text, or bytes. Undefined where it was removed. */
  value: unknown;
  kind: "point" | "json" | "text" | "binary" | "removed";
  /** Null where the topic is no point, or its value was removed. */
  quality: Quality | null;
  /** Reasons against it. */
  reasons: string[];
  /** When it was measured; null where the topic is no point. */
  time: Date | null;
  /** Microseconds of that time below its millisecond: a `Date` has none. */
  micros: number;
  /** When the node received it. */
  updated: Date | null;
  /** Increases with every new value of the topic. */
  version: number | null;
}

/** A recorded value, or what a bucket of time shows. */
export interface Sample {
  topic: string;
  value: unknown;
  quality: Quality;
  reasons: string[];
  time: Date;
  micros: number;
  /** Samples that it stands for; 1 if it was recorded so. */
  count: number;
}

/** How long a topic had a value, in the whole time of a question or in a bucket of it. */
export interface StateDuration {
  topic: string;
  /** Null while it was unknown. */
  value: unknown;
  quality: Quality;
  /** When the bucket begins. */
  time: Date;
  micros: number;
  seconds: number;
  /** Part of the bucket, 0 to 1. */
  share: number;
  /** How often the topic came to have the value. */
  count: number;
}

/** An event of a topic that keeps its last ones. */
export interface TopicEvent {
  /** Increases by one with each event of the topic; a gap means that older ones were removed. */
  seq: number;
  time: Date;
  micros: number;
  /** The whole payload: parsed JSON, text, or bytes. */
  value: unknown;
  kind: "point" | "json" | "text" | "binary";
}

/** A command that the device accepted. Its next reading shows `expected`. */
export interface Done {
  topic: string;
  value: unknown;
  expected: unknown;
  elapsedMs: number;
}

interface PointJson {
  v: unknown;
  q: Quality;
  t: string;
  why?: string[];
}

export interface ValueJson {
  topic: string;
  kind: Value["kind"];
  value?: unknown;
  seq?: number;
  updated?: string;
}

/** A value as the node writes it. */
export function valueOf({ topic, kind, value, seq, updated }: ValueJson): Value {
  const common = { topic, kind, updated: updated === undefined ? null : new Date(updated), version: seq ?? null };
  if (kind === "point") {
    const { v, q, t, why = [] } = value as PointJson;
    return { ...common, value: v, quality: q, reasons: why, ...instant(t) };
  }
  const whole = kind === "binary" ? bytesOf(value as string) : value;
  return { ...common, value: whole, quality: null, reasons: [], time: null, micros: 0 };
}

/** A topic whose value was removed. */
export function removed(topic: string): Value {
  const nothing = { value: undefined, quality: null, reasons: [], time: null, micros: 0, updated: null, version: null };
  return { topic, kind: "removed", ...nothing };
}

export type SampleJson = PointJson & { topic: string; count?: number };

/** A sample as the node writes it. */
export function sampleOf({ topic, v, q, t, why = [], count = 1 }: SampleJson): Sample {
  return { topic, value: v, quality: q, reasons: why, ...instant(t), count };
}

export type StateJson = Omit<PointJson, "why"> & { topic: string; seconds: number; share: number; count: number };

/** A duration as the node writes it. */
export function stateOf({ topic, v, q, t, seconds, share, count }: StateJson): StateDuration {
  return { topic, value: v, quality: q, ...instant(t), seconds, share, count };
}

export interface EventJson {
  seq: number;
  time: string;
  kind: TopicEvent["kind"];
  value: unknown;
}

/** An event as the node writes it. */
export function eventOf({ seq, time, kind, value }: EventJson): TopicEvent {
  return { seq, ...instant(time), value: kind === "binary" ? bytesOf(value as string) : value, kind };
}

function instant(text: string): { time: Date; micros: number } {
  const digits = (/\.(\d+)/.exec(text)?.[1] ?? "").padEnd(6, "0");
  return { time: new Date(text), micros: Number(digits.slice(3, 6)) };
}

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from({ length: hex.length / 2 }, (_, at) => parseInt(hex.slice(2 * at, 2 * at + 2), 16));
}
