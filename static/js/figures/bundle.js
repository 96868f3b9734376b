// plotly.js is asked for once, when a figure comes near the window; pages without figures never load it.
let asked;

export function plotly() {
  asked ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = document.querySelector("[data-plotly]").dataset.plotly;
    script.addEventListener("load", () => done(window.Plotly));
    script.addEventListener("error", () => { asked = undefined; script.remove(); failed(new Error("plotly.js")); });
    document.head.append(script);
  });
  return asked;
}
