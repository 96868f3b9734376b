// Amounts from the left to the right as bands between two columns of bars. Arrows go from piece to piece.
import { Drawing } from "./drawing.js";
import { node, shortened, widthOf } from "./svg.js";
import { color } from "./theme.js";

const BAR = 10, APART = 14, BESIDE = 6, EDGE = 8, LINE = 16;

/** Where the bars of a column are, {y, height} each; the column is in the middle. scale: pixels per unit. */
function placed(amounts, scale, height) {
  const tall = amounts.reduce((sum, one) => sum + one * scale, 0) + APART * (amounts.length - 1);
  let y = (height - tall) / 2;
  return amounts.map((amount) => {
    const bar = { y, height: amount * scale };
    y += bar.height + APART;
    return bar;
  });
}

const sum = (numbers) => numbers.reduce((total, one) => total + one, 0);

/** How many pixels a unit is: the column with less room decides. */
function scaleOf(columns, height) {
  return Math.min(...columns.map((amounts) => (height - APART * (amounts.length - 1)) / (sum(amounts) || 1)));
}

export class Flow extends Drawing {
  piecesOf(width, height) {
    const { sources, targets, links } = this.answer.flow, inner = height - 2 * EDGE;
    const columns = [sources, targets].map((bars) => bars.map(({ amount }) => amount)), scale = scaleOf(columns, inner);
    const [left, right] = columns.map((amounts) => placed(amounts, scale, inner).map((bar) => ({ ...bar, y: bar.y + EDGE })));
    const x = [EDGE, width - EDGE - BAR], taken = [left.map(({ y }) => y), right.map(({ y }) => y)];
    const bands = links.map((link) => {
      const tall = link.amount * scale, from = taken[0][link.source], to = taken[1][link.target];
      taken[0][link.source] += tall;
      taken[1][link.target] += tall;
      return this.band(link, { from, to, tall, left: x[0] + BAR, right: x[1] });
    });
    const bars = [sources, targets].flatMap((column, side) => column.map((bar, at) => this.bar(bar, [left, right][side][at], x[side], side, width)));
    return [...bands, ...bars];
  }

  band({ color: token, lines }, { from, to, tall, left, right }) {
    const middle = (left + right) / 2, curve = (y, yTo, x, xTo) => `${x} ${y}C${middle} ${y} ${middle} ${yTo} ${xTo} ${yTo}`;
    const d = `M${curve(from, to, left, right)}L${curve(to + tall, from + tall, right, left)}Z`.replace(/\d+\.\d+/g, (number) => Number(number).toFixed(1));
    return { shape: node("path", { d, fill: color(token), "fill-opacity": 0.34, class: "band" }), texts: [], lines, spot: [middle, (from + to + tall) / 2] };
  }

  bar({ color: token, name, part, lines }, { y, height }, x, side, width) {
    const room = width / 2 - 2 * EDGE - BAR, text = `${shortened(name, room - widthOf(`  ${part}`))}\u2002${part}`;
    const at = { x: side ? x - BESIDE : x + BAR + BESIDE, y: y + height / 2 + 4.5, fill: color("$ink"), "text-anchor": side ? "end" : "start", "pointer-events": "none" };
    return {
      shape: node("rect", { x, y, width: BAR, height: Math.max(height, 1), fill: color(token) }),
      texts: [node("text", at, text)],
      lines,
      spot: [x, y + Math.min(height, LINE)],
    };
  }

  keys() {
    const last = this.pieces.length - 1;
    const by = (step) => () => this.go(this.at === null ? 0 : Math.max(0, Math.min(last, this.at + step)));
    return { ArrowDown: by(1), ArrowRight: by(1), ArrowUp: by(-1), ArrowLeft: by(-1), Home: () => this.go(0), End: () => this.go(last) };
  }
}
