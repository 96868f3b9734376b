// Counts what is chosen, and moves a rule by Alt and the arrow keys. Without it everything works by buttons.

const form = () => document.querySelector("[data-choosing]");

function tell() {
  const here = form();
  if (!here) return;
  const chosen = [...here.querySelectorAll("input[name=account]:checked")];
  const words = here.querySelector("[data-chosen]");
  const hours = here.querySelector("[data-chosen-core-h]");
  if (!words || !hours) return;
  const coreH = chosen.reduce((sum, box) => sum + Number(box.dataset.coreS) / 3600, 0);
  const shown = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: coreH < 10 ? 1 : 0 });
  words.textContent = chosen.length === 1 ? words.dataset.one : words.dataset.many.replace("%n", chosen.length);
  hours.textContent = chosen.length ? hours.dataset.words.replace("%n", shown.format(coreH)) : "";
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-choosing] input[name=account]")) tell();
});
document.addEventListener("input", (event) => {
  if (event.target.matches("#to-entry") && event.target.value) document.querySelector("#to").value = "entry";
});
document.addEventListener("htmx:afterSettle", tell);
document.addEventListener("keydown", (event) => {
  const row = event.target.closest("tr[data-rule]");
  const way = { ArrowUp: "up", ArrowDown: "down" }[event.key];
  if (!row || !way || !event.altKey) return;
  event.preventDefault();
  const button = row.querySelector(`button[value=${way}]`);
  if (button && !button.disabled) button.click();
});
tell();
