// What a wait says: no wait goes on without a word about what is the matter and what to do.

import type { Link } from './live';

/** After this a wait is no longer only a wait. */
export const PATIENCE_MS = 5_000;

/** The words of a wait for something that has gone on for some time; `host` is where the node should be. */
export function waitingText(what: string, waitedMs: number, error: string, link: Link, host: string): string {
  if (link.state === 'login') return `■ ${what}: you are not logged in. Log in to see it.`;
  if (error !== '') return `■ ${what}: ${error}. The console asks again by itself.`;
  if (waitedMs < PATIENCE_MS) return `Waiting for the node: ${what.toLowerCase()}…`;
  const why = link.reason || (link.state === 'live' ? 'it has not answered this' : 'it has not answered');
  const todo = link.state === 'live' ? 'Reload the page; if that does not help, look at the log of the node.'
    : `See whether the node runs, and whether ${host} can be reached from here. The console asks again by itself.`;
  return `■ ${what}: no answer for ${Math.floor(waitedMs / 1000)} s: ${why}. ${todo}`;
}
