// What the browser remembers of a user's choices.

/** Storage may be forbidden or full; the console works without. */
export function remember(key: string, value: unknown): void {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    return;
  }
}

/** What was remembered; null where nothing was. */
export function recalled(key: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(key) ?? 'null');
  } catch {
    return null;
  }
}
