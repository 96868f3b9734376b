// A figure on a page: Plotly draws it into the height that is reserved for it; a control changes the page's address
// and fetches the numbers of the new state. What is shown is always the answer of `data-src` for the page's query.
import { announce } from "../shell.js";
import { plotly } from "./bundle.js";
import { renderControls } from "./controls.js";
import { addDownload } from "./download.js";
import { addKeys } from "./keys.js";
import { endLabels, markLabels } from "./labels.js";
import { CONFIG, resolve, template } from "./theme.js";
import { inTurn } from "./turns.js";
import { addWheel, fitted, moved, rangeOf, seen } from "./zoom.js";

const NARROW = 440, MARKS_TOP = 26;

export class Frame {
  static needsPlotly = true;

  constructor(element) {
    this.element = element;
    this.plot = element.querySelector(".fig-plot");
    this.words = element.closest("[data-figure-words]")?.dataset ?? {};
    this.drawing = null;
    this.answer = null;
    this.query = "";  // of the page, to which the answer belongs
    this.tag = null;
    this.box = null;
    this.width = 0;
    this.served = location.search;  // what the controls of the page were made for
    this.chosen = null;  // the stretch of x that somebody zoomed to
    this.laidOut = "";  // the stretch of x for which labels and y were laid out last
    this.more = element.querySelector(".fig-more");
    this.served = this.takeTable();
    this.more?.addEventListener("toggle", () => this.writeTable());
    this.plot.tabIndex = 0;  // before it is drawn, so that Tab doesn't pass it by
    element.addEventListener("click", (event) => this.clicked(event));
  }

  /** The address of the numbers for what the page shows now. */
  get source() {
    const [path, own] = this.element.dataset.src.split("?");
    const query = new URLSearchParams(location.search);
    for (const [name, value] of new URLSearchParams(own ?? "")) query.set(name, value);
    return query.size ? `${path}?${query}` : path;
  }

  /** Fetches (a conditional request once there are numbers) and draws. A refusal is shown in the picture's place. */
  async load({ quiet = false } = {}) {
    const wanted = this.source, query = location.search;
    let response;
    try {
      response = await fetch(wanted, { headers: { Accept: "application/json", ...(this.tag && { "If-None-Match": this.tag }) } });
    } catch {
      this.unreachable();
      return false;
    }
    if (wanted !== this.source) return false;
    if (response.status === 304) { this.fresh(); return false; }
    const answer = await response.json().catch(() => null);
    if (!response.ok || !answer) { this.refuse(answer); return false; }
    this.tag = response.headers.get("ETag");
    this.chosen = this.chosen?.source === wanted ? moved(this.chosen, this.answer, answer) : null;
    const hasControls = !this.answer && query === this.served;
    this.answer = answer;
    this.query = query;
    this.fresh();
    this.write();
    if (!hasControls) renderControls(this.element.querySelector(".fig-controls"), answer.controls);
    await this.draw();
    if (!quiet) announce(answer.sentence);
    return true;
  }

  /** Title, sentence, table and links of the answer. */
  write() {
    const { answer, element } = this;
    element.querySelector(".fig-title").textContent = answer.title;
    const say = element.querySelector(".fig-say");
    for (const [place, text] of [[element.querySelector(".fig-note"), answer.note], [say, answer.sentence]]) {
      if (place.textContent !== text) place.textContent = text;  // a word of it may be a button that explains it
    }
    say.hidden = answer.empty === answer.sentence;  // it is in the picture's place
    this.plot.setAttribute("aria-label", answer.sentence);
    element.toggleAttribute("data-bare", !answer.table.rows.length);
    const csv = element.querySelector("[data-figure-csv]");
    if (csv) {
      const [path, query] = this.source.split("?");
      csv.href = query ? `${path}.csv?${query}` : `${path}.csv`;
    }
    writeLegend(element.querySelector(".fig-legend"), answer.legend, "box");
    writeLegend(element.querySelector(".fig-series"), answer.series, "sw");
    this.writeTable();
  }

  /** What the server wrote for browsers without scripts. */
  takeTable() {
    const unread = this.more?.querySelector("noscript"), html = unread?.innerHTML ?? "";
    unread?.remove();
    return html;
  }

  /** A closed table has no rows: they are as many nodes as all the rest of a page. */
  writeTable() {
    const place = this.more?.querySelector(".fig-table");
    if (!place) return;
    const hadFocus = place.contains(document.activeElement);
    if (!this.more.open) place.replaceChildren();
    else if (this.answer) place.replaceChildren(tableOf(this.answer.table));
    else place.innerHTML = this.served;
    if (hadFocus) place.querySelector("a")?.focus();
  }

  async draw() {
    if (this.answer.empty) { this.message(this.answer.empty); return; }
    let Plotly;
    try {
      Plotly = await plotly();
    } catch {
      this.tag = null;  // so that the next answer is drawn
      this.unreachable();
      return;
    }
    this.Plotly = Plotly;
    if (this.box) await this.drawNow();
    else await inTurn(this.element, () => this.drawNow());
  }

