// Figures that are drawn fetch their own numbers when the page has new ones, and say when they can't be had.
import { drawn } from "./index.js";

document.addEventListener("live:changed", ({ detail }) => {
  if (detail.changed.has("numbers")) for (const frame of drawn()) frame.load({ quiet: true });
});
document.addEventListener("live:failed", () => { for (const frame of drawn()) frame.stale(); });
document.addEventListener("live:recovered", () => { for (const frame of drawn()) frame.fresh(); });
