// Controls of a figure, as the server renders them: links to the same page in another state. The focus stays on its choice.

function link(choice, isChip) {
  const a = document.createElement("a");
  a.href = choice.query ? `?${choice.query}` : location.pathname;
  a.dataset.choice = choice.key;
  if (isChip) {
    a.className = "chip";
    a.dataset.shown = String(choice.is_chosen);
    if (choice.alone) a.dataset.alone = choice.alone;
    if (choice.swatch) a.append(Object.assign(document.createElement("i"), { className: `sw s-${choice.swatch.slice(1)}` }));
  }
  if (choice.is_chosen) a.setAttribute("aria-current", "true");
  a.append(choice.label);
  if (choice.note) a.append(Object.assign(document.createElement("small"), { textContent: choice.note }));
  return a;
}

function drop(choice, control) {
  const a = Object.assign(document.createElement("a"), { href: `?${choice.drop}`, className: "chip-drop", textContent: "×" });
  a.dataset.choice = `${choice.key}-drop`;
  a.setAttribute("aria-label", `${control.drop_label} ${choice.label}`);
  return a;
}

function group(control) {
  const found = document.createElement("div");
  found.className = control.kind;
  found.setAttribute("role", "group");
  found.setAttribute("aria-label", control.label);
  if (control.caption) found.dataset.caption = control.label;
  found.append(...links(control));
  return found;
}

function pair(choice, control) {
  const found = Object.assign(document.createElement("span"), { className: "chip-pair" });
  found.append(link(choice, true), drop(choice, control));
  return found;
}

const links = (control) => control.choices.map((choice) => (choice.drop ? pair(choice, control) : link(choice, control.kind === "chips")));

export function renderControls(box, controls) {
  if (!box) return;
  const focused = box.contains(document.activeElement) ? document.activeElement.dataset.choice : null;
  const old = [...box.children];
  const isSame = old.length === controls.length && controls.every((one, at) => old[at].classList.contains(one.kind));
  if (!isSame) box.replaceChildren(...controls.map(group));
  else controls.forEach((one, at) => old[at].replaceChildren(...links(one)));
  if (!focused) return;
  const present = [...box.querySelectorAll("[data-choice]")];
  (present.find((one) => one.dataset.choice === focused) ?? present.at(-1))?.focus();  // of a choice that is gone: the last
}

/** A series alone, by double click or Shift+Enter; again brings back what its link says. */
function alone(event) {
  const chip = event.target.closest?.(".chip[data-alone]");
  if (!chip) return;
  event.preventDefault();
  const isSecondClick = event.type === "dblclick";  // the first one has a place in the history already
  history[isSecondClick ? "replaceState" : "pushState"]({}, "", `?${chip.dataset.alone}`);
  document.dispatchEvent(new CustomEvent("figure:state"));
}

document.addEventListener("dblclick", alone);
document.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.shiftKey) alone(event); });
