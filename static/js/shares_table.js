// Rows below the picture: number fields, targets and usage against them; ranks and days are those of the effect.
import { el, fromTo, put, set } from "./editor_dom.js";
import { drawBalance } from "./editor_effect.js";
import { say } from "./editor_words.js";
import { amount, gap, percent, whole } from "./numbers.js";

const STEPS = [0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 1];
const BULLET_PX = 96;
const SHOWN = 14;
const FOLDED = 12;

/** "2.5 under", or the state alone. */
export const balanceText = (row, decimals) => (row.state === "over" || row.state === "under" ? `${gap(row.actual, row.target, decimals)} ${say(row.state)}` : say(row.state));

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
      this.more = el("tr", { class: "more" }, el("td", { colspan: 7 }, button, el("span", { class: "muted" })));
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
    const { picked, edited, effect, decimals } = view;
    this.last = [rows, view];
    const needed = rows.reduce((most, row) => Math.max(most, row.actual ?? 0, (row.target ?? 0) + row.slack, row.target_before ?? 0), 0.001);
    const scale = STEPS.find((step) => step >= needed - 1e-12) ?? 1;
    for (const row of rows) {
      const node = this.nodes.get(row.uid);
      if (!node || node.tr.hidden) continue;
      const isEdited = edited(row.uid) || (row.shares_before !== null && row.shares !== row.shares_before);
      const [before, now] = [row.target_before === null ? "" : percent(row.target_before, decimals), percent(row.target, decimals)];
      node.tr.className = isEdited ? "edited" : before !== "" && before !== now ? "shifted" : "";
      node.tr.classList.toggle("picked", row.uid === picked);
      if (node.input && node.input.dataset.typed === undefined) node.input.value = row.shares === null ? node.input.defaultValue : amount(row.shares);
      fromTo(node.target, before, now, say("to"));
      drawBullet(node, row, scale);
      drawBalance(node.balance, row.state, balanceText(row, decimals));
      effect.drawCells(node.tr);
    }
  }
}

function partsOf(tr) {
  const svg = tr.querySelector("svg.bullet") ?? el("svg", { class: "bullet", width: BULLET_PX, height: 16, "aria-hidden": "true" });
  const bullet = ["track", "band", "bar", "was", "tick"].map((name) => el("rect", { class: name }));
  svg.replaceChildren(...bullet);
  if (!svg.isConnected) tr.querySelector(".used").prepend(svg);
  return { tr, svg, bullet, input: tr.querySelector("input.cell"), target: tr.querySelector(".c-target"), balance: tr.querySelector(".bal") };
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
