// What a wait says: no wait goes on without a word about what is the matter and what to do.

import type { Link } from './live';

/** After this a wait is no longer only a wait. */
export const PATIENCE_MS = 5_000;

/** The words of a wait for something that has gone on for some time; `host` is where the node should be. */
export function waitingText(what: string, waitedMs: number, error: string, link: Link, host: string): string {
  if (link.state === 'login') return t('■ {what}: you are not logged in. Log in to see it.', { what });
  if (error !== '') return t('■ {what}: {error}. The console asks again by itself.', { what, error });
  if (waitedMs < PATIENCE_MS) return t('Waiting for the node: {what}…', { what: LANG === 'en' ? what.toLowerCase() : what.charAt(0).toLowerCase() + what.slice(1) });
  const why = link.reason || (link.state === 'live' ? t('it has not answered this') : t('it has not answered'));
  const todo = link.state === 'live' ? t('Reload the page; if that does not help, look at the log of the node.')
    : t('See whether the node runs, and whether {host} can be reached from here. The console asks again by itself.', { host });
  return t('■ {what}: no answer for {seconds} s: {why}. {todo}', { what, seconds: Math.floor(waitedMs / 1000), why, todo });
}
