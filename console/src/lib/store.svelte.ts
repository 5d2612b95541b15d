// The state of the console: what the node said last, and what the user looks at.

import {
  api, ApiError, onLoginEnded, type Counts, type CountsUpdate, type Device, type DrawingEntry, type Grade, type Me, type PointMeta, type Status, type TopicUpdate,
} from './api';
import type { AlarmList } from './alarmlist.svelte';
import { DeviceList } from './devicelist.svelte';
import { filterMatches } from './filter';
import { showUtc } from './format';
import { type Link, LiveStream, type SseEvent } from './live';
import { Ring } from './ring';
import { parseRoute, type Route, routeHash } from './route';
import { followsAll, liveUrl, type Scope, scope } from './scope';
import { Seeds } from './seeds';
import { recalled, remember } from './settings';
import { groupGrade, type Leaf, type Row, TopicTree } from './tree';

const STATUS_MS = 2_000;
/** What was polled is old when it is older than this beyond the pause between two polls. */
const POLL_OLD_MS = 4_000;
/** A filter being typed and a tree being read change the view often. */
const FOLLOW_MS = 300;
/** Who is logged in is asked again after this when there was no answer. */
const ME_MS = 2_000;
/** How often the displayed age of the data is updated. */
const AGE_MS = 500;
/** The most names read of a node that is too large to follow whole. */
const NAMES_MAX = 200_000;
/** The most points whose unit and limits are kept. */
const METADATA_MAX = 100_000;

const EXPANDED_KEY = 'tieline.expanded';
const UTC_KEY = 'tieline.utc';

class Store {
  readonly tree = new TopicTree();
  /** Grows at most once per animation frame when values changed: what shows values reads it. */
  frame = $state.raw(0);
  /** Grows when topics came or went. */
  structure = $state.raw(0);
  /** The node's time in ms since 1970, by the second. */
  now = $state.raw(Date.now());
  /** How old what the node said last is, in ms; null where it never said anything. */
  age = $state.raw<number | null>(null);
  me = $state.raw<Me | null>(null);
  status = $state.raw<Status | null>(null);
  statusError = $state.raw('');
  /** Values by quality as the node counts them; null where it has not said. */
  counts = $state.raw<CountsUpdate | null>(null);
  groups = $state.raw<ReadonlyMap<string, Counts>>(new Map());
  rates = $state.raw({ ring: new Ring() });
  link = $state.raw<Link>({ state: 'connecting', reason: '', retryAt: 0 });
  readonly deviceList = new DeviceList(() => this.route.view === 'devices');
  /** Null where the node has no alarms configured. */
  alarms = $state.raw<AlarmList | null>(null);
  /** Single-line diagrams and boards that may be seen. */
  diagrams = $state.raw<readonly DrawingEntry[]>([]);
  boards = $state.raw<readonly DrawingEntry[]>([]);
  meta = $state.raw<ReadonlyMap<string, PointMeta>>(new Map());
  route = $state.raw<Route>(parseRoute(location.hash));
  expanded = $state.raw<ReadonlySet<string>>(new Set());
  filter = $state.raw('');
  utc = $state.raw(false);
  help = $state.raw(false);
  /** What is looked for: a site, or all; nothing while the search is closed. */
  finding = $state.raw<'' | 'all' | 'sites'>('');

  /** Topics that a view follows on its own, and what is done with each of their values. */
  private watched: { topics: ReadonlySet<string>; heard: (leaf: Leaf) => void } | null = null;
  private skew = 0;
  private statusAt = $state.raw(-Infinity);
  private framePending = false;
  private expansionKnown = false;
  private asked = '';
  private scope: Scope = { filters: [], groups: [] };
  private sight: { leaves: string[]; parents: string[]; blank: string[] } = { leaves: [], parents: [], blank: [] };
  /** Topics of a large node that this stream has said something of. */
  private followed = new Set<string>();
  private countsAreNew = true;
  private lost = false;
  private read = false;
  private followTimer: ReturnType<typeof setTimeout> | undefined;
  /** Gives the sparklines of topics their recent past. */
  readonly seeds = new Seeds(() => this.nodeTime(), (topic, values) => {
    this.tree.seed(topic, values);
    this.wantFrame();
  });
  private readonly stream = new LiveStream({
    event: (event) => this.onEvent(event),
    link: (link) => this.onLink(link),
  });

  start(): void {
    this.recall();
    addEventListener('hashchange', () => this.arrive(parseRoute(location.hash)));
    addEventListener('online', () => this.retry());
    // A stream outlives the login that it was opened with: opened again it is refused.
    onLoginEnded.call = () => this.live && this.retry();
    for (const event of ['visibilitychange', 'pageshow', 'focus']) addEventListener(event, () => this.wake());
    setInterval(() => (this.now = this.nodeTime()), 1_000);
    setInterval(() => (this.age = this.stream.ageMs()), AGE_MS);
    void this.loadMe().then(() => {
      void Promise.all([this.pollStatus(), this.findAlarms()]).then(() => this.follow());
      void this.loadMeta();
      void this.findDrawings();
      void this.deviceList.poll();
    });
  }

