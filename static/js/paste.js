// A pasted table of thousands of rows takes a moment to check: the page says how many it works on, and sends it once.
import { announce } from "./shell.js";

const form = document.getElementById("paste");
const rows = () => form.elements.table.value.split("\n").filter((line) => line.trim()).length;

form.addEventListener("submit", (event) => {
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  const step = event.submitter?.value ?? "preview";
  const work = form.querySelector(`[data-work="${step}"]`);
  const [words, n] = step === "apply" ? [form.dataset.adding, Number(form.dataset.edits)] : [form.dataset.checking, rows()];
  const text = words.replace("{n}", n.toLocaleString(document.documentElement.lang));
  form.dataset.sent = step;
  form.querySelectorAll("button[type=submit]").forEach((button) => button.setAttribute("aria-disabled", "true"));
  work.hidden = false;
  work.lastElementChild.textContent = text;
  announce(text);
});

// The page that the back button shows again can be sent again.
addEventListener("pageshow", () => {
  delete form.dataset.sent;
  form.querySelectorAll("button[type=submit]").forEach((button) => button.removeAttribute("aria-disabled"));
  form.querySelectorAll("[data-work]").forEach((work) => { work.hidden = true; });
});
