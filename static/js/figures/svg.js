// Nodes of a picture. Geometry and colours are attributes, so that a saved picture has them, too.
const SVG = "http://www.w3.org/2000/svg";

export function node(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
  }
  made.append(...children);
  return made;
}

/** A copy of a picture that needs no style sheet: these properties are attributes, and it holds no link. */
export function styled(picture, properties) {
  const copy = picture.cloneNode(true), from = picture.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((one, at) => {
    const style = getComputedStyle(from[at]);
    for (const name of properties) one.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "id", "href", "tabindex", "role", "aria-label"]) one.removeAttribute(name);
  });
  return copy;
}

export const FONT = "Inter, system-ui, sans-serif";
const FEWEST = 4;
let pen;

/** Pixels that words take in one line. font: size and weight. */
export function widthOf(text, font = "500 12px") {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = `${font} ${FONT}`;
  return pen.measureText(text).width;
}

/** As much of a text as fits, begin and end of it: siblings often begin alike. Nothing where not even four letters do. */
export function shortened(text, room) {
  if (widthOf(text) <= room) return text;
  const letters = [...text];
  const part = (n) => `${letters.slice(0, Math.ceil(n / 2)).join("")}…${letters.slice(letters.length - Math.floor(n / 2)).join("")}`;
  let low = 0, high = letters.length;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (widthOf(part(middle)) <= room) low = middle; else high = middle - 1;
  }
  return low < FEWEST ? "" : part(low);
}
