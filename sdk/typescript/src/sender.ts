/** A publisher's side of a connection: which values go as what changed, and which are to be sent again, whole. */

import { hunkOf } from "./hunks.js";
import { crc32 } from "./bytes.js";

const HUNK = 3;
const SAME = 5;
/** What is shorter than a mark goes as it is; so does what clears a topic. */
const VALUE_BYTES_MIN = 16;
/** Refusals that follow one another closely make a topic's values go plain for a while: 2^(n-1) - 1 of them. */
const PAUSE_MAX = 7;
const CALM = 256;
/** Deltas that do not pay, in a row, make values go whole for a while without an attempt: 2^n - 1 of them. */
const FAILED_MAX = 6;
const OVERHEAD_BYTES = 128;

/** How a value goes out: the payload, whether it has the user property `PROPERTY`: `MARK`, and its number. */
export interface Saying {
  readonly payload: Uint8Array;
  readonly marked: boolean;
  readonly isDelta: boolean;
  readonly number: number;
}

/** What a sender holds at most; what came first goes first. */
export interface SenderLimits {
  readonly topicsMax?: number;
  readonly bytesMax?: number;
}

interface Said<How> {
  /** What the server holds of this connection, if anything. */
  base: Uint8Array | undefined;
  began: number;
  revision: number;
  value: Uint8Array;
  how: How;
  number: number;
  pause: number;
  refusals: number;
  calm: number;
  failed: number;
  skip: number;
}

/** One connection's sender; it does no I/O. `How` is what its owner needs to publish a topic's value once more. */
export class Sender<How> {
  readonly stats = { values: 0, deltas: 0, refused: 0 };
  private readonly topics = new Map<string, Said<How>>();
  private readonly topicsMax: number;
  private readonly bytesMax: number;
  private bytes = 0;
  private number = 0;
  private takesHunks = false;

  constructor(limits: SenderLimits = {}) {
    this.topicsMax = limits.topicsMax ?? 65_536;
    this.bytesMax = limits.bytesMax ?? 16 << 20;
  }

  /** The value of the user property for CONNECT. */
  get offer(): string {
    return "hunk";
  }

  /** The server let the client in, with this user property or without: whether deltas will be sent. */
  handleConnack(answer: string | undefined): boolean {
    this.handleDisconnect();
    this.takesHunks = (answer ?? "").split(",").some((name) => name.trim() === "hunk");
    return this.takesHunks;
  }

  /** What the server held ends with the connection. */
  handleDisconnect(): void {
    this.takesHunks = false;
    for (const said of this.topics.values()) said.base = undefined;
  }

  /**
   * How a topic's next value goes out. `mayMark` where it will go over this connection, in its turn: not while the connection
   * is away, and not while marked messages of an older connection, or of another QoS, are not answered.
   */
  say(topic: string, value: Uint8Array, how: How, mayMark = true): Saying {
    this.number += 1;
    const { number } = this;
    let said = this.topics.get(topic);
    if (!this.takesHunks && !said) {
      this.stats.values += 1;
      return { payload: value, marked: false, isDelta: false, number };
    }
    const none = { began: 0, revision: 0, pause: 0, refusals: 0, calm: 0, failed: 0, skip: 0 };
    said ??= { base: undefined, value: new Uint8Array(), how, number, ...none };
    said.number = number;
    said.how = how;
    said.calm += 1;
    const isValue = value.length >= VALUE_BYTES_MIN && !topic.startsWith("$");
    const marked = mayMark && this.takesHunks && said.pause === 0 && isValue;
    said.pause = Math.max(said.pause - 1, 0);
    this.hold(topic, said, value);
    const payload = marked ? next(said) : value;
    const isDelta = marked && (payload[0] ?? 0) >> 5 > 1;
    this.stats[isDelta ? "deltas" : "values"] += 1;
    return { payload, marked, isDelta, number };
  }

  /**
   * The server refused a marked message: the one with this number, or an unknown one. What to publish once more: the
   * topic's last value and how, unless a newer one than the one refused has gone out.
   */
  handleRefused(topic: string, number?: number): { value: Uint8Array; how: How } | undefined {
    this.stats.refused += 1;
    const said = this.topics.get(topic);
    if (!said) return undefined;
    if (said.base && (number === undefined || number >= said.began)) {
      said.base = undefined;
      said.refusals = said.calm > CALM ? 1 : Math.min(said.refusals + 1, PAUSE_MAX);
      said.pause = 2 ** (said.refusals - 1) - 1;
      said.calm = 0;
    }
    return number === undefined || number === said.number ? { value: said.value, how: said.how } : undefined;
  }

  private hold(topic: string, said: Said<How>, value: Uint8Array): void {
    if (!this.topics.has(topic)) this.bytes += topic.length + OVERHEAD_BYTES;
    this.bytes += value.length - said.value.length;
    // The application may use its memory again.
    said.value = new Uint8Array(value);
    this.topics.set(topic, said);
    for (const [first, { value: gone }] of this.topics) {
      if (this.topics.size <= this.topicsMax && this.bytes <= this.bytesMax) return;
      this.bytes -= first.length + OVERHEAD_BYTES + gone.length;
      this.topics.delete(first);
    }
  }
}

/** The payload that leads to the value. */
function next(said: Said<unknown>): Uint8Array {
  const { base, value } = said;
  const held = said.revision % 32;
  said.base = value;
  said.revision += 1;
  if (base) {
    const crc: number[] = [];
    if (said.revision % 32 === 0) {
      const sum = crc32(value);
      for (let shift = 0; shift < 32; shift += 8) crc.push((sum >>> shift) & 0xff);
    }
    if (base.length === value.length && base.every((byte, at) => byte === value[at])) {
      return Uint8Array.from([(SAME << 5) | held, ...crc]);
    }
    const changed = delta(said, base);
    if (changed) return joined([(HUNK << 5) | held, ...crc], changed);
  } else {
    said.began = said.number;
    said.failed = said.skip = 0;
  }
  return joined([said.revision % 32], value);
}

function delta(said: Said<unknown>, base: Uint8Array): number[] | undefined {
  if (said.skip > 0) {
    said.skip -= 1;
    return undefined;
  }
  const hunks = hunkOf(base, said.value, Math.floor(said.value.length / 2));
  said.failed = hunks ? 0 : Math.min(said.failed + 1, FAILED_MAX);
  said.skip = 2 ** said.failed - 1;
  return hunks;
}

function joined(head: readonly number[], rest: ArrayLike<number>): Uint8Array {
  const bytes = new Uint8Array(head.length + rest.length);
  bytes.set(head);
  bytes.set(rest, head.length);
  return bytes;
}
