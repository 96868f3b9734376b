// The side panel of a page. Its link opens it in place; Esc and its cross close it, and keep what was typed.
const link = document.querySelector("[data-opens-panel]");
const panelOf = () => document.getElementById("panel");

function show(panel) {
  const opens = panel.hidden || !panel.isConnected;
  panel.hidden = false;
  panel.querySelector("[data-panel-kept]")?.removeAttribute("hidden");
  if (!panel.isConnected) {
    document.querySelector(".app").after(panel);
    window.htmx.process(panel);
  }
  if (opens) panel.classList.add("is-opening");
  const field = panel.querySelector("[autofocus]") ?? panel.querySelector("input:not([type=hidden])");
  field?.focus();
  field?.select?.();
  remember("shares");
}

/** The address shows the panel, so that a reload does, too. */
function remember(shown) {
  const url = new URL(location.href);
  if (url.searchParams.get("panel") === shown) return;
  for (const name of ["focus", "shares"]) url.searchParams.delete(name);
  if (shown) url.searchParams.set("panel", shown);
  else url.searchParams.delete("panel");
  history.replaceState(history.state, "", url);
}

function close() {
  const panel = panelOf();
  panel.hidden = true;
  panel.classList.remove("is-opening");
  remember(null);
  (link ?? document.getElementById("main")).focus();
}

async function open() {
  const known = panelOf();
  if (known && known.querySelector("form").getAttribute("action").startsWith(link.dataset.opensPanel)) return show(known);
  const response = await fetch(link.dataset.opensPanel, { headers: { "HX-Request": "true" }, redirect: "error" }).catch(() => null);
  if (!response?.ok) return location.assign(link.href);
  const holder = document.createElement("template");
  holder.innerHTML = await response.text();
  known?.remove();
  return show(document.importNode(holder.content.getElementById("panel"), true));
}

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  const opens = link && event.target.closest("[data-opens-panel]") === link;
  if (!opens && !event.target.closest("[data-panel-close]")) return;
  event.preventDefault();
  if (opens) open();
  else close();
});

document.addEventListener("keydown", (event) => {
  const panel = panelOf();
  if (event.key !== "Escape" || event.defaultPrevented || !panel || panel.hidden) return;
  if (document.querySelector("dialog[open], :popover-open")) return;
  close();
});

// Whether what is typed can be read is known with its preview.
document.addEventListener("htmx:afterRequest", (event) => {
  const field = event.target, becomes = document.getElementById("becomes");
  if (field.id !== "shares" || !panelOf()?.contains(field)) return;
  if (!(event.detail.xhr.status < 400)) becomes.replaceChildren(Object.assign(document.createElement("span"), { className: "muted", textContent: field.dataset.unknown }));
  if (document.querySelector("#shares-hint.err")) field.setAttribute("aria-invalid", "true");
  else field.removeAttribute("aria-invalid");
});

if (panelOf()) {
  panelOf().querySelector("[data-panel-kept]")?.removeAttribute("hidden");
  panelOf().querySelector("[autofocus]")?.select?.();
}
