// Small pictures, which the server draws: one request for those of a section. A picture is in the page while it is near
// the window and taken out of it far off, where its height stays, so that a page of hundreds stays light.
import { join, leave, show } from "./cursor.js";
import { place } from "./over_time.js";

const AHEAD = "400px";

class Panel {
  constructor(group, element) {
    this.group = group;
    this.element = element;
    this.plot = element.querySelector("[data-plot]");
    this.svg = this.plot.innerHTML;
    this.isNear = true;
    this.watch = new IntersectionObserver((entries) => this.near(entries.at(-1).isIntersecting), { rootMargin: AHEAD });
    this.watch.observe(element);
  }

  near(isNear) {
    if (this.isNear === isNear) return;
    this.isNear = isNear;
    if (isNear) { this.fill(); show(this.group); } else this.plot.replaceChildren();
  }

  fill() {
    this.plot.innerHTML = this.svg;
  }

  /** The head is of the same point as the end of the line. */
  write(answer) {
    this.answer = answer;
    if (this.svg !== answer.svg) {
      this.svg = answer.svg;
      if (this.isNear) this.fill();
    }
    this.writeBalance([answer.heading.shape, answer.heading.amount, answer.heading.word]);
  }

  writeBalance([shape, amount, word]) {
    const balance = this.element.querySelector(".bal");
    if (!balance) return;
    balance.dataset.state = shape;
    balance.className = ["over", "under"].includes(shape) ? `bal ${shape}` : "bal";
    const mark = balance.querySelector("use"), icon = shape === "nodata" ? "idle" : shape;
    mark.setAttribute("href", mark.getAttribute("href").replace(/#.*/, `#${icon}`));
    balance.lastChild.textContent = `${amount} ${word}`.trim();
  }

  showStop(index, isCursor, { at, labels, now }) {
    const line = this.plot.querySelector(".cross");
    if (line) place(line, isCursor ? at[index] : null);
    const used = this.element.querySelector("[data-used]"), target = this.element.querySelector("[data-target]");
    const { words } = this.group, value = document.createElement("b");
    const isNow = index === now, { heading } = this.answer;
    this.writeBalance(isNow ? [heading.shape, heading.amount, heading.word] : this.answer.balances[index] ?? ["nodata", "", ""]);
    value.textContent = isNow ? heading.used : this.answer.used[index] ?? "";
    used.replaceChildren(`${isNow ? words.used : labels[index].replace(/^\S+ /, "")} `, value);
    target.textContent = `${words.target} ${this.answer.target[index] ?? ""}`;
  }

  gone() {
    this.watch.disconnect();
  }
}

/** A section of panels with the address of their numbers; to the page it is one figure. */
export class Panels {
  constructor(element) {
    this.element = element;
    this.answer = null;
    this.tag = null;
    this.axis = null;
    this.words = element.dataset;
    this.panels = [...element.querySelectorAll("[data-panel]")].map((one) => new Panel(this, one));
    join(this);
  }

  get source() {
    const [path, own] = this.element.dataset.src.split("?");
    const query = new URLSearchParams(location.search);
    for (const [name, value] of new URLSearchParams(own ?? "")) query.set(name, value);
    return query.size ? `${path}?${query}` : path;
  }

  /** What is shown stays where the server doesn't answer: the page says so beside the figure. */
  async load() {
    const response = await fetch(this.source, { headers: { Accept: "application/json", ...(this.tag && { "If-None-Match": this.tag }) } }).catch(() => null);
    const answer = response?.ok ? await response.json().catch(() => null) : null;
    if (!answer?.panels) return false;
    this.tag = response.headers.get("ETag");
    this.answer = answer;
    this.axis = answer.axis;
    for (const panel of this.panels) {
      const own = answer.panels.find((one) => one.uid === panel.element.dataset.uid);
      if (own) panel.write(own);
    }
    const scale = this.element.closest("section")?.querySelector("[data-scale]");
    if (scale && answer.scale) scale.textContent = answer.scale;
    this.element.dataset.drawn = location.search;
    show(this);
    return true;
  }

  showStop(index, isCursor) {
    for (const panel of this.panels) if (panel.answer) panel.showStop(index, isCursor, this.axis);
  }

  draw() {}

  resized() {}

  remove() {}

  gone() {
    leave(this);
    for (const panel of this.panels) panel.gone();
  }

  fresh() {}

  stale() {}
}
