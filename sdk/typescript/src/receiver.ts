/** The receiver's side of a connection: which messages are deltas, the decoders of their topics, whose value to ask for. */

import { Codecs } from "./codecs.js";
import { Decoder } from "./decoder.js";
import { Broken } from "./bytes.js";
import type { Point } from "./point.js";

/** The user property by which deltas are agreed, and, with the value `MARK`, by which a PUBLISH says that it is one. */
export const PROPERTY = "tieline-delta";
export const MARK = "1";
/** Where a topic's name is published to be sent its whole value. */
export const RESYNC_TOPIC = "$tieline/resync";

/** A topic's value, whole (bytes that came plain are bytes too), or that it is unknown until the next value. */
export type Event =
  | { readonly kind: "value"; readonly topic: string; readonly value: Point | Uint8Array }
  | { readonly kind: "lost"; readonly topic: string; readonly why: string };

/** What a receiver holds at most. */
export interface Limits {
  /** Topics; one more, and the oldest is forgotten, to be asked for at its next delta. */
  readonly topicsMax?: number;
  /** Bytes of one value. */
  readonly bytesMax?: number;
}

/** One connection's receiver; it does no I/O. */
export class Receiver {
  readonly stats = { values: 0, deltas: 0, lost: 0, waiting: 0, forgotten: 0 };
  private readonly filters = new Set<string>();
  private readonly topics = new Map<string, Decoder>();
  private readonly aliases = new Map<number, { topic: string; marked: boolean }>();
  private readonly asks = new Set<string>();
  private readonly topicsMax: number;
  private readonly bytesMax: number;

  constructor(
    readonly codecs = new Codecs(),
    limits: Limits = {},
  ) {
    this.topicsMax = limits.topicsMax ?? 1 << 20;
    this.bytesMax = limits.bytesMax ?? 16 << 20;
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
    if (used.length > 0) this.filters.add(filter);
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

  /**
   * Takes a PUBLISH: its topic's name (may be empty where an alias says it), the alias if it has one, and whether it has
   * the user property `PROPERTY`: `MARK`.
   */
  handlePublish(topic: string, payload: Uint8Array, alias?: number, marked = false): Event[] {
    if (alias !== undefined) {
      const known = this.aliases.get(alias);
      if (marked || (topic && topic !== known?.topic)) this.aliases.set(alias, { topic, marked });
      else if (known) ({ topic, marked } = known);
    }
    if (marked) return this.take(topic, payload);
    this.stats.values += 1;
    return [{ kind: "value", topic, value: payload }];
  }

  /** The next topic whose name is to be published to `RESYNC_TOPIC`. */
  pollResync(): string | undefined {
    for (const topic of this.asks) {
      this.asks.delete(topic);
      return topic;
    }
    return undefined;
  }

  private take(topic: string, payload: Uint8Array): Event[] {
    const decoder = this.topics.get(topic) ?? this.start(topic);
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

  /** A decoder for a topic. */
  private start(topic: string): Decoder {
    const oldest = this.topics.size >= this.topicsMax ? this.topics.keys().next() : undefined;
    if (oldest && !oldest.done) {
      this.topics.delete(oldest.value);
      this.asks.delete(oldest.value);
      this.stats.forgotten += 1;
    }
    const decoder = new Decoder(this.codecs, this.bytesMax);
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
