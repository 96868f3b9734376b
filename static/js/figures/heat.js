// Every entry, every day: the server draws the cells, and this is the cursor over them, which all pictures of the page
// share, with the words of a cell. A click on a row selects its entry.
import { announce } from "../shell.js";
import { current, join, leave, moveTo, show } from "./cursor.js";
import { Frame } from "./frame.js";
import { addDownload } from "./download.js";
import { choose } from "./page_state.js";
import { FONT, node, styled } from "./svg.js";

export class Heat extends Frame {
  static needsPlotly = false;

  constructor(element) {
    super(element);
    this.axis = null;
    this.row = null;
    this.readout = element.querySelector("[data-readout]");
    const { plot } = this;
    plot.addEventListener("pointermove", (event) => this.point(event));
    plot.addEventListener("pointerleave", () => this.to(null, null));
    plot.addEventListener("click", (event) => { this.point(event); this.select(); });
    plot.addEventListener("keydown", (event) => this.key(event));
    plot.addEventListener("blur", () => this.to(null, null));
    join(this);
  }

  async draw() {
    const { answer, plot } = this;
    if (answer.empty) { this.axis = null; this.message(answer.empty); return; }
    const isFirst = !this.box;
    plot.innerHTML = answer.svg;
    this.box = this.cells = plot.querySelector(".heat-cells");
    this.width = plot.clientWidth;
    this.axis = answer.axis;
    if (this.row >= answer.rows.length) this.row = null;
    this.cross = this.cells.appendChild(node("path", { class: "cross", visibility: "hidden" }));
    this.mark = this.cells.appendChild(node("path", { class: "heat-mark", visibility: "hidden" }));
    if (isFirst) {
      addDownload(this);
      this.element.dispatchEvent(new CustomEvent("figure:ready", { bubbles: true, detail: this }));
    }
    this.shown();
    show(this);
  }

  /** A stop of the page's cursor; in a row the cell has a frame and words. */
  showStop(index, isCursor) {
    if (!this.box) return;
    const { answer, row } = this, isCell = isCursor && row !== null;
    this.cross.setAttribute("visibility", isCursor ? "visible" : "hidden");
    this.cross.setAttribute("d", `M${index + 0.5} 0v${answer.rows.length}`);
    this.mark.setAttribute("visibility", isCell ? "visible" : "hidden");
    if (isCell) this.mark.setAttribute("d", `M${index} ${row}h1v1h-1z`);
    const day = document.createElement("b"), at = isCell ? row : null;
    day.textContent = at === null ? "" : answer.rows[at].name;
    this.readout.replaceChildren(day, at === null ? "\u00a0" : ` ${this.textOf(at, index)}`);
  }

  textOf(row, index) {
    return `${this.axis.labels[index]}: ${this.answer.rows[row].reads[index]}`;
  }

  /** row, column: of a cell; null for none. */
  to(row, column) {
    if (!this.box) return;
    this.row = row;
    const stop = column === null ? null : this.axis.stops[column];
    if (stop === current()) show(this); else moveTo(stop);
  }

  point(event) {
    if (!this.box) return;
    const { left, top, width, height } = this.cells.getBoundingClientRect(), { rows } = this.answer;
    const row = Math.floor(((event.clientY - top) / height) * rows.length), n = this.axis.at.length;
    const column = Math.floor(((event.clientX - left) / width) * n);
    if (row < 0 || row >= rows.length) { this.to(null, null); return; }
    this.to(row, column < 0 || column >= n ? n - 1 : column);
  }

  select() {
    const row = this.answer?.rows[this.row];
    if (row) choose(row.uid);
  }

  key(event) {
    if (!this.box || event.target !== this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
    const { axis, answer } = this, at = axis.stops.indexOf(current()), column = at < 0 ? axis.resting : at, row = this.row ?? 0;
    const [right, down] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-Infinity, 0], End: [Infinity, 0] }[event.key] ?? [null];
    if (event.key === "Enter") { event.preventDefault(); this.select(); return; }
    if (right === null) return;
    event.preventDefault();
    const limited = (value, most) => Math.max(0, Math.min(most, value));
    const cell = [limited(this.row === null ? row : row + down, answer.rows.length - 1), limited(column + right, axis.at.length - 1)];
    this.to(...cell);
    announce(`${answer.rows[cell[0]].name}. ${this.textOf(...cell)}`);
  }

  async toSvg(width, height) {
    const { left, top } = this.plot.getBoundingClientRect();
    const parts = [...this.plot.querySelectorAll("svg")].filter((one) => one.checkVisibility()).map((part) => {
      const copy = styled(part, ["fill", "stroke", "stroke-width", "opacity", "font-size"]), box = part.getBoundingClientRect();
      for (const [name, value] of Object.entries({ x: box.left - left, y: box.top - top, width: box.width, height: box.height })) copy.setAttribute(name, value);
      return copy;
    });
    return new XMLSerializer().serializeToString(node("svg", { width, height, "font-family": FONT }, ...parts));
  }

  fail() {
    if (this.plot.querySelector("svg")) this.stale();  // what the server drew stays
    else super.fail();
  }

  remove() {
    this.box = null;
  }

  gone() {
    leave(this);
  }

  resized() {}
}
