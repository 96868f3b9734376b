// The picture over the table: one bar with its enlarged small ones, or a treemap; built again only where its parts change.
import { barSize, buildBar, drawBar, VERTICAL_PX } from "./shares_bar.js";
import { el, icon, put } from "./editor_dom.js";
import { mainSegments, mapStructure, PAGE, partsOf, smallSegments } from "./shares_layout.js";
import { buildMap, cellOf, drawMap } from "./shares_map.js";
import { say } from "./editor_words.js";
import { whole } from "./numbers.js";

const SMALL_PX = 720; // length of the small ones where the bar is upright
const MAP_PX = { wide: 420, narrow: 600 };
const narrow = matchMedia("(max-width: 48rem)");

export class Picture {
  constructor(stage, zoom, head, view) {
    Object.assign(this, { stage, zoom, head, page: 0, isDrilled: false, view, signature: "" });
    this.drawn = new Map(); // by the id of its stage
  }

  get isNarrow() {
    return narrow.matches;
  }

  /** Nodes for these rows; the focus stays on the same entry. `isSame` true: what is drawn fits as it is. */
  build(numbers, before, { giver, canPull, picked }) {
    const length = narrow.matches ? VERTICAL_PX : this.stage.clientWidth;
    this.parts = partsOf(numbers, length, giver);
    const pages = Math.max(Math.ceil(this.parts.small.length / PAGE), 1);
    this.page = Math.min(this.page, pages - 1);
    if (!this.parts.small.length) this.isDrilled = false;
    const structure = this.view === "map" ? mapStructure(numbers, this.stage.clientWidth, this.mapHeight) : this.parts;
    const uids = (list) => list.map((each) => each.uid ?? each.uids ?? each);
    const signature = JSON.stringify([this.view, this.stage.clientWidth, narrow.matches, this.page, this.isDrilled, giver, this.rest > 0,
      this.view === "map" ? uids(structure) : Object.values(structure).map(uids), numbers.filter((row) => canPull(row.uid)).length]);
    if (signature === this.signature) return;
    this.signature = signature;
    const focused = document.activeElement.closest?.("[data-grip]")?.dataset.grip;
    this.drawn.clear();
    if (this.view === "map") this.drawn.set("stage", buildMap(this.stage, numbers, this.stage.clientWidth, this.mapHeight));
    else this.buildBars(numbers, before, canPull);
    this.buildHead(pages);
    if (focused) this.focusNext = picked;
  }

  get mapHeight() {
    return narrow.matches ? MAP_PX.narrow : MAP_PX.wide;
  }

  buildBars(numbers, before, canPull) {
    const { small } = this.parts;
    this.buildBar(this.stage, narrow.matches && this.isDrilled ? "small" : "main", numbers, before, canPull);
    const isEnlarged = small.length > 0 && !narrow.matches;
    this.zoom.hidden = !isEnlarged;
    if (isEnlarged) this.buildBar(this.zoom, "small", numbers, before, canPull);
  }

  buildBar(host, which, numbers, before, canPull) {
    const vertical = narrow.matches;
    const length = vertical ? (which === "small" ? SMALL_PX : VERTICAL_PX) : host.clientWidth;
    const bar = buildBar(host, this.segments(which, numbers, length), this.segments(which, before, length, true), {
      vertical, length, thick: vertical ? host.clientWidth : barSize(host.id), canPull,
      label: which === "small" ? say("enlarged") : say("bar"),
    });
    this.drawn.set(host.id, Object.assign(bar, { which }));
  }

  /** restNow, restBefore: parts of the pool that entries elsewhere have. */
  segments(which, rows, length, isBefore = false) {
    if (which === "small") return smallSegments(this.parts, rows, this.page, length);
    return mainSegments(this.parts, rows, isBefore ? this.restBefore : this.rest, length);
  }

  buildHead(pages) {
    const { small } = this.parts;
    this.head.hidden = this.view === "map" || !small.length || (narrow.matches && !this.isDrilled);
    if (this.view === "map") this.zoom.hidden = true;
    if (this.head.hidden) return;
    const label = el("span", { class: "grow" });
    const from = this.page * PAGE;
    const range = pages > 1 ? `: ${whole(from + 1)}–${whole(Math.min(small.length, from + PAGE))}` : "";
    put(label, say("smaller_entries", { n: whole(small.length) }) + range);
    const buttons = [];
    if (this.isDrilled) buttons.push(el("button", { class: "btn sm", type: "button", "data-drill": "0" }, say("all", { n: "" }).trim()));
    if (pages > 1) {
      buttons.push(el("button", { class: "btn icon sm", type: "button", "data-page": -1, "aria-label": say("previous"), "aria-disabled": this.page === 0 }, icon("chevron-right", "s flip")));
      buttons.push(el("button", { class: "btn icon sm", type: "button", "data-page": 1, "aria-label": say("next"), "aria-disabled": this.page === pages - 1 }, icon("chevron-right", "s")));
    }
    this.head.replaceChildren(label, ...buttons);
  }

  /** `grown`: rows with more for the picked entry; null while a border is pulled. */
  draw(rows, view, grown) {
    for (const bar of this.drawn.values()) {
      if (bar.isMap) drawMap(bar, rows, view, grown);
      else drawBar(bar, this.segments(bar.which, rows, bar.length), view);
    }
    if (this.focusNext) {
      this.focus(this.focusNext);
      this.focusNext = "";
    }
  }

  /** Turn to the page of small ones that has this entry. */
  show(uid) {
    const at = this.parts.small.findIndex((row) => row.uid === uid);
    if (at < 0 || this.view === "map") return;
    this.page = Math.floor(at / PAGE);
    if (narrow.matches) this.isDrilled = true;
  }

  focus(uid) {
    const grips = [...document.querySelectorAll('.pull-stage:not([hidden]) [role="slider"]')];
    (grips.find((grip) => grip.dataset.grip === uid) ?? grips[0])?.focus({ preventScroll: true });
  }

  /** Where an edge of an entry would be with these rows, in pixels of its stage. */
  edge(stage, rows, uid, side) {
    const bar = this.drawn.get(stage.id);
    if (bar.isMap) {
      const cell = cellOf(bar, rows, uid);
      return side === "e" ? cell.x + cell.w : cell.y + cell.h;
    }
    const item = this.segments(bar.which, rows, bar.length).find((each) => each.row?.uid === uid);
    return side === "left" ? item.from : item.to;
  }

  isUpright(stage, side) {
    const bar = this.drawn.get(stage.id);
    return bar.isMap ? side === "s" : bar.vertical;
  }

  along(stage, side, event) {
    const box = this.drawn.get(stage.id).svg.getBoundingClientRect();
    return this.isUpright(stage, side) ? event.clientY - box.top : event.clientX - box.left;
  }
}
