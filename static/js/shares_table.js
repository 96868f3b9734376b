// Rows beside the bar: number fields, targets, usage against them, and what becomes of them at present demand.
import { el, fromTo, icon, put, set } from "./shares_dom.js";
import { amount, percent, points, say, whole } from "./shares_words.js";

const STEPS = [0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 1];
const [BULLET_PX, LINE_PX, LINE_TALL_PX] = [96, 132, 26];
const [BACK, AHEAD] = [14, 30]; // days
const SHOWN = 14;
const FOLDED = 12;

export class Table {
  constructor(body, words) {
    this.body = body;
    this.words = words;
    this.nodes = new Map([...body.querySelectorAll("tr[data-uid]")].map((tr) => [tr.dataset.uid, partsOf(tr)]));
    this.more = null;
    this.last = null; // what draw was called with
  }

  /** Only the largest are listed until somebody asks for all; one that is picked is always there. */
  fold(rows, total) {
    if (rows.length <= SHOWN || this.more === false) return;
    if (!this.more) {
      const button = el("button", { class: "lnk", type: "button", "data-all": "" });
      this.more = el("tr", { class: "more" }, el("td", { colspan: 6 }, button, el("span", { class: "muted" })));
      this.body.append(this.more);
    }
    const rest = rows.slice(FOLDED);
    rest.forEach((row) => { const node = this.nodes.get(row.uid); if (node) node.tr.hidden = true; });
    put(this.more.querySelector("button"), say("more", { n: whole(rest.length) }));
    put(this.more.querySelector("span"), ` ${say("together", { part: percent(rest.reduce((sum, row) => sum + (row.target ?? 0), 0) / (total || 1)) })}`);
  }

  unfold(hasFocus = false) {
    if (this.more) this.more.remove();
    this.more = false;
    this.nodes.forEach((node) => { node.tr.hidden = false; });
    if (this.last) this.draw(...this.last);
    if (hasFocus) this.body.querySelectorAll("tr[data-uid] input")[FOLDED]?.focus();
  }

  /** The field that somebody types in is left alone. Rows that are folded away are drawn when they are shown. */
  draw(rows, view) {
    const { picked, edited, outlook, isLate } = view;
    this.last = [rows, view];
    const needed = rows.reduce((most, row) => Math.max(most, row.actual ?? 0, (row.target ?? 0) + row.slack, row.target_before ?? 0), 0.001);
    const scale = STEPS.find((step) => step >= needed - 1e-12) ?? 1;
    for (const row of rows) {
      const node = this.nodes.get(row.uid);
      if (!node || node.tr.hidden) continue;
      const isEdited = edited(row.uid) || (row.shares_before !== null && row.shares !== row.shares_before);
      const before = row.target_before === null ? "" : percent(row.target_before);
      node.tr.className = isEdited ? "edited" : before !== "" && before !== percent(row.target) ? "shifted" : "";
      node.tr.classList.toggle("picked", row.uid === picked);
      if (node.input && node.input.dataset.typed === undefined) node.input.value = row.shares === null ? node.input.defaultValue : amount(row.shares);
      fromTo(node.target, before, percent(row.target), say("to"));
      drawBullet(node, row, scale);
      drawBalance(node, row);
      drawOutlook(node, row, outlook.get(row.uid), isLate);
    }
  }
}

function partsOf(tr) {
  const svg = tr.querySelector("svg.bullet") ?? el("svg", { class: "bullet", width: BULLET_PX, height: 16, "aria-hidden": "true" });
  const bullet = ["track", "band", "bar", "was", "tick"].map((name) => el("rect", { class: name }));
  svg.replaceChildren(...bullet);
  if (!svg.isConnected) tr.querySelector(".used").prepend(svg);
  const line = el("svg", { class: "pull-line", width: LINE_PX, height: LINE_TALL_PX, viewBox: `0 0 ${LINE_PX} ${LINE_TALL_PX}`, "aria-hidden": "true" },
    el("rect", { class: "band" }), el("path", { class: "t" }), el("path", { class: "so" }), el("path", { class: "will" }), el("circle", { r: 2 }));
  tr.querySelector(".c-line").replaceChildren(line);
  return { tr, svg, bullet, line, input: tr.querySelector("input.cell"), target: tr.querySelector(".c-target"), balance: tr.querySelector(".bal"), when: tr.querySelector(".c-when") };
}

