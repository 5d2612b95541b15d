// A browser that is led here keeps the view behind `#` in the address and does not send it: the form has to.
const to = document.querySelector('input[name=to]');
if (to.value === '' && location.hash.startsWith('#/')) to.value = location.hash;
// The same for the provider's link.
const link = document.querySelector('a.button');
if (link && to.value !== '') link.href = '/login/provider?to=' + encodeURIComponent(to.value);
