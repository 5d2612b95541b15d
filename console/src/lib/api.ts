// The node's public HTTP interface, as the console uses it: types and calls.

import type { AlarmCounts } from './alarms';

export type Quality = 'good' | 'uncertain' | 'bad';

/** What is shown of a value or a group: `none` where nothing is said of it, `unknown` where the console does not know. */
export type Grade = Quality | 'none' | 'unknown';

/** Values by quality, counted by the node. */
export interface Counts {
  good: number;
  uncertain: number;
  bad: number;
  /** Their publishers say nothing of their quality. */
  unstated: number;
  total: number;
}

/** What a counts event of the live stream says; of the groups those that have changed. */
export interface CountsUpdate {
  /** False while not everything is counted. */
  complete: boolean;
  /** Null where the node keeps no counts for this reader. */
  total: Counts | null;
  groups: Record<string, Counts>;
}

/** Who is logged in, and what that user may see. */
export interface Me {
  /** Null where the node asks nobody who they are. */
  user: string | null;
  roles: string[];
  /** Whether it came in by a login, which can be ended. */
  login?: boolean;
  may?: { topics: boolean; system: boolean; status: boolean; sessions: boolean; busiest: boolean; audit: boolean; edits: boolean; users?: boolean; administer_users?: boolean; edit_boards?: boolean };
}

/** One value of one point, as in a topic's payload. */
export interface PointValue {
  v: unknown;
  q: Quality;
  why?: string[];
  t: string;
}

/** A topic's new state on the live stream. */
export interface TopicUpdate {
  topic: string;
  kind: 'point' | 'json' | 'text' | 'binary';
  value: unknown;
  /** Absent on an edge whose upstream does not tell it. */
  seq?: number;
  updated?: string;
}

export interface Status {
  name: string;
  version: string;
  time: string;
  started: string;
  http: string;
  mqtt: string;
  uptime_s: number;
  topics: number;
  points: number;
  sessions: number;
  subscriptions: number;
  devices: { total: number; online: number };
  updates_per_s: number;
  history: {
    state: 'ok' | 'catching_up' | 'disk_full' | 'hung' | 'failed' | 'off';
    detail?: string | null;
    backlog?: number;
    stored?: number;
  };
  /** Only of an edge, a site or a centre. */
  edge?: { upstream: string; state: string; why?: string };
  site?: Link & { name: string; lag_s: number; waiting: number; lost: number };
  centre?: Link & { sites: number; away: number };
  /** Only in a core with standbys. */
  cluster?: Cluster;
}

/** The part of a node in a core with standbys. */
export interface Cluster {
  cluster: string;
  node: string;
  role: string;
  term: number;
  /** Absent where none is heard. */
  leader?: string;
  /** Messages of the log that this node does not have. */
  lag: number;
  /** All members that were heard since the start of this node; none of older nodes. */
  members?: ClusterMember[];
  /** What a person has to see to. */
  trouble: string;
}

/** A member of a core, as this node heard it. */
export interface ClusterMember {
  name: string;
  /** `unknown` where it was not heard for 5 s. */
  role: string;
  term: number;
  /** Messages of the log that it does not have; absent where that is not known. */
  lag?: number;
  /** Age in seconds of the oldest of them; absent where that is not known. */
  behind_s?: number;
  heard_s: number;
}

/** A link between nodes. */
export interface Link {
  state: 'connecting' | 'up' | 'away';
  why: string;
  since: string;
}

/** A site whose history comes to this node. */
export interface Site {
  name: string;
  state: 'up' | 'away';
  since: string;
  /** Age of the first record that waits there. */
  lag_s: number;
  waiting: number;
  lost: number;
  records: number;
  samples: number;
  /** Clock of the centre minus that of the site. */
  clock_offset_s?: number;
  /** When it was heard last; absent where it was not since the start. */
  heard?: string;
  /** Messages between sites on its link. */
  events?: { wanted: number; asked: number; waiting: number; sent: number; lost: number; received: number };
}

