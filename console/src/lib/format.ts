// How values, ages, times and rates read.

import { dayText, decimal } from './locale';
import { words } from './words';

let utc = false;

/** Chooses the zone in which times are shown. */
export function showUtc(on: boolean): void {
  utc = on;
}

const pad = (n: number, width = 2) => String(n).padStart(width, '0');

/** A number with about six significant figures; steady width for values with a fraction. */
export function numberText(x: number, fraction: boolean): string {
  if (!Number.isFinite(x)) return String(x);
  if (Number.isInteger(x) && !fraction) return String(x);
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return decimal(x.toExponential(3));
  const whole = Math.max(1, Math.floor(Math.log10(Math.max(size, 1))) + 1);
  const text = x.toFixed(Math.min(3, Math.max(0, 6 - whole)));
  return decimal(text.replace(/^-(0(\.0+)?)$/, '$1'));
}

/** The double-bit states of IEEE 1815, by code. */
const DOUBLE_BIT = [t('intermediate'), t('off'), t('on'), t('indeterminate')];

/** A value as text on one line. `type` is the point's type, where it is a configured point. */
export function valueText(v: unknown, fraction = false, type = ''): string {
  if (v === null || v === undefined) return '–';
  if (typeof v === 'boolean') return v ? t('on') : t('off');
  if (typeof v === 'number') {
    const state = type.startsWith('double') ? DOUBLE_BIT[v] : undefined;
    return state ?? numberText(v, fraction);
  }
  if (typeof v === 'string') return v;
  if (typeof v === 'object' && 'hex' in v && typeof v.hex === 'string') return v.hex.replace(/(..)(?=.)/g, '$1 ');
  return JSON.stringify(v);
}

/** A point's type in words: `binary-output` is a binary output. */
export function typeText(type: string): string {
  return LANG === 'en' ? type.replace(/[_-]/g, ' ') : words(type.replaceAll('-', '_'));
}

/** What stands for a value that is too long for a row: the number of its members. */
export function shortText(v: unknown): string | null {
  if (Array.isArray(v)) return `[ ${v.length} ]`;
  return typeof v === 'object' && v !== null && !('hex' in v) ? `{ ${Object.keys(v).length} }` : null;
}

/** A duration in one figure and one unit: 850 ms, 4 s, 12 min, 3 h, 2 d. */
export function durationText(ms: number): string {
  const size = Math.abs(ms);
  const sign = ms < 0 ? '−' : '';
  if (size < 999.5) return `${sign}${Math.round(size)} ms`;
  return sign + ageText(size);
}

/** An age in whole units: 0 s to 99 s, then min, h, d. A time ahead of the clock is negative. */
export function ageText(ms: number): string {
  if (ms < -1_500) return `−${ageText(-ms)}`;
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 100) return `${s} s`;
  if (s < 100 * 60) return `${Math.floor(s / 60)} min`;
  if (s < 72 * 3600) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86_400)} d`;
}

/** A rate in 1/s, or in 1/min when slow; empty when nothing comes. */
export function rateText(perSecond: number): string {
  if (perSecond >= 9.95) return `${Math.round(perSecond)}/s`;
  if (perSecond >= 0.095) return `${decimal(perSecond.toFixed(1))}/s`;
  return perSecond >= 0.008 ? `${Math.round(perSecond * 60)}/min` : '';
}

/** A count in at most five characters: 999, 12.3k, 4.56M. */
export function countText(n: number): string {
  if (n < 10_000) return String(Math.round(n));
  if (n < 1e6) return decimal(`${(n / 1e3).toFixed(n < 1e5 ? 1 : 0)}k`);
  if (n < 1e9) return decimal(`${(n / 1e6).toFixed(n < 1e8 ? 1 : 0)}M`);
  return decimal(`${(n / 1e9).toFixed(1)}G`);
}

/** Bytes in at most seven characters: 999 B, 12.3 KiB, 4.6 MiB. */
export function bytesText(n: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let [value, unit] = [n, 0];
  // What would be shown as 1024.0 is shown in the next unit.
  while (value >= 1023.95 && unit + 1 < units.length) [value, unit] = [value / 1024, unit + 1];
  return `${unit === 0 ? Math.round(value) : decimal(value.toFixed(1))} ${units[unit]}`;
}

/** 09:36:00.123 in the chosen zone, or without the milliseconds. */
export function clockText(ms: number, millis = false): string {
  const d = shifted(ms);
  const text = `${pad(d.getUTCHours())}:${pad(d.getUTCMinutes())}:${pad(d.getUTCSeconds())}`;
  return millis ? text + decimal(`.${pad(d.getUTCMilliseconds(), 3)}`) : text;
}

/** 2026-11-20 09:36:00 with the zone's name; in other languages than English the day as they write it. */
export function timeText(ms: number, millis = false): string {
  const d = shifted(ms);
  return `${dayText(d)} ${clockText(ms, millis)} ${zoneText(ms)}`;
}

/** UTC, or the browser's offset as +01:00. */
export function zoneText(ms: number): string {
  const minutes = utc ? 0 : -new Date(ms).getTimezoneOffset();
  if (minutes === 0) return 'UTC';
  const size = Math.abs(minutes);
  return `${minutes < 0 ? '−' : '+'}${pad(Math.floor(size / 60))}:${pad(size % 60)}`;
}

/** A date whose UTC fields are the fields of the chosen zone. */
export function shifted(ms: number): Date {
  return new Date(utc ? ms : ms - new Date(ms).getTimezoneOffset() * 60_000);
}

/** A key such as `rtt_ms` or `unsolicited_received` as words, and its unit. */
export function statText(key: string, value: number): { label: string; text: string } {
  const unit = /_(ms|us|s|bytes)$/.exec(key)?.[1];
  const label = (unit ? key.slice(0, -unit.length - 1) : key).replace(/[_.]/g, ' ');
  if (unit === 'ms') return { label, text: `${value < 100 && !Number.isInteger(value) ? decimal(value.toFixed(1)) : countText(value)} ms` };
  if (unit === 'us') return { label, text: `${countText(value)} µs` };
  if (unit === 's') return { label, text: ageText(value * 1000) };
  if (unit === 'bytes') return { label, text: `${countText(value)}B` };
  return { label, text: valueText(value) };
}

/** Quotes a text for a POSIX shell; plain words stay plain. */
export function shellQuote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
