// The slider of the past says the day that it stands on, and goes there a moment after the last step.
import { dayWords } from "./days.js";

const WAIT_MS = 600;

function prepare(form) {
  const slider = form.querySelector("input[type=range]");
  const chosen = form.querySelector("[data-chosen]");
  const stored = new Set(form.dataset.stored.split(" "));
  const stops = [...slider.list.options].map((option) => [Number(option.value), option.label]);
  const EPOCH = 719163;  // the ordinal of 1 January 1970
  const words = () => {
    const day = Number(slider.value);
    if (slider.value === slider.max) return form.dataset.nowWord;
    const revision = stops.filter(([at]) => at <= day).at(-1)?.[1];
    const origin = stored.has(slider.value) ? form.dataset.storedWord : form.dataset.computedWord;
    return [dayWords(new Date((day - EPOCH) * 86_400_000).toISOString().slice(0, 10)), revision, origin].filter(Boolean).join(", ");
  };
  const say = () => { chosen.textContent = words(); slider.setAttribute("aria-valuetext", words()); };
  let timer;
  slider.addEventListener("input", () => { say(); clearTimeout(timer); });
  slider.addEventListener("change", () => { clearTimeout(timer); timer = setTimeout(() => form.requestSubmit(), WAIT_MS); });
  form.addEventListener("submit", () => clearTimeout(timer));
  say();
}

for (const form of document.querySelectorAll("[data-look-back]")) prepare(form);
document.addEventListener("htmx:load", ({ target }) => { for (const form of target.querySelectorAll("[data-look-back]")) prepare(form); });
