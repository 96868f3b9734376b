// Making and moving nodes: geometry goes into SVG attributes, so that no style has to be set.
const SVG = "http://www.w3.org/2000/svg";
const SHAPES = new Set(["svg", "g", "rect", "path", "circle", "text", "use", "title"]);
const sprite = document.querySelector("svg use[href*='icons']")?.getAttribute("href").split("#")[0] ?? "";

export function el(name, attributes = {}, ...children) {
  const node = SHAPES.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  set(node, attributes);
  node.append(...children);
  return node;
}

const SIZES = new Set(["width", "height"]);

/** Attributes that differ are written; pixels to a tenth. What has no room is 0 wide: browsers complain of less. */
export function set(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    const pixels = SIZES.has(key) && typeof value === "number" ? Math.max(value, 0) : value;
    const text = typeof pixels === "number" ? String(Math.round(pixels * 10) / 10) : String(pixels);
    if (node.getAttribute(key) !== text) node.setAttribute(key, text);
  }
}

export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export const icon = (name, classes = "") => el("svg", { class: `i ${classes}`.trim(), "aria-hidden": "true" }, el("use", { href: `${sprite}#${name}` }));

export function fragmentOf(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return holder.content;
}

/** Says that something isn't saved, and why. */
export function noteOf(words) {
  const note = document.getElementById("refused-template").content.cloneNode(true);
  note.querySelector(".words").textContent = words;
  return note;
}

/** "10.6 → 11.8 %", or the number alone where both read the same. */
export function fromTo(host, before, now, to) {
  const key = `${before}|${now}`;
  if (host.dataset.shown === key) return;
  host.dataset.shown = key;
  if (before === "" || before === now) host.replaceChildren(now);
  else {
    const arrow = el("span", { class: "drawn to" }, ` ${to} `);
    host.replaceChildren(el("span", { class: "pct" }, el("s", {}, before.replace("\u00a0%", "")), arrow, el("b", {}, now)));
  }
}

/** As much of a name as fits; nothing where hardly a letter would. */
export function fit(text, width, letter = 6.9) {
  if (text.length * letter <= width) return text;
  return width < 34 ? "" : `${text.slice(0, Math.max(1, Math.floor(width / letter) - 1))}…`;
}
