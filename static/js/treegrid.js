// Keys and lazily loaded children of a treegrid, rows first (WAI-ARIA APG). Without this module the twists of the
// tree's page submit the form around it, which gives the same page with another `?open=`; the editor needs it.
import { attach, FarRows } from "./far_rows.js";

const PAGE = 10;

class TreeGrid {
  constructor(table) {
    this.table = table;
    this.far = new FarRows(table);
    this.far.watch(this.rows);
    table.addEventListener("click", (event) => this.onClick(event));
    table.addEventListener("keydown", (event) => this.onKey(event));
    table.addEventListener("focusin", (event) => this.onFocus(event));
    table.addEventListener("treegrid:changed", () => this.refresh());
    table.addEventListener("treegrid:select", (event) => this.select(event.detail));
    document.addEventListener("htmx:afterSwap", (event) => {
      if (event.detail.target.id === "rows" || event.detail.elt?.id === "rows") this.renumber();
    });
    this.offerInside(document.activeElement?.closest("tbody tr"));
  }

  // --- what is where ---------------------------------------------------------------------------------------------
  get rows() { return [...this.table.tBodies].flatMap((body) => [...body.rows]); }
  get seen() { return this.rows.filter((row) => !row.hidden); }
  level(row) { return Number(row.getAttribute("aria-level")); }
  isOpen(row) { return row.getAttribute("aria-expanded") === "true"; }
  get mode() {
    const { mode, at } = this.table.dataset; // at: pages of the past ask for the rows of then
    return { ...(mode && { mode }), ...(at && { at }) };
  }
  isParent(row) { return row.hasAttribute("aria-expanded"); }

  below(row) {
    const found = [];
    for (let next = row.nextElementSibling; next && this.level(next) > this.level(row); next = next.nextElementSibling) {
      found.push(next);
    }
    return found;
  }

  parent(row) {
    let before = row.previousElementSibling;
    while (before && this.level(before) >= this.level(row)) before = before.previousElementSibling;
    return before;
  }

  cells(row) { return [...attach(row).cells].filter((cell) => cell.getClientRects().length); }

  // --- focus -----------------------------------------------------------------------------------------------------
  focusRow(row) {
    if (!row) return;
    this.rows.forEach((each) => { each.tabIndex = -1; });
    attach(row).tabIndex = 0;
    row.focus();
  }

  focusCell(cell) {
    if (!cell) return;
    cell.tabIndex = -1;
    cell.focus();
  }

  /** What is inside the focused row takes part in the tab order, the rest of the grid does not: with arrows to go by
   *  it is one stop. Without this module each control is one. */
  offerInside(row) {
    for (const inside of this.table.querySelectorAll("tbody :is(a, button, input)")) {
      inside.tabIndex = row && row.contains(inside) ? 0 : -1;
    }
  }

  onFocus(event) {
    const row = attach(event.target.closest("tbody tr"));
    this.offerInside(row);
    if (row && event.target !== row) this.rows.forEach((each) => { each.tabIndex = each === row ? 0 : -1; });
  }

  // --- opening and closing ---------------------------------------------------------------------------------------
  async open(row) {
    if (!this.isParent(row) || this.isOpen(row) || row.getAttribute("aria-busy") === "true") return;
    const kept = this.below(row);
    row.setAttribute("aria-expanded", "true");
    if (kept.length) this.refresh();
    else await this.load(row, { parent: row.dataset.uid }, row);
    this.remember(row);
  }

  close(row) {
    if (!this.isOpen(row)) return;
    row.setAttribute("aria-expanded", "false");
    if (this.below(row).some((inside) => inside.contains(document.activeElement))) this.focusRow(row);
    this.refresh();
    this.remember(row);
  }

  toggle(row) { return this.isOpen(row) ? this.close(row) : this.open(row); }

  async load(row, asked, after) {
    const note = this.noteRow(row, this.table.dataset.loading);
    note.setAttribute("aria-busy", "true");
    row.setAttribute("aria-busy", "true");
    after.after(note);
    const query = new URLSearchParams([...this.kept(asked), ...Object.entries({ ...asked, of: this.table.dataset.of, ...this.mode })]);
    try {
      const answer = await fetch(`${this.table.dataset.rows}?${query}`, { headers: { "HX-Request": "true" } });
      if (!answer.ok) throw new Error(String(answer.status));
      const holder = document.createElement("template");
      holder.innerHTML = await answer.text();
      const fresh = [...holder.content.querySelectorAll("tr")];
      if (answer.redirected || !holder.content.querySelector("#rows")) throw new Error("not rows");
      fresh.forEach((each) => { each.tabIndex = -1; });
      note.replaceWith(...fresh);
      this.renumber();
      return fresh;
    } catch {
      this.offerRetry(note, row, asked);
      return [];
    } finally {
      row.removeAttribute("aria-busy");
    }
  }

