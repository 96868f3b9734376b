// Links and forms around the tree carry what the address says now, and the bar counts the selected rows. Without this
// module they carry what it said when the page was made.
const changed = () => new URLSearchParams(location.search);

/** `data-sets` names what a link decides itself; everything else comes from the address. */
function syncLinks() {
  for (const link of document.querySelectorAll("a[data-sets]")) {
    const own = new Set(link.dataset.sets.split(" ")), url = new URL(link.href);
    const kept = [...changed()].filter(([name]) => !own.has(name) && !["after", "entry"].includes(name));
    url.search = new URLSearchParams([...kept, ...[...url.searchParams].filter(([name]) => own.has(name))]);
    link.href = url;
  }
  for (const form of document.querySelectorAll("form[data-keeps]")) {
    form.querySelectorAll("input[type=hidden]").forEach((field) => field.remove());
    for (const [name, value] of changed()) {
      if (name === form.dataset.keeps || name === "after") continue;
      form.prepend(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
    }
  }
}

// --- selected rows ----------------------------------------------------------------------------------------------------
const bar = document.getElementById("tree-selection");
const picked = () => [...document.querySelectorAll("#rows input.pick:checked")];

function count() {
  if (!bar) return;
  const n = picked().length, all = bar.elements.all?.checked;
  bar.hidden = !n && !all;
  bar.querySelector("[data-chosen]").textContent = n === 1 ? bar.dataset.one : bar.dataset.many.replace("%n", n);
}

document.addEventListener("change", (event) => { if (event.target.matches("input.pick, #tree-selection [name=all]")) count(); });
bar?.addEventListener("formdata", ({ formData }) => {
  const uids = formData.getAll("e");
  formData.delete("e");
  formData.set("entries", uids.join(" ")); // one field: a server takes a thousand at most
  formData.set("state", location.search);
});

document.addEventListener("tree:state", syncLinks);
document.addEventListener("htmx:afterSwap", () => { syncLinks(); count(); });
document.addEventListener("htmx:replacedInHistory", syncLinks);
count();
