// What the node says of the points of a trend: thinned to the pixels of the screen by the node, never by the browser.

import { api, get, type HistoryRow, type PointValue, type TopicsPage } from './api';
import { asksRaw, byTopic, type Line, type Range, RAW_ROWS_MAX, type Shape, step, type Step, toLine } from './trend';

export interface TrendAsked {
  topics: readonly string[];
  shapes: readonly Shape[];
  range: Range;
  /** Pixels of the drawing. */
  pixels: number;
}

export interface TrendAnswer {
  lines: Line[];
  step: Step;
}

export async function loadTrend(asked: TrendAsked): Promise<TrendAnswer> {
  const spanMs = asked.range.to - asked.range.from;
  const [rawAnswer, held] = await Promise.all([asksRaw(spanMs, asked.pixels) ? asRecorded(asked) : null, heldStates(asked)]);
  const answer = rawAnswer ?? (await buckets(asked, step(spanMs, asked.pixels)));
  for (const [i, line] of answer.lines.entries()) hold(line, held.get(asked.topics[i]!), asked.range.from);
  return answer;
}

const times = ({ from, to }: Range) => ({ from: new Date(from).toISOString(), to: new Date(to).toISOString() });

/** Values as recorded; null where they are too many. */
async function asRecorded({ topics, shapes, range }: TrendAsked): Promise<TrendAnswer | null> {
  const rows = await api.history({ topic: topics, ...times(range), limit: RAW_ROWS_MAX });
  if (rows.length >= RAW_ROWS_MAX) return null;
  const found = byTopic(rows);
  return { step: { every: null, ms: 0 }, lines: topics.map((topic, i) => toLine(topic, found.get(topic) ?? [], null, 0, shapes[i]!.stepped)) };
}

/** Buckets with their means (of states the last value) and the smallest and largest values. */
async function buckets({ topics, shapes, range }: TrendAsked, width: Step): Promise<TrendAnswer> {
  const of = (stepped: boolean) => topics.filter((_, i) => shapes[i]!.stepped === stepped);
  const rows = async (agg: string, topic: readonly string[]): Promise<HistoryRow[]> => {
    const limit = topic.length * (Math.ceil((range.to - range.from) / width.ms) + 2);
    return topic.length === 0 ? [] : api.history({ topic, ...times(range), every: width.every, agg, limit });
  };
  const [means, lasts, low, high] = await Promise.all([rows('mean', of(false)), rows('last', of(true)), rows('min', topics), rows('max', topics)]);
  const [main, least, most] = [byTopic([...means, ...lasts]), byTopic(low), byTopic(high)];
  const lines = topics.map((topic, i) => {
    const edges = { low: least.get(topic) ?? [], high: most.get(topic) ?? [] };
    return toLine(topic, main.get(topic) ?? [], edges, width.ms, shapes[i]!.stepped);
  });
  return { step: width, lines };
}

/** The values that topics had at an instant; none where the node does not say. */
const valuesAt = (filter: string, at: string) => get<TopicsPage>('/v1/topics', { filter, at }).then(({ topics }) => topics, () => []);

/** The values with which states begin: they may have changed last before the range. */
async function heldStates({ topics, shapes, range }: TrendAsked): Promise<Map<string, PointValue>> {
  const states = topics.filter((_, i) => shapes[i]!.stepped);
  const found = await Promise.all(states.map((topic) => valuesAt(topic, times(range).from)));
  const points = found.flat().filter(({ kind }) => kind === 'point');
  return new Map(points.map(({ topic, value }) => [topic, value as PointValue]));
}

function hold(line: Line, held: PointValue | undefined, from: number): void {
  if (!held || (line.xs[0] ?? Infinity) <= from) return;
  const y = typeof held.v === 'boolean' ? Number(held.v) : typeof held.v === 'number' ? held.v : null;
  line.xs.unshift(from);
  line.ys.unshift(y);
  line.qs.unshift(held.q);
  line.low?.unshift(y);
  line.high?.unshift(y);
}
