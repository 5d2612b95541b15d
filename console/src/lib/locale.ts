// How numbers and dates read in the language of the console. English keeps the point and the order of ISO 8601.

/** The region of the browser counts where its language is the one of the console. */
export const LOCALE = LANG === 'en' ? 'en' : (navigator.languages.find((tag) => tag.slice(0, 2) === LANG) ?? LANG);

/** The sign before the fraction. */
export const decimalOf = (locale: string): string => new Intl.NumberFormat(locale).format(1.5).charAt(1);
/** Days with ten characters, in UTC. */
export const daysOf = (locale: string) => new Intl.DateTimeFormat(locale, { year: 'numeric', month: '2-digit', day: '2-digit', timeZone: 'UTC' });

const DECIMAL = LANG === 'en' ? '.' : decimalOf(LOCALE);
const DAYS = LANG === 'en' ? null : daysOf(LOCALE);

/** A number in the text of a program, as people read it. */
export const decimal = (text: string): string => (LANG === 'en' ? text : text.replace('.', DECIMAL));
/** What people typed as a number, as programs read it: the comma of their language is a point. */
export const typed = (text: string): string => (LANG !== 'en' && DECIMAL === ',' && /^[+-]?\d+,\d+$/.test(text) ? text.replace(',', '.') : text);
/** The day of the UTC fields of a date. */
export const dayText = (date: Date): string => (LANG === 'en' ? date.toISOString().slice(0, 10) : DAYS!.format(date));
