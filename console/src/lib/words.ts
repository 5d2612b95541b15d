// The words with which the node names states, kinds and reasons, as they are shown.

const KNOWN = LANG === 'en' ? null : new Map(Object.entries(LANG_WORDS));

/** A word of the node in the language of the console, where it has it; else as it is, with spaces. */
export const words = (word: string): string => KNOWN?.get(word) ?? word.replaceAll('_', ' ');
