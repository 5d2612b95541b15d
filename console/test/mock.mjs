// A stand-in for a node: the HTTP contract of the console over the moving substation of substation.mjs.
// `POST /mock {"history": "disk_full"} | {"device": T, "state": "away"} | {"device": T, "mute": true} | {"remove": T} |
// {"drop": true} | {"down": true} | {"frozen": true} | {"login": "who" or null} | {"may": {…}} | {"publish": {topic, kind, value}}` makes
// trouble; `POST /v1/reservations`, `/v1/overrides` and their ends are those of a node without users; frozen is a process that is stopped: connections stay, and nothing is said or answered.

import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { build, valueAt } from './substation.mjs';

const DIST = fileURLToPath(new URL('../dist/', import.meta.url));
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const STEP = { s: 1e3, m: 6e4, h: 36e5, d: 864e5 };
const iso = (ms) => new Date(ms).toISOString();

class Refused extends Error {
  constructor(http, reason, detail) {
    super(detail);
    Object.assign(this, { http, reason });
  }
}

class Node {
  topics = new Map();
  recorded = new Map();
  streams = new Set();
  audit = [];
  edits = [];
  sites = [];
  cluster = null;
  reservations = [];
  overrides = [];
  tags = [];
  history = { state: 'ok', detail: null };
  started = Date.now() - 7_432_000;
  updates = 0;
  rate = 0;
  dirty = new Set();
  cleared = new Set();
  down = false;
  frozen = false;
  /** Null where nobody is asked who they are; empty where nobody is logged in. */
  user = null;
  may = { topics: true, system: true, status: true, sessions: true, busiest: true, audit: true, edits: true, command: true };

  constructor(more) {
    this.devices = build(more);
    for (const device of this.devices) for (const p of device.points) this.renew(device, p, Date.now());
    this.timers = [setInterval(() => this.frozen || this.tick(), 100), setInterval(() => this.frozen || this.second(), 1000)];
  }

  put(topic, kind, value) {
    const entry = { topic, kind, value, seq: (this.topics.get(topic)?.seq ?? 0) + 1, updated: iso(Date.now()) };
    this.topics.set(topic, entry);
    this.dirty.add(topic);
    this.updates++;
    return entry;
  }

  /** A point that is cleared is out of service: its device says nothing of it any more. */
  clear(topic) {
    this.topics.delete(topic);
    this.cleared.add(topic);
  }

  renew(device, p, now) {
    const topic = `${device.topic}/${p.name}`;
    p.due = now + (p.period || 500);
    if (this.cleared.has(topic)) return;
    const away = device.state === 'away' || device.state === 'garbage';
    const old = this.topics.get(topic)?.value;
    const v = away && old ? old.v : valueAt(device, p, now);
    const value = away ? { v, q: 'bad', why: ['away'], t: old?.t ?? iso(now) }
      : device.state === 'slow' ? { v, q: 'uncertain', why: ['stale'], t: iso(now - 4000) }
      : { v, q: 'good', t: iso(now) };
    const { t: _a, ...before } = old ?? {};
    const { t: _b, ...after } = value;
    if (JSON.stringify(before) === JSON.stringify(after)) return;
    this.put(topic, 'point', value);
    const rows = this.recorded.get(topic) ?? [];
    rows.push({ ...value, t: iso(now) });
    this.recorded.set(topic, rows.slice(-5000));
  }

  tick() {
    const now = Date.now();
    for (const device of this.devices) {
      for (const p of device.points) if (now >= (p.due ?? 0)) this.renew(device, p, now);
    }
    const changed = [...this.dirty].map((topic) => this.topics.get(topic)).filter(Boolean);
    this.dirty.clear();
    for (const stream of this.streams) {
      const updates = changed.filter(({ topic }) => stream.filters.some((f) => matches(f, topic)));
      if (updates.length) send(stream, { updates });
      if (stream.groups) tellCounts(this, stream);
    }
  }

