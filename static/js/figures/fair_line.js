// The fair line: the circles that the server drew move along their axis as days pass, and fetch nothing while they do.
// Heights are the server's, so nothing jumps; words beside a circle are shown where they have room on that day.
import { announce, filled } from "../shell.js";
import { Draft } from "./fair_draft.js";
import { Frame } from "./frame.js";
import { addDownload } from "./download.js";
import { go } from "./page_state.js";
import { FONT, node, styled, widthOf } from "./svg.js";

const NARROW = 560, TOP = 22, BESIDE = 8, HALF_LINE = 9, FACTOR_FROM = 18, LEAST_RADIUS = 3, MOST_WORDS = 24, APART = 4;
const WHOLE_PLAY_S = 14, LEAST_STEPS_A_S = 4, GLIDE_MS = 160, LIVE_MS = 700, TAIL = 10, MANY = 80;
const KINDS = { o: "over", u: "under", n: "on", i: "idle", x: "unknown", b: "before" };
const isStill = matchMedia("(prefers-reduced-motion: reduce)");
const ease = (part) => 1 - (1 - part) ** 3;

/** Values of runs [[first, value], …] at each of n stops. */
function spread(runs, n) {
  const all = new Array(n);
  runs.forEach(([first, value], at) => all.fill(value, first, runs[at + 1]?.[0] ?? n));
  return all;
}

/** Places without holes: where nothing is known a circle stays, and is drawn so. */
function held(places) {
  let last = places.find((place) => place !== null) ?? 0.5;
  return Float64Array.from(places, (place) => (last = place ?? last));
}

export class FairLine extends Frame {
  static needsPlotly = false;

  constructor(element) {
    super(element);
    this.plot.removeAttribute("tabindex");  // its links take the focus
    this.svg = this.plot.querySelector("svg.fair");
    this.slider = element.querySelector("[data-fair-time] input");
    this.playButton = element.querySelector("[data-fair-play]");
    this.day = element.querySelector(".fair-day");
    this.groups = [];
    this.t = null;  // the stop that is shown, with its fraction
    this.stop = null;  // the whole one whose words are shown
    this.drawnNow = null;
    this.motion = null;  // what moves: {frame(now)} until it returns false
    this.tip = Object.assign(document.createElement("div"), { className: "fig-tip", hidden: true, ariaHidden: "true" });
    if (!this.svg) return;
    isStill.addEventListener("change", () => this.heedMotion());
    this.heedMotion();
    this.plot.append(this.tip);
    this.draft = element.querySelector("[data-fair-draft]") ? new Draft(this, TOP) : null;
    this.slider.addEventListener("input", () => this.glide(Number(this.slider.value)));
    this.playButton.addEventListener("click", () => this.toggle());
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.plot.addEventListener("click", (event) => this.clickWords(event));
    this.plot.addEventListener("dblclick", (event) => this.enter(this.groupOf(event.target) ?? this.draft?.edgeAt(event)));
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.plot.addEventListener("focusin", ({ target }) => this.focused(target));
  }

  get isAtNow() { return this.t === this.answer?.now; }
  get n() { return this.answer.labels.length; }
  get isPlaying() { return this.motion?.isPlay ?? false; }

  /** New numbers while now is shown: circles go to their new places. What is playing goes on. */
  async draw() {
    this.draft?.drop();
    if (this.answer.empty || !this.svg) { if (this.answer.empty) this.message(this.answer.empty); return; }
    const isFirst = !this.box, isNow = this.t === null || (!this.motion && this.t === this.drawnNow);
    const from = isNow && !isFirst ? this.here() : null;
    this.box = this.svg;
    this.width = this.plot.clientWidth;
    this.room = this.width < NARROW ? 1 : 0;
    this.root = this.answer.rooms[this.room].root;
    this.take();
    this.prepareTime();
    this.drawnNow = this.answer.now;
    this.t = isNow ? this.answer.now : Math.min(this.t, this.n - 1);
    this.stop = null;
    this.place(this.t);
    if (from && !isStill.matches && !document.hidden) this.live(from);
    if (isFirst) {
      this.svg.classList.add("is-live");
      if (this.element.querySelector(".fig-menu")) addDownload(this);
      this.element.dispatchEvent(new CustomEvent("figure:ready", { bubbles: true, detail: this }));
    }
    this.shown();
  }

