// The drawing of one series with uPlot. Loaded only when a chart is shown.

import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { shifted, zoneText } from './format';
import type { Series, Span } from './history';
import { dayText, decimal } from './locale';
import { Plot } from './plot';

export interface ChartData {
  series: Series;
  /** Smallest and largest value of each bucket, where the series is a mean. */
  envelope: { low: (number | null)[]; high: (number | null)[] } | null;
  spans: Span[];
  from: number;
  to: number;
}

export interface ChartOptions {
  stepped: boolean;
  bool: boolean;
  /** The user marked a span, in ms since 1970. */
  zoom(from: number, to: number): void;
  /** The value under the cursor, by index, or null. */
  hover(index: number | null): void;
}

const HEIGHT = 240;
export const COLORS = ['--muted', '--line', '--line-strong', '--accent', '--band', '--bad', '--bad-soft', '--warn', '--warn-soft'];

/** A chart inside an element. It follows the element's width until it is destroyed. */
export class Chart extends Plot<ChartData> {
  constructor(
    host: HTMLElement,
    private readonly options: ChartOptions,
  ) {
    super(host);
  }

  protected extent() {
    return { width: this.host.clientWidth, height: HEIGHT };
  }

  draw(data: ChartData): void {
    const lines = data.envelope ? 4 : 2;
    if (this.plot?.series.length !== lines) this.clear();
    this.data = data;
    const { series, envelope } = data;
    const columns = envelope
      ? [series.xs, envelope.high, envelope.low, series.ys]
      : [series.xs, series.ys];
    const aligned = columns as uPlot.AlignedData;
    this.plot ??= new uPlot(this.setup(lines === 4), aligned, this.host);
    this.plot.batch(() => {
      this.plot?.setData(aligned, false);
      this.plot?.setScale('x', { min: data.from, max: data.to });
    });
  }

  private setup(enveloped: boolean): uPlot.Options {
    const color = palette(this.host);
    const { stepped, bool } = this.options;
    const paths = stepped ? uPlot.paths.stepped?.({ align: 1 }) : uPlot.paths.linear?.();
    const axis = { stroke: color('--muted'), font: '11px system-ui, sans-serif', ticks: { show: false } };
    const edge = { stroke: 'transparent', points: { show: false } };
    return {
      ...this.extent(),
      ms: 1,
      tzDate: (ms) => localFields(ms),
      legend: { show: false },
      padding: [8, 8, 0, 0],
      cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { size: 7 } },
      scales: { x: { time: true }, y: bool ? { range: [-0.1, 1.1] } : { range: roomy } },
      axes: [
        { ...axis, grid: { stroke: color('--line'), width: 1 }, size: 44, space: 66, values: timeLabels },
        bool
          ? { ...axis, grid: { show: false }, size: 40, splits: () => [0, 1], values: () => [t('off'), t('on')] }
          : { ...axis, grid: { stroke: color('--line'), width: 1 }, size: widthOfLabels },
      ],
      series: [
        {},
        ...(enveloped ? [edge, edge] : []),
        { stroke: color('--accent'), width: 1.6, paths, points: { show: sparse, size: 4, fill: color('--accent') } },
      ],
      bands: enveloped ? [{ series: [1, 2], fill: color('--band') }] : [],
      hooks: {
        drawClear: [(plot) => this.drawSpans(plot, color)],
        setSelect: [(plot) => this.select(plot)],
        setCursor: [(plot) => this.options.hover(plot.cursor.idx ?? null)],
      },
    };
  }

  private select(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 4) return;
    this.options.zoom(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x'));
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  /** Spans of doubtful values are tinted with a bar on top; where nothing was recorded lies a hatch. */
  private drawSpans(plot: uPlot, color: (name: string) => string): void {
    const { ctx, bbox } = plot;
    for (const span of this.data?.spans ?? []) {
      const from = Math.max(bbox.left, plot.valToPos(span.from, 'x', true));
      const to = Math.min(bbox.left + bbox.width, plot.valToPos(span.to, 'x', true));
      if (to < bbox.left || from > bbox.left + bbox.width) continue;
      const width = Math.max(2, to - from);
      if (span.q === 'none') {
        hatch(ctx, from, bbox.top, width, bbox.height, color('--line-strong'));
        continue;
      }
      const name = span.q === 'bad' ? '--bad' : '--warn';
      ctx.fillStyle = color(`${name}-soft`);
      ctx.fillRect(from, bbox.top, width, bbox.height);
      ctx.fillStyle = color(name);
      ctx.fillRect(from, bbox.top, width, (span.q === 'bad' ? 5 : 2.5) * devicePixelRatio);
    }
  }
}

/** A little room above and below; a flat line gets one unit of its size. */
export function roomy(_plot: uPlot, low: number | null, high: number | null): uPlot.Range.MinMax {
  if (low === null || high === null) return [0, 1];
  const spread = high - low || Math.abs(high) * 0.02 || 1;
  return [low - spread * 0.08, high + spread * 0.08];
}

export function widthOfLabels(_plot: uPlot, values: string[] | null): number {
  return 16 + 7 * Math.max(3, ...(values ?? []).map((text) => text.length));
}

/** Times as the rest of the console writes them; the date stands below the first of each day. */
export function timeLabels(_plot: uPlot, splits: number[], _axis: number, _space: number, step: number): string[] {
  let day = '';
  return splits.map((ms) => {
    const text = shifted(ms).toISOString();
    const before = day;
    day = dayText(shifted(ms));
    if (step >= 86_400_000) return LANG === 'en' ? day.slice(5) : day.replace(/\W?\d{4}\W?/, '');
    const clock = step < 1_000 ? decimal(text.slice(11, 23)) : text.slice(11, step < 60_000 ? 19 : 16);
    return day === before ? clock : `${clock}\n${day}`;
  });
}

export function sparse(plot: uPlot, _series: number, first: number, last: number): boolean {
  return last - first < plot.bbox.width / devicePixelRatio / 14;
}

/** The date whose local fields, which uPlot reads, are the fields of the chosen zone. */
export function localFields(ms: number): Date {
  return zoneText(ms) === 'UTC' ? uPlot.tzDate(new Date(ms), 'Etc/UTC') : new Date(ms);
}

export function hatch(ctx: CanvasRenderingContext2D, x: number, y: number, width: number, height: number, stroke: string): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, width, height);
  ctx.clip();
  ctx.beginPath();
  const pitch = 7 * devicePixelRatio;
  for (let at = x - height; at < x + width; at += pitch) {
    ctx.moveTo(at, y + height);
    ctx.lineTo(at + height, y);
  }
  ctx.strokeStyle = stroke;
  ctx.lineWidth = devicePixelRatio;
  ctx.stroke();
  ctx.restore();
}

/** Colours of the theme in force; canvas knows no custom properties and no light-dark(). */
export function palette(host: HTMLElement, names: readonly string[] = COLORS): (name: string) => string {
  const probe = document.createElement('i');
  host.append(probe);
  const known = new Map<string, string>();
  const find = (name: string) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  for (const name of names) known.set(name, find(name));
  probe.remove();
  return (name) => known.get(name) ?? '#888';
}
