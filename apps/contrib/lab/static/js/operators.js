// A control of a figure changes the address without a new page: the form follows, so that sending it keeps the choice.

function follow() {
  const form = document.querySelector("form[data-operators]"), asked = new URLSearchParams(location.search);
  if (!form) return;
  for (const [name, value] of asked) {
    const field = form.elements.namedItem(name);
    if (field instanceof HTMLInputElement || field instanceof HTMLSelectElement) field.value = value;
    else form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
  }
}

document.addEventListener("figure:state", follow);
addEventListener("popstate", follow);
