// What the screen says, as attributes that a program reads (README.md, Attributes).

import type { Counts, Grade } from './api';
import { rateNow, type Leaf } from './tree';

/** Longer values are not repeated in an attribute. */
const VALUE_CHARS_MAX = 4_096;

export type Data = Record<string, string | number | boolean | undefined>;

/** An action that gives an element its attributes; those that are undefined or no more are taken away. */
export function data(node: HTMLElement, all: Data) {
  let shown: Data = {};
  const update = (next: Data) => {
    for (const name of Object.keys({ ...shown, ...next })) {
      const value = next[name];
      if (value === shown[name]) continue;
      if (value === undefined) node.removeAttribute(name);
      else node.setAttribute(name, String(value));
    }
    shown = next;
  };
  update(all);
  return { update };
}

/** One topic with what is shown of it. */
export function leafData(topic: string, leaf: Leaf | null, now: number, fresh: boolean): Data {
  if (!leaf) return { 'data-topic': topic, 'data-kind': 'none' };
  const value = JSON.stringify(leaf.v) ?? 'null';
  return {
    'data-topic': topic,
    'data-kind': leaf.kind,
    'data-value': value.length <= VALUE_CHARS_MAX ? value : undefined,
    'data-quality': leaf.q,
    'data-why': JSON.stringify(leaf.why),
    'data-time': new Date(leaf.t).toISOString(),
    'data-age-ms': Math.round(now - leaf.t),
    'data-seq': leaf.seq,
    'data-rate': Number(rateNow(leaf, now).toFixed(3)),
    'data-stale': !fresh,
  };
}

/** A branch with the counts of what is below it. */
export function groupData(path: string, counts: Counts | null, grade: Grade, old: boolean): Data {
  return { 'data-group': path, 'data-group-quality': grade, 'data-group-stale': old, ...countData(counts) };
}

/** Values by quality; without attributes where they are not known. */
export function countData(counts: Counts | null): Data {
  if (!counts) return {};
  return {
    'data-good': counts.good,
    'data-uncertain': counts.uncertain,
    'data-bad': counts.bad,
    'data-unstated': counts.unstated,
    'data-total': counts.total,
  };
}
