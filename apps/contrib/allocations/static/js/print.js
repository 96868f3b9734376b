// Buttons that print the page. Without scripts they stay hidden; the browser's own menu prints as well.
for (const button of document.querySelectorAll("[data-print][hidden]")) {
  button.hidden = false;
  button.addEventListener("click", () => print());
}
