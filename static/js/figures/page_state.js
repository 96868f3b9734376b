// The convergence page: its address is its state. A choice of the bar fetches the page and swaps what is below its
// frame; a click on a tile selects, and only a link, the menu or a click with Shift leads elsewhere.
import { announce } from "../shell.js";
import { current, moveTo, nearest } from "./cursor.js";
import { frameOf } from "./registry.js";
import { setZoom } from "./zoomed.js";

const STEPS = { ArrowLeft: -1, ArrowRight: 1 };
const page = () => document.getElementById("convergence");
const figure = () => document.querySelector("[data-figure=over-time]");
const frame = () => figure() && frameOf(figure());

let turn = 0, earlier = Promise.resolve();

/** One after the other, because each takes the place into which the next one goes; of several that wait, the last. */
function refresh() {
  const own = ++turn;
  earlier = earlier.then(() => (own === turn ? fetchState() : null)).catch(() => null);
  return earlier;
}

async function fetchState() {
  const held = document.activeElement, isOurs = page().contains(held), wasPlot = held.matches(".fig-plot");
  await window.htmx.ajax("GET", location.pathname + location.search, { target: "#convergence", select: "#convergence", swap: "outerHTML" });
  if (isOurs && document.activeElement === document.body) keepFocus(wasPlot);
}

/** htmx gives the focus to what has the same id. What has none, or is not in the new state, leaves it here. */
function keepFocus(wasPlot) {
  const plot = wasPlot && figure()?.querySelector(".fig-plot");
  if (plot) plot.tabIndex = 0;  // as its frame will, when it comes near
  (plot || document.getElementById("main")).focus({ preventScroll: true });
}

/** Another state of the page: what is below its frame is fetched and swapped. */
export function go(query) {
  history.pushState({}, "", query.size ? `?${query}` : location.pathname);
  return refresh();
}

/** The fields of a form as a state of the page, with what was selected and zoomed to since it was made. */
function stateOf(form, kept) {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value) query.append(name, value);
  const now = new URLSearchParams(location.search);
  for (const name of kept) {
    query.delete(name);
    if (now.has(name)) query.set(name, now.get(name));
  }
  return query;
}

const keptBy = (form) => (form.querySelector("[name=level]:not([type=hidden])") ? [] : ["entry", "zoom"]);

document.addEventListener("click", (event) => {
  if (!page() || event.ctrlKey || event.metaKey) return;
  const link = event.target.closest("[data-state-link]"), reset = event.target.closest("[data-reset-zoom]");
  const tile = event.target.closest("[data-select]")?.closest("[data-panel]"), dots = event.target.closest("[data-go-menu]");
  if (dots) { openMenu(dots.closest("[data-panel]"), dots); return; }
  if (!link && !reset && !tile) return;
  event.preventDefault();
  if (tile && event.shiftKey) location.assign(tile.dataset.entryUrl);
  else if (tile) select(tile);
  else if (reset) { setZoom(null); frame()?.plot.focus({ preventScroll: true }); }
  else go(new URL(link.href).searchParams);
});

document.addEventListener("change", (event) => {
  const form = event.target.closest("[data-state-form]");
  if (form) go(stateOf(form, keptBy(form)));
});

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.matches("[data-state-form]")) { event.preventDefault(); go(stateOf(form, keptBy(form))); }
  if (form.id !== "range-form") return;
  event.preventDefault();
  const query = stateOf(form, ["entry"]);
  const response = await fetch(`${location.pathname}?${query}`, { headers: { Accept: "text/html" } }).catch(() => null);
  if (response?.status === 422) { refuse(form, await response.text()); return; }
  document.getElementById("range-pop").hidePopover();
  go(query);
});

/** The form of the answer has the message under its fields, and the one in error gets the focus. */
function refuse(form, html) {
  const answered = new DOMParser().parseFromString(html, "text/html").getElementById(form.id);
  if (!answered) return;
  form.replaceChildren(...document.adoptNode(answered).childNodes);
  form.querySelector("[aria-invalid=true]")?.focus();
}

let selected = null;  // to be said when its numbers have come

const select = ({ dataset: { uid } }) => choose(uid);

/** Shows the course of an entry. */
export function choose(uid) {
  const query = new URLSearchParams(location.search);
  outline(uid);
  if (query.get("entry") === uid) return;
  query.set("entry", uid);
  history.pushState({}, "", `?${query}`);
  selected = uid;
  document.dispatchEvent(new CustomEvent("figure:state"));
}

function outline(uid) {
  for (const tile of document.querySelectorAll("[data-panel]")) {
    const link = tile.querySelector("[data-select]"), isSelected = tile.dataset.uid === uid;
    tile.classList.toggle("is-selected", isSelected);
    if (isSelected) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
  }
}

// --- The menu

