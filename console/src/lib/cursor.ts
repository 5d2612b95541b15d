// A cursor that keys move in a list.

/** Where a key moves the cursor of a list of `count` rows; null where it is not one of those that do. */
export function moved(key: string, cursor: number, count: number): number | null {
  const moves = new Map([['ArrowDown', cursor + 1], ['ArrowUp', cursor - 1], ['Home', 0], ['End', count - 1]]);
  const to = moves.get(key);
  return to === undefined ? null : Math.max(0, Math.min(count - 1, to));
}
