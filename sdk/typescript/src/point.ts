/** Points by field. */

import { Broken, Cursor, putVarint, unzigzag, zigzag } from "./bytes.js";

/** Reasons against a value, by bit, each with the validity that it carries. */
const REASONS = [
  ["offline", "bad"],
  ["restart", "uncertain"],
  ["comm_lost", "bad"],
  ["remote_forced", "uncertain"],
  ["local_forced", "uncertain"],
  ["chatter_filter", "uncertain"],
  ["over_range", "bad"],
  ["reference_err", "uncertain"],
  ["discontinuity", "uncertain"],
  ["away", "bad"],
  ["stale", "uncertain"],
  ["time_unsynced", "good"],
  ["initial", "bad"],
] as const;

/** The validity that a reader acts on. */
export type Validity = "good" | "uncertain" | "bad";

/** What was measured. Integers beyond 2^53 are bigint. */
export type PointValue = null | boolean | number | bigint | string | Uint8Array;

/** A value with what is needed to trust it. */
export interface Point {
  readonly kind: "point";
  readonly value: PointValue;
  readonly quality: Validity;
  /** Reasons against the value. */
  readonly reasons: readonly string[];
  /** Microseconds since 1970, UTC. */
  readonly micros: bigint;
  /** Milliseconds since 1970, UTC, as `Date` takes them. */
  readonly millis: number;
}

const NULL = 0;
const FALSE = 1;
const TRUE = 2;
const INT = 3;
const DECIMAL = 4;
const FLOAT = 5;
const TEXT = 6;
const BYTES = 7;

