// The editor: numbers are typed over in the tree, everything is saved as it is done, and focus stays where it is.
import { draggable } from "./editor_drag.js";
import { fragmentOf, fromTo, noteOf, put } from "./editor_dom.js";
import { drawBalance, Effect } from "./editor_effect.js";
import { drawReason, followBackTest, queueOf, restoreTyped, showRefusal, wireReason, wireViews } from "./editor_page.js";
import { say as sentence } from "./editor_words.js";
import { attach } from "./far_rows.js";
import { hasEnded, signInAgain } from "./session.js";
import { announce } from "./shell.js";

const PAUSE_MS = 200;
const VIEW_PX = 400; // above and below the window: rows that are scrolled to have their numbers already
const MOST_IN_VIEW = 100; // what an address holds
const KEPT = new Set(["tabindex", "aria-selected", "aria-busy", "hidden", "open"]);
const editor = document.getElementById("editor");
const table = editor.querySelector("table[data-edits]");
const { mode } = table.dataset;
const dialog = document.getElementById("action-dialog");
const problem = document.getElementById("problem");

const rowOf = (uid) => attach(document.getElementById(`e-${uid}`));
const morph = (old, fresh) => window.Idiomorph.morph(old, fresh, {
  morphStyle: "outerHTML",
  ignoreActiveValue: true,
  callbacks: {
    beforeAttributeUpdated: (name, node) => !(KEPT.has(name) && node.matches("tr, td, th, details, a, button, input")),
  },
});

// --- The queue -----------------------------------------------------------------------------------------------------
const queue = queueOf({ answer: receive, around: surroundings });

/** What the page shows, so that the answer brings what looks different there. */
function surroundings(item) {
  const entry = item.fields.find(([key]) => key === "entry")?.[1];
  const row = entry && rowOf(entry);
  const state = new URLSearchParams(location.search);
  state.delete("open");
  const open = [...table.querySelectorAll('tr[aria-expanded="true"]')].filter((each) => !each.hidden);
  open.forEach((each) => state.append("open", each.dataset.uid));
  const filter = document.getElementById("filter").value.trim();
  if (filter) state.set("q", filter);
  state.set("mode", mode);
  const found = [["back", state.toString()], ...open.map((each) => ["open", each.dataset.uid])];
  if (row) {
    const shown = [...table.querySelectorAll(`tr[data-parent="${row.dataset.parent}"]`)].slice(0, 400);
    found.push(...shown.map((each) => ["shown", each.dataset.uid]));
  }
  return found;
}

function receive(item, response, html) {
  if (response.ok) {
    apply(html);
    item.done?.();
  } else if (item.failed && [403, 404, 409, 413, 422].includes(response.status)) {
    item.failed(fragmentOf(html).querySelector(".words")?.textContent ?? fragmentOf(html).textContent.trim());
  } else {
    showRefusal(html);
    if (response.status === 412) problem.querySelector("button")?.focus();
  }
}

function apply(html) {
  const fresh = fragmentOf(html);
  problem.replaceChildren();
  const uid = document.activeElement.closest?.("tr[data-uid]")?.dataset.uid;
  const whole = fresh.getElementById("rows");
  if (whole) morph(document.getElementById("rows"), whole);
  for (const row of fresh.querySelectorAll("#some-rows > tr")) {
    const old = document.getElementById(row.id);
    if (old) morph(old, row);
  }
  for (const row of fresh.querySelectorAll("tr[data-shifted]")) shift(row);
  for (const id of ["draftbar", "panel", "neighbours"]) {
    const part = fresh.getElementById(id);
    if (part) morph(document.getElementById(id), part);
  }
  if (document.getElementById("draftbar").dataset.version > 0) {
    document.querySelectorAll("input[data-version]").forEach((field) => { field.value = queue.version; });
  }
  keepReason();
  table.dispatchEvent(new CustomEvent("treegrid:changed"));
  askEffect();
  if (document.activeElement === document.body && uid) focusNear(uid);
  announce(fresh.getElementById("announcement")?.textContent ?? "");
}

/** A sibling whose part follows: its numbers change, its fields are left alone. */
function shift(fresh) {
  const row = rowOf(fresh.dataset.shifted);
  if (!row) return;
  row.className = fresh.className;
  for (const cell of ["c-target", "c-used", "c-bal"]) {
    delete row.querySelector(`.${cell}`).dataset.shown;
    row.querySelector(`.${cell}`).replaceChildren(...fresh.querySelector(`.${cell}`).childNodes);
  }
}

/** Where the focused entry went, or the first row. */
function focusNear(uid) {
  const row = rowOf(uid) ?? table.querySelector('tbody tr[tabindex="0"]') ?? table.querySelector("tbody tr");
  row?.focus();
}

function send(url, fields, more = {}) {
  queue.add({ url, fields, ...more });
}

