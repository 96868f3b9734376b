// What an edit does, in words: the picked entry, and who is diluted by it.
import { el } from "./shares_dom.js";
import { move, percent, say, shares, tenth, whole } from "./shares_words.js";

const LISTED = 4;

/** Those whose target falls without an edit of their own, the largest loss first. */
export function dilutedOf(rows, edited) {
  const moved = rows.filter((row) => row.target !== null && row.target_before !== null && !edited(row)).map((row) => ({ name: row.name, from: row.target_before, to: row.target }));
  const lost = moved.filter((each) => each.to < each.from - 1e-9).sort((a, b) => a.to - a.from - (b.to - b.from));
  const gained = moved.filter((each) => each.to > each.from + 1e-9).sort((a, b) => b.to - b.from - (a.to - a.from));
  return { lost, gained };
}

export function drawReadout(host, row, { lost }, isPulled) {
  const parts = [el("b", {}, row.name), changed(row.target_before, row.target, percent, tenth)];
  if (row.shares !== null) parts.push(changed(row.shares_before, row.shares, shares, (n) => String(n)));
  parts.push(el("span", { class: "muted" }, say("used", { part: percent(row.actual) })));
  parts.push(el("span", { class: "muted push" }, isPulled ? say("escape") : lost.length ? say("diluted", { n: whole(lost.length) }) : ""));
  host.replaceChildren(...parts);
}

function changed(before, now, text, short) {
  const differs = before !== null && before !== undefined && text(before) !== text(now);
  return el("span", { class: "pct" }, ...(differs ? [el("s", {}, short(before)), " → "] : []), el("b", {}, text(now)));
}

export function drawEffect(host, row, known, giver, { lost, gained }) {
  const when = !known || known.on_target === "–" ? "" : !row.has_usage ? say("when_idle") : known.outcome === "on_target" ? say("when_now") : known.in_s === null ? say("when_not", { why: known.on_target }) : say("when_day", { day: known.on_target });
  const head = el("section", {}, el("h2", {}, row.name), el("p", { class: "small muted mt2" }, `${say("picked", { part: percent(row.actual), when })} ${giver ? say("gives", { name: giver.name }) : say("only_own")}`));
  const list = lost.length ? lost : gained;
  const each = lost.length && lost[0].from ? say("diluted_each", { n: whole(lost.length), part: percent(1 - lost[0].to / lost[0].from) }) : "";
  const items = list.slice(0, LISTED).map((one) => {
    const moved = move(one.from, one.to);
    return el("li", {}, el("span", {}, one.name), el("span", { class: "num" }, `${moved.from} ${say("to")} ${moved.to}`), el("b", { class: "num" }, moved.change));
  });
  if (!lost.length) items.unshift(el("li", { class: "muted" }, el("span", {}, gained.length ? say("gain") : say("nobody"))));
  if (list.length > LISTED) {
    const rest = list.slice(LISTED);
    items.push(el("li", { class: "muted" }, el("span", {}, say("more", { n: whole(rest.length) })), el("span"), el("span", { class: "num" }, move(0, rest.reduce((sum, one) => sum + one.to - one.from, 0)).change)));
  }
  host.replaceChildren(head, el("section", {}, el("h3", {}, say("who"), " ", el("span", { class: "muted small" }, each)), el("ul", { class: "pull-list" }, ...items)));
}
