// The language of the console, as it is chosen; boot.mjs reads it before anything else is loaded.

import { recalled, remember } from './settings';

/** By their codes, each in itself. */
export const LANGUAGES = [['en', 'English'], ['de', 'Deutsch'], ['pt', 'Português (Brasil)'], ['es', 'Español']] as const;
const KEY = 'tieline.lang';

/** Empty where the browser decides. */
export const chosenLanguage = (): string => String(recalled(KEY) ?? '');

/** Loads the page in another language, or in that of the browser. */
export function chooseLanguage(code: string): void {
  remember(KEY, code || null);
  const url = new URL(location.href);
  url.searchParams.delete('lang');
  history.replaceState(null, '', url);
  location.reload();
}
