/** The codecs for octets. */

import { Broken, Cursor, putVarint } from "./octets.js";

/** Makes a value of a base, a delta and the most octets that it may have; throws `Broken`. */
export type Apply = (base: Uint8Array, delta: Uint8Array, octetsMax: number) => Uint8Array;

/** What this side takes, by number and name. */
export class Codecs {
  private readonly known = new Map<number, { name: string; apply: Apply }>([[3, { name: "hunk", apply: hunk }]]);

  /** Adds a codec: `zstd` as 4 where an application has one, or one of its own, numbered 8 to 15. */
  register(number: number, name: string, apply: Apply): void {
    const legal = (number >= 8 && number <= 15) || (number === 4 && name === "zstd");
    if (!legal || this.known.has(number) || this.names.includes(name)) {
      throw new RangeError("a codec's number must be 8 to 15, and number and name its own");
    }
    this.known.set(number, { name, apply });
  }

  /** Leaves a codec out. */
  forget(name: string): void {
    for (const [number, codec] of this.known) if (codec.name === name) this.known.delete(number);
  }

  /** All that is taken, in order of preference. */
  get names(): string[] {
    return ["point", ...[...this.known.values()].map(({ name }) => name)];
  }

  /** The value that a delta makes of a base. */
  apply(number: number, base: Uint8Array, delta: Uint8Array, octetsMax: number): Uint8Array {
    const codec = this.known.get(number);
    if (!codec) throw new Broken(`codec ${number} is not known here`);
    return codec.apply(base, delta, octetsMax);
  }
}

/** Aligned hunks: copy from the base, insert, and go on. */
export function hunk(base: Uint8Array, delta: Uint8Array, octetsMax: number): Uint8Array {
  const from = new Cursor(base);
  const hunks = new Cursor(delta);
  const parts: Uint8Array[] = [];
  let length = 0;
  const push = (part: Uint8Array) => {
    length += part.length;
    if (length > octetsMax) throw new Broken(`a value of more than ${octetsMax} octets`);
    parts.push(part);
  };
  while (!hunks.isEmpty) {
    const first = hunks.varint();
    const ins = hunks.length();
    const gone = first & 1n ? hunks.length() : ins;
    push(from.take(Number(first >> 1n)));
    push(hunks.take(ins));
    from.take(gone);
  }
  push(from.rest());
  const value = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    value.set(part, at);
    at += part.length;
  }
  return value;
}

/** Equal octets between two runs that are not worth a hunk of their own. */
const GAP = 4;

/** The hunks that make a value of a base: place by place where both are equally long, one hunk otherwise. */
export function hunkOf(base: Uint8Array, value: Uint8Array): number[] {
  const out: number[] = [];
  if (base.length !== value.length) {
    const shorter = Math.min(base.length, value.length);
    let head = 0;
    while (head < shorter && base[head] === value[head]) head += 1;
    let tail = 0;
    while (tail < shorter - head && base[base.length - 1 - tail] === value[value.length - 1 - tail]) tail += 1;
    const ins = value.subarray(head, value.length - tail);
    putVarint(out, (BigInt(head) << 1n) | 1n);
    putVarint(out, BigInt(ins.length));
    putVarint(out, BigInt(base.length - head - tail));
    for (const octet of ins) out.push(octet);
    return out;
  }
  let done = 0;
  for (let at = 0; at < value.length; at += 1) {
    if (base[at] === value[at]) continue;
    let end = at + 1;
    for (let look = end; look < value.length && look - end < GAP; look += 1) if (base[look] !== value[look]) end = look + 1;
    putVarint(out, BigInt(at - done) << 1n);
    putVarint(out, BigInt(end - at));
    for (const octet of value.subarray(at, end)) out.push(octet);
    done = end;
    at = end - 1;
  }
  return out;
}