/** A single-line diagram or a board. */
export interface DrawingEntry {
  name: string;
  title: string;
  version: string;
}

export interface PointMeta {
  topic: string;
  name: string;
  type: string;
  index: number;
  unit?: string | null;
  writable: boolean;
  /** Whether who is logged in may operate it. */
  may_command?: boolean;
  kind: 'bool' | 'int' | 'float' | 'text';
  description?: string | null;
  /** How the device is asked where a command does not say. */
  mode?: CommandMode;
  min?: number | null;
  max?: number | null;
  device?: string;
  /** The words for false and true. */
  states?: [string, string] | null;
}

export type CommandMode = 'select' | 'direct';

export type DeviceState = 'connecting' | 'online' | 'slow' | 'away' | 'garbage' | 'restarting';

export interface Device {
  topic: string;
  protocol: string;
  address: string;
  state: DeviceState;
  since?: string | null;
  last_seen?: string | null;
  points: number | PointMeta[];
  /** Counters, and words such as `why`. */
  stats?: Record<string, number | string | null>;
}

/** An MQTT client that is connected. */
export interface Session {
  client: string;
  late_ms: number;
  waiting: number;
  waiting_bytes: number;
  blocked: boolean;
  deltas: boolean;
  subscriptions: number;
  messages_per_s: number;
  bytes_per_s: number;
  messages_out: number;
  bytes_out: number;
  conflated: number;
  dropped: number;
}

export type SessionOrder = 'lag' | 'waiting' | 'rate' | 'conflated' | 'dropped' | 'client';

export interface SessionsPage {
  sessions: Session[];
  connected: number;
  away: number;
}

/** A topic with many updates. */
export interface BusyTopic {
  topic: string;
  updates_per_s: number;
  bytes_per_s: number;
}

export interface HistoryRow {
  topic?: string;
  t: string;
  v: unknown;
  q?: Quality;
  why?: string[];
  count?: number;
  /** The edit that changed it last. */
  edited?: number;
}

export type EditKind = 'value' | 'quality' | 'exclude' | 'insert' | 'annotation';

/** An edit of recorded values, or an annotation. */
export interface HistoryEdit {
  id: number;
  topic: string;
  kind: EditKind;
  from: string;
  to: string;
  v?: unknown;
  q?: Quality;
  text?: string;
  who: string;
  time: string;
  why: string;
  erased?: boolean;
}

/** An edit that is to be made: of an instant, or from and to. */
export interface EditGiven {
  topic: string;
  kind: EditKind;
  at?: string;
  from?: string;
  to?: string;
  v?: unknown;
  q?: string;
  text?: string;
  why: string;
}

export interface CommandResult {
  /** Unknown: the command was sent, but nobody knows what became of it. */
  status: 'success' | 'refused' | 'unknown';
  elapsed_ms?: number;
  reason?: string;
  detail?: string;
}

/** A reservation of devices. */
export interface Reservation {
  task: string;
  requester: string;
  priority: string;
  slots: { device: string; start: string; end: string; current: boolean }[];
  /** When a pre-empted one ends. */
  grace_end: string | null;
  /** The seconds that its requester may make no call, and when it ends if it makes none. */
  lease_s: number | null;
  lease_end: string | null;
  /** Whether who is logged in may end it. */
  may_end?: boolean;
}

/** Devices and points that are taken from all programs. */
export interface Override {
  pattern: string;
  until: string | null;
  who: string;
  /** As of a reservation, where it was asked for. */
  may_end?: boolean;
}

/** What is not to be operated, and why. */
export interface Tag {
  id: number;
  topic: string;
  kind: 'hold' | 'do_not_operate' | 'note';
  why: string;
  owner: string;
  placed: string;
  /** Whether who is logged in may lift it, where it was asked for. */
  may_lift?: boolean;
}

