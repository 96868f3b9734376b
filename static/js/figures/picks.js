// A form that adds a series to a figure: the page's address is its state, as for every control of a figure.
import { drawn } from "./index.js";

document.addEventListener("submit", (event) => {
  const form = event.target.closest?.("[data-pick-form]");
  const frame = form && drawn().find((one) => one.element.id === `fig-${form.dataset.pickForm}`);
  if (!frame) return;  // the server answers the form
  event.preventDefault();
  const input = form.querySelector("input[list]");
  const query = new URLSearchParams(location.search);
  const { picks = [], slots = "" } = frame.answer;
  query.delete("pick");
  for (const pick of [...picks, input.value.trim()]) query.append("pick", pick);
  if (slots) query.set("slots", slots);
  input.value = "";
  history.pushState({}, "", `?${query}`);
  document.dispatchEvent(new CustomEvent("figure:state"));
});
