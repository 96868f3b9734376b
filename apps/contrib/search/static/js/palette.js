// Search in a dialog: /, Ctrl-K or the control in the top bar. Without this module that control is a
// link to the search page, which shows the same. What one may not see is left out by the server.
const PAUSE_MS = 80, BUSY_MS = 120, LAST = "palette-last", MOST_LAST = 3;
const parts = document.getElementById("palette-parts");
const here = parts?.dataset ?? {};
let dialog = null, opener = null, turn = null, options = [], active = 0, timer = 0, busyTimer = 0, emptyAnswer = "";

const $ = (selector) => dialog.querySelector(selector);
const input = () => $(".pal-in input");
const copyOf = (selector) => parts.content.querySelector(selector).cloneNode(true);

function make() {
  dialog = copyOf("dialog.palette");
  document.body.append(dialog);
  const roles = { role: "combobox", "aria-expanded": "true", "aria-controls": "pal-list", "aria-autocomplete": "list" };
  Object.entries(roles).forEach(([name, value]) => input().setAttribute(name, value));
  input().addEventListener("input", () => ask(PAUSE_MS));
  input().addEventListener("keydown", onKey);
  dialog.addEventListener("click", onClick);
  $(".pal-list").addEventListener("pointermove", (event) => {
    const at = options.indexOf(event.target.closest("[role=option]"));
    if (at >= 0 && at !== active) mark(at, false);
  });
  dialog.addEventListener("close", () => opener?.focus?.({ preventScroll: true }));
}

/** Opens at once; what it lists comes with the first answer. */
function openPalette() {
  if (!parts) return;
  if (!dialog) make();
  if (dialog.open) return;
  opener = document.activeElement;
  dialog.showModal();
  input().value = "";
  input().focus();
  ask(0);
}

function ask(pause) {
  clearTimeout(timer);
  turn?.abort();
  if (!input().value.trim() && emptyAnswer) show(emptyAnswer);
  else timer = setTimeout(load, pause);
}

async function load() {
  const asked = (turn = new AbortController()), text = input().value.trim();
  const query = new URLSearchParams({ q: text, policy: here.policy });
  opened().forEach((ref) => query.append("last", ref));
  clearTimeout(busyTimer);
  busyTimer = setTimeout(() => busy(true), BUSY_MS);
  try {
    const answer = await fetch(`${here.results}?${query}`, { headers: { "HX-Request": "true" }, signal: asked.signal });
    if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
    const html = await answer.text();
    if (asked.signal.aborted) return;
    if (!text) emptyAnswer = html;
    show(html);
  } catch (error) {
    if (error.name !== "AbortError") offline();
  }
}

function busy(is) {
  $(".pal-busy").hidden = !is;
  if (is) $(".pal-list").setAttribute("aria-busy", "true");
  else $(".pal-list").removeAttribute("aria-busy");
}

function settle() {
  clearTimeout(busyTimer);
  busy(false);
}

function show(html) {
  settle();
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const empty = holder.content.querySelector(".empty");
  $("#pal-state").replaceChildren(...(empty ? [empty] : []));
  $(".pal-list").replaceChildren(...holder.content.querySelectorAll("[role=group]"));
  list();
}

function list() {
  options = [...dialog.querySelectorAll("[role=option]")];
  mark(Math.max(options.findIndex((one) => one.getAttribute("aria-disabled") !== "true"), 0));
}

/** Pages are on this page already, so they can be chosen without the server. */
function offline() {
  settle();
  $("#pal-state").replaceChildren(copyOf("[data-offline]"));
  const wanted = input().value.trim().toLowerCase();
  const links = [...document.querySelectorAll("#nav li a[href]")].filter((link) => link.textContent.toLowerCase().includes(wanted));
  $(".pal-list").replaceChildren(...links.slice(0, 6).map((link, at) => {
    const option = document.createElement("a");
    Object.entries({ role: "option", id: `pal-0-${at}`, href: link.href, tabindex: "-1", "aria-selected": "false" })
      .forEach(([name, value]) => option.setAttribute(name, value));
    const title = Object.assign(document.createElement("span"), { className: "t", textContent: link.querySelector("span")?.textContent ?? "" });
    option.append(link.querySelector("svg")?.cloneNode(true) ?? "", title);
    return option;
  }));
  list();
}

function mark(at, scroll = true) {
  active = at;
  options.forEach((option, n) => option.setAttribute("aria-selected", String(n === at)));
  const option = options[at];
  if (option) input().setAttribute("aria-activedescendant", option.id);
  else input().removeAttribute("aria-activedescendant");
  if (!at) $(".pal-body").scrollTop = 0;
  else if (scroll) option?.scrollIntoView({ block: "nearest" });
}

function onKey(event) {
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 5, PageUp: -5 }[event.key];
  if (step && options.length) {
    const last = options.length - 1, next = active + step;
    mark(Math.abs(step) === 1 ? (next + options.length) % options.length : Math.min(Math.max(next, 0), last));
  } else if (event.key === "Enter") choose(options[active], event.ctrlKey || event.metaKey);
  else if (event.key === "Escape" && input().value) {
    input().value = "";
    ask(0);
  } else if (event.key === "?" && !input().value) {
    dialog.close();
    document.dispatchEvent(new CustomEvent("keys:show"));
  } else return;
  event.preventDefault();
}

function onClick(event) {
  if (event.target === dialog || event.target.closest("[data-close]")) return dialog.close();
  if (event.target.closest("[data-retry]")) {
    input().focus();
    return ask(0);
  }
  const option = event.target.closest("[role=option]");
  if (!option) return undefined;
  if (option.href && (event.ctrlKey || event.metaKey || event.shiftKey || event.button)) return remember(option);
  event.preventDefault();
  return choose(option, false);
}

function choose(option, inNewTab) {
  if (!option || option.getAttribute("aria-disabled") === "true") return;
  const { press } = option.dataset;
  if (press) {
    dialog.close();
    document.getElementById(`press-${press}`)?.click();
  } else {
    remember(option);
    if (inNewTab) window.open(option.href, "_blank", "noopener");
    else location.assign(option.href);
  }
}

// --- what was opened last: identifiers alone, names come from the server with the rights of then ---------------------
function opened() {
  try {
    return JSON.parse(localStorage.getItem(LAST) ?? "[]").filter((ref) => typeof ref === "string").slice(0, MOST_LAST);
  } catch {
    return [];
  }
}

function remember(option) {
  const { ref } = option.dataset;
  if (!ref) return;
  emptyAnswer = "";
  try {
    localStorage.setItem(LAST, JSON.stringify([ref, ...opened().filter((one) => one !== ref)].slice(0, MOST_LAST)));
  } catch { /* a full or closed storage loses the list, no more */ }
}

for (const control of document.querySelectorAll("[data-palette]")) {
  control.setAttribute("role", "button");
  control.setAttribute("aria-haspopup", "dialog");
  control.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    openPalette();
  });
}
