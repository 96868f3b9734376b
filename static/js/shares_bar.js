// The siblings as one bar: nodes are made once and then only moved. A border is a slider that the pointer can pull.
import { el, fit, icon, put, set } from "./editor_dom.js";
import { say } from "./editor_words.js";
import { percent, tenth, whole } from "./numbers.js";

const TALL_PX = 84;
const TOP_PX = 7; // above the bar are the marks of the revision's borders
export const VERTICAL_PX = 600;
const coarse = matchMedia("(pointer: coarse)");

/** A slider for one border; without a place yet. */
export function makeGrip(uid, vertical) {
  return el("g", {
    class: "pull-grip", role: "slider", tabindex: -1, "data-grip": uid, "aria-valuemin": 0, "aria-valuemax": 100,
    "aria-orientation": vertical ? "vertical" : "horizontal",
  }, el("rect", { class: "hit" }), el("rect", { class: "line" }), el("rect", { class: "pill" }), el("rect", { class: "ring" }));
}

/** `list` as segments are now and `before` as in the revision; `canPull(uid)` says which have a border to pull. */
export function buildBar(host, list, before, { vertical, length, thick, label, canPull }) {
  const svg = el("svg", {
    class: `pull-svg ${vertical ? "v" : "h"}`, role: "group", "aria-label": label,
    width: vertical ? thick : length, height: vertical ? length : thick + TOP_PX + 1,
  });
  const marks = before.slice(0, -1).map((item) => (vertical
    ? el("rect", { class: "was", x: 0, y: item.to - 1, width: 6, height: 2 })
    : el("rect", { class: "was", x: item.to - 1, y: 0, width: 2, height: 6 })));
  const nodes = list.map((item, i) => makeSegment(item, i === list.length - 1, vertical, canPull));
  const left = el("g", { class: "pull-grip left off", "data-side": "left" }, el("rect", { class: "hit" }), el("rect", { class: "pill" }));
  svg.append(...nodes.map((node) => node.g), ...marks, ...nodes.flatMap((node) => (node.grip ? [node.grip] : [])), left);
  host.replaceChildren(svg);
  return { svg, nodes, vertical, length, thick, left };
}

function makeSegment(item, isLast, vertical, canPull) {
  const node = { box: el("rect", { class: "seg-box", rx: 3 }), use: el("rect", { class: "seg-use", rx: 1 }), name: el("text", { class: "seg-name" }), value: el("text", { class: "seg-pct" }) };
  node.g = el("g", { class: "pull-seg" }, node.box, node.use, node.name, node.value);
  node.uid = item.row?.uid;
  if (item.row?.is_fixed) node.g.append(node.lock = icon("lock", "seg-lock"));
  if (node.uid) node.g.dataset.uid = node.uid;
  else if (item.group) node.g.dataset.small = "";
  if (node.uid && canPull(node.uid)) {
    node.grip = makeGrip(node.uid, vertical);
    node.grip.classList.toggle("end", isLast); // its only border is the left one; keys still work
  }
  return node;
}

/** `view`: picked, stop (where Tab comes to), giver, edited(uid), before(uid), describe(grip, row), canPull(uid). */
export function drawBar(bar, list, view) {
  bar.nodes.forEach((node, i) => {
    const item = list[i];
    drawSegment(bar, node, item, view);
    if (node.grip) drawGrip(bar, node.grip, item, view);
  });
  drawLeft(bar, list, view);
}

function drawSegment(bar, node, item, view) {
  const { row, group } = item;
  const target = row ? row.target ?? 0 : item.size;
  const actual = row ? row.actual ?? 0 : group ? group.reduce((sum, each) => sum + (each.actual ?? 0), 0) : 0;
  const kind = row ? row.state : "on";
  const flags = [!row && "blank", row && row.uid === view.picked && "on", row && row.uid === view.giver && "gives", row && view.edited(row.uid) && "edited", row && !view.canPull(row.uid) && row.uid !== view.giver && "fixed"];
  set(node.g, { class: ["pull-seg", ...flags.filter(Boolean)].join(" ") });
  set(node.use, { class: `seg-use ${kind}` });
  const part = Math.min(actual / (target || 1), 1);
  const name = row ? row.name : group ? say("smaller", { n: whole(group.length) }) : say("elsewhere");
  const size = Math.max(item.to - item.from - 2, 1);
  if (bar.vertical) drawTall(bar, node, item.from + 1, size, part, name, target, row && view.before(row.uid));
  else drawWide(bar, node, item.from + 1, size, part, name, target);
}

