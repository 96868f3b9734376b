// plotly.js is fetched when a figure that it draws comes near the window, after the page is painted and behind all else.
// A site serves it so that browsers compile it beside the page while it arrives; what is preloaded they would compile in
// the way of whoever types or reads. Running it takes a moment then.
import { painted } from "./turns.js";

let loading = null;

async function load(src) {
  await painted();
  return new Promise((done, failed) => {
    const script = Object.assign(document.createElement("script"), { src, fetchPriority: "low" });
    script.addEventListener("load", () => done(window.Plotly));
    script.addEventListener("error", () => { script.remove(); failed(new Error("plotly.js")); });
    document.head.append(script);
  });
}

/** Plotly, whose basic bundle draws lines and bars; asked for again after it didn't come, it is fetched again. */
export function plotly() {
  loading ??= load(document.querySelector("[data-plotly]").dataset.plotly).catch((error) => { loading = null; throw error; });
  return loading;
}
