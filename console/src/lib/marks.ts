// Marks of alarms on a trend: when they came up and when they returned, as the journal has it.

import type uPlot from 'uplot';
import { type AlarmChange, MARKS } from './alarms';
import { get } from './api';
import type { Range } from './trend';

export interface Mark extends Pick<AlarmChange, 'id' | 'topic' | 'kind' | 'priority' | 'text' | 'transition'> {
  /** ms since 1970. */
  t: number;
}

/** More cannot be told apart on a screen: the newest are drawn. */
export const MARKS_MAX = 200;
const ROWS_MAX = 10_000;
/** Pages of one reading: one may be short, or empty. */
const PAGES_MAX = 10;
const DRAWN = ['raised', 'returned'];

/** The marks of changes, the oldest first. */
export function marksOf(changes: readonly AlarmChange[]): Mark[] {
  const found = changes.filter(({ transition }) => DRAWN.includes(transition)).map(({ id, time, topic, kind, priority, text, transition }) => ({ id, t: Date.parse(time), topic, kind, priority, text, transition }));
  return found.sort((a, b) => a.t - b.t || a.id - b.id).slice(-MARKS_MAX);
}

/** What the journal has of topics in a range. */
export async function readMarks(topics: readonly string[], { from, to }: Range): Promise<Mark[]> {
  const of = async (filter: string) => {
    const rows: AlarmChange[] = [];
    let after: number | null = null;
    for (let page = 0; page < PAGES_MAX; page++) {
      const answer: { rows: AlarmChange[]; next: number | null } = await get('/v1/alarms/journal', { filter, from: new Date(from).toISOString(), to: new Date(to + 1_000).toISOString(), after, limit: ROWS_MAX });
      rows.push(...answer.rows);
      after = answer.next;
      if (after === null) break;
    }
    return rows;
  };
  return marksOf((await Promise.all(topics.map(of))).flat());
}

/** A line for each mark; the shape of its priority is where it came up, an empty circle where it returned. */
export function drawMarks(plot: uPlot, color: (name: string) => string, marks: readonly Mark[]): void {
  const { ctx, bbox } = plot;
  const scale = devicePixelRatio;
  ctx.save();
  ctx.font = `${11 * scale}px system-ui, sans-serif`;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'bottom';
  ctx.lineWidth = scale;
  for (const { t, priority, transition } of marks) {
    const x = plot.valToPos(t, 'x', true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    const raised = transition === 'raised';
    ctx.strokeStyle = ctx.fillStyle = color(!raised ? '--muted' : priority === 'critical' ? '--bad' : '--warn');
    ctx.setLineDash(raised ? [] : [2 * scale, 3 * scale]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText(raised ? (MARKS[priority] ?? '●') : '○', x, bbox.top + bbox.height);
  }
  ctx.restore();
}