  /** Nodes of the groups: those that are there are kept, with the focus. */
  take() {
    const list = this.svg.querySelector("[role=list]"), there = new Map();
    for (const one of list.children) there.set(one.dataset.uid, one);
    this.groups = this.answer.groups.map((group) => {
      const box = there.get(group.uid) ?? made(group);
      there.delete(group.uid);
      const [link, times, words] = box.children, [tail, circle] = link.children;
      link.setAttribute("href", group.links.select);
      box.setAttribute("y", TOP + group.y[this.room]);
      const target = spread(group.t, this.n);
      const one = { ...group, box, link, tail, circle, times, words, place: held(group.x), size: Float64Array.from(target, Math.sqrt), wanted: spread(group.target, this.n), r: -1, width: 0 };
      one.y = group.y[this.room];
      one.short = shortOf(group.name, this.answer.rooms[this.room].letters);
      return one;
    });
    for (const gone of there.values()) gone.remove();
    list.append(...this.groups.map(({ box }) => box).filter((box) => box.parentNode !== list));
  }

  /** Who asked for less motion chooses days, and nothing plays. */
  heedMotion() {
    this.playButton.hidden = isStill.matches;
    if (isStill.matches) this.halt();
  }

  prepareTime() {
    const { slider, answer } = this, marks = this.element.querySelector(".fair-marks");
    slider.max = String(this.n - 1);
    slider.disabled = this.n < 2;
    this.playButton.disabled = this.n < 2;
    marks.replaceChildren(...answer.marks.flatMap(({ part, text }) => {
      const x = `${(part * 100).toFixed(2)}%`;
      return [node("line", { x1: x, x2: x, y1: 0, y2: 5 }), node("text", { x, y: 16, "text-anchor": part > 0.9 ? "end" : "middle" }, text)];
    }));
    const rest = this.element.querySelector("[data-fair-rest]");
    if (!rest) return;  // the small one
    rest.hidden = !answer.rest;
    if (answer.rest) rest.textContent = answer.rest.words;
  }

  // --- One moment

  pixels(place) {
    const { pad } = this.answer;
    return (pad + place * (1 - 2 * pad)) * this.width;
  }

  at(values, t) {
    const i = Math.floor(t), part = t - i;
    return part ? values[i] + (values[i + 1] - values[i]) * part : values[i];
  }

  radius(one, t) {
    return Math.max(this.root * this.at(one.size, t), LEAST_RADIUS);
  }

  here() {
    return new Map(this.groups.map((one) => [one.uid, this.at(one.place, this.t)]));
  }

  /** Everything at a stop. from: places from which circles come, with the part of the way that they have gone. */
  place(t, from = null, part = 1) {
    const stop = Math.round(t), isNew = stop !== this.stop;
    this.t = t;
    const isMany = this.groups.length > MANY, step = isMany ? 2 : 1;
    for (const one of this.groups) {
      const goal = this.at(one.place, t), start = from?.get(one.uid) ?? goal;
      one.px = this.pixels(start + (goal - start) * part);
      const x = isMany ? String(Math.round(one.px * 2) / 2) : one.px.toFixed(1);
      if (one.atX !== x) { one.box.setAttribute("x", x); one.atX = x; }
      const r = this.radius(one, t);
      if (Math.abs(r - one.r) > 0.05) { one.r = r; one.circle.setAttribute("r", r.toFixed(1)); }
      const d = isMany && one.kind === "on" ? "" : this.tail(one, t, r, step);  // of many only those off have a tail
      if (one.d !== d) { one.tail.setAttribute("d", d); one.d = d; }
    }
    if (this.answer.rest) this.drawRest(stop);
    if (isNew) this.writeStop(stop);
  }

