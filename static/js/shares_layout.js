// Where segments and cells are: numbers in, places in pixels out. No page in here.
const SMALL_PX = 26; // below this a segment joins the group of small ones
const FEWEST_SMALL = 3;
export const PAGE = 24; // small ones that are enlarged at a time

/** Which entries are drawn on their own: by targets of the revision or of the draft, so that dragging moves none. */
export function partsOf(order, length, giver) {
  const isBig = (row) => row.uid === giver || Math.max(row.target_before ?? 0, row.target ?? 0) * length >= SMALL_PX;
  const drawn = order.filter((row) => row.shares > 0 || row.shares_before > 0);
  const small = drawn.filter((row) => !isBig(row));
  if (small.length < FEWEST_SMALL) return { big: drawn.filter((row) => row.uid !== giver), small: [], gives: drawn.filter((row) => row.uid === giver) };
  return { big: drawn.filter((row) => isBig(row) && row.uid !== giver), small, gives: drawn.filter((row) => row.uid === giver) };
}

/** Segments of the main bar: big ones, the group of small ones, the rest elsewhere, and who gives, at the end. */
export function mainSegments(parts, rows, rest, length) {
  const now = new Map(rows.map((row) => [row.uid, row]));
  const of = (list) => list.map((row) => now.get(row.uid));
  const list = of(parts.big).map((row) => ({ row, size: row.target ?? 0 }));
  if (parts.small.length) {
    const group = of(parts.small);
    list.push({ group, size: group.reduce((sum, row) => sum + (row.target ?? 0), 0) });
  }
  if (rest > 0) list.push({ rest: true, size: rest });
  list.push(...of(parts.gives).map((row) => ({ row, size: row.target ?? 0 })));
  return placed(list, length);
}

/** A page of the small ones over the whole length. */
export function smallSegments(parts, rows, page, length) {
  const now = new Map(rows.map((row) => [row.uid, row]));
  const shown = parts.small.slice(page * PAGE, (page + 1) * PAGE).map((row) => now.get(row.uid));
  return placed(shown.map((row) => ({ row, size: row.target ?? 0 })), length);
}

function placed(list, length) {
  const total = list.reduce((sum, item) => sum + item.size, 0) || 1;
  let at = 0;
  for (const item of list) {
    item.from = at;
    at += (item.size / total) * length;
    item.to = at;
  }
  return list;
}

/** Squarified rows of uids; they are kept while a border is pulled, so that no cell leaves its place. */
export function mapStructure(rows, width, height) {
  const list = rows.filter((row) => row.target > 0).sort((a, b) => b.target - a.target);
  const out = [];
  let [w, h, rest, i] = [width, height, list.reduce((sum, row) => sum + row.target, 0), 0];
  while (i < list.length) {
    const across = w >= h;
    const side = across ? h : w;
    const area = (w * h) / (rest || 1);
    let [best, n, sum] = [Infinity, 1, list[i].target];
    for (let k = 1; i + k <= list.length; k += 1) {
      const taken = list.slice(i, i + k);
      const s = taken.reduce((a, row) => a + row.target, 0);
      const thick = (s * area) / side;
      const worst = Math.max(...taken.map((row) => {
        const long = (row.target / s) * side;
        return Math.max(long / thick, thick / long);
      }));
      if (worst > best) break;
      [best, n, sum] = [worst, k, s];
    }
    out.push({ across, uids: list.slice(i, i + n).map((row) => row.uid) });
    const thick = (sum * area) / side;
    if (across) w -= thick;
    else h -= thick;
    rest -= sum;
    i += n;
  }
  return out;
}

/** Cells by uid: x, y, width and height. */
export function mapCells(structure, rows, width, height) {
  const now = new Map(rows.map((row) => [row.uid, row]));
  const cells = new Map();
  let [x, y, w, h] = [0, 0, width, height];
  let rest = structure.flatMap((each) => each.uids).reduce((sum, uid) => sum + now.get(uid).target, 0);
  for (const { across, uids } of structure) {
    const inside = uids.map((uid) => now.get(uid));
    const sum = inside.reduce((a, row) => a + row.target, 0);
    const thick = rest > 1e-9 ? (sum / rest) * (across ? w : h) : 0;
    let at = 0;
    for (const row of inside) {
      const long = sum ? (row.target / sum) * (across ? h : w) : 0;
      cells.set(row.uid, across ? { x, y: y + at, w: thick, h: long, row } : { x: x + at, y, w: long, h: thick, row });
      at += long;
    }
    if (across) [x, w] = [x + thick, w - thick];
    else [y, h] = [y + thick, h - thick];
    rest -= sum;
  }
  return cells;
}
