import { expect, test } from 'vitest';
import { matching, type User, whyText } from '../../src/lib/admin';

test('a decision is said as a sentence', () => {
  const check = (reach: 'all' | 'some' | 'nothing', expected: string) =>
    expect(whyText({ user: 'anna', topic: 'site/#', right: 'read', reach, rules: [], conclusion: 'so it is' })).toBe(expected);
  check('all', 'anna may read site/#: so it is.');
  check('some', 'anna may in part read site/#: so it is.');
  check('nothing', 'anna may not read site/#: so it is.');
});

test('users are found by their name and their roles', () => {
  const user = (name: string, ...roles: string[]): User => ({ user: name, roles, disabled: false, by: 'password', last_login: null });
  const all = [user('anna', 'VIEWER'), user('ben', 'works', 'SECADM')];
  const check = (text: string, expected: string[]) => expect(matching(all, text).map((one) => one.user)).toEqual(expected);
  check('', ['anna', 'ben']);
  check(' NN', ['anna']);
  check('sec', ['ben']);
  check('nobody', []);
});
