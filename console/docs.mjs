// Makes the pages of ../docs into HTML in `dist/docs/`, packed only: the node serves them at /docs, with a menu of the groups of
// README.md and a search over titles and headings. A task in three languages is one with tabs. Images beyond a number
// of bytes are left out; links to files of the repository are words.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { Marked } from 'marked';

const FROM = fileURLToPath(new URL('../docs/', import.meta.url));
const PARTS = fileURLToPath(new URL('docs/', import.meta.url));
const ICON = fileURLToPath(new URL('src/icon.svg', import.meta.url));
const TO = fileURLToPath(new URL('dist/docs/', import.meta.url));

/** Of all images, packed: the binary carries them. */
const IMAGES_BYTES_MAX = 500_000;
/** The languages of an example, in the order of its blocks. */
const TABS = [['', 'Shell'], ['python', 'Python'], ['ts', 'TypeScript']];

const escaped = (text) => text.replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
const fileOf = (page) => (page === 'README' ? 'index.html' : `${page}.html`);

/** The anchor of a heading, as GitHub makes it. */
function anchors() {
  const seen = new Map();
  return (text) => {
    const name = text.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-');
    const count = seen.get(name) ?? 0;
    seen.set(name, count + 1);
    return count === 0 ? name : `${name}-${count}`;
  };
}

/** Images by their names; those that have no room are null. */
const images = new Map();
let imageBytes = 0;

/** An image as it is sent; null if it has no room. */
function packed(name) {
  const image = readFileSync(`${FROM}${name}`);
  // PNG is packed by itself.
  const bytes = name.endsWith('.svg') ? gzipSync(image, { level: 9 }) : image;
  if (imageBytes + bytes.length > IMAGES_BYTES_MAX) {
    console.warn(`docs/${name} has no room, its words stand for it: ${bytes.length} bytes; all images have ${IMAGES_BYTES_MAX}`);
    return null;
  }
  imageBytes += bytes.length;
  return bytes;
}

/** The HTML of an image, or of its words. */
function shownImage(name, words) {
  if (!images.has(name)) images.set(name, packed(name));
  return images.get(name) ? `<img src="${name}" alt="${words}" loading="lazy">` : `<em>${words}</em>`;
}

/** Whether nothing of a token is shown. */
const isUnseen = (token) => token.type === 'space' || (token.type === 'html' && token.text.startsWith('<!--'));

/** Puts blocks of one example in three languages, one after the other, into one token. */
function withTabs(tokens) {
  const joined = [];
  for (let at = 0; at < tokens.length; ) {
    const shown = tokens.slice(at).filter((token) => !isUnseen(token)).slice(0, TABS.length);
    const isExample = !isUnseen(tokens[at]) && TABS.every(([lang], n) => shown[n]?.type === 'code' && (shown[n].lang ?? '') === lang);
    if (isExample) {
      const figures = TABS.map(([, name], n) => `<figure><figcaption>${name}</figcaption><pre><code>${escaped(shown[n].text)}\n</code></pre></figure>`);
      joined.push({ type: 'html', text: `<div class="tabs">${figures.join('\n')}</div>\n`, block: true });
      at = tokens.indexOf(shown.at(-1)) + 1;
    } else {
      joined.push(tokens[at]);
      at += 1;
    }
  }
  return joined;
}

