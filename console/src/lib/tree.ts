// The tree of last values. Plain objects, changed in place: the screen asks for the few rows that it shows.

import type { Counts, Grade, PointValue, TopicUpdate } from './api';
import { Ring } from './ring';

/** Seconds over which the update rate is averaged. */
const RATE_S = 10;

/** What a topic holds. */
export interface Leaf {
  topic: string;
  kind: TopicUpdate['kind'];
  /** The value alone for a point, else the payload. */
  v: unknown;
  /** `none` where its publisher says nothing of its quality. */
  q: Exclude<Grade, 'unknown'>;
  why: readonly string[];
  /** When the value was so, in ms since 1970; the time of arrival where the payload has none. */
  t: number;
  /** When this console received it, in ms since 1970. */
  received: number;
  seq: number;
  /** Whether a number with a fraction was ever seen: keeps the figures of a column steady. */
  fraction: boolean;
  ring: Ring | null;
  rate: number;
  /** When the first update was seen happening, from which on they are counted, in ms since 1970; null before. */
  since: number | null;
  /** The stretch of unbroken following in which it was heard last: [`TopicTree.epoch`]; -1 where it is not followed. */
  epoch: number;
}

export interface TreeNode {
  name: string;
  path: string;
  parent: TreeNode | null;
  children: Map<string, TreeNode>;
  /** Children in order; null when it must be made again. */
  order: TreeNode[] | null;
  leaf: Leaf | null;
}

/** One line of the flattened tree. */
export interface Row {
  node: TreeNode;
  level: number;
  expanded: boolean;
  position: number;
  siblings: number;
}

const NO_REASONS: readonly string[] = [];
const natural = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

function newNode(name: string, path: string, parent: TreeNode | null): TreeNode {
  return { name, path, parent, children: new Map(), order: null, leaf: null };
}

export class TopicTree {
  readonly root = newNode('', '', null);
  /** Grows whenever topics come or go. */
  structure = 0;
  /** Grows when the stream was lost: what was heard before may be old. */
  epoch = 0;
  private readonly byTopic = new Map<string, TreeNode>();
  private system = 0;

  /** Topics, those of the node itself not among them. */
  get size(): number {
    return this.byTopic.size - this.system;
  }

  leaf(topic: string): Leaf | null {
    return this.byTopic.get(topic)?.leaf ?? null;
  }

  topics(): IterableIterator<string> {
    return this.byTopic.keys();
  }

  leaves(): Leaf[] {
    return [...this.byTopic.values()].map((node) => node.leaf as Leaf);
  }

  /** Takes a topic's new state. An update that is not newer is only the same state again. */
  apply(update: TopicUpdate, now: number, followed = true): void {
    const node = this.byTopic.get(update.topic) ?? this.plant(update.topic);
    const first = node.leaf === null;
    const leaf = node.leaf ?? newLeaf(update.topic);
    node.leaf = leaf;
    const steps = (update.seq ?? leaf.seq + 1) - leaf.seq;
    fill(leaf, update, now);
    if (first || steps !== 0) sample(leaf, first ? 0 : Math.max(1, steps), now);
    if (followed) leaf.epoch = this.epoch;
  }

  /** Whether what is shown of a topic is what the node said last. */
  isLive(leaf: Leaf): boolean {
    return leaf.epoch === this.epoch;
  }

  /** A branch that the node knows, of which no topic is known here. */
  addBranch(path: string): void {
    if (this.find(path) === null) this.grow(path);
  }

  /** Takes away a branch of which the node says that nothing is left. */
  dropBranch(path: string): void {
    const node = this.find(path);
    if (node) this.prune(node);
  }

  /** Puts recorded values before those that were seen live. */
  seed(topic: string, values: readonly unknown[]): void {
    const leaf = this.leaf(topic);
    if (!leaf) return;
    const ring = new Ring();
    const seen = leaf.ring?.length ?? 0;
    const past = values.map(asNumber).filter((x) => x !== null);
    // What was seen live is in the record too, unless the record is not yet as far.
    for (const x of past.slice(0, Math.max(0, past.length - seen))) ring.push(x);
    for (let i = 0; i < seen; i++) ring.push(leaf.ring!.at(i));
    if (ring.length > 0) leaf.ring = ring;
    if (past.some((x) => !Number.isInteger(x))) leaf.fraction = true;
  }

  remove(topic: string): void {
    const node = this.byTopic.get(topic);
    if (!node?.leaf) return;
    this.byTopic.delete(topic);
    if (topic.startsWith('$')) this.system--;
    node.leaf = null;
    this.prune(node);
  }

  clear(): void {
    for (const topic of [...this.byTopic.keys()]) this.remove(topic);
  }

  /** The visible lines: branches in `expanded`, or with `match` every branch that holds a match. */
  flatten(expanded: ReadonlySet<string>, match: ((topic: string) => boolean) | null): Row[] {
    const keep = match ? this.matching(match) : null;
    const rows: Row[] = [];
    const walk = (parent: TreeNode, level: number) => {
      const shown = keep ? sorted(parent).filter((node) => keep.has(node)) : sorted(parent);
      for (const [i, node] of shown.entries()) {
        const open = (keep ? !expanded.has(`-${node.path}`) : expanded.has(node.path));
        rows.push({ node, level, expanded: open, position: i + 1, siblings: shown.length });
        if (open) walk(node, level + 1);
      }
    };
    walk(this.root, 1);
    return rows;
  }

  /** What a first visit shows open: level by level, as long as the whole level fits in `lines`. */
  firstExpansion(lines = 120): string[] {
    const open: string[] = [];
    let level = sorted(this.root).filter((node) => !node.name.startsWith('$'));
    let used = level.length;
    for (;;) {
      const branches = level.filter((node) => node.children.size > 0);
      used += branches.reduce((sum, node) => sum + node.children.size, 0);
      if (branches.length === 0 || used > lines) return open;
      open.push(...branches.map((node) => node.path));
      level = branches.flatMap(sorted);
    }
  }

