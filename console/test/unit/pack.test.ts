import { expect, test } from 'vitest';

const SOURCES = import.meta.glob<string>('../../src/**/*.{svelte,ts}', { query: '?raw', import: 'default', eager: true });

test('no source has what Terser would drop: a chain that is read only to be told when it changes', () => {
  expect(Object.keys(SOURCES).length).toBeGreaterThan(50);
  for (const [name, text] of Object.entries(SOURCES)) expect(text.match(/\bvoid \w+(\.\w+)*\?\.\w+(;|$)/gm), name).toBeNull();
});
