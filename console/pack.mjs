// Leaves each file of the build beside itself as `.br` and `.gz`: the node sends what the browser takes.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const DIST = fileURLToPath(new URL('dist/', import.meta.url));
/** Shorter files gain nothing. */
const PACKED_BYTES_MIN = 256;

for (const name of readdirSync(DIST, { recursive: true })) {
  if (!/\.(html|js|css|svg)$/.test(name)) continue;
  const plain = readFileSync(`${DIST}${name}`);
  if (plain.length < PACKED_BYTES_MIN) continue;
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY, [constants.BROTLI_PARAM_NPOSTFIX]: 1 };
  writeFileSync(`${DIST}${name}.br`, brotliCompressSync(plain, { params }));
  writeFileSync(`${DIST}${name}.gz`, gzipSync(plain, { level: 9 }));
}
