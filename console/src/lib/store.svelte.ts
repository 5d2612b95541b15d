// The state of the console: what the node said last, and what the user looks at.

import { api, ApiError, type Device, type PointMeta, type Status, type TopicUpdate } from './api';
import { filterError } from './filter';
import { showUtc } from './format';
import { type Link, LiveStream, type SseEvent } from './live';
import { Ring } from './ring';
import { parseRoute, type Route, routeHash } from './route';
import { FOLLOW_ALL_TOPICS_MAX, liveFilters, liveUrl } from './scope';
import { TopicTree } from './tree';

const STATUS_MS = 2_000;
const DEVICES_MS = 2_000;
/** A filter being typed and a tree being read change the view often. */
const FOLLOW_MS = 400;
const STATUS_FAILURES_MAX = 2;
/** The most names read of a node that is too large to follow whole. */
const NAMES_MAX = 200_000;
/** The most points whose unit and limits are kept. */
const METADATA_MAX = 100_000;

/** The past that a sparkline begins with. */
const SEED_MS = 90_000;
const SEED_ROWS_MAX = 500;
/** Topics that wait for their past; more are asked for when they are next shown. */
const SEEDS_MAX = 200;
const SEEDS_AT_ONCE_MAX = 3;

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
  status = $state.raw<Status | null>(null);
  statusError = $state.raw('');
  rates = $state.raw({ ring: new Ring() });
  link = $state.raw<Link>({ state: 'connecting', reason: '', retryAt: 0 });
  devices = $state.raw<Device[] | null>(null);
  devicesError = $state.raw('');
  meta = $state.raw<ReadonlyMap<string, PointMeta>>(new Map());
  route = $state.raw<Route>(parseRoute(location.hash));
  expanded = $state.raw<ReadonlySet<string>>(new Set());
  filter = $state.raw('');
  utc = $state.raw(false);
  help = $state.raw(false);

  private skew = 0;
  private statusFailures = 0;
  private framePending = false;
  private expansionKnown = false;
  private filters = '';
  private lost = false;
  private read = false;
  private followTimer: ReturnType<typeof setTimeout> | undefined;
  private readonly seeded = new Set<string>();
  private readonly seeds: string[] = [];
  private seeding = 0;
  private readonly stream = new LiveStream({
    event: (event) => this.onEvent(event),
    link: (link) => this.onLink(link),
  });

  start(): void {
    this.recall();
    addEventListener('hashchange', () => (this.route = parseRoute(location.hash)));
    addEventListener('online', () => this.retry());
    setInterval(() => (this.now = this.nodeTime()), 1_000);
    void this.pollStatus().then(() => this.follow());
    void this.loadMeta();
    void this.pollDevices();
  }

  nodeTime(): number {
    return Date.now() + this.skew;
  }

  get live(): boolean {
    return this.link.state === 'live';
  }

  retry(): void {
    this.stream.retryNow();
  }

  go(change: Partial<Route>): void {
    this.route = { ...this.route, ...change };
    const hash = routeHash(this.route);
    if (hash !== location.hash) location.hash = hash;
  }

  /** Closes the innermost thing that is open. */
  close(): void {
    if (this.help) this.help = false;
    else if (this.route.point !== null) this.go({ point: null });
    else if (this.route.device !== null) this.go({ device: null });
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
    const { point } = this.route;
    const topics = Math.max(this.status?.topics ?? 0, this.tree.size);
    const typed = this.filter.trim();
    const selected = point === null ? [] : [point];
    if (/[+#]/.test(typed) && typed !== '#' && filterError(typed) === null) selected.push(typed);
    const filters = liveFilters(topics, this.expanded, selected).join('\n');
    if (filters === this.filters) return;
    this.filters = filters;
    this.stream.open(liveUrl(filters.split('\n')));
    if (topics <= FOLLOW_ALL_TOPICS_MAX || this.read) return;
    this.read = true;
    void this.readAll();
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

  /** Gives a topic's sparkline its recent past, once, a few topics at a time. */
  seed(topic: string): void {
    if (this.seeded.has(topic) || this.seeds.length >= SEEDS_MAX) return;
    this.seeded.add(topic);
    this.seeds.push(topic);
    if (this.seeding < SEEDS_AT_ONCE_MAX) void this.sow();
  }

  private async sow(): Promise<void> {
    this.seeding++;
    // The newest wish first: it is the row that is looked at.
    for (let topic = this.seeds.pop(); topic !== undefined; topic = this.seeds.pop()) {
      const [from, to] = [this.nodeTime() - SEED_MS, this.nodeTime()].map((ms) => new Date(ms).toISOString());
      const rows = await api.history({ topic, from: from!, to: to!, limit: SEED_ROWS_MAX }).catch(() => []);
      this.tree.seed(topic, rows.map((row) => row.v));
      this.wantFrame();
    }
    this.seeding--;
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
    const body = JSON.parse(event.data) as { updates?: TopicUpdate[]; removed?: string[] };
    const now = this.nodeTime();
    for (const topic of body.removed ?? []) this.tree.remove(topic);
    for (const update of body.updates ?? []) this.tree.apply(update, now);
    this.wantFrame();
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
    if (link.state === 'reconnecting') this.lost = true;
    if (link.state !== 'live' || !this.lost) return;
    // What was cleared while the stream was down is missing from the new one and must go from the tree.
    this.lost = false;
    void this.sweep();
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
    for (const filter of ['#', '$SYS/#']) await this.pages(filter, take).catch(() => undefined);
  }

  /** Takes values that were read by pages, unless the stream was faster. */
  private accept(topics: TopicUpdate[], began: number): void {
    for (const update of topics) {
      const leaf = this.tree.leaf(update.topic);
      if (!leaf || leaf.received < began) this.tree.apply(update, this.nodeTime());
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
      for (const filter of ['#', '$SYS/#']) await this.pages(filter, take);
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
      const status = await api.status();
      const rates = this.rates.ring;
      rates.push(status.updates_per_s);
      this.rates = { ring: rates };
      this.skew = (Date.parse(status.time) || Date.now()) - Date.now();
      this.status = status;
      this.statusError = '';
      this.statusFailures = 0;
    } catch (cause) {
      this.statusError = cause instanceof ApiError ? cause.message : String(cause);
      // A half-open connection shows here long before the stream's own silence does.
      if (++this.statusFailures === STATUS_FAILURES_MAX && this.live) this.retry();
    }
    setTimeout(() => void this.pollStatus(), document.hidden ? 5 * STATUS_MS : STATUS_MS);
  }

  private async pollDevices(): Promise<void> {
    const began = performance.now();
    try {
      if (!document.hidden) this.devices = await api.devices();
      this.devicesError = '';
    } catch (cause) {
      this.devicesError = cause instanceof ApiError ? cause.message : String(cause);
    }
    // A long list is asked for less often: at most a twentieth of the time goes into it.
    setTimeout(() => void this.pollDevices(), Math.max(DEVICES_MS, 20 * (performance.now() - began)));
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

/** Storage may be forbidden or full; the console works without. */
function remember(key: string, value: unknown): void {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    return;
  }
}

function recalled(key: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(key) ?? 'null');
  } catch {
    return null;
  }
}

export const store = new Store();
