// Shares of one group of a draft: a border is another way of typing a number. Each drop is one operation of the draft;
// targets are computed here and never wait, dates of the prediction come from the server.
import { el, fragmentOf, noteOf, put } from "./editor_dom.js";
import { Effect } from "./editor_effect.js";
import { addressOf, drawReason, followBackTest, queueOf, remember, restoreTyped, showRefusal, wireReason, wireViews } from "./editor_page.js";
import { say, shares as sharesText } from "./editor_words.js";
import { amount, percent } from "./numbers.js";
import { wireFields, wireForms } from "./shares_fields.js";
import { Group, isWhole, snap, stepOf } from "./shares_model.js";
import { Picture } from "./shares_picture.js";
import { Puller } from "./shares_pull.js";
import { balanceText, Table } from "./shares_table.js";
import { announce } from "./shell.js";

const root = document.getElementById("editor");
const $ = (id) => document.getElementById(id);
const stage = $("stage");
const giverField = $("giver");
const wholeField = $("whole");
const problem = $("problem");
const back = () => new URLSearchParams({ view: addressOf({}).searchParams.get("view") ?? root.dataset.view, group: root.dataset.parent, entry: page.picked }).toString();
const numbersIn = (where) => JSON.parse(where.querySelector("#group-numbers").textContent);

let group = new Group(numbersIn(document));
let edits = new Map(); // shares by uid: what isn't saved yet
let before = new Map(); // the same as it was when the present pull began
const table = $("members") && new Table($("members"));
const picture = stage && new Picture(stage, $("zoom"), $("zoomhead"), root.dataset.view === "treemap" ? "map" : "bar");
const effect = new Effect(root, { rows: () => [], draw });

const isWholeNow = () => wholeField?.checked ?? false;
const step = () => stepOf(group.pool(edits), isWholeNow());
const giver = (uid) => (giverField && giverField.value !== uid ? giverField.value : "");
const canPull = (uid) => {
  const row = group.byUid.get(uid);
  return !row.is_fixed && row.shares > 0 && uid !== giverField?.value && group.total > row.shares;
};
const page = {
  picked: "",
  stop: "", // the border that Tab comes to: the one that was focused last
  pick,
  begin: () => { before = new Map(edits); },
  draw,
  sharesOf: (uid) => group.shares(uid, edits),
  range: (uid) => group.range(uid, giver(uid), edits, step()),
  edgeOf: (where, uid, side, value) => {
    const tried = new Map(before);
    tried.set(uid, value);
    const gives = giver(uid);
    if (gives) tried.set(gives, group.shares(uid, before) + group.shares(gives, before) - value);
    return picture.edge(where, group.at(tried), uid, side);
  },
  along: (where, side, event) => picture.along(where, side, event),
  isUpright: (where, side) => picture.isUpright(where, side),
  apply,
  keep,
  restore: (uid) => {
    edits = before;
    draw();
    predict(uid);
    announce(say("restored", { name: group.byUid.get(uid).name, target: percent(rowNow(uid).target) }));
  },
  sharesAsUsed: (uid) => group.sharesFor(uid, group.byUid.get(uid).actual ?? Number.NaN, giver(uid), edits),
  sharesBeyond: (uid, part) => {
    const now = group.shares(uid, edits);
    const wanted = snap(group.sharesFor(uid, Math.min(Math.max(rowNow(uid).target + part, 0), 0.99), giver(uid), edits), step());
    return (wanted - now) * part > 0 ? wanted : now + Math.sign(part) * step();
  },
};
const puller = new Puller(page);

// --- Edits ---------------------------------------------------------------------------------------------------------
/** Shares from a border, snapped; `isFree` (Alt) to the finest step. */
function apply(uid, value, isFree) {
  const size = isFree ? stepOf(group.pool(before), false) : step();
  edits = group.edited(uid, snap(value, size), giver(uid), before, size);
  draw();
  predict(uid);
}

/** A drop: one operation, saved at once. */
function keep(uid) {
  const fields = group.operation(uid, giver(uid), edits);
  const same = !fields || (edits.get(uid) === before.get(uid) && before.has(uid));
  if (!same) save(root.dataset.operation, fields, { edits: pairs([uid, giver(uid)]) });
  rebuild();
  announce(describe(rowNow(uid)));
}

const pairs = (uids) => uids.filter((uid) => uid && edits.has(uid)).map((uid) => [uid, edits.get(uid)]);

function save(url, fields, more = {}) {
  queue.add({ url, fields: [...fields, ["back", back()]], edits: [], ...more });
}

