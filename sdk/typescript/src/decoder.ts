/** The receiver's side of one topic. */

import type { Codecs } from "./codecs.js";
import { Broken, Cursor, crc32 } from "./bytes.js";
import { type Point, State } from "./point.js";

const POINT = 2;

/**
 * What a payload was: the topic's next value, `"checked"` (the sender says that the value held is the present one), or
 * `"waiting"` (a delta from a value that was lost: dropped).
 */
export type Decoded = Point | Uint8Array | "checked" | "waiting";

/** The value that the next delta is told against. It belongs to one connection. */
export class Decoder {
  private held: State | Uint8Array | undefined;
  private revision = 0;
  private waits = false;

  constructor(
    private readonly codecs: Codecs,
    private readonly bytesMax = 16 << 20,
  ) {}

  /** Whether a whole value must come before anything else is understood. */
  get isWaiting(): boolean {
    return this.waits;
  }

  /** Takes a payload; throws `Broken` where it cannot be applied: then the whole value is to be asked for, once. */
  apply(payload: Uint8Array): Decoded {
    const first = payload[0];
    if (first === undefined) {
      this.held = undefined;
      this.waits = false;
      return new Uint8Array();
    }
    if (this.waits && first >> 5 > 1) return "waiting";
    try {
      return this.take(new Cursor(payload));
    } catch (error) {
      this.waits = true;
      throw error;
    }
  }

  private take(cursor: Cursor): Decoded {
    const first = cursor.u8();
    const kind = first >> 5;
    const revision = first & 31;
    let held: State | Uint8Array;
    let count = 0;
    if (kind < 2) {
      held = this.whole(kind, cursor.rest());
    } else {
      const codec = kind === 7 ? cursor.u8() : kind;
      if (kind === 7 && (codec < 8 || codec > 15)) throw new Broken("not a codec's number");
      count = kind === 6 ? cursor.u8() : 1;
      if (count > 31) throw new Broken("more than 31 updates at once");
      const isChecked = count === 0 || (revision + count) % 32 === 0;
      const crc = isChecked ? cursor.take(4) : undefined;
      held = this.next(kind, codec, revision, count, cursor);
      if (crc && new DataView(crc.buffer, crc.byteOffset).getUint32(0, true) !== crcOf(held)) {
        throw new Broken("the value's CRC-32 is not the sender's");
      }
    }
    this.held = held;
    this.revision = (revision + count) % 32;
    this.waits = false;
    if (kind === 6 && count === 0) return "checked";
    return held instanceof State ? held.toPoint() : held;
  }

  private whole(kind: number, bytes: Uint8Array): State | Uint8Array {
    if (kind === 1) return State.parse(bytes, this.bytesMax);
    if (bytes.length > this.bytesMax) throw new Broken(`a value of more than ${this.bytesMax} bytes`);
    // The library may use the packet's memory again.
    return bytes.slice();
  }

  private next(kind: number, codec: number, revision: number, count: number, cursor: Cursor): State | Uint8Array {
    let { held } = this;
    if (held === undefined) throw new Broken("a delta before any whole value");
    if (revision !== this.revision) {
      throw new Broken(`a delta from revision ${revision} while revision ${this.revision} is held`);
    }
    if (kind === 5) {
      if (!cursor.isEmpty) throw new Broken("bytes after a repeated value");
      return held;
    }
    if (kind !== 6) return this.delta(held, codec, cursor.rest());
    for (let items = 0; !cursor.isEmpty; items++) {
      if (items === count) throw new Broken("more deltas than updates");
      const item = cursor.u8();
      held = this.delta(held, item, cursor.take(cursor.length()));
    }
    return held;
  }

  private delta(held: State | Uint8Array, codec: number, delta: Uint8Array): State | Uint8Array {
    if (held instanceof State !== (codec === POINT)) throw new Broken("a delta for a value of another form");
    if (held instanceof State) return held.apply(delta, this.bytesMax);
    return this.codecs.apply(codec, held, delta, this.bytesMax);
  }
}

function crcOf(held: State | Uint8Array): number {
  return crc32(held instanceof State ? held.emit() : held);
}
