// Builds the console in each of its languages, and the script that chooses between them (boot.mjs). A page has the texts of one
// language only.

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const DIST = `${HERE}dist/`;
const VITE = fileURLToPath(new URL('node_modules/vite/bin/vite.js', import.meta.url));
const languages = readdirSync(`${HERE}src/lang`).map((name) => name.replace('.json', ''));
const build = async (...options) => {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [VITE, 'build', ...options], { cwd: HERE });
  return stdout + stderr;
};
const names = (end) => readdirSync(`${DIST}assets`).filter((name) => name.endsWith(end));

console.log(await build());
const styles = names('.css').join();
const [first] = names('.js').filter((name) => name.startsWith('index-'));
if (!first) throw new Error('the build has no first script');
await Promise.all(languages.map((language) => build('--mode', language, '--logLevel', 'warn')));
rmSync(`${DIST}assets/index.html`);
if (names('.css').join() !== styles) throw new Error('the styles of the languages differ');

const files = { en: first };
for (const language of languages) {
  const entry = readdirSync(`${DIST}assets/${language}`).find((name) => name.startsWith('index-'));
  files[language] = `${language}/${entry}`;
}
const boot = readFileSync(`${HERE}boot.mjs`, 'utf8').replace('= FILES', `= ${JSON.stringify(files)}`);
const name = `boot-${createHash('sha256').update(boot).digest('base64url').slice(0, 8)}.js`;
writeFileSync(`${DIST}assets/${name}`, boot);
const page = readFileSync(`${DIST}index.html`, 'utf8');
const booted = page.replace(/<script type="module"[^>]*><\/script>/, `<script type="module" src="/assets/${name}"></script>`);
if (booted === page) throw new Error('the page has no script');
writeFileSync(`${DIST}index.html`, booted);