  /** What of the address decides how rows look. Children of a row opened by hand aren't filtered, later ones are. */
  kept(asked) {
    const names = (this.table.dataset.carries ?? "").split(" ").filter((name) => asked.cursor || !["q", "off"].includes(name));
    return [...new URLSearchParams(location.search)].filter(([name]) => names.includes(name));
  }

  noteRow(row, text) {
    const note = document.createElement("tr");
    note.setAttribute("role", "row");
    note.setAttribute("aria-level", String(this.level(row) + 1));
    note.tabIndex = -1;
    note.className = "noterow";
    const cell = document.createElement("th");
    cell.setAttribute("role", "rowheader");
    cell.colSpan = this.table.tHead.rows[0].cells.length;
    const name = document.createElement("span");
    name.className = "name muted";
    for (let level = 0; level < this.level(row); level += 1) {
      name.append(Object.assign(document.createElement("span"), { className: "guide" }));
    }
    name.append(Object.assign(document.createElement("span"), { className: "label muted", textContent: text }));
    cell.append(name);
    note.append(cell);
    return note;
  }

  offerRetry(note, row, asked) {
    note.removeAttribute("aria-busy");
    note.querySelector(".label").textContent = this.table.dataset.failed;
    const again = Object.assign(document.createElement("button"), {
      type: "button", className: "btn sm", textContent: this.table.dataset.retry, tabIndex: -1,
    });
    again.addEventListener("click", () => this.loadInPlaceOf(note, row, asked));
    note.querySelector(".name").append(again);
  }

  async more(row) {
    const parent = { getAttribute: (key) => (key === "aria-level" ? String(this.level(row) - 1) : null) };
    const asked = { parent: row.dataset.more, cursor: row.dataset.cursor };
    const owner = this.table.querySelector(`tr[data-uid="${row.dataset.more}"]`) ?? parent;
    await this.loadInPlaceOf(row, owner, asked);
  }

  /** The focus waits on the row that says so, and goes on to the first that came unless it was taken elsewhere. */
  async loadInPlaceOf(old, row, asked) {
    const loading = this.load(row, asked, old);
    this.focusRow(old.nextElementSibling);
    old.remove();
    const fresh = await loading;
    if (document.activeElement === document.body) this.focusRow(fresh[0]);
  }

  /** Rows below a closed one are hidden, however deep they are. */
  refresh() {
    let closedAt = Infinity;
    for (const row of this.rows) {
      row.hidden = this.level(row) > closedAt;
      if (!row.hidden) closedAt = row.getAttribute("aria-expanded") === "false" ? this.level(row) : Infinity;
    }
    this.renumber();
  }

  renumber() {
    const seen = this.seen;
    seen.forEach((row, at) => row.setAttribute("aria-rowindex", String(at + 2)));
    this.table.setAttribute("aria-rowcount", String(seen.length + 1));
    if (!this.rows.some((row) => row.tabIndex === 0) && seen.length) seen[0].tabIndex = 0;
    this.offerInside(document.activeElement?.closest("tbody tr"));
    this.far.watch(this.rows);
  }

  /** The address shows what is open, so that it can be shared; a very long one would break instead of help. */
  remember(row) {
    const url = new URL(location.href), state = url.searchParams;
    if (this.table.dataset.carries) this.rememberChange(state, row);
    else {
      const open = this.seen.filter((each) => this.isOpen(each)).map((each) => each.dataset.uid);
      state.delete("open");
      if (open.length <= 40) open.forEach((uid) => state.append("open", uid));
    }
    history.replaceState(history.state, "", url);
    document.dispatchEvent(new CustomEvent("tree:state"));
  }

