// New numbers of My priority: the answer on top and the walk take what the page would say now, then cards that follow
// the numbers are asked for again; figures fetch their own. A part that holds the focus stays as it is until the next.
import { announce } from "./shell.js";

const PARTS = ["#verdict", ".qa", "#path"];

// A sentence that comes later stays as it was until it has come again.
function keepLater(old, now) {
  const before = old.querySelector("[data-card][data-come]"), later = now.querySelector("[data-card]");
  if (before && later) later.replaceChildren(...before.childNodes);
}

document.addEventListener("live:changed", async ({ detail }) => {
  if (!detail.changed.has("numbers")) return;
  const response = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" }).catch(() => null);
  if (!response?.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const before = document.querySelector("#verdict")?.textContent;
  for (const part of PARTS) {
    const old = document.querySelector(part), now = fresh.querySelector(part);
    if (!old || !now || old.contains(document.activeElement)) continue;
    keepLater(old, now);
    old.replaceWith(document.adoptNode(now));
    window.htmx.process(now);
  }
  const cards = document.querySelector("#my-cards"), numbers = fresh.querySelector("#my-cards")?.getAttribute("hx-vals");
  if (cards && numbers) cards.setAttribute("hx-vals", numbers);
  for (const note of document.querySelectorAll(".other-numbers")) note.remove();
  for (const card of document.querySelectorAll("[data-card][data-come][hx-trigger*=numbers]")) {
    if (!card.contains(document.activeElement)) window.htmx.trigger(card, "numbers");
  }
  document.querySelector("#submit form")?.dispatchEvent(new Event("refresh"));
  const after = document.querySelector("#verdict")?.textContent;
  if (after && after !== before) announce(after);
});
