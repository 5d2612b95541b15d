import { expect, test } from 'vitest';
import type { Quality } from '../../src/lib/api';
import { RING_VALUES } from '../../src/lib/ring';
import { groupGrade, rateNow, TopicTree } from '../../src/lib/tree';

const T = '2026-11-20T09:36:00.123Z';
let seq = 0;
const point = (topic: string, v: unknown, q: Quality = 'good', at = ++seq) =>
  ({ topic, kind: 'point' as const, value: { v, q, t: T }, seq: at });

function grown(...topics: string[]): TopicTree {
  const tree = new TopicTree();
  for (const topic of topics) tree.apply(point(topic, 1), 0);
  return tree;
}
const names = (tree: TopicTree, open: string[], match: ((topic: string) => boolean) | null = null) =>
  tree.flatten(new Set(open), match).map((row) => `${'.'.repeat(row.level)}${row.node.name}`);

test('branches come in natural order, $ topics last, and only open ones are listed', () => {
  const tree = grown('$SYS/x', 'site/feeder10/v', 'site/feeder2/v', 'site/feeder2/a');
  expect(names(tree, [])).toEqual(['.site', '.$SYS']);
  expect(names(tree, ['site', 'site/feeder2'])).toEqual(['.site', '..feeder2', '...a', '...v', '..feeder10', '.$SYS']);
});

test('a filter opens what it finds, and a branch can still be closed', () => {
  const tree = grown('a/b/c', 'a/d/e', 'f/c');
  const match = (topic: string) => topic.endsWith('c');
  expect(names(tree, [], match)).toEqual(['.a', '..b', '...c', '.f', '..c']);
  expect(names(tree, ['-a'], match)).toEqual(['.a', '.f', '..c']);
});

test('a topic may be a branch too', () => {
  const tree = grown('breaker', 'breaker/position');
  expect(names(tree, ['breaker'])).toEqual(['.breaker', '..position']);
  tree.remove('breaker');
  expect(names(tree, ['breaker'])).toEqual(['.breaker', '..position']);
  tree.remove('breaker/position');
  expect(names(tree, [])).toEqual([]);
});

test('a group is as good as its worst member, and unknown while not all is counted', () => {
  const counts = (good: number, uncertain: number, bad: number, unstated = 0) =>
    ({ good, uncertain, bad, unstated, total: good + uncertain + bad + unstated });
  expect(groupGrade(counts(5, 0, 0), true)).toBe('good');
  expect(groupGrade(counts(5, 1, 0), true)).toBe('uncertain');
  expect(groupGrade(counts(50_000, 1, 1), true)).toBe('bad');
  expect(groupGrade(counts(5, 0, 0, 1), true)).toBe('none');
  expect(groupGrade(counts(5, 0, 0), false)).toBe('unknown');
  expect(groupGrade(counts(5, 0, 1), false)).toBe('bad');
  expect(groupGrade(undefined, true)).toBe('unknown');
});

test('topics of the node itself are no topics of the site', () => {
  const tree = grown('$SYS/x', '$SYS/y', 'a/b');
  expect(tree.size).toBe(1);
  tree.remove('$SYS/x');
  expect(tree.size).toBe(1);
});

test('who publishes without a quality has none, and a published point has its own quality and time', () => {
  const tree = new TopicTree();
  const updated = '2026-11-20T10:00:00.000Z';
  tree.apply({ topic: 'a', kind: 'json', value: 23.5, seq: 1, updated }, 9e12);
  expect(tree.leaf('a')).toMatchObject({ q: 'none', t: Date.parse(updated) });
  tree.apply({ topic: 'b', kind: 'point', value: { v: 1, q: 'bad', why: ['sensor'], t: T }, seq: 1, updated }, 9e12);
  expect(tree.leaf('b')).toMatchObject({ q: 'bad', why: ['sensor'], t: Date.parse(T) });
});

test('an object of points is as good as its worst point', () => {
  const of = (...qs: string[]) => {
    const tree = new TopicTree();
    const value = Object.fromEntries(qs.map((q, i) => [`p${i}`, q === '' ? 5 : { v: 1, q, t: T }]));
    tree.apply({ topic: 'all', kind: 'json', value, seq: 1 }, 0);
    return tree.leaf('all')!.q;
  };
  expect([of('good', 'good'), of('bad', 'good'), of('good', 'bad', 'uncertain'), of('uncertain', 'good'), of('good', ''), of()])
    .toEqual(['good', 'bad', 'bad', 'uncertain', 'none', 'none']);
});

