/**
 * The hunks that lead from one value to the next: what `crates/wire/delta` would say, byte for byte.
 *
 * Most updates overwrite fields: both values are compared at the same places. Where a field changed its length, the places are
 * found again by trying shifts in the order of their size. Work is bounded by a budget of compared bytes: what is left when it
 * is spent is one hunk. Output is bounded by the caller, who sends the whole value where it would be more.
 */

import { putVarint } from "./bytes.js";

/** Equal bytes that are not worth a hunk of their own: they would cost as much. */
const GAP = 4;
/** Bytes after a difference among which the places are looked for. */
const WINDOW = 96;
/** The largest shift tried. */
const SHIFT_MAX = 64;
/** Equal bytes that make a place believable. */
const MATCH_MIN = 6;
/** Equal bytes after which no better place is looked for. */
const MATCH_SURE = 24;
/** Bytes compared for each byte of the longer value. */
const BUDGET = 8;
/** A value that is shorter has the budget of one of so many bytes. */
const SHORT = 1024;
/** What a shift costs of that, besides the bytes compared. */
const SHIFT_COST = 8;

/** What makes a value of a base; nothing where that is more than so many bytes. */
export function hunkOf(base: Uint8Array, value: Uint8Array, bytesMax = Infinity): number[] | undefined {
  if (base.length === value.length) {
    // A field that moved makes everything after it differ: then the places are looked for.
    const delta = samePlaces(base, value, Math.min(bytesMax, Math.floor(base.length / 4) + 16));
    if (delta) return delta;
  }
  return new Work(base, value).run(bytesMax);
}

/** The hunks of two values of one length, place by place. */
function samePlaces(base: Uint8Array, value: Uint8Array, bytesMax: number): number[] | undefined {
  const out: number[] = [];
  let at = 0;
  while (out.length <= bytesMax) {
    const from = at;
    while (at < value.length && base[at] === value[at]) at += 1;
    if (at === value.length) return out;
    let end = at + 1;
    for (let look = end; look < value.length && look - end < GAP; look += 1) if (base[look] !== value[look]) end = look + 1;
    putHunk(out, at - from, end - at, value.subarray(at, end));
    at = end;
  }
  return undefined;
}

/** Two values, each from a place on. */
class Work {
  private baseAt = 0;
  private valueAt = 0;
  private readonly baseEnd: number;
  private readonly valueEnd: number;
  private budget: number;

  constructor(
    private readonly base: Uint8Array,
    private readonly value: Uint8Array,
  ) {
    const shorter = Math.min(base.length, value.length);
    let tail = 0;
    while (tail < shorter && base[base.length - 1 - tail] === value[value.length - 1 - tail]) tail += 1;
    this.baseEnd = base.length - tail;
    this.valueEnd = value.length - tail;
    this.budget = BUDGET * Math.max(base.length, value.length, SHORT);
  }

  /** The hunks; nothing where they are more than so many bytes. */
  run(bytesMax: number): number[] | undefined {
    const out: number[] = [];
    for (;;) {
      const copy = this.equal();
      if (this.baseAt === this.baseEnd && this.valueAt === this.valueEnd) return out;
      const [gone, ins] = this.nextPlace();
      if (ins > bytesMax) return undefined;
      putHunk(out, copy, gone, this.value.subarray(this.valueAt, this.valueAt + ins));
      if (out.length > bytesMax) return undefined;
      this.baseAt += gone;
      this.valueAt += ins;
    }
  }

  /** Steps over what is equal at the present place. */
  private equal(): number {
    const most = Math.min(this.baseEnd - this.baseAt, this.valueEnd - this.valueAt);
    let count = 0;
    while (count < most && this.base[this.baseAt + count] === this.value[this.valueAt + count]) count += 1;
    this.baseAt += count;
    this.valueAt += count;
    return count;
  }

  /** Where both go on together: bytes of the base to leave out, bytes of the value to insert. */
  private nextPlace(): [number, number] {
    const [left, right] = [this.baseEnd - this.baseAt, this.valueEnd - this.valueAt];
    if (this.budget < SHIFT_COST) return [left, right];
    let place: [number, number] = [Math.min(left, WINDOW), Math.min(right, WINDOW)];
    // Where that is all that is left, the equal bytes behind it are certain.
    const least = left <= WINDOW && right <= WINDOW ? MATCH_MIN : 0;
    let best = least;
    const last = Math.min(SHIFT_MAX, Math.max(...place));
    for (let shift = 0; shift <= last; shift += 1) {
      for (const [gone, ins] of [[0, shift], [shift, 0]] as const) {
        const found = this.along(this.baseAt + gone, this.valueAt + ins);
        if (!found) continue;
        const [skip, length] = found;
        const score = Math.max(length + WINDOW + SHIFT_MAX - (ins + skip) - (shift > 0 ? 1 : 0), 0);
        if (score > best) {
          best = score;
          place = [gone + skip, ins + skip];
        }
        if (length >= MATCH_SURE) return place;
        if (shift === 0) break;
      }
      if (this.budget < SHIFT_COST) return best > least ? place : [left, right];
      this.budget -= SHIFT_COST;
    }
    return place;
  }

  /** The first run of equal bytes with both at fixed places: bytes before it, and its length. */
  private along(baseAt: number, valueAt: number): [number, number] | undefined {
    const most = Math.min(this.baseEnd - baseAt, this.valueEnd - valueAt, WINDOW + MATCH_SURE);
    let [looked, equal] = [0, 0];
    for (let at = 0; at < most; at += 1) {
      if (this.base[baseAt + at] === this.value[valueAt + at]) {
        looked += 1;
        equal += 1;
        if (equal === MATCH_SURE) break;
      } else if (equal >= MATCH_MIN || looked >= WINDOW) {
        break;
      } else {
        looked += 1;
        equal = 0;
      }
    }
    this.budget = Math.max(this.budget - looked, 0);
    return equal >= MATCH_MIN ? [looked - equal, equal] : undefined;
  }
}

function putHunk(out: number[], copy: number, gone: number, ins: Uint8Array): void {
  const differ = gone === ins.length ? 0n : 1n;
  putVarint(out, (BigInt(copy) << 1n) | differ);
  putVarint(out, BigInt(ins.length));
  if (differ) putVarint(out, BigInt(gone));
  for (const byte of ins) out.push(byte);
}
