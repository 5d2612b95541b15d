import { expect, test } from 'vitest';
import type { AlarmChange } from '../../src/lib/alarms';
import { type Mark, drawMarks, MARKS_MAX, marksOf } from '../../src/lib/marks';

const change = (id: number, transition: string, more: Partial<AlarmChange> = {}): AlarmChange => ({
  id, transition, time: new Date(id * 1_000).toISOString(), topic: 'a/b', kind: 'high', seq: 1, priority: 'high', text: 'hot', value: 5, who: null, why: null, ...more,
});

test('an alarm is marked where it is raised and where it returns, the oldest first', () => {
  const marks = marksOf([change(3, 'returned'), change(2, 'acknowledged'), change(1, 'raised'), change(4, 'noted')]);
  expect(marks.map(({ t, transition }) => [t, transition])).toEqual([[1_000, 'raised'], [3_000, 'returned']]);
});

test('of too many marks the newest are kept', () => {
  const marks = marksOf(Array.from({ length: MARKS_MAX + 5 }, (_, i) => change(i, 'raised')));
  expect([marks.length, marks[0]!.id]).toEqual([MARKS_MAX, 5]);
});

test('marks are drawn within the drawing only, each priority by its shape', () => {
  const drawn: unknown[] = [];
  const ctx = { save() {}, restore() {}, beginPath() {}, moveTo() {}, lineTo() {}, stroke() {}, setLineDash() {}, fillText: (text: string, x: number) => drawn.push([text, x]) };
  const plot = { ctx, bbox: { left: 10, top: 0, width: 100, height: 50 }, valToPos: (t: number) => t };
  const mark = (t: number, priority: string, transition: string): Mark => ({ id: t, t, topic: 'a', kind: 'high', text: '', priority, transition });
  Object.assign(globalThis, { devicePixelRatio: 1 });
  drawMarks(plot as never, (name) => name, [mark(5, 'high', 'raised'), mark(20, 'critical', 'raised'), mark(40, 'low', 'raised'), mark(60, 'low', 'returned'), mark(200, 'low', 'raised')]);
  expect(drawn).toEqual([['■', 20], ['▼', 40], ['○', 60]]);
});