  /** A shape from the circle to where it was, thinner the longer ago. */
  tail(one, t, r, step) {
    let up = "", down = "", least = one.px, most = one.px;
    for (let k = step; k <= TAIL; k += step) {
      const then = t - k;
      if (then < 0 || one.x[Math.floor(then)] === null) break;
      const px = this.pixels(this.at(one.place, then)), half = r * (1 - k / (TAIL + 1));
      least = Math.min(least, px);
      most = Math.max(most, px);
      const x = (px - one.px).toFixed(1);
      up += `L${x} ${(-half).toFixed(1)}`;
      down = `L${x} ${half.toFixed(1)}${down}`;
    }
    return most - least < 1.5 ? "" : `M0 ${(-r).toFixed(1)}${up}${down}L0 ${r.toFixed(1)}Z`;
  }

  drawRest(stop) {
    const bins = this.answer.rest.bins[stop], { height } = this.answer.rooms[this.room];
    this.rest ??= this.svg.querySelector(".fair-axis").appendChild(node("path", { class: "fair-rest" }));
    const bottom = TOP + height, tall = height * 0.3, n = bins.length;
    const points = bins.map((part, at) => `L${this.pixels((at + 0.5) / n).toFixed(1)} ${(bottom - part * tall).toFixed(1)}`);
    this.rest.setAttribute("d", `M${this.pixels(0).toFixed(1)} ${bottom}${points.join("")}L${this.pixels(1).toFixed(1)} ${bottom}Z`);
  }

  /** Heading, colours and words of a whole stop. */
  writeStop(stop) {
    const { answer, slider, element } = this, isAhead = stop > answer.now;
    this.stop = stop;
    element.querySelector(".fig-title").textContent = answer.headings[stop];
    element.querySelector(".fig-say").textContent = answer.details[stop];
    element.querySelector(".fig-note").textContent = answer.labels[stop];
    this.day.textContent = answer.labels[stop];
    if (this.isPlaying || !this.motion) slider.value = String(stop);  // else it is where somebody moves it to
    if (!this.motion) this.speakDay(stop);
    this.svg.classList.toggle("is-ahead", isAhead);
    this.svg.classList.toggle("is-many", this.groups.length > MANY);
    for (const one of this.groups) {
      const kind = KINDS[one.s[stop]];
      if (one.kind !== kind) { one.box.setAttribute("class", `fair-group ${kind}${one.box.classList.contains("is-selected") ? " is-selected" : ""}`); one.kind = kind; }
    }
    this.writeWords(stop);
    if (!this.isPlaying) this.speak(stop);
  }

  speakDay(stop) {
    const { answer, slider } = this;
    slider.setAttribute("aria-valuetext", `${answer.labels[stop]}. ${answer.headings[stop]}. ${answer.details[stop]}`);
  }

  /** Those furthest off first, where they cover nothing. */
  writeWords(stop) {
    const off = this.groups.filter(({ s }) => "oui".includes(s[stop])).sort((a, b) => this.away(b, stop) - this.away(a, stop));
    const taken = [], chosen = new Set(off.slice(0, MOST_WORDS));
    for (const one of this.groups) {
      const isOff = chosen.has(one), text = isOff ? this.wordsOf(one, stop) : "";
      const factor = isOff && one.s[stop] !== "i" && one.r >= FACTOR_FROM ? this.factor(one, stop) : "";
      if (one.times.textContent !== factor) one.times.textContent = factor;
      if (!isOff && one.words.firstChild) { one.words.replaceChildren(); one.said = ""; }
      one.next = text;
    }
    for (const one of chosen) {
      const place = this.roomFor(one, stop, taken);
      if (!place) { one.words.replaceChildren(); one.said = ""; continue; }
      taken.push(place);
      if (one.said !== place.text) {
        one.words.replaceChildren(node("tspan", { class: "nm" }, one.short), place.text.slice(one.short.length));
        one.said = place.text;
      }
      one.words.setAttribute("x", (place.isLeft ? -1 : 1) * (one.r + BESIDE));
      one.words.setAttribute("text-anchor", place.isLeft ? "end" : "start");
    }
  }

  /** Points off target, for the order; what asks for nothing comes last. */
  away({ place, size, s }, stop) {
    const [low, high] = this.answer.ends;
    if (s[stop] === "i") return 0;
    return Math.abs(2 ** (low + place[stop] * (high - low)) - 1) * size[stop] ** 2;
  }