export interface AuditEntry {
  id: number | string;
  time: string;
  who: string;
  topic: string;
  value: unknown;
  mode: string;
  phase: string;
  reason?: string | null;
  detail?: string | null;
}

/** A call that got no usable answer. `status` is 0 when the node was not reached. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

type Query = Record<string, string | number | readonly string[] | null | undefined>;

const CALL_MS_MAX = 15_000;
const JSON_TYPE = { 'content-type': 'application/json' };
/** What is asked again and again must not wait for an answer that is of no use any more. */
const POLL_MS_MAX = 5_000;

/** A topic in a path keeps its slashes; every level is escaped. */
export function topicPath(topic: string): string {
  return topic.split('/').map(encodeURIComponent).join('/');
}

export function url(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value === null || value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [value]) params.append(key, String(one));
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

export async function get<T>(path: string, query?: Query, ms = CALL_MS_MAX): Promise<T> {
  const response = await reach(url(path, query), { signal: AbortSignal.timeout(ms) });
  if (!response.ok) throw new ApiError(response.status, await problem(response));
  return (await response.json()) as T;
}

/** Posts a change, which is carried out or refused as a whole. */
export async function post(path: string, body: object): Promise<Response> {
  const init = { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body), signal: AbortSignal.timeout(CALL_MS_MAX) };
  const response = await reach(path, init);
  if (!response.ok) throw new ApiError(response.status, await problem(response));
  return response;
}

/** What is done when the node asks who one is: a login has ended. */
export const onLoginEnded = { call: () => {} };

async function reach(target: string, init: RequestInit): Promise<Response> {
  try {
    const response = await fetch(target, init);
    if (response.status === 401) onLoginEnded.call();
    return response;
  } catch (cause) {
    const late = cause instanceof DOMException && cause.name === 'TimeoutError';
    throw new ApiError(0, late ? t('the node did not answer in time') : t('the node cannot be reached'));
  }
}

/** What the node says is wrong, in words. */
export async function problem(response: Response): Promise<string> {
  try {
    const body = (await response.json()) as { title?: string; detail?: string };
    return body.detail ?? body.title ?? t('the node answered HTTP {status}', { status: response.status });
  } catch {
    return t('the node answered HTTP {status}', { status: response.status });
  }
}

/** Whether a refusal came after the command was sent, so that the device may have carried it out. */
export function isUnknown({ reason = '', detail = '' }: { reason?: string; detail?: string }): boolean {
  if (/may have been carried out/.test(detail)) return true;
  return /^(timeout|connection_lost|lost)$/.test(reason) && !/nothing was sent/.test(detail);
}

export interface DevicesPage {
  devices: Device[];
  /** Absent at nodes that list all. */
  total?: number;
}

export interface SitesPage {
  sites: Site[];
  /** Absent at nodes that list all. */
  total?: number;
  away?: number;
}

export interface HistoryQuery {
  topic: string | readonly string[];
  from: string;
  to: string;
  every?: string | null;
  agg?: string;
  order?: string;
  after?: string;
  limit: number;
  raw?: string;
}

export interface TopicsPage {
  topics: TopicUpdate[];
  next: string | null;
}

/** The list that the answer of a route has under the name of the route. */
const listOf = async <T>(name: string, topic?: string, rights?: string) =>
  (await get<Record<string, T[]>>(`/v1/${name}`, { topic, rights }, POLL_MS_MAX))[name]!;

