// A picture of our own, an SVG without Plotly: pieces with words, which the pointer, the keys and the screen reader meet.
import { announce } from "../shell.js";
import { Frame } from "./frame.js";
import { FONT, node } from "./svg.js";

const BESIDE = 12;  // pixels from the pointer to the words

/** `piecesOf(width, height)` of a kind gives, in drawing order and by place, {shape, texts, lines, spot}: nodes of the
 * picture, the words of its read-out, and where these are shown for the keys. A piece that isn't drawn is missing. */
export class Drawing extends Frame {
  static needsPlotly = false;

  constructor(element) {
    super(element);
    this.pieces = [];
    this.at = null;  // the place of the piece that has the cursor
    this.tip = Object.assign(document.createElement("div"), { className: "fig-tip", hidden: true, ariaHidden: "true" });
    const { plot } = this;
    plot.addEventListener("keydown", (event) => this.key(event));
    plot.addEventListener("blur", () => this.go(null));
    plot.addEventListener("pointermove", (event) => this.point(event));
    plot.addEventListener("pointerdown", (event) => this.point(event));
    plot.addEventListener("pointerleave", () => this.point(null));
    plot.addEventListener("click", (event) => { const at = placeOf(event); if (at !== null) this.open(at); });
  }

  async draw() {
    if (this.answer.empty) { this.message(this.answer.empty); return; }
    const isFirst = !this.box, { plot } = this;
    if (isFirst) this.addBox();
    this.width = plot.clientWidth;
    this.pieces = this.piecesOf(this.width, plot.clientHeight);
    if (!this.pieces[this.at]) this.at = null;
    const shapes = this.pieces.flatMap(({ shape, texts }, at) => {
      shape.dataset.at = at;
      return [shape, ...texts];
    });
    this.picture = node("svg", { width: this.width, height: plot.clientHeight, "aria-hidden": "true", "font-family": FONT, "font-size": "12px" }, ...this.definitions(), ...shapes);
    this.box.replaceChildren(this.picture);
    this.outline();
    this.point(null);
    if (isFirst) this.handOver();
    this.shown();
  }

  listen() {
    this.plot.append(this.tip);
  }

  definitions() { return []; }

  /** What a click on a piece leads to: nothing. */
  open() {}

  async toSvg(width, height) {
    return new XMLSerializer().serializeToString(this.picture).replace(/ data-at="\d+"| aria-hidden="true"/g, "");
  }

  /** Pieces with an outline, by place: the one that has the cursor. */
  outlined() {
    return this.at === null ? [] : [[this.at, "cursor"]];
  }

  outline() {
    if (!this.box) return;
    this.box.querySelector(".fig-outlines")?.remove();
    const outlines = this.outlined().map(([at, kind]) => {
      const copy = this.pieces[at].shape.cloneNode();
      for (const name of ["fill", "stroke", "data-at"]) copy.removeAttribute(name);
      copy.setAttribute("class", kind);
      return copy;
    });
    if (outlines.length) this.box.append(node("svg", { class: "fig-outlines", "aria-hidden": "true" }, ...outlines));
  }

  /** Moves the cursor, null for none, and says what is there. */
  go(at) {
    if (at === undefined || at === -1 || (at === null && this.at === null)) return;
    this.at = at;
    this.outline();
    this.tip.hidden = true;
    if (at === null) return;
    const { lines, spot } = this.pieces[at];
    announce(lines.join(". "));
    this.say(lines, ...spot);
  }

  key(event) {
    if (!this.box || event.target !== this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = { ...this.keys(), Escape: () => this.go(null) }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** The words of what is under the pointer. */
  point(event) {
    const at = event && placeOf(event);
    this.tip.hidden = true;
    if (at === null || !this.pieces[at]) return;
    const { left, top } = this.plot.getBoundingClientRect();
    this.say(this.pieces[at].lines, event.clientX - left, event.clientY - top);
  }

  /** Beside a place of the picture, within it. */
  say(lines, x, y) {
    const { tip, plot } = this;
    tip.replaceChildren(...lines.map((line) => Object.assign(document.createElement("p"), { textContent: line })));
    tip.hidden = false;
    tip.style.left = tip.style.top = "0";
    const { offsetWidth: wide, offsetHeight: tall } = tip;
    const left = x + BESIDE + wide <= plot.clientWidth ? x + BESIDE : x - BESIDE - wide;
    const top = y + BESIDE + tall <= plot.clientHeight ? y + BESIDE : y - BESIDE - tall;
    tip.style.left = `${Math.max(0, Math.min(left, plot.clientWidth - wide))}px`;
    tip.style.top = `${Math.max(0, top)}px`;
  }
}

function placeOf({ target }) {
  const place = target.closest?.("[data-at]")?.dataset.at;
  return place === undefined ? null : Number(place);
}
