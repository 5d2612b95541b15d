// The search over the titles and headings of all pages: every word has to be in the title or the heading.

const FOUND_MAX = 30;
const search = document.querySelector('#search');
const list = document.querySelector('#found');
let pages;

function matches(words) {
  const has = (text) => words.every((word) => text.toLowerCase().includes(word));
  const rows = [];
  for (const [file, title, headings] of pages) {
    if (has(title)) rows.push([file, title]);
    for (const [id, text] of headings) if (has(`${title} ${text}`) && !has(title)) rows.push([`${file}#${id}`, `${title}: ${text}`]);
  }
  return rows;
}

function link([href, text]) {
  const item = document.createElement('li');
  const a = item.appendChild(document.createElement('a'));
  [a.href, a.textContent] = [href, text];
  return item;
}

async function show() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  pages ??= await (await fetch('search.json')).json();
  const rows = words.length > 0 ? matches(words) : [];
  const more = rows.length > FOUND_MAX ? `and ${rows.length - FOUND_MAX} more` : rows.length === 0 ? 'Nothing is found.' : '';
  list.replaceChildren(...rows.slice(0, FOUND_MAX).map(link), more);
  list.hidden = words.length === 0;
}

search.addEventListener('input', show);
search.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') [search.value, list.hidden] = ['', true];
  if (event.key === 'Enter') list.querySelector('a')?.click();
});
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target === search) return;
  event.preventDefault();
  search.focus();
});
