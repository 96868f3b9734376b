// Keeps the figures of a page current: one conditional request every five seconds for the whole page, none while it is
// hidden or paused. When the server has new numbers, each figure that is drawn fetches its own and is drawn again.
import { drawn } from "./index.js";

const EVERY_S = 5, TICK_MS = 1000;
const badge = document.querySelector("[data-live]");
const time = new Intl.DateTimeFormat(document.documentElement.lang || "en", { hour: "2-digit", minute: "2-digit", hour12: false });

function age(seconds) {
  for (const [size, unit, most] of [[1, "s", 60], [60, "min", 3600], [3600, "h", 172800]]) {
    if (seconds < most) return `${Math.floor(seconds / size)}\u00a0${unit}`;
  }
  return `${Math.floor(seconds / 86400)}\u00a0d`;
}

class Live {
  constructor(element) {
    this.element = element;
    this.words = element.dataset;
    this.tag = `"${element.dataset.tag}"`;
    this.text = element.querySelector("[data-live-text]");
    this.button = element.querySelector("[data-live-pause]");
    this.isPaused = false;
    this.isAsking = false;
    this.staleSince = null;
    this.setAge(element.dataset.age === "" ? null : Number(element.dataset.age));
    this.answeredAt = this.askedAt = Date.now();
    element.hidden = false;
    this.button.addEventListener("click", () => this.pause(!this.isPaused));
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.tick(); });
    setInterval(() => this.tick(), TICK_MS);
    this.write();
  }

  setAge(seconds) {
    this.computedAt = seconds === null ? null : Date.now() - seconds * 1000;
  }

  tick() {
    if (document.hidden) return;
    if (!this.isPaused && Date.now() - this.askedAt >= EVERY_S * 1000) this.ask();
    this.write();
  }

  /** 304: nothing has changed. Anything that isn't an answer leaves the pictures as they are, and says so. */
  async ask() {
    if (this.isAsking) return;
    this.isAsking = true;
    this.askedAt = Date.now();
    let response = null;
    try {
      response = await fetch(this.words.live, { headers: { Accept: "application/json", "If-None-Match": this.tag }, redirect: "error", cache: "no-store" });
    } catch {
      response = null;
    }
    this.isAsking = false;
    if (this.isPaused) return;
    const answer = response?.ok ? await response.json().catch(() => null) : null;
    if (response?.status !== 304 && !answer) { this.fail(); return; }
    this.answeredAt = Date.now();
    this.recover();
    if (answer) {
      this.tag = response.headers.get("ETag");
      this.setAge(answer.age_s);
      await Promise.all(drawn().map((frame) => frame.load({ quiet: true })));
      document.dispatchEvent(new CustomEvent("live:changed", { detail: answer }));
      this.element.dataset.tag = this.tag.replaceAll('"', "");
    }
    this.write();
  }

  fail() {
    this.staleSince ??= this.answeredAt;
    for (const frame of drawn()) frame.stale();
    this.write();
  }

  recover() {
    if (this.staleSince === null) return;
    this.staleSince = null;
    for (const frame of drawn()) frame.fresh();
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    this.pausedAt = Date.now();
    this.button.setAttribute("aria-pressed", String(isPaused));
    this.button.textContent = isPaused ? this.words.resume : this.words.pause;
    if (!isPaused) this.ask();
    this.write();
  }

  write() {
    const { words } = this, state = this.isPaused ? "paused" : this.staleSince !== null ? "stale" : "live";
    this.element.dataset.state = state;
    this.element.querySelector(".dot").className = `dot ${{ live: "ok", stale: "warn", paused: "" }[state]}`.trim();
    if (state === "paused") this.text.textContent = words.paused.replace("TIME", time.format(this.pausedAt));
    else if (state === "stale") this.text.textContent = words.stale.replace("TIME", time.format(this.staleSince));
    else this.text.textContent = this.computedAt === null ? words.none : words.updated.replace("AGE", age(Math.max(0, (Date.now() - this.computedAt) / 1000)));
  }
}

if (badge) new Live(badge);
