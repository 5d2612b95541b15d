import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';
import { DICTIONARIES, lang } from './lang.ts';

/** What uPlot could draw and the console does not: another version of it that has this elsewhere is an error. */
const UNUSED: [string, string][] = [
  ['(paths.bars    = bars);', ''],
  ['(paths.spline  = monotoneCubic);', ''],
  ['const showLegend = legend.show;', 'const showLegend = false;'],
  ['const mode = self.mode;', 'const mode = 1;'],
  // Texts of times: the console writes its own.
  ['timeAxisVals(_tzDate, timeAxisStamps((ms == 1 ? _timeAxisStampsMs : _timeAxisStampsS), _fmtDate))', 'null'],
  ['timeAxisVals(_tzDate, timeAxisStamps(av, _fmtDate))', 'null'],
  ['timeAxisVal(_tzDate, av)', 'null'],
  ['timeSeriesVal(_tzDate, timeSeriesStamp(_timeSeriesStamp, _fmtDate))', 'null'],
  ['timeSeriesVal(_tzDate, timeSeriesStamp(sv, _fmtDate))', 'null'],
  ['uPlot.fmtDate = fmtDate;', ''],
  ['(opts.fmtDate || fmtDate)', 'null'],
];
/** The language of numbers at an axis. */
const BROWSERS: [string, string] = ["domEnv ? nav.language : 'en-US'", 'document.documentElement.lang'];
const uplot = (language: string) => ({
  name: 'uplot-used',
  enforce: 'pre' as const,
  transform(code: string, id: string) {
    if (id.endsWith('uPlot.min.css')) return { code: code.replace(/[^{}]*\.u-(title|legend|inline|series)[^{}]*\{[^}]*\}/g, ''), map: null };
    if (!id.endsWith('uPlot.esm.js')) return null;
    for (const [found] of [...UNUSED, BROWSERS]) if (!code.includes(found)) throw new Error(`uPlot has no ${found}`);
    // In English, numbers at an axis are those of the browser.
    const replaced = language === 'en' ? UNUSED : [...UNUSED, BROWSERS];
    return { code: replaced.reduce((text, [found, put]) => text.replace(found, put), code), map: null };
  },
});

/** `--mode de` is the console in German, beside the English one that was built before; other modes are English. */
export default defineConfig(({ mode, command }) => ({
  // What makes the page smaller: test/trouble.mjs has its limit.
  plugins: [uplot(mode in DICTIONARIES ? mode : 'en'), lang(mode in DICTIONARIES ? mode : 'en'), svelte({ compilerOptions: { fragments: 'tree', discloseVersion: false, cssHash: ({ css, hash }) => `s${hash(css).slice(0, 3)}` } })],
  base: command === 'build' && mode in DICTIONARIES ? '/assets/' : '/',
  build: {
    ...(mode in DICTIONARIES && { outDir: 'dist/assets', assetsDir: '', emptyOutDir: false }),
    target: 'es2022',
    // The node's policy is `default-src 'self'`, which has no place for data: URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // One file is packed better than three.
    cssCodeSplit: false,
    rolldownOptions: {
      optimization: { inlineConst: { mode: 'all', pass: 3 } },
      ...(mode in DICTIONARIES && { output: { entryFileNames: `${mode}/[name]-[hash].js`, chunkFileNames: `${mode}/[name]-[hash].js`, assetFileNames: '[name]-[hash][extname]' } }),
    },
  },
  server: { proxy: { '/v1': 'http://127.0.0.1:8080' } },
  test: { include: ['test/unit/**/*.test.ts'] },
}));
