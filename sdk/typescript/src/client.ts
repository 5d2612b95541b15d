/**
 * A node of Tieline over HTTP, for browsers and Node.js.
 *
 *     const node = connect("http://127.0.0.1:8080");
 *     for await (const value of node.subscribe("site/+/power")) console.log(value.topic, value.value, value.quality);
 */

import { Connection, type ConnectOptions, eventsOf, quoted } from "./connection.js";
import { Refused, Unknown, ofStatus } from "./errors.js";
import { type SubscribeOptions, Subscription } from "./live.js";
import { type Done, type Sample, type SampleJson, sampleOf, type Value, type ValueJson, valueOf } from "./values.js";

export type { ConnectOptions } from "./connection.js";
export { Denied, Refused, TielineError, Unknown, Unreachable } from "./errors.js";
export { type State, type SubscribeOptions, Subscription } from "./live.js";
export type { Done, Quality, Sample, Value } from "./values.js";

type Json = Record<string, unknown>;
type Moment = Date | string;

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

export interface PutOptions {
  ifVersion?: number;
  ifAbsent?: boolean;
}

export interface CommandOptions {
  mode?: "select" | "direct";
  timeoutSeconds?: number;
  requester?: string;
}

export interface Audited extends Json {
  id: number;
  time: string;
  who: string;
  topic: string;
  phase: string;
}

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

export interface Device extends Json {
  topic: string;
  name: string;
  protocol: string;
  state: string;
}

export interface ConfiguredPoint extends Json {
  topic: string;
  device: string;
  type: string;
  unit: string;
  writable: boolean;
  may_command: boolean;
}

const PAGE = 1000;
const TAIL_SILENCE_MS = 30_000;

/** A node; nothing is asked yet. */
export function connect(url: string, options: ConnectOptions = {}): Node {
  return new Node(new Connection(url, options));
}

/** A node of Tieline. Errors are `Refused`, `Denied`, `Unreachable` and `Unknown`. */
export class Node {
  constructor(private readonly connection: Connection) {}

  /** Ends what is under way. */
  close(): void {
    this.connection.close();
  }

  /** Name, version, listeners and state of the node. */
  status(): Promise<Json> {
    return this.connection.get("/v1/status");
  }

  /** Whether the node is healthy, and what is wrong. */
  async health(): Promise<Json & { status: string }> {
    const answer = await this.connection.send("GET", "/healthz", { accept: (status) => status === 503 });
    return answer.json() as Promise<Json & { status: string }>;
  }

  /** User and roles of the caller, and what the caller may read. */
  me(): Promise<Json> {
    return this.connection.get("/v1/me");
  }

  /** The last value of a topic; undefined if it has none. */
  async get(topic: string): Promise<Value | undefined> {
    try {
      return valueOf(await this.connection.get<ValueJson>(`/v1/topics/${quoted(topic)}`));
    } catch (error) {
      if (error instanceof Refused && error.status === 404) {
        return undefined;
      }
      throw error;
    }
  }

  /** Last values, sorted by name; with `at` those of that time, from the history. */
  async *topics(filter = "#", options: { at?: Moment } = {}): AsyncGenerator<Value> {
    const at = options.at === undefined ? undefined : moment(options.at);
    for await (const found of this.pages<ValueJson>("/v1/topics", "topics", { filter, at })) {
      yield valueOf(found);
    }
  }

  /** Publishes; returns when the history has the message. A text is sent as it is, anything else as JSON. */
  async publish(topic: string, value: unknown, options: { retain?: boolean } = {}): Promise<void> {
    await this.connection.send("POST", "/v1/publish", { body: { topic, payload: value, retain: options.retain ?? false } });
  }

  /** Sets the last value of a topic; its version. On a condition: `Refused` with the status 412 where it is not met. */
  async put(topic: string, value: unknown, options: PutOptions = {}): Promise<number> {
    const content = value instanceof Uint8Array || typeof value === "string" ? value : JSON.stringify(value);
    const headers = { ...condition(options.ifVersion), ...(options.ifAbsent === true ? { "If-None-Match": "*" } : {}) };
    const sent = { content: content as Uint8Array<ArrayBuffer> | string, headers };
    const answer = await this.connection.send("PUT", `/v1/topics/${quoted(topic)}`, sent);
    return ((await answer.json()) as { seq: number }).seq;
  }

  /** Removes the last value of a topic. */
  async delete(topic: string, options: { ifVersion?: number } = {}): Promise<void> {
    await this.connection.send("DELETE", `/v1/topics/${quoted(topic)}`, { headers: condition(options.ifVersion) });
  }

  /** Last values of topics, then each change, as an asynchronous iterator; it reconnects by itself. */
  subscribe(filters: string | string[], options: SubscribeOptions = {}): Subscription {
    return new Subscription(this.connection, [filters].flat(), options);
  }

  /** Calls `call` with each value of a subscription; a function that ends it. */
  on(filters: string | string[], call: (value: Value) => void, onError: (error: unknown) => void = report): () => void {
    const end = new AbortController();
    const follow = async () => {
      for await (const value of this.subscribe(filters, { signal: end.signal })) {
        call(value);
      }
    };
    follow().catch(onError);
    return () => end.abort();
  }

