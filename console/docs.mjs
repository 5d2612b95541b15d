// Makes the pages of ../docs into HTML in `dist/docs/`, packed only: the node serves them at /docs, with a search over titles and
// headings. Images are left out, as they would be most of the bytes; links to files of the repository are words.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { Marked } from 'marked';

const FROM = fileURLToPath(new URL('../docs/', import.meta.url));
const PARTS = fileURLToPath(new URL('docs/', import.meta.url));
const TO = fileURLToPath(new URL('dist/docs/', import.meta.url));

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
      image: ({ text }) => `<em>${escaped(text)}</em>`,
      table({ header, rows }) {
        const cell = (tag) => ({ tokens, align }) => `<${tag}${align ? ` class="${align}"` : ''}>${this.parser.parseInline(tokens)}</${tag}>`;
        const body = rows.map((row) => `<tr>${row.map(cell('td')).join('')}</tr>`).join('\n');
        return `<div class="table" tabindex="0"><table><thead><tr>${header.map(cell('th')).join('')}</tr></thead><tbody>${body}</tbody></table></div>\n`;
      },
      html: ({ text }) => (text.startsWith('<!--') ? '' : text),
    },
  });
  const html = marked.parse(markdown);
  return { html, headings, title: headings[0]?.[1] ?? '' };
}

const page = (title, html) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)} · Tieline</title>
<link rel="stylesheet" href="docs.css">
<script src="docs.js" type="module"></script>
</head>
<body>
<header>
<a href="./">Documentation</a>
<input id="search" type="search" placeholder="Search titles and headings" aria-label="Search titles and headings" autocomplete="off" spellcheck="false">
<a href="/">Console</a>
</header>
<ul id="found" aria-label="Found" aria-live="polite" hidden></ul>
<main>
${html}</main>
</body>
</html>
`;

mkdirSync(TO, { recursive: true });
const put = (name, text) => writeFileSync(`${TO}${name}.gz`, gzipSync(text, { level: 9 }));
const found = [];
for (const name of readdirSync(FROM).filter((name) => name.endsWith('.md')).sort()) {
  const { html, headings, title } = convert(readFileSync(`${FROM}${name}`, 'utf8'));
  const file = fileOf(name.slice(0, -3));
  put(file, page(title, html));
  found.push([file, title, headings.slice(1)]);
}
put('search.json', JSON.stringify(found));
for (const name of readdirSync(PARTS)) put(name, readFileSync(`${PARTS}${name}`));