  wordsOf(one, stop) {
    if (one.s[stop] === "i") return this.texts.idle;
    return this.texts.of.replace("USED", one.used[stop].replace(/\u00a0%$/, "")).replace("TARGET", one.wanted[stop]);
  }

  get texts() { return this.element.dataset; }

  factor(one, stop) {
    const [low, high] = this.answer.ends, place = one.place[stop];
    return place <= 0 || place >= 1 ? "" : this.texts.times.replace("N", (2 ** (low + place * (high - low))).toFixed(1));
  }

  /** Beside the circle, outwards if possible; where shares have no room, the name alone. */
  roomFor(one, stop, taken) {
    const outwards = one.place[stop] > 0.2 && one.place[stop] < 0.5 ? [true, false] : [false, true];
    for (const text of [`${one.short} ${one.next}`, one.short]) {
      for (const isLeft of outwards) {
        const place = this.spanOf(one, stop, text, isLeft);
        if (place.first >= 0 && place.last <= this.width && this.isFree(one, stop, place, taken)) return place;
      }
    }
    return null;
  }

  spanOf(one, stop, text, isLeft) {
    const x = this.pixels(one.place[stop]), wide = one.r + BESIDE + widthOf(text, "550 13px");
    return { y: one.y, text, isLeft, first: isLeft ? x - wide : x + one.r, last: isLeft ? x - one.r : x + wide };
  }

  isFree(one, stop, { first, last }, taken) {
    if (taken.some((other) => Math.abs(other.y - one.y) < 2 * HALF_LINE && other.first < last + APART && other.last > first - APART)) return false;
    return this.groups.every((other) => {
      if (other === one || other.s[stop] === "b") return true;
      const px = this.pixels(other.place[stop]);
      return Math.abs(other.y - one.y) >= other.r + HALF_LINE - 2 || px - other.r >= last || px + other.r <= first;
    });
  }

  /** What screen readers read of each link. */
  speak(stop) {
    for (const one of this.groups) one.link.setAttribute("aria-label", this.sentence(one, stop));
  }

  sentence(one, stop) {
    const words = this.texts;
    return filled(words.words, { NAME: one.name, USED: one.used[stop], TARGET: one.wanted[stop], STATE: words[KINDS[one.s[stop]]] });
  }

  // --- Motion: one at a time, and none where somebody asked for none

