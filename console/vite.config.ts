import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  // What makes the page smaller: test/trouble.mjs has its limit.
  plugins: [svelte({ compilerOptions: { fragments: 'tree', discloseVersion: false, cssHash: ({ css, hash }) => `s${hash(css).slice(0, 3)}` } })],
  build: {
    target: 'es2022',
    // The node's policy is `default-src 'self'`, which has no place for data: URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { '/v1': 'http://127.0.0.1:8080' } },
  test: { include: ['test/unit/**/*.test.ts'] },
});
