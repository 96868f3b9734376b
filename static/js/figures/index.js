// All figures of a page: drawn when they come near the window, drawn again when state, theme, width or numbers change.
import { plotly } from "./bundle.js";
import { FairLine } from "./fair_line.js";
import { Flow } from "./flow.js";
import { Frame } from "./frame.js";
import { Heat } from "./heat.js";
import "./kept.js";
import { OverTime } from "./over_time.js";
import "./page_state.js";
import { Panels } from "./panels.js";
import { frames } from "./registry.js";
import { onTheme } from "./theme.js";
import { Tree } from "./tree.js";

const AHEAD = "400px";
const KINDS = { "fair-line": FairLine, heat: Heat, "over-time": OverTime, tree: Tree, flow: Flow };
const begun = new Set();  // also those whose first numbers are on their way

/** Every frame that has been drawn; others begin when they are near. */
export const drawn = () => [...frames.values()].filter((frame) => frame.answer);

const near = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    near.unobserve(entry.target);
    const frame = frames.get(entry.target);
    if (!frame) continue;
    if (frame.constructor.needsPlotly) plotly().catch(() => {});  // on its way while the numbers come; who draws sees whether it came
    begun.add(frame);
    frame.load({ quiet: true });
  }
}, { rootMargin: AHEAD });

function mountAll(root) {
  for (const element of root.querySelectorAll?.("[data-figure], [data-panels]") ?? []) {
    if (frames.has(element)) continue;
    const Kind = element.matches("[data-panels]") ? Panels : KINDS[element.dataset.figure] ?? Frame;
    frames.set(element, new Kind(element));
    near.observe(element);
  }
}

function unmount(root) {
  for (const [element, frame] of frames) {
    if (!root.contains(element)) continue;
    frame.remove();
    frame.gone?.();
    begun.delete(frame);
    near.unobserve(element);
    frames.delete(element);
  }
}

const reload = () => Promise.all([...begun].map((frame) => frame.load({ quiet: true })));
document.addEventListener("figure:state", reload);
// Also a link to a place within the page, such as the skip link, sets off popstate: the state is then the one shown.
let shown = location.search;
document.addEventListener("figure:state", () => { shown = location.search; });
addEventListener("popstate", () => {
  if (location.search === shown) return;
  shown = location.search;
  reload();
});
onTheme(() => drawn().forEach((frame) => frame.answer.empty || frame.draw()));
let timer;
new ResizeObserver(() => { clearTimeout(timer); timer = setTimeout(() => drawn().forEach((frame) => frame.resized()), 80); }).observe(document.body);
document.addEventListener("htmx:beforeSwap", (event) => event.detail.target && unmount(event.detail.target));
document.addEventListener("htmx:afterSwap", () => mountAll(document));
mountAll(document);
