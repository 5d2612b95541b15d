// Which topics a text in the filter box selects: an MQTT filter when it holds a wildcard, else words to find.

/** Why a text is not an MQTT filter (MQTT 5.0 section 4.7), or null when it is one. */
export function filterError(filter: string): string | null {
  if (filter === '') return t('a filter is empty');
  const levels = filter.split('/');
  for (const [i, level] of levels.entries()) {
    if (level.includes('#') && (level !== '#' || i !== levels.length - 1)) {
      return t('# must be the whole last level, as in site/#');
    }
    if (level.includes('+') && level !== '+') return t('+ must be a whole level, as in site/+/state');
  }
  return null;
}

/** Whether an MQTT filter selects a topic; a wildcard in the first level selects no $ topic (MQTT-4.7.2-1). */
export function filterMatches(filter: string, topic: string): boolean {
  if (topic.startsWith('$') && (filter.startsWith('+') || filter.startsWith('#'))) return false;
  const wanted = filter.split('/');
  const found = topic.split('/');
  for (const [i, level] of wanted.entries()) {
    if (level === '#') return true;
    if (i >= found.length || (level !== '+' && level !== found[i])) return false;
  }
  return wanted.length === found.length;
}

export interface Matcher {
  /** Null when everything is selected. */
  test: ((topic: string) => boolean) | null;
  /** What is wrong with the text, for the user. */
  error: string | null;
}

/** Reads the filter box. Words are found anywhere in the topic, in any case, and all must be there. */
export function matcher(text: string): Matcher {
  const trimmed = text.trim();
  if (trimmed === '' || trimmed === '#') return { test: null, error: null };
  if (/[+#]/.test(trimmed)) {
    const error = filterError(trimmed);
    return error ? { test: null, error } : { test: (topic) => filterMatches(trimmed, topic), error: null };
  }
  const words = trimmed.toLowerCase().split(/\s+/);
  return {
    test: (topic) => {
      const low = topic.toLowerCase();
      return words.every((word) => low.includes(word));
    },
    error: null,
  };
}