function openMenu(tile, from) {
  const menu = document.getElementById("go-menu");
  const place = tile ?? figure(), facts = figure()?.querySelector("[data-facts]");
  const name = tile ? tile.dataset.name ?? tile.querySelector("[data-select]").textContent : figure().dataset.name;
  const entry = tile ? tile.dataset.entryUrl : facts?.querySelector("[data-entry-url]")?.href;
  const shares = tile ? tile.dataset.sharesUrl : facts?.querySelector("[data-shares-url]")?.href;
  const group = tile ? tile.dataset.groupUrl : facts?.querySelector("[data-group-url]")?.dataset.groupUrl;
  const { axis } = frame() ?? {}, isPast = axis && (axis.now === null || cursorOf(axis) <= axis.now);
  const day = isPast ? axis.stops[cursorOf(axis)].slice(0, 10) : "";
  const links = { entry, shares, group, day: day && menu.dataset.dayUrl.replace("DAY", day) };
  for (const item of menu.querySelectorAll("[data-go]")) {
    const url = links[item.dataset.go];
    item.hidden = !url;
    if (url) item.href = url;
    const words = item.querySelector("[data-words]");
    if (words) words.textContent = words.dataset.words.replace("NAME", () => name);
  }
  menu.querySelector("[data-go=day] span").textContent = menu.dataset.dayWords.replace("DAY", axis?.labels[cursorOf(axis)]?.replace(/^\S+ /, "") ?? "");
  menu.showPopover();
  const box = from.getBoundingClientRect(), { width, height } = menu.getBoundingClientRect();
  menu.style.left = `${Math.max(8, Math.min(box.right - width, innerWidth - width - 8))}px`;
  menu.style.top = `${Math.max(8, Math.min(box.bottom + 4, innerHeight - height - 8))}px`;
  menu.querySelector("a:not([hidden])").focus();
  menu.opener = from.matches("button") || from === frame()?.plot ? from : place;
}

const cursorOf = (axis) => { const at = axis?.stops.indexOf(current()) ?? -1; return at < 0 ? axis?.resting : at; };

document.addEventListener("keydown", (event) => {
  const menu = event.target.closest?.("#go-menu");
  if (!menu) return;
  const items = [...menu.querySelectorAll("a:not([hidden])")], at = items.indexOf(document.activeElement);
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (by) { event.preventDefault(); items[(at + by + items.length) % items.length].focus(); }
  if (event.key === "Escape") { event.preventDefault(); menu.hidePopover(); menu.opener?.focus(); }
});

document.addEventListener("contextmenu", (event) => {
  const tile = event.target.closest("[data-panel]"), plot = event.target.closest("[data-figure=over-time] .fig-plot");
  if (!page() || (!tile && !plot)) return;
  event.preventDefault();
  openMenu(tile, { getBoundingClientRect: () => ({ right: event.clientX, bottom: event.clientY }), matches: () => false });
});

// --- The cursor

/** Place within the inner box of a picture, 0..1. */
function partOf(event, plot) {
  const box = plot.getBoundingClientRect(), style = getComputedStyle(plot);
  const left = parseFloat(style.getPropertyValue("--plot-left")), right = parseFloat(style.getPropertyValue("--plot-right"));
  return (event.clientX - box.left - left) / (box.width - left - right);
}

document.addEventListener("pointermove", (event) => {
  if (event.target.closest?.("[data-figure=heat]")) return;  // it moves the cursor by its cells
  const plot = event.target.closest?.("[data-figure=over-time] .fig-plot") ?? event.target.closest?.("[data-panel]")?.querySelector("[data-plot]");
  const axis = plot && frame()?.axis;
  if (axis) moveTo(nearest(axis, partOf(event, plot)));
  else if (event.pointerType === "mouse" && !document.activeElement?.matches(".fig-plot")) moveTo(null);
});

document.addEventListener("keydown", (event) => {
  const over = frame();
  if (!over || event.target !== over.plot || event.ctrlKey || event.metaKey || event.altKey) return;
  const by = event.shiftKey ? 7 : 1;
  const act = {
    ArrowLeft: () => over.step(-by), ArrowRight: () => over.step(by), Home: () => over.step(0, 0), End: () => over.step(0, Infinity),
    "+": () => over.scale(0.5), "-": () => over.scale(2), 0: () => setZoom(null),
    Enter: () => openMenu(null, over.plot), Escape: () => moveTo(null),
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

document.addEventListener("keydown", (event) => {
  const link = event.target.closest?.("[data-select]");
  if (!link) return;
  const links = [...document.querySelectorAll("[data-select]")].filter((one) => one.checkVisibility()), at = links.indexOf(link);
  if (STEPS[event.key]) { move(links[at + STEPS[event.key]]); return; }
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const { left, top } = link.getBoundingClientRect(), isDown = event.key === "ArrowDown";
  const others = links.map((one) => [one, one.getBoundingClientRect()]).filter(([, box]) => (isDown ? box.top > top + 20 : box.top < top - 20));
  const away = ([, box]) => Math.abs(box.top - top) * 4 + Math.abs(box.left - left);
  move(others.sort((a, b) => away(a) - away(b))[0]?.[0]);
  function move(to) { if (to) { event.preventDefault(); to.focus(); } }
});

// --- After an answer

document.addEventListener("figure:written", ({ detail: { answer } }) => {
  if (!page()) return;
  outline(answer.entry);
  if (answer.entry === selected) announce(`${answer.title}. ${answer.reads[answer.axis.resting]}. ${answer.sentence}`);
  selected = null;
});
document.addEventListener("htmx:afterSwap", ({ detail }) => {
  outline(figure()?.dataset.entry);
  if (!detail.requestConfig?.elt?.closest(".more-tiles")) return;
  [...document.querySelectorAll(".tiles:not([data-drawn])")].at(-1)?.querySelector("[data-select]")?.focus();
});
addEventListener("popstate", () => { if (page()) refresh(); });
document.addEventListener("toggle", ({ target, newState }) => {
  if (target.id === "range-pop" && newState === "open") target.querySelector("[aria-invalid=true], #from").select();
}, { capture: true });
document.querySelector("#range-pop[data-open]")?.showPopover();