  second() {
    for (const stream of this.streams) beat(stream);
    this.rate = this.updates;
    this.updates = 0;
    for (const device of this.devices) {
      if (device.state !== 'away') device.polls++;
      this.put(`$SYS/devices/${device.topic}/state`, 'text', device.state);
      const all = Object.fromEntries(device.points.map((p) => [p.name, this.topics.get(`${device.topic}/${p.name}`)?.value]).filter(([, value]) => value));
      if (device.topic.startsWith('north/')) this.put(`${device.topic}/all`, 'json', all);
    }
  }

  setState(topic, state) {
    const device = this.devices.find((d) => d.topic === topic);
    if (!device) return;
    Object.assign(device, { state, since: Date.now(), seen: Date.now() });
    for (const p of device.points) this.renew(device, p, Date.now());
  }

  close() {
    this.timers.forEach(clearInterval);
  }
}

function send(stream, data, event = 'update') {
  stream.res.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
}

const beat = (stream) => send(stream, { time: iso(Date.now()), mono_ms: Math.round(performance.now()) }, 'beat');

/** An object of points is as good as its worst. */
function worst(value) {
  const all = Object.values(value ?? {}).map((point) => point?.q ?? 'unstated');
  return ['unstated', 'bad', 'uncertain', 'good'].find((q) => all.includes(q)) ?? 'unstated';
}

/** Counts by quality of all topics and of each branch, as `[path, counts]`. */
function census(node) {
  const fresh = () => ({ good: 0, uncertain: 0, bad: 0, unstated: 0, total: 0 });
  const [total, groups] = [fresh(), new Map()];
  for (const { topic, kind, value } of node.topics.values()) {
    if (topic.startsWith('$')) continue;
    const q = kind === 'point' ? value.q : kind === 'json' ? worst(value) : 'unstated';
    const add = (counts) => {
      counts[q]++;
      counts.total++;
    };
    add(total);
    for (let end = topic.indexOf('/'); end >= 0; end = topic.indexOf('/', end + 1)) {
      const path = topic.slice(0, end);
      if (!groups.has(path)) groups.set(path, fresh());
      add(groups.get(path));
    }
  }
  return { total, groups };
}

function tellCounts(node, stream) {
  const { total, groups } = census(node);
  const wanted = (path) => stream.groups.includes('#') || stream.groups.includes(path.slice(0, Math.max(0, path.lastIndexOf('/'))));
  const changed = {};
  for (const [path, counts] of groups) {
    if (!wanted(path) || stream.told.get(path) === JSON.stringify(counts)) continue;
    stream.told.set(path, JSON.stringify(counts));
    changed[path] = counts;
  }
  for (const path of stream.told.keys()) {
    if (path === '' || groups.has(path)) continue;
    stream.told.delete(path);
    changed[path] = { good: 0, uncertain: 0, bad: 0, unstated: 0, total: 0 };
  }
  if (Object.keys(changed).length === 0 && stream.told.get('') === JSON.stringify(total)) return;
  stream.told.set('', JSON.stringify(total));
  send(stream, { complete: true, total, groups: changed }, 'counts');
}