  /** `level` says what is open, `open` and `shut` what differs from it. */
  rememberChange(state, row) {
    const [now, before] = this.isOpen(row) ? ["open", "shut"] : ["shut", "open"];
    if (!state.has("level") && this.table.dataset.level) state.set("level", this.table.dataset.level);
    const kept = state.getAll(before).filter((uid) => uid !== row.dataset.uid);
    if (kept.length === state.getAll(before).length) state.append(now, row.dataset.uid);
    state.delete(before);
    kept.forEach((uid) => state.append(before, uid));
  }

  // --- selection -------------------------------------------------------------------------------------------------
  select(row) {
    if (!row?.dataset.uid) return;
    this.rows.forEach((each) => each.removeAttribute("aria-selected"));
    row.setAttribute("aria-selected", "true");
    window.htmx?.ajax("GET", `${this.table.dataset.panel}?${new URLSearchParams({ entry: row.dataset.uid, ...this.mode })}`, { target: "#panel", swap: "outerHTML" });
    const url = new URL(location.href);
    url.searchParams.set("entry", row.dataset.uid);
    history.replaceState(history.state, "", url);
  }

  // --- events ----------------------------------------------------------------------------------------------------
  onClick(event) {
    const row = event.target.closest("tbody tr");
    if (!row) return;
    if (event.target.closest("button.twist")) {
      event.preventDefault();
      this.toggle(row);
    } else if (row.dataset.more) {
      event.preventDefault();
      this.more(row);
    } else if (!event.target.closest("a, button, input")) {
      this.focusRow(row);
      this.select(row);
    }
  }

  onKey(event) {
    if (event.altKey || event.metaKey) return;
    const row = event.target.closest("tbody tr");
    if (!row || event.target.closest("input, textarea")) return;
    const act = event.target === row ? this.rowKey(event, row) : this.cellKey(event, row);
    if (!act) return;
    event.preventDefault();
    act();
  }

  rowKey(event, row) {
    const seen = this.seen;
    const at = seen.indexOf(row);
    const cells = this.cells(row);
    switch (event.key) {
      case "ArrowDown": return () => this.focusRow(seen[at + 1]);
      case "ArrowUp": return () => this.focusRow(seen[at - 1]);
      case "PageDown": return () => this.focusRow(seen[Math.min(at + PAGE, seen.length - 1)]);
      case "PageUp": return () => this.focusRow(seen[Math.max(at - PAGE, 0)]);
      case "Home": return () => this.focusRow(seen[0]);
      case "End": return () => this.focusRow(seen.at(-1));
      case "ArrowRight":
        if (this.isParent(row) && !this.isOpen(row)) return () => this.open(row);
        return () => this.focusCell(cells[0]);
      case "ArrowLeft": return () => (this.isOpen(row) ? this.close(row) : this.focusRow(this.parent(row)));
      case "Enter": return () => (row.querySelector("a.label") ?? row.querySelector("a, button"))?.click();
      case " ": return () => this.select(row);
      case "x": return () => row.querySelector("input.pick")?.click();
      default: return null;
    }
  }

  cellKey(event, row) {
    const cell = event.target.closest("th, td");
    if (!cell || (event.target !== cell && !event.key.startsWith("Arrow"))) return null;
    const cells = this.cells(row);
    const at = cells.indexOf(cell);
    const seen = this.seen;
    const here = seen.indexOf(row);
    const column = (other) => other && this.focusCell(this.cells(other)[Math.min(at, this.cells(other).length - 1)]);
    switch (event.key) {
      case "ArrowRight": return () => this.focusCell(cells[at + 1]);
      case "ArrowLeft": return () => (at > 0 ? this.focusCell(cells[at - 1]) : this.focusRow(row));
      case "ArrowDown": return () => column(seen[here + 1]);
      case "ArrowUp": return () => column(seen[here - 1]);
      case "PageDown": return () => column(seen[Math.min(here + PAGE, seen.length - 1)]);
      case "PageUp": return () => column(seen[Math.max(here - PAGE, 0)]);
      case "Home": return () => (event.ctrlKey ? column(seen[0]) : this.focusCell(cells[0]));
      case "End": return () => (event.ctrlKey ? column(seen.at(-1)) : this.focusCell(cells.at(-1)));
      case "Enter": return () => (at === 0 ? row.querySelector("a.label")?.click() : this.select(row));
      default: return null;
    }
  }
}

for (const table of document.querySelectorAll("[data-treegrid]")) new TreeGrid(table);
