// A picture is one tab stop: arrows move the read-out from point to point, + and − zoom, Page Up and Down move along,
// 0 shows all, Escape leaves.
import { dayWords } from "../days.js";
import { announce } from "../shell.js";
import { pan, zoom } from "./zoom.js";

const curves = (box) => (box.data ?? []).map((trace, at) => [trace, at]).filter(([trace]) => trace.meta?.read && trace.visible !== false);

/** What the head of the read-out says. It isn't read from there: Plotly draws the read-out a moment later. */
function headOf(axis, x) {
  const text = axis.unifiedhovertitle?.text ?? "%{x}";
  return text.replace(/%\{x(?::\.(\d)f|\|([^}]*))?\}/g, (_, digits, form) => {
    if (axis.type === "date") return dayWords(x, { weekday: (form ?? "%a").includes("%a") });
    return digits ? Number(x).toFixed(digits) : String(x);
  });
}

/** The sentence of one moment: what its head says, then every series. */
export function reading(box, point) {
  const read = curves(box);
  const when = headOf(box._fullLayout.xaxis, read[0][0].x[point]);
  const spoken = read.map(([one]) => [one.name, one.customdata?.[point]].filter(Boolean).join(" ")).join(". ");
  return `${when}. ${spoken}`;
}

/** For what is drawn in `frame.box`, null while nothing is; `frame.plot` takes the focus. */
export function addKeys(frame) {
  const { Plotly, plot } = frame;
  let at = null;
  const go = (point) => {
    const { box } = frame;
    const read = curves(box);
    if (!read.length) return;
    const n = read[0][0].x.length;
    at = Math.max(0, Math.min(n - 1, point));
    const x = read[0][0].x[at];
    Plotly.Fx.hover(box, { xval: box._fullLayout.xaxis.d2c(x) });
    announce(reading(box, at));
  };
  plot.addEventListener("keydown", (event) => {
    const { box } = frame;
    if (!box || event.target !== plot || event.ctrlKey || event.metaKey || event.altKey) return;
    const n = curves(box)[0]?.[0].x.length ?? 0;
    const here = at ?? n, by = event.shiftKey ? 7 : 1;
    const act = {
      ArrowLeft: () => go(here - by), ArrowRight: () => go(Math.min(here, n - 1) + by), Home: () => go(0), End: () => go(n - 1),
      Escape: () => { at = null; Plotly.Fx.unhover(box); },
      "+": () => zoom(frame, 0.5), "-": () => zoom(frame, 2),
      PageUp: () => pan(frame, -0.5), PageDown: () => pan(frame, 0.5), 0: () => frame.showAll(),
      Enter: () => at !== null && frame.openMoment(curves(box)[0][0].x[at]),
    }[event.key];
    if (!act || (!n && !"+-0PageUpDown".includes(event.key))) return;
    event.preventDefault();
    act();
  });
}
