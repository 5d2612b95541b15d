// A single-line diagram in the page: only what draws is taken from its file, and its elements are bound to topics and to the network.

import { words } from './words';
import { type Network, type Position, type State, states } from './topology';

const SVG = 'http://www.w3.org/2000/svg';
const ELEMENTS = new Set('svg g defs symbol use title desc path rect circle ellipse line polyline polygon text tspan linearGradient radialGradient stop clipPath marker'.split(' '));
const ATTRIBUTES = new Set(
  ('id class transform d x y x1 y1 x2 y2 cx cy r rx ry dx dy width height points viewBox preserveAspectRatio overflow display visibility opacity color fill fill-opacity fill-rule stroke ' +
    'stroke-width stroke-opacity stroke-dasharray stroke-dashoffset stroke-linecap stroke-linejoin stroke-miterlimit font-family font-size font-style font-weight text-anchor dominant-baseline letter-spacing ' +
    'offset stop-color stop-opacity gradientUnits gradientTransform spreadMethod fx fy clip-path clip-rule clipPathUnits marker-start marker-mid marker-end markerWidth markerHeight markerUnits refX refY orient ' +
    'data-topic data-symbol data-node data-from data-to data-source data-when data-link').split(' '),
);
const SWITCHES = ['breaker', 'disconnector', 'earth-switch', 'switch'];
const EARTH = 'earth';
/** Identifiers of a diagram are none of the page. */
const PREFIX = 'sld-';

