// Forms in place: a refused form stays where it is, with what was typed and the focus in its first field in error.
// Without this module a form is sent as usual, and its page says the same.
import { announce } from "./shell.js";
import { hasEnded, signInAgain } from "./session.js";

const FIELDS = "input:not([type=hidden], [type=submit], [type=button], [type=file], [type=password]), select, textarea";
const REFUSED = 400;
const sending = new WeakSet();

// Attributes, because a field named `action` or `target` hides the form's property of that name.
const attribute = (form, name) => form.getAttribute(name) ?? "";

// --- sending ----------------------------------------------------------------------------------------------------------
/** Whether the frame sends it: no other module has taken it, and it leads to a page of its own window. Browsers keep
 *  passwords that a page without a session sends. */
const isOurs = (event, form, button) => document.body.dataset.user && !event.defaultPrevented
  && attribute(form, "method").toLowerCase() === "post" && !form.matches("[hx-post], [hx-get]")
  && !button?.matches("[hx-post], [hx-get]") && !(button?.formTarget || attribute(form, "target"));

// On the window, so that modules of pages come first.
window.addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  if (!isOurs(event, form, submitter)) return;
  event.preventDefault();
  if (!sending.has(form)) send(form, submitter);
});

async function send(form, submitter) {
  const body = new FormData(form, submitter);
  const url = submitter?.hasAttribute("formaction") ? submitter.formAction : new URL(attribute(form, "action"), location.href).href;
  mark(form, submitter, true);
  try {
    await post({ form, submitter, body, url });
  } finally {
    mark(form, submitter, false);
  }
}

async function post(asked) {
  const { form, body, url } = asked;
  const response = await fetch(url, {
    method: "POST", body: attribute(form, "enctype") === "multipart/form-data" ? body : new URLSearchParams(body), credentials: "same-origin",
    headers: { "X-In-Place": "1", Accept: "text/html" }, redirect: "error",
  }).catch(() => null);
  if (response) await answered(response, asked);
  else showOffline(form);
}

const showOffline = (form) => showNote(form, document.getElementById("offline-note").content.firstElementChild.cloneNode(true));

function mark(form, submitter, isSending) {
  if (isSending) sending.add(form);
  else sending.delete(form);
  for (const one of [form, submitter]) {
    if (isSending) one?.setAttribute("aria-busy", "true");
    else one?.removeAttribute("aria-busy");
  }
}

// --- answers ----------------------------------------------------------------------------------------------------------
async function answered(response, asked) {
  const place = response.headers.get("X-Location");
  if (hasEnded(response)) return again(asked);
  if (place) {
    const isLeft = asked.form.dispatchEvent(new CustomEvent("form:done", { bubbles: true, cancelable: true, detail: place }));
    return isLeft ? go(place) : undefined;
  }
  if (response.headers.get("Content-Disposition")?.startsWith("attachment")) return save(response);
  return show(new DOMParser().parseFromString(await response.text(), "text/html"), response, asked);
}

/** Signs in over the page, and sends what was sent, with the token of the new session. */
async function again(asked) {
  let token;
  try {
    token = await signInAgain({ form: asked.form });
  } catch {
    showOffline(asked.form);
  }
  if (!token) return;
  asked.body.set("csrfmiddlewaretoken", token);
  await post(asked);
}

/** The browser would not load an address that differs in its fragment alone. */
function go(place) {
  const next = new URL(place, location.href);
  if (!next.hash || next.pathname !== location.pathname || next.search !== location.search) return location.assign(next);
  history.replaceState(history.state, "", next);
  history.scrollRestoration = "manual";
  return location.reload();
}

async function save(response) {
  const name = /filename="?([^";]+)/.exec(response.headers.get("Content-Disposition"))?.[1] ?? "";
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(await response.blob()), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

/** The answer, in the page that is open: the part around the form, the form alone where another page has it, a whole
 *  other page, or a note. */
function show(fresh, response, { form, body, url }) {
  const isRefused = response.status >= REFUSED;
  const region = form.closest("#panel, dialog[id]") ?? document.getElementById("main");
  const other = fresh.getElementById(region.id), isSamePage = !fresh.title || fresh.title === document.title;
  const twin = isSamePage && other ? null : twinOf(form, fresh);
  const [old, next] = twin && (isRefused || !other) ? [form, twin] : [region, other];
  if (!next) return showNote(form, fresh.querySelector(".note") ?? noteOf(fresh.querySelector("h1")?.textContent ?? response.statusText));
  const typed = isRefused ? typedIn(body) : null;
  const isSaidInside = next.querySelector("[aria-invalid=true], .note[role=alert]");
  const note = isRefused && !isSaidInside && fresh.querySelector("#main .note[role=alert]"); // else it would be lost
  if (!isSamePage && old === region) take(fresh, url);
  morph(old, next);
  if (typed) restore(document.getElementById(attribute(form, "id")) ?? (form.isConnected ? form : region), typed);
  if (note) showNote(document.getElementById(attribute(form, "id")) ?? form, note);
  else focusOn(old.isConnected ? old : document.getElementById("main"), isSamePage || Boolean(twin));
}

const twinOf = (form, fresh) => fresh.getElementById(attribute(form, "id"))
  || [...fresh.forms].find((each) => each.getAttribute("action") === form.getAttribute("action") && form.hasAttribute("action"));

