// Keys of every page: / and Ctrl-K press the search of the top bar, ? lists the keys, g and a letter opens a page, and a
// single key presses the control that carries it: data-shortcut="e". Single keys can be switched off, and are dead in
// fields (WCAG 2.1.4).

const SECOND_KEY_MS = 1500;
const parts = document.getElementById("keys-parts");
const usual = { z: "[data-live-pause]:not([hidden])" }; // controls that need no mark of their own
const NEVER = -Infinity;
let sheet = null, first = NEVER; // when g was pressed, by the clock of the page, which begins with it

/** Whether this browser uses keys without Ctrl or Alt. */
export const usesSingleKeys = () => parts?.dataset.keys !== "off";

const inField = (target) => target.closest?.("input, textarea, select, [contenteditable], [role=combobox]");
const isShown = (control) => control.getClientRects().length > 0 || Boolean(control.closest("#freshness"));
const carriers = () => [...document.querySelectorAll("[data-shortcut]")];

function press(key) {
  const control = carriers().find((one) => one.dataset.shortcut === key && (isShown(one) || one.closest("#nav")))
    ?? (usual[key] && [...document.querySelectorAll(usual[key])].find(isShown));
  if (!control) return false;
  control.click();
  return true;
}

function openSearch(event) {
  const control = document.querySelector("[data-palette]");
  if (!control) return;
  event.preventDefault();
  control.click();
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || !parts) return;
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
    return openSearch(event);
  }
  if (event.ctrlKey || event.metaKey || event.altKey || inField(event.target) || document.querySelector("dialog[open]")) return undefined;
  if (!usesSingleKeys()) return undefined;
  const isSecond = event.timeStamp - first < SECOND_KEY_MS;
  first = NEVER;
  if (isSecond && press(`g ${event.key}`)) event.preventDefault();
  else if (event.key === "g") first = event.timeStamp;
  else if (event.key === "/") openSearch(event);
  else if (event.key === "?") {
    event.preventDefault();
    showKeys();
  } else if (event.key.length === 1 && press(event.key)) event.preventDefault();
  return undefined;
});

// --- the sheet --------------------------------------------------------------------------------------------------------
function line(keys, text) {
  const row = document.createElement("div"), term = document.createElement("dt"), description = document.createElement("dd");
  for (const key of keys.split(" ")) term.append(Object.assign(document.createElement("kbd"), { textContent: key }), " ");
  description.textContent = text;
  row.append(term, description);
  return row;
}

const nameOf = (control) => control.getAttribute("aria-label") || (control.querySelector("span:not(.sr)") ?? control).textContent.trim();

function fill(kind, controls) {
  const section = sheet.querySelector(`[data-keys-of=${kind}]`);
  section.hidden = !controls.length;
  section.querySelector("dl").replaceChildren(...controls.map(([keys, control]) => line(keys, nameOf(control))));
}

function showKeys() {
  if (!parts) return;
  if (!sheet) {
    sheet = parts.content.querySelector("dialog.keys-sheet").cloneNode(true);
    document.body.append(sheet);
    sheet.addEventListener("click", (event) => { if (event.target === sheet || event.target.closest("[data-close]")) sheet.close(); });
  }
  const all = carriers().map((one) => [one.dataset.shortcut, one]);
  const others = Object.entries(usual).map(([key, selector]) => [key, [...document.querySelectorAll(selector)].find(isShown)]);
  fill("go", all.filter(([keys]) => keys.startsWith("g ")));
  fill("page", [...all.filter(([keys, one]) => !keys.startsWith("g ") && isShown(one)), ...others.filter(([, one]) => one)]);
  sheet.querySelectorAll("[data-keys-if]").forEach((section) => { section.hidden = !document.querySelector(section.dataset.keysIf); });
  const from = document.activeElement;
  sheet.showModal();
  sheet.addEventListener("close", () => from?.focus?.({ preventScroll: true }), { once: true });
}
document.addEventListener("keys:show", showKeys);