const operate = (fields, more) => send(editor.dataset.operation, Object.entries(fields), more);

// --- Numbers -------------------------------------------------------------------------------------------------------
function commit(input) {
  const value = input.value.trim();
  if (value === (input.dataset.saved ?? input.getAttribute("value"))) return;
  input.dataset.saved = value;
  input.removeAttribute("aria-invalid");
  const isInPanel = input.id === "picked-shares";
  operate({ op: "set_shares", entry: input.dataset.uid, shares: value, mode: isInPanel ? "shares" : mode }, {
    done: () => {
      delete input.dataset.saved;
      delete input.dataset.typed;
      if (document.activeElement === input) input.dataset.saved = input.value;
    },
    failed: (words) => {
      delete input.dataset.saved;
      input.setAttribute("aria-invalid", "true");
      if (isInPanel) {
        effect.refusal = words;
        put(document.getElementById("picked-problem"), words);
        return;
      }
      input.setAttribute("aria-describedby", "cell-problem");
      say(words);
    },
  });
}

const say = (words) => problem.replaceChildren(noteOf(words));

function nextCell(input, step, { beside = false } = {}) {
  const rows = [...table.querySelectorAll("tbody tr:not([hidden])")], row = input.closest("tr");
  for (let at = rows.indexOf(row) + step; rows[at]; at += step) {
    if (beside && rows[at].dataset.parent !== row.dataset.parent) continue;  // past what is below it: the strip of targets stays that of its parent
    const next = attach(rows[at]).querySelector("input.cell");
    if (next) {
      next.focus();
      next.select();
      return;
    }
  }
  input.focus();
}

function cellKeys(event) {
  const input = event.target.closest("input.cell");
  if (!input) return false;
  const steps = { Enter: 1, ArrowDown: 1, ArrowUp: -1 };
  if (event.key in steps && !event.altKey && !event.ctrlKey) {
    event.preventDefault();
    commit(input);
    const beside = event.key === "Enter";
    nextCell(input, beside && event.shiftKey ? -1 : steps[event.key], { beside });
  } else if (event.key === "Escape") {
    input.value = input.getAttribute("value");
    input.removeAttribute("aria-invalid");
    delete input.dataset.typed;
    askEffect();
    input.closest("tr").focus();
  } else if (event.key === "F2") input.select();
  return true;
}

table.addEventListener("change", (event) => {
  if (event.target.matches("input.cell")) commit(event.target);
});

// --- The effect ----------------------------------------------------------------------------------------------------
const chosenRow = () => table.querySelector('tr[aria-selected="true"]');
const groupOf = (row) => row?.dataset.parent || editor.dataset.parent;
const effect = new Effect(editor, { rows: rowsInView, draw: drawEffect });

function rowsInView() {
  const [top, bottom] = [-VIEW_PX, innerHeight + VIEW_PX];
  return [...table.querySelectorAll("tbody tr[data-uid]:not([hidden])")].filter((row) => {
    const box = row.getBoundingClientRect();
    return box.bottom > top && box.top < bottom && row.dataset.parent;
  }).slice(0, MOST_IN_VIEW).map((row) => row.dataset.uid);
}

function askEffect(operation = null) {
  effect.about({ version: queue.version, group: groupOf(chosenRow()), operation });
  drawEffect();
}

function drawEffect() {
  for (const [uid, known] of effect.rows) {
    const row = rowOf(uid);
    if (!row) continue;
    effect.drawCells(row);
    if (effect.isLate) continue;
    fromTo(row.querySelector(".c-target"), known.before_text, known.target_text, sentence("to"));
    const balance = row.querySelector(".c-bal .bal");
    if (balance) drawBalance(balance, known.state, known.balance);
  }
  effect.drawChosen(document.getElementById("picked")?.dataset.uid);
  effect.drawWhole();
  drawReason();
}

let asked = 0;
/** The effect of what is typed, before it is saved. */
function preview(entry, typed, more = {}) {
  clearTimeout(asked);
  const operation = typed.trim() ? [...Object.entries({ op: "set_shares", entry, shares: typed, mode, ...more })] : null;
  asked = setTimeout(() => askEffect(operation), PAUSE_MS);
}

addEventListener("scroll", () => requestAnimationFrame(() => effect.refresh()), { passive: true });
addEventListener("resize", () => effect.refresh());
document.addEventListener("tree:state", () => effect.refresh());

/** The field of the panel says what is typed in the row. */
function sayInPanel(cell) {
  const field = document.getElementById("picked-shares");
  if (field?.dataset.uid === cell.dataset.uid && mode === "shares") field.value = cell.value;
}

