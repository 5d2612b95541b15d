import { expect, test } from 'vitest';
import { countData, groupData, leafData } from '../../src/lib/data';
import { TopicTree } from '../../src/lib/tree';

test('all that is shown of a value can be read by a program', () => {
  const tree = new TopicTree();
  const t = '2026-11-20T09:36:00.123Z';
  const why = ['sensor broken', 'away'];
  tree.apply({ topic: 'a/b', kind: 'point', value: { v: 59.98, q: 'bad', why, t }, seq: 7 }, Date.parse(t) + 1_000);
  expect(leafData('a/b', tree.leaf('a/b'), Date.parse(t) + 2_500, true)).toEqual({
    'data-topic': 'a/b', 'data-kind': 'point', 'data-value': '59.98', 'data-quality': 'bad', 'data-why': '["sensor broken","away"]',
    'data-time': t, 'data-age-ms': 2_500, 'data-seq': 7, 'data-rate': 0, 'data-stale': false,
  });
  expect(leafData('a/c', null, 0, true)).toEqual({ 'data-topic': 'a/c', 'data-kind': 'none' });
  tree.apply({ topic: 'long', kind: 'text', value: 'x'.repeat(5_000), seq: 1 }, 0);
  expect(leafData('long', tree.leaf('long'), 0, false)).toMatchObject({ 'data-value': undefined, 'data-quality': 'none', 'data-stale': true });
});

test('counts that are not known have no attributes', () => {
  expect(countData(null)).toEqual({});
  expect(groupData('a', { good: 1, uncertain: 2, bad: 3, unstated: 4, total: 10 }, 'bad', false)).toEqual({
    'data-group': 'a', 'data-group-quality': 'bad', 'data-group-stale': false,
    'data-good': 1, 'data-uncertain': 2, 'data-bad': 3, 'data-unstated': 4, 'data-total': 10,
  });
});