/** Name, address and modules of another page. */
function take(fresh, url) {
  document.title = fresh.title;
  history.pushState({}, "", url);
  document.querySelector(".crumbs")?.replaceWith(document.adoptNode(fresh.querySelector(".crumbs") ?? document.createElement("nav")));
  for (const part of fresh.head.querySelectorAll("link[rel=stylesheet], script[type=module]")) {
    const name = part.matches("link") ? "href" : "src";
    if (document.head.querySelector(`[${name}="${CSS.escape(part.getAttribute(name))}"]`)) continue;
    const added = document.createElement(part.localName);
    for (const { name: key, value } of part.attributes) added.setAttribute(key, value);
    document.head.append(added);
  }
}

function morph(old, next) {
  document.dispatchEvent(new CustomEvent("parts:stale"));
  const morphStyle = old.matches("dialog") ? "innerHTML" : "outerHTML"; // an open dialog stays open
  window.Idiomorph.morph(old, morphStyle === "innerHTML" ? next.innerHTML : document.adoptNode(next), { morphStyle, callbacks: {
    beforeNodeMorphed: (node) => !node.matches?.("[data-figure], [data-panels]"),
    beforeAttributeUpdated: (name, node) => !(name === "open" && node.matches("details")),
  } });
  const region = old.isConnected ? old : document.getElementById("main");
  window.htmx.process(region);
  document.dispatchEvent(new CustomEvent("parts:fresh"));
  // Modules of pages take what came as they take an answer to htmx.
  for (const name of ["htmx:afterSwap", "htmx:afterSettle"]) window.htmx.trigger(region, name, { elt: region, target: region });
}

// --- what was typed ---------------------------------------------------------------------------------------------------
function typedIn(body) {
  const typed = new Map();
  for (const [name, value] of body) if (typeof value === "string") typed.set(name, [...(typed.get(name) ?? []), value]);
  return typed;
}

/** What the answer left out of what was typed; what it says itself wins. */
function restore(within, typed) {
  for (const field of within.querySelectorAll(FIELDS)) {
    const values = typed.get(field.name);
    if (!values || field.matches("[type=checkbox], [type=radio], [multiple]")) continue;
    if (!field.value) field.value = values[0];
  }
}

// --- focus ------------------------------------------------------------------------------------------------------------
/** A conflict, the first field in error, or what else the answer says. */
export function focusOn(region, isInPlace = true) {
  const goal = region.querySelector(".note[autofocus].warn") ?? shownAmong(region, "[aria-invalid=true]")
    ?? region.querySelector("[autofocus]") ?? shownAmong(region, ".note[role=alert], #problem > .note")
    ?? (isInPlace && document.activeElement !== document.body ? null : region.querySelector("h1"));
  if (!goal) return;
  goal.closest("details")?.setAttribute("open", "");
  takeFocus(goal);
  if (!isInView(goal)) goal.scrollIntoView({ block: "center" });
  if (goal.matches("[aria-invalid=true]")) announce(wordsOf(goal));
}

function takeFocus(element) {
  if (!element.matches("input, select, textarea, button, a[href], [tabindex]")) element.tabIndex = -1;
  element.focus({ preventScroll: true });
}

const shownAmong = (region, selector) => [...region.querySelectorAll(selector)]
  .find((one) => one.getClientRects().length || one.closest("details:not([open])"));

function isInView(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return top >= 0 && bottom <= innerHeight;
}

const wordsOf = (field) => (field.getAttribute("aria-describedby") ?? "").split(" ")
  .map((id) => document.getElementById(id)).filter((one) => one?.matches(".err, [id$=error]")).map((one) => one.textContent.trim()).join(" ");

const noteOf = (text) => Object.assign(document.createElement("p"), { className: "note warn", textContent: text });

/** On top of the form, with the focus: what the server says of the form as a whole. */
function showNote(form, note) {
  form.querySelectorAll(":scope > .form-note, .in-body > .form-note").forEach((one) => one.remove());
  note.classList.remove("inset", "mb"); // its place on a page
  note.classList.add("form-note");
  note.setAttribute("role", "alert");
  note.tabIndex = -1;
  (form.querySelector(".in-body") ?? form).prepend(note);
  note.focus({ preventScroll: true });
  if (!isInView(note)) note.scrollIntoView({ block: "center" });
}

// --- requests of htmx --------------------------------------------------------------------------------------------------
const wasPressed = (event) => ["submit", "click"].includes(event.detail.requestConfig?.triggeringEvent?.type);
const answerOf = (xhr) => ({ status: xhr?.status, headers: { has: (name) => Boolean(xhr?.getResponseHeader(name)) } });

document.addEventListener("htmx:afterSettle", (event) => {
  if (!wasPressed(event)) return;
  if (event.detail.xhr?.status >= REFUSED) focusOn(event.detail.target);
  else if (!event.detail.requestConfig.elt.isConnected) keepFocus(document.getElementById(event.detail.target.id));
});

/** What was pressed is gone: the part that came has the focus, so that keys and screen readers go on there. */
export function keepFocus(part) {
  if (!part || document.activeElement !== document.body) return;
  takeFocus(part);
}

// What was pressed goes on after the sign-in; of what a page asks for by itself only the bar at its foot speaks.
document.addEventListener("htmx:beforeSwap", async (event) => {
  if (!hasEnded(answerOf(event.detail.xhr))) return;
  event.detail.isError = false;
  const { elt, triggeringEvent } = event.detail.requestConfig;
  document.dispatchEvent(new CustomEvent("session:ended"));
  if (!wasPressed(event)) {
    if (document.getElementById("live-bar")) event.detail.shouldSwap = false;
    return;
  }
  event.detail.shouldSwap = false;
  if (!(await signInAgain())) return;
  if (triggeringEvent.type === "submit") elt.requestSubmit(triggeringEvent.submitter);
  else elt.click();
});

if (history.scrollRestoration === "manual") addEventListener("load", () => { history.scrollRestoration = "auto"; });
