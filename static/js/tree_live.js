// Rows of the tree that are in the window take what changed; others do when they come into it. Rows keep their place,
// their focus and what is open: only cells that differ are written.
import { attach } from "./far_rows.js";
import { flashed, morph } from "./live_parts.js";

const MOST = 80, WAIT_MS = 150, MARGIN_PX = 200;
const table = document.querySelector("[data-treegrid][data-current]");

class TreeLive {
  constructor(element) {
    this.table = element;
    this.edition = 0;
    this.timer = null;
    document.addEventListener("live:changed", ({ detail }) => this.changed(detail.changed));
    for (const name of ["scroll", "resize"]) addEventListener(name, () => this.soon(), { passive: true, capture: true });
    document.addEventListener("htmx:afterSwap", (event) => { if (event.detail.target.id === "rows") this.soon(); });
  }

  changed(parts) {
    if (!parts.has("numbers")) return;
    this.edition += 1;
    this.old = [...this.table.querySelectorAll("tbody tr[data-uid]")];  // rows that come later are current
    this.old.forEach((row) => { row.dataset.behind = ""; });
    this.load();
    this.loadPanel();
  }

  soon() {
    if (!this.edition) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), WAIT_MS);
  }

  get wanted() {
    const inWindow = (row) => {
      const { top, bottom } = row.getBoundingClientRect();
      return bottom > top && bottom > -MARGIN_PX && top < innerHeight + MARGIN_PX;
    };
    return [...this.table.querySelectorAll("tr[data-behind]:not([hidden])")].filter(inWindow).slice(0, MOST);
  }

  async load() {
    const rows = this.wanted;
    if (!rows.length) return;
    const query = new URLSearchParams([["of", this.table.dataset.of], ...rows.map((row) => ["e", row.dataset.uid])]);
    const { edition } = this;
    const answer = await fetch(`${this.table.dataset.current}?${query}`, { headers: { "HX-Request": "true" }, redirect: "error" }).catch(() => null);
    if (!answer?.ok || edition !== this.edition) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    flashed(this.table, () => rows.forEach((row) => this.write(row, fresh.getElementById(row.id))));
    this.writeHead(fresh.getElementById("tree-head"));
  }

  write(row, fresh) {
    delete row.dataset.behind;
    if (!fresh) {
      row.classList.add("live-gone");
      row.title = this.table.dataset.archived;
      document.dispatchEvent(new CustomEvent("live:rows"));
      return;
    }
    [...attach(row).cells].slice(1).forEach((cell, place) => {
      const now = fresh.cells[place + 1];
      if (!now || cell.innerHTML === now.innerHTML) return;
      if (now.title) cell.title = now.title;
      morph(cell, now.innerHTML, "innerHTML");
    });
  }

  writeHead(fresh) {
    const head = document.getElementById("tree-head");
    if (!head || !fresh) return;
    if (head.dataset.n !== fresh.dataset.n) document.dispatchEvent(new CustomEvent("live:rows"));
    morph(head, fresh);
  }

  /** The entry beside the tree, unless the focus is in there. */
  loadPanel() {
    const row = this.table.querySelector("tr[aria-selected=true]"), panel = document.getElementById("panel");
    if (!row || panel?.contains(document.activeElement)) return;
    const query = new URLSearchParams({ entry: row.dataset.uid });
    window.htmx?.ajax("GET", `${this.table.dataset.panel}?${query}`, { target: "#panel", swap: "morph:outerHTML" });
  }
}

if (table) new TreeLive(table);
