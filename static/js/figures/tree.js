// A tree as nested fields: an icicle or a treemap. A click or Enter opens a field; arrows go from field to field.
import { Drawing } from "./drawing.js";
import { icicle, treemap } from "./nested.js";
import { node, shortened, widthOf } from "./svg.js";
import { color } from "./theme.js";

const EDGE = 1.5, PAD = 9, LINE = 16, TWO_LINES = 36, NARROW = 440, NARROW_LEVELS = 3, ALL_LEVELS = 9;
const BETWEEN = "\u2002", HATCH = "fig-hatch";

/** Name and balance in one line or two; the name gives way first. */
function linesOf({ name, short }, { width, height, isHeader }) {
  const room = width - 2 * PAD;
  if (height < LINE) return [];
  if (short && height >= TWO_LINES && !isHeader) {
    const first = shortened(name, room);
    return first ? [first, ...(widthOf(short) <= room ? [short] : [])] : [];
  }
  const both = short && shortened(name, room - widthOf(BETWEEN + short)), text = both ? both + BETWEEN + short : shortened(name, room);
  return text ? [text] : [];
}

/** An icicle's words are in the middle of their field, a treemap's at its top. */
function textsOf(field, box, isTop) {
  const lines = linesOf(field, box), { x, y, height } = box;
  const first = isTop || box.isHeader ? y + 14.5 : y + height / 2 + 4.5 - ((lines.length - 1) * LINE) / 2;
  return lines.map((line, at) => node("text", { x: x + PAD, y: first + at * LINE, fill: color(field.ink), "font-weight": 500, "pointer-events": "none" }, line));
}

export class Tree extends Drawing {
  get fields() { return this.answer.fields; }

  piecesOf(width, height) {
    const isTreemap = this.answer.kind === "treemap", pieces = [];
    const boxes = isTreemap ? treemap(this.fields, width, height) : icicle(this.fields, width, height, width < NARROW ? NARROW_LEVELS : ALL_LEVELS);
    boxes.forEach((box, at) => {
      const field = this.fields[at], { x, y, width: wide, height: tall } = box;
      pieces[at] = {
        shape: node("rect", {
          x: x + EDGE / 2, y: y + EDGE / 2, width: Math.max(wide - EDGE, 0.5), height: Math.max(tall - EDGE, 0.5),
          fill: field.is_hatched ? `url(#${HATCH})` : color(field.fill), stroke: color(field.line), "stroke-width": EDGE,
          ...((field.url || field.query !== null) && { cursor: "pointer" }),
        }),
        texts: textsOf(field, box, isTreemap),
        lines: field.lines,
        spot: [x + Math.min(wide / 2, 40), y + Math.min(tall, 20)],
      };
    });
    return pieces;
  }

  definitions() {
    const stripe = node("path", { d: "M0 6 6 0", stroke: color("$line-strong"), "stroke-width": 0.7 });
    const ground = node("rect", { width: 6, height: 6, fill: color("$surface") });
    return [node("defs", {}, node("pattern", { id: HATCH, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, ground, stripe))];
  }

  /** The chosen field, too. */
  outlined() {
    const chosen = this.fields.findIndex(({ id }) => id === this.answer.chosen);
    const isShown = chosen > 0 && chosen !== this.at && this.pieces[chosen];
    return [...(isShown ? [[chosen, "chosen"]] : []), ...super.outlined()];
  }

  /** The state that a field leads to, or the page of what is drawn together. */
  open(at) {
    const { url, query } = this.fields[at];
    if (url) { location.assign(url); return; }
    if (query === null || `?${query}` === location.search || (!query && !location.search)) return;
    history.pushState({}, "", query ? `?${query}` : location.pathname);
    document.dispatchEvent(new CustomEvent("figure:state"));
  }

  within(parent) {
    return this.fields.flatMap((field, at) => (field.parent === parent && this.pieces[at] ? [at] : []));
  }

  /** by: +1 or -1 among siblings. */
  sibling(by) {
    const row = this.within(this.fields[this.at].parent);
    return row[row.indexOf(this.at) + by];
  }

  keys() {
    const from = (move) => () => this.go(this.at === null ? 0 : move());
    return {
      ArrowDown: from(() => this.sibling(1)), ArrowUp: from(() => this.sibling(-1)),
      ArrowRight: from(() => this.within(this.at)[0]), ArrowLeft: from(() => this.fields[this.at].parent),
      Home: () => this.go(0), Enter: () => this.at !== null && this.open(this.at), Backspace: () => this.up(),
    };
  }

  /** One step back on the path. */
  up() {
    const way = [...this.element.querySelectorAll(".fig-controls .path a")];
    way.at(-2)?.click();
  }
}
