import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

test('no source has what Terser would drop: a chain that is read only to be told when it changes', () => {
  const src = join(import.meta.dirname, '../../src');
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((name) => /\.(svelte|ts)$/.test(name));
  expect(files.length).toBeGreaterThan(50);
  for (const name of files) expect(readFileSync(join(src, name), 'utf8').match(/\bvoid \w+(\.\w+)*\?\.\w+(;|$)/gm), name).toBeNull();
});
