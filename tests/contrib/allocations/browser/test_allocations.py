"""Core-hours in a browser: allocated, flagged, turned into a draft; a last day chosen; with keys alone, and without
scripts."""

from __future__ import annotations

import base64
import re
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.actor import Actor
from apps.contrib.allocations.services import change_dates
from apps.policies.models import Allocation, ChangeSet
from tests.browser.conftest import Open, in_windows_of_all
from tests.contrib.allocations.browser.pdf_text import read_pages
from tests.contrib.allocations.pages.test_allocations import PAGE, allocate, cores, tab
from tests.pages.grid import SLUG, Grid


def fill_allocation(page: Page, entry: str, amount: str) -> None:
    page.click(".toolbar a[href='#allocate']")
    page.fill("#id_entry", entry)
    page.fill("#id_amount", amount)
    page.fill("#id_reason", "Round 7.")


@pytest.mark.deep
def test_core_hours_are_allocated_flagged_and_converted_to_a_draft_without_scripts(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(PAGE)
    assert page.get_attribute("#verdict", "data-key") == "none"
    page.click("[data-testid=no-capacity] a")
    page.fill("#id_per_hour", "1,000")
    page.fill("#id_starts_on", f"{grid.at.year}-01-01")
    page.fill("#id_reason", "As delivered.")
    page.click("form[action$='/allocations/capacity/'] button")
    window.go(PAGE)
    for entry, amount in (("/atlas", "4,000,000"), ("/atlas/alice", "3,000,000"), ("/atlas/bob", "1,500,000")):
        fill_allocation(page, entry, amount)
        window.follow("#allocate button[type=submit]")
    assert "500,000\N{NO-BREAK SPACE}core-h more than it has" in page.inner_text("[data-testid=verdict-text]")
    window.go(f"{PAGE}periods/")
    assert page.get_attribute("#verdict", "data-key") == "over"
    assert "atlas" in page.inner_text("#verdict")
    assert "500,000" in page.inner_text("[data-testid=over]")
    page.click("table a:has-text('bob')")
    page.click("section[aria-labelledby=allocations-title] tr:has-text('1,500,000') a")
    page.fill("#id_amount", "1,000,000")
    page.fill("form:has(input[value=change]) [name=reason]", "Cut to what there is.")
    page.click("form:has(input[value=change]) button")
    window.go(f"{PAGE}periods/")
    assert page.get_attribute("#verdict", "data-key") == "fits"
    page.click(".toolbar a[href*='/allocations/shares/']")
    assert "4,000,000 ÷" in page.inner_text("table")
    page.fill("#id_reason", "As agreed.")
    page.click("section[aria-labelledby=draft] button")
    draft = ChangeSet.objects.latest("pk")
    assert f"/changes/{draft.pk}/" in page.url


@pytest.mark.deep
def test_a_last_day_is_published_without_scripts(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(tab(grid, "/atlas", "atlas"))
    page.fill("#dates [name=ends_on]", "2031-03-31")
    page.select_option("#dates [name=at_end]", "zero")
    page.fill("#dates [name=reason]", "Until spring.")
    window.follow("#dates button[value=publish]")
    assert page.get_attribute("[data-testid=dates]", "data-state") == "dated"
    for number in ("60", "0"):
        assert number in page.inner_text("[data-testid=dates]").split()
    window.go(f"{PAGE}calendar/?month=2031-03")
    assert "/atlas" in page.inner_text(".agenda")


@pytest.mark.deep
def test_periods_are_changed_by_keyboard_and_focus_stays(grid: Grid, visit: Open) -> None:
    allocate(grid, "/atlas", 1000, starts_on=grid.at.date(), ends_on=grid.at.date() + timedelta(days=80))
    window = visit()
    window.sign_in()
    page = window.go(f"{PAGE}periods/")
    last_year = f"year-{grid.at.year - 1}"
    page.focus(f"#{last_year}")
    page.keyboard.press("Enter")
    expect(page.locator(f"#{last_year}")).to_have_attribute("aria-current", "true")
    assert page.evaluate("document.activeElement.id") == last_year
    assert f"from={grid.at.year - 1}-01-01" in page.url
    window.go(f"{PAGE}calendar/")
    page.focus("#soon-90")
    page.keyboard.press("Enter")
    expect(page.locator("#soon .list")).to_contain_text("/atlas")
    assert page.evaluate("document.activeElement.id") == "soon-90"


def test_months_are_changed_by_keyboard_and_focus_stays(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"{PAGE}calendar/?month=2031-03")
    page.focus("#month-after")
    page.keyboard.press("Enter")
    expect(page.locator("#month-before")).to_have_attribute("href", re.compile("month=2031-03"))
    assert page.evaluate("document.activeElement.id") == "month-after"
    assert page.url.endswith("?month=2031-04")


@pytest.mark.deep
def test_the_page_of_an_entry_shows_its_core_hours(grid: Grid, visit: Open) -> None:
    allocate(grid, "/atlas", 5000, starts_on=grid.at.date(), ends_on=grid.at.date())
    window = visit()
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/")
    expect(page.locator("#core-hours")).to_contain_text("5,000")
    page.click("#core-hours a")
    assert page.url.endswith("/atlas/core-hours/")


@in_windows_of_all
def test_pages_of_core_hours_are_accessible_and_fit(grid: Grid, visit: Open, theme: str, width: int) -> None:
    today = grid.at.date()
    year = {"starts_on": today.replace(month=1, day=1), "ends_on": today.replace(month=12, day=31)}
    window = visit(theme=theme, width=width)
    window.sign_in()
    empty = {"empty": PAGE, "no capacity": f"{PAGE}capacity/", "nothing to convert": f"{PAGE}shares/"}
    problems: dict[str, list[str]] = {}
    for name, path in empty.items():
        window.go(path)
        problems[name] = [*window.axe(), *(["overflow"] if window.overflow() > 0 else [])]
    cores(grid, 1.6)
    allocate(grid, "/atlas", 8000, **year)
    made = allocate(grid, "/atlas/alice", 9000, **year)
    allocate(grid, "/cms", 1008, starts_on=today - timedelta(days=30), ends_on=today - timedelta(days=1))
    dates = {"ends_on": str(today + timedelta(days=20)), "at_end": "zero"}
    change_dates(
        policy_slug=SLUG,
        entry_uid=grid.uid("/cms"),
        dates=dates,
        reason="x",
        at=grid.at,
        actor=Actor(user=grid.admin, via="page"),
    )
    places = {
        "table": f"{PAGE}?soon=90&amount=4200",
        "wrong days": f"{PAGE}?from=never",
        "calendar": f"{PAGE}calendar/",
        "shares": f"{PAGE}shares/",
        "capacity": f"{PAGE}capacity/",
        "allocation": f"{PAGE}{made.uid}/",
        "entry": tab(grid, "/cms", "cms"),
    }
    for name, path in places.items():
        window.go(path)
        problems[name] = [*window.axe(), *(["overflow"] if window.overflow() > 0 else [])]
    page = window.go(PAGE)
    page.click(".toolbar a[href='#allocate']")
    page.fill("#id_amount", "many")
    page.click("#allocate button[type=submit]")
    expect(page.locator("#id_amount")).to_have_attribute("aria-invalid", "true")  # the form stays in its place
    problems["a wrong form"] = window.axe()
    assert Allocation.objects.count() == 3
    assert {name: found for name, found in problems.items() if found} == {}


TEXT_WIDTH = 680  # pixels between the margins of A4
TOO_WIDE = "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.outerHTML.slice(0, 99))"


def test_the_board_gets_the_page_on_paper_without_forms_and_nothing_is_cut(grid: Grid, visit: Open) -> None:
    cores(grid, 1_000)
    allocate(grid, "/atlas", 4_000_000.0)
    window = visit()
    window.sign_in()
    page = window.go(PAGE)
    page.evaluate("() => { document.documentElement.dataset.theme = 'dark'; }")
    expect(page.locator("[data-print]")).to_be_visible()
    asked = {"paperWidth": 8.27, "paperHeight": 11.69}
    sheets = read_pages(base64.b64decode(page.context.new_cdp_session(page).send("Page.printToPDF", asked)["data"]))
    printed = "".join(sheets)
    assert "4,000,000" in printed
    assert sheets[0].endswith(f"1/{len(sheets)}") or sheets[0].startswith(f"1/{len(sheets)}")
    for form in ("Calculator", "Recordedintheauditlog", "Converttoshares"):
        assert form not in printed, form
    page.emulate_media(media="print")
    page.set_viewport_size({"width": TEXT_WIDTH, "height": 900})
    assert page.eval_on_selector_all("main, main *:not(svg *, .sr)", TOO_WIDE) == []
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
