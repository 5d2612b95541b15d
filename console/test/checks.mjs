// What tests of several views check: accessibility, and what is drawn.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { assert } from './browser.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** No serious fault of accessibility is in the page. */
export async function accessible(page, where) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ['violations'] }));
  const grave = violations.filter((v) => ['serious', 'critical'].includes(v.impact));
  const words = grave.map((v) => `${v.id}: ${v.help} at ${v.nodes.slice(0, 3).map((n) => n.target.join(' ')).join(', ')}`);
  assert(grave.length === 0, `${where}: ${words.join('; ')}`);
}

/** How many colours a canvas shows. */
export function colorsOf(page, selector) {
  return page.evaluate((of) => {
    const canvas = document.querySelector(of);
    if (!canvas) return 0;
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const colors = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) colors.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
    return colors.size;
  }, selector);
}
