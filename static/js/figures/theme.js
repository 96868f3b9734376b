// The one Plotly template, and design tokens as colours: "$name" is a token of tokens.css, "$name/0.4" that at 40 %.

const TEMPLATE = {
  layout: {
    font: { family: "Inter, system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, sans-serif", size: 11, color: "$ink-3" },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 44, r: 12, t: 8, b: 24, pad: 0 },
    colorway: ["$series-1", "$series-2", "$series-3", "$series-4", "$series-5", "$series-6", "$series-7", "$series-8"],
    showlegend: false,
    separators: ".,",
    hovermode: "x unified",
    hoverdistance: 40,
    dragmode: "zoom",
    selectdirection: "h",
    hoverlabel: {
      bgcolor: "$surface",
      bordercolor: "$line-strong",
      font: { family: "Inter, system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, sans-serif", size: 12, color: "$ink" },
      align: "left",
      namelength: -1,
      showarrow: false
    },
    legend: {
      orientation: "h",
      x: 0,
      y: 1,
      yanchor: "bottom",
      font: { size: 12, color: "$ink-2" },
      bgcolor: "rgba(0,0,0,0)",
      itemclick: "toggle",
      itemdoubleclick: "toggleothers"
    },
    modebar: { orientation: "h", bgcolor: "$surface", color: "$ink-3", activecolor: "$accent" },
    xaxis: {
      tickangle: 0,
      showgrid: false,
      zeroline: false,
      showline: true,
      linecolor: "$line-strong",
      linewidth: 1,
      ticks: "",
      tickfont: { size: 11, color: "$ink-3" },
      nticks: 6,
      automargin: false,
      fixedrange: false,
      showspikes: true,
      spikemode: "across",
      spikethickness: 1,
      spikedash: "solid",
      spikecolor: "$line-strong",
      spikesnap: "hovered data",
      unifiedhovertitle: {
        text: "%{x|%a %-d %b %Y}"
      },
      title: {
        font: { size: 11, color: "$ink-3" },
        standoff: 6
      }
    },
    yaxis: {
      showgrid: true,
      gridcolor: "$line",
      gridwidth: 1,
      zeroline: false,
      zerolinecolor: "$line-strong",
      showline: false,
      ticks: "",
      tickfont: { size: 11, color: "$ink-3" },
      nticks: 5,
      automargin: false,
      fixedrange: true,
      title: {
        font: { size: 11, color: "$ink-3" },
        standoff: 4
      }
    },
    annotationdefaults: {
      showarrow: false,
      font: { size: 11, color: "$ink-2" }
    },
    shapedefaults: {
      line: { color: "$line-strong", width: 1 }
    },
    coloraxis: { showscale: false },
    bargap: 0.28,
    barcornerradius: 1,
    uniformtext: { minsize: 11, mode: "hide" }
  },
  data: {
    scatter: [
      {
        line: { width: 1.75 },
        marker: {
          size: 6,
          line: { width: 1.5, color: "$surface" }
        },
        cliponaxis: false
      }
    ],
    bar: [
      {
        marker: {
          line: { width: 1, color: "$surface" }
        }
      }
    ]
  }
};

/** What every picture is created with: no mode bar, no logo, sizes set by the frame. */
export const CONFIG = {
  displaylogo: false, displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: false,
  showTips: false, editable: false,
};

let probe, pixel, found = {};

// A property with light-dark() or color-mix() comes back unresolved, so it is set as the colour of an element and one
// pixel of a canvas is read.
function rgb(name) {
  if (found[name]) return found[name];
  if (!probe) {
    probe = document.createElement("i");
    probe.hidden = true;
    document.body.append(probe);
    pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  }
  probe.style.color = `var(--${name})`;
  pixel.clearRect(0, 0, 1, 1);
  pixel.fillStyle = getComputedStyle(probe).color;
  pixel.fillRect(0, 0, 1, 1);
  found[name] = [...pixel.getImageData(0, 0, 1, 1).data].slice(0, 3);
  return found[name];
}

/** The colour of a token in the theme that is shown now. */
export function color(token) {
  const [name, alpha] = token.slice(1).split("/");
  const [r, g, b] = rgb(name);
  return alpha ? `rgba(${r},${g},${b},${alpha})` : `rgb(${r},${g},${b})`;
}

// Places and words of a figure, which people named: none of them is a colour, even one that begins with "$".
const WORDS = new Set(["x", "y", "z", "name", "text", "ticktext", "customdata", "hovertemplate"]);

/** A copy in which every token is a colour. */
export function resolve(value) {
  if (typeof value === "string") return value[0] === "$" ? color(value) : value;
  if (Array.isArray(value)) return value.map(resolve);
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, WORDS.has(k) ? v : resolve(v)]));
  return value;
}

export const template = () => resolve(TEMPLATE);

/** Calls back when the theme changes, by the switch or by the system. */
export function onTheme(redraw) {
  const changed = () => { found = {}; redraw(); };
  new MutationObserver(changed).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}
