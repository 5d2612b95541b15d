import { expect, test } from 'vitest';
import { type Link } from '../../src/lib/live';
import { PATIENCE_MS, waitingText } from '../../src/lib/waiting';

const link = (state: Link['state'], reason = ''): Link => ({ state, reason, retryAt: 0 });

test('no wait goes on without a word about what is the matter and what to do', () => {
  expect(waitingText('The topics', 0, '', link('connecting'), 'h:1')).toBe('Waiting for the node: the topics…');
  for (const state of ['connecting', 'live', 'silent', 'reconnecting', 'login', 'refused'] as const) {
    const text = waitingText('The topics', PATIENCE_MS, '', link(state), 'h:1');
    expect(text, state).toMatch(/^■ The topics/);
    expect(text, state).toMatch(/Log in|See whether the node runs|Reload the page/);
  }
  expect(waitingText('The topics', 9_400, '', link('connecting', 'the node cannot be reached'), 'h:1'))
    .toContain('no answer for 9 s: the node cannot be reached. See whether the node runs, and whether h:1 can be reached');
  // What is known at once is said at once.
  expect(waitingText('The list', 0, 'the user "anna" may not read it', link('live'), 'h:1')).toContain('"anna" may not read it');
});
