// While the slider of the past moves, its revision and day are told; the form goes there when it is sent.
for (const form of document.querySelectorAll("[data-stops]")) {
  const slider = form.querySelector("input[type=range]");
  const told = form.querySelector("[data-chosen]");
  const labels = new Map([...slider.list.options].map((option) => [option.value, option.label]));
  slider.addEventListener("input", () => {
    const label = labels.get(slider.value) ?? slider.value;
    told.textContent = label;
    slider.setAttribute("aria-valuetext", label);
  });
}
