"""What pages of the sample grid, as people of each role have them before them, must never do again."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from apps.cli.sample.grid import POLICY_SLUG
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from tests.browser.conftest import Open, come
from tests.browser.test_my_priority import WATCH_SHIFTS

pytestmark = pytest.mark.product
POLICY = f"/policy/{POLICY_SLUG}"
# Tables of which a column is out of sight.
CUT = """() => [...document.querySelectorAll("main .table-wrap")]
  .filter((each) => each.scrollWidth > each.clientWidth + 1)
  .map((each) => `${each.getAttribute("aria-labelledby")}: ${each.scrollWidth} of ${each.clientWidth}`)"""
MOST_SHIFT = 0.05
NUMBERS = "links => links.map((link) => Number(link.pathname.split('/').at(-2)))"


@pytest.fixture(autouse=True)
def sample(sample_grid: None, transactional_db: None) -> None:
    """The grid of a first start, whose numbers the workers have computed."""


def entry_page(path: str) -> str:
    tree = load_tree(Policy.objects.get(slug=POLICY_SLUG))
    return f"{POLICY}/n/{tree.uuid(tree.index_of_path(path) or 0)}/{path.rpartition('/')[2]}/"


def test_reason_path_and_forecast_of_a_user_are_about_one_level(visit: Open) -> None:
    window = visit()
    window.sign_in("kimberg")
    page = window.go("/")
    page.wait_for_url("**/me/priority/")
    come(page, "#later-forecast")
    explains = page.locator("#path li.decides .break").inner_text()
    expect(page.locator(".qa dd").first).to_contain_text(f"{explains} used")
    expect(page.locator("#later-forecast h2")).to_contain_text(explains)
    assert "others come first" not in page.inner_text("main")


def test_waiting_jobs_are_those_of_the_queue_with_the_place_of_a_new_one(visit: Open) -> None:
    window = visit()
    window.sign_in("kimberg")
    page = window.go("/")
    expect(page.locator("#waiting-jobs tbody tr")).to_have_count(3)
    expect(page.locator("#waiting-jobs footer")).to_contain_text("3 jobs wait.")
    expect(page.locator("#waiting-jobs footer")).to_contain_text(
        re.compile(r"A new job would be number \d+ of 32 in batch")
    )
    expect(page.locator("[data-testid=no-waiting]")).to_have_count(0)


def test_pages_of_a_lead_answer_for_the_own_group(visit: Open) -> None:
    window = visit()
    window.sign_in("ingrid")
    page = window.go("/")
    expect(page.locator("h1")).to_contain_text("in seasonal")
    expect(page.locator("[data-testid=waiting-jobs] dd")).to_have_text(re.compile(r"^\s*\d+\s+in umea\s*$"))
    names = page.locator("#children tbody th a").all_text_contents()
    page.locator(".home-trend").scroll_into_view_if_needed()
    expect(page.locator(".home-trend .tile")).to_have_count(len(names))
    assert sorted(page.locator(".home-trend .tile h3 a").all_text_contents()) == sorted(names)
    cut = page.eval_on_selector_all(".home-trend .tile h3 a", "all => all.filter((a) => a.scrollWidth > a.clientWidth)")
    assert cut == [], "no name is cut"
    assert window.axe() == []
    page = window.go(f"{POLICY}/convergence/")
    expect(page.locator("h1")).to_contain_text("in seasonal")
    assert page.locator("article[data-panel]").count() > 1


def test_the_jobs_that_ended_last_come_first(visit: Open) -> None:
    window = visit()
    window.sign_in("kimberg")
    page = window.go(f"{POLICY}/charges/")
    ended = page.eval_on_selector_all(
        "#charge_rows tbody tr", "rows => rows.map((row) => row.querySelector('time').dateTime)"
    )
    assert ended == sorted(ended, reverse=True)
    records = page.eval_on_selector_all(
        "#charge_rows tbody a", "each => each.map((one) => Number(one.pathname.split('/').at(-2)))"
    )
    assert records != sorted(records, reverse=True), "one was recorded late, else this would show nothing"


def test_a_picture_of_the_policy_names_its_entries(visit: Open) -> None:
    window = visit()
    window.sign_in("admin")
    page = window.go(f"{POLICY}/")
    page.click(f".tabs.place a[href='{POLICY}/icicle/']")
    expect(page.locator("h1")).to_have_text("Treemap")
    cells = page.locator(".fig-plot svg rect[data-at]")
    expect(cells.first).to_be_visible()
    texts = {text.partition("\u2002")[0] for text in page.locator(".fig-plot svg text").all_text_contents()}
    names = {text for text in texts if text[0].isalpha() and text != "on target"}
    assert {"climate", "lattice-qcd", "genomics", "seasonal"} <= names
    assert len(names) >= cells.count() / 2


@pytest.mark.parametrize("width", [1440, 1280, 1024])
def test_no_column_of_a_table_is_out_of_sight(visit: Open, width: int) -> None:
    cut = {}
    for username, paths in {
        "admin": ("/", f"{POLICY}/allocations/", f"{POLICY}/", "/schedulers/", "/usage/sources/", f"{POLICY}/access/"),
        "maria": ("/", "/start/"),
        "ingrid": ("/", "/start/"),
    }.items():
        window = visit(width=width)
        window.sign_in(username)
        for path in paths:
            page = window.go(path)
            page.wait_for_load_state("networkidle")
            if found := page.evaluate(CUT):
                cut[username, path] = found
    assert cut == {}


def shift_of(page: Page) -> float:
    return float(sum(shift for shift, *_nodes in page.evaluate("window.shifts")))


def test_pages_stay_where_they_are_while_their_parts_come(visit: Open) -> None:
    window = visit()
    window.sign_in("admin")
    page = window.go("/")
    page.evaluate("document.fonts.ready")
    page.add_init_script(WATCH_SHIFTS)
    shifts = {}
    for path in (
        "/",
        f"{POLICY}/",
        f"{POLICY}/convergence/",
        entry_page("/climate"),
        f"{entry_page('/climate')}convergence/",
    ):
        page = window.go(path)
        page.wait_for_load_state("networkidle")
        shifts[path] = shift_of(page)
    assert {path: shift for path, shift in shifts.items() if shift > MOST_SHIFT} == {}
