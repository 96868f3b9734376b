// A share is drafted by pulling at the edge of a circle, or by + and − on it: a ring shows the target that it would have,
// and a mark where it would be on the axis at the end of the forecast. Nothing is changed before its form is sent.
// A finger pulls sideways: up and down it scrolls the page (touch-action of the plot), which ends what it began.
import { announce, filled } from "../shell.js";
import { node } from "./svg.js";

const NEAR = { touch: [10, 18] }, INSIDE_OUTSIDE = [5, 9];  // pixels at an edge: a finger covers more
const MOVED = 3, LEAST = 0.001, MOST = 0.95, STEP = 0.005;
const percent = (share) => `${(share * 100).toFixed(1)}\u00a0%`;

export class Draft {
  constructor(line, top) {
    this.line = line;
    this.top = top;  // pixels above the circles
    this.one = null;
    this.pull = null;  // {id, x, y, isMoved} while the pointer is down
    this.box = line.element.querySelector("[data-fair-draft]");
    this.ring = node("circle", { class: "fair-draft" });
    this.way = node("path", { class: "fair-way" });
    this.end = node("circle", { class: "fair-then", r: 5 });
    const { plot } = line;
    plot.addEventListener("pointerdown", (event) => this.begin(event), { capture: true });
    plot.addEventListener("pointermove", (event) => this.follow(event));
    plot.addEventListener("pointerup", (event) => this.release(event));
    plot.addEventListener("pointercancel", () => { this.pull = null; });
    this.box.querySelector("button").addEventListener("click", () => this.drop());
  }

  get isPulled() { return this.pull?.isMoved ?? false; }

  distance(one, event) {
    const { left, top } = this.line.plot.getBoundingClientRect();
    return Math.hypot(event.clientX - left - one.px, event.clientY - top - this.top - one.y);
  }

  /** The circle whose edge is there, of an entry whose shares the reader may change. */
  edgeAt(event) {
    const { line } = this;
    if (!line.isAtNow || line.motion) return null;
    const [inside, outside] = NEAR[event.pointerType] ?? INSIDE_OUTSIDE;
    const near = line.groups.filter((one) => {
      const away = one.links.shares && one.s[line.answer.now] !== "b" ? this.distance(one, event) - one.r : NaN;
      return away > -Math.min(inside, one.r / 2) && away < outside;
    });
    return near.sort((a, b) => Math.abs(this.distance(a, event) - a.r) - Math.abs(this.distance(b, event) - b.r))[0] ?? null;
  }

  begin(event) {
    if (!event.isPrimary || event.button !== 0) return;
    const one = this.edgeAt(event);
    if (!one) return;
    this.pull = { one, x: event.clientX, y: event.clientY, isMoved: false };
    event.preventDefault();  // an edge is no link that is dragged
  }

  follow(event) {
    if (!event.buttons) this.pull = null;  // released elsewhere
    const { pull, line } = this;
    if (!pull) { line.plot.classList.toggle("is-edge", this.edgeAt(event) !== null); return; }
    const dx = event.clientX - pull.x, dy = event.clientY - pull.y;
    if (!pull.isMoved && Math.hypot(dx, dy) < MOVED) return;
    if (!pull.isMoved && event.pointerType === "touch" && Math.abs(dy) >= Math.abs(dx)) { this.pull = null; return; }
    if (!pull.isMoved) line.plot.setPointerCapture(event.pointerId);  // not before: a click is the circle's
    pull.isMoved = true;
    this.show(pull.one, (this.distance(pull.one, event) / line.root) ** 2);
  }

  release({ target, shiftKey, ctrlKey, metaKey }) {
    const { pull } = this;
    this.pull = null;
    if (pull?.isMoved) announce(this.box.firstElementChild.textContent);
    else if (pull && !target.closest("[data-uid]")) pull.one.link.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, shiftKey, ctrlKey, metaKey }));
  }

  /** A step by keys. Shares are changed from now on, so the days go back to now. */
  step(one, by) {
    const { line } = this;
    if (!one.links.shares) return;
    if (!line.isAtNow) { line.halt(); line.place(line.answer.now); }
    const from = this.one === one ? this.target : one.size[line.answer.now] ** 2;
    this.show(one, from + by * STEP);
    announce(this.box.firstElementChild.textContent);
  }

  show(one, target) {
    const { line, ring, way, end } = this;
    this.one?.box.classList.remove("is-drafted");
    this.one = one;
    one.box.classList.add("is-drafted");
    this.target = Math.min(MOST, Math.max(LEAST, target));
    ring.setAttribute("r", Math.max(line.root * Math.sqrt(this.target), 2).toFixed(1));
    const place = this.placeAtEnd(one), dx = place === null ? 0 : line.pixels(place) - one.px;
    for (const mark of [way, end]) mark.setAttribute("visibility", place === null ? "hidden" : "visible");
    way.setAttribute("d", `M0 0H${dx.toFixed(1)}`);
    end.setAttribute("cx", dx.toFixed(1));
    one.box.append(ring, way, end);
    this.write(one, place);
  }

  /** log2(used ÷ target) of the last day of the forecast: usage doesn't follow shares. null where it isn't known. */
  placeAtEnd(one) {
    const { answer, n } = this.line, [low, high] = answer.ends, place = one.x[n - 1];
    if (n - 1 <= answer.now || place === null || place <= 0 || place >= 1) return null;
    const used = 2 ** (low + place * (high - low)) * one.size[n - 1] ** 2;
    return Math.min(1, Math.max(0, (Math.log2(used / this.target) - low) / (high - low)));
  }

  write(one, place) {
    const { texts, answer } = this.line, [low, high] = answer.ends, [words, link] = this.box.children;
    const times = place === null ? "" : texts.times.replace("N", (2 ** (low + place * (high - low))).toFixed(1));
    const form = place === null ? texts.drafted : texts.draftedThen;
    words.textContent = filled(form, { NAME: one.name, OLD: one.wanted[answer.now], NEW: percent(this.target), DAYS: this.line.n - 1 - answer.now, TIMES: times });
    link.href = `${one.links.shares}&shares=${encodeURIComponent(`${(this.target * 100).toFixed(1)}%`)}`;
    this.box.hidden = false;
  }

  drop() {
    if (!this.one) return;
    const hadFocus = this.box.contains(document.activeElement), { link } = this.one;
    this.one.box.classList.remove("is-drafted");
    this.one = this.pull = null;
    for (const mark of [this.ring, this.way, this.end]) mark.remove();
    this.box.hidden = true;
    if (hadFocus) link.focus();
  }
}
