// What the page says about its updates: a bar over the foot of the page, and the badge beside figures.
let form = null;  // when first needed: making it takes as long as all else that a page does at its beginning
const OWN = ["paused", "failed", "out"];  // states of the page itself; they come before what others did
const DOTS = { live: "ok", failed: "bad", paused: "off", out: "off" };

function time(at) {
  form ??= new Intl.DateTimeFormat(document.documentElement.lang || "en", {
    hour: "2-digit", minute: "2-digit", hour12: false, timeZone: document.getElementById("live-bar").dataset.zone, timeZoneName: "short",
  });
  return form.format(at);
}

function age(seconds) {
  for (const [size, unit, most] of [[1, "s", 60], [60, "min", 3600], [3600, "h", 172800]]) {
    if (seconds < most) return `${Math.floor(seconds / size)}\u00a0${unit}`;
  }
  return `${Math.floor(seconds / 86400)}\u00a0d`;
}

export class LiveBar {
  constructor() {
    this.element = document.getElementById("live-bar");
    const { style } = document.documentElement;  // what is fixed to the foot of the window stands above it
    new ResizeObserver(() => style.setProperty("--live-bar-height", `${this.element.getBoundingClientRect().height}px`)).observe(this.element);
    this.about = "";  // "news" or "rows", until it is closed
    this.element.addEventListener("click", (event) => { if (event.target.closest("[data-live-close]")) this.close(); });
  }

  get text() {
    return [...this.element.querySelectorAll("p")].filter((one) => !one.hidden).map((one) => one.textContent.trim()).join(" ");
  }

  wordsFor(name) {
    return this.element.querySelector(`[data-live-say=${name}]`).content.textContent;
  }

  show(about) {
    this.about = about;
    this.draw(this.element.dataset.state);
  }

  close() {
    const hadFocus = this.element.contains(document.activeElement);
    this.show("");
    if (hadFocus) document.getElementById("main")?.focus({ preventScroll: true });
  }

  /** Returns what it says. */
  news(revision, { by, reason }) {
    const line = this.element.querySelector("[data-live-published]");
    line.textContent = line.dataset.text.replace("BY", () => by).replace("N", String(revision));
    this.element.querySelector("[data-live-reason]").textContent = reason;
    this.show("news");
    return line.textContent;
  }

  write(state, from, leftS) {
    for (const one of this.element.querySelectorAll("[data-live-time]")) {
      one.textContent = from === null || !OWN.includes(state) ? "" : one.dataset.text.replace("TIME", time(from));
    }
    const next = this.element.querySelector("[data-live-next]");
    if (state === "failed") next.textContent = next.dataset.text.replace("N", String(leftS));
    this.draw(state);
  }

  draw(state) {
    const shown = OWN.includes(state) ? state : this.about;
    if (this.element.dataset.state === state && this.element.dataset.shown === shown) return;
    const hadFocus = this.element.contains(document.activeElement);
    this.element.dataset.state = state;
    this.element.dataset.shown = shown;
    for (const part of this.element.querySelectorAll("[data-live-if]")) part.hidden = !part.dataset.liveIf.split(" ").includes(shown);
    this.element.hidden = !shown;
    if (hadFocus && !this.element.contains(document.activeElement)) document.getElementById("main")?.focus({ preventScroll: true });
  }

  writeBadge(state, from) {
    const badge = document.getElementById("live");
    if (!badge) return;
    const { dataset: words } = badge;
    badge.hidden = false;
    badge.dataset.state = state;
    badge.querySelector(".dot").className = `dot ${DOTS[state]}`;
    const text = { paused: words.paused, failed: words.failed }[state];
    badge.querySelector("[data-live-text]").textContent = text ? text.replace("TIME", time(from))
      : from === null ? words.none : words.updated.replace("AGE", age(Math.max(0, (Date.now() - from) / 1000)));
  }
}