  private arrive(route: Route): void {
    const before = this.route.view;
    this.route = route;
    if (route.view === 'devices' && before !== 'devices') this.deviceList.readAll();
  }

  /** The page is looked at again: what its timers missed is looked at now, and a login in another window counts. */
  private wake(): void {
    if (document.hidden) return;
    this.stream.check();
    this.age = this.stream.ageMs();
    if (this.link.state === 'login') this.retry();
  }

  /** Asks who is logged in, until there is an answer; what it may see decides what is asked for. */
  private async loadMe(): Promise<void> {
    for (;;) {
      try {
        this.me = await api.me();
        this.link = { state: 'connecting', reason: '', retryAt: 0 };
        return;
      } catch (cause) {
        const [status, reason] = cause instanceof ApiError ? [cause.status, cause.message] : [0, String(cause)];
        const wait = status === 401 ? 2 * ME_MS : ME_MS;
        const state = status === 401 ? 'login' : 'connecting';
        this.link = { state, reason: status === 401 ? t('the node asks who you are') : reason, retryAt: Date.now() + wait };
        await new Promise((done) => setTimeout(done, wait));
      }
    }
  }

  async findDrawings(): Promise<void> {
    const find = async (kind: 'diagrams' | 'boards') => (this[kind] = await api.drawings(kind).catch(() => this[kind]));
    await Promise.all([find('diagrams'), find('boards')]);
  }

  private async findAlarms(): Promise<void> {
    const counts = this.alarms ? null : await api.alarmCounts().catch(() => null);
    const more = counts?.configured ? await import('../more').catch(() => null) : null;
    if (counts && more) this.alarms = new more.AlarmList(new Date(this.nodeTime()).toISOString(), counts);
  }

  /** Where one logs in, and comes back to what is shown now. */
  get loginUrl(): string {
    void this.route;
    return `/login?to=${encodeURIComponent(location.hash)}`;
  }

  async logout(): Promise<void> {
    location.assign(await api.logout().catch(() => '/login'));
  }

  /** Whether who is logged in may see something of the node; all may where nobody is asked. */
  may(what: keyof NonNullable<Me['may']>): boolean {
    return this.me?.may?.[what] ?? true;
  }

  nodeTime(): number {
    return Date.now() + this.skew;
  }

  get live(): boolean {
    return this.link.state === 'live';
  }

  /** Whether the status of the node is as old as it may be. */
  get statusIsNew(): boolean {
    void this.now;
    return this.live && performance.now() - this.statusAt < STATUS_MS + POLL_OLD_MS;
  }

  /** The same of the states of devices. */
  get devicesAreNew(): boolean {
    void this.now;
    return this.live && this.deviceList.ageMs() < POLL_OLD_MS;
  }

  get devices(): Device[] | null {
    return this.deviceList.all;
  }

  /** Whether what is shown of a topic is what the node says now. */
  isNew(leaf: Leaf): boolean {
    return this.live && this.tree.isLive(leaf);
  }

  /** How good the values below a branch are. */
  gradeOf(path: string): Grade {
    return groupGrade(this.groups.get(path), this.counts?.complete ?? false);
  }

  /** Follows topics, however large the node is, until the result is called. */
  watch(topics: readonly string[], heard: (leaf: Leaf) => void): () => void {
    const mine = { topics: new Set(topics), heard };
    this.watched = mine;
    this.follow();
    return () => {
      if (this.watched === mine) this.watched = null;
    };
  }

  retry(): void {
    this.stream.retryNow();
  }

  go(change: Partial<Route>): void {
    this.route = { ...this.route, ...(change.view && change.view !== this.route.view ? { query: '', name: undefined, at: undefined } : {}), ...change };
    if (change.view === 'devices') this.deviceList.readAll();
    const hash = routeHash(this.route);
    if (hash !== location.hash) location.hash = hash;
  }

  /** Changes what a view reads from the address; `replace` leaves no entry to go back to. */
  ask(query: string, replace = false): void {
    this.route = { ...this.route, query };
    if (replace) history.replaceState(null, '', routeHash(this.route));
    else location.hash = routeHash(this.route);
  }

  /** Closes the innermost thing that is open. */
  close(): void {
    if (this.help) this.help = false;
    else if (this.route.point !== null) this.go({ point: null });
    else this.go({ device: null, task: null, pattern: null });
  }

  toggleUtc(): void {
    this.utc = !this.utc;
    showUtc(this.utc);
    remember(UTC_KEY, this.utc);
  }

