// A choice that opens its page at once. Without scripts its form has a button.
document.addEventListener("change", ({ target }) => { if (target.matches("[data-submits]")) target.form.requestSubmit(); });
