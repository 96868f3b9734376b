// Keys and live regions that every page shares. Pages work without it.
const status = document.getElementById("status");

// Show the tab of this page where the row of tabs is wider than the window. Not by scrollIntoView: Tab would go on there.
const tab = document.querySelector(".tabs.place [aria-current]");
if (tab) tab.parentElement.scrollLeft = tab.offsetLeft - (tab.parentElement.clientWidth - tab.offsetWidth) / 2;

/** Say something once to people who don't see the page move. */
export function announce(text) {
  if (status) status.textContent = text;
}

/** A text with its words in capitals replaced at once, so that a value may have such a word itself. */
export const filled = (text, values) => text.replace(/\b[A-Z]+\b/g, (word) => String(values[word] ?? word));

// A request that never reached the server has no body to show: say so in words, keep what was typed.
document.addEventListener("htmx:sendError", () => {
  const template = document.getElementById("offline-note");
  const problem = document.getElementById("problem");
  if (template && problem) problem.replaceChildren(template.content.cloneNode(true));
});

// A fragment may name what it changed: HX-Trigger: {"announce": "12 entries found"}.
document.addEventListener("announce", (event) => announce(event.detail.value));

// What was typed before htmx listened: its preview is asked for now. htmx listens from this event on, registered before.
// Sliders are left out: they round their value to a step by themselves.
document.addEventListener("DOMContentLoaded", () => {
  for (const field of document.querySelectorAll("input:not([type=range]), textarea")) {
    const asks = field.closest("[hx-trigger*='input']");
    if (asks && field.value !== field.defaultValue) field.dispatchEvent(new Event("input", { bubbles: true }));
  }
});
