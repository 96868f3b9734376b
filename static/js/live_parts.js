// Writes a new answer into the nodes of the page: only what differs, and never into a field that has the focus.
const FLASH_MS = 1200, MOST_FLASHES = 40;
const NUMBERS = ".c-target, .c-actual > .actual > span, .c-rank, td.num, .kpis dd, .big";

/** Nodes stay, with what people opened in them. Figures fetch their own numbers. */
const KEPT = new Set(["open", "aria-expanded", "aria-pressed"]);
const isSortable = (node, fresh) => node.matches?.("th:has(> .sort)") && node.textContent.trim() === fresh.textContent.trim();
const OPTIONS = {
  ignoreActiveValue: true,
  callbacks: {
    beforeNodeMorphed: (node, fresh) => !node.matches?.("[data-figure], [data-panels]") && !isSortable(node, fresh),
    beforeNodeRemoved: (node) => !node.matches?.(".list-tools"),
    beforeAttributeUpdated: (name, node) => !KEPT.has(name) && !(name === "hidden" && node.hasAttribute("data-live-if")),
  },
};

export function morph(old, fresh, morphStyle = "outerHTML") {
  document.dispatchEvent(new CustomEvent("parts:stale"));
  window.Idiomorph.morph(old, fresh, { ...OPTIONS, morphStyle });
  window.htmx?.process(old);
  document.dispatchEvent(new CustomEvent("parts:fresh"));
}

/** Runs `change`, then marks the numbers below `root` that read otherwise than before. */
export function flashed(root, change, numbers = NUMBERS) {
  const before = new Map([...root.querySelectorAll(numbers)].map((one) => [one, one.textContent]));
  change();
  const changed = [...root.querySelectorAll(numbers)].filter((one) => before.has(one) && before.get(one) !== one.textContent);
  if (changed.length > MOST_FLASHES) return;
  for (const one of changed) {
    one.classList.remove("flash");
    void one.offsetWidth;  // begins the animation anew
    one.classList.add("flash");
    setTimeout(() => one.classList.remove("flash"), matchMedia("(prefers-reduced-motion: reduce)").matches ? 3000 : FLASH_MS);
  }
}

/** The chip of the frame and its popover, which stays open. */
export function writeFresh(box, html) {
  morph(box, html, "innerHTML");
}

/** The counts of the navigation, by the address of the item. */
export function writeCounts(counts) {
  for (const { key, count, alert, counted } of counts) {
    for (const link of document.querySelectorAll(`[data-counted="${key}"]`)) writeCount(link, count, alert, counted);
  }
}

function writeCount(link, count, alert, counted) {
  let mark = link.querySelector(".count");
  if (!count) return mark?.remove();
  if (mark?.dataset.value === String(count)) return undefined;
  if (!mark) { mark = document.createElement("span"); link.append(mark); }
  mark.className = alert ? "count alert" : "count";
  mark.dataset.value = String(count);
  mark.replaceChildren(String(count), Object.assign(document.createElement("span"), { className: "sr", textContent: ` ${counted}` }));
  return undefined;
}

/** Elements with `data-live-part` name what they depend on; the page is fetched once for all that changed. Fragments
 *  with an address of their own listen to `live-<part>`. */
export async function refreshParts(changed) {
  for (const name of changed) document.body.dispatchEvent(new CustomEvent(`live-${name}`));
  const parts = [...document.querySelectorAll("[data-live-part]")]
    .filter((part) => part.dataset.livePart.split(" ").some((name) => changed.has(name)));
  if (!parts.length) return;
  const response = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error", cache: "no-store" }).catch(() => null);
  if (!response?.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const part of parts) {
    const now = part.id && fresh.getElementById(part.id);
    if (now && part.isConnected) flashed(part, () => morph(part, document.adoptNode(now)));
  }
}