/** The value of an attribute as it may be in the page; null where it may not. */
export function allowed(name: string, value: string): string | null {
  if (name === 'href' || name === 'xlink:href') return /^#./.test(value) ? `#${PREFIX}${value.slice(1)}` : null;
  if (!ATTRIBUTES.has(name) || value.includes('\\')) return null;
  if (name === 'id') return PREFIX + value;
  if (!/url\(/i.test(value)) return value;
  const inside = /^\s*url\(\s*["']?#([\w.-]+)["']?\s*\)\s*$/i.exec(value);
  return inside ? `url(#${PREFIX}${inside[1]})` : null;
}

/** What of an element may be in the page. A style is taken as the attributes that it stands for: the page allows no styles in a document. */
function copy(from: Element): SVGElement {
  const to = document.createElementNS(SVG, from.localName);
  const set = (name: string, value: string) => {
    const taken = allowed(name, value);
    if (taken !== null) to.setAttribute(name.replace('xlink:', ''), taken);
  };
  for (const { name, value } of from.attributes) if (name !== 'style') set(name, value);
  for (const part of (from.getAttribute('style') ?? '').split(';')) {
    const [name = '', value] = part.split(/:(.*)/s);
    if (value && !name.includes('data-')) set(name.trim(), value.trim());
  }
  for (const child of from.childNodes) {
    if (child instanceof Element) {
      if (child.namespaceURI === SVG && child.prefix === null && ELEMENTS.has(child.localName)) to.append(copy(child));
    } else if (child.nodeType === Node.TEXT_NODE) to.append(child.nodeValue ?? '');
  }
  return to;
}

/** The drawing of a file, without anything that does more than draw. */
export function sanitized(text: string): SVGSVGElement {
  const root = new DOMParser().parseFromString(text, 'image/svg+xml').documentElement;
  if (root.namespaceURI !== SVG || root.localName !== 'svg') throw new Error(t('the file is no SVG'));
  const svg = copy(root) as SVGSVGElement;
  const [width, height] = ['width', 'height'].map((name) => parseFloat(svg.getAttribute(name) ?? ''));
  if (!svg.hasAttribute('viewBox') && width! > 0 && height! > 0) svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.removeAttribute('width');
  svg.removeAttribute('height');
  return svg;
}

/** What is shown of a topic. */
export interface Seen {
  text: string;
  quality: string;
  fresh: boolean;
  position: Position;
  /** The shape and the priority of its most urgent alarm. */
  alarm: { mark: string; priority: string; isNew: boolean } | null;
}

type Bound = { element: SVGElement; topic: string; isSwitch: boolean; shown: string; mark: SVGTextElement | null };
type Edge = { element: SVGElement; from: number; to: number; topic: string | null };

/** A diagram that is bound. */
export class Bindings {
  readonly topics: readonly string[];
  /** How many nodes are in each state. */
  counts: Record<State, number> = { energised: 0, dead: 0, earthed: 0, unknown: 0 };
  private readonly bound: Bound[] = [];
  private readonly edges: Edge[] = [];
  private readonly conductors: [SVGElement, number][] = [];
  private readonly sources: [number, string][] = [];
  private readonly names = new Map<string, number>();
  private shown = '';

  constructor(svg: SVGSVGElement) {
    const index = (name: string) => {
      if (name === EARTH) return -1;
      if (!this.names.has(name)) this.names.set(name, this.names.size);
      return this.names.get(name)!;
    };
    const topics = new Set<string>();
    for (const element of svg.querySelectorAll<SVGElement>('[data-topic], [data-node], [data-from]')) {
      const { topic, symbol, node, from, to, source } = element.dataset;
      const isSwitch = SWITCHES.includes(symbol ?? '');
      if (topic) {
        topics.add(topic);
        this.bound.push({ element, topic, isSwitch, shown: '', mark: null });
      }
      if (node) this.conductors.push([element, index(node)]);
      if (node && source !== undefined) this.sources.push([index(node), source]);
      if (source) topics.add(source);
      if (from && to) this.edges.push({ element, from: index(from), to: index(to), topic: isSwitch ? (topic ?? '') : null });
    }
    this.topics = [...topics];
  }

  /** Shows values, positions, alarms and what is energised. */
  update(see: (topic: string) => Seen): void {
    const positions = new Map<string, Position>();
    for (const topic of this.topics) positions.set(topic, see(topic).position);
    for (const one of this.bound) this.show(one, see(one.topic));
    const position = (topic: string | null): Position => (topic === null ? 'closed' : (positions.get(topic) ?? 'unknown'));
    const shown = [...positions.values()].join();
    if (shown === this.shown) return;
    this.shown = shown;
    const network: Network = {
      nodes: this.names.size,
      edges: this.edges.filter(({ from, to }) => from >= 0 && to >= 0).map(({ from, to, topic }) => [from, to, position(topic)] as const),
      sources: this.sources.map(([node, topic]) => [node, position(topic || null)] as const),
      earths: this.edges.filter(({ from, to }) => (from < 0) !== (to < 0)).map(({ from, to, topic }) => [Math.max(from, to), position(topic)] as const),
    };
    const found = states(network);
    this.counts = { energised: 0, dead: 0, earthed: 0, unknown: 0 };
    for (const state of found) this.counts[state]++;
    for (const [element, node] of this.conductors) element.dataset.state = found[node];
    for (const { element, from, to, topic } of this.edges) {
      const [one, other] = [found[from] ?? found[to]!, found[to] ?? found[from]!];
      element.dataset.state = one === other ? one : position(topic) === 'open' ? 'apart' : 'unknown';
    }
  }

  private show(one: Bound, { text, quality, fresh, position, alarm }: Seen): void {
    const shown = [text, quality, fresh, position, alarm?.mark, alarm?.isNew].join('|');
    if (shown === one.shown) return;
    one.shown = shown;
    const { element, topic, isSwitch } = one;
    element.dataset.quality = fresh ? quality : 'old';
    const sign = fresh ? ({ uncertain: '▲ ', bad: '■ ' }[quality] ?? '') : t('was ');
    if (isSwitch) {
      element.dataset.position = position;
      for (const part of element.querySelectorAll<SVGElement>('[data-when]')) part.setAttribute('display', part.dataset.when === position ? 'inline' : 'none');
    } else if (element instanceof SVGTextElement) element.textContent = sign + text;
    const urgent = alarm ? `, ${alarm.isNew ? t('unacknowledged {priority} alarm', { priority: words(alarm.priority) }) : t('{priority} alarm', { priority: words(alarm.priority) })}` : '';
    element.setAttribute('aria-label', `${topic}: ${isSwitch ? position : sign + text}${quality === 'bad' || quality === 'uncertain' ? `, ${quality}` : ''}${urgent}`);
    this.markAlarm(one, alarm);
  }

  private markAlarm(one: Bound, alarm: Seen['alarm']): void {
    if (!alarm) {
      one.mark?.remove();
      one.mark = null;
      return;
    }
    const inText = one.element instanceof SVGTextElement;
    one.mark ??= (inText ? one.element.parentNode! : one.element).appendChild(document.createElementNS(SVG, 'text'));
    const box = (one.element as unknown as SVGGraphicsElement).getBBox();
    const at = inText ? [box.x - 18, box.y + box.height - 3] : [Math.max(box.x, -4) - 14, 20];
    one.mark.setAttribute('x', String(at[0]));
    one.mark.setAttribute('y', String(at[1]));
    one.mark.setAttribute('class', `mark p-${alarm.priority}${alarm.isNew ? ' blink' : ''}`);
    one.mark.setAttribute('data-alarm-priority', alarm.priority);
    one.mark.textContent = alarm.mark;
  }
}

/** The element that an arrow key leads to: the nearest one on that side. */
export function nearest(from: DOMRect, all: readonly DOMRect[], key: string): number {
  const [dx, dy] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key] ?? [0, 0];
  const centre = ({ x, y, width, height }: DOMRect) => [x + width / 2, y + height / 2] as const;
  const [x, y] = centre(from);
  let [best, least] = [-1, Infinity];
  for (const [i, rect] of all.entries()) {
    const [ox, oy] = centre(rect);
    const ahead = (ox - x) * dx! + (oy - y) * dy!;
    if (ahead < 1) continue;
    const aside = Math.abs((ox - x) * dy!) + Math.abs((oy - y) * dx!);
    if (ahead + 2 * aside < least) [best, least] = [i, ahead + 2 * aside];
  }
  return best;
}
