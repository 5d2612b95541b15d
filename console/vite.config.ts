import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

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
const uplot = {
  name: 'uplot-used',
  enforce: 'pre' as const,
  transform(code: string, id: string) {
    if (id.endsWith('uPlot.min.css')) return { code: code.replace(/[^{}]*\.u-(title|legend|inline|series)[^{}]*\{[^}]*\}/g, ''), map: null };
    if (!id.endsWith('uPlot.esm.js')) return null;
    for (const [found] of UNUSED) if (!code.includes(found)) throw new Error(`uPlot has no ${found}`);
    return { code: UNUSED.reduce((text, [found, put]) => text.replace(found, put), code), map: null };
  },
};

export default defineConfig({
  // What makes the page smaller: test/trouble.mjs has its limit.
  plugins: [uplot, svelte({ compilerOptions: { fragments: 'tree', discloseVersion: false, cssHash: ({ css, hash }) => `s${hash(css).slice(0, 3)}` } })],
  build: {
    target: 'es2022',
    // The node's policy is `default-src 'self'`, which has no place for data: URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // One file is packed better than three.
    cssCodeSplit: false,
    rolldownOptions: { optimization: { inlineConst: { mode: 'all', pass: 3 } } },
  },
  server: { proxy: { '/v1': 'http://127.0.0.1:8080' } },
  test: { include: ['test/unit/**/*.test.ts'] },
});
