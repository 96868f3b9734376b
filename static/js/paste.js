// A pasted table of thousands of rows takes a moment to check: the page says how many it works on.
import { announce } from "./shell.js";

const form = document.getElementById("paste");
const rows = () => form.elements.table.value.split("\n").filter((line) => line.trim()).length;

form.addEventListener("submit", (event) => {
  const isAdded = event.submitter?.value === "apply";
  const [words, n] = isAdded ? [form.dataset.adding, Number(form.dataset.edits)] : [form.dataset.checking, rows()];
  const text = words.replace("{n}", n.toLocaleString(document.documentElement.lang));
  form.querySelectorAll(".work > span").forEach((place) => { place.textContent = text; });
  announce(text);
});
