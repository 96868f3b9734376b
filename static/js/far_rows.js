// Long treegrids stay light: the cells of rows far from the window are detached, and come back before the row is seen,
// focused or written. Each row keeps its own element, its height and its ARIA attributes.
const MARGIN = "64px 0px", FEW_ROWS = 50;
const detached = new WeakMap();

/** The row, with its cells. */
export function attach(row) {
  if (!row || !detached.has(row)) return row;
  if (!row.cells.length) row.append(...detached.get(row));  // a swap may have brought fresh ones
  detached.delete(row);
  row.style.height = "";
  return row;
}

function detach(row) {
  const isNeeded = row.getAttribute("aria-selected") === "true" || row.contains(document.activeElement)
    || row.querySelector("input.pick:checked, .problem, [aria-invalid]");
  if (isNeeded || !row.cells.length || !row.dataset.uid) return;
  row.style.height = row.offsetHeight ? `${row.offsetHeight}px` : "";
  detached.set(row, [...row.childNodes]);
  row.replaceChildren();
}

export class FarRows {
  constructor(table) {
    this.observer = new IntersectionObserver((seen) => this.moved(seen), { rootMargin: MARGIN });
    addEventListener("beforeprint", () => table.querySelectorAll("tbody tr").forEach(attach));
  }

  moved(seen) {
    for (const { target, isIntersecting } of seen) {
      if (isIntersecting) attach(target);
      else if (this.n > FEW_ROWS) detach(target);
    }
  }

  watch(rows) {
    this.n = rows.length;
    this.observer.disconnect();
    rows.forEach((row) => this.observer.observe(row));
  }
}
