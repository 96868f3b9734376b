// Cards that follow a page: each is loaded when it comes near the window, keeps its place meanwhile, and can be asked
// for again if it did not come.
import { keepFocus } from "./forms.js";

const AHEAD = "400px";
const cards = [...document.querySelectorAll("[data-card]")];

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    if (!target.hasAttribute("data-asked")) window.htmx.trigger(target, "near");
  }
}, { rootMargin: AHEAD });

const cardOf = (event) => {
  const asking = event.detail.requestConfig?.elt ?? event.detail.elt;
  return asking?.matches("[data-card]") ? asking : null;
};

function show(card, isFailed) {
  card.removeAttribute("data-asked");
  const pending = card.querySelector("[data-pending]");
  if (!pending) return;  // it has come before: what is shown stays
  pending.querySelector(".failed").hidden = !isFailed;
  pending.querySelector(".wait").hidden = isFailed;
  if (isFailed && card.hasAttribute("data-retried")) endRetry(card, pending.querySelector("[data-ask-again]"));
}

document.addEventListener("htmx:beforeRequest", (event) => {
  const card = cardOf(event);
  if (!card) return;
  show(card, false);
  card.setAttribute("data-asked", "");
});

// The message about a card stands in the card, not above the page. A session that ended concerns the page.
document.addEventListener("htmx:beforeSwap", (event) => {
  const card = cardOf(event), { status } = event.detail.xhr;
  if (!card) return;
  if (event.detail.shouldSwap && (status < 400 || status === 422)) { card.setAttribute("data-come", ""); return; }
  show(card, true);
  if (status !== 401) event.detail.shouldSwap = false;
});
for (const name of ["htmx:sendError", "htmx:timeout", "htmx:sendAbort"]) {
  document.addEventListener(name, (event) => { const card = cardOf(event); if (card) show(card, true); });
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-ask-again]"), card = button?.closest("[data-card]");
  if (!card) return;
  card.setAttribute("data-retried", "");
  window.htmx.trigger(card, "retry");
});

document.addEventListener("htmx:afterSwap", ({ target }) => {
  if (target.matches("[data-card][data-retried][data-come]")) endRetry(target, target.firstElementChild);
});

/** The button that asked again was hidden, and is gone if the card came. */
function endRetry(card, part) {
  card.removeAttribute("data-retried");
  keepFocus(part);
}

// htmx listens from DOMContentLoaded on.
function begin() { for (const card of cards) near.observe(card); }
if (document.readyState === "complete") begin(); else addEventListener("load", begin);
