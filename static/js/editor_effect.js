// What a draft does beside what is edited: targets, ranks and the day on target, asked of the server while shares change.
import { el, fromTo, icon, put } from "./editor_dom.js";
import { say } from "./editor_words.js";

const $ = (id) => document.getElementById(id);

/** One question at a time; what changes meanwhile is asked next. Numbers of an earlier state stay, muted, until then. */
export class Effect {
  /** `rows()`: uids that are in view besides those of the group; `draw()`: called after each answer. */
  constructor(root, { rows, draw }) {
    Object.assign(this, { root, rowsInView: rows, draw, key: "", known: null, group: "", version: "", operation: null });
    this.rows = new Map();
    this.answer = null;
    this.problem = ""; // of the edit that is tried
    this.refusal = ""; // of the edit that was to be saved
  }

  get isLate() {
    return this.known !== this.key;
  }

  /** Ask about a version of the draft and, on top of it, the fields of an edit that is tried. */
  about({ version = this.version, group = this.group, operation = null }) {
    Object.assign(this, { version, group, operation, key: JSON.stringify([version, group, operation]) });
    return this.refresh();
  }

  async refresh() {
    this.isDirty = true;
    if (this.isAsking) return;
    this.isAsking = true;
    this.root.toggleAttribute("data-asking", true);
    while (this.isDirty) {
      this.isDirty = false;
      const [fields, key] = [this.question(), this.key];
      if (!fields) continue;
      const answer = await this.fetch(fields);
      if (answer) this.receive(key, answer);
      this.draw();
    }
    this.isAsking = false;
    this.root.toggleAttribute("data-asking", false);
    this.root.toggleAttribute("data-known", !this.isLate);
  }

  question() {
    const missing = this.rowsInView().filter((uid) => this.isLate || !this.rows.has(uid));
    if (!this.isLate && !missing.length) return null;
    const rows = missing.map((uid) => uid.replaceAll("-", "")).join(",");
    return [...(this.isLate ? [["group", this.group]] : []), ["rows", rows], ...(this.operation ?? []), ["at", this.version]];
  }

  receive(key, answer) {
    this.problem = answer.problem ?? "";
    if (this.problem) return;
    if (key !== this.known) {
      this.rows.clear();
      this.answer = answer;
    }
    this.known = key;
    answer.rows.forEach((row) => this.rows.set(row.uid, row));
  }

  /** The answer, or why there is none for such an edit; null without a connection. */
  async fetch(fields) {
    try {
      const response = await fetch(`${this.root.dataset.effect}?${new URLSearchParams(fields)}`, { headers: { "HX-Request": "true" }, credentials: "same-origin" });
      return response.ok ? await response.json() : null;
    } catch {
      return null;
    }
  }

  /** Ranks and days of a row of a table; both views have the same cells. */
  drawCells(tr) {
    const known = this.rows.get(tr.dataset.uid);
    const [ranks, when] = [tr.querySelector(".c-ranks"), tr.querySelector(".c-when")];
    for (const cell of [ranks, when]) cell?.classList.toggle("late", this.isLate);
    if (known) drawPlacesAndDay(ranks, when, known);
  }

  /** The chosen entry. `texts`: target_text, before_text, state and balance, if the page knows them better. */
  drawChosen(uid, texts = {}) {
    const facts = $("picked-facts");
    if (!facts || $("picked").dataset.uid !== uid) return;
    const known = { ...this.rows.get(uid), ...texts };
    const at = (name) => facts.querySelector(`[data-fact="${name}"]`);
    facts.classList.toggle("late", this.isLate);
    if (known.target_text) fromTo(at("target"), known.before_text, known.target_text, say("to"));
    if (known.state) drawBalance(at("balance").firstElementChild, known.state, known.balance);
    if (known.places) drawPlacesAndDay(at("ranks"), at("when"), known);
    put($("picked-problem"), this.refusal || this.problem);
  }

  /** What it does altogether, and to whom most. */
  drawWhole() {
    const { answer } = this;
    const list = $("effect-list");
    list.classList.toggle("late", this.isLate);
    if (!answer) return;
    put($("effect-change"), answer.change);
    const lead = $("lead");
    lead.dataset.plain ??= lead.textContent;
    put(lead, answer.lead || lead.dataset.plain);
    list.replaceChildren(...answer.most.map((row) => {
      const places = el("span", { class: "num" });
      drawPlaces(places, row.places);
      return el("li", {}, el("span", { class: "cut" }, row.name), el("span", { class: "num muted" }, row.target_text), places);
    }));
    if (answer.note) list.replaceChildren(el("li", { class: "muted" }, answer.note));
  }
}

function drawPlacesAndDay(ranks, when, known) {
  drawPlaces(ranks, known.places);
  if (when) fromTo(when, known.on_target_before === known.on_target ? "" : known.on_target_before, known.on_target, say("to"));
}

function drawPlaces(host, { direction, text, phrase }) {
  const key = `${direction}${text}`;
  if (host.dataset.shown === key) return;
  host.dataset.shown = key;
  if (!direction) return host.replaceChildren(el("span", { class: "drawn none" }, phrase));
  const number = el("span", { "aria-hidden": "true" }, text);
  const parts = [icon(`arrow-${direction}`, "s"), number, el("span", { class: "sr" }, phrase)];
  host.replaceChildren(el("span", { class: `places ${direction}` }, ...parts));
}

export function drawBalance(balance, state, text) {
  if (balance.dataset.shown === `${state} ${text}`) return;
  balance.dataset.shown = `${state} ${text}`;
  balance.dataset.state = state;
  balance.className = state === "over" || state === "under" ? `bal ${state}` : "bal";
  balance.replaceChildren(icon(state === "nodata" ? "idle" : state, "solid"), text);
}
