"""Pages in a real Chromium, seen from afar: 1.6 Mbit/s, 300 ms away, with an empty cache.

Each role opens one page of every route that links of other pages lead to, on the sample grid. `python -m bench pages`
prints all of them with the goals; `--only /path` measures some, `--as lead` one role, and `--running` the instance that
runs in FAIRSHARE_VAR on FAIRSHARE_PORT instead of one of its own. The processor is as fast as it is: seconds, blocked
time and shifts are those of the machine, which ought to be idle.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from bench.report import NOISE, BenchLine
from bench.web_server import web_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROLES = {"admin": "admin", "lead": "maria", "user": "kimberg"}
BYTES_S, LATENCY_MS = 1.6e6 / 8, 300
_QUIET_S, _PATIENCE_S = 1.0, 90.0
_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_NO_PAGE = re.compile(r"^/(api|admin|static|sign-out|healthz|readyz|metrics)\b|/_[^/]*$|/figures/|\.\w{2,5}$")
# Kept in the page from its beginning: long tasks and shifts of the layout, and when the first picture was shown.
_WATCH = """
(() => {
  const seen = window.seen = { blocked: 0, shift: 0, shifts: [], chart: null };
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) seen.blocked += entry.duration;
  }).observe({ type: "longtask", buffered: true });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.hadRecentInput) continue;
      seen.shift += entry.value;
      for (const { node } of entry.sources) {
        seen.shifts.push([entry.value, entry.startTime, `${node?.nodeName} #${node?.id} .${node?.className}`]);
      }
    }
  }).observe({ type: "layout-shift", buffered: true });
  new MutationObserver((_, observer) => {
    if (!document.querySelector(".fig-live.is-shown, [data-figure][data-drawn]")) return;
    observer.disconnect();
    requestAnimationFrame(() => { seen.chart = performance.now(); });
  }).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["class", "data-drawn"] });
})();
"""
_SEEN = """() => ({
  ...window.seen,
  content: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
  nodes: document.querySelectorAll("*").length,
  waits: [...document.querySelectorAll("[data-figure] .fig-plot")]
    .filter((each) => !each.querySelector(".fig-live.is-shown, .fig-state") && !each.closest("[data-drawn]"))
    .filter((each) => each.checkVisibility())
    .filter((each) => each.getBoundingClientRect().top < innerHeight).length,
  links: [...document.querySelectorAll("a[href]:not([download])")]  // also those of pictures, whose href is no text
    .map((each) => new URL(each.getAttribute("href"), document.baseURI))
    .filter((url) => url.origin === location.origin).map((url) => url.pathname + url.search),
})"""


class Goal(NamedTuple):
    """name: heading and field of `Page`. most: the goal, in `unit`."""

    name: str
    most: float
    unit: str
    digits: int


GOALS = (
    Goal("requests", 25, "", 0),
    Goal("html_kb", 40, "kB", 0),
    Goal("content_s", 1.5, "s", 2),
    Goal("chart_s", 6, "s", 2),
    Goal("blocked_ms", 300, "ms", 0),
    Goal("shift", 0.05, "", 3),
    Goal("nodes", 1500, "", 0),
)


@dataclass(frozen=True, slots=True)
class Page:
    """One page as a role sees it; kB are those that crossed the network. chart_s is None without a figure in view."""

    role: str
    path: str
    kb: float
    requests: float
    html_kb: float
    content_s: float | None
    chart_s: float | None
    blocked_ms: float
    shift: float
    nodes: float
    shifts: tuple[str, ...] = ()

    def misses(self, goal: Goal, by: float = 0.0) -> bool:
        """Whether it exceeds the goal by more than this part of it."""
        value = getattr(self, goal.name)
        return value is not None and value > goal.most * (1 + by)


def measure_large() -> Iterator[BenchLine]:
    """The worst page of each goal."""
    with _own_site() as site:
        pages = list(_measure(site, ROLES, ()))
    for goal in GOALS:
        numbered = [page for page in pages if getattr(page, goal.name) is not None]
        worst = max(numbered, key=lambda page: float(getattr(page, goal.name)))
        missed = sum(page.misses(goal) for page in pages)
        detail = f"{worst.path} of {worst.role}; {missed} of {len(pages)} pages miss it"
        yield BenchLine(
            f"{goal.name} of the worst page / {goal.most:g}", getattr(worst, goal.name) / goal.most, 1.0, detail
        )


def print_table(arguments: list[str], own_database: Callable[[], Any]) -> int:
    """`python -m bench pages …`: a line for each page as it is measured, then how many miss each goal."""
    parser = argparse.ArgumentParser(prog="python -m bench pages", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--only", action="append", default=[], metavar="/path", help="this page; may be repeated")
    parser.add_argument("--as", action="append", dest="roles", choices=list(ROLES), help="default: all roles")
    parser.add_argument("--running", action="store_true", help="the instance of FAIRSHARE_VAR and FAIRSHARE_PORT")
    parser.add_argument("--shifts", action="store_true", help="also print what moved")
    options = parser.parse_args(arguments)
    roles = {role: ROLES[role] for role in options.roles or ROLES}
    if options.running:
        import django

        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
        django.setup()  # for the routes alone
        return _print(_running_site(), roles, options)
    with own_database(), _own_site() as site:
        return _print(site, roles, options)


def _print(site: _Site, roles: dict[str, str], options: argparse.Namespace) -> int:
    print(_row("role", "page", "kB", [goal.name for goal in GOALS]))
    print(_row("", "goal", "", [f"≤ {goal.most:g}{' ' if goal.unit else ''}{goal.unit}" for goal in GOALS]))
    pages = []
    for page in _measure(site, roles, options.only):
        pages.append(page)
        print(_row(page.role, page.path, f"{page.kb:.0f}", [_cell(page, goal) for goal in GOALS]), flush=True)
        for shift in page.shifts if options.shifts else ():
            print(f"       moved: {shift}")
    print(_row("", f"pages of {len(pages)} that miss it", "", [str(sum(p.misses(g) for p in pages)) for g in GOALS]))
    is_missed = any(page.misses(goal, by=NOISE) for page in pages for goal in GOALS)
    return int(not pages or is_missed)


def _row(role: str, path: str, kb: str, cells: Iterable[str]) -> str:
    shown = path if len(path) <= 58 else f"{path[:28]}…{path[-29:]}"
    return f"{role:<6} {shown:<58} {kb:>6}" + "".join(f"{cell:>11}" for cell in cells)


def _cell(page: Page, goal: Goal) -> str:
    value = getattr(page, goal.name)
    return "–" if value is None else f"{value:.{goal.digits}f}{'!' if page.misses(goal) else ' '}"


class _Site(NamedTuple):
    """cookies_of: the session of a user, as cookies of the browser."""

    base: str
    cookies_of: Callable[[Browser, str], list[Any]]


def _running_site() -> _Site:
    from apps.cli.stack.paths import sign_ins, var_dir

    base = f"http://127.0.0.1:{os.environ.get('FAIRSHARE_PORT', '8000')}"

    def cookies_of(browser: Browser, username: str) -> list[Any]:
        context = browser.new_context(base_url=base)
        page = context.new_page()
        page.goto("/sign-in/")
        page.fill("#id_username", username)
        page.fill("#id_password", sign_ins(var=var_dir())[username])
        with page.expect_navigation():
            page.press("#id_password", "Enter")
        cookies = context.cookies()
        context.close()
        return cookies

    return _Site(base, cookies_of)


@contextmanager
def _own_site() -> Iterator[_Site]:
    """The sample grid on the database of the bench, with all its background work done."""
    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    from apps.accounts.models import User
    from apps.core.clock import now
    from apps.runs.services import work_due_runs

    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright's loop runs in this thread, which signs people in, too
    call_command("collectstatic", interactive=False, verbosity=0)
    call_command("load_sample", verbosity=0)
    work_due_runs(clock=now)

    with web_server() as port:
        base = f"http://127.0.0.1:{port}"

        def cookies_of(_browser: Browser, username: str) -> list[Any]:
            client = Client(headers={"host": "localhost"})
            client.force_login(User.objects.get(username=username), backend=settings.AUTHENTICATION_BACKENDS[1])
            name = settings.SESSION_COOKIE_NAME
            return [{"name": name, "value": client.cookies[name].value, "url": base}]

        yield _Site(base, cookies_of)


def _measure(site: _Site, roles: dict[str, str], only: Iterable[str]) -> Iterator[Page]:
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, [os.environ.get("CHROME_BIN", ""), *_BROWSERS])), None)
    if program is None:
        print("no Chromium here: apt-get install chromium-headless-shell, or set CHROME_BIN", file=sys.stderr)
        return
    args = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        for role, username in roles.items():
            with _chromium(playwright, program, args) as browser:
                cookies = site.cookies_of(browser, username)
            waiting, routes = list(only or ("/",)), set[str]()
            while waiting:
                path = waiting.pop(0)
                with _chromium(playwright, program, args) as browser:  # nothing is compiled from another page
                    page, links = _open(browser, site.base, cookies, role, path)
                if page is None:
                    continue
                yield page
                for link in links if not only else ():
                    route = _route_of(link)
                    if route and route not in routes:
                        routes.add(route)
                        if link != path:
                            waiting.append(link)


@contextmanager
def _chromium(playwright: Any, program: str, args: list[str]) -> Iterator[Browser]:
    running = playwright.chromium.launch(executable_path=program, args=args)
    try:
        yield running
    finally:
        running.close()


def _route_of(link: str) -> str:
    """The route of a page, empty for what is none."""
    from django.urls import Resolver404, resolve

    path = urlsplit(link).path
    if _NO_PAGE.search(path):
        return ""
    try:
        return str(resolve(path).route)
    except Resolver404:
        return ""


def _open(browser: Browser, base: str, cookies: list[Any], role: str, path: str) -> tuple[Page | None, list[str]]:
    """Measure one page with an empty cache; None where it is no page of this role."""
    context = browser.new_context(base_url=base, viewport={"width": 1440, "height": 900}, accept_downloads=False)
    context.add_cookies(cookies)
    page = context.new_page()
    page.add_init_script(_WATCH)
    network = _Network(context.new_cdp_session(page))
    try:
        answer = page.goto(path, wait_until="load", timeout=_PATIENCE_S * 1e3)
    except Exception as error:  # a download, or a page that never ends
        print(f"{path} of {role}: {str(error).splitlines()[0]}", file=sys.stderr)
        return None, []
    if answer is None or answer.status != 200 or "html" not in answer.headers.get("content-type", ""):
        status = answer.status if answer else "nothing"
        print(f"{path} of {role}: {status}", file=sys.stderr)
        return None, []
    began = time.monotonic()
    seen = page.evaluate(_SEEN)
    while time.monotonic() - began < _PATIENCE_S and (seen["waits"] or not network.is_quiet):
        page.wait_for_timeout(100)
        seen = page.evaluate(_SEEN)
    final = urlsplit(page.url)
    moved = tuple(f"{value:.3f} at {at / 1e3:.2f} s: {node}" for value, at, node in seen["shifts"])
    measured = Page(
        role,
        final.path + (f"?{final.query}" if final.query else ""),
        kb=network.n_bytes / 1e3,
        requests=network.n_requests,
        html_kb=network.n_document_bytes / 1e3,
        content_s=seen["content"] and seen["content"] / 1e3,
        chart_s=seen["chart"] and seen["chart"] / 1e3,
        blocked_ms=seen["blocked"],
        shift=seen["shift"],
        nodes=seen["nodes"],
        shifts=moved,
    )
    return measured, seen["links"]


class _Network:
    """A slow line, with what crosses it."""

    def __init__(self, session: Any) -> None:
        self.n_requests = self.n_bytes = self.n_document_bytes = 0
        self.last_at = time.monotonic()
        self._documents, self._running = set[str](), set[str]()
        session.on("Network.requestWillBeSent", self._sent)
        session.on("Network.loadingFinished", self._finished)
        session.on("Network.loadingFailed", self._ended)
        session.send("Network.enable")
        line = {"downloadThroughput": BYTES_S, "uploadThroughput": BYTES_S, "latency": LATENCY_MS, "offline": False}
        session.send("Network.emulateNetworkConditions", line)

    def _sent(self, event: dict[str, Any]) -> None:
        if not event["request"]["url"].startswith("http"):
            return
        self.n_requests += 1
        self._running.add(event["requestId"])
        if event.get("type") == "Document":
            self._documents.add(event["requestId"])

    @property
    def is_quiet(self) -> bool:
        return not self._running and time.monotonic() - self.last_at > _QUIET_S

    def _ended(self, event: dict[str, Any]) -> None:
        self._running.discard(event["requestId"])
        self.last_at = time.monotonic()

    def _finished(self, event: dict[str, Any]) -> None:
        self._ended(event)
        self.n_bytes += event["encodedDataLength"]
        if event["requestId"] in self._documents:
            self.n_document_bytes += event["encodedDataLength"]
