// A browser that is led here keeps the view behind `#` in the address and does not send it: the form has to.
const to = document.querySelector('input[name=to]');
if (to.value === '' && location.hash.startsWith('#/')) to.value = location.hash;
