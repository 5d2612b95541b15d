import { expect, test } from 'vitest';
import type { Quality } from '../../src/lib/api';
import { RING_VALUES } from '../../src/lib/ring';
import { rateNow, TopicTree } from '../../src/lib/tree';

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

test('branches count what is not good below them', () => {
  const tree = grown('a/b', 'a/c');
  tree.apply(point('a/b', 1, 'bad'), 0);
  tree.apply(point('a/c', 1, 'uncertain'), 0);
  tree.apply(point('a/new', 1, 'bad'), 0);
  expect(tree.root).toMatchObject({ leaves: 3, bad: 2, uncertain: 1 });
  tree.remove('a/b');
  tree.apply(point('a/new', 1), 0);
  expect(tree.root).toMatchObject({ leaves: 2, bad: 0, uncertain: 1 });
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
  expect(tree.leaf('a')).toMatchObject({ v: { x: 1 }, q: 'good', t: 5000, ring: null });
});

test('a first visit opens whole levels while they fit', () => {
  expect(grown('site/a/x', 'site/b/y').firstExpansion()).toEqual(['site', 'site/a', 'site/b']);
  const wide = grown(...Array.from({ length: 200 }, (_, i) => `site/unit${i}/x`));
  expect(wide.firstExpansion()).toEqual([]);
});