table.addEventListener("input", (event) => {
  if (!event.target.matches("input.cell")) return;
  event.target.dataset.typed = "1";
  sayInPanel(event.target);
  preview(event.target.dataset.uid, event.target.value);
});

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target.id === "rows" || event.detail.target.id === "panel") askEffect();
  if (event.detail.target.id === "panel") keepReason();
  const input = document.activeElement;
  const typed = input.matches("input.cell") && input.value !== input.getAttribute("value");
  if (event.detail.target.id !== "panel" || !typed) return;
  sayInPanel(input);
  preview(input.dataset.uid, input.value);
});

// The field in the panel is another field of the chosen entry: a number is shares, with % a part of the group.
document.addEventListener("input", (event) => {
  if (event.target.id !== "picked-shares") return;
  event.target.dataset.typed = "1";
  effect.refusal = "";
  preview(event.target.dataset.uid, event.target.value, { mode: "shares" });
});
document.addEventListener("change", (event) => { if (event.target.id === "picked-shares") commit(event.target); });
document.addEventListener("keydown", (event) => {
  const field = event.target;
  if (field.id !== "picked-shares" || !["Enter", "Escape"].includes(event.key)) return;
  event.preventDefault();
  if (event.key === "Enter") return commit(field);
  field.value = field.getAttribute("value");
  delete field.dataset.typed;
  effect.refusal = "";
  return askEffect();
});

let chosen = 0;
let entered = ""; // the entry of the field that got the focus just now
table.addEventListener("focusin", (event) => {
  if (!event.target.matches("input.cell")) return;
  const row = event.target.closest("tr");
  clearTimeout(chosen);
  entered = row.dataset.uid;
  chosen = setTimeout(() => {
    entered = "";
    if (row.contains(document.activeElement) && row.getAttribute("aria-selected") !== "true") {
      table.dispatchEvent(new CustomEvent("treegrid:select", { detail: row }));
    }
  }, PAUSE_MS);
});

// --- Keys of rows --------------------------------------------------------------------------------------------------
function moveBy(row, key) {
  if (key === "ArrowUp" || key === "ArrowDown") return announce(sentence("names"));
  const parent = rowOf(row.dataset.parent);
  let goal = parent && rowOf(parent.dataset.parent);
  if (key === "ArrowRight") {
    const siblings = [...table.querySelectorAll(`tr[data-parent="${row.dataset.parent}"]`)];
    goal = siblings[siblings.indexOf(row) - 1];
  }
  if (!goal || !row.hasAttribute("data-moves")) return undefined;
  if (!goal.hasAttribute("data-divides")) return announce(sentence("not_yours"));
  return operate({ op: "move", entry: row.dataset.uid, parent: goal.dataset.uid }, { failed: say });
}

table.addEventListener("keydown", (event) => {
  if (cellKeys(event)) return;
  const row = event.target.closest("tbody tr[data-uid]");
  if (!row || event.target.closest("input, textarea")) return;
  const cell = row.querySelector("input.cell");
  if (event.key === "F2" || (event.key === "Enter" && event.target.matches("td.c-edit"))) {
    event.preventDefault();
    event.stopPropagation();
    cell?.focus();
    cell?.select();
  } else if (event.altKey && event.shiftKey && event.key.startsWith("Arrow")) {
    event.preventDefault();
    moveBy(row, event.key);
  } else if (event.key === "." || (event.key === "Enter" && event.target.matches("td.c-menu"))) {
    event.preventDefault();
    event.stopPropagation();
    openAction(row.querySelector(".c-menu [data-do]"));
  }
}, true);

// A cell with text that isn't saved yet has the browser's own undo; a cell that holds what is saved has none to lose.
const hasOwnUndo = (target) => {
  const field = target.closest("input, textarea, select");
  return field && !(field.matches("input.cell") && field.value === (field.dataset.saved ?? field.getAttribute("value")));
};

document.addEventListener("keydown", async (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || hasOwnUndo(event.target)) return;
  const key = event.key.toLowerCase();
  const id = key === "y" || (key === "z" && event.shiftKey) ? "redo" : key === "z" ? "undo" : "";
  if (!id || !document.getElementById(id) || dialog.open) return;
  event.preventDefault();
  if (!(await queue.drained())) return;  // an edit on its way is undone too, once it has arrived
  const button = document.getElementById(id);
  button?.form.requestSubmit(button);
});

// --- Dialogs -------------------------------------------------------------------------------------------------------
async function loadAction(query) {
  const answer = await fetch(`${editor.dataset.action}?${query}`, { headers: { "HX-Request": "true" } });
  if (!hasEnded(answer)) return fragmentOf(await answer.text());
  return (await signInAgain()) ? loadAction(query) : null;
}