function matches(filter, topic) {
  if (topic.startsWith('$') && /^[+#]/.test(filter)) return false;
  const [wanted, found] = [filter.split('/'), topic.split('/')];
  for (const [i, level] of wanted.entries()) {
    if (level === '#') return true;
    if (i >= found.length || (level !== '+' && level !== found[i])) return false;
  }
  return wanted.length === found.length;
}

const meta = (device, p, may) => ({
  topic: `${device.topic}/${p.name}`, name: p.name, type: p.type, index: p.index, unit: p.unit, writable: p.writable, kind: p.kind,
  may_command: p.writable && may,
  min: p.min, max: p.max, mode: 'select', description: '',
});
const describe = (device, points) => ({
  topic: device.topic, protocol: 'dnp3', address: device.address, state: device.state, since: iso(device.since),
  last_seen: iso(['away'].includes(device.state) ? device.seen : Date.now() - 300), points,
  stats: {
    state: device.state, why: device.state === 'away' ? 'connection refused' : '', since: iso(device.since),
    rtt_ms: device.state === 'slow' ? 812.4 : 1.8 + (device.polls % 7) / 10,
    polls: device.polls, poll_failures: device.state === 'away' ? 7 : 0, timeouts: device.state === 'away' ? 7 : 0, polls_skipped: 0,
    readings: 6 * device.polls, events: 5 * device.polls, unknown_readings: 0, garbage: device.state === 'garbage' ? 311 : 0,
    restarts: 0, connects: 1, losses: device.state === 'away' ? 1 : 0,
  },
});

function page(all, key, query) {
  const limit = Number(query.get('limit') ?? 1000);
  const after = query.get('after') ?? '';
  const begin = after === '' ? 0 : all.findIndex((x) => x[key] > after);
  const items = begin < 0 ? [] : all.slice(begin, begin + limit);
  return { items, next: begin >= 0 && begin + limit < all.length ? items.at(-1)[key] : null };
}

const byTopic = (a, b) => (a.topic < b.topic ? -1 : 1);

/** The past before the start is made up: with an hour-old gap, and an inverter that was away for a while. */
function past(node, topic, from, to) {
  const device = node.devices.find((d) => topic.startsWith(`${d.topic}/`));
  const p = device?.points.find((x) => `${device.topic}/${x.name}` === topic);
  if (!p) return [];
  const live = node.recorded.get(topic) ?? [];
  const begin = live.length ? Date.parse(live[0].t) : Date.now();
  const step = Math.max(p.period || 1000, (to - from) / 3000);
  const rows = [];
  let last;
  for (let t = Math.ceil(from / step) * step; t < Math.min(to, begin); t += step) {
    const ago = Date.now() - t;
    if (ago > 40 * 6e4 && ago < 47 * 6e4) continue;
    const away = device.topic.endsWith('pv2') && ago > 60_000 && ago < 120_000;
    const v = p.value === null && p.kind === 'bool' ? wave(t) : away ? rows.at(-1)?.v ?? 0 : valueAt(device, p, t);
    if (p.period === 0 && v === last) continue;
    rows.push({ t: iso(t), v, q: away ? 'bad' : 'good' });
    last = v;
  }
  return [...rows, ...live.filter((r) => Date.parse(r.t) >= from && Date.parse(r.t) <= to).map(({ t, v, q }) => ({ t, v, q }))];
}
const wave = (t) => Math.floor(t / 700_000) % 3 !== 0;

function history(node, query) {
  const topic = query.get('topic');
  const [from, to] = [Date.parse(query.get('from')), Date.parse(query.get('to'))];
  const rows = query.get('raw') === 'true' ? past(node, topic, from, to) : changed(node, topic, past(node, topic, from, to));
  const every = /^(\d+)([smhd])$/.exec(query.get('every') ?? '');
  if (!every) return rows.slice(-Number(query.get('limit') ?? 1000));
  const ms = Number(every[1]) * STEP[every[2]];
  const buckets = Map.groupBy ? Map.groupBy(rows, (r) => Math.floor(Date.parse(r.t) / ms)) : group(rows, ms);
  const fold = { mean: (v) => v.reduce((a, b) => a + b, 0) / v.length, min: (v) => Math.min(...v), max: (v) => Math.max(...v), last: (v) => v.at(-1) };
  return [...buckets].map(([n, rs]) => ({
    t: iso(n * ms), v: fold[query.get('agg') ?? 'mean'](rs.map((r) => Number(r.v))), count: rs.length,
    q: rs.some((r) => r.q === 'bad') ? 'bad' : 'good',
  }));
}

/** Rows as edits of their values show them. */
function changed(node, topic, rows) {
  const edits = node.edits.filter((edit) => edit.topic === topic && edit.kind === 'value' && !edit.undone);
  return rows.map((row) => {
    const last = edits.find((edit) => row.t >= edit.from && row.t < edit.to);
    return last ? { ...row, v: last.v, edited: last.id } : row;
  });
}

/** Makes an edit of recorded values, or ends one. */
function edit(node, path, body) {
  const id = /(\d+)\/undo$/.exec(path)?.[1];
  if (!body.why) return [400, { title: 'bad request', status: 400, detail: 'why is empty, expected a reason' }];
  if (id) {
    const found = node.edits.find((one) => one.id === Number(id));
    found.undone = { who: 'http 127.0.0.1', time: iso(Date.now()), why: body.why };
    return [200, found];
  }
  const { at, ...more } = body;
  const made = { from: at, to: at, ...more, id: node.edits.length + 1, who: 'http 127.0.0.1', time: iso(Date.now()) };
  node.edits.unshift(made);
  return [200, made];
}

function editsOf(node, query) {
  const is = (one) => one.topic === query.get('topic') && !one.undone && one.from < query.get('to') && one.to >= query.get('from');
  return { edits: node.edits.filter(is), next: null };
}

function group(rows, ms) {
  const map = new Map();
  for (const row of rows) {
    const n = Math.floor(Date.parse(row.t) / ms);
    map.set(n, [...(map.get(n) ?? []), row]);
  }
  return map;
}

async function command(node, body) {
  const began = Date.now();
  const { topic, value, mode = 'select' } = body;
  const log = (phase, more = {}) => node.audit.unshift({ id: node.audit.length + 1, time: iso(Date.now()), who: 'http 127.0.0.1', topic, value: JSON.stringify(value), mode, phase, ...more });
  log('requested');
  try {
    const device = node.devices.find((d) => topic.startsWith(`${d.topic}/`));
    const p = device?.points.find((x) => `${device.topic}/${x.name}` === topic);
    if (!p) throw new Refused(404, 'unknown_topic', `${topic} is not a configured point`);
    if (!p.writable) throw new Refused(409, 'not_writable', `${topic} is an input`);
    if (typeof value !== (p.kind === 'bool' ? 'boolean' : 'number')) throw new Refused(422, 'wrong_type', `${JSON.stringify(value)} given, ${p.kind} expected`);
    if (value < (p.min ?? -Infinity) || value > (p.max ?? Infinity)) throw new Refused(422, 'out_of_range', `${value} given, ${p.min} to ${p.max} expected`);
    await new Promise((done) => setTimeout(done, 350));
    if (device.mute) throw new Refused(504, 'timeout', 'the device did not answer in time; the command may have been carried out');
    if (device.state === 'away') throw new Refused(503, 'away', `${device.topic} cannot be reached`);
    if (device.topic === 'north/feeder3') throw new Refused(409, 'local', 'the outstation is in local mode and takes no remote control');
    device.set[p.name] = value;
    for (const each of device.points) if (each.period === 0) node.renew(device, each, Date.now());
    log('sent');
    log('succeeded');
    return [200, { status: 'success', topic, value, mode, elapsed_ms: Date.now() - began }];
  } catch (cause) {
    if (!(cause instanceof Refused)) throw cause;
    log(cause.reason === 'timeout' ? 'timed_out' : 'refused', { reason: cause.reason, detail: cause.message });
    return [cause.http, { status: 'refused', reason: cause.reason, detail: cause.message }];
  }
}

/** Reservations, overrides and tags, without a check: none has a holder before its time. */
function control(node, path, body) {
  const holds = (end, named) => (named ? Date.now() + Number(named.slice(0, -1)) * 6e4 : Date.parse(end));
  const done = { result: 'SUCCESS', status: 'success', info: '', data: {} };
  if (path === '/v1/reservations') {
    const slots = body.slots.map(({ device, start, end, for: span }) => ({ device, start: start ?? iso(Date.now()), end: iso(holds(end, span)) }));
    node.reservations.push({ task: body.task, requester: body.requester, priority: body.priority, slots, grace_end: null, lease_s: null, lease_end: null });
  } else if (path === '/v1/overrides') {
    node.overrides.push({ pattern: body.pattern, until: null, who: 'http 127.0.0.1' });
  } else if (path === '/v1/tags') {
    const tag = { id: node.tags.length + 1, ...body, owner: 'http', placed: iso(Date.now()) };
    node.tags.push(tag);
    return [200, { ...done, tag, commands_out: 0 }];
  } else {
    const [before, key] = { '/v1/overrides/off': ['overrides', 'pattern'], '/v1/tags/lift': ['tags', 'id'] }[path] ?? ['reservations', 'task'];
    const left = node[before].filter((one) => one[key] !== body[key]);
    if (left.length === node[before].length) return [404, { result: 'FAILURE', info: 'TASK_ID_DOES_NOT_EXIST', data: {} }];
    node[before] = left;
  }
  return [200, done];
}

/** What is reserved, of one device where a topic names it or a point of it. */
function reserved(node, topic) {
  const is = (device) => topic === null || topic === device || topic.startsWith(`${device}/`);
  const slot = (one) => ({ ...one, current: Date.parse(one.start) <= Date.now() });
  const all = node.reservations.map((one) => ({ ...one, may_end: node.may.command, slots: one.slots.filter(({ device }) => is(device)).map(slot) }));
  return { reservations: all.filter(({ slots }) => slots.length > 0) };
}

function overridden(node, topic) {
  const takes = (pattern) => topic === null || matches(pattern, topic) || matches(pattern, topic.slice(0, topic.lastIndexOf('/')));
  return { overrides: node.overrides.filter(({ pattern }) => takes(pattern)).map((one) => ({ ...one, may_end: node.may.command })), devices: [] };
}

/** The tags that hold for a topic. */
function tagged(node, topic) {
  const holds = (tag) => topic === null || `${topic}/`.startsWith(`${tag}/`);
  return { tags: node.tags.filter((one) => holds(one.topic)).map((one) => ({ ...one, may_lift: node.may.command })) };
}

function trouble(node, body) {
  if (body.history) node.history = { state: body.history, detail: body.history === 'disk_full' ? 'no space left on /var/lib/tieline (0 of 20 GB free)' : null };
  if (body.state) node.setState(body.device, body.state);
  if ('mute' in body) node.devices.find((d) => d.topic === body.device).mute = body.mute;
  if (body.remove) {
    node.clear(body.remove);
    for (const stream of node.streams) send(stream, { removed: [body.remove] });
  }
  if ('down' in body) node.down = body.down;
  if ('frozen' in body) node.frozen = body.frozen;
  if ('login' in body) node.user = body.login;
  if (body.sites) node.sites = body.sites;
  if ('cluster' in body) node.cluster = body.cluster;
  if (body.may) Object.assign(node.may, body.may);
  if (body.publish) node.put(body.publish.topic, body.publish.kind, body.publish.value);
  if (body.drop || body.down || 'login' in body) for (const stream of node.streams) stream.res.destroy();
  return [200, {}];
}

function live(node, query, res) {
  const stream = { res, filters: query.getAll('filter'), groups: query.has('group') ? query.getAll('group') : null, told: new Map() };
  res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  const all = [...node.topics.values()].filter(({ topic }) => stream.filters.some((f) => matches(f, topic)));
  beat(stream);
  for (let i = 0; i < all.length; i += 500) send(stream, { updates: all.slice(i, i + 500) });
  if (stream.groups) tellCounts(node, stream);
  node.streams.add(stream);
  res.on('close', () => node.streams.delete(stream));
}

/** Two clients that keep up, and one that reads slowly. */
function sessions(query) {
  const one = (client, more) => ({
    client, late_ms: 0, waiting: 0, waiting_bytes: 0, blocked: false, deltas: false, subscriptions: 1, messages_per_s: 21.3, bytes_per_s: 1940.2,
    messages_out: 12_000, bytes_out: 1_200_000, conflated: 0, dropped: 0, ...more,
  });
  const slow = one('wallboard', { late_ms: 2_400, waiting: 61, waiting_bytes: 65_536, blocked: true, conflated: 3_104, dropped: 2 });
  const all = [slow, one('historian', { deltas: true }), one('scada/primary', {})];
  const part = query.get('client') ?? '';
  const found = all.filter((s) => s.client.includes(part)).slice(0, Number(query.get('limit') ?? 100));
  if (query.get('order') === 'client') found.sort((a, b) => (a.client < b.client ? -1 : 1));
  return { sessions: found, connected: all.length, away: 1 };
}

function read(node, path, query) {
  const online = node.devices.filter((d) => d.state === 'online').length;
  if (path === '/v1/status') {
    const points = node.devices.reduce((n, d) => n + d.points.length, 0);
    return { name: 'north-substation', version: '0.1.0', time: iso(Date.now()), started: iso(node.started), http: '127.0.0.1:8080', mqtt: '127.0.0.1:1883', uptime_s: (Date.now() - node.started) / 1000,
      topics: node.topics.size, points, sessions: 3, subscriptions: 5, devices: { total: node.devices.length, online }, updates_per_s: node.rate,
      ...(node.sites.length > 0 && { centre: { state: 'up', why: '', since: iso(node.started), sites: node.sites.length, away: node.sites.filter((one) => one.state === 'away').length } }),
      ...(node.cluster && { cluster: node.cluster }),
      history: { ...node.history, backlog: node.history.state === 'ok' ? 0 : 18_204, stored: 1_204_551 } };
  }
  if (path === '/v1/topics') {
    const { items, next } = page([...node.topics.values()].filter(({ topic }) => matches(query.get('filter') ?? '#', topic)).sort(byTopic), 'topic', query);
    return { topics: items, next };
  }
  if (path === '/v1/me') return { user: node.user, roles: node.user ? ['OPERATOR'] : [], login: node.user !== null, may: node.may };
  if (path === '/v1/sessions') return sessions(query);
  if (path === '/v1/diagrams') return { diagrams: [] };
  if (path === '/v1/boards') return { boards: [] };
  if (path === '/v1/alarms/counts') return { configured: false, flood: false };
  if (path === '/v1/reservations') return reserved(node, query.get('topic'));
  if (path === '/v1/overrides') return overridden(node, query.get('topic'));
  if (path === '/v1/tags') return tagged(node, query.get('topic'));
  if (path === '/v1/busiest') {
    const busy = node.devices.flatMap((d) => d.points.filter((p) => p.period > 0).map((p) => ({ topic: `${d.topic}/${p.name}`, updates_per_s: 1000 / p.period })));
    const topics = busy.sort((a, b) => b.updates_per_s - a.updates_per_s).slice(0, Number(query.get('limit') ?? 20));
    return { window_s: 10, updates: 500, topics: topics.map((t) => ({ ...t, updates: 10, over: 0, bytes: 900, bytes_per_s: 90 })) };
  }
  if (path === '/v1/devices') return { devices: node.devices.map((d) => describe(d, d.points.length)) };
  if (path === '/v1/points') {
    const points = node.devices.flatMap((d) => d.points.map((p) => ({ ...meta(d, p, node.may.command), device: d.topic }))).sort(byTopic);
    const { items, next } = page(points.filter(({ topic }) => matches(query.get('filter') ?? '#', topic)), 'topic', query);
    return { points: items, next };
  }
  if (path === '/v1/history') return history(node, query);
  if (path === '/v1/sites') return { sites: node.sites };
  if (path === '/v1/history/edits') return editsOf(node, query);
  if (path === '/v1/audit') return { entries: node.audit.filter((e) => e.topic === query.get('topic')).slice(0, Number(query.get('limit') ?? 20)) };
  const device = node.devices.find((d) => path === `/v1/devices/${d.topic}`);
  if (device) return describe(device, device.points.map((p) => meta(device, p, node.may.command)));
  return node.topics.get(path.replace(/^\/v1\/topics\//, ''));
}

async function file(path, res) {
  const name = path === '/' ? 'index.html' : path.slice(1);
  try {
    const from = join(DIST, name.replaceAll('..', ''));
    // Of other languages than English there are packed scripts only.
    const body = await readFile(from).catch(async () => gunzipSync(await readFile(`${from}.gz`)));
    res.writeHead(200, { 'content-type': TYPES[extname(name)] ?? 'application/octet-stream', 'content-security-policy': "default-src 'self'" });
    res.end(body);
  } catch {
    answer(res, 404, { title: 'not found', status: 404 });
  }
}

function answer(res, status, body) {
  res.writeHead(status, { 'content-type': status < 400 || body.reason ? 'application/json' : 'application/problem+json' });
  res.end(JSON.stringify(body));
}

const NODE = new URL('../../crates/node/node/src/http/', import.meta.url);

/** The node's own login page. */
async function loginPage(status, words, user, res) {
  const text = (await readFile(new URL('login.html', NODE), 'utf8')).replace('{words}', words).replace('{user}', user);
  res.writeHead(status, { 'content-type': 'text/html' }).end(text.replace('{to}', '').replaceAll(/\{focus-\w+\}/g, ''));
}

async function loginScript(res) {
  res.writeHead(200, { 'content-type': 'text/javascript' }).end(await readFile(new URL('login.js', NODE)));
}

function login(node, text, res) {
  const form = new URLSearchParams(text);
  if (form.get('password') !== 'right') return loginPage(401, 'The user or the password is wrong.', form.get('user'), res);
  node.user = form.get('user');
  res.writeHead(303, { location: `/${form.get('to')}` }).end();
}

function logout(node, res) {
  node.user = '';
  for (const stream of node.streams) stream.res.destroy();
  res.writeHead(303, { location: '/login' }).end();
}

async function handle(node, req, res) {
  const url = new URL(req.url, 'http://node');
  const path = decodeURIComponent(url.pathname);
  if (req.method === 'POST') {
    const chunks = await req.toArray();
    if (path === '/login') return login(node, Buffer.concat(chunks).toString(), res);
    if (path === '/logout') return logout(node, res);
    const body = JSON.parse(Buffer.concat(chunks).toString());
    if (node.frozen && path !== '/mock') return;
    const [status, out] = path === '/mock' ? trouble(node, body) : path.startsWith('/v1/history/edits') ? edit(node, path, body) : /^\/v1\/(reserv|overr|tags)/.test(path) ? control(node, path, body) : await command(node, body);
    return answer(res, status, out);
  }
  if (node.frozen) return;
  if (path === '/login') return loginPage(200, '', '', res);
  if (path === '/login.js') return loginScript(res);
  if (path === '/' && node.user === '') return res.writeHead(303, { location: '/login' }).end();
  if (!path.startsWith('/v1/')) return file(path, res);
  if (node.down) return res.destroy();
  if (node.user === '') return answer(res, 401, { title: 'unauthorized', status: 401, detail: 'a login at /login is needed' });
  if (path === '/v1/live' && url.searchParams.getAll('filter').some((f) => f.startsWith('$')) && !node.may.system) {
    return answer(res, 403, { title: 'forbidden', status: 403, detail: 'the user may not read "$SYS/#"' });
  }
  if (path === '/v1/live') return live(node, url.searchParams, res);
  const body = read(node, path, url.searchParams);
  return body === undefined ? answer(res, 404, { title: 'not found', status: 404, detail: `${path} is not here` }) : answer(res, 200, body);
}

/** Starts a stand-in on a port (0: a free one) and resolves to its address and how to stop it. */
export async function startMock({ port = 0, more = 0 } = {}) {
  const node = new Node(more);
  const server = createServer((req, res) => void handle(node, req, res).catch((e) => answer(res, 500, { title: String(e), status: 500 })));
  await new Promise((done) => server.listen(port, '127.0.0.1', done));
  const close = () => {
    node.close();
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, close };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await startMock({ port: Number(process.env.PORT ?? 8080), more: Number(process.env.MORE ?? 0) });
  console.log(`stand-in node on ${url}`);
}