function drawWide(bar, node, from, size, part, name, target) {
  set(node.box, { x: from, y: TOP_PX, width: size, height: bar.thick });
  set(node.use, { x: from + 4, y: TOP_PX + bar.thick - 9, width: Math.max(part * (size - 8), part && size > 9 ? 1.5 : 0), height: 5 });
  set(node.name, { x: from + 7, y: TOP_PX + 19 });
  set(node.value, { x: from + 7, y: TOP_PX + (bar.thick > 60 ? 36 : 33) });
  if (node.lock) set(node.lock, { x: from + size - 19, y: TOP_PX + bar.thick - 30, width: size > 24 ? 13 : 0, height: 13 });
  put(node.name, fit(name, size - 13));
  put(node.value, size > 56 ? percent(target) : size > 32 ? tenth(target) : "");
}

function drawTall(bar, node, from, size, part, name, target, before) {
  set(node.box, { x: 8, y: from, width: bar.thick - 8, height: size });
  set(node.use, { x: 0, y: from, width: 5, height: Math.max(part * size, part ? 1.5 : 0) });
  set(node.name, { x: 20, y: from + size / 2 + 4 });
  set(node.value, { x: bar.thick - 14, y: from + size / 2 + 4, "text-anchor": "end" });
  if (node.lock) set(node.lock, { x: bar.thick - 118, y: from + size / 2 - 7, width: size >= 16 ? 13 : 0, height: 13 });
  const moved = before !== null && before !== undefined && tenth(before) !== tenth(target);
  put(node.name, size >= 16 ? fit(name, bar.thick - 150) : "");
  put(node.value, size >= 16 ? (moved ? `${tenth(before)} ${say("to")} ${percent(target)}` : percent(target)) : "");
}

function drawGrip(bar, grip, item, view) {
  const [hit, line, pill, ring] = grip.children;
  const at = item.to;
  const isPicked = item.row.uid === view.picked;
  const size = Math.max(item.to - item.from, 2);
  if (bar.vertical) {
    set(hit, { x: bar.thick - 72, y: at - 22, width: 72, height: isPicked ? 44 : 0 });
    set(line, { x: 8, y: at - 1, width: bar.thick - 8, height: 2 });
    set(pill, { x: bar.thick - 54, y: at - 4, width: 36, height: 8, rx: 4 });
    set(ring, { x: 9, y: item.from + 1, width: bar.thick - 10, height: size - 2, rx: 3 });
  } else {
    const wide = coarse.matches ? 44 : 14;
    const tall = bar.thick > 60 ? 26 : 16;
    set(hit, { x: at - wide / 2, y: 0, width: wide, height: bar.thick + TOP_PX + 1 });
    set(line, { x: at - 1, y: TOP_PX, width: 2, height: bar.thick });
    set(pill, { x: at - 4, y: TOP_PX + bar.thick * 0.7 - tall / 2, width: 8, height: tall, rx: 4 });
    set(ring, { x: item.from + 2, y: TOP_PX + 1, width: Math.max(size - 4, 1), height: bar.thick - 2, rx: 3 });
  }
  set(grip, { tabindex: item.row.uid === view.stop ? 0 : -1 });
  grip.classList.toggle("on", isPicked);
  view.describe(grip, item.row);
}

/** The picked entry can be pulled at its left border too, unless a chosen one gives: it is at the right. */
function drawLeft(bar, list, view) {
  const i = list.findIndex((item) => item.row?.uid === view.picked);
  const shown = i > 0 && !view.giver && !bar.vertical && view.canPull(view.picked);
  set(bar.left, { class: `pull-grip left ${shown ? "on" : "off"}` });
  if (!shown) return;
  const [hit, pill] = bar.left.children;
  const tall = bar.thick > 60 ? 26 : 16;
  set(bar.left, { "data-grip": view.picked });
  set(hit, { x: list[i].from - 2, y: 0, width: 12, height: bar.thick + TOP_PX + 1 });
  set(pill, { x: list[i].from - 3, y: TOP_PX + bar.thick * 0.7 - tall / 2, width: 6, height: tall, rx: 3 });
}

export const barSize = (where) => (where === "zoom" ? 52 : TALL_PX);
