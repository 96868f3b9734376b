// The part of the range that all pictures of a page show: in the page's address, so that Back undoes it.
import { dayWords } from "../days.js";
import { announce } from "../shell.js";

/** The day of a moment that Plotly gives, rounded: a drag ends between two days. */
export function dayOf(moment) {
  const at = Date.parse(`${String(moment).slice(0, 19).replace(" ", "T")}${String(moment).length > 10 ? "Z" : ""}`);
  return new Date(Math.round(at / 864e5) * 864e5).toISOString().slice(0, 10);
}

/** zoom: first and last day, or null for the whole range. */
export function setZoom(zoom) {
  const query = new URLSearchParams(location.search), before = query.get("zoom");
  if (zoom) query.set("zoom", zoom.join("..")); else query.delete("zoom");
  if (before !== query.get("zoom")) history.pushState({}, "", query.size ? `?${query}` : location.pathname);
  document.dispatchEvent(new CustomEvent("figure:state"));
  const words = document.querySelector("[data-zoom-words]")?.dataset;
  if (words && before !== query.get("zoom")) announce(zoom ? words.zoomed.replace("FIRST", dayWords(zoom[0])).replace("LAST", dayWords(zoom[1])) : words.reset);
}