const queue = queueOf({ answer });

function answer(item, response, html) {
  if (response.ok) {
    receive(html);
    if (item.input) forgetTyped(item.input);
    problem.replaceChildren();
    const news = fragmentOf(html).getElementById("announcement")?.textContent;
    if (news) announce(news);
    return;
  }
  showRefusal(html);
  if (response.status >= 500) return; // it is sent again
  puller.cancel();
  if (item.input) keepRefused(item, (problem.querySelector(".words") ?? problem).textContent.trim());
  showWaiting();
  if (response.status !== 412) return;
  problem.querySelector("button")?.focus();
  refresh();
}

/** What was typed stays until it is right. */
function keepRefused({ input, text }, words) {
  input.setAttribute("aria-invalid", "true");
  input.value = text;
  input.dataset.typed = "1";
  if (input.id === "picked-shares") effect.refusal = words;
}

/** Edits on their way, which the draft doesn't have yet; none while it is asked whose are to stay. */
const waiting = () => (queue.paused ? [] : queue.items.flatMap((item) => item.edits));

function showWaiting() {
  edits = new Map(waiting());
  rebuild();
  predict(page.picked);
}

/** The draft as the server has it now; what is still under way stays on top of it. */
function receive(html) {
  const fresh = fragmentOf(html);
  const numbers = numbersIn(fresh);
  const known = new Set(group.byUid.keys());
  if (numbers.rows.length !== known.size || numbers.rows.some((row) => !known.has(row.uid))) return location.reload();
  group = new Group(numbers);
  for (const id of ["draftbar", "panel", "neighbours"]) {
    const part = fresh.getElementById(id);
    if (part) window.Idiomorph.morph($(id), part, { morphStyle: "outerHTML", ignoreActiveValue: true });
  }
  document.querySelectorAll("input[data-version]").forEach((field) => { field.value = queue.version; });
  putChosen(page.picked);
  const pulled = puller.isActive ? pairs([page.picked, giver(page.picked)]) : [];
  edits = new Map([...waiting(), ...pulled]);
  if (!puller.isActive) rebuild();
  predict(page.picked);
  return undefined;
}

async function refresh() {
  try {
    const response = await fetch(`${root.dataset.group}?${back()}`, { headers: { "HX-Request": "true" } });
    if (!response.ok) return;
    queue.version = /"(\d+)"/.exec(response.headers.get("ETag"))[1];
    receive(await response.text());
  } catch { /* the next edit says that there is no connection */ }
}

/** Asked for with the operation that the present edits would become. */
function predict(uid) {
  const operation = uid && edits.has(uid) ? group.operation(uid, giver(uid), edits) : null;
  effect.about({ version: queue.version, group: root.dataset.parent, operation });
}

// --- Drawing -------------------------------------------------------------------------------------------------------
const rowsAt = (these) => group.at(these).map((row) => ({ ...row, slack: Math.max(row.relative * (row.target ?? 0), row.least) }));
const rowNow = (uid) => rowsAt(edits).find((row) => row.uid === uid);

function describe(row) {
  const was = row.shares_before !== null && row.shares_before !== row.shares ? `; ${say("was", { target: percent(row.target_before), shares: sharesText(row.shares_before) })}` : "";
  return `${row.name}, ${percent(row.target)}, ${sharesText(row.shares)}${was}; ${say("used", { part: percent(row.actual) })}`;
}

const viewOf = () => ({
  picked: page.picked,
  stop: canPull(page.stop) ? page.stop : group.rows.find((row) => canPull(row.uid))?.uid,
  giver: giverField?.value ?? "",
  canPull,
  edited: isEdited,
  before: (uid) => group.byUid.get(uid).target_before,
  describe: (grip, row) => {
    grip.setAttribute("aria-label", say("target_of", { name: row.name }));
    grip.setAttribute("aria-valuenow", String(Math.round(row.target * 1000) / 10));
    grip.setAttribute("aria-valuetext", describe(row));
  },
});

function isEdited(uid) {
  const row = group.byUid.get(uid);
  return edits.has(uid) || row.shares !== row.shares_before;
}

