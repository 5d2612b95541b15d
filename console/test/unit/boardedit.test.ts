import { expect, test } from 'vitest';
import { copyName, exampleOf, faultsOf, indentAt, isName, offsetOf, sideBySide } from '../../src/lib/boardedit';

test('what the node says of a file has places', () => {
  const detail = 'feeders.toml:4:10: panel[0].topics: found "a/#", expected a topic\nfeeders.toml:7:1: panel[1].kindd: found the unknown key "kindd", expected kind\n2 errors in the configuration';
  expect(faultsOf(detail)).toEqual({
    faults: [
      { line: 4, column: 10, text: 'panel[0].topics: found "a/#", expected a topic' },
      { line: 7, column: 1, text: 'panel[1].kindd: found the unknown key "kindd", expected kind' },
    ],
    rest: '',
  });
  expect(faultsOf('… and 3 more\n103 errors in the configuration')).toEqual({ faults: [], rest: '' });
  for (const other of ['the node cannot be reached', 'the body: found 300000 bytes, expected at most 262144 bytes', '']) expect(faultsOf(other)).toEqual({ faults: [], rest: other });
});

test('a place is a line and a column in characters', () => {
  const text = 'a = 1\nb = "🙂x"\n';
  for (const [line, column, at] of [[1, 1, 0], [1, 3, 2], [2, 1, 6], [2, 7, 13], [3, 1, 16], [9, 9, 16], [1, 99, 5]] as const) expect(offsetOf(text, line, column), `${line}:${column}`).toBe(at);
});

test('a tabulator is spaces up to the next even column', () => {
  expect(['', 'a', 'ab', 'x\n', 'x\na'].map((text) => indentAt(text, text.length).length)).toEqual([2, 1, 2, 2, 1]);
});

test('two versions are beside each other', () => {
  const words = (theirs: string, mine: string) => sideBySide(theirs, mine).map(({ theirs: a, mine: b, same }) => `${a ?? '-'}${same ? '=' : '|'}${b ?? '-'}`);
  expect(words('a\nb\nc', 'a\nb\nc')).toEqual(['a=a', 'b=b', 'c=c']);
  expect(words('a\nb\nc', 'a\nx\ny\nc')).toEqual(['a=a', 'b|x', '-|y', 'c=c']);
  expect(words('a\nb\nc', 'c')).toEqual(['a|-', 'b|-', 'c=c']);
  expect(words('', 'a')).toEqual(['|a']);
  expect(words('a\na', 'a\na\na')).toEqual(['a=a', 'a=a', '-|a']);
});

test('names are those that the node takes', () => {
  for (const name of ['a', 'feeders-2', '0_', 'x'.repeat(64)]) expect(isName(name), name).toBe(true);
  for (const name of ['', 'A', 'a b', 'a/b', 'ä', '..', 'x'.repeat(65), 'a\n']) expect(isName(name), name).toBe(false);
});

test('a copy has a name of its own', () => {
  expect(copyName('feeders', ['feeders'])).toBe('feeders-2');
  expect(copyName('feeders-2', ['feeders', 'feeders-2', 'feeders-3'])).toBe('feeders-4');
  expect(isName(copyName('x'.repeat(64), []))).toBe(true);
});

test('an example has the topics of a device', () => {
  const points = ['a', 'b', 'c', 'd', 'e'].map((name) => ({ topic: `site/dev/${name}"`, isNumber: name > 'c' }));
  const text = exampleOf('site/dev', points);
  expect(text).toContain('title = "dev"');
  expect(text).toContain('topics = ["site/dev/a\\"", "site/dev/b\\"", "site/dev/c\\"", "site/dev/d\\""]');
  expect(text).toContain('kind = "trend"\nwidth = 12\nheight = 6\ntopics = ["site/dev/d\\"", "site/dev/e\\""]');
  expect(text).toContain('filter = "site/dev/#"');
  expect(exampleOf('', [])).not.toMatch(/topics =|kind = "value"|kind = "trend"/);
});
