// plotly.js is fetched when a figure comes near the window, after the page is painted and behind all else, and run when
// the browser has nothing to do: nobody who types or reads waits for it. The basic bundle draws lines and bars, which
// is what most pages have; where the page says that one of its figures needs more, the full one comes instead.
import { idle, painted } from "./turns.js";

const BASIC = new Set(["scatter", "bar"]);
const asked = new Map();  // by address

function element(name, attributes) {
  return new Promise((done, failed) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.addEventListener("load", () => done(made));
    made.addEventListener("error", () => { made.remove(); failed(new Error("plotly.js")); });
    document.head.append(made);
  });
}

async function load(src) {
  await painted();
  await element("link", { rel: "preload", as: "script", href: src, fetchPriority: "low" }).catch(() => {});  // the script says so
  await idle();
  await element("script", { src });
  return window.Plotly;
}

/** The Plotly that can draw these traces, and all others of the page. */
export function plotly(traces = []) {
  const { basic, full } = document.querySelector("[data-basic]").dataset;
  const isBasic = !document.querySelector("[data-needs-full]") && traces.every(({ type }) => BASIC.has(type));
  const src = isBasic ? basic : full;
  if (!asked.has(src)) {
    const loading = load(src);
    asked.set(src, loading);
    loading.catch(() => asked.delete(src));
  }
  return asked.get(src);
}
