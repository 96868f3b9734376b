// Buttons that print the page. Without scripts they stay hidden; the browser's own menu prints as well.
const show = () => document.querySelectorAll("[data-print][hidden]").forEach((button) => { button.hidden = false; });
document.addEventListener("click", ({ target }) => { if (target.closest?.("[data-print]")) print(); });
document.addEventListener("htmx:afterSettle", show);
show();
