// What polling needs besides htmx: a pause, announcements, and focus that doesn't get lost.
import { announce } from "./shell.js";

const pause = document.querySelector("[data-pause]");
let announced = "";

function sayChange() {
  const text = document.getElementById("progress")?.dataset.announce ?? "";
  if (text && text !== announced && announced !== "") announce(text);
  announced = text;
}

function isPoll(event) {
  return event.target.matches?.("[data-poll]");
}

if (pause) {
  pause.addEventListener("click", () => {
    const stopped = pause.getAttribute("aria-pressed") !== "true";
    pause.setAttribute("aria-pressed", String(stopped));
  });
}
document.addEventListener("htmx:beforeRequest", (event) => {
  if (isPoll(event) && (document.hidden || pause?.getAttribute("aria-pressed") === "true")) event.preventDefault();
});
document.addEventListener("htmx:afterSwap", () => {
  sayChange();
  if (document.querySelector("[data-poll]")) return;
  if (pause) pause.hidden = true;
  if (document.activeElement === document.body) document.getElementById("verdict")?.focus();
});
sayChange();
