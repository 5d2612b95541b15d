// The last values of one topic, for its sparkline.

/** How many values a sparkline remembers. The oldest is dropped. */
export const RING_VALUES = 60;

/** A ring of the last 60 numbers. */
export class Ring {
  private readonly cells = new Float64Array(RING_VALUES);
  private next = 0;
  length = 0;

  push(x: number): void {
    this.cells[this.next] = x;
    this.next = (this.next + 1) % RING_VALUES;
    this.length = Math.min(this.length + 1, RING_VALUES);
  }

  /** The value at a position, 0 being the oldest. */
  at(i: number): number {
    return this.cells[(this.next - this.length + i + RING_VALUES) % RING_VALUES] ?? NaN;
  }
}

/**
 * The SVG path of a ring in a box, newest value at the right edge; empty below two values.
 * A flat line lies in the middle. Steps hold each value until the next.
 */
export function sparkPath(ring: Ring, width: number, height: number, stepped: boolean): string {
  if (ring.length < 2) return '';
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < ring.length; i++) {
    const x = ring.at(i);
    if (Number.isFinite(x)) [low, high] = [Math.min(low, x), Math.max(high, x)];
  }
  const y = (x: number) => (high > low ? height - 1 - ((x - low) / (high - low)) * (height - 2) : height / 2);
  const dx = width / (RING_VALUES - 1);
  let path = '';
  for (let i = 0; i < ring.length; i++) {
    const value = ring.at(i);
    if (!Number.isFinite(value)) continue;
    const at = (width - (ring.length - 1 - i) * dx).toFixed(1);
    const level = y(value).toFixed(1);
    if (path === '') path = `M${at} ${level}`;
    else path += stepped ? `H${at}V${level}` : `L${at} ${level}`;
  }
  return path;
}
