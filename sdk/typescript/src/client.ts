/**
 * A node of Tieline over HTTP, for browsers and Node.js.
 *
 *     const node = connect("http://127.0.0.1:8080");
 *     for await (const value of node.subscribe("site/+/power")) console.log(value.topic, value.value, value.quality);
 */

import { Access } from "./access.js";
import { Connection, type ConnectOptions, quoted } from "./connection.js";
import { Refused } from "./errors.js";
import { type SubscribeOptions, Subscription } from "./live.js";
import { type Moment, moment } from "./part.js";
import { type EventJson, eventOf, type TopicEvent, type Value, type ValueJson, valueOf } from "./values.js";

export type * from "./access.js";
export type * from "./alarms.js";
export type { ConnectOptions } from "./connection.js";
export { Denied, Refused, TielineError, Unknown, Unreachable } from "./errors.js";
export type * from "./field.js";
export { type State, type SubscribeOptions, Subscription } from "./live.js";
export type * from "./operation.js";
export type * from "./records.js";
export type { Done, Quality, Sample, StateDuration, TopicEvent, Value } from "./values.js";

export interface PutOptions {
  ifVersion?: number;
  ifAbsent?: boolean;
}

/** Which events: the last `limit`, or the first after `after` (a `seq`) or `start`. */
export interface EventsOptions {
  limit?: number;
  after?: number;
  start?: Moment;
  end?: Moment;
}

/** A node; nothing is asked yet. */
export function connect(url: string, options: ConnectOptions = {}): Node {
  return new Node(new Connection(url, options));
}

/** A node of Tieline. Errors are `Refused`, `Denied`, `Unreachable` and `Unknown`. */
export class Node extends Access {
  /** Ends what is under way. */
  close(): void {
    this.connection.close();
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

  /** Events of a topic that keeps its last ones. */
  async events(topic: string, { limit = 1000, after, start, end }: EventsOptions = {}): Promise<TopicEvent[]> {
    const params = { events: limit, after, from: moment(start), to: moment(end) };
    return (await this.connection.get<{ events: EventJson[] }>(`/v1/topics/${quoted(topic)}`, params)).events.map(eventOf);
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
}

function condition(version?: number): Record<string, string> {
  return version === undefined ? {} : { "If-Match": `"${version}"` };
}

function report(error: unknown): void {
  console.error(error);
}
