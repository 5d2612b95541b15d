// What the build puts texts in place of: ../lang.ts.

/** A text of the console, in English; `{name}` stands for a value. */
declare function t(text: string, values?: Record<string, unknown>): string;
/** A text of a count `{n}`: that for one, and that for others. */
declare function plural(n: number, one: string, other: string, values?: Record<string, unknown>): string;
/** The language of this build. */
declare const LANG: 'en' | 'de' | 'es' | 'pt';
/** The words of the node in it; none in English. */
declare const LANG_WORDS: Record<string, string>;
