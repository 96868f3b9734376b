// The siblings as a treemap: the picked cell has a right and a lower border to pull, each where it can move.
import { el, fit, put, set } from "./editor_dom.js";
import { makeGrip } from "./shares_bar.js";
import { mapCells, mapStructure } from "./shares_layout.js";
import { say } from "./editor_words.js";
import { gap, percent } from "./numbers.js";

const coarse = matchMedia("(pointer: coarse)");

export function buildMap(host, rows, width, height) {
  const structure = mapStructure(rows, width, height);
  const svg = el("svg", { class: "pull-svg map", width, height, role: "group", "aria-label": say("map") });
  const nodes = new Map();
  for (const uid of structure.flatMap((each) => each.uids)) {
    const node = { box: el("rect", { class: "seg-box", rx: 2 }), name: el("text", { class: "seg-name" }), value: el("text", { class: "seg-pct" }) };
    node.g = el("g", { class: "pull-seg", "data-uid": uid }, node.box, node.name, node.value);
    nodes.set(uid, node);
    svg.append(node.g);
  }
  const grip = makeGrip("", false);
  const edges = ["e", "s"].map((side) => el("g", { class: `pull-edge ${side} off`, "data-edge": side }, el("rect", { class: "hit" }), el("rect", { class: "pill" })));
  svg.append(grip, ...edges);
  host.replaceChildren(svg);
  return { svg, isMap: true, nodes, structure, width, height, grip, edges };
}

export const cellOf = (map, rows, uid) => mapCells(map.structure, rows, map.width, map.height).get(uid);

/** `grown`: rows with some more for the picked entry, to see which of its borders would move; null while one is pulled. */
export function drawMap(map, rows, view, grown) {
  const cells = mapCells(map.structure, rows, map.width, map.height);
  for (const [uid, cell] of cells) drawCell(map.nodes.get(uid), cell, view);
  const cell = cells.get(view.picked);
  const isPullable = Boolean(cell) && view.canPull(view.picked) && view.picked !== view.giver;
  map.grip.classList.toggle("off", !isPullable);
  map.grip.classList.toggle("on", isPullable);
  if (!cell || !isPullable) {
    map.edges.forEach((edge) => edge.classList.add("off"));
    return;
  }
  set(map.grip, { tabindex: 0, "data-grip": view.picked });
  set(map.grip.lastElementChild, { x: cell.x + 3, y: cell.y + 3, width: Math.max(cell.w - 6, 2), height: Math.max(cell.h - 6, 2), rx: 2 });
  view.describe(map.grip, cell.row);
  drawEdges(map, cell, grown && cellOf(map, grown, view.picked));
}

function drawCell(node, cell, view) {
  const [w, h] = [Math.max(cell.w - 2, 1), Math.max(cell.h - 2, 1)];
  const { row } = cell;
  const flags = [row.uid === view.picked && "on", row.uid === view.giver && "gives", view.edited(row.uid) && "edited", !view.canPull(row.uid) && row.uid !== view.giver && "fixed"];
  set(node.g, { class: ["pull-seg", ...flags.filter(Boolean)].join(" ") });
  set(node.box, { x: cell.x + 1, y: cell.y + 1, width: w, height: h });
  set(node.g, { "data-level": levelOf(row) });
  set(node.name, { x: cell.x + 8, y: cell.y + 18 });
  set(node.value, { x: cell.x + 8, y: cell.y + 34 });
  put(node.name, h > 24 ? fit(row.name, w - 12) : "");
  put(node.value, h > 44 && w > 52 ? valueText(row, w) : "");
}

/** How deep a cell is coloured: by points from the target, in steps of 5 and 12; 0 on target, idle without demand. */
function levelOf(row) {
  if (row.state === "idle" || row.state === "nodata") return "idle";
  if (row.state === "on") return "0";
  const off = Math.abs(row.actual - row.target);
  return `${row.state === "over" ? "o" : "u"}${off > 0.12 ? 3 : off > 0.05 ? 2 : 1}`;
}

function valueText(row, width) {
  const off = row.state === "over" || row.state === "under";
  if (!off) return percent(row.target);
  const text = gap(row.actual, row.target);
  return width > 124 ? `${percent(row.target)}, ${text} ${say(row.state)}` : `${row.state === "over" ? "▲" : "▼"} ${text}`;
}

function drawEdges(map, cell, grown) {
  const [east, south] = map.edges;
  if (grown) {
    east.classList.toggle("off", Math.abs(grown.x + grown.w - cell.x - cell.w) < 0.5 || cell.x + cell.w > map.width - 2);
    south.classList.toggle("off", Math.abs(grown.y + grown.h - cell.y - cell.h) < 0.5 || cell.y + cell.h > map.height - 2);
  }
  const wide = coarse.matches ? 44 : 16;
  set(east.children[0], { x: cell.x + cell.w - wide / 2, y: cell.y, width: wide, height: cell.h });
  set(east.children[1], { x: cell.x + cell.w - 3, y: cell.y + cell.h / 2 - 12, width: 6, height: 24, rx: 3 });
  set(south.children[0], { x: cell.x, y: cell.y + cell.h - wide / 2, width: cell.w, height: wide });
  set(south.children[1], { x: cell.x + cell.w / 2 - 12, y: cell.y + cell.h - 3, width: 24, height: 6, rx: 3 });
}
