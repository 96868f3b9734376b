// Zooming and moving along x: by the wheel, by keys, and what of it stays when new numbers come.
const TICKS = 6;

const isDate = (range) => typeof range[0] === "string";
const number = (value) => (typeof value === "string" ? Date.parse(`${value.replace(" ", "T")}${value.includes("Z") ? "" : value.length > 10 ? "Z" : "T00:00Z"}`) : Number(value));
const text = (value, like) => (isDate(like) ? new Date(value).toISOString().slice(0, 19).replace("T", " ") : value);

export const rangeOf = (box) => box._fullLayout.xaxis.range.slice();

/** A range as one word, to the second. */
export const seen = (range) => range.map((one) => Math.round(number(one) / 1000)).join();

function show(frame, from, to) {
  const range = rangeOf(frame.box);
  return frame.showRange([text(from, range), text(to, range)]);
}

const widened = ([from, to], by, at) => { const fixed = from + (to - from) * at; return [fixed - (fixed - from) * by, fixed + (to - fixed) * by]; };
const along = ([from, to], by) => [from + (to - from) * by, to + (to - from) * by];

/** by: the factor of the width; its right end stays where it is. */
export const zoom = (frame, by) => show(frame, ...widened(rangeOf(frame.box).map(number), by, 1));

/** by: part of the width. */
export const pan = (frame, by) => show(frame, ...along(rangeOf(frame.box).map(number), by));

/** The wheel zooms a picture that has the focus, or with Ctrl; else it scrolls the page. With Shift it moves along. */
export function addWheel(frame) {
  let asked = null;  // the range that the next frame of the screen shows: a wheel turns more often than it is drawn
  const draw = () => { if (frame.box) show(frame, ...asked); asked = null; };
  frame.plot.addEventListener("pointerdown", () => frame.plot.focus({ preventScroll: true }));
  frame.plot.addEventListener("wheel", (event) => {
    if (!frame.box || (document.activeElement !== frame.plot && !event.ctrlKey)) return;
    event.preventDefault();
    if (!asked) requestAnimationFrame(draw);
    const { l, w } = frame.box._fullLayout._size, box = frame.plot.getBoundingClientRect();
    const at = Math.min(Math.max((event.clientX - box.left - l) / w, 0), 1), range = asked ?? rangeOf(frame.box).map(number);
    const isAlong = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    asked = isAlong ? along(range, Math.sign(event.deltaX || event.deltaY) * 0.1) : widened(range, event.deltaY > 0 ? 1.25 : 0.8, at);
  }, { passive: false });
}

/** What somebody zoomed to, with new numbers: it moves along where its right end was that of the numbers before. */
export function moved(chosen, before, now) {
  const [old, fresh] = [before, now].map((answer) => answer?.layout.xaxis?.range);
  if (!old || !fresh) return null;
  const [from, to] = chosen.range.map(number), by = number(fresh[1]) - number(old[1]);
  if (to < number(old[1]) - 1000 || !by) return chosen;
  return { ...chosen, range: [from + by, to + by].map((one) => text(one, chosen.range)) };
}

/** Range and ticks of y for the points that are seen; `answer.fits` says which values are always in it. */
export function fitted(answer, range) {
  const [from, to] = range.map(number), { tickvals, ticktext, range: usual } = answer.layout.yaxis;
  const values = [...answer.fits.always];
  for (const trace of answer.data.filter((one) => one.meta?.read)) {
    trace.x.forEach((x, at) => { const place = number(x); if (trace.y[at] !== null && place >= from && place <= to) values.push(trace.y[at]); });
  }
  if (values.length === answer.fits.always.length) return { tickvals, ticktext, range: usual };
  const pad = Math.max((Math.max(...values) - Math.min(...values)) * 0.06, 0.5);
  const low = answer.fits.from_zero ? 0 : Math.min(...values) - pad, high = Math.max(...values) + pad;
  const step = tickvals.length > 1 ? tickvals[1] - tickvals[0] : 1;
  const every = [1, 2, 5, 10, 20, 50, 100].find((n) => (high - low) / (step * n) <= TICKS) ?? 100;
  const kept = tickvals.map((value, at) => [value, ticktext[at]]).filter(([value]) => Math.round(value / step) % every === 0);
  return { tickvals: kept.map(([value]) => value), ticktext: kept.map(([, words]) => words), range: [low, high] };
}