/** `data-do` of a button is the query of its form. */
async function openAction(button) {
  if (!button) return;
  let fresh;
  try {
    fresh = await loadAction(new URLSearchParams(button.dataset.do));
  } catch {
    document.dispatchEvent(new CustomEvent("htmx:sendError"));
    return;
  }
  if (!fresh) return;
  dialog.replaceChildren(fresh);
  if (!dialog.open) dialog.showModal();
  dialog.querySelectorAll("input[data-version]").forEach((field) => { field.value = queue.version; });
  const first = dialog.querySelector("[data-first]") ?? dialog.querySelector("li button") ?? dialog.querySelector("button");
  first?.focus();
  if (first?.matches("input:not([type=radio])")) first.select();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.matches("[data-do]")) openAction(button);
  else if (button?.matches("[data-close]") && dialog.contains(button)) dialog.close();
  const link = event.target.closest("a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (link.matches("[data-theirs]")) queue.forget();
  else if (table.contains(link) && link.matches(".label")) {
    event.preventDefault();
    table.dispatchEvent(new CustomEvent("treegrid:select", { detail: link.closest("tr") }));
  }
});

let search = 0;
dialog.addEventListener("input", (event) => {
  if (event.target.id === "goal") {
    clearTimeout(search);
    search = setTimeout(() => findGoals(event.target.form), PAUSE_MS);
  } else if (event.target.form?.querySelector("#amount")) tryAmount(event.target);
});

async function findGoals(form) {
  const fresh = (await loadAction(new URLSearchParams(new FormData(form))))?.getElementById("goals");
  const old = document.getElementById("goals");
  if (fresh && old) morph(old, fresh);
  announce(`${fresh?.querySelectorAll("input:not([disabled])").length ?? 0}`);
}

function tryAmount(field) {
  const form = field.form;
  const amount = form.querySelector("#amount");
  if (field.name === "mode") {
    const other = field.value === "percent" ? amount.dataset.percent : amount.getAttribute("value");
    amount.value = other;
  }
  const entry = form.closest("[data-entry]").dataset.entry;
  const data = new FormData(form);
  const more = { mode: data.get("mode"), from: data.get("from") ?? "own" };
  if (more.from === "chosen") more.giver = data.get("giver") ?? "";
  preview(entry, amount.value, more);
}

dialog.addEventListener("close", () => {
  askEffect();
  if (document.activeElement === document.body) focusNear(dialog.querySelector("[data-entry]")?.dataset.entry);
});

// --- Forms ---------------------------------------------------------------------------------------------------------
function fieldsOf(form, submitter) {
  const data = new FormData(form, submitter);
  return [...data].filter(([key]) => !["version", "back", "csrfmiddlewaretoken"].includes(key));
}

function sendForm(form, submitter) {
  const inDialog = dialog.contains(form);
  send(form.action, fieldsOf(form, submitter), {
    done: () => { if (inDialog) dialog.close(); },
    failed: (words) => {
      const place = form.querySelector(".problem");
      if (!place) return say(words);
      place.replaceChildren(noteOf(words));
      place.hidden = false;
      return undefined;
    },
  });
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.matches("[data-goals]")) {
    event.preventDefault();
    await findGoals(form);
  } else if (form.matches("[data-mine]")) {
    event.preventDefault();
    problem.replaceChildren();
    focusNear(form.elements.entry?.value); // the question is answered: its entry takes the focus
    queue.resume(form.elements.version.value);
  } else if (form.matches("[data-op]")) {
    event.preventDefault();
    if (event.submitter?.getAttribute("aria-disabled") === "true") return;
    sendForm(form, event.submitter);
  } else if (form.matches("[data-flush]") && queue.items.length) {
    event.preventDefault();
    const name = event.submitter?.value;
    if (await queue.drained()) {
      const again = document.getElementById(form.id) ?? form;
      again.requestSubmit(again.querySelector(`button[value="${name}"]`) ?? undefined);
    }
  }
});

// --- The reason ----------------------------------------------------------------------------------------------------
let typedReason = null;
let sentReason = null;

/** A panel that was asked for before the reason was typed has none. */
function keepReason() {
  const field = document.querySelector("[data-reason]");
  if (field && typedReason !== null && field.value !== typedReason) field.value = typedReason;
}

document.addEventListener("input", (event) => {
  if (event.target.matches("[data-reason]")) typedReason = event.target.value;
});

document.addEventListener("focusout", (event) => {
  if (!event.target.matches("[data-reason]") || typedReason === sentReason) return;
  sentReason = typedReason;
  send(editor.dataset.log, [["step", "reason"], ["reason", typedReason]]);
});

draggable(table, {
  words: { into: sentence("into"), inside: sentence("inside"), notYours: sentence("not_yours") },
  move: (entry, parent) => operate({ op: "move", entry, parent }, { failed: say }),
  announce,
});
wireReason();
followBackTest();
// The panel of a row that was just chosen is still on its way.
wireViews({ chosen: () => entered || (chosenRow() ?? document.getElementById("picked"))?.dataset.uid, drained: () => queue.drained() });
queue.restore();
restoreTyped();
askEffect();