function draw() {
  const rows = rowsAt(edits);
  const row = rows.find((each) => each.uid === page.picked);
  if (!row) return;
  if (picture) {
    const pool = group.pool(edits);
    picture.rest = pool > 0 ? group.numbers.rest / pool : 0;
    const more = Math.min(group.shares(row.uid, edits) * 1.15, page.range(row.uid)[1]);
    const grown = puller.drag || row.shares === null ? null : group.at(group.edited(row.uid, more, giver(row.uid), edits, step()));
    picture.draw(rows, viewOf(), grown);
  }
  table.draw(rows, { picked: page.picked, edited: (uid) => edits.has(uid), effect, decimals: group.numbers.decimals });
  effect.drawChosen(row.uid, textsOf(row));
  effect.drawWhole();
  drawReason();
  drawField(row);
  drawSteps(row);
}

/** The numbers that the page computes itself, while the server is asked for the others. */
function textsOf(row) {
  const before = row.target_before;
  const { decimals } = group.numbers;
  return {
    target_text: percent(row.target, decimals), before_text: before === null ? "" : percent(before, decimals),
    state: row.state, balance: balanceText(row, decimals),
  };
}

/** The panel is about another entry; its field is that of the row. */
function putChosen(uid) {
  const row = group.byUid.get(uid);
  const field = $("picked-shares");
  if (!row || !field) return;
  $("picked").dataset.uid = uid;
  put($("picked-place"), row.place);
  put($("picked-name"), row.name);
  field.dataset.uid = uid;
  field.disabled = row.is_fixed;
  field.title = row.is_fixed ? row.why_fixed : "";
  put($("picked-facts").querySelector('[data-fact="used"]'), percent(row.actual, group.numbers.decimals));
}

function drawField(row) {
  const field = $("picked-shares");
  if (field && field.dataset.uid === row.uid && field.dataset.typed === undefined) field.value = row.shares === null ? say("inherit") : amount(row.shares);
}

function rebuild() {
  if (picture) {
    const rows = rowsAt(new Map(waiting()));
    const [pool, poolBefore] = [group.pool(edits), group.rows.reduce((sum, row) => sum + (row.shares_before ?? 0), group.numbers.rest_before)];
    picture.rest = pool > 0 ? group.numbers.rest / pool : 0;
    picture.restBefore = poolBefore > 0 ? group.numbers.rest_before / poolBefore : 0;
    document.querySelector(".pull-legend").dataset.view = picture.view;
    picture.build(rows, group.before(), { giver: giverField?.value ?? "", canPull, picked: page.picked });
  }
  draw();
}

/** Buttons at the foot of a small screen, for who can't hit a border. */
function drawSteps(row) {
  const steps = $("steps");
  steps.hidden = !picture?.isNarrow || !canPull(row.uid);
  if (steps.hidden) return;
  if (!steps.children.length) {
    const buttons = [-1, -0.1, 0.1, 1].map((by) => el("button", {
      class: "btn", type: "button", "data-step": String(by), "aria-label": say(by < 0 ? "take" : "give", { n: Math.abs(by) }),
    }, `${by < 0 ? "−" : "+"}${Math.abs(by)}`));
    steps.append(el("p", {}, el("b"), el("span", { class: "num" })), el("div", { class: "row" }, ...buttons));
  }
  put(steps.querySelector("b"), row.name);
  put(steps.querySelector(".num"), `${percent(row.target)}, ${sharesText(row.shares)}`);
}

function pick(uid, hasFocus = false) {
  puller.settle();
  page.picked = uid;
  if (hasFocus) page.stop = uid;
  putChosen(uid);
  remember({ entry: uid });
  const node = table.nodes.get(uid);
  if (node?.tr.hidden) table.unfold();
  if (picture && hasFocus) {
    picture.show(uid);
    rebuild();
    picture.focus(uid);
  } else draw();
}

// --- Fields and forms ----------------------------------------------------------------------------------------------
function forgetTyped(input) {
  for (const each of document.querySelectorAll(`input[data-uid="${input.dataset.uid}"]`)) {
    delete each.dataset.typed;
    each.removeAttribute("aria-invalid");
  }
  effect.refusal = "";
  draw();
}

