// A trend in an element of the page: the drawing for as long as the element is there, and its lines read again while the range moves on.

import type { Range } from './trend';
import type { TrendChart, TrendOptions } from './trendchart';

/** Makes the drawing, whose script is read first; the result takes it away. Null is told when it is gone. */
export function drawIn(host: HTMLElement, options: TrendOptions, tell: (chart: TrendChart | null) => void): () => void {
  let gone = false;
  let chart: TrendChart | undefined;
  void import('./drawing').then(({ TrendChart }) => {
    if (!gone) tell((chart = new TrendChart(host, options)));
  });
  return () => {
    gone = true;
    chart?.destroy();
    tell(null);
  };
}

/** Reads now, and again each time that the range has moved by a pixel of so many; the result ends that. Without a range it reads once. */
export function readAgain(load: () => Promise<void>, range: Range | null, pixels: number, msMin: number): () => void {
  void load();
  if (range === null) return () => {};
  const timer = setInterval(() => void load(), Math.max(msMin, (range.to - range.from) / pixels));
  return () => clearInterval(timer);
}
