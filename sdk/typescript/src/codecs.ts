/** The codecs for bytes. */

import { Broken, Cursor } from "./bytes.js";

/** Makes a value of a base, a delta and the most bytes that it may have; throws `Broken`. */
export type Apply = (base: Uint8Array, delta: Uint8Array, bytesMax: number) => Uint8Array;

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
  apply(number: number, base: Uint8Array, delta: Uint8Array, bytesMax: number): Uint8Array {
    const codec = this.known.get(number);
    if (!codec) throw new Broken(`codec ${number} is not known here`);
    return codec.apply(base, delta, bytesMax);
  }
}

/** Aligned hunks: copy from the base, insert, and go on. */
export function hunk(base: Uint8Array, delta: Uint8Array, bytesMax: number): Uint8Array {
  const from = new Cursor(base);
  const hunks = new Cursor(delta);
  const parts: Uint8Array[] = [];
  let length = 0;
  const push = (part: Uint8Array) => {
    length += part.length;
    if (length > bytesMax) throw new Broken(`a value of more than ${bytesMax} bytes`);
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
