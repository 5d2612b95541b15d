import { expect, test } from 'vitest';
import svg from '../../../vectors/diagrams/svg.json';
import networks from '../../../vectors/diagrams/topology.json';
import { allowed, nearest } from '../../src/lib/diagram';
import { type Network, positionOf, states } from '../../src/lib/topology';

test('networks have the states of the cases that the node has', () => {
  expect(networks.cases.length).toBeGreaterThan(10);
  for (const { name, expect: expected, ...network } of networks.cases) {
    expect([name, states(network as unknown as Network)]).toEqual([name, expected]);
  }
});

test('5,000 nodes and 6,000 switches have states', () => {
  const edges = Array.from({ length: 6_000 }, (_, i) => [i % 5_000, (i * 7 + 1) % 5_000, 'closed'] as const);
  const found = states({ nodes: 5_000, edges, sources: [[0, 'closed']], earths: [] });
  expect(found.filter((state) => state === 'energised').length).toBeGreaterThan(1);
});

test('only good values are positions', () => {
  expect([true, false, 0, 1, 2, 3, 'open', null].map((v) => positionOf(v, 'good'))).toEqual(['closed', 'open', 'moving', 'open', 'closed', 'unknown', 'unknown', 'unknown']);
  expect([positionOf(true, 'bad'), positionOf(true, 'uncertain'), positionOf(true, 'unknown'), positionOf(true, 'none')]).toEqual(['unknown', 'unknown', 'unknown', 'closed']);
});

test('attributes that do more than draw are left out, and identifiers are those of the diagram', () => {
  const cases: [string, string, string | null][] = [
    ['onclick', 'x', null], ['style', 'x', null], ['href', 'http://x', null], ['href', 'data:x#a', null], ['href', '#a', '#sld-a'], ['xlink:href', '#a', '#sld-a'],
    ['fill', 'url(http://x)', null], ['fill', 'URL( #a )', 'url(#sld-a)'], ['fill', '#fff', '#fff'], ['fill', 'u\\72l(x)', null], ['id', 'alarms', 'sld-alarms'], ['data-topic', 'a/b', 'a/b'], ['tabindex', '0', null],
  ];
  for (const [name, value, expected] of cases) expect([name, value, allowed(name, value)]).toEqual([name, value, expected]);
  expect(svg.bad.length).toBeGreaterThan(10);
});

test('arrows lead to the nearest element on their side', () => {
  const rect = (x: number, y: number) => ({ x, y, width: 2, height: 2 }) as DOMRect;
  const all = [rect(0, 0), rect(10, 0), rect(0, 10), rect(30, 1)];
  expect(['ArrowRight', 'ArrowDown', 'ArrowLeft', 'ArrowUp'].map((key) => nearest(all[0]!, all, key))).toEqual([1, 2, -1, -1]);
});
