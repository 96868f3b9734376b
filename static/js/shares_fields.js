// Number fields beside the bar, and the forms of the draft: undo, redo, leave an edit out, reason, finish.
import { clean } from "./shares_model.js";
import { say } from "./editor_words.js";

const NUMBER = /^(\d+\.?\d*|\.\d+)(%?)$/, TWO_WAYS = /^[1-9]\d{0,2},\d{3}%?$/;
const OWN_FIELDS = ["version", "back", "csrfmiddlewaretoken"];

/** "12,5 %" as {value, isPercent}; null for what the server has to read. */
function read(text) {
  const plain = text.replace(/\s/g, ""), found = TWO_WAYS.test(plain) ? null : NUMBER.exec(plain.replace(",", "."));
  return found && { value: Number(found[1]), isPercent: found[2] === "%" };
}

export function wireFields(body, page) {
  document.addEventListener("input", (event) => { if (event.target.matches("input[data-uid]")) event.target.dataset.typed = "1"; });
  document.addEventListener("change", (event) => {
    if (event.target.matches("input[data-uid]") && "typed" in event.target.dataset) commit(event.target, page);
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.id !== "picked-shares") return;
    if (event.key === "Escape") page.forgetTyped(event.target);
    if (event.key === "Enter" && "typed" in event.target.dataset) commit(event.target, page);
  });
  body.addEventListener("focusin", (event) => {
    const uid = event.target.matches("input.cell") && event.target.closest("tr").dataset.uid;
    if (uid && !page.isPicked(uid)) page.pick(uid);
  });
  body.addEventListener("keydown", (event) => {
    if (event.target.matches("input.cell")) keys(event, body, page);
  });
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-uid]");
    if (row && !event.target.closest("input, a")) page.pick(row.dataset.uid);
  });
}

function keys(event, body, page) {
  const input = event.target;
  if (event.key === "Escape") page.forgetTyped(input);
  if (event.key !== "Enter") return;
  event.preventDefault();
  if ("typed" in input.dataset) commit(input, page);
  const fields = [...body.querySelectorAll("tr:not([hidden]) input.cell")];
  const next = fields[fields.indexOf(input) + (event.shiftKey ? -1 : 1)] ?? input;
  next.focus();
  next.select();
}

/** A number is shares, with % the part of the whole that a border would be pulled to; anything else the server reads. */
function commit(input, page) {
  const { uid } = input.dataset;
  const text = input.value.trim();
  const found = read(text);
  page.settle();
  if (text.endsWith("%") && (!found || found.value >= 100)) {
    input.setAttribute("aria-invalid", "true");
    return page.tell(say(found ? "hundred" : "number"), input);
  }
  const [group, edits, giver] = [page.group(), page.edits(), page.giver(uid)];
  delete input.dataset.typed; // the change event that follows Enter does nothing more
  if (found && (found.isPercent || giver)) {
    const value = found.isPercent ? clean(group.sharesFor(uid, found.value / 100, giver, edits)) : found.value;
    const typed = group.typed(uid, value, giver, edits);
    return page.type(typed, group.operation(uid, giver, typed), input);
  }
  const typed = found ? group.typed(uid, found.value, "", edits) : edits;
  return page.type(typed, [["op", "set_shares"], ["entry", uid], ["shares", text], ["mode", "shares"]], input);
}

export function wireForms(page, log) {
  document.addEventListener("submit", (event) => submit(event, page));
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-reason]")) page.save(log, [["step", "reason"], ["reason", event.target.value]]);
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("a[data-theirs]")) return;
    event.preventDefault();
    page.keepTheirs();
  });
  document.addEventListener("keydown", (event) => undoKeys(event, page));
}

async function submit(event, page) {
  const form = event.target;
  if (form.matches("[data-mine]")) {
    event.preventDefault();
    page.keepOurs(form.elements.version.value);
  } else if (form.matches("[data-op]")) {
    event.preventDefault();
    if (event.submitter?.getAttribute("aria-disabled") === "true") return;
    page.settle();
    page.save(form.action, [...new FormData(form, event.submitter)].filter(([key]) => !OWN_FIELDS.includes(key)));
  } else if (form.matches("[data-flush]")) {
    page.settle();
    if (!page.queue.items.length) return;
    event.preventDefault();
    const name = event.submitter?.value;
    if (!(await page.queue.drained())) return;
    const again = document.getElementById(form.id) ?? form;
    again.requestSubmit(again.querySelector(`button[value="${name}"]`) ?? undefined);
  }
}

/** What is typed into a field goes first, then the draft's own edits. */
function undoKeys(event, page) {
  const key = event.key.toLowerCase();
  if (!(event.ctrlKey || event.metaKey) || event.altKey || !["z", "y"].includes(key)) return;
  const field = event.target.closest("input[data-uid]");
  if (!field && event.target.closest("input:not([type=checkbox]), textarea, select")) return;
  event.preventDefault();
  if (field && "typed" in field.dataset) return page.forgetTyped(field);
  page.settle();
  const button = document.getElementById(key === "y" || event.shiftKey ? "redo" : "undo");
  return button?.form.requestSubmit(button);
}
