// Shares of one group: targets, what a pulled border means in shares, and which operation it becomes. No page in here.
// In proportion only the pulled entry is edited: w = p · S / (1 − p) with S the shares of all others, which keep theirs,
// so that their targets fall in proportion. A chosen giver takes the difference: the sum of both stays.
const MOST_PART = 0.95; // of the whole: beyond it a border would stand for hundreds of shares a pixel
const FINE_PARTS = 1000;
const FINEST = 0.01;
const DIGITS = 12; // significant ones of a computed number, as the server rounds percentages

/** Twelve significant digits: 60, not 60.00000000000001. */
export const clean = (value) => Number(value.toPrecision(DIGITS));

/** Whole shares are the default where all are whole. */
export const isWhole = (rows) => rows.every((row) => row.shares === null || Number.isInteger(row.shares));

/** The smallest change of a share: 1, or at most a hundredth and a thousandth of the pool. */
export function stepOf(pool, whole) {
  if (whole) return 1;
  return pool > 0 ? Math.min(FINEST, 10 ** Math.floor(Math.log10(pool / FINE_PARTS) + 1e-9)) : FINEST;
}

/** The nearest number of steps, halves up, and at least one: 0 shares can be typed, not pulled. */
export function snap(value, step) {
  return clean(Math.max(1, Math.floor(value / step + 0.5 + 1e-9)) * step);
}

/** What a group is while borders are pulled: shares by uid over those of the draft. */
export class Group {
  constructor(numbers) {
    this.numbers = numbers;
    this.rows = numbers.rows;
    this.byUid = new Map(numbers.rows.map((row) => [row.uid, row]));
    this.total = this.pool(new Map()); // in the draft
  }

  shares(uid, edits) {
    return edits.get(uid) ?? this.byUid.get(uid).shares ?? 0;
  }

  pool(edits) {
    return this.rows.reduce((sum, row) => sum + this.shares(row.uid, edits), this.numbers.rest);
  }

  /** Each row as it would be: shares, target and state. */
  at(edits) {
    const pool = this.pool(edits);
    return this.rows.map((row) => {
      const shares = row.shares === null && !edits.has(row.uid) ? null : this.shares(row.uid, edits);
      const target = shares === null ? null : pool > 0 ? Math.min(shares / pool, 1) : 0;
      return { ...row, shares, target, state: this.state(row, target) };
    });
  }

  /** As the revision has it. */
  before() {
    return this.rows.map((row) => ({ ...row, shares: row.shares_before, target: row.target_before ?? 0 }));
  }

  /** Where the target stands among those that the entry's usage would be on, as the server has computed them. */
  state(row, target) {
    if (row.actual === null || target === null) return "nodata";
    if (!row.has_usage && target > 0) return "idle";
    if (target < row.on_from) return "over";
    return row.on_to === null || target <= row.on_to ? "on" : "under";
  }

  /** Fewest and most shares that a border can give; equal where it can't move. */
  range(uid, giver, edits, step) {
    const own = this.shares(uid, edits);
    if (giver) {
      const both = clean(own + this.shares(giver, edits));
      return [Math.min(step, own), Math.max(clean(both - step), own)];
    }
    const others = this.pool(edits) - own;
    return [Math.min(step, own), Math.max(others * (MOST_PART / (1 - MOST_PART)), own)];
  }

  /** Shares that give an entry this part, 0..1, not rounded; Infinity where nothing is left for the others. */
  sharesFor(uid, part, giver, edits) {
    const pool = this.pool(edits);
    if (giver) return part * pool;
    const others = pool - this.shares(uid, edits);
    return part >= 1 ? Infinity : (part * others) / (1 - part);
  }

  /** The edits with another number of shares for one entry, within its range. */
  edited(uid, value, giver, edits, step) {
    const [least, most] = this.range(uid, giver, edits, step);
    const kept = clean(Math.min(Math.max(value, least), most));
    const found = new Map(edits);
    found.set(uid, kept);
    if (giver) found.set(giver, clean(this.shares(uid, edits) + this.shares(giver, edits) - kept));
    for (const [each, shares] of found) if (shares === this.byUid.get(each).shares) found.delete(each);
    return found;
  }

  /** The edits with a number that was typed: whether it is possible is for the server to say. */
  typed(uid, value, giver, edits) {
    const found = new Map(edits).set(uid, value);
    if (giver) found.set(giver, Math.max(clean(this.shares(uid, edits) + this.shares(giver, edits) - value), 0));
    return found;
  }

  /** Fields of the one operation that the edits of a drop are; null where nothing changes. */
  operation(uid, giver, edits) {
    if (!edits.has(uid)) return null;
    const shares = edits.get(uid);
    const fields = [["op", "set_shares"], ["entry", uid]];
    if (!giver) return [...fields, ["shares", String(shares)], ["mode", "shares"]];
    const percent = (100 * shares) / this.pool(edits);
    return [...fields, ["shares", String(percent)], ["mode", "percent"], ["from", "chosen"], ["giver", giver]];
  }
}
