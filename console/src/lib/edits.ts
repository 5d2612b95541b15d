// Edits and annotations of recorded values: which there are, and what a form asks for.

import type { EditGiven, EditKind, HistoryEdit } from './api';
import { shifted, valueText, zoneText } from './format';
import { decimal, typed } from './locale';
import { words } from './words';

interface Kind {
  kind: EditKind;
  label: string;
  effect: string;
  /** Of an instant, not of a span. */
  instant: boolean;
  value: boolean;
  quality: boolean;
  text: boolean;
}

const none = { instant: false, value: false, quality: false, text: false };
export const KINDS: Kind[] = [
  { ...none, kind: 'annotation', label: t('Annotate'), effect: t('A text is shown with the values of this time.'), instant: true, text: true },
  { ...none, kind: 'value', label: t('Change values'), effect: t('All values from the start until before the end become this one.'), value: true, quality: true },
  { ...none, kind: 'quality', label: t('Change quality'), effect: t('All values from the start until before the end have this quality.'), quality: true },
  { ...none, kind: 'exclude', label: t('Exclude values'), effect: t('The values from the start until before the end are left out.') },
  { ...none, kind: 'insert', label: t('Insert a value'), effect: t('One more value is shown.'), instant: true, value: true, quality: true },
];

/** An instant as the node reads it. */
export const instantText = (ms: number) => new Date(ms).toISOString();

/** An instant as a form shows it, in the zone in which times are shown. */
export function momentOf(ms: number): string {
  return `${shifted(ms).toISOString().slice(0, 23)}${zoneText(ms) === 'UTC' ? 'Z' : ''}`;
}

/** What a form says, or what is wrong with it. */
export function edited(topic: string, kind: EditKind, field: (name: string) => string): EditGiven | string {
  const given: EditGiven = { topic, kind, why: field('why') };
  for (const name of ['at', 'from', 'to'] as const) {
    const text = field(name);
    if (!text) continue;
    const ms = Date.parse(text.replace(' ', 'T'));
    if (Number.isNaN(ms)) return t('{name} is \'{text}\', expected a time like 2026-11-27T08:00:00Z', { name, text });
    given[name] = instantText(ms);
  }
  if (given.from && given.to && given.from >= given.to) return t('the range must end after it begins');
  if (field('v')) given.v = valueOf(field('v'));
  if (field('q')) given.q = field('q');
  if (field('text')) given.text = field('text');
  return given;
}

/** Numbers, states and null are meant as such; all else is a text. */
function valueOf(text: string): unknown {
  if (/^(on|off)$/i.test(text)) return text.toLowerCase() === 'on';
  if (LANG !== 'en' && [t('on'), t('off')].includes(text)) return text === t('on');
  try {
    const value: unknown = JSON.parse(typed(text));
    return typeof value === 'object' && value !== null ? text : value;
  } catch {
    return text;
  }
}

/** What an edit does, in words. */
export function editText({ kind, v, q, text, erased }: HistoryEdit, unit: string): string {
  const number = typeof v === 'number';
  const value = erased ? t('(erased)') : number ? `${decimal(String(v))}${unit && ` ${unit}`}` : valueText(v);
  switch (kind) {
    case 'value':
      return `→ ${value}${q ? `, ${words(q)}` : ''}`;
    case 'insert':
      return `+ ${value}${q ? `, ${words(q)}` : ''}`;
    case 'quality':
      return t('quality {quality}', { quality: words(q ?? '') });
    case 'exclude':
      return t('left out');
    case 'annotation':
      return erased ? t('(erased)') : (text ?? '');
  }
}
