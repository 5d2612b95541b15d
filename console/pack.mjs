// Makes the scripts of the build smaller once more, and leaves each file beside itself as `.br` and `.gz`: the node sends what
// the browser takes. Of the scripts of other languages than English only the packed ones stay: the node unpacks them where a client
// takes nothing packed.

import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { minify } from 'terser';

const DIST = fileURLToPath(new URL('dist/', import.meta.url));
/**
 * After Vite's own: fewer bytes. Svelte notes what a getter reads, so reading one counts. Terser drops `a?.b` whose value nobody
 * takes all the same (test/unit/pack.test.ts).
 */
const MINIFY = {
  module: true,
  ecma: 2022,
  compress: { passes: 3, pure_getters: false, keep_fargs: false, unsafe_arrows: true, sequences: false },
};
/** Shorter files gain nothing. */
const PACKED_BYTES_MIN = 256;
/** How distances are written (RFC 7932 section 4): found by trying. */
const BROTLI = {
  [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
  [constants.BROTLI_PARAM_NPOSTFIX]: 1,
  [constants.BROTLI_PARAM_NDIRECT]: 8,
};

for (const name of readdirSync(DIST, { recursive: true })) {
  if (!/\.(html|js|css|svg)$/.test(name)) continue;
  if (name.endsWith('.js')) writeFileSync(`${DIST}${name}`, (await minify(readFileSync(`${DIST}${name}`, 'utf8'), MINIFY)).code);
  const plain = readFileSync(`${DIST}${name}`);
  if (plain.length < PACKED_BYTES_MIN) continue;
  writeFileSync(`${DIST}${name}.br`, brotliCompressSync(plain, { params: BROTLI }));
  writeFileSync(`${DIST}${name}.gz`, gzipSync(plain, { level: 9 }));
  if (/^assets\/\w+\/.*\.js$/.test(name)) rmSync(`${DIST}${name}`);
}
