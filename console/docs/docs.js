// The search over the titles and headings of all pages: every word has to be in the title or the heading. And the tabs of examples.

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

// The languages of an example as tabs: one choice for all examples, which is remembered.
const LANGUAGE = 'tieline-docs-language';
const examples = [...document.querySelectorAll('.tabs')].map((box) => {
  const list = document.createElement('div');
  list.setAttribute('role', 'tablist');
  const figures = [...box.querySelectorAll('figure')];
  const tabs = figures.map((figure) => {
    const caption = figure.querySelector('figcaption');
    const tab = list.appendChild(document.createElement('button'));
    [tab.type, tab.textContent] = ['button', caption.textContent];
    tab.setAttribute('role', 'tab');
    tab.addEventListener('click', () => choose(tab.textContent, tab));
    figure.setAttribute('role', 'tabpanel');
    figure.setAttribute('aria-label', caption.textContent);
    caption.remove();
    return { tab, figure };
  });
  list.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = tabs.findIndex(({ tab }) => tab === event.target);
    if (step) choose(tabs[(at + step + tabs.length) % tabs.length].tab.textContent, tabs[(at + step + tabs.length) % tabs.length].tab);
  });
  box.prepend(list);
  return tabs;
});

/** Shows one language; what the reader looks at stays where it is. */
function choose(language, chosen) {
  const before = chosen?.getBoundingClientRect().top;
  for (const { tab, figure } of examples.flat()) {
    const isChosen = tab.textContent === language;
    tab.setAttribute('aria-selected', String(isChosen));
    tab.tabIndex = isChosen ? 0 : -1;
    figure.hidden = !isChosen;
  }
  if (!chosen) return;
  localStorage.setItem(LANGUAGE, language);
  chosen.focus();
  scrollBy(0, chosen.getBoundingClientRect().top - before);
}

if (examples.length > 0) {
  const remembered = localStorage.getItem(LANGUAGE);
  choose(examples[0].some(({ tab }) => tab.textContent === remembered) ? remembered : examples[0][0].tab.textContent);
}
