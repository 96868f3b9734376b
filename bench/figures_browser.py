"""Figures in a real Chromium, from a real web server: the first picture, frames while a page moves, a share dragged.

Frames (`--large`) are counted while the pictures of forty subgroups are there: of a page that is scrolled along them,
and of the picture of picks beside them that is moved along its days. Panels themselves show all of their days. The rate
of the page at rest is printed beside, for a machine that is busy with something else.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.clock import stopped_clock
from bench.figures import world
from bench.report import BenchLine
from bench.series import AT, p95, signed_in
from bench.web_server import web_server

if TYPE_CHECKING:
    from playwright.sync_api import Page

GOAL_PAINTED_S, GOAL_FRAMES, GOAL_DRAG_S = 1.0, 30.0, 0.15
N_PAGES, N_MOVES, N_PANELS, SECONDS = 20, 40, 40, 3.0
_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_PATIENCE_MS = 120_000
# From the navigation to the frame after the one in which the first picture is shown.
_PAINTED = """
(() => {
  const look = () => {
    if (!document.querySelector(".fig-live.is-shown")) requestAnimationFrame(look);
    else requestAnimationFrame(() => { document.documentElement.dataset.painted = performance.now(); });
  };
  requestAnimationFrame(look);
})();
"""
_COUNT = """(ms) => {
  window.rate = new Promise((done) => {
    const began = performance.now();
    let n = -1;
    const step = () => {
      n += 1;
      const past = performance.now() - began;
      if (past < ms) requestAnimationFrame(step);
      else done((n * 1000) / past);
    };
    requestAnimationFrame(step);
  });
}"""
# No picture was drawn for half a second.
_ALL_DRAWN = """() => new Promise((done) => {
  let timer = setTimeout(done, 500);
  new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(done, 500); })
    .observe(document.body, { subtree: true, attributes: true, attributeFilter: ["data-drawn"] });
})"""
# From a move of the pointer to the frame after the one that draws it, and after the one that draws its effect.
_FOLLOWED = """
(() => {
  window.pictures = [];
  window.predictions = [];
  let moved = null;
  const painted = (then) => requestAnimationFrame(() => requestAnimationFrame(then));
  addEventListener("pointermove", (event) => {
    const at = event.timeStamp;
    moved = at;
    painted(() => window.pictures.push(performance.now() - at));
  }, { capture: true });
  addEventListener("DOMContentLoaded", () => {
    const editor = document.getElementById("editor");
    new MutationObserver(() => {
      const at = moved;
      if (at === null || editor.hasAttribute("data-asking") || !editor.hasAttribute("data-known")) return;
      painted(() => {
        window.predictions.push(performance.now() - at);
        document.documentElement.dataset.predictions = window.predictions.length;
      });
    }).observe(editor, { attributes: true, attributeFilter: ["data-asking"] });
  });
})();
"""


class _Site(NamedTuple):
    """What is asked for. groups: pages of groups, each with its figures; division: the one with a hundred panels."""

    session: tuple[str, str]
    groups: list[str]
    division: str
    shares: str


def measure() -> Iterator[BenchLine]:
    yield from _measure(_first_pictures, _drags)


def measure_large() -> Iterator[BenchLine]:
    yield from _measure(_frames)


def _measure(*parts: Callable[[Open, _Site], Iterator[BenchLine]]) -> Iterator[BenchLine]:
    browser = next(filter(None, map(shutil.which, [os.environ.get("CHROME_BIN", ""), *_BROWSERS])), None)
    if browser is None:
        print("no Chromium here: apt-get install chromium-headless-shell, or set CHROME_BIN", file=sys.stderr)
        return
    with stopped_clock(AT):
        site = _site()
        with web_server() as port, _window(browser, port, site) as open_page:
            for part in parts:
                yield from part(open_page, site)


def _site() -> _Site:
    from django.conf import settings

    from apps.accounts.actor import Actor
    from apps.accounts.models import User
    from apps.policies.changesets.drafts import open_draft
    from apps.policies.tree.stored import load_tree

    policy = world()
    client = signed_in()
    actor = Actor(user=User.objects.get(username="series"), via="page")
    draft = open_draft(policy_slug=policy.slug, reason="bench", at=AT, actor=actor)
    tree = load_tree(policy)

    def convergence(at: int) -> str:
        return f"/policy/{policy.slug}/convergence/?level={tree.uuid(at)}"

    division = int(np.flatnonzero(tree.n_children == 100)[0])
    groups = np.flatnonzero(tree.n_children == 99)
    name = settings.SESSION_COOKIE_NAME
    return _Site(
        session=(name, client.cookies[name].value),
        groups=[convergence(int(groups[number * 7907 % len(groups)])) for number in range(N_PAGES + 3)],
        division=f"{convergence(division)}&range=365&section=rest",
        shares=f"/changes/{draft.pk}/edit/?view=bars&group={tree.uuid(division)}",
    )


Open = Callable[[str], "Page"]  # what is measured, as a script that runs before those of the page


@contextmanager
def _window(browser: str, port: int, site: _Site) -> Iterator[Open]:
    """Opens tabs of one signed-in window, so that they share what the browser keeps."""
    from playwright.sync_api import sync_playwright

    base = f"http://127.0.0.1:{port}"
    args = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=browser, args=args)
        context = running.new_context(base_url=base, viewport={"width": 1440, "height": 900})
        context.set_default_timeout(_PATIENCE_MS)
        name, value = site.session
        context.add_cookies([{"name": name, "value": value, "url": base}])

        def open_page(script: str) -> Page:
            page = context.new_page()
            page.add_init_script(script)
            return page

        yield open_page
        running.close()


def _first_pictures(open_page: Open, site: _Site) -> Iterator[BenchLine]:
    page = open_page(_PAINTED)
    took: list[float] = []
    for address in site.groups:
        page.goto(address, wait_until="commit")
        painted = page.wait_for_selector("html[data-painted]", state="attached")
        assert painted is not None
        took.append(float(painted.get_attribute("data-painted") or "nan") / 1e3)
    page.close()
    took = took[3:]  # the browser keeps the code of scripts that it has run a few times
    detail = f"{p95(took) * 1e3:.0f} ms, median {statistics.median(took) * 1e3:.0f} ms of {len(took)} pages"
    name = "first figure painted after navigation, 95th percentile / 1 s"
    yield BenchLine(name, p95(took) / GOAL_PAINTED_S, 1.0, detail)


def _frames(open_page: Open, site: _Site) -> Iterator[BenchLine]:
    page = open_page("")
    page.goto(site.division)
    tiles = page.locator("[data-panel]")
    while tiles.count() < 2 * N_PANELS:
        page.locator(".more-tiles a").first.click()
        page.wait_for_timeout(50)
    tiles.nth(N_PANELS).evaluate("tile => tile.scrollIntoView({ block: 'center' })")
    page.evaluate(_ALL_DRAWN)
    page.mouse.move(720, 450)
    at_rest = _rate(page, lambda _turn: page.wait_for_timeout(100))
    down = _rate(page, lambda turn: page.mouse.wheel(0, 120 if turn // 8 % 2 else -120))
    yield _frame_line(f"frames while {tiles.count()} tiles are scrolled", down, at_rest)
    plot = page.locator("#fig-over-time .fig-plot")
    plot.evaluate("plot => plot.scrollIntoView({ block: 'center' })")
    page.wait_for_selector("#fig-over-time .fig-live.is-shown")
    page.evaluate(_ALL_DRAWN)
    box = plot.bounding_box()
    assert box is not None
    left, width, middle = box["x"] + 40, box["width"] - 60, box["y"] + box["height"] / 3
    moved = _rate(page, lambda turn: page.mouse.move(left + turn * 7 % width, middle))
    yield _frame_line(f"frames while the cursor moves in {tiles.count()} tiles", moved, at_rest)
    page.close()


def _rate(page: Page, act: Callable[[int], None]) -> float:
    """Frames a second while something is done again and again."""
    from time import monotonic

    page.evaluate(_COUNT, SECONDS * 1e3)
    until, turn = monotonic() + SECONDS, 0
    while monotonic() < until:
        act(turn)
        turn += 1
    return float(page.evaluate("window.rate"))


def _frame_line(name: str, rate: float, at_rest: float) -> BenchLine:
    detail = f"{rate:.0f} a second, {at_rest:.0f} at rest"
    return BenchLine(f"30 a second / {name}", GOAL_FRAMES / max(rate, 1e-9), 1.0, detail)


def _drags(open_page: Open, site: _Site) -> Iterator[BenchLine]:
    page = open_page(_FOLLOWED)
    page.goto(site.shares)
    page.wait_for_selector("#editor[data-known]:not([data-asking])")
    grip = page.locator(":is(#stage, #zoom) .pull-grip[role=slider] .line").first
    box = grip.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for number in range(N_MOVES):
        before = page.get_attribute("html", "data-predictions") or ""
        page.mouse.move(x + 30 * (number % 5 + 1), y)  # by a share at least
        page.wait_for_selector(f"html[data-predictions]:not([data-predictions='{before}'])", state="attached")
    n_siblings = page.locator("#members tr[data-uid]").count()
    assert n_siblings == 100, f"{n_siblings} siblings"
    pictures, predictions = (
        [ms / 1e3 for ms in page.evaluate(f"window.{name}")] for name in ("pictures", "predictions")
    )
    page.keyboard.press("Escape")
    page.mouse.up()
    page.close()
    for name, took in (("its picture", pictures[2:]), ("the prediction of 100 siblings", predictions[2:])):
        detail = f"{p95(took) * 1e3:.0f} ms, median {statistics.median(took) * 1e3:.0f} ms of {len(took)} moves"
        yield BenchLine(f"a dragged share to {name}, 95th percentile / 150 ms", p95(took) / GOAL_DRAG_S, 1.0, detail)
