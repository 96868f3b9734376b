// A tree as nested fields: what a click and the keys open, which field has the cursor, and words that fit their field.
import { announce } from "../shell.js";

const FONT = "500 12px Inter, system-ui, sans-serif", PAD = 18, LINE = 16, TWO_LINES = 36, NARROW_LEVELS = 3, FEWEST = 4;
const GAP = "\u2002", INDENT = "\u2002";  // plotly.js writes three pixels from the edge
let pen;

function width(text) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = FONT;
  return pen.measureText(text).width;
}

/** As much of a text as fits, begin and end of it: siblings often begin alike. Nothing where not even four letters do. */
export function shortened(text, room) {
  if (width(text) <= room) return text;
  const letters = [...text];
  const part = (n) => `${letters.slice(0, Math.ceil(n / 2)).join("")}…${letters.slice(letters.length - Math.floor(n / 2)).join("")}`;
  let low = 0, high = letters.length;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (width(part(middle)) <= room) low = middle; else high = middle - 1;
  }
  return low < FEWEST ? "" : part(low);
}

const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** Name and balance in one line or two; the name gives way first. */
function fitted({ name, short }, { width: wide, height }, isHeader) {
  const room = wide - PAD;
  if (height < LINE) return "";
  if (short && height >= TWO_LINES && !isHeader) {
    const first = shortened(name, room);
    return first && [first, width(short) <= room ? short : ""].filter(Boolean).map((line) => INDENT + plain(line)).join("<br>");
  }
  const left = short ? room - width(GAP + short) : room;
  const both = short && shortened(name, left), text = both ? both + GAP + short : shortened(name, room);
  return text && INDENT + plain(text);
}

/** Cursor and links of the fields of one frame. */
export class Fields {
  constructor(frame) {
    this.frame = frame;
    this.at = null;
    frame.plot.addEventListener("keydown", (event) => this.key(event));
    frame.plot.addEventListener("blur", () => { this.at = null; this.outline(); });
  }

  get answer() { return this.frame.answer; }
  get trace() { return this.answer.data[0]; }

  /** In a narrow window an icicle has fewer levels. */
  static spec(data, isNarrow) {
    return isNarrow && data[0]?.type === "icicle" ? [{ ...data[0], maxdepth: NARROW_LEVELS }] : data;
  }

  /** The outlines of the fields that are drawn, by their place in the answer. */
  shapes() {
    const ids = new Map(this.trace.ids.map((id, at) => [id, at]));
    return [...this.frame.box.querySelectorAll("g.slice")].flatMap((slice) => {
      const at = ids.get(slice.__data__?.data?.data?.id), path = slice.querySelector("path.surface");
      return at === undefined || !path ? [] : [[at, path]];
    });
  }

  /** After Plotly has placed the fields: words that fit, and the outlines over them. */
  async label() {
    const { trace, frame } = this, text = trace.ids.map(() => "");
    const parents = new Set(trace.parents);
    for (const [at, path] of this.shapes()) {
      const isHeader = trace.type === "treemap" && parents.has(trace.ids[at]);
      text[at] = fitted(this.answer.fields[at], path.getBBox(), isHeader);
    }
    // The strip above the children in a treemap has the label, whatever the template says.
    await frame.Plotly.restyle(frame.box, { text: [text], labels: [text], texttemplate: "%{text}" });
    if (this.at !== null && this.at >= trace.ids.length) this.at = null;
    this.outline();
  }

  /** The chosen field, and the one that has the cursor. */
  outline() {
    const { box } = this.frame;
    if (!box) return;
    box.querySelector(".fig-outlines")?.remove();
    const over = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    over.setAttribute("class", "fig-outlines");
    over.setAttribute("aria-hidden", "true");
    const chosen = this.trace.ids.indexOf(this.answer.chosen);
    for (const [at, path] of this.shapes()) {
      const kind = at === this.at ? "cursor" : at === chosen && at > 0 ? "chosen" : "";
      if (!kind) continue;
      const { x, y, width: wide, height } = path.getBBox(), rect = document.createElementNS(over.namespaceURI, "rect");
      for (const [name, value] of Object.entries({ class: kind, x: x + 1.5, y: y + 1.5, width: Math.max(wide - 3, 1), height: Math.max(height - 3, 1), rx: 2 })) rect.setAttribute(name, value);
      over.append(rect);
    }
    box.append(over);
  }

  /** The state that a field leads to, or the page of what is drawn together. */
  open(at) {
    const { url, query } = this.answer.fields[at];
    if (url) { location.assign(url); return; }
    if (query === null || `?${query}` === location.search || (!query && !location.search)) return;
    history.pushState({}, "", query ? `?${query}` : location.pathname);
    document.dispatchEvent(new CustomEvent("figure:state"));
  }

  /** by: +1 or −1 among siblings. */
  sibling(by) {
    const { parents } = this.trace, drawn = new Set(this.shapes().map(([at]) => at));
    const row = parents.flatMap((parent, at) => (parent === parents[this.at] && drawn.has(at) ? [at] : []));
    return row[row.indexOf(this.at) + by];
  }

  child() {
    const drawn = new Set(this.shapes().map(([at]) => at));
    return this.trace.parents.findIndex((parent, at) => parent === this.trace.ids[this.at] && drawn.has(at));
  }

  go(at) {
    if (at === undefined || at < 0) return;
    this.at = at;
    this.outline();
    announce(this.answer.fields[at].lines.join(". "));
  }

  key(event) {
    const { frame } = this;
    if (!frame.box || event.target !== frame.plot || event.ctrlKey || event.metaKey || event.altKey) return;
    const from = (move) => () => (this.at === null ? this.go(0) : move());
    const up = () => this.trace.ids.indexOf(this.trace.parents[this.at]);
    const act = {
      ArrowDown: from(() => this.go(this.sibling(1))), ArrowUp: from(() => this.go(this.sibling(-1))),
      ArrowRight: from(() => this.go(this.child())), ArrowLeft: from(() => this.go(up())),
      Home: () => this.go(0), Enter: () => this.at !== null && this.open(this.at),
      Backspace: () => this.up(), Escape: () => { this.at = null; this.outline(); },
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** One step back on the path. */
  up() {
    const way = [...this.frame.element.querySelectorAll(".fig-controls .path a")];
    way.at(-2)?.click();
  }
}
