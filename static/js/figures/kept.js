// Links and requests within [data-keeps="name …"] carry these names of the page's present query: the state of a figure
// stays when a link of the page leads elsewhere, such as to another year.
const KEEPS = "[data-keeps]";

function withState(address, names) {
  const url = new URL(address, location.href), now = new URLSearchParams(location.search);
  for (const name of names) {
    url.searchParams.delete(name);
    for (const value of now.getAll(name)) url.searchParams.append(name, value);
  }
  return url.pathname + url.search;
}

const namesOf = (element) => element.dataset.keeps.split(" ");

function relink() {
  for (const group of document.querySelectorAll(KEEPS)) {
    for (const link of group.querySelectorAll("a[href]")) {
      for (const attribute of ["href", "hx-push-url"]) {
        if (link.hasAttribute(attribute)) link.setAttribute(attribute, withState(link.getAttribute(attribute), namesOf(group)));
      }
    }
  }
}

document.addEventListener("figure:state", relink);
addEventListener("popstate", relink);
document.addEventListener("htmx:configRequest", ({ detail, target }) => {
  const group = target.closest?.(KEEPS);
  if (group) detail.path = withState(detail.path, namesOf(group));
});