export const api = {
  me: () => get<Me>('/v1/me', {}, POLL_MS_MAX),
  status: () => get<Status>('/v1/status', {}, POLL_MS_MAX),
  topics: (filter: string, after: string | null) =>
    get<TopicsPage>('/v1/topics', { filter, after, limit: 1000 }),
  /** All devices, or so many of the worst. */
  devices: (worst?: number) => get<DevicesPage>('/v1/devices', worst ? { order: 'worst', limit: worst } : {}, POLL_MS_MAX),
  device: (topic: string) => get<Device>(`/v1/devices/${topicPath(topic)}`),
  points: (filter: string, after: string | null) =>
    get<{ points: PointMeta[]; next: string | null }>('/v1/points', { filter, after, limit: 1000 }),
  sessions: (order: SessionOrder, client: string, limit: number) =>
    get<SessionsPage>('/v1/sessions', { order, client: client || null, limit }, POLL_MS_MAX),
  busiest: (limit: number) => get<{ window_s: number; topics: BusyTopic[] }>('/v1/busiest', { limit }, POLL_MS_MAX),
  history: (query: HistoryQuery) => get<HistoryRow[]>('/v1/history', { ...query, format: 'json' }),
  edits: (topic: string, from: string, to: string) =>
    get<{ edits: HistoryEdit[]; next: number | null }>('/v1/history/edits', { topic, from, to, active: 'true', limit: 50 }),
  edit: (given: EditGiven) => post('/v1/history/edits', given),
  undoEdit: (id: number, why: string) => post(`/v1/history/edits/${id}/undo`, { why }),
  drawings: (kind: 'diagrams' | 'boards') => listOf<DrawingEntry>(kind),
  alarmCounts: () => get<AlarmCounts>('/v1/alarms/counts', {}, POLL_MS_MAX),
  sites: (limit: number) => get<SitesPage>('/v1/sites', { order: 'worst', limit }, POLL_MS_MAX),
  audit: async (topic: string, limit: number) =>
    (await get<{ entries: AuditEntry[] }>('/v1/audit', { topic, limit })).entries,

  reservations: (topic?: string) => listOf<Reservation>('reservations', topic),
  overrides: (topic?: string, rights?: string) => listOf<Override>('overrides', topic, rights),
  tags: (topic?: string, rights?: string) => listOf<Tag>('tags', topic, rights),

  /** Ends a reservation or an override, places or lifts a tag; why not, where that failed. */
  async end(path: string, body: object): Promise<string> {
    const init = { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body), signal: AbortSignal.timeout(CALL_MS_MAX) };
    const said = (await (await reach(path, init)).json()) as Record<string, string>;
    return said.result === 'SUCCESS' || said.status === 'success' ? '' : (said.info ?? said.detail ?? said.title);
  },

  /** Ends the login of this browser; where it goes on: the login page, or the end of the provider's session. */
  async logout(): Promise<string> {
    const init = { method: 'POST', headers: { accept: 'application/json' }, signal: AbortSignal.timeout(POLL_MS_MAX) };
    const { to } = (await (await reach('/logout', init)).json()) as { to: string };
    return /^(\/login$|https?:\/\/)/.test(to) ? to : '/login';
  },

  /** Sends a command. A refusal is a result; an ApiError means that the outcome is not known. */
  async command(topic: string, value: boolean | number, mode: string, timeout_ms: number): Promise<CommandResult> {
    const response = await reach('/v1/command', {
      method: 'POST',
      headers: JSON_TYPE,
      body: JSON.stringify({ topic, value, mode, timeout_ms }),
      signal: AbortSignal.timeout(timeout_ms + 5_000),
    });
    let body: Partial<CommandResult> & { title?: string };
    try {
      body = (await response.json()) as typeof body;
    } catch {
      throw new ApiError(response.status, t('the node answered HTTP {status} without a result', { status: response.status }));
    }
    if (response.ok && body.status === 'success') return { ...body, status: 'success' };
    if (body.status === 'unknown') return { ...body, status: 'unknown' };
    if (body.status === 'refused') return { ...body, status: isUnknown(body) ? 'unknown' : 'refused' };
    if (response.status >= 400 && response.status < 500) {
      return { status: 'refused', reason: body.title ?? `http_${response.status}`, detail: body.detail };
    }
    throw new ApiError(response.status, body.detail ?? body.title ?? `HTTP ${response.status}`);
  },
};