/** The HTML of a page, its title, and its headings with their anchors. */
function convert(markdown) {
  const anchor = anchors();
  const headings = [];
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }) {
        const html = this.parser.parseInline(tokens);
        const text = this.parser.parseInline(tokens, this.parser.textRenderer);
        const id = anchor(text);
        headings.push([id, text]);
        return `<h${depth} id="${id}">${html}</h${depth}>\n`;
      },
      link({ href, tokens }) {
        const words = this.parser.parseInline(tokens);
        const page = /^([\w-]+)\.md(#.*)?$/.exec(href);
        if (page) return `<a href="${fileOf(page[1])}${page[2] ?? ''}">${words}</a>`;
        if (/^(https?:|#)/.test(href)) return `<a href="${escaped(href)}">${words}</a>`;
        return words;
      },
      image: ({ href, text }) => shownImage(href, escaped(text)),
      table({ header, rows }) {
        const cell = (tag) => ({ tokens, align }) => `<${tag}${align ? ` class="${align}"` : ''}>${this.parser.parseInline(tokens)}</${tag}>`;
        const body = rows.map((row) => `<tr>${row.map(cell('td')).join('')}</tr>`).join('\n');
        return `<div class="table" tabindex="0"><table><thead><tr>${header.map(cell('th')).join('')}</tr></thead><tbody>${body}</tbody></table></div>\n`;
      },
      html: ({ text }) => (text.startsWith('<!--') ? '' : text.replace(/<img src="([^"]+)"[^>]* alt="([^"]*)">/g, (_, name, words) => shownImage(name, words))),
    },
  });
  const html = marked.parser(withTabs(marked.lexer(markdown)));
  return { html, headings, title: headings[0]?.[1] ?? '' };
}

/** The groups of README.md: their names, and the pages that each lists by their names. */
function groupsOf(markdown) {
  const seen = new Set();
  return markdown.split(/^## /m).slice(1).map((part) => {
    const listed = [...part.matchAll(/\[([\w-]+)\.md\]\(\1\.md\)/g)].map(([, name]) => name);
    const names = [...new Set(listed)].filter((name) => !seen.has(name));
    names.forEach((name) => seen.add(name));
    return { name: part.slice(0, part.indexOf('\n')), pages: names };
  });
}

/** Links to the groups; that of the page is marked. */
function menu(groups, own) {
  const anchor = anchors();
  const link = ({ name }) => `<a href="index.html#${anchor(name)}"${name === own?.name ? ' aria-current="true"' : ''}>${name}</a>`;
  return `<nav aria-label="Groups">${groups.map(link).join('\n')}</nav>`;
}

/** Links to the pages of the group of a page. */
function beside(group, titles, own) {
  if (!group) return '';
  const link = (name) => `<li><a href="${fileOf(name)}"${name === own ? ' aria-current="page"' : ''}>${escaped(titles.get(name))}</a></li>`;
  return `<nav id="group" aria-label="${group.name}"><h2>${group.name}</h2><ul>${group.pages.map(link).join('\n')}</ul></nav>\n`;
}

const page = (title, html, groups, group) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)} · Tieline</title>
<link rel="icon" type="image/svg+xml" href="icon.svg">
<link rel="stylesheet" href="docs.css">
<script src="docs.js" type="module"></script>
</head>
<body>
<header>
<a href="./">Documentation</a>
${groups}
<input id="search" type="search" placeholder="Search titles and headings" aria-label="Search titles and headings" autocomplete="off" spellcheck="false">
<a href="/">Console</a>
</header>
<ul id="found" aria-label="Found" aria-live="polite" hidden></ul>
<main>
${html}</main>
${group}</body>
</html>
`;

mkdirSync(TO, { recursive: true });
const put = (name, text) => writeFileSync(`${TO}${name}.gz`, gzipSync(text, { level: 9 }));
const names = readdirSync(FROM).filter((name) => name.endsWith('.md')).map((name) => name.slice(0, -3)).sort();
const pages = new Map(names.map((name) => [name, convert(readFileSync(`${FROM}${name}.md`, 'utf8'))]));
const titles = new Map([...pages].map(([name, { title }]) => [name, title]));
const groups = groupsOf(readFileSync(`${FROM}README.md`, 'utf8'));
for (const [name, { html, title }] of pages) {
  const group = groups.find(({ pages }) => pages.includes(name));
  put(fileOf(name), page(title, html, menu(groups, group), beside(group, titles, name)));
}
put('search.json', JSON.stringify([...pages].map(([name, { title, headings }]) => [fileOf(name), title, headings.slice(1)])));
for (const name of readdirSync(PARTS)) put(name, readFileSync(`${PARTS}${name}`));
put('icon.svg', readFileSync(ICON));
for (const [name, bytes] of images) {
  if (!bytes) continue;
  mkdirSync(dirname(`${TO}${name}`), { recursive: true });
  writeFileSync(`${TO}${name}${name.endsWith('.svg') ? '.gz' : ''}`, bytes);
}
