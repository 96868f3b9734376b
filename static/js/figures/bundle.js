// plotly.js is fetched when a figure that it draws comes near the window, after the page is painted and behind all else,
// and run when the browser has nothing to do: nobody who types or reads waits for it.
import { idle, painted } from "./turns.js";

let loading = null;

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

/** Plotly, whose basic bundle draws lines and bars; asked for again after it didn't come, it is fetched again. */
export function plotly() {
  loading ??= load(document.querySelector("[data-plotly]").dataset.plotly).catch((error) => { loading = null; throw error; });
  return loading;
}
