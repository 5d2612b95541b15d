/** The receiver's side of a connection: which topics come as deltas, their decoders, whose value is to be asked for. */

import { Codecs } from "./codecs.js";
import { Decoder } from "./decoder.js";
import { Broken, Cursor } from "./octets.js";
import type { Point } from "./point.js";

/** The user property by which deltas are agreed. */
export const PROPERTY = "tieline-delta";
/** Where a topic's name is published to be sent its whole value. */
export const RESYNC_TOPIC = "$tieline/resync";
/** Where a server publishes several payloads at once. */
export const BATCH_TOPIC = "$tieline/batch";

/** A topic's value, whole (octets that came plain are octets too), or that it is unknown until the next value. */
export type Event =
  | { readonly kind: "value"; readonly topic: string; readonly value: Point | Uint8Array }
  | { readonly kind: "lost"; readonly topic: string; readonly why: string };

/** What a receiver holds at most. */
export interface Limits {
  /** Topics; one more, and the oldest is forgotten, to be asked for at its next delta. */
  readonly topicsMax?: number;
  /** Octets of one value. */
  readonly octetsMax?: number;
}

/** One connection's receiver; it does no I/O. */
export class Receiver {
  readonly stats = { values: 0, deltas: 0, lost: 0, waiting: 0, forgotten: 0, malformed: 0 };
  private readonly filters = new Set<string>();
  private readonly topics = new Map<string, Decoder>();
  private readonly aliases = new Map<number, string>();
  private readonly asks = new Set<string>();
  private readonly topicsMax: number;
  private readonly octetsMax: number;

  constructor(
    readonly codecs = new Codecs(),
    limits: Limits = {},
  ) {
    this.topicsMax = limits.topicsMax ?? 1 << 20;
    this.octetsMax = limits.octetsMax ?? 16 << 20;
  }

  /** The value of the user property for SUBSCRIBE. */
  get offer(): string {
    return this.codecs.names.join(",");
  }

  /** The server granted a filter, with this user property or without. What it will use. */
  handleSuback(filter: string, answer: string | undefined): string[] {
    const names = this.codecs.names;
    const used = (answer ?? "").split(",").map((name) => name.trim()).filter((name) => names.includes(name));
    this.filters.delete(filter);
    if (used.some((name) => name !== "batch")) this.filters.add(filter);
    this.forgetUnselected();
    return used;
  }

  /** The server took a filter away. */
  handleUnsuback(filter: string): void {
    this.filters.delete(filter);
    this.forgetUnselected();
  }

  /** All state ends with the connection. */
  handleDisconnect(): void {
    for (const held of [this.filters, this.topics, this.aliases, this.asks]) held.clear();
  }

  /** Takes a PUBLISH: its topic's name (may be empty where an alias says it), and the alias if it has one. */
  handlePublish(topic: string, payload: Uint8Array, alias?: number): Event[] {
    if (alias !== undefined) {
      if (topic) this.aliases.set(alias, topic);
      else topic = this.aliases.get(alias) ?? "";
    }
    return topic === BATCH_TOPIC ? this.batch(payload) : this.take(topic, payload);
  }

  /** The next topic whose name is to be published to `RESYNC_TOPIC`. */
  pollResync(): string | undefined {
    for (const topic of this.asks) {
      this.asks.delete(topic);
      return topic;
    }
    return undefined;
  }

  private batch(payload: Uint8Array): Event[] {
    const events: Event[] = [];
    const cursor = new Cursor(payload);
    let alias = 0;
    try {
      while (!cursor.isEmpty) {
        const gap = cursor.length();
        alias += gap;
        const part = cursor.take(cursor.length());
        const topic = this.aliases.get(alias);
        if (gap === 0 || topic === undefined) throw new Broken("no topic alias");
        events.push(...this.take(topic, part));
      }
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      this.stats.malformed += 1;
    }
    return events;
  }

  private take(topic: string, payload: Uint8Array): Event[] {
    const decoder = this.topics.get(topic) ?? this.start(topic);
    if (!decoder) {
      this.stats.values += 1;
      return [{ kind: "value", topic, value: payload }];
    }
    const wasWaiting = decoder.isWaiting;
    try {
      const value = decoder.apply(payload);
      if (value === "waiting") this.stats.waiting += 1;
      if (value === "waiting" || value === "checked") return [];
      this.stats[(payload[0] ?? 0) >> 5 < 2 ? "values" : "deltas"] += 1;
      return [{ kind: "value", topic, value }];
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      if (wasWaiting) {
        this.stats.waiting += 1;
        return [];
      }
      this.stats.lost += 1;
      this.asks.add(topic);
      return [{ kind: "lost", topic, why: error.message }];
    }
  }

  /** A decoder for a topic that comes with deltas. */
  private start(topic: string): Decoder | undefined {
    if (!this.isSelected(topic)) return undefined;
    const oldest = this.topics.size >= this.topicsMax ? this.topics.keys().next() : undefined;
    if (oldest && !oldest.done) {
      this.topics.delete(oldest.value);
      this.asks.delete(oldest.value);
      this.stats.forgotten += 1;
    }
    const decoder = new Decoder(this.codecs, this.octetsMax);
    this.topics.set(topic, decoder);
    return decoder;
  }

  private forgetUnselected(): void {
    for (const topic of this.topics.keys()) if (!this.isSelected(topic)) this.topics.delete(topic);
  }

  private isSelected(topic: string): boolean {
    for (const filter of this.filters) if (matches(filter, topic)) return true;
    return false;
  }
}

/** Whether an MQTT filter selects a topic (MQTT 5 section 4.7). */
export function matches(filter: string, topic: string): boolean {
  const wanted = filter.split("/");
  const levels = topic.split("/");
  if (topic.startsWith("$") && (wanted[0] === "#" || wanted[0] === "+")) return false;
  for (const [at, level] of wanted.entries()) {
    if (level === "#") return true;
    if (at >= levels.length || (level !== "+" && level !== levels[at])) return false;
  }
  return wanted.length === levels.length;
}
