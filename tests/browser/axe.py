"""axe in a page: every rule of WCAG 2.2 A and AA and of best practice, and the contrast of each look once.

A page has many cells of the same colour, size and weight on the same ground: axe measures each of them, which is two
thirds of its time. `make night` (`every`) has it measure them all.
"""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from tests.browser.live_files import AXE, AXE_ADDRESS

# From our own address, as the policy of a page wants it, and compiled once a process.
_LOAD = """(address) => (globalThis.axe ? Promise.resolve() : import(address)).then(() => {
  const GROUND = ["background-color", "background-image", "opacity", "filter", "mix-blend-mode", "position"];
  const TEXT = ["color", "font-size", "font-weight", "text-shadow", "-webkit-text-stroke-width",
    "-webkit-text-fill-color"];
  const CLEAR = "rgba(0, 0, 0, 0)";
  const numbers = new Map();
  const number = (values) => {
    const text = values.join("|");
    if (!numbers.has(text)) numbers.set(text, numbers.size);
    return numbers.get(text);
  };
  const values = (style, names) => names.map((name) => style.getPropertyValue(name));
  const isLaidOver = (style) => style.position === "absolute" || style.position === "fixed";
  let grounds, found;

  // What lies behind an element: its own ground and those of all around it. Where something may lie between them, it
  // is that of no other element.
  function ground(element) {
    if (!element) return 0;
    if (!grounds.has(element)) {
      const style = getComputedStyle(element);
      const isApart = isLaidOver(style) || [...element.children].some((child) => {
        const own = getComputedStyle(child);
        return own.position === "absolute" && (own.backgroundColor !== CLEAR || own.backgroundImage !== "none");
      });
      const around = [ground(element.parentElement), ...values(style, GROUND)];
      grounds.set(element, number(isApart ? ["apart", grounds.size, ...around] : around));
    }
    return grounds.get(element);
  }

  const contrast = axe._audit.checks["color-contrast"];
  const measure = contrast.evaluate;
  contrast.evaluate = function (node, ...more) {
    if (!found) return measure.call(this, node, ...more);
    const look = number(["text", ground(node), ...values(getComputedStyle(node), TEXT)]);
    if (found.has(look)) {
      this.data({});
      return true;
    }
    const is = measure.call(this, node, ...more);
    if (is !== undefined) found.add(look);  // else it could not be measured here, but perhaps elsewhere
    return is;
  };
  axe.begin = (every) => { grounds = new Map(); found = every ? null : new Set(); };
})"""
# Findings alone: what passed is most of a report, and isn't read.
_RUN = """([context, rules, every]) => {
  axe.begin(every);
  const more = { "target-size": { enabled: true } };  // of WCAG 2.2, which axe leaves out by itself
  const asked = { resultTypes: ["violations"], preload: false, rules: more, ...rules };
  return axe.run(context, asked).then((it) => it.violations);
}"""


def load_axe(page: Page, origin: str) -> bool:
    """Whether this document had none yet."""
    is_new = not page.evaluate("typeof axe === 'object'")
    if is_new:
        if not page.evaluate("document.scripts.length"):  # a card that others frame: its policy allows no script
            page.evaluate(AXE.read_text(encoding="utf-8"))
        page.evaluate(_LOAD, origin + AXE_ADDRESS)
    return is_new


def run_axe(page: Page, context: dict[str, Any], rules: dict[str, Any], *, every: bool) -> list[dict[str, Any]]:
    return list(page.evaluate(_RUN, [context, rules, every]))
