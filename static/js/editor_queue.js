// Edits on their way to the server: one after the other, each for the version that the one before it made.
// What can't be delivered waits and is kept across a reload of the tab; nothing is lost without a word.
import { hasEnded, signInAgain } from "./session.js";

const FIRST_WAIT_MS = 2000;
const LONGEST_WAIT_MS = 30000;

export class Queue {
  /** `show(state, n)`: saved, saving or waiting. `answer(item, response, html)` is asked what becomes of an edit;
   *  `around(item)`: fields of the page as it is when the edit is sent. */
  constructor(key, { version, show, answer, around = () => [] }) {
    this.key = key;
    this.version = version;
    this.show = show;
    this.answer = answer;
    this.around = around;
    this.items = [];
    this.busy = false;
    this.paused = false;
    this.isOut = false; // the session ended, and its user has not signed in again
    this.waitMs = FIRST_WAIT_MS;
    this.idle = [];
    window.addEventListener("online", () => { if (!this.isOut) this.run(); });
    document.addEventListener("session:resumed", () => {
      this.isOut = false;
      this.run();
    });
    window.addEventListener("beforeunload", (event) => {
      if (this.items.length) event.preventDefault();
    });
  }

  /** Edits of an earlier visit that never arrived; they go out for the version that they were made for. */
  restore() {
    let kept = null;
    try {
      kept = JSON.parse(sessionStorage.getItem(this.key) ?? "null");
    } catch {
      sessionStorage.removeItem(this.key);
    }
    if (!kept?.items?.length) return;
    this.items = kept.items;
    this.version = kept.version;
    this.run();
  }

  add(item) {
    this.items.push(item);
    this.keep();
    this.run();
  }

  keep() {
    if (!this.items.length) sessionStorage.removeItem(this.key);
    else {
      const items = this.items.map(({ url, fields, edits }) => ({ url, fields, edits }));
      sessionStorage.setItem(this.key, JSON.stringify({ version: this.version, items }));
    }
  }

  /** Resolves when nothing is under way any more; false when something had to wait. */
  drained() {
    if (!this.items.length) return Promise.resolve(true);
    if (this.paused) return Promise.resolve(false);
    const ends = new Promise((resolve) => { this.idle.push(resolve); });
    if (this.isOut) this.run();
    return ends;
  }

  settle(well) {
    this.idle.splice(0).forEach((resolve) => resolve(well));
  }

  async run() {
    if (this.busy || this.paused) return;
    this.busy = true;
    clearTimeout(this.timer);
    while (this.items.length && !this.paused) {
      this.show(this.isOut ? "waiting" : "saving", this.items.length);
      if (!(await (this.isOut ? this.signIn() : this.send(this.items[0])))) break;
    }
    this.busy = false;
    this.show(this.items.length ? "waiting" : "saved", this.items.length);
    this.settle(!this.items.length);
  }

  /** True when the next one may follow. */
  async send(item) {
    let response;
    let html;
    try {
      const body = new URLSearchParams([...item.fields, ...this.around(item)]);
      const { "X-CSRFToken": token } = JSON.parse(document.body.getAttribute("hx-headers"));
      response = await fetch(item.url, {
        method: "POST", body, credentials: "same-origin",
        headers: { "HX-Request": "true", "If-Match": `"${this.version}"`, "X-CSRFToken": token },
      });
      html = await response.text();
    } catch {
      return this.later();
    }
    if (hasEnded(response)) {
      this.isOut = true;
      return true;
    }
    if (response.status >= 500) {
      this.answer(item, response, html);
      return this.later();
    }
    this.waitMs = FIRST_WAIT_MS;
    if (response.status === 412) {
      this.paused = true;
      this.answer(item, response, html);
      return false;
    }
    if (this.items[0] === item) this.items.shift();
    const tag = /"(\d+)"/.exec(response.headers.get("ETag") ?? "");
    if (response.ok && tag) this.version = tag[1];
    this.keep();
    this.answer(item, response, html);
    return true;
  }

  /** Over the open page; without a session the edits wait for one of the same user. */
  async signIn() {
    try {
      this.isOut = (await signInAgain()) === null;
    } catch {
      return this.later();
    }
    return !this.isOut;
  }

  later() {
    this.timer = setTimeout(() => this.run(), this.waitMs);
    this.waitMs = Math.min(this.waitMs * 2, LONGEST_WAIT_MS);
    return false;
  }

  /** After a refusal for an old version: what waits goes out again for the present one. */
  resume(version) {
    this.version = version;
    this.paused = false;
    this.keep();
    this.run();
  }

  forget() {
    this.items = [];
    this.paused = false;
    this.keep();
  }
}
