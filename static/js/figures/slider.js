// A number of the page's query as a slider beside the picture, and as a line in it that is pulled by mouse or finger.
// The picture follows: one request at a time, the newest number last.
const NEAR = 14; // pixels from the line at which it is taken

export function sliderOf({ label, slider }) {
  const form = document.createElement("form"), text = document.createElement("label"), input = document.createElement("input");
  form.className = "range";
  form.dataset.slider = slider.name;
  Object.assign(input, { type: "range", name: slider.name, min: slider.low, max: slider.high, step: slider.step });
  text.append(`${label} `, input);
  form.append(text, document.createElement("output"));
  updateSlider(form, slider);
  return form;
}

/** An answer is shown only while it is that of the page's address, so the slider may take its value. */
export function updateSlider(form, { value, text }) {
  const input = form.querySelector("[type=range]");
  input.value = value;
  input.setAttribute("aria-valuetext", text);
  form.querySelector("output").textContent = text;
}

/** `input` moves the state of the page, `change` ends it: one step back undoes a pull. */
export function slide(frame, event) {
  const form = event.target.closest("form[data-slider]");
  if (!form) return;
  event.preventDefault();
  if (event.type === "change") frame.isSliding = false;
  if (event.type !== "input") return;
  const query = new URLSearchParams(location.search), { name, value } = event.target;
  query.set(name, value);
  history[frame.isSliding ? "replaceState" : "pushState"]({}, "", `?${query}`);
  frame.isSliding = true;
  follow(frame);
}

async function follow(frame) {
  if (frame.isFollowing) return;
  frame.isFollowing = true;
  let drawn;
  do {
    drawn = frame.source;
    await frame.load({ quiet: true });
  } while (drawn !== frame.source);
  frame.isFollowing = false;
}

/** Pulling at the line whose place is the slider's value. Arrow keys work on the slider. */
export function addDrag(frame) {
  const { plot } = frame;
  if (!frame.answer.slides) return;
  const input = () => frame.element.querySelector(`[type=range][name="${frame.answer.slides}"]`);
  const left = () => plot.getBoundingClientRect().left + frame.box._fullLayout._size.l;
  const distance = (event) => Math.abs(event.clientX - left() - frame.box._fullLayout.xaxis.d2p(Number(input().value)));
  const isNear = (event) => event.isPrimary && distance(event) <= NEAR;
  let isPulled = false;
  const stop = (event) => { if (isPulled || (event.type !== "touchstart" && distance(event) <= NEAR)) event.stopPropagation(); };
  for (const kind of ["mousedown", "touchstart"]) plot.addEventListener(kind, stop, { capture: true });
  plot.addEventListener("pointerdown", (event) => {
    if (!isNear(event)) return;
    isPulled = true;
    plot.setPointerCapture(event.pointerId);
    event.preventDefault();
  }, { capture: true });
  plot.addEventListener("pointermove", (event) => {
    plot.classList.toggle("is-pulled", isPulled || (event.pointerType === "mouse" && isNear(event)));
    if (!isPulled) return;
    const slider = input(), before = slider.value;
    slider.value = frame.box._fullLayout.xaxis.p2d(event.clientX - left());
    if (slider.value !== before) slider.dispatchEvent(new Event("input", { bubbles: true }));
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    plot.addEventListener(kind, () => {
      if (!isPulled) return;
      isPulled = false;
      input().dispatchEvent(new Event("change", { bubbles: true }));
    });
  }
}
