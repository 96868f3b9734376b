// Keeps a page current: one conditional request every four seconds for all of it, none while it is hidden or paused.
// What has changed is fetched once and written into the nodes that are there: focus, selection and scroll stay.
import { LiveBar } from "./live_bar.js";
import { refreshParts, writeCounts, writeFresh } from "./live_parts.js";
import { announce } from "./shell.js";

const EVERY_S = 4, TICK_MS = 500, BACK_OFF_S = [5, 10, 20, 30];
const box = document.querySelector("#fresh[data-live]");

class Live {
  constructor(element) {
    this.element = element;
    this.url = element.dataset.live;
    this.tag = `"${element.dataset.tag}"`;
    this.parts = JSON.parse(element.dataset.parts);
    this.revision = Number(element.dataset.revision);
    this.isPaused = this.isAsking = this.isOut = false;
    this.failedSince = null;
    this.nFailed = 0;
    this.setAge(element.dataset.age === "" ? null : Number(element.dataset.age));
    this.answeredAt = this.askedAt = Date.now();
    this.bar = new LiveBar();
    document.addEventListener("click", (event) => this.onClick(event));
    document.addEventListener("live:rows", () => { this.bar.show("rows"); });
    document.addEventListener("live:ask", () => { if (!this.isPaused && !this.isOut) this.ask(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.tick(); });
    document.addEventListener("session:ended", () => { this.isOut = true; this.write(); });
    document.addEventListener("session:resumed", () => { this.isOut = false; this.ask(); });
    setInterval(() => this.tick(), TICK_MS);
    this.write();
  }

  get state() { return this.isOut ? "out" : this.isPaused ? "paused" : this.failedSince !== null ? "failed" : "live"; }
  get waitS() { return this.nFailed ? BACK_OFF_S[Math.min(this.nFailed, BACK_OFF_S.length) - 1] : EVERY_S; }

  setAge(seconds) {
    this.computedAt = seconds === null ? null : Date.now() - seconds * 1000;
  }

  tick() {
    if (document.hidden) return;
    if (!this.isPaused && !this.isOut && Date.now() - this.askedAt >= this.waitS * 1000) this.ask();
    this.write();
  }

  /** 304: nothing has changed. A redirect leads to the sign-in. Anything else that isn't an answer leaves the page as
   *  it is, and says so. */
  async ask() {
    if (this.isAsking) return;
    this.isAsking = true;
    this.askedAt = Date.now();
    const response = await fetch(this.url, {
      headers: { Accept: "application/json", "If-None-Match": this.tag }, redirect: "manual", cache: "no-store",
    }).catch(() => null);
    const answer = response?.ok ? await response.json().catch(() => null) : null;
    this.isAsking = false;
    if (this.isPaused) return;
    if (response?.type === "opaqueredirect") this.isOut = true;
    else if (response?.status === 304 || answer) this.recover();
    else this.fail();
    if (answer) await this.take(answer, response.headers.get("ETag"));
    this.write();
  }

  async take(answer, tag) {
    const changed = new Set(Object.keys(answer.parts).filter((name) => answer.parts[name] !== this.parts[name]));
    this.tag = tag;
    this.parts = answer.parts;
    this.setAge(answer.age_s);
    writeFresh(this.element, answer.fresh);
    writeCounts(answer.counts);
    if (answer.revision > this.revision) this.published(answer);
    this.revision = answer.revision;
    await refreshParts(changed);
    document.dispatchEvent(new CustomEvent("live:changed", { detail: { ...answer, changed } }));
    this.element.dataset.tag = tag.replaceAll('"', "");
  }

  published({ revision, published }) {
    if (!published.is_own) announce(this.bar.news(revision, published)); // the publisher has an answer already
  }

  fail() {
    this.nFailed += 1;
    if (this.failedSince !== null) return;
    this.failedSince = this.answeredAt;
    document.dispatchEvent(new CustomEvent("live:failed"));
    this.write();
    announce(this.bar.text);
  }

  recover() {
    this.answeredAt = Date.now();
    this.nFailed = 0;
    if (this.failedSince === null) return;
    this.failedSince = null;
    document.dispatchEvent(new CustomEvent("live:recovered"));
    announce(this.bar.wordsFor("recovered"));
  }

  pause(isPaused) {
    if (isPaused === this.isPaused || this.isOut) return;
    this.isPaused = isPaused;
    this.pausedAt = Date.now();
    this.write();
    announce(isPaused ? this.bar.text : this.bar.wordsFor("resumed"));
    if (!isPaused) this.ask();
  }

  onClick(event) {
    if (event.target.closest("[data-live-pause]")) this.pause(!this.isPaused);
    else if (event.target.closest("[data-live-resume]")) this.pause(false);
    else if (event.target.closest("[data-live-retry]")) this.ask();
  }

  write() {
    const { state } = this, from = { paused: this.pausedAt, failed: this.failedSince }[state] ?? this.computedAt;
    this.element.dataset.state = state;
    for (const part of this.element.querySelectorAll("[data-live-if]")) part.hidden = part.dataset.liveIf !== state;
    for (const button of document.querySelectorAll("[data-live-pause]")) {
      button.hidden = false;
      button.setAttribute("aria-pressed", String(this.isPaused));
      button.textContent = this.isPaused ? button.dataset.off : button.dataset.on;
    }
    this.bar.write(state, from, Math.max(0, Math.ceil(this.waitS - (Date.now() - this.askedAt) / 1000)));
    this.bar.writeBadge(state, from);
  }
}

if (box) new Live(box);
