// The tree of last values. Plain objects, changed in place: the screen asks for the few rows that it shows.

import type { PointValue, Quality, TopicUpdate } from './api';
import { Ring } from './ring';

/** Seconds over which the update rate is averaged. */
const RATE_S = 10;

/** What a topic holds. */
export interface Leaf {
  topic: string;
  kind: TopicUpdate['kind'];
  /** The value alone for a point, else the payload. */
  v: unknown;
  q: Quality;
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
}

export interface TreeNode {
  name: string;
  path: string;
  parent: TreeNode | null;
  children: Map<string, TreeNode>;
  /** Children in order; null when it must be made again. */
  order: TreeNode[] | null;
  leaf: Leaf | null;
  /** Topics in this branch, itself included, and how many of them are not good. */
  leaves: number;
  uncertain: number;
  bad: number;
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
  return {
    name, path, parent, children: new Map(), order: null, leaf: null, leaves: 0, uncertain: 0, bad: 0,
  };
}

export class TopicTree {
  readonly root = newNode('', '', null);
  /** Grows whenever topics come or go. */
  structure = 0;
  private readonly byTopic = new Map<string, TreeNode>();

  get size(): number {
    return this.byTopic.size;
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
  apply(update: TopicUpdate, now: number): void {
    const node = this.byTopic.get(update.topic) ?? this.plant(update.topic);
    const old = node.leaf;
    const first = old === null;
    const leaf = old ?? newLeaf(update.topic);
    node.leaf = leaf;
    const before = leaf.q;
    const again = !first && update.seq === leaf.seq;
    fill(leaf, update, now);
    if (!again) sample(leaf, first, now);
    if (first) {
      this.count(node, 'good', leaf.q, 1);
    } else if (before !== leaf.q) {
      this.count(node, before, leaf.q, 0);
    }
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
    this.count(node, node.leaf.q, 'good', -1);
    this.byTopic.delete(topic);
    node.leaf = null;
    for (let at: TreeNode = node; at.parent && at.leaves === 0; at = at.parent) {
      at.parent.children.delete(at.name);
      at.parent.order = null;
    }
    this.structure++;
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
        const open = node.children.size > 0 && (keep ? !expanded.has(`-${node.path}`) : expanded.has(node.path));
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
    let at = this.root;
    for (const name of topic.split('/')) {
      let next = at.children.get(name);
      if (!next) {
        next = newNode(name, at === this.root ? name : `${at.path}/${name}`, at);
        at.children.set(name, next);
        at.order = null;
      }
      at = next;
    }
    this.byTopic.set(topic, at);
    this.structure++;
    return at;
  }

  private count(node: TreeNode, before: Quality, after: Quality, leaves: -1 | 0 | 1): void {
    const by = (q: Quality) => Number(after === q) - Number(before === q);
    for (let at: TreeNode | null = node; at; at = at.parent) {
      at.leaves += leaves;
      at.uncertain += by('uncertain');
      at.bad += by('bad');
    }
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
    topic, kind: 'text', v: null, q: 'good', why: NO_REASONS, t: 0, received: 0, seq: -1, fraction: false,
    ring: null, rate: 0,
  };
}

function fill(leaf: Leaf, update: TopicUpdate, now: number): void {
  const isNew = update.seq !== leaf.seq;
  leaf.kind = update.kind;
  leaf.seq = update.seq;
  if (update.kind === 'point' && typeof update.value === 'object' && update.value !== null) {
    const point = update.value as PointValue;
    leaf.v = point.v;
    leaf.q = point.q === 'uncertain' || point.q === 'bad' ? point.q : 'good';
    leaf.why = point.why ?? NO_REASONS;
    leaf.t = Date.parse(point.t) || now;
  } else {
    leaf.v = update.value;
    leaf.q = 'good';
    leaf.why = NO_REASONS;
    if (isNew || update.updated) leaf.t = Date.parse(update.updated ?? '') || now;
  }
  if (typeof leaf.v === 'number' && !Number.isInteger(leaf.v)) leaf.fraction = true;
}

/** The current update rate in 1/s, fading when nothing comes. */
export function rateNow(leaf: Leaf, now: number): number {
  return leaf.rate * Math.exp(-Math.max(0, now - leaf.received) / 1000 / RATE_S);
}

function sample(leaf: Leaf, first: boolean, now: number): void {
  // The first value is the state on arrival, not an update that was seen happening.
  leaf.rate = first ? 0 : rateNow(leaf, now) + 1 / RATE_S;
  leaf.received = now;
  const x = asNumber(leaf.v);
  if (x === null) return;
  leaf.ring ??= new Ring();
  leaf.ring.push(x);
}

/** A value as a number: true is 1; null for what is none. */
export function asNumber(v: unknown): number | null {
  if (typeof v === 'boolean') return v ? 1 : 0;
  return typeof v === 'number' && Number.isFinite(v) ? v : null;
}
