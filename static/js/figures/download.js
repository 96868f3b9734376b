// A picture as PNG (twice its size) or SVG: title, sentence and colours above, policy, revision and moment below.
import { FONT, node, widthOf } from "./svg.js";
import { color } from "./theme.js";

const HEAD = 64, FOOT = 26, EDGE = 8, LINE = 110, PNG_SCALE = 2;
const SWATCH = 15, APART = 18, ROW = 18;  // of the colours: a mark, between two of them, a line of them

function wrapped(text, length) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1).length + word.length > length) lines.push("");
    lines[lines.length - 1] += `${lines.at(-1) && " "}${word}`;
  }
  return lines;
}

/** Colours in words, each with its place from the left, in as many lines as the width needs. */
function legendLines(legend, width) {
  const lines = [];
  let at = width;
  for (const swatch of legend) {
    const wide = SWATCH + widthOf(swatch.text, "12px") + APART;
    if (at + wide > width) { lines.push([]); at = 0; }
    lines.at(-1).push({ ...swatch, at });
    at += wide;
  }
  return lines;
}

const markOf = ({ is_dot, is_outlined, is_hatched }) => (is_dot ? "○" : is_outlined ? "□" : is_hatched ? "▨" : "■");

/** The picture between its words, an SVG as text. It stays text: read by the page it would lose Plotly's styles. */
async function withWords(frame) {
  const { answer, width } = frame, legend = legendLines(answer.legend, width - 2 * EDGE);
  const sentence = wrapped(answer.sentence, Math.floor((width / 1000) * LINE)).slice(0, 3);
  const head = HEAD + 14 * (sentence.length - 1) + ROW * legend.length, tall = frame.plot.clientHeight, height = head + tall + FOOT;
  const text = (words, y, size, token, more = {}) => node("text", { x: EDGE, y, "font-size": size, fill: color(token), ...more }, words);
  const picture = (await frame.toSvg(width, tall)).replace("<svg", `<svg y="${head}"`);
  const whole = node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": FONT },
    node("rect", { width, height, fill: color("$surface") }),
    text(answer.title, 20, 14, "$ink", { "font-weight": 600 }),
    ...sentence.map((line, at) => text(line, 40 + 14 * at, 12, "$ink-2")),
    ...legend.flatMap((line, at) => line.flatMap((one) => {
      const y = 46 + 14 * (sentence.length - 1) + ROW * (at + 1);
      return [text(markOf(one), y, 13, one.is_hatched || one.is_outlined ? "$line-strong" : one.color, { x: EDGE + one.at }), text(one.text, y, 12, "$ink-2", { x: EDGE + one.at + SWATCH })];
    })),
    text(answer.caption, height - 9, 11, "$ink-3"));
  return { svg: new XMLSerializer().serializeToString(whole).replace(/<\/svg>$/, () => `${picture}</svg>`), width, height };
}

const dataUrl = (blob) => new Promise((done, failed) => {
  const reader = new FileReader();
  reader.addEventListener("load", () => done(reader.result));
  reader.addEventListener("error", () => failed(reader.error));
  reader.readAsDataURL(blob);
});

/** The page's own font in the picture: an image loads nothing by itself. */
async function withFont(svg) {
  const url = document.querySelector("[data-figure-font]")?.dataset.figureFont;
  if (!url) return svg;
  const font = await dataUrl(await (await fetch(url)).blob());
  const rule = `<style>@font-face{font-family:Inter;font-weight:100 900;src:url(${font}) format("woff2")}</style>`;
  return svg.replace(/<svg[^>]*>/, (opening) => opening + rule);
}

/** As pixels: through an image of the same origin, which no blob address is for the policy of the page. */
async function pixels(svg, width, height) {
  const image = new Image();
  image.src = await dataUrl(new Blob([await withFont(svg)], { type: "image/svg+xml" }));
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: width * PNG_SCALE, height: height * PNG_SCALE });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}

async function save(frame, format) {
  const { svg, width, height } = await withWords(frame);
  const blob = format === "png" ? await pixels(svg, width, height) : new Blob([svg], { type: "image/svg+xml" });
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: `${frame.answer.file}.${format}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function addDownload(frame) {
  const menu = frame.element.querySelector(".fig-menu");
  if (!menu || menu.querySelector("button")) return;
  for (const format of ["png", "svg"]) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: format.toUpperCase() });
    button.dataset.download = format;
    button.addEventListener("click", () => { menu.hidePopover?.(); save(frame, format); });
    menu.append(button);
  }
}
