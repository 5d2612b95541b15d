// Boards: pages of panels, which the node reads from files.

import { instant, type Trend } from './trend';

export interface Panel {
  kind: 'value' | 'bar' | 'trend' | 'table' | 'alarms' | 'diagram' | 'text';
  title: string;
  width: number;
  height: number;
  topics?: string[];
  filter?: string;
  diagram?: string;
  text?: string;
  min?: number;
  max?: number;
  low?: number;
  high?: number;
  link?: string;
}

export interface Board {
  name: string;
  title: string;
  version: string;
  /** Files of the configuration are changed by its operator alone. */
  origin: 'configuration' | 'data';
  range: string;
  variables: { name: string; label: string; values: string[] }[];
  panels: Panel[];
}

/** What the address asks for. */
export interface BoardAsked {
  name: string | null;
  /** Of trends; null where the board says it. */
  from: string | null;
  to: string;
  /** What is chosen for variables. */
  values: Record<string, string>;
}

export function parseBoard(query: string): BoardAsked {
  const { name = null, from = null, to = 'now', ...values } = Object.fromEntries(new URLSearchParams(query));
  return { name, from, to, values };
}

export function boardQuery({ name, from, to, values }: BoardAsked): string {
  const params = new URLSearchParams({ ...(name !== null && { name }), ...values, ...(from !== null && { from, to }) });
  return params.toString().replaceAll('%2F', '/').replaceAll('%3A', ':');
}

/** The value of each variable: what is chosen where it may be, else the first. */
export const valuesOf = ({ variables }: Pick<Board, 'variables'>, chosen: Record<string, string>): Record<string, string> =>
  Object.fromEntries(variables.map(({ name, values }) => [name, values.includes(chosen[name] ?? '') ? chosen[name]! : values[0]!]));

/** A panel for these values of variables. */
export function filled(panel: Panel, values: Record<string, string>): Panel {
  const put = (text: string) => text.replace(/\{([a-z0-9_-]+)\}/g, (whole, name: string) => values[name] ?? whole);
  const done: Panel = { ...panel, title: put(panel.title) };
  if (panel.topics) done.topics = panel.topics.map(put);
  if (panel.filter !== undefined) done.filter = put(panel.filter);
  if (panel.text !== undefined) done.text = put(panel.text);
  return done;
}

/** The range of its trends. */
export const boardRange = (board: Pick<Board, 'range'>, { from, to }: Pick<BoardAsked, 'from' | 'to'>): Trend => ({ topics: [], from: from ?? `now-${board.range}`, to });

/** Whether a range is the same whenever it is looked at. */
export const isFrozen = ({ from, to }: Pick<Trend, 'from' | 'to'>, now: number): boolean =>
  [from, to].every((text) => !text.startsWith('now') && instant(text, now) !== null);

/** Where a value is in a bar, from 0 to 1. */
export const share = (value: number, min: number, max: number): number => Math.min(1, Math.max(0, (value - min) / (max - min)));

/** Whether a value is outside of the limits of its panel. */
export const isOutside = (value: number | null, { low = -Infinity, high = Infinity }: Pick<Panel, 'low' | 'high'>): boolean => value !== null && (value < low || value > high);
