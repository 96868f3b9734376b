// A picture as PNG (twice its size) or SVG: title, sentence and colours above, policy, revision and moment below.
import { CONFIG, color } from "./theme.js";

const HEAD = 64, FOOT = 26, LINE = 110, PNG_SCALE = 2;
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
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "12px Inter, system-ui, sans-serif";
  const lines = [];
  let at = width;
  for (const swatch of legend) {
    const wide = SWATCH + pen.measureText(swatch.text).width + APART;
    if (at + wide > width) { lines.push([]); at = 0; }
    lines.at(-1).push({ ...swatch, at });
    at += wide;
  }
  return lines;
}

const markOf = ({ is_dot, is_outlined, is_hatched }) => (is_dot ? "○" : is_outlined ? "□" : is_hatched ? "▨" : "■");
const asText = (words) => words.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

function withWords(frame, legend) {
  const { answer, box } = frame, { width } = frame;
  const lines = wrapped(answer.sentence, Math.floor((width / 1000) * LINE)).slice(0, 3);
  const layout = structuredClone(box.layout);
  const text = (words, y, shift, font, at = 0) => ({ xref: "paper", yref: "paper", x: 0, xanchor: "left", xshift: 8 - layout.margin.l + at, y, yanchor: y ? "top" : "bottom", yshift: shift, align: "left", showarrow: false, text: words, font });
  layout.margin = { ...layout.margin, t: layout.margin.t + HEAD + 14 * (lines.length - 1) + ROW * legend.length, b: layout.margin.b + FOOT };
  layout.paper_bgcolor = color("$surface");
  if (layout.xaxis?.rangeslider) layout.xaxis.rangeslider.visible = false;
  layout.annotations = [
    ...(layout.annotations ?? []),
    text(answer.title, 1, layout.margin.t - 6, { size: 14, weight: 600, color: color("$ink") }),
    text(lines.join("<br>"), 1, layout.margin.t - 28, { size: 12, color: color("$ink-2") }),
    ...legend.flatMap((line, number) => line.flatMap((one) => {
      const shift = layout.margin.t - 34 - 14 * lines.length - ROW * number;
      return [
        text(markOf(one), 1, shift, { size: 13, color: color(one.color) }, one.at),
        text(asText(one.text), 1, shift, { size: 12, color: color("$ink-2") }, one.at + SWATCH),
      ];
    })),
    text(answer.caption, 0, -(layout.margin.b - 4), { size: 11, color: color("$ink-3") }),
  ];
  return { data: box.data, layout, config: CONFIG };
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
  const { width } = frame, legend = legendLines(frame.answer.legend, width - 16);
  const height = frame.plot.clientHeight + HEAD + FOOT + ROW * legend.length;
  const svg = await frame.Plotly.toImage(withWords(frame, legend), { format: "svg", width, height, imageDataOnly: true });
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