const I64_MIN = -(1n << 63n);
const I64_MAX = (1n << 63n) - 1n;
const MANTISSA_MAX = 1n << 53n;
const MICROS_MIN = -62_135_596_800_000_000n;
const MICROS_MAX = 253_402_300_799_999_999n;
const UNITS = [1n, 1000n, 1_000_000n] as const;
/** Powers of ten that a double holds exactly; `10 ** n` need not be one. */
const POWERS = [1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/** How the value is told: an integer or mantissa, a double's 64 bits, or text and bytes. */
interface Told {
  readonly tag: number;
  readonly int: bigint;
  readonly places: number;
  readonly bytes: Uint8Array;
}

const NONE = new Uint8Array();

/** A point and what its next delta is told against. */
export class State {
  private constructor(
    private readonly told: Told,
    private readonly quality: number,
    private readonly micros: bigint,
    private readonly unit: number,
    private readonly step: bigint,
  ) {}

  /** Reads the whole form. */
  static parse(bytes: Uint8Array, bytesMax: number): State {
    const cursor = new Cursor(bytes);
    const head = cursor.u8();
    const unit = (head >> 3) & 3;
    if (head & 0x80 || unit === 3) throw new Broken("not a point's whole form");
    const told = parseTold(head & 7, cursor, bytesMax);
    const quality = head & 0x20 ? parseQuality(cursor) : 0;
    const micros = legalTime(cursor.signed());
    const step = head & 0x40 ? cursor.signed() : 0n;
    if (!cursor.isEmpty) throw new Broken("bytes after a point");
    return new State(told, quality, micros, unit, step);
  }

  /** The whole form. */
  emit(): number[] {
    const { tag, int, places, bytes } = this.told;
    const out = [tag | (this.unit << 3) | (this.quality ? 0x20 : 0) | (this.step ? 0x40 : 0)];
    if (tag === INT) putVarint(out, zigzag(int));
    if (tag === DECIMAL) {
      out.push(places);
      putVarint(out, zigzag(int));
    }
    if (tag === FLOAT) for (let at = 0n; at < 64n; at += 8n) out.push(Number((int >> at) & 0xffn));
    if (tag === TEXT || tag === BYTES) {
      putVarint(out, BigInt(bytes.length));
      out.push(...bytes);
    }
    if (this.quality) putVarint(out, BigInt(this.quality));
    putVarint(out, zigzag(this.micros));
    if (this.step) putVarint(out, zigzag(this.step));
    return out;
  }

  /** The state that a delta makes of this one. */
  apply(delta: Uint8Array, bytesMax: number): State {
    const cursor = new Cursor(delta);
    const first = cursor.varint();
    let { told, quality, unit, step } = this;
    let late: boolean;
    if ((first & 1n) === 0n) {
      told = moved(told, unzigzag(first >> 1n));
      late = !cursor.isEmpty;
    } else {
      if (first >> 1n > 0x1fn) throw new Broken("an unknown flag of a point");
      const flags = Number(first >> 1n);
      const form = flags & 3;
      if (form === 1) told = moved(told, cursor.signed());
      if (form === 2) told = xored(told, cursor);
      if (form === 3) told = parseTold(cursor.u8(), cursor, bytesMax);
      if (flags & 4) quality = parseQuality(cursor);
      if (flags & 8) {
        const pace = cursor.varint();
        unit = Number(pace & 3n);
        step = unzigzag(pace >> 2n);
      }
      late = (flags & 16) !== 0;
    }
    const residual = late ? cursor.signed() : 0n;
    const micros = UNITS[unit];
    if (micros === undefined) throw new Broken("an unknown unit of time");
    if (!cursor.isEmpty) throw new Broken("bytes after a point");
    return new State(told, quality, legalTime(this.micros + (step + residual) * micros), unit, step);
  }

  toPoint(): Point {
    const reasons = REASONS.filter((_, bit) => (this.quality >> bit) & 1);
    const has = (validity: Validity) => reasons.some(([, carried]) => carried === validity);
    return {
      kind: "point",
      value: valueOf(this.told),
      quality: has("bad") ? "bad" : has("uncertain") ? "uncertain" : "good",
      reasons: reasons.map(([name]) => name),
      micros: this.micros,
      millis: Number(this.micros) / 1000,
    };
  }
}

function parseTold(tag: number, cursor: Cursor, bytesMax: number): Told {
  const told = { tag, int: 0n, places: 0, bytes: NONE };
  switch (tag) {
    case NULL:
    case FALSE:
      return told;
    case TRUE:
      return { ...told, int: 1n };
    case INT:
      return { ...told, int: cursor.signed() };
    case DECIMAL: {
      const places = cursor.u8();
      const int = cursor.signed();
      if (places > 15 || int > MANTISSA_MAX || int < -MANTISSA_MAX) {
        throw new Broken("a decimal beyond 15 places or 53 bits");
      }
      return { ...told, int, places };
    }
    case FLOAT:
      return { ...told, int: bitsOf(cursor.take(8)) };
    case TEXT:
    case BYTES: {
      const count = cursor.length();
      if (count > bytesMax) throw new Broken(`a value of more than ${bytesMax} bytes`);
      const bytes = cursor.take(count).slice();
      if (tag === TEXT) textOf(bytes);
      return { ...told, bytes };
    }
    default:
      throw new Broken("an unknown kind of value");
  }
}

function moved(told: Told, by: bigint): Told {
  if (by === 0n) return told;
  const int = told.int + by;
  const isBoolean = told.tag === FALSE || told.tag === TRUE;
  if (isBoolean && (int === 0n || int === 1n)) return { ...told, tag: int ? TRUE : FALSE, int };
  if (told.tag === INT && int >= I64_MIN && int <= I64_MAX) return { ...told, int };
  if (told.tag === DECIMAL && int >= -MANTISSA_MAX && int <= MANTISSA_MAX) return { ...told, int };
  throw new Broken("a step that the value cannot take");
}

function xored(told: Told, cursor: Cursor): Told {
  const head = cursor.u8();
  const zeros = head >> 4;
  const count = head & 15;
  if (told.tag !== FLOAT || count === 0 || zeros + count > 8) {
    throw new Broken("an exclusive or of more or less than a double");
  }
  const bits = bitsOf(cursor.take(count)) << BigInt(8 * (8 - zeros - count));
  return { ...told, int: told.int ^ bits };
}

function bitsOf(bytes: Uint8Array): bigint {
  return bytes.reduceRight((bits, byte) => (bits << 8n) | BigInt(byte), 0n);
}

function textOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Broken("a text that is not UTF-8");
  }
}

function valueOf({ tag, int, places, bytes }: Told): PointValue {
  switch (tag) {
    case NULL:
      return null;
    case FALSE:
    case TRUE:
      return tag === TRUE;
    case INT:
      return int >= -MANTISSA_MAX && int <= MANTISSA_MAX ? Number(int) : int;
    case DECIMAL:
      return Number(int) / (POWERS[places] ?? 1);
    case FLOAT: {
      const view = new DataView(new ArrayBuffer(8));
      view.setBigUint64(0, int);
      return view.getFloat64(0);
    }
    case TEXT:
      return textOf(bytes);
    default:
      return bytes;
  }
}

function parseQuality(cursor: Cursor): number {
  const quality = cursor.varint();
  if (quality >> BigInt(REASONS.length)) throw new Broken("an unknown reason of quality");
  return Number(quality);
}

function legalTime(micros: bigint): bigint {
  if (micros < MICROS_MIN || micros > MICROS_MAX) throw new Broken("a time outside the years 1 to 9999");
  return micros;
}
