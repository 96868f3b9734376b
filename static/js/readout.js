// Day by day, or hour by hour, along a panel, with the pointer or with arrow keys: what a panel draws, said in words and numbers.
import { announce } from "./shell.js";

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 26, TOP = 6;
const lang = document.documentElement.lang || "en";
const dayForm = new Intl.DateTimeFormat(lang, { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
const words = JSON.parse(document.querySelector("[data-readout-words]")?.dataset.readoutWords ?? "{}");
const hourForm = new Intl.DateTimeFormat(lang, { day: "numeric", month: "short", hour: "numeric", minute: "2-digit", hour12: false, timeZone: words.zone || "UTC" });

function numbers(text) {
  return text.split(",").map((one) => (one === "" ? null : Number(one)));
}

function percent(value) {
  return value === null ? "–" : `${value.toLocaleString(lang, { maximumFractionDigits: 1, minimumFractionDigits: 1 })}\u00a0%`;
}

function prepare(svg) {
  const { from, step, actual, target, states } = svg.dataset;
  if (!from || svg.dataset.ready) return;
  svg.dataset.ready = "yes";
  const days = numbers(actual), wanted = numbers(target), n = days.length;
  const first = step ? Date.parse(`${from}T00:00:00Z`) : Date.parse(from);
  const stepMs = step ? Number(step) * 86400000 : 3600000;
  const form = step ? dayForm : hourForm;
  const cursor = document.createElementNS(SVG, "path");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("visibility", "hidden");
  svg.append(cursor);
  const line = document.createElement("p");
  line.className = "readout";
  line.setAttribute("aria-hidden", "true");
  line.hidden = true;
  const numbersNow = svg.closest("[data-panel]")?.querySelector(".vals");
  (numbersNow ?? svg).after(line);
  const { width, height } = svg.viewBox.baseVal;
  const RIGHT = width - 8, BOTTOM = height - 18;
  let at = n - 1;

  function swap(isOn) {
    line.hidden = !isOn;
    if (numbersNow) numbersNow.hidden = isOn;
  }

  function text(i) {
    const day = form.format(new Date(first + i * stepMs));
    const said = [day, `${words.actual} ${percent(days[i])}`, `${words.target} ${percent(wanted[i])}`, words[states[i]]];
    return said.filter(Boolean).join(" · ");
  }
  function show(i) {
    at = Math.min(Math.max(i, 0), n - 1);
    const x = LEFT + ((at + 0.5) / n) * (RIGHT - LEFT);
    cursor.setAttribute("d", `M${x.toFixed(1)} ${TOP}V${BOTTOM}`);
    cursor.setAttribute("visibility", "visible");
    line.textContent = text(at);
    swap(true);
  }
  function hide() {
    if (document.activeElement === svg) return;
    cursor.setAttribute("visibility", "hidden");
    swap(false);
  }
  svg.setAttribute("tabindex", "0");
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    show(Math.floor(((x - LEFT) / (RIGHT - LEFT)) * n));
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("focus", () => show(at));
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: n - 1, PageUp: at - 7, PageDown: at + 7 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(moves[event.key]);
    announce(line.textContent);
  });
}

function prepareAll(root) {
  for (const svg of root.querySelectorAll("svg.panel-chart")) prepare(svg);
}

prepareAll(document);
document.addEventListener("htmx:afterSwap", () => prepareAll(document));
