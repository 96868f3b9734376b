// What the views of a draft share: going from one to another with what is typed, and publishing with a reason.
import { fragmentOf, noteOf, put } from "./editor_dom.js";
import { Queue } from "./editor_queue.js";
import { say } from "./editor_words.js";
import { announce } from "./shell.js";

const $ = (id) => document.getElementById(id);
const root = $("editor");
const KEPT = `draft-${root.dataset.editor}-typed`;

/** The edits of this draft on their way to the server, the same ones in each view. */
export const queueOf = (handlers) => new Queue(`draft-${root.dataset.editor}`, { version: $("draftbar").dataset.version, show: showSaved, ...handlers });

function showSaved(state, n) {
  const saved = $("saved");
  saved.classList.toggle("waiting", state === "waiting");
  if (state === "saved") return; // the bar comes with what was saved
  put(saved.querySelector("span"), say(state, { n }));
  if (state === "waiting") announce(saved.textContent.trim());
}

/** What the server says of an edit that it didn't take; a gateway that answers in its place says nothing of it. */
export function showRefusal(html) {
  const fragment = fragmentOf(html);
  $("problem").replaceChildren(fragment.querySelector(".note") ? fragment : noteOf(say("server")));
}

/** The address of another state of this page; null removes a parameter. */
export function addressOf(changed) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(changed)) {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  return url;
}

/** The state of the page is its address, so that another view, and the back button, find it again. */
export function remember(changed) {
  history.replaceState(history.state, "", addressOf(changed));
}

/** `chosen()`: uid of the chosen entry; `drained()`: true once all is saved; `inPlace(view)`: true if no page is needed. */
export function wireViews({ chosen, drained, inPlace = () => false }) {
  $("views").addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-view]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const { view } = link.dataset;
    if (inPlace(view)) {
      $("views").querySelectorAll("a").forEach((each) => each.removeAttribute("aria-current"));
      link.setAttribute("aria-current", "true");
      remember({ view });
      return;
    }
    const entry = chosen(), isSaved = await drained();
    if (!isSaved && !document.querySelector('input[aria-invalid="true"]')) return; // the page says what isn't saved
    keepTyped();
    location.assign(addressOf({ view, entry: entry || null, group: null }));
  });
}

/** Text that the server refused, or that isn't finished, goes along. */
function keepTyped() {
  const typed = [...document.querySelectorAll("input[data-uid]:is([data-typed], [aria-invalid='true'])")].map((input) => [input.dataset.uid, input.value]);
  if (typed.length) sessionStorage.setItem(KEPT, JSON.stringify(typed));
}

export function restoreTyped() {
  const typed = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
  sessionStorage.removeItem(KEPT);
  for (const [uid, text] of typed) {
    const input = $(`s-${uid}`);
    if (!input) continue;
    input.value = text;
    input.dataset.typed = "1";
    input.setAttribute("aria-invalid", "true");
  }
}

/** The past days are those of the last version: once they are shown, they come anew after an edit. */
export function followBackTest() {
  const frame = $("back-test-frame");
  if (!frame) return;
  new MutationObserver(() => { if ($("back-test-part")) window.htmx.trigger(frame, "edited"); })
    .observe($("draftbar"), { attributeFilter: ["data-version"] });
  let hadFocus = false; // the button goes with the answer to it
  document.addEventListener("htmx:beforeSwap", () => { hadFocus = document.activeElement.closest("#back-test-part") !== null; });
  document.addEventListener("htmx:afterSwap", () => {
    if (hadFocus && document.activeElement === document.body) $("back-test")?.focus();
  });
}

let reasonProblem = "";

/** What is wrong with the reason stays below its field, also where the panel came anew. */
export function drawReason() {
  const field = $("id_reason");
  if (!field || (!reasonProblem && field.hasAttribute("autofocus"))) return; // the server has said it
  put($("reason-problem"), reasonProblem);
  if (reasonProblem) field.setAttribute("aria-invalid", "true");
  else field.removeAttribute("aria-invalid");
}

/** Publishing needs a reason: without one the page stays as it is, and the field says so. */
export function wireReason() {
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "finish-form" || event.submitter?.value !== "publish" || $("id_reason").value.trim()) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    reasonProblem = say("reason");
    drawReason();
    $("id_reason").focus();
  }, true);
  document.addEventListener("input", (event) => {
    if (event.target.id !== "id_reason") return;
    reasonProblem = "";
    event.target.removeAttribute("autofocus");
    drawReason();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#to-finish")) return;
    event.preventDefault();
    $("id_reason").scrollIntoView({ block: "nearest" });
    $("id_reason").focus();
  });
}
