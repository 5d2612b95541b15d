import { describe, expect, it } from 'vitest';
import { edited, editText, KINDS } from '../../src/lib/edits';

const form = (fields: Record<string, string>) => (name: string) => fields[name] ?? '';
const made = { id: 1, topic: 'a', from: '', to: '', who: 'anna', time: '', why: '' };

describe('edits', () => {
  it('reads what a form says', () => {
    const span = { from: '2026-11-27T08:00:00Z', to: '2026-11-27 09:00:00.5Z', why: 'frozen' };
    const at = { from: '2026-11-27T08:00:00.000Z', to: '2026-11-27T09:00:00.500Z' };
    const base = { topic: 'a/b', why: 'frozen', ...at };
    expect(edited('a/b', 'value', form({ ...span, v: '4.2', q: 'uncertain' }))).toEqual({ ...base, kind: 'value', v: 4.2, q: 'uncertain' });
    expect(edited('a/b', 'value', form({ ...span, v: 'off', q: '' }))).toEqual({ ...base, kind: 'value', v: false });
    expect(edited('a/b', 'value', form({ ...span, v: 'null' }))).toEqual({ ...base, kind: 'value', v: null });
    expect(edited('a/b', 'value', form({ ...span, v: '{"a":1}' }))).toEqual({ ...base, kind: 'value', v: '{"a":1}' });
    expect(edited('a/b', 'exclude', form(span))).toEqual({ ...base, kind: 'exclude' });
    expect(edited('a/b', 'annotation', form({ at: '2026-11-27T08:00:00Z', text: 'new sensor', why: 'log' }))).toEqual({
      topic: 'a/b', kind: 'annotation', at: '2026-11-27T08:00:00.000Z', text: 'new sensor', why: 'log',
    });
  });

  it('says what is wrong', () => {
    expect(edited('a', 'exclude', form({ from: 'noon', to: '2026-11-27T08:00:00Z' }))).toMatch(/from is 'noon', expected a time like/);
    expect(edited('a', 'exclude', form({ from: '2026-11-27T09:00:00Z', to: '2026-11-27T08:00:00Z' }))).toMatch(/must end after/);
  });

  it('says what each kind does', () => {
    expect(KINDS.map(({ kind }) => editText({ ...made, kind, v: 4.2, q: 'bad', text: 'new' }, 'm'))).toEqual([
      'new', '→ 4.2 m, bad', 'quality bad', 'left out', '+ 4.2 m, bad',
    ]);
    expect(editText({ ...made, kind: 'value', erased: true }, 'm')).toBe('→ (erased)');
  });
});