  private matching(match: (topic: string) => boolean): Set<TreeNode> {
    const keep = new Set<TreeNode>();
    for (const [topic, node] of this.byTopic) {
      if (!match(topic)) continue;
      for (let at: TreeNode | null = node; at && !keep.has(at); at = at.parent) keep.add(at);
    }
    return keep;
  }

  private plant(topic: string): TreeNode {
    const node = this.grow(topic);
    this.byTopic.set(topic, node);
    if (topic.startsWith('$')) this.system++;
    return node;
  }

  private find(path: string): TreeNode | null {
    let at: TreeNode | undefined = this.root;
    for (const name of path.split('/')) at = at?.children.get(name);
    return at ?? null;
  }

  private prune(node: TreeNode): void {
    for (let at: TreeNode = node; at.parent && at.children.size === 0 && at.leaf === null; at = at.parent) {
      at.parent.children.delete(at.name);
      at.parent.order = null;
    }
    this.structure++;
  }

  private grow(path: string): TreeNode {
    let at = this.root;
    for (const name of path.split('/')) {
      let next = at.children.get(name);
      if (!next) {
        next = newNode(name, at === this.root ? name : `${at.path}/${name}`, at);
        at.children.set(name, next);
        at.order = null;
      }
      at = next;
    }
    this.structure++;
    return at;
  }
}

function sorted(node: TreeNode): TreeNode[] {
  node.order ??= [...node.children.values()].sort(
    (a, b) => Number(a.name.startsWith('$')) - Number(b.name.startsWith('$')) || natural.compare(a.name, b.name),
  );
  return node.order;
}

function newLeaf(topic: string): Leaf {
  return {
    topic, kind: 'text', v: null, q: 'none', why: NO_REASONS, t: 0, received: 0, seq: -1, fraction: false,
    ring: null, rate: 0, since: null, epoch: -1,
  };
}

function fill(leaf: Leaf, update: TopicUpdate, now: number): void {
  const isNew = update.seq !== leaf.seq;
  leaf.kind = update.kind;
  leaf.seq = update.seq ?? leaf.seq + 1;
  if (update.kind === 'point' && typeof update.value === 'object' && update.value !== null) {
    const point = update.value as PointValue;
    leaf.v = point.v;
    leaf.q = point.q === 'good' || point.q === 'bad' ? point.q : 'uncertain';
    leaf.why = point.why ?? NO_REASONS;
    leaf.t = Date.parse(point.t) || Date.parse(update.updated ?? '') || now;
  } else {
    leaf.v = update.value;
    leaf.q = update.kind === 'json' ? worstOf(update.value) : 'none';
    leaf.why = NO_REASONS;
    if (isNew || update.updated) leaf.t = Date.parse(update.updated ?? '') || now;
  }
  if (typeof leaf.v === 'number' && !Number.isInteger(leaf.v)) leaf.fraction = true;
}

/** An object of points, as in a device's `all`, is as good as its worst point; of all else nothing is said. */
function worstOf(value: unknown): Leaf['q'] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'none';
  let worst: Leaf['q'] = 'none';
  for (const member of Object.values(value) as (Partial<PointValue> | null)[]) {
    const q = typeof member === 'object' && member !== null && 'v' in member ? member.q : undefined;
    if (q !== 'good' && q !== 'uncertain' && q !== 'bad') return 'none';
    if (worst !== 'bad' && (q !== 'good' || worst === 'none')) worst = q;
  }
  return worst;
}

/** The update rate in 1/s; it fades when no update has come for longer than it lets expect. */
export function rateNow(leaf: Leaf, now: number): number {
  // In the first seconds the average has seen less than it is an average of.
  if (leaf.since === null || leaf.received <= leaf.since) return 0;
  const seen = Math.max(1, (leaf.received - leaf.since) / 1000);
  const rate = leaf.rate / (1 - Math.exp(-seen / RATE_S));
  const silence = (now - leaf.received) / 1000;
  const expected = rate > 0 ? 2 / rate : 0;
  return rate * Math.exp(-Math.max(0, silence - expected) / RATE_S);
}

/** Takes `steps` updates of which the last is seen: the node sends what is newest, and counts what it left out. */
function sample(leaf: Leaf, steps: number, now: number): void {
  // The first value is the state on arrival, not an update that was seen happening.
  if (steps > 0 && leaf.since === null) {
    leaf.since = now;
  } else if (steps > 0) {
    const passed = Math.max(0, now - leaf.received) / 1000;
    const kept = Math.exp(-passed / RATE_S);
    leaf.rate = passed > 0 ? leaf.rate * kept + (steps / passed) * (1 - kept) : leaf.rate + steps / RATE_S;
  }
  leaf.received = now;
  const x = asNumber(leaf.v);
  if (x === null) return;
  leaf.ring ??= new Ring();
  leaf.ring.push(x);
}

/** A group is as good as its worst member; not known while not all are counted and none counted is bad. */
export function groupGrade(counts: Counts | null | undefined, complete: boolean): Grade {
  if (!counts) return 'unknown';
  if (counts.bad > 0) return 'bad';
  if (!complete) return 'unknown';
  if (counts.uncertain > 0) return 'uncertain';
  return counts.unstated > 0 || counts.good === 0 ? 'none' : 'good';
}

/** A value as a number: true is 1; null for what is none. */
export function asNumber(v: unknown): number | null {
  if (typeof v === 'boolean') return v ? 1 : 0;
  return typeof v === 'number' && Number.isFinite(v) ? v : null;
}
