// The drawing of several points with uPlot: two axes, states in lanes at the bottom, quality in lanes at the top.

import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { COLORS, hatch, localFields, palette, roomy, sparse, timeLabels, widthOfLabels } from './chart';
import { zoneText } from './format';
import { qualitySpans, type Span } from './history';
import { Plot } from './plot';
import type { Line, Range, Shape } from './trend';

export interface TrendData extends Range {
  lines: Line[];
  shapes: Shape[];
  /** Where the last value holds: the present, or the end of a range that is over. */
  end: number;
  /** Draws what else happened over the lines. */
  marks?: ((plot: uPlot, color: (name: string) => string) => void) | undefined;
}

export interface TrendOptions {
  zoom(range: Range): void;
  /** The instant under the cursor, or null. */
  hover(t: number | null): void;
}

/** Lines differ by their strokes, too. */
const DASHES = [[], [6, 3], [2, 2], [10, 3, 2, 3]];
/** A gap of one line lasts until its next value, whatever others have in between. */
const NULL_EXPAND = 2;
/** Height of the quality lane of one point. */
const LANE_PX = 5;
const HEIGHT_MIN = 180;
/** States take a quarter of the height, more where there is nothing else. */
const STATE_SHARE = 4;

export const seriesColor = (i: number) => `--s${i + 1}`;
export const seriesDash = (i: number) => DASHES[(i + (i >> 2)) % DASHES.length]!;

export class TrendChart extends Plot<TrendData> {
  private built = '';
  private color: (name: string) => string = () => '#888';

  constructor(
    host: HTMLElement,
    private readonly options: TrendOptions,
  ) {
    super(host);
  }

  draw(data: TrendData): void {
    this.data = data;
    const tables = data.lines.map((line, i) => this.table(line, data, i));
    const aligned = (tables.length > 0 ? uPlot.join(tables, tables.map((table) => table.map(() => NULL_EXPAND))) : [[]]) as uPlot.AlignedData;
    const shape = JSON.stringify([data.shapes, data.lines.map((line) => line.low !== null), zoneText(data.to)]);
    if (shape !== this.built || !this.plot) {
      this.clear();
      this.color = palette(this.host, [...COLORS, '--text', '--panel', ...data.lines.map((_, i) => seriesColor(i))]);
      this.plot = new uPlot(this.setup(data), aligned, this.host);
      this.built = shape;
    }
    this.plot.batch(() => {
      this.plot?.setData(aligned, false);
      this.plot?.setScale('x', { min: data.from, max: data.to });
    });
  }

  /** Moves the cursor by some pixels, or to an end. */
  move(by: number | 'start' | 'end' | 'away'): void {
    const { plot } = this;
    if (!plot) return;
    const width = plot.over.clientWidth;
    const at = plot.cursor.left !== undefined && plot.cursor.left >= 0 ? plot.cursor.left : width;
    const left = by === 'away' ? -10 : by === 'start' ? 0 : by === 'end' ? width - 1 : Math.min(width - 1, Math.max(0, at + by));
    plot.setCursor({ left, top: by === 'away' ? -10 : 10 });
  }

  /** The drawing as a picture, with the names of its points. */
  async picture(title: string): Promise<Blob | null> {
    const { plot, data } = this;
    if (!plot || !data) return null;
    const scale = devicePixelRatio;
    const row = 18 * scale;
    const canvas = document.createElement('canvas');
    canvas.width = plot.ctx.canvas.width;
    canvas.height = plot.ctx.canvas.height + row * (data.lines.length + 2);
    const ctx = canvas.getContext('2d')!;
    ctx.fillStyle = this.color('--panel');
    ctx.fillRect(0, 0, canvas.width, canvas.height);
    ctx.font = `${12 * scale}px system-ui, sans-serif`;
    ctx.fillStyle = this.color('--text');
    ctx.fillText(title, 12 * scale, row);
    ctx.drawImage(plot.ctx.canvas, 0, 1.5 * row);
    for (const [i, line] of data.lines.entries()) {
      const y = 1.5 * row + plot.ctx.canvas.height + (i + 0.6) * row;
      ctx.strokeStyle = this.color(seriesColor(i));
      ctx.lineWidth = 2 * scale;
      ctx.setLineDash(seriesDash(i).map((px) => px * scale));
      ctx.beginPath();
      ctx.moveTo(12 * scale, y - 4 * scale);
      ctx.lineTo(40 * scale, y - 4 * scale);
      ctx.stroke();
      ctx.fillText(`${line.topic} ${data.shapes[i]!.unit}`, 48 * scale, y);
    }
    return new Promise((done) => canvas.toBlob(done, 'image/png'));
  }

  protected extent() {
    return { width: this.host.clientWidth, height: Math.max(HEIGHT_MIN, this.host.clientHeight) };
  }

  /** The columns of a line: its times, its band where it has one, its values. A state holds until the end. */
  private table(line: Line, { shapes, end }: TrendData, i: number): uPlot.AlignedData {
    const shape = shapes[i]!;
    const lane = shape.bool ? shapes.slice(0, i).filter(({ bool }) => bool).length : null;
    const place = (ys: (number | null)[]) => (lane === null ? ys : ys.map((y) => (y === null ? null : lane + 0.7 * y)));
    const columns = [line.xs, ...(line.low && line.high ? [place(line.high), place(line.low)] : []), place(line.ys)];
    const last = line.xs.length - 1;
    if (!shape.stepped || last < 0 || line.xs[last]! >= end) return columns as uPlot.AlignedData;
    return columns.map((column, c) => [...column, c === 0 ? end : column[last]!]) as uPlot.AlignedData;
  }