  async drawNow() {
    const { Plotly } = this;
    if (this.answer.empty || this.element.dataset.state === "error") return;  // a newer answer came meanwhile
    const first = !this.box;
    if (first) this.addBox();
    this.width = this.plot.clientWidth;
    const { data, layout } = this.spec();
    this.laidOut = "";
    await Plotly.react(this.box, data, layout, CONFIG);
    for (const svg of this.box.querySelectorAll(".main-svg")) svg.setAttribute("aria-hidden", "true");
    if (first) this.handOver();
    this.shown();
  }

  addBox() {
    this.box = Object.assign(document.createElement("div"), { className: "fig-live" });
    this.plot.append(this.box);
  }

  /** What is drawn, for styles and tests: the page's query and the tag of the numbers. */
  shown() {
    this.element.dataset.drawn = this.query;
    this.element.dataset.tag = this.tag ?? "";
  }

  spec() {
    const { answer, width } = this, isNarrow = width < NARROW;
    const layout = resolve(answer.layout);
    const few = isNarrow ? answer.narrow : null;  // what a narrow picture shows of it
    if (few) { layout.xaxis.range = few.range ?? layout.xaxis.range; layout.yaxis.ticktext = few.ticktext; }
    this.element.querySelector(".fig-note").textContent = few?.note ?? answer.note;
    const margin = { ...layout.margin, ...(isNarrow && { l: Math.min(layout.margin?.l ?? 0, 96), ...(answer.labels.length && { r: 12 }) }) };
    const xaxis = { ...layout.xaxis, ...(isNarrow && { nticks: Math.min(layout.xaxis.nticks ?? 4, 4) }), ...(this.chosen && { range: this.chosen.range.slice() }) };
    const yaxis = { ...layout.yaxis, ...(this.chosen && answer.fits && fitted(answer, this.chosen.range)) };
    const height = this.plot.clientHeight;
    this.inner = { top: margin.t, width: width - margin.l - margin.r, height: height - margin.t - margin.b };
    return {
      data: resolve(answer.data),
      layout: {
        uirevision: this.source, ...layout, margin, width, height, template: template(), xaxis, yaxis,
        ...this.labels(xaxis.range, yaxis.range),
      },
    };
  }

  /** Labels at the ends and rules, within the margins. */
  labels(x, y) {
    const { answer, words } = this, { top, width, height } = this.inner;
    const ends = this.width < NARROW || !answer.labels.length ? { annotations: [], shapes: [] } : endLabels(answer.labels, { top, height }, y);
    const named = top >= MARKS_TOP ? answer.marks : answer.marks.map((one) => ({ ...one, label: "" }));
    const marks = markLabels(named, x, width, words.hint), own = resolve(answer.layout);
    return {
      annotations: [...(own.annotations ?? []), ...ends.annotations, ...marks.annotations],
      shapes: [...(own.shapes ?? []), ...ends.shapes, ...marks.shapes],
    };
  }

  /** In one frame, without a fade. */
  handOver() {
    const hadFocus = this.plot.querySelector(".fig-state :focus");
    for (const old of this.plot.querySelectorAll("svg.course, .fig-wait, .fig-state")) old.remove();
    if (hadFocus) this.plot.focus({ preventScroll: true });
    this.box.classList.add("is-shown");
    addDownload(this);
    this.listen();
    this.element.dispatchEvent(new CustomEvent("figure:ready", { bubbles: true, detail: this }));
  }

  /** To what Plotly reports of the picture that it has drawn first. */
  listen() {
    addKeys(this);
    // A click alone never leaves the page.
    this.box.on("plotly_clickannotation", ({ annotation, event }) => event.shiftKey && annotation.name && location.assign(annotation.name));
    this.box.on("plotly_click", ({ points, event }) => event.shiftKey && this.openMoment(points[0].x));
    this.box.on("plotly_relayout", (change) => {
      if (Object.keys(change).some((key) => key.startsWith("xaxis."))) this.zoomed();
    });
    this.box.on("plotly_doubleclick", () => this.showAll());
    if (this.answer.layout.xaxis?.range) addWheel(this);
  }

  /** The picture for a file, of this size. */
  toSvg(width, height) {
    const { data, layout } = this.box;
    return this.Plotly.toImage({ data, layout: structuredClone(layout), config: CONFIG }, { format: "svg", width, height, imageDataOnly: true });
  }

  /** x is moved by wheel and keys: one drawing with all that follows it. */
  showRange(range) {
    this.laidOut = seen(range);
    const following = this.answer.layout.xaxis?.range ? this.following(range) : {};
    return this.Plotly.relayout(this.box, { "xaxis.range": range, ...following });
  }