  move(motion) {
    this.draft?.drop();
    this.motion = motion;
    this.showPlay();
    const step = (now) => {
      if (this.motion !== motion) return;
      if (!this.svg.isConnected || motion.frame(now) === false) this.halt();
      else requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  halt() {
    const wasPlay = this.isPlaying;
    this.motion = null;
    this.showPlay();
    if (this.stop !== null) this.speakDay(this.stop);
    if (wasPlay && this.stop !== null) { this.speak(this.stop); announce(`${this.answer.labels[this.stop]}. ${this.answer.headings[this.stop]}.`); }
  }

  showPlay() {
    const { playButton, isPlaying } = this;
    playButton.classList.toggle("is-playing", isPlaying);
    playButton.querySelector("[data-words]").textContent = isPlaying ? this.texts.pause : this.texts.play;
  }

  toggle() {
    if (this.isPlaying) { this.halt(); return; }
    const last = this.n - 1, start = this.t >= last || this.isAtNow ? 0 : this.t;
    const rate = Math.max(LEAST_STEPS_A_S, last / WHOLE_PLAY_S);
    let before = null, t = start;
    this.place(start);
    this.move({
      isPlay: true,
      frame: (now) => {
        t = Math.min(last, t + (before === null ? 0 : Math.min(now - before, 100) / 1000) * rate);
        before = now;
        this.place(t);
        return t < last;
      },
    });
  }

  glide(to) {
    if (isStill.matches) { this.draft?.drop(); this.place(to); return; }
    const from = this.t;
    let begun = null;
    this.move({
      frame: (now) => {
        begun ??= now;
        const part = Math.min(1, (now - begun) / GLIDE_MS);
        this.place(part < 1 ? from + (to - from) * ease(part) : to);
        return part < 1;
      },
    });
    this.speakDay(to);  // at once
  }

  /** New numbers came while now is shown: circles go to their new places. */
  live(from) {
    let begun = null;
    this.move({
      frame: (now) => {
        begun ??= now;
        const part = Math.min(1, (now - begun) / LIVE_MS);
        this.place(this.answer.now, from, ease(part));
        return part < 1;
      },
    });
  }

  // --- Pointer and keys; selecting, the menu and arrows are those of the page's tiles

  groupOf(target) {
    const uid = target.closest?.("[data-uid]")?.dataset.uid;
    return uid && this.groups.find((one) => one.uid === uid);
  }

  point(event) {
    const one = this.stop !== null && this.groupOf(event.target);
    this.tip.hidden = true;
    if (!one || this.draft?.isPulled) return;
    const { left, top, width } = this.plot.getBoundingClientRect();
    this.tip.textContent = this.sentence(one, this.stop);
    this.tip.hidden = false;
    this.tip.style.left = this.tip.style.top = "0";
    const { offsetWidth: wide, offsetHeight: tall } = this.tip, x = event.clientX - left, y = event.clientY - top;
    this.tip.style.left = `${Math.max(0, Math.min(x + 12, width - wide))}px`;
    this.tip.style.top = `${y - tall - 12 > 0 ? y - tall - 12 : y + 18}px`;
  }

  /** Words beside a circle lead where it does. */
  clickWords({ target, shiftKey, ctrlKey, metaKey }) {
    if (target.closest?.(".words")) this.groupOf(target)?.link.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, shiftKey, ctrlKey, metaKey }));
  }

  focused(target) {
    const link = target.closest("a");
    if (!link) return;
    for (const one of this.groups) one.link.setAttribute("tabindex", one.link === link ? "0" : "-1");
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const one = this.groupOf(event.target);
    if (one && "+=-".includes(event.key)) { event.preventDefault(); this.draft?.step(one, event.key === "-" ? -1 : 1); }
    if (event.key === "Escape") this.draft?.drop();
    if (event.key === " ") { event.preventDefault(); this.enter(one); }
    if (event.key === "Backspace") { event.preventDefault(); this.element.querySelector("[data-above]")?.click(); }
  }

  /** Into a group: its own groups on the same axis. */
  enter(one) {
    const url = one?.links.group;
    if (!url) return;
    if (document.getElementById("convergence")) go(new URL(url, location.href).searchParams);
    else location.assign(url);
  }

  // --- As a frame

  message(text, action = null) {
    this.halt();
    super.message(text, action);
  }

  fail() {
    if (this.svg?.isConnected) this.stale();  // what the server drew stays
    else super.fail();
  }

  async toSvg(width, height) {
    const copy = styled(this.svg, ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-weight", "opacity", "display"]);
    return new XMLSerializer().serializeToString(node("svg", { width, height, "font-family": FONT }, copy));
  }

  remove() {
    this.motion = null;
    this.box = null;
  }
}

function shortOf(name, most) {
  const letters = [...name], half = Math.floor((most - 1) / 2);
  return `\u2068${letters.length > most ? `${letters.slice(0, half).join("")}…${letters.slice(-half).join("")}` : name}\u2069`;
}

function made(group) {
  const link = node("a", { id: `fair-${group.uid}`, href: group.links.select, "data-select": "", tabindex: "-1" }, node("path", { class: "tail" }), node("circle"));
  const texts = [["times", { "text-anchor": "middle" }], ["words", {}]].map(([name, more]) => node("text", { class: name, y: 4, "aria-hidden": "true", ...more }));
  const { entry, shares, group: inside } = group.links;
  const box = node("svg", { class: "fair-group", overflow: "visible", role: "listitem", "data-panel": "", "data-uid": group.uid, "data-name": group.name, "data-entry-url": entry }, link, ...texts);
  if (shares) box.dataset.sharesUrl = shares;
  if (inside) box.dataset.groupUrl = inside;
  return box;
}
