// Chooses the language of the console before anything of it is loaded: that of the address (`?lang=de`), that of the menu, or the
// first one of the browser that there is. The build puts the first script of each language in the place of FILES.

const files = FILES;
let kept;
try {
  kept = JSON.parse(localStorage.getItem('tieline.lang'));
} catch {
  // Storage may be forbidden.
}
const wanted = [new URLSearchParams(location.search).get('lang'), kept, ...navigator.languages.map((tag) => tag.slice(0, 2))];
const lang = wanted.find((one) => Object.hasOwn(files, one)) ?? 'en';
document.documentElement.lang = lang === 'pt' ? 'pt-BR' : lang;
document.head.append(Object.assign(document.createElement('script'), { type: 'module', src: `/assets/${files[lang]}` }));
