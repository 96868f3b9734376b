// One entry over time. The server draws it first, with the same margins, ticks and dots; Plotly takes its place and adds
// zooming by a drag. What is shown is in the page's address: the server draws that, for this and all small pictures.
import { announce } from "../shell.js";
import { current, join, leave, moveTo, show } from "./cursor.js";
import { Frame } from "./frame.js";
import { resolve, template } from "./theme.js";
import { dayOf, setZoom } from "./zoomed.js";

const NARROW = 440, LEAST_DAYS = 2;

export class OverTime extends Frame {
  constructor(element) {
    super(element);
    this.axis = null;
    this.readout = element.querySelector("[data-readout]");
    this.cross = crossLayer();
    this.plot.append(this.cross);
    join(this);
  }

  write() {
    super.write();
    const { answer, element, plot } = this;
    this.axis = answer.axis ?? null;
    element.dataset.entry = answer.entry ?? "";
    element.dataset.name = answer.entry_name ?? "";
    const facts = element.querySelector("[data-facts]");
    if (facts && answer.facts !== undefined) facts.innerHTML = answer.facts;
    const swatch = element.querySelector("[data-state-swatch]");
    if (swatch) swatch.className = `sw s-${answer.state}`;
    if (!this.box && answer.svg) {  // Plotly is on its way
      for (const old of plot.querySelectorAll("svg.course, .fig-state")) old.remove();
      plot.insertAdjacentHTML("afterbegin", answer.svg);
    }
    for (const words of document.querySelectorAll("[data-period]")) words.textContent = answer.period;
    for (const reset of document.querySelectorAll("[data-reset-zoom]")) reset.hidden = !answer.axis?.is_zoomed;
    show(this);
    element.dispatchEvent(new CustomEvent("figure:written", { bubbles: true, detail: this }));
  }

  /** Ticks, words and rules are those of the server's picture. */
  spec() {
    const { answer, width } = this, layout = resolve(answer.layout);
    if (width < NARROW) {
      Object.assign(layout.xaxis, answer.narrow.xaxis);
      layout.annotations = resolve(answer.narrow.annotations);
    }
    return {
      data: resolve(answer.data),
      layout: { ...layout, uirevision: this.source, width, height: this.plot.clientHeight, template: template() },
    };
  }

  listen() {
    this.plot.append(this.cross);
    this.box.on("plotly_relayout", (change) => {
      const [from, to] = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (from && to) this.zoomTo(from, to);
    });
    this.box.on("plotly_doubleclick", () => { setZoom(null); });
  }

  /** Whole days; a shorter drag is undone. */
  zoomTo(from, to) {
    const { range, whole } = this.axis, first = dayOf(from), last = dayOf(to);
    if ((Date.parse(last) - Date.parse(first)) / 864e5 < LEAST_DAYS) { this.draw(); return; }
    if (first <= whole[0] && last >= whole[1]) setZoom(null);
    else if (first !== range[0] || last !== range[1]) setZoom([first < whole[0] ? whole[0] : first, last > whole[1] ? whole[1] : last]);
  }

  showStop(index, isCursor) {
    const { axis, answer } = this;
    const day = document.createElement("b"), text = ` ${answer.reads[index] ?? ""}`;
    day.textContent = axis.labels[index] ?? "";
    // A word of what the server wrote may be a button that explains it.
    if (this.readout && this.readout.textContent !== day.textContent + text) this.readout.replaceChildren(day, text);
    place(this.cross.firstChild, isCursor ? axis.at[index] : null);
  }

  /** By keys: moves the cursor and says what is there. */
  step(by, to = null) {
    const { axis, answer } = this;
    if (!axis?.stops.length) return;
    const at = axis.stops.indexOf(current()), from = at < 0 ? axis.resting : at;
    const index = Math.max(0, Math.min(axis.stops.length - 1, to ?? from + by));
    moveTo(axis.stops[index]);
    announce(`${axis.labels[index]} ${answer.reads[index]}`);
  }

  /** factor: of the width, around the cursor or the resting stop. */
  scale(factor) {
    const { axis } = this;
    if (!axis) return;
    const [first, last] = axis.range.map((day) => Date.parse(day) / 864e5), [low, high] = axis.whole.map((day) => Date.parse(day) / 864e5);
    const at = axis.stops.indexOf(current()), middle = Date.parse(axis.stops[at < 0 ? axis.resting : at].slice(0, 10)) / 864e5;
    const half = Math.max(((last - first) * factor) / 2, LEAST_DAYS / 2);
    const from = Math.max(low, Math.round(middle - half)), to = Math.min(high, Math.round(middle + half));
    if (from <= low && to >= high) setZoom(null);
    else if (to - from >= LEAST_DAYS) setZoom([from, to].map((day) => new Date(day * 864e5).toISOString().slice(0, 10)));
  }

  /** Before the element leaves the page. */
  gone() {
    leave(this);
  }
}

const SVG = "http://www.w3.org/2000/svg";

/** The line of the cursor over the inner box, whoever draws the picture. */
function crossLayer() {
  const layer = document.createElementNS(SVG, "svg"), line = document.createElementNS(SVG, "line");
  layer.setAttribute("class", "cross-layer");
  layer.setAttribute("aria-hidden", "true");
  line.setAttribute("class", "cross");
  line.setAttribute("y2", "100%");
  layer.append(line);
  place(line, null);
  return layer;
}

/** part: of the width, or null to hide the line. */
export function place(line, part) {
  line.setAttribute("visibility", part === null ? "hidden" : "visible");
  const x = `${((part ?? 0) * 100).toFixed(3)}%`;
  line.setAttribute("x1", x);
  line.setAttribute("x2", x);
}
