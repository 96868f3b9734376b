// Single keys of a review, and what polling needs besides htmx. The page works without it.
import { usesSingleKeys } from "./keys.js";
import { announce } from "./shell.js";

const KEY = "review-keys";
const hint = document.querySelector("[data-keys]");
const toggle = document.querySelector("[data-keys-toggle]");

function isOn() {
  return localStorage.getItem(KEY) !== "off";
}

function showState() {
  toggle.textContent = isOn() ? toggle.dataset.on : toggle.dataset.off;
}

function step(by) {
  const changes = [...document.querySelectorAll("[data-change]")];
  if (!changes.length) return;
  const here = changes.indexOf(document.activeElement?.closest?.("[data-change]"));
  const next = here < 0 ? (by > 0 ? 0 : changes.length - 1) : Math.min(Math.max(here + by, 0), changes.length - 1);
  changes[next].focus();
  changes[next].scrollIntoView({ block: "nearest" });
}

if (hint && toggle) {
  hint.hidden = false;
  showState();
  toggle.addEventListener("click", () => {
    localStorage.setItem(KEY, isOn() ? "off" : "on");
    showState();
  });
}

document.addEventListener("keydown", (event) => {
  const inField = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.defaultPrevented || inField || !isOn() || !usesSingleKeys() || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "n") step(1);
  else if (event.key === "p") step(-1);
  else if (event.key === "a") document.querySelector("[data-decide]")?.focus();
  else return;
  event.preventDefault();
});

document.addEventListener("click", (event) => {
  const pause = event.target.closest("[data-pause]");
  if (!pause) return;
  const stopped = pause.getAttribute("aria-pressed") !== "true";
  pause.setAttribute("aria-pressed", String(stopped));
  announce(stopped ? "paused" : "");
});
document.addEventListener("htmx:beforeRequest", (event) => {
  const isPoll = event.target.matches?.("[data-poll]");
  const pause = document.querySelector("[data-pause]");
  if (isPoll && (document.hidden || pause?.getAttribute("aria-pressed") === "true")) event.preventDefault();
});
// A control that its own answer takes away leaves the focus to what came in its place.
let hadFocus = false;
document.addEventListener("htmx:beforeSwap", () => { hadFocus = document.activeElement !== document.body; });
document.addEventListener("htmx:afterSwap", () => {
  if (!hadFocus || document.activeElement !== document.body) return;
  ["pause", "ranks", "back-test"].map((id) => document.getElementById(id)).find(Boolean)?.focus();
});
document.getElementById("refusal")?.focus();
