// How names are found by words: all words must be there; a name that begins with them, or a level that does, comes first.

/** How well a name fits; null where it does not. Smaller is better. */
export function fit(name: string, words: readonly string[]): number | null {
  const low = name.toLowerCase();
  const last = low.lastIndexOf('/') + 1;
  let sum = 0;
  for (const word of words) {
    const at = [low.indexOf(word, last), low.indexOf(word)].find((place) => place >= 0);
    if (at === undefined) return null;
    const [begins, ends] = [isEdge(low[at - 1]), isEdge(low[at + word.length])];
    sum += begins && ends ? (at >= last ? 0 : 1) : begins ? 2 : 4;
  }
  // Of equals the shorter is meant.
  return sum + name.length / 1_000;
}

const isEdge = (character: string | undefined) => character === undefined || !/[a-z0-9]/.test(character);

export function wordsOf(text: string): string[] {
  return text.trim().toLowerCase().split(/\s+/).filter(Boolean);
}

/** The names that fit best. */
export function rank(names: Iterable<string>, text: string, most: number): string[] {
  const words = wordsOf(text);
  const found: { name: string; fit: number }[] = [];
  for (const name of names) {
    const how = fit(name, words);
    if (how !== null) found.push({ name, fit: how });
  }
  return found.sort((a, b) => a.fit - b.fit || (a.name < b.name ? -1 : 1)).slice(0, most).map(({ name }) => name);
}
