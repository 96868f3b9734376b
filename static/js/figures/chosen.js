// What stands beside the picture is about the entry that the page's query names: it is fetched when that changes.
const entry = () => new URLSearchParams(location.search).get("entry");
let shown = entry();

function refresh() {
  if (entry() === shown) return;
  shown = entry();
  window.htmx.ajax("GET", location.pathname + location.search, { target: "#chosen", select: "#chosen", swap: "outerHTML" });
}

document.addEventListener("figure:state", refresh);
addEventListener("popstate", refresh);
