// A headless Chromium for tests: pages whose console errors and page errors count as failures, and a tally.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const EXECUTABLE = process.env.CHROMIUM ?? '/usr/bin/chromium';
const FOLDER = process.env.SCREENSHOTS;
const STEP_MS = 20_000;

export const DESKTOP = { viewport: { width: 1440, height: 860 } };
export const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };

export class Runner {
  passed = 0;
  failed = 0;
  /** What pages said that they should not have. */
  errors = [];

  async start() {
    if (FOLDER) mkdirSync(FOLDER, { recursive: true });
    this.browser = await chromium.launch({
      executablePath: EXECUTABLE,
      args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
    });
  }

  /** A page of its own context. Errors that match `expected` are part of the test. */
  async page(url, options = DESKTOP, expected = null) {
    const context = await this.browser.newContext(options);
    const page = await context.newPage();
    page.setDefaultTimeout(STEP_MS);
    const note = (kind, text) => {
      if (!expected?.test(text)) this.errors.push(`${kind}: ${text}`);
    };
    page.on('console', (message) => message.type() === 'error' && note('console', message.text()));
    page.on('pageerror', (error) => note('page', error.message));
    await page.goto(url);
    return page;
  }

  async test(name, body) {
    const began = Date.now();
    try {
      await body();
      this.passed++;
      console.log(`ok      ${name} (${Date.now() - began} ms)`);
    } catch (error) {
      this.failed++;
      console.log(`FAILED  ${name}\n        ${String(error.stack ?? error).replaceAll('\n', '\n        ')}`);
    }
  }

  async shot(page, name) {
    if (FOLDER) await page.screenshot({ path: join(FOLDER, `${name}.png`) });
  }

  async finish() {
    await this.test('no console error and no page error', () => {
      if (this.errors.length > 0) throw new Error(this.errors.join('\n'));
    });
    await this.browser.close();
    console.log(`${this.passed} passed, ${this.failed} failed`);
    return this.failed === 0 ? 0 : 1;
  }
}

/** Waits until `probe` gives something true, and returns it. */
export async function until(what, probe, ms = STEP_MS) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await probe();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

export function assert(condition, what) {
  if (!condition) throw new Error(what);
}

/** What reads JSON of a node. */
export const reader = (base) => async (path) => {
  const response = await fetch(`${base}${path}`);
  assert(response.ok, `${path}: HTTP ${response.status}`);
  return response.json();
};