const shared = {
  pick, forgetTyped, save, queue, giver,
  settle: () => puller.settle(),
  group: () => group,
  edits: () => edits,
  isPicked: (uid) => uid === page.picked,
  /** The answer to whose edits stay: ours, for this version of the draft, or those of the draft. */
  keepOurs: (version) => {
    problem.replaceChildren();
    queue.resume(version);
    showWaiting();
    picture?.focus(page.picked);
  },
  keepTheirs: () => {
    problem.replaceChildren();
    queue.forget();
    refresh();
    picture?.focus(page.picked);
  },
  tell: (words, input) => {
    if (input.id === "picked-shares") {
      effect.refusal = words;
      draw();
      return;
    }
    problem.replaceChildren(noteOf(words));
  },
  /** Numbers from a field: shown at once, saved as one operation. */
  type: (found, fields, input) => {
    edits = found;
    save(root.dataset.operation, fields, { edits: pairs(fields.filter(([key]) => key === "entry" || key === "giver").map(([, uid]) => uid)), input, text: input.value });
    draw();
  },
};
if (table) wireFields($("members"), shared);
wireForms(shared, root.dataset.log);
wireReason();
followBackTest();
wireViews({
  chosen: () => page.picked,
  drained: () => {
    puller.settle();
    return queue.drained();
  },
  inPlace: (view) => {
    if (view === "tree" || !picture) return false;
    puller.settle();
    picture.view = view === "treemap" ? "map" : "bar";
    rebuild();
    return true;
  },
});

// --- The picture ---------------------------------------------------------------------------------------------------
for (const where of [stage, $("zoom")].filter(Boolean)) {
  where.addEventListener("pointerdown", (event) => {
    const grip = event.target.closest("[data-grip], [data-edge]");
    if (!grip || event.button > 0 || puller.drag) return;
    event.preventDefault();
    puller.start(event, where, grip);
    picture.focus(page.picked);
  });
  // Chromium reads touch-action of the whole drawing only, which has to scroll: a finger on a border is held here.
  where.addEventListener("touchstart", (event) => {
    if (event.target.closest("[data-grip], [data-edge]")) event.preventDefault();
  }, { passive: false });
  where.addEventListener("click", (event) => {
    const segment = event.target.closest(".pull-seg");
    if (!segment) return;
    if (segment.dataset.uid) pick(segment.dataset.uid, true);
    else if ("small" in segment.dataset) pick(picture.parts.small[0].uid, true);
  });
  where.addEventListener("keydown", (event) => {
    const uid = event.target.closest('[role="slider"]')?.dataset.grip;
    if (!uid) return;
    if (puller.key(event, uid)) event.preventDefault();
    else if (event.key === "n" || event.key === "p") {
      const movable = group.rows.filter((row) => canPull(row.uid));
      const next = movable[movable.findIndex((row) => row.uid === uid) + (event.key === "n" ? 1 : -1)];
      if (next) pick(next.uid, true);
    }
  });
  where.addEventListener("focusin", (event) => {
    const uid = event.target.closest("[data-grip]")?.dataset.grip;
    if (!uid) return;
    page.stop = uid;
    if (uid !== page.picked) pick(uid);
  });
  where.addEventListener("focusout", () => { if (!puller.drag) puller.settle(); });
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button || button.getAttribute("aria-disabled") === "true") return;
  if (button.dataset.page) {
    picture.page += Number(button.dataset.page);
    rebuild();
    $("zoomhead").querySelector(`[data-page="${button.dataset.page}"]`)?.focus();
  } else if (button.dataset.drill) {
    picture.isDrilled = false;
    rebuild();
    picture.focus(page.picked);
  } else if ("all" in button.dataset) table.unfold(true);
  else if (button.dataset.step) puller.stepBy(page.picked, Number(button.dataset.step) / 100);
});
giverField?.addEventListener("change", () => {
  puller.settle();
  if (giverField.value === page.picked) page.picked = (group.rows.find((row) => canPull(row.uid)) ?? group.rows[0]).uid;
  rebuild();
});

// --- Begin ---------------------------------------------------------------------------------------------------------
if (table?.nodes.size) {
  if (wholeField) wholeField.checked = isWhole(group.rows);
  const givers = group.numbers.is_closed ? group.rows.filter((row) => !row.is_fixed && row.shares !== null) : [];
  giverField?.append(...givers.map((row) => el("option", { value: row.uid }, row.name)));
  const first = group.rows.find((row) => canPull(row.uid)) ?? group.rows[0];
  page.picked = group.byUid.has(root.dataset.picked) ? root.dataset.picked : first.uid;
  page.stop = page.picked;
  table.fold(rowsAt(edits), 1);
  if (table.nodes.get(page.picked).tr.hidden) table.unfold();
  putChosen(page.picked);
  rebuild();
  predict(page.picked);
  queue.restore();
  if (queue.items.length) showWaiting();
  restoreTyped();
  let width = stage?.clientWidth;
  if (stage) new ResizeObserver(() => {
    if (Math.abs(stage.clientWidth - width) < 1 || puller.drag) return;
    width = stage.clientWidth;
    rebuild();
  }).observe(stage);
}
