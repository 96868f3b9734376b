// Where the fields of a tree are: parts of the whole in, pixels out. No page in here.
const HEADER = 20, GAP = 2;  // above the fields within a field of a treemap, and on the other sides
const LEAST = 4;  // pixels: within less nothing is drawn

/** Boxes {x, y, width, height} by the place of the field; a field that isn't drawn has none.
 *
 * fields: each after the one it is in, with `parent`, the place of that one (-1 for the whole), and `size`, its part of
 * the whole. What the fields within a field leave of it stays empty.
 */
export function icicle(fields, width, height, mostLevels) {
  const level = [], boxes = [], filled = [], whole = fields[0].size || 1;
  for (const { parent } of fields) level.push(parent < 0 ? 0 : level[parent] + 1);
  const levels = Math.min(Math.max(...level) + 1, mostLevels), wide = width / levels;
  for (const [at, { parent, size }] of fields.entries()) {
    if (level[at] >= levels) continue;
    const y = filled[parent] ?? 0, tall = (size / whole) * height;
    filled[parent] = y + tall;
    filled[at] = y;
    boxes[at] = { x: level[at] * wide, y, width: wide, height: tall };
  }
  return boxes;
}

/** The same as a treemap. A box with others within has `isHeader`: its words are in the strip above them. */
export function treemap(fields, width, height) {
  const within = fields.map(() => []), boxes = [{ x: 0, y: 0, width, height }];
  for (const [at, { parent, size }] of fields.entries()) if (parent >= 0 && size > 0) within[parent].push(at);
  for (const [at, { size }] of fields.entries()) {
    const box = boxes[at];
    if (!box || !within[at].length) continue;
    const inner = { x: box.x + GAP, y: box.y + HEADER, width: box.width - 2 * GAP, height: box.height - HEADER - GAP };
    if (Math.min(inner.width, inner.height) < LEAST) continue;
    box.isHeader = true;
    squarify(within[at], (one) => fields[one].size, size, inner, boxes);
  }
  return boxes;
}

/** Rows across the shorter side, each with as many as make its boxes the squarest (Bruls, Huizing, van Wijk, 2000). */
function squarify(places, sizeOf, whole, { x, y, width, height }, boxes) {
  let left = Math.max(whole, places.reduce((sum, at) => sum + sizeOf(at), 0)), from = 0;
  while (from < places.length) {
    const isAcross = width >= height, side = isAcross ? height : width, area = (width * height) / left;
    let to = from, sum = 0, worst = Infinity;
    while (to < places.length) {
      const next = sum + sizeOf(places[to]), thick = (next * area) / side;
      const longs = places.slice(from, to + 1).map((at) => (sizeOf(at) / next) * side);
      const ratio = Math.max(...longs.map((long) => Math.max(long / thick, thick / long)));
      if (ratio > worst) break;
      [worst, sum, to] = [ratio, next, to + 1];
    }
    const thick = (sum * area) / side;
    let along = 0;
    for (const at of places.slice(from, to)) {
      const long = (sizeOf(at) / sum) * side;
      boxes[at] = isAcross ? { x, y: y + along, width: thick, height: long } : { x: x + along, y, width: long, height: thick };
      along += long;
    }
    if (isAcross) { x += thick; width -= thick; } else { y += thick; height -= thick; }
    left -= sum;
    from = to;
  }
}
