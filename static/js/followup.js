// After a publication: counts down to the recompute, asks every two seconds until it is there, and takes the answer
// into the nodes of the page.
import { morph } from "./live_parts.js";
import { announce } from "./shell.js";

const EVERY_S = 2, OFFLINE_AFTER_S = 10, BACK_OFF_S = [2, 5, 10, 20, 30];
const box = document.getElementById("followup");

class Followup {
  constructor(element) {
    this.element = element;
    this.nFailed = 0;
    this.isAsking = false;
    this.answeredAt = this.askedAt = Date.now();
    this.readLeft();
    this.timer = setInterval(() => this.tick(), 1000);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.tick(); });
  }

  get state() { return this.element.dataset.state; }
  get waitS() { return this.nFailed ? BACK_OFF_S[Math.min(this.nFailed, BACK_OFF_S.length) - 1] : EVERY_S; }

  readLeft() {
    const timer = this.element.querySelector("[data-left]");
    this.totalS = timer ? Number(timer.dataset.left) : 0;
    this.dueAt = Date.now() + this.totalS * 1000;
    this.count();
  }

  tick() {
    if (document.hidden || this.state === "done") return;
    this.count();
    if (Date.now() - this.askedAt >= this.waitS * 1000) this.ask();
  }

  count() {
    const timer = this.element.querySelector("[data-left]");
    if (!timer) return;
    const left = Math.max(0, Math.ceil((this.dueAt - Date.now()) / 1000));
    timer.textContent = `${left}\u00a0s`;
    const part = this.totalS ? left / this.totalS : 0;
    this.element.querySelector(".ring .fg").setAttribute("stroke-dasharray", `${(part * 106.8).toFixed(1)} 107`);
  }

  async ask() {
    if (this.isAsking) return;
    this.isAsking = true;
    this.askedAt = Date.now();
    const headers = { "HX-Request": "true", "If-None-Match": `"${this.element.dataset.tag}"` };
    const answer = await fetch(this.element.dataset.src, { headers, redirect: "error", cache: "no-store" }).catch(() => null);
    this.isAsking = false;
    if (answer?.status === 304) this.answered();
    else if (answer?.ok) this.take(await answer.text());
    else this.fail();
  }

  answered() {
    this.nFailed = 0;
    this.answeredAt = Date.now();
    if (this.element.classList.contains("offline")) this.element.dataset.tag = "";  // the next answer writes it all again
    this.element.classList.remove("offline");
  }

  take(html) {
    this.answered();
    const before = this.state;
    morph(this.element, html);
    this.element = document.getElementById("followup");
    this.readLeft();
    if (this.state === before) return;
    const textOf = (name) => this.element.querySelector(`[data-followup-${name}]`).textContent;
    announce(`${textOf("heading")} ${textOf("text")}`);
    if (this.state === "done") document.dispatchEvent(new CustomEvent("live:ask"));
  }

  fail() {
    this.nFailed += 1;
    if (Date.now() - this.answeredAt < OFFLINE_AFTER_S * 1000) return;
    const { offline, offlineText } = this.element.dataset, heading = this.element.querySelector("[data-followup-heading]");
    if (!this.element.classList.contains("offline")) announce(offline);
    this.element.classList.add("offline");
    heading.textContent = offline;
    this.element.querySelector("[data-followup-text]").textContent = offlineText.replace("N", String(this.waitS));
  }
}

if (box) new Followup(box);