  /** Recorded values, or buckets of them. */
  async history(topics: string | string[], question: HistoryQuestion = {}): Promise<Sample[]> {
    const rows = await this.connection.get<SampleJson[]>("/v1/history", historyParams(topics, question));
    return rows.map(sampleOf);
  }

  /** The address of the same rows as a file of CSV. */
  csvUrl(topics: string | string[], question: HistoryQuestion = {}): string {
    const given = Object.entries({ ...historyParams(topics, question), format: "csv" });
    const pairs = given.flatMap(([name, value]) => [value].flat().map((one) => [name, one] as const));
    const said = pairs.filter(([, value]) => value !== undefined).map(([name, value]) => [name, String(value)]);
    return `${this.connection.url}/v1/history?${new URLSearchParams(said as [string, string][])}`;
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

  /** Operates a point. `Refused`: nothing was done. `Unknown`: it was sent, and may have been carried out; it is never repeated. */
  async command(topic: string, value: unknown, options: CommandOptions = {}): Promise<Done> {
    const { mode, requester, timeoutSeconds } = options;
    const limit = timeoutSeconds === undefined ? {} : { timeout_ms: Math.round(timeoutSeconds * 1000) };
    const body = { topic, value, ...(mode ? { mode } : {}), ...(requester ? { requester } : {}), ...limit };
    const patience = timeoutSeconds === undefined ? undefined : timeoutSeconds + 30;
    const answer = await this.connection.send("POST", "/v1/command", { body, accept: () => true, timeoutSeconds: patience });
    const told = (await answer.json().catch(() => ({}))) as Json;
    const [detail, reason] = [String(told["detail"] ?? ""), String(told["reason"] ?? "")];
    switch (told["status"]) {
      case "success":
        return { topic, value: told["value"], expected: told["expected"], elapsedMs: told["elapsed_ms"] as number };
      case "refused":
        throw new Refused(detail, answer.status, reason);
      case "unknown":
        throw new Unknown(detail, answer.status);
      default:
        throw answer.ok ? new Unknown(`the node answered ${JSON.stringify(told)}`) : ofStatus(answer.status, detail);
    }
  }

  /** Records of the audit log, the newest first. */
  async *audit(topic?: string): AsyncGenerator<Audited> {
    for (let before: unknown = undefined; before !== null; ) {
      const page: { entries: Audited[]; next: number | null } = await this.connection.get("/v1/audit", { topic, before: before as number });
      yield* page.entries;
      before = page.next;
    }
  }

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
    return this.act("ack", alarms, { why });
  }

  /** Shelves alarms for a time as in `2h`; `once`: until they return, if that is earlier. A result for each of them. */
  shelve(alarms: AlarmTarget[], time: string, why: string, options: { once?: boolean } = {}): Promise<AlarmResult[]> {
    return this.act("shelve", alarms, { for: time, why, once: options.once ?? false });
  }

  /** Ends the shelving of alarms; a result for each of them. */
  unshelve(alarms: AlarmTarget[], why = ""): Promise<AlarmResult[]> {
    return this.act("unshelve", alarms, { why });
  }

  /** Changes of alarms, the oldest first. */
  alarmJournal(
    filter = "#",
    options: { start?: string; end?: string; transition?: string } = {},
  ): AsyncGenerator<AlarmChange> {
    const { start, end, transition } = options;
    return this.pages("/v1/alarms/journal", "rows", { filter, from: start, to: end, transition });
  }

  private async act(verb: string, alarms: AlarmTarget[], body: Json): Promise<AlarmResult[]> {
    const targets = alarms.map(({ topic, kind, seq }) => ({ topic, kind, seq }));
    const answer = await this.connection.send("POST", `/v1/alarms/${verb}`, { body: { ...body, alarms: targets } });
    return ((await answer.json()) as { results: AlarmResult[] }).results;
  }

  /** All devices with their health. */
  async devices(): Promise<Device[]> {
    return (await this.connection.get<{ devices: Device[] }>("/v1/devices")).devices;
  }

  /** One device with its points. */
  device(topic: string): Promise<Device> {
    return this.connection.get(`/v1/devices/${quoted(topic)}`);
  }

  /** Configured points: type, unit, limits, whether the caller may command them. */
  points(filter = "#"): AsyncGenerator<ConfiguredPoint> {
    return this.pages("/v1/points", "points", { filter });
  }

  /** MQTT clients, those with the greatest lag first. */
  async sessions(options: { order?: string; limit?: number } = {}): Promise<Json[]> {
    return (await this.connection.get<{ sessions: Json[] }>("/v1/sessions", { ...options })).sessions;
  }

  private async *pages<T>(path: string, member: string, params: Record<string, string | undefined>): AsyncGenerator<T> {
    for (let after: string | undefined | null = undefined; after !== null; ) {
      const page: Json = await this.connection.get(path, { ...params, after, limit: PAGE });
      yield* page[member] as T[];
      after = page["next"] as string | null;
    }
  }
}

function historyParams(topics: string | string[], { last, start, end, ...more }: HistoryQuestion) {
  const from = last ?? (start === undefined ? undefined : moment(start));
  return { topic: [topics].flat(), from, to: end === undefined ? undefined : moment(end), ...more };
}

function condition(version?: number): Record<string, string> {
  return version === undefined ? {} : { "If-Match": `"${version}"` };
}

function moment(time: Moment): string {
  return typeof time === "string" ? time : time.toISOString();
}

function report(error: unknown): void {
  console.error(error);
}
