// What depends on the width of the picture: labels at the ends of lines, pushed apart, and rules with their labels.
import { color } from "./theme.js";

const GAP = 17, TWO_LINES = 31, NEAR = 52;

/** Labels at the right end. `size` is the picture's inner box in pixels, `range` that of the y axis. */
export function endLabels(labels, { top, height }, range) {
  const px = (v) => top + height * (1 - (v - range[0]) / (range[1] - range[0]));
  const gap = Math.min(labels.some((one) => one.text.includes("<br>")) ? TWO_LINES : GAP, height / labels.length);
  const rows = labels.map((one) => ({ ...one, from: px(one.at), to: px(one.at) })).sort((a, b) => a.from - b.from);
  for (let round = 0; round < 60; round++) {
    let moved = false;
    for (let i = 1; i < rows.length; i++) {
      const short = gap - (rows[i].to - rows[i - 1].to);
      if (short > 0.01) { rows[i - 1].to -= short / 2; rows[i].to += short / 2; moved = true; }
    }
    for (const row of rows) {
      const held = Math.min(Math.max(row.to, top + 2), top + height - 2);
      if (held !== row.to) { row.to = held; moved = true; }
    }
    if (!moved) break;
  }
  return {
    annotations: rows.map((row) => ({
      xref: "paper", x: 1, xanchor: "left", xshift: row.swatch ? 26 : 8, yref: "y", y: row.at, yanchor: "middle",
      yshift: row.from - row.to, text: row.text, align: "left", showarrow: false,
      font: { size: 12, color: color(row.color) },
    })),
    shapes: rows.filter((row) => row.swatch).map((row) => ({
      type: "line", xref: "paper", xsizemode: "pixel", xanchor: 1, x0: 8, x1: 20, yref: "y", ysizemode: "pixel",
      yanchor: row.at, y0: row.from - row.to, y1: row.from - row.to, line: { color: color(row.swatch), width: 3 },
    })),
  };
}

/** Dotted rules; the label of one that is near a later one is left out, its rule stays. */
export function markLabels(marks, range, width, hint) {
  const px = (at) => (width * (Date.parse(at) - Date.parse(range[0]))) / (Date.parse(range[1]) - Date.parse(range[0]));
  const seen = marks.filter((one) => px(one.at) >= 0 && px(one.at) <= width).sort((a, b) => px(b.at) - px(a.at));
  let last = Infinity;
  const shapes = [], annotations = [];
  for (const mark of seen) {
    const isNear = last - px(mark.at) < NEAR;
    if (!isNear) last = px(mark.at);
    shapes.push({ type: "line", x0: mark.at, x1: mark.at, yref: "paper", y0: 0, y1: 1, layer: "below", line: { color: color("$remote/0.75"), width: 1, dash: "1.5px,3px" } });
    annotations.push({
      x: mark.at, yref: "paper", y: 1, yanchor: "bottom", yshift: 5, xanchor: "center", showarrow: false,
      text: isNear || !mark.label ? " " : mark.label, name: mark.url, captureevents: Boolean(mark.url),
      hovertext: [mark.text, mark.url && hint].filter(Boolean).join("<br>"), font: { size: 11, color: color("$remote") },
    });
  }
  return { shapes, annotations };
}
