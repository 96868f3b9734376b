"""An administrator raises a share, a user asks why and when, a log is imported: clicks, and milliseconds until the page
shows it. `pytest --deep -s` prints them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from apps.core import clock
from apps.runs.services import work_run_now
from apps.usage.models import Import
from tests.browser.conftest import NARROW, Open
from tests.instants import AT
from tests.pages.grid import SLUG, Grid

pytestmark = pytest.mark.deep
MY_PRIORITY = "/me/priority/"
MOST_CLICKS_TO_PUBLISH = 4


@dataclass
class Journey:
    """The clicks of one journey, and how long each step took to be on the screen."""

    page: Page
    n_clicks: int = 0
    steps: list[str] = field(default_factory=list)

    def click(self, place: Locator) -> None:
        self.n_clicks += 1
        place.click()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.steps.append(f"{name} {(time.monotonic() - began) * 1e3:.0f} ms")

    def say(self, name: str) -> None:
        print(f"\n{name}: {self.n_clicks} clicks; {', '.join(self.steps)}")


def test_a_share_is_raised_in_four_clicks_and_the_new_rank_appears_automatically(
    grid: Grid, visit: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = visit()
    window.sign_in()
    page = window.page
    journey = Journey(page)
    with journey.step("overview"):
        window.go("/")
    with journey.step("tree"):
        journey.click(page.locator(f"nav a[href='/policy/{SLUG}/']:visible").first)
        row = page.locator("tr[role=row]", has=page.get_by_role("link", name="biomed", exact=True))
        expect(row).to_be_visible()
    with journey.step("entry"):
        journey.click(row.get_by_role("link", name="biomed", exact=True))
        journey.click(page.locator("#change-shares"))
        expect(page.locator("#shares")).to_be_focused()
    with journey.step("preview while typing"):
        page.fill("#shares", "900")
        expect(page.locator("#effect tr.me")).to_be_visible()
    page.fill("#reason", "New runs")
    with journey.step("publish"):
        journey.click(page.locator("#publish"))
        expect(page.locator("#problem .success")).to_be_visible()
    assert journey.n_clicks <= MOST_CLICKS_TO_PUBLISH

    alice = visit()
    alice.sign_in("alice")
    seen = alice.go(MY_PRIORITY)
    answer = seen.locator("#verdict")
    before = answer.get_attribute("data-rank") or ""
    seen.evaluate("() => { window.sameDocument = true; }")
    monkeypatch.setenv(clock.VARIABLE, (AT + timedelta(minutes=1)).isoformat())
    grid.recompute()
    with journey.step("served to the rank on the screen"):
        expect(answer).not_to_have_attribute("data-rank", before)
    assert seen.evaluate("() => window.sameDocument")
    journey.say("A share is raised")


def test_why_and_when_are_answered_without_a_click(grid: Grid, visit: Open) -> None:
    window = visit(width=NARROW)
    window.sign_in("alice")
    journey = Journey(window.page)
    with journey.step("my priority"):
        page = window.go(MY_PRIORITY)
        expect(page.locator(".answers dd").first).to_be_visible()
    low = page.evaluate("""() => Math.max(...[...document.querySelectorAll(".answers dd")].map(
      (each) => each.getBoundingClientRect().bottom))""")
    assert low <= page.evaluate("() => innerHeight")
    journey.say("Why and when at 390 px")


def test_a_log_is_imported_in_five_clicks(grid: Grid, visit: Open, tmp_path: Path) -> None:
    log = tmp_path / "november.swf"
    jobs = (f"{n} {n * 60} 5 3600 4 -1 -1 4 7200 -1 1 {n % 7} 1 -1 1 -1 -1 -1\n" for n in range(1, 201))
    log.write_text("; UnixStartTime: 1700000000\n" + "".join(jobs))
    window = visit()
    window.sign_in()
    page = window.go("/")
    journey = Journey(page)
    with journey.step("sources"):
        journey.click(page.locator("nav a[href='/usage/sources/']:visible").first)
        expect(page.locator("main a[href='/usage/import/']")).to_be_visible()
    with journey.step("form"):
        journey.click(page.locator("main a[href='/usage/import/']"))
        expect(page.locator("#id_file")).to_be_attached()
    journey.n_clicks += 1  # the browser's own choice of a file
    page.set_input_files("#id_file", log)
    page.select_option("#id_source", "+")
    page.fill("#id_new_source", "Abisko log")
    with journey.step("dry run"):
        journey.click(page.locator("#upload button[type=submit]"))
        expect(page.locator("#verdict")).to_have_attribute("data-key", "waiting")
        work_run_now(Import.objects.latest("pk").run_id)
        take = page.locator("section[aria-labelledby=decide] button[name=take]")
        expect(take).to_be_visible()
    with journey.step("import"):
        journey.click(take)
        page.wait_for_url(f"**/usage/imports/{Import.objects.latest('pk').pk}/")
        work_run_now(Import.objects.latest("pk").run_id)
        expect(page.locator("#verdict")).to_have_attribute("data-key", "added")
    assert journey.n_clicks <= 5
    journey.say("A log is imported")