test('what was heard before the stream was lost, or is not followed, is not live', () => {
  const tree = grown('a', 'b');
  tree.epoch++;
  expect(tree.isLive(tree.leaf('a')!)).toBe(false);
  tree.apply(point('a', 1), 0);
  tree.apply(point('b', 1), 0, false);
  expect([tree.isLive(tree.leaf('a')!), tree.isLive(tree.leaf('b')!)]).toEqual([true, false]);
});

test('a branch that the node names is there before its topics, and goes with them', () => {
  const tree = grown('a/b');
  tree.addBranch('c/d');
  expect(names(tree, ['c'])).toEqual(['.a', '.c', '..d']);
  tree.dropBranch('c/d');
  tree.dropBranch('a');
  expect(names(tree, [])).toEqual(['.a']);
});

test('the same state again, as after a reconnect, is no new sample', () => {
  const tree = new TopicTree();
  tree.apply(point('a', 1, 'good', 1), 0);
  tree.apply(point('a', 1, 'good', 1), 1000);
  expect(tree.leaf('a')).toMatchObject({ rate: 0, received: 0, t: Date.parse(T) });
  expect(tree.leaf('a')?.ring?.length).toBe(1);
});

test('the rate follows updates and fades without them', () => {
  const tree = new TopicTree();
  for (let i = 0; i <= 1200; i++) tree.apply(point('a', i), i * 100);
  const leaf = tree.leaf('a')!;
  expect(rateNow(leaf, 120_000)).toBeCloseTo(10, 0);
  expect(rateNow(leaf, 220_000)).toBeLessThan(0.01);
});

test('the rate is right from the first seconds, and counts updates that were left out on the way', () => {
  /** The rate after updates of `steps` each that come every `every` ms, the first value being there since some time before. */
  const after = (ms: number, every: number, steps: number, before: number) => {
    const tree = new TopicTree();
    tree.apply(point('r', 0, 'good', 1), 0);
    for (let at = before, version = 1; at <= ms; at += every) tree.apply(point('r', at, 'good', (version += steps)), at);
    return rateNow(tree.leaf('r')!, ms);
  };
  for (const before of [1, 50, 99]) expect(after(3_000, 100, 1, before)).toBeCloseTo(10, 0);
  for (const before of [1, 500, 999]) expect(after(3_500, 1_000, 1, before)).toBeCloseTo(1, 1);
  // A hundred updates a second come as ten messages.
  expect(after(2_000, 100, 10, 60)).toBeGreaterThan(98);
  expect(after(2_000, 100, 10, 60)).toBeLessThan(102);
  expect(after(30_000, 700, 1, 3)).toBeCloseTo(1 / 0.7, 1);
});

test('recorded values come before those seen live', () => {
  const tree = new TopicTree();
  tree.apply(point('a', 3), 0);
  tree.apply(point('a', 4), 1);
  tree.seed('a', [1, 2, 3, 4]);
  const ring = tree.leaf('a')!.ring!;
  expect(Array.from({ length: ring.length }, (_, i) => ring.at(i))).toEqual([1, 2, 3, 4]);
  tree.seed('a', Array.from({ length: 500 }, (_, i) => i));
  expect(tree.leaf('a')!.ring!.length).toBe(RING_VALUES);
});

test('payloads that are no points keep their text and time of arrival', () => {
  const tree = new TopicTree();
  tree.apply({ topic: 'a', kind: 'json', value: { x: 1 }, seq: 1 }, 5000);
  expect(tree.leaf('a')).toMatchObject({ v: { x: 1 }, q: 'none', t: 5000, ring: null });
});

test('a first visit opens whole levels while they fit', () => {
  expect(grown('site/a/x', 'site/b/y').firstExpansion()).toEqual(['site', 'site/a', 'site/b']);
  const wide = grown(...Array.from({ length: 200 }, (_, i) => `site/unit${i}/x`));
  expect(wide.firstExpansion()).toEqual([]);
});
