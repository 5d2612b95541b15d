/** Reading bytes: every reader throws `Broken` where they end or say too much. */

/** A payload that cannot be applied; the topic's value is unknown. */
export class Broken extends Error {}

const U64_MAX = (1n << 64n) - 1n;
/** Bytes of a varint that a number holds exactly. */
const SMALL_SHIFT_MAX = 42;

/** A reader that moves over bytes. */
export class Cursor {
  private at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  get isEmpty(): boolean {
    return this.at >= this.bytes.length;
  }

  u8(): number {
    const byte = this.bytes[this.at];
    if (byte === undefined) throw new Broken("it ends too early");
    this.at += 1;
    return byte;
  }

  take(count: number): Uint8Array {
    if (count > this.bytes.length - this.at) throw new Broken("it ends too early");
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }

  rest(): Uint8Array {
    return this.bytes.subarray(this.at);
  }

  /** An unsigned integer of up to 64 bits. */
  varint(): bigint {
    const from = this.at;
    let value = 0;
    for (let shift = 0; shift <= SMALL_SHIFT_MAX; shift += 7) {
      const byte = this.u8();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return BigInt(value);
    }
    this.at = from;
    let long = 0n;
    for (let shift = 0n; shift <= 63n; shift += 7n) {
      const byte = this.u8();
      long |= BigInt(byte & 0x7f) << shift;
      if (long > U64_MAX) break;
      if (byte < 0x80) return long;
    }
    throw new Broken("an integer of more than 64 bits");
  }

  /** A count of bytes. */
  length(): number {
    const count = this.varint();
    if (count > BigInt(Number.MAX_SAFE_INTEGER)) throw new Broken("it ends too early");
    return Number(count);
  }

  /** A signed integer. */
  signed(): bigint {
    return unzigzag(this.varint());
  }
}

export function unzigzag(value: bigint): bigint {
  return (value >> 1n) ^ -(value & 1n);
}

export function zigzag(value: bigint): bigint {
  return BigInt.asUintN(64, (value << 1n) ^ (value >> 63n));
}

/** Appends a varint. */
export function putVarint(out: number[], value: bigint): void {
  while (value > 0x7fn) {
    out.push(Number(value & 0x7fn) | 0x80);
    value >>= 7n;
  }
  out.push(Number(value));
}

const TABLE = Uint32Array.from({ length: 256 }, (_, start) => {
  let crc = start;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});

/** CRC-32 (ISO-HDLC). */
export function crc32(bytes: Uint8Array | readonly number[]): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ (TABLE[(crc ^ byte) & 0xff] ?? 0);
  return (crc ^ 0xffffffff) >>> 0;
}
