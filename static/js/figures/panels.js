// Small multiples: one request for the panels of a section, one picture each. A picture is made when its panel comes
// near the window and removed again far off, so that a page of hundreds stays light.
import { plotly } from "./bundle.js";
import { retryButton, stateOf } from "./frame.js";
import { addKeys } from "./keys.js";
import { markLabels } from "./labels.js";
import { CONFIG, resolve, template } from "./theme.js";
import { inTurn } from "./turns.js";

const AHEAD = "400px", FAR = "2000px", MOST_ALIVE = 40;
const alive = new Set();
const waiting = new Set();  // near the window, while as many as may be are alive

const away = (panel) => Math.abs(panel.element.getBoundingClientRect().top - innerHeight / 2);

/** Removes the panel that is farthest from the middle of the window where `asking` would be one too many. */
function hasRoom(asking) {
  if (alive.size < MOST_ALIVE) return true;
  const far = [...alive].reduce((a, b) => (away(b) > away(a) ? b : a));
  if (away(far) <= away(asking)) return false;
  far.remove();
  if (far.isNear) waiting.add(far);
  return true;
}

function drawWaiting() {
  const [next] = waiting;
  if (next && (alive.size < MOST_ALIVE || [...alive].some((panel) => !panel.isNear))) next.draw();
}

class Panel {
  constructor(group, element) {
    this.group = group;
    this.element = element;
    this.plot = element.querySelector(".panel-plot");
    this.plot.tabIndex = 0;  // before it is drawn, so that Tab doesn't pass it by
    this.box = null;
    this.isNear = false;
    this.isThere = true;  // within the distance at which a picture is kept
    const watch = (margin, change) => new IntersectionObserver((entries) => change(entries.at(-1).isIntersecting), { rootMargin: margin }).observe(element);
    watch(AHEAD, (isNear) => {
      this.isNear = isNear;
      this.isThere ||= isNear;  // after a jump that is seen before the watch of the distance says so
      if (isNear) { this.draw(); return; }
      waiting.delete(this);
      drawWaiting();
    });
    watch("0px", (isSeen) => { if (isSeen && !this.box) this.draw(); });  // it may wait for those that were passed
    watch(FAR, (isThere) => { this.isThere = isThere; if (!isThere) this.remove(); });
  }

  get answer() {
    return this.group.answer?.panels.find((one) => one.uid === this.element.dataset.uid);
  }

  async draw() {
    if (!this.answer || !(this.isNear || this.box)) return;
    const Plotly = await plotly().catch(() => null);
    if (Plotly) await inTurn(this.element, () => this.drawWith(Plotly));
    else this.fail();
  }

  async drawWith(Plotly) {
    const { answer, plot } = this;
    if (!answer || !plot.clientWidth || !(this.isNear || this.box)) return;  // it may have been passed by meanwhile
    this.Plotly = Plotly;
    const width = plot.clientWidth, height = plot.clientHeight, layout = resolve(answer.layout);
    const isFirst = !this.box;
    if (isFirst) {
      if (!hasRoom(this)) { waiting.add(this); return; }
      waiting.delete(this);
      this.box = Object.assign(document.createElement("div"), { className: "fig-live" });
      plot.append(this.box);
      alive.add(this);
    }
    const { shapes, annotations } = markLabels(answer.marks, layout.xaxis.range, width - layout.margin.l - layout.margin.r, "");
    await Plotly.react(this.box, resolve(answer.data), { ...layout, width, height, template: template(), shapes, annotations }, CONFIG);
    if (!this.isThere) { this.remove(); return; }
    for (const svg of this.box?.querySelectorAll(".main-svg") ?? []) svg.setAttribute("aria-hidden", "true");
    if (isFirst && this.box) this.handOver();
    this.element.dataset.drawn = this.group.tag;
  }

  /** The heading is of the same point as the end of the line. */
  writeHeading({ heading }) {
    const card = this.element.closest("article, section");
    for (const part of card.querySelectorAll("[data-heading]")) part.textContent = heading[part.dataset.heading];
    const balance = card.querySelector(".bal");
    if (!balance) return;
    balance.dataset.state = heading.shape;
    balance.className = ["over", "under"].includes(heading.shape) ? `bal ${heading.shape}` : "bal";
    const mark = balance.querySelector("use"), icon = heading.shape === "nodata" ? "idle" : heading.shape;
    mark.setAttribute("href", mark.getAttribute("href").replace(/#.*/, `#${icon}`));
    balance.lastChild.textContent = `${heading.amount} ${heading.word}`.trim();
  }

  handOver() {
    const { plot, box } = this;
    for (const old of plot.querySelectorAll(".fig-wait, .fig-state")) old.remove();
    box.classList.add("is-shown");
    plot.classList.add("is-live");
    if (!plot.dataset.keys) addKeys(this);
    plot.dataset.keys = "true";
    box.on("plotly_click", ({ points }) => this.openMoment(points[0].x));
    box.on("plotly_clickannotation", ({ annotation }) => annotation.name && location.assign(annotation.name));
  }

  showRange(range) {
    return this.Plotly.relayout(this.box, { "xaxis.range": range });
  }

  showAll() {}

  openMoment(at) {
    const url = this.group.answer?.moment_url;
    if (url) location.assign(url.replace("{at}", encodeURIComponent(at)));
  }

  /** Without numbers or Plotly; a picture that is there stays. */
  fail() {
    if (this.box) return;
    const { failed, retry } = this.group.element.dataset;
    this.plot.replaceChildren(stateOf(failed, retryButton(retry, () => this.group.load())));
  }

  remove() {
    if (!this.box) return;
    this.Plotly.purge(this.box);
    this.box.remove();
    this.box = null;
    this.plot.classList.remove("is-live");
    this.plot.append(Object.assign(document.createElement("span"), { className: "fig-wait" }));
    alive.delete(this);
    delete this.element.dataset.drawn;
    drawWaiting();
  }
}

/** A section of panels with the address of their numbers; to the page it is one figure. */
export class Panels {
  constructor(element) {
    this.element = element;
    this.answer = null;
    this.tag = null;
    this.panels = [...element.querySelectorAll("[data-panel][data-uid]")].map((one) => new Panel(this, one));
  }

  get source() {
    const [path, own] = this.element.dataset.src.split("?");
    const query = new URLSearchParams(location.search);
    for (const [name, value] of new URLSearchParams(own ?? "")) query.set(name, value);
    return query.size ? `${path}?${query}` : path;
  }

  async load() {
    const response = await fetch(this.source, { headers: { Accept: "application/json", ...(this.tag && { "If-None-Match": this.tag }) } }).catch(() => null);
    if (response?.status === 304) {
      await Promise.all(this.panels.map((panel) => panel.box || panel.draw()));  // Plotly was missing for them
      return false;
    }
    const answer = response?.ok ? await response.json().catch(() => null) : null;
    if (!answer?.panels) {
      for (const panel of this.panels) panel.fail();
      return false;
    }
    this.tag = response.headers.get("ETag");
    this.answer = answer;
    for (const panel of this.panels) if (panel.answer) panel.writeHeading(panel.answer);
    for (const words of document.querySelectorAll("[data-newest]")) words.textContent = answer.newest;
    await this.draw();
    return true;
  }

  draw() {
    return Promise.all(this.panels.map((panel) => panel.draw()));
  }

  resized() {
    for (const panel of this.panels) if (panel.box && panel.plot.clientWidth !== panel.box._fullLayout?.width) panel.draw();
  }

  remove() {
    for (const panel of this.panels) panel.remove();
  }

  fresh() {}

  stale() {}
}