function drawBullet(node, row, scale) {
  const x = (value) => 1 + Math.min(Math.max(value, 0), scale) * ((BULLET_PX - 2) / scale);
  const [track, band, bar, was, tick] = node.bullet;
  set(node.svg, { class: `bullet ${row.state}` });
  set(track, { x: 1, y: 6, width: BULLET_PX - 2, height: 4, rx: 2, class: row.state === "nodata" ? "none" : "track" });
  const target = row.target ?? 0;
  const wide = Math.max(x(target + row.slack) - x(target - row.slack), 2);
  set(band, { x: Math.min(x(target - row.slack), BULLET_PX - 1 - wide), y: 2, width: row.target === null ? 0 : wide, height: 12, rx: 1.5 });
  set(bar, { x: 1, y: 5, width: row.actual === null ? 0 : Math.max(x(row.actual) - 1, 1.5), height: 6, rx: 1 });
  const moved = row.target_before !== null && Math.abs(row.target_before - target) > 5e-4;
  set(was, { x: x(row.target_before ?? 0) - 1, y: 2, width: moved ? 2 : 0, height: 12 });
  set(tick, { x: x(target) - 1, y: 1, width: row.target === null ? 0 : 2, height: 14 });
}

function drawBalance(node, row) {
  const { balance } = node;
  const off = row.state === "over" || row.state === "under";
  const text = off ? `${points(row.actual - row.target)} ${say(row.state)}` : say(row.state);
  if (balance.dataset.shown === `${row.state} ${text}`) return;
  balance.dataset.shown = `${row.state} ${text}`;
  balance.dataset.state = row.state;
  balance.className = off ? `bal ${row.state}` : "bal";
  balance.replaceChildren(icon(row.state === "nodata" ? "idle" : row.state, "solid"), text);
}

/** Two weeks so far, thirty days ahead at present demand, the target and the width of its tolerance. */
function drawOutlook(node, row, known, isLate) {
  node.when.classList.toggle("late", isLate);
  if (!known) return;
  fromTo(node.when, known.on_target_before === known.on_target ? "" : known.on_target_before, known.on_target, say("to"));
  node.when.dataset.outcome = known.outcome ?? "";
  const [band, target, so, will, dot] = node.line.children;
  if (!known.ahead || row.target === null) return set(node.line, { class: "pull-line none" });
  const past = known.so_far.filter(([day]) => day >= -BACK);
  const before = row.target_before ?? row.target;
  const all = [...known.ahead, ...past.map(([, part]) => part), row.target, before, row.actual];
  const [top, low] = [Math.max(...all) * 1.06 || 1, Math.min(...all) * 0.94];
  const x = (day) => ((day + BACK) / (BACK + AHEAD)) * (LINE_PX - 4) + 2;
  const y = (part) => LINE_TALL_PX - 2 - ((Math.min(Math.max(part, low), top) - low) / (top - low || 1)) * (LINE_TALL_PX - 4);
  const path = (points_) => points_.map(([day, part], i) => `${i ? "L" : "M"}${x(day).toFixed(1)} ${y(part).toFixed(1)}`).join("");
  set(node.line, { class: `pull-line ${row.state}` });
  const [high, deep] = [y(row.target + row.slack), y(row.target - row.slack)];
  set(band, { x: x(0), y: high, width: x(AHEAD) - x(0), height: Math.max(deep - high, 1) });
  set(target, { d: `M${x(-BACK)} ${y(before).toFixed(1)}H${x(0).toFixed(1)}V${y(row.target).toFixed(1)}H${x(AHEAD)}` });
  set(so, { d: path([...past, [0, row.actual]]) });
  set(will, { d: path(known.ahead.map((part, day) => [day, part])) });
  set(dot, { cx: x(0), cy: y(row.actual) });
  return undefined;
}
