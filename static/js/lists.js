// Lists that a page shows whole: sorted by the titles of columns, narrowed by a word, saved as CSV. What the server pages
// or sorts itself, a form, and what is `data-plain` (a tree) is left alone. Order and word stay when live numbers come.
const LEAST_ROWS = 5, LEAST_TO_FILTER = 12;
const NUMBER = /^([+−-]?\d[\d,\u202f]*(?:\.\d+)?)\s*(.*)$/s;
const BARE_NUMBER = /^[+−-]?\d+(?:,\d{3})*(?:\.\d+)?$/;
const UNKNOWN = new Set(["", "–", "—"]);
const OWN = "input:not([type=hidden], [type=checkbox]), select, textarea";  // a table that is a form
const collator = new Intl.Collator(document.documentElement.lang || "en", { numeric: true, sensitivity: "base" });
const words = document.getElementById("list-words")?.dataset;
const states = new Map();  // by list: column, order, word

const plain = (node) => node.textContent.replace(/\s+/g, " ").trim();
const titleOf = (list) => list.closest("[aria-labelledby]")?.getAttribute("aria-labelledby") ?? "";

/** Rows with the detail rows below each. */
function groupsOf(table) {
  const groups = [];
  for (const row of table.tBodies[0]?.rows ?? []) {
    if (row.classList.contains("detail") && groups.length) groups.at(-1).push(row);
    else groups.push([row]);
  }
  return groups;
}

const sectionOf = (table) => table.closest("section, details") ?? table.closest(".table-wrap").parentElement;

function isWhole(table) {
  return !sectionOf(table).querySelector("[data-next], a[href*='cursor='], a[href*='before='], a[href*='after='], a[href*='page=']");
}

/** What cells of a column are compared by: numbers of one unit, instants or texts; null where units differ. */
function keysOf(cells) {
  const times = cells.map((cell) => cell?.querySelector("time[datetime]")?.dateTime);
  if (times.some(Boolean)) return times.map((time) => (time ? Date.parse(time) : null));
  const texts = cells.map((cell) => (cell && !UNKNOWN.has(plain(cell)) ? plain(cell) : null));
  if (texts.every((text) => text === null)) return null;
  const parts = texts.map((text) => (text === null ? null : NUMBER.exec(text)));
  if (texts.some((text, at) => text !== null && !parts[at]) || cells.some((cell) => cell?.tagName === "TH")) return texts;
  const units = new Set(parts.filter(Boolean).map((part) => part[2]));
  return units.size === 1 ? parts.map((part) => part && Number(part[1].replace(/[,\u202f]/g, "").replace("−", "-"))) : null;
}

function compare(a, b) {
  return typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a, b);
}

class List {
  constructor(table) {
    this.name = `${location.pathname}#${titleOf(table)}`;
    this.state = states.get(this.name) ?? { column: -1, order: "", word: "" };
    states.set(this.name, this.state);
    this.take(table);
    this.addTools();
    this.show();
  }

  /** With the rows in the order in which the server sent them. */
  take(table) {
    this.table = table;
    this.groups = groupsOf(table);
    this.isRestored = false;
    this.addTitles();
  }

  /** Before new rows are written into the old ones. */
  restore() {
    this.table.tBodies[0]?.append(...this.groups.flat().filter((row) => row.isConnected));
    this.isRestored = true;
  }

  get heads() {
    return [...this.table.tHead.rows[0].cells];
  }

  addTitles() {
    if (this.table.tHead.rows.length > 1 || this.table.tHead.querySelector("a, button:not(.sort)")) return;
    for (const [column, head] of this.heads.entries()) {
      if (!plain(head) || head.querySelector(".sr, .sort") || head.colSpan > 1) continue;
      if (!keysOf(this.groups.map(([row]) => row.cells[column]))) continue;
      const button = Object.assign(document.createElement("button"), { type: "button", className: "sort" });
      button.append(...head.childNodes);
      button.addEventListener("click", () => this.turn(column));
      head.append(button);
    }
  }

  /** Ascending, descending, as the server ordered them. */
  turn(column) {
    const { state } = this, next = { "": "ascending", ascending: "descending", descending: "" };
    state.order = state.column === column ? next[state.order] : "ascending";
    state.column = state.order ? column : -1;
    this.show();
  }

