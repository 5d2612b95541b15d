// The value that a user types for a command, checked before anything is asked.

import type { PointMeta } from './api';

export interface Choice {
  /** Null while there is no value to send. */
  value: number | null;
  /** What is wrong with the text; null also while it is empty. */
  error: string | null;
}

/** Reads a number within a point's kind and limits. A decimal comma is read as a point. */
export function readChoice(text: string, meta: Pick<PointMeta, 'kind' | 'min' | 'max'>): Choice {
  const trimmed = text.trim().replace(',', '.').replace('−', '-');
  if (trimmed === '') return { value: null, error: null };
  const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(trimmed) ? Number(trimmed) : NaN;
  if (!Number.isFinite(value)) return { value: null, error: t('not a number') };
  if (meta.kind === 'int' && !Number.isInteger(value)) return { value: null, error: t('a whole number is expected') };
  if (typeof meta.min === 'number' && value < meta.min) return { value: null, error: t('below the minimum of {limit}', { limit: meta.min }) };
  if (typeof meta.max === 'number' && value > meta.max) return { value: null, error: t('above the maximum of {limit}', { limit: meta.max }) };
  return { value, error: null };
}