  setExpanded(key: string, open: boolean): void {
    const expanded = new Set(this.expanded);
    if (open) expanded.add(key);
    else expanded.delete(key);
    this.expanded = expanded;
    this.expansionKnown = true;
    remember(EXPANDED_KEY, [...expanded].filter((path) => !path.startsWith('-')));
    this.follow();
  }

  /** Opens the branches above a topic. */
  reveal(topic: string): void {
    const above = topic.split('/').slice(0, -1);
    const closed = above.map((_, i) => above.slice(0, i + 1).join('/')).filter((path) => !this.expanded.has(path));
    if (closed.length === 0) return;
    this.expanded = new Set([...this.expanded, ...closed]);
    this.followSoon();
  }

  /** Opens the stream that the view needs, unless it is the one that is open. */
  follow(): void {
    if (this.me === null) return;
    const { point, device } = this.route;
    // Alarms are topics of the node, and followed in any case.
    const topics = Math.max((this.status?.topics ?? 0) - (this.alarms?.all.size ?? 0), this.counts?.total?.total ?? 0, this.tree.size);
    const selected = [...(point === null ? [] : [point]), ...(device === null ? [] : [`${device}/#`]), ...(this.watched?.topics ?? [])];
    this.scope = scope(topics, this.may('system'), { selected, ...this.sight });
    if (this.alarms) this.scope.filters.push('$alarms/#');
    const target = liveUrl(this.scope);
    if (target === this.asked) return;
    this.asked = target;
    this.forgetUnfollowed();
    this.countsAreNew = true;
    this.stream.open(target);
    this.alarms?.readSoon();
    if (followsAll(topics) || this.read) return;
    this.read = true;
    void this.readAll();
  }

  /** What another stream will not speak of any more is not live from here on. */
  private forgetUnfollowed(): void {
    for (const topic of this.followed) {
      if (this.scope.filters.some((filter) => filterMatches(filter, topic))) continue;
      const leaf = this.tree.leaf(topic);
      if (leaf) leaf.epoch = -1;
      this.followed.delete(topic);
    }
  }

  /** The rows of the tree that are in view. */
  see(rows: readonly Row[]): void {
    const above = (path: string) => path.slice(0, Math.max(0, path.lastIndexOf('/')));
    const blank = rows.filter(({ node, expanded }) => expanded && node.children.size === 0 && node.leaf === null);
    this.sight = {
      leaves: rows.flatMap(({ node }) => (node.leaf ? [node.leaf.topic] : [])),
      parents: rows.map(({ node }) => above(node.path)),
      blank: blank.map(({ node }) => node.path),
    };
    if (!followsAll(this.tree.size) || !followsAll(this.status?.topics ?? 0)) this.followSoon();
  }

  /** Follows what the view shows once it has come to rest. */
  followSoon(): void {
    clearTimeout(this.followTimer);
    this.followTimer = setTimeout(() => this.follow(), FOLLOW_MS);
  }

  /** Metadata of one point that was not among those read at the start. */
  async loadPoint(topic: string): Promise<void> {
    if (this.meta.has(topic)) return;
    const page = await api.points(topic, null).catch(() => null);
    const found = page?.points.find((point) => point.topic === topic);
    if (found) this.meta = new Map(this.meta).set(topic, found);
  }

  private recall(): void {
    this.utc = recalled(UTC_KEY) === true;
    showUtc(this.utc);
    const expanded = recalled(EXPANDED_KEY);
    if (!Array.isArray(expanded)) return;
    this.expanded = new Set(expanded.filter((path) => typeof path === 'string'));
    this.expansionKnown = true;
  }

  private onEvent(event: SseEvent): void {
    if (event.event === 'beat') return this.onTime(event.data);
    if (event.event === 'counts') return this.onCounts(JSON.parse(event.data) as CountsUpdate);
    const body = JSON.parse(event.data) as { updates?: TopicUpdate[]; removed?: string[] };
    const now = this.nodeTime();
    this.alarms?.take(body.updates ?? [], body.removed ?? []);
    for (const topic of body.removed ?? []) this.tree.remove(topic);
    for (const update of body.updates ?? []) {
      if (update.topic.startsWith('$alarms/')) continue;
      this.tree.apply(update, now);
      if (this.watched?.topics.has(update.topic)) this.watched.heard(this.tree.leaf(update.topic)!);
    }
    this.deviceList.take(body.updates ?? []);
    if (!followsAll(this.tree.size)) for (const { topic } of body.updates ?? []) this.followed.add(topic);
    this.wantFrame();
  }

  private onTime(time: string): void {
    this.skew = (Date.parse(time) || Date.now()) - Date.now();
    this.age = this.stream.ageMs();
  }