  /** x was zoomed or moved by Plotly itself. */
  async zoomed() {
    const range = rangeOf(this.box);
    if (!this.answer.layout.xaxis?.range || seen(range) === this.laidOut) return;
    this.laidOut = seen(range);
    const following = this.following(range);
    if (Object.keys(following).length) await this.Plotly.relayout(this.box, following);
  }

  /** y, rules and labels for a range of x. */
  following(range) {
    const { answer, box } = this, isAll = seen(range) === seen(answer.layout.xaxis.range);
    this.chosen = isAll ? null : { source: this.source, range };
    if (!answer.fits) return answer.marks.length ? this.labels(range, box._fullLayout.yaxis.range) : {};
    const { tickvals, ticktext, range: y } = isAll ? answer.layout.yaxis : fitted(answer, range);
    return { "yaxis.range": y.slice(), "yaxis.tickvals": tickvals, "yaxis.ticktext": ticktext, ...this.labels(range, y) };
  }

  showAll() {
    const { xaxis } = this.answer.layout;
    if (xaxis?.range) this.showRange(xaxis.range.slice());
  }

  openMoment(at) {
    if (this.answer.moment_url) location.assign(this.answer.moment_url.replace("%7Bat%7D", encodeURIComponent(at)).replace("{at}", encodeURIComponent(at)));
  }

  /** A control was used: the page's address is the state, so that Back undoes it and the address can be shared. */
  clicked(event) {
    const link = event.target.closest("a[data-choice]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (event.detail > 1) return;
    history.pushState({}, "", link.search || location.pathname);
    document.dispatchEvent(new CustomEvent("figure:state"));
  }

  message(text, action = null) {
    const state = stateOf(text, action);
    this.remove();
    this.plot.replaceChildren(state);
    this.shown();
  }

  refuse(problem) {
    this.query = location.search;
    this.element.dataset.state = "error";
    if (!problem?.detail) { this.fail(); return; }
    this.message(problem.detail, Object.assign(document.createElement("a"), { href: location.pathname, textContent: this.words.reset }));
    announce(problem.detail);
  }

  /** Neither numbers nor Plotly came: a picture stays and is old; without one its table is opened. */
  unreachable() {
    if (this.box) this.stale(); else this.fail();
  }

  fail() {
    this.element.dataset.state = "error";
    this.message(this.words.failed, retryButton(this.words.retry, () => this.load()));
    if (this.more && !this.element.matches("[data-bare]")) this.more.open = true;
    announce(this.words.failed);
  }

  stale() {
    this.element.dataset.state = "stale";
    const foot = this.element.querySelector(".fig-foot");
    if (foot) { foot.hidden = false; foot.textContent = this.words.stale ?? ""; }
  }

  fresh() {
    delete this.element.dataset.state;
    const foot = this.element.querySelector(".fig-foot");
    if (foot) foot.hidden = true;
  }

  /** Before the element leaves the page: Plotly holds listeners. */
  remove() {
    if (this.box) { this.Plotly?.purge(this.box); this.box.remove(); this.box = null; }
  }

  resized() {
    if (this.box && this.plot.clientWidth && this.plot.clientWidth !== this.width) this.draw();
  }
}

/** What is in the picture's place, with a link or a button. */
export function stateOf(text, action) {
  const state = Object.assign(document.createElement("p"), { className: "fig-state" });
  state.append(text);
  if (action) state.append(" ", action);
  return state;
}

export function retryButton(words, retry) {
  const button = Object.assign(document.createElement("button"), { type: "button", className: "btn sm", textContent: words });
  button.addEventListener("click", retry);
  return button;
}

function writeLegend(list, swatches, kind) {
  list?.replaceChildren(...swatches.map(({ color, text, is_hatched, is_outlined, is_dot }) => {
    const item = document.createElement("li"), sample = document.createElement("i");
    sample.className = [kind, `s-${color.slice(1)}`, is_hatched && "hatched", is_outlined && "outlined", is_dot && "dot"].filter(Boolean).join(" ");
    item.append(sample, text);
    return item;
  }));
}

function rowLink(text, query) {
  const link = Object.assign(document.createElement("a"), { href: `?${query}`, textContent: text });
  link.dataset.choice = "row";
  return link;
}

function tableOf({ columns, rows, queries }) {
  const table = document.createElement("table"), body = document.createElement("tbody");
  for (const [number, row] of rows.entries()) {
    const line = body.insertRow();
    row.forEach((text, at) => {
      const cell = at ? line.insertCell() : line.appendChild(Object.assign(document.createElement("th"), { scope: "row" }));
      if (!at && queries.length) cell.append(rowLink(text, queries[number]));
      else cell.textContent = text;
      if (columns[at].is_number) cell.className = "num";
    });
  }
  const head = document.createElement("thead"), line = head.insertRow();
  for (const column of columns) {
    const cell = Object.assign(document.createElement("th"), { scope: "col", textContent: column.title });
    if (column.is_number) cell.className = "num";
    line.append(cell);
  }
  table.append(head, body);
  return table;
}
