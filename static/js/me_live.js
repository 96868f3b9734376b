// New numbers of My priority: the answer on top and the walk take what the page would say now; figures fetch their own.
// A part that holds the focus stays as it is until the next numbers.
import { announce } from "./shell.js";

const PARTS = ["#verdict", ".answers", ".answer .trend", "#waiting-jobs", ".walk"];

document.addEventListener("live:changed", async ({ detail }) => {
  if (!detail.changed.has("numbers")) return;
  const response = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" }).catch(() => null);
  if (!response?.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const before = document.querySelector("#verdict")?.textContent;
  for (const part of PARTS) {
    const old = document.querySelector(part), now = fresh.querySelector(part);
    if (old && now && !old.contains(document.activeElement)) old.replaceWith(document.adoptNode(now));
  }
  document.querySelector("#submit form")?.dispatchEvent(new Event("refresh"));
  const after = document.querySelector("#verdict")?.textContent;
  if (after && after !== before) announce(after);
});