  private onCounts(update: CountsUpdate): void {
    // The first of a stream says all: of what it does not name nothing is known.
    const groups = this.countsAreNew ? new Map<string, Counts>() : new Map(this.groups);
    this.countsAreNew = false;
    const [structure, whole] = [this.tree.structure, this.scope.groups.includes('#')];
    for (const [path, counts] of Object.entries(update.groups)) {
      if (counts.total > 0) {
        groups.set(path, counts);
        if (!whole) this.tree.addBranch(path);
      } else {
        groups.delete(path);
        this.tree.dropBranch(path);
      }
    }
    [this.groups, this.counts] = [groups, update];
    // Too many to be followed whole: known from here alone to who may not see the status.
    if (whole && !followsAll(update.total?.total ?? 0)) this.follow();
    if (structure !== this.tree.structure) this.wantFrame();
  }

  private wantFrame(): void {
    if (this.framePending) return;
    this.framePending = true;
    requestAnimationFrame(() => {
      this.framePending = false;
      if (!this.expansionKnown && this.structure !== this.tree.structure) {
        this.expanded = new Set(this.tree.firstExpansion());
        if (this.route.point !== null) this.reveal(this.route.point);
        this.followSoon();
      }
      this.frame++;
      this.structure = this.tree.structure;
    });
  }

  private onLink(link: Link): void {
    this.link = link;
    if (link.state === 'live') {
      if (!this.lost) return;
      this.lost = false;
      // Who is logged in may be another, or may do other things; and what was cleared meanwhile must go from the tree.
      void this.renew();
    } else if (link.state !== 'silent') {
      if (!this.lost) this.tree.epoch++;
      this.lost = true;
      this.countsAreNew = true;
    }
  }

  private async renew(): Promise<void> {
    const me = await api.me().catch(() => null);
    if (me) {
      this.me = me;
      await this.findAlarms();
      this.follow();
    }
    this.alarms?.readSoon();
    void this.loadMeta();
    await this.sweep();
  }

  private async pages(filter: string, take: (topics: TopicUpdate[]) => boolean): Promise<void> {
    let after: string | null = null;
    do {
      const page: { topics: TopicUpdate[]; next: string | null } = await api.topics(filter, after);
      if (!take(page.topics)) return;
      after = page.next;
    } while (after !== null);
  }

  private async readAll(): Promise<void> {
    const began = this.nodeTime();
    const take = (topics: TopicUpdate[]) => {
      this.accept(topics, began);
      return this.tree.size < NAMES_MAX;
    };
    for (const filter of this.wholes()) await this.pages(filter, take).catch(() => undefined);
  }

  /** Filters that select all that may be read. */
  private wholes(): string[] {
    return this.may('system') ? ['#', '$SYS/#'] : ['#'];
  }

  /** Takes values that were read by pages, unless the stream was faster. */
  private accept(topics: TopicUpdate[], began: number): void {
    for (const update of topics) {
      const leaf = this.tree.leaf(update.topic);
      if (!leaf || leaf.received < began) this.tree.apply(update, this.nodeTime(), false);
    }
    this.wantFrame();
  }

  private async sweep(): Promise<void> {
    const [began, there] = [this.nodeTime(), new Set<string>()];
    const take = (topics: TopicUpdate[]) => {
      for (const { topic } of topics) there.add(topic);
      this.accept(topics, began);
      return there.size < NAMES_MAX;
    };
    try {
      for (const filter of this.wholes()) await this.pages(filter, take);
    } catch {
      return;
    }
    for (const leaf of this.tree.leaves()) {
      if (!there.has(leaf.topic) && leaf.received < began) this.tree.remove(leaf.topic);
    }
    this.wantFrame();
  }

  private async pollStatus(): Promise<void> {
    try {
      if (this.may('status')) this.takeStatus(await api.status());
    } catch (cause) {
      this.statusError = cause instanceof ApiError ? cause.message : String(cause);
    }
    setTimeout(() => void this.pollStatus(), document.hidden ? 5 * STATUS_MS : STATUS_MS);
  }

  private takeStatus(status: Status): void {
    const rates = this.rates.ring;
    rates.push(status.updates_per_s);
    this.rates = { ring: rates };
    this.status = status;
    this.statusError = '';
    this.statusAt = performance.now();
    // A node may have grown beyond what is followed whole.
    if (this.asked !== '') this.follow();
  }

  private async loadMeta(): Promise<void> {
    const meta = new Map<string, PointMeta>();
    let after: string | null = null;
    try {
      do {
        const page: { points: PointMeta[]; next: string | null } = await api.points('#', after);
        for (const point of page.points) meta.set(point.topic, point);
        after = page.next;
      } while (after !== null && meta.size < METADATA_MAX);
      this.meta = meta;
    } catch {
      setTimeout(() => void this.loadMeta(), 5_000);
    }
  }
}

export const store = new Store();