  private setup({ lines, shapes }: TrendData): uPlot.Options {
    const { color } = this;
    const axis = { stroke: color('--muted'), font: '11px system-ui, sans-serif', labelFont: '11px system-ui, sans-serif', ticks: { show: false } };
    const grid = { stroke: color('--line'), width: 1 };
    const states = shapes.filter(({ bool }) => bool).length;
    const unit = (side: Shape['side']) => shapes.find((shape) => shape.side === side)?.unit;
    const only = states === shapes.length;
    const series: uPlot.Series[] = [{}];
    const bands: uPlot.Band[] = [];
    for (const [i, line] of lines.entries()) {
      const { side, stepped } = shapes[i]!;
      if (line.low) {
        const edge = { scale: side, stroke: 'transparent', points: { show: false }, paths: stepped ? uPlot.paths.stepped?.({ align: 1 }) : undefined };
        bands.push({ series: [series.length, series.length + 1], fill: transparent(color(seriesColor(i))) });
        series.push(edge, edge);
      }
      const paths = stepped ? uPlot.paths.stepped?.({ align: 1 }) : uPlot.paths.linear?.();
      series.push({ scale: side, stroke: color(seriesColor(i)), width: 1.6, dash: seriesDash(i), paths, points: { show: line.low ? false : sparse, size: 4, fill: color(seriesColor(i)) } });
    }
    const numbers = { ...axis, grid, size: widthOfLabels, labelSize: 16, labelGap: 0 };
    const axes: uPlot.Axis[] = [{ ...axis, grid, size: 44, space: 66, values: timeLabels, label: t('Time, {zone}', { zone: zoneWords() }), labelSize: 18, labelGap: 0 }];
    if (unit('left') !== undefined) axes.push({ ...numbers, scale: 'left', label: unit('left') || ' ' });
    if (unit('right') !== undefined) axes.push({ ...numbers, scale: 'right', side: 1, grid: { show: false }, label: unit('right') || ' ' });
    return {
      ...this.extent(),
      ms: 1,
      tzDate: localFields,
      legend: { show: false },
      padding: [8 + LANE_PX * lines.length, 12, 0, unit('left') === undefined ? 12 : 0],
      cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { show: false } },
      scales: { x: { time: true }, left: { range: roomy }, right: { range: roomy }, state: { range: [-0.2, only ? states : Math.max(1, states) * STATE_SHARE] } },
      axes,
      series,
      bands,
      hooks: {
        drawClear: [(plot) => this.drawQuality(plot)],
        draw: [(plot) => this.data?.marks?.(plot, this.color)],
        setSelect: [(plot) => this.select(plot)],
        setCursor: [(plot) => this.options.hover(plot.cursor.left !== undefined && plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, 'x') : null)],
      },
    };
  }

  private select(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 4) return;
    this.options.zoom({ from: plot.posToVal(left, 'x'), to: plot.posToVal(left + width, 'x') });
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  /** Above the drawing each point has a lane: full where it was bad, half where it was uncertain, hatched where nothing was recorded. */
  private drawQuality(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const lane = LANE_PX * devicePixelRatio;
    for (const [i, line] of (this.data?.lines ?? []).entries()) {
      const top = bbox.top - lane * ((this.data?.lines.length ?? 0) - i);
      for (const span of qualitySpans(line, this.data!.end)) {
        const from = Math.max(bbox.left, plot.valToPos(span.from, 'x', true));
        const to = Math.min(bbox.left + bbox.width, plot.valToPos(span.to, 'x', true));
        if (to < bbox.left || from > bbox.left + bbox.width) continue;
        this.drawSpan(ctx, span, { x: from, y: top, width: Math.max(2, to - from), height: lane, of: bbox });
      }
    }
  }

  private drawSpan(ctx: CanvasRenderingContext2D, { q }: Span, { x, y, width, height, of }: { x: number; y: number; width: number; height: number; of: uPlot.BBox }): void {
    if (q === 'none') return hatch(ctx, x, y, width, height - 1, this.color('--line-strong'));
    const name = q === 'bad' ? '--bad' : '--warn';
    ctx.fillStyle = this.color(`${name}-soft`);
    ctx.globalAlpha = 0.5;
    ctx.fillRect(x, of.top, width, of.height);
    ctx.globalAlpha = 1;
    ctx.fillStyle = this.color(name);
    ctx.fillRect(x, q === 'bad' ? y : y + height / 2, width, (q === 'bad' ? height : height / 2) - 1);
  }
}

/** How the zone of the times is named at the axis. */
export function zoneWords(): string {
  const zone = zoneText(Date.now());
  return zone === 'UTC' ? 'UTC' : t('local ({zone})', { zone });
}

function transparent(color: string): string {
  return color.replace(/^rgb\((.*)\)$/, (_, parts: string) => `rgba(${parts}, 0.18)`);
}