  addTools() {
    const tools = Object.assign(document.createElement("div"), { className: "list-tools" });
    const section = sectionOf(this.table), title = section.querySelector("h2, h3, summary"), heading = title ? plain(title) : document.title;
    if (this.groups.length >= LEAST_TO_FILTER) {
      this.field = Object.assign(document.createElement("input"), { type: "search", className: "input", placeholder: words.filter, value: this.state.word });
      this.field.setAttribute("aria-label", `${words.filter}: ${heading}`);
      this.field.addEventListener("input", () => { this.state.word = this.field.value; this.show(); });
      this.count = Object.assign(document.createElement("span"), { className: "muted small" });
      this.count.setAttribute("role", "status");
      tools.append(this.count, this.field);
    }
    if (!section.querySelector("a[href*='.csv'], a[download]") && !document.querySelector(".toolbar a[href*='.csv'], .page-head a[href*='.csv']")) {
      const button = Object.assign(document.createElement("button"), { type: "button", className: "btn ghost sm", textContent: "CSV" });
      button.setAttribute("aria-label", `CSV: ${heading}`);
      button.addEventListener("click", () => this.save(heading));
      tools.append(button);
    }
    tools.list = this;  // also without a tool, so that the list is known again
    const header = section.querySelector(":scope > header");
    if (header) header.append(tools);
    else this.table.closest(".table-wrap").before(tools);
  }

  show() {
    const { state, groups, table } = this, word = state.word.trim().toLocaleLowerCase();
    let ordered = groups;
    if (state.order) {
      const keys = keysOf(groups.map(([row]) => row.cells[state.column])), sign = state.order === "ascending" ? 1 : -1;
      ordered = keys ? groups.map((group, at) => [group, keys[at]])
        .sort(([, a], [, b]) => (a === null || b === null ? (a === null) - (b === null) : sign * compare(a, b)))
        .map(([group]) => group) : groups;
    }
    for (const [column, head] of this.heads.entries()) {
      if (column === state.column && head.querySelector(".sort")) head.setAttribute("aria-sort", state.order);
      else head.removeAttribute("aria-sort");
    }
    const body = table.tBodies[0], now = [...body.rows], wanted = ordered.flat();
    if (wanted.some((row, at) => row !== now[at])) body.append(...wanted);
    let n = 0;
    for (const group of groups) {
      const isShown = !word || group.some((row) => plain(row).toLocaleLowerCase().includes(word));
      n += isShown;
      for (const row of group) row.classList.toggle("is-filtered", !isShown);
    }
    if (this.count) this.count.textContent = word ? `${n} / ${groups.length}` : "";
  }

  /** What is shown, in its order; instants as ISO, numbers without groups. What a spreadsheet would compute begins with '. */
  save(heading) {
    const columns = this.heads.map((head, at) => [head, at]).filter(([head]) => plain(head) && !head.querySelector(".sr"));
    const rows = [...this.table.tBodies[0].rows].filter((row) => !row.matches(".detail, .is-filtered"));
    const field = (cell) => {
      const text = cell?.querySelector("time[datetime]")?.dateTime ?? (cell ? plain(cell) : "");
      if (BARE_NUMBER.test(text)) return text.replace(/,/g, "").replace("−", "-");
      const safe = /^[=@+-]/.test(text.normalize("NFKC").replace(/^[\s\p{C}]+/u, "")) ? `'${text}` : text;
      return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
    };
    const lines = [columns.map(([head]) => field(head)), ...rows.map((row) => columns.map(([, at]) => field(row.cells[at])))];
    const link = Object.assign(document.createElement("a"), {
      href: URL.createObjectURL(new Blob([lines.map((line) => line.join(",")).join("\r\n") + "\r\n"], { type: "text/csv" })),
      download: `${heading.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "")}.csv`,
    });
    link.click();
    URL.revokeObjectURL(link.href);
  }
}

const known = (table) => [...sectionOf(table).querySelectorAll(".list-tools")].map((tools) => tools.list).find((list) => list.table === table || !list.table.isConnected);

function begin() {
  for (const table of document.querySelectorAll(".table-wrap > table.cards")) {
    const list = known(table);
    if (list) {
      if (list.isRestored || list.table !== table) { list.take(table); list.show(); }
      continue;
    }
    if ("plain" in table.dataset || table.querySelector(OWN) || groupsOf(table).length < LEAST_ROWS || !isWhole(table)) continue;
    new List(table);
  }
}

function restoreAll() {
  for (const tools of document.querySelectorAll(".list-tools")) tools.list?.restore();
}

if (words) {
  begin();
  for (const event of ["htmx:beforeSwap", "parts:stale"]) document.addEventListener(event, restoreAll);
  for (const event of ["htmx:afterSettle", "htmx:afterRequest", "parts:fresh"]) document.addEventListener(event, begin);
}
