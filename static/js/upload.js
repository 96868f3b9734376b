// The drop zone and the progress of sending a file. The form works without this module.
import { announce } from "./shell.js";

function size(bytes) {
  for (const [unit, factor] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (bytes >= factor) return `${(bytes / factor).toFixed(bytes / factor < 10 ? 1 : 0)}\u00a0${unit}`;
  }
  return `${bytes}\u00a0B`;
}

function show(form) {
  const input = form.querySelector("input[type=file]");
  const chosen = form.querySelector("[data-chosen]");
  const tooLarge = form.querySelector("[data-too-large]");
  const file = input.files[0];
  form.querySelector("[data-drop]").dataset.full = file ? "1" : "";
  chosen.textContent = file ? size(file.size) : "";
  tooLarge.hidden = !file || file.size <= Number(form.dataset.limit);
  return tooLarge.hidden;
}

function showNewSource(form) {
  const field = form.querySelector("[data-new-source]");
  if (field) field.hidden = form.querySelector("[name=source]").value !== "+";
}

function prepare(form) {
  const zone = form.querySelector("[data-drop]");
  const input = form.querySelector("input[type=file]");
  for (const name of ["dragenter", "dragover"]) {
    zone.addEventListener(name, (event) => { event.preventDefault(); zone.dataset.over = "1"; });
  }
  for (const name of ["dragleave", "drop"]) zone.addEventListener(name, () => { delete zone.dataset.over; });
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    if (!event.dataTransfer.files.length) return;
    const one = new DataTransfer();
    one.items.add(event.dataTransfer.files[0]);
    input.files = one.files;
    if (show(form)) announce(`${input.files[0].name}, ${size(input.files[0].size)}`);
  });
  input.addEventListener("change", () => show(form));
  form.querySelector("[name=source]")?.addEventListener("change", () => showNewSource(form));
}

// A refused form is morphed in place: the chosen file stays, what was shown for it has to be shown again.
const prepared = new WeakSet();
function prepareAll() {
  for (const form of document.querySelectorAll("form[data-upload]")) {
    if (!prepared.has(form)) prepare(form);
    prepared.add(form);
    showNewSource(form);
    show(form);
  }
}

document.addEventListener("htmx:beforeRequest", (event) => {
  const form = event.target.closest?.("form[data-upload]");
  if (form && !show(form)) event.preventDefault();
});
document.addEventListener("htmx:xhr:progress", (event) => {
  const form = event.target.closest?.("form[data-upload]");
  if (!form || !event.detail.lengthComputable) return;
  const percent = Math.floor((100 * event.detail.loaded) / event.detail.total);
  const sending = form.querySelector("[data-sending]");
  sending.hidden = false;
  const bar = sending.querySelector("[role=progressbar]");
  bar.setAttribute("aria-valuenow", String(percent));
  bar.querySelector(".bar").setAttribute("width", String(6.4 * percent));
  sending.querySelector("b").textContent = `${percent}\u00a0%`;
  if (percent % 25 === 0) announce(bar.getAttribute("aria-label") + ` ${percent}\u00a0%`);
});
document.addEventListener("htmx:afterSettle", prepareAll);
document.addEventListener("htmx:responseError", (event) => {
  const sending = event.target.closest?.("form[data-upload]")?.querySelector("[data-sending]");
  if (sending) sending.hidden = true;
});
prepareAll();
