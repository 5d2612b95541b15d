// Users, roles and logins, as administrators see and change them.

import { get, post } from './api';

export interface User {
  user: string;
  roles: string[];
  disabled: boolean;
  by: 'password' | 'certificate' | 'token';
  /** Null where it has not logged in since the node started. */
  last_login: string | null;
}

export interface Role {
  role: string;
  built_in: boolean;
  rules: string[];
}

export interface Login {
  user: string;
  by: 'password' | 'provider';
  last_used: string;
  expires: string;
  /** Whether it is the one of this browser. */
  own: boolean;
}

export interface Why {
  user: string;
  topic: string;
  right: string;
  reach: 'all' | 'some' | 'nothing';
  rules: { role: string; rule: string; is: string }[];
  conclusion: string;
}

export const RIGHTS = ['read', 'publish', 'command', 'acknowledge', 'admin'] as const;

/** What is asked of a person before a user is changed. */
export type ChangeKind = 'add' | 'roles' | 'password' | 'disable' | 'enable' | 'remove';

/** Whether a user may do something, as a sentence. */
export function whyText({ user, topic, right, reach, conclusion }: Why): string {
  const may = { all: t('may'), some: t('may in part'), nothing: t('may not') }[reach];
  return `${user} ${may} ${right} ${topic}: ${conclusion}.`;
}

/** Users whose name or roles hold what is typed. */
export function matching(users: readonly User[], text: string): User[] {
  const wanted = text.trim().toLowerCase();
  return users.filter(({ user, roles }) => [user, ...roles].some((word) => word.toLowerCase().includes(wanted)));
}

const LISTED_MAX = 10_000;

export const admin = {
  users: () => get<{ users: User[]; count: number }>('/v1/access/users', { limit: LISTED_MAX }),
  roles: async () => (await get<{ roles: Role[] }>('/v1/access/roles')).roles,
  logins: async () => (await get<{ logins: Login[] }>('/v1/logins', { limit: LISTED_MAX })).logins,
  why: (user: string, topic: string, right: string) => get<Why>('/v1/access/why', { user, topic, right }),
  change: (kind: ChangeKind, body: { user: string; roles?: string[]; password?: string }) =>
    post(kind === 'add' ? '/v1/access/users' : `/v1/access/users/${kind}`, body),
  endLogins: (user: string) => post('/v1/logins/end', { user }),
  endOtherLogins: () => post('/v1/logins/end-others', {}),
};
