"""What pages of the sample grid, as people of each role have them before them, must never do again."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from apps.cli.sample.grid import POLICY_SLUG
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from tests.browser.conftest import NARROW, WIDE, Open, come
from tests.browser.test_my_priority import WATCH_SHIFTS

pytestmark = pytest.mark.product
POLICY = f"/policy/{POLICY_SLUG}"
# Tables of which a column is out of sight.
CUT = """async () => {
  await new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)));
  return [...document.querySelectorAll("main .table-wrap")]
    .filter((each) => each.scrollWidth > each.clientWidth + 1)
    .map((each) => `${each.getAttribute("aria-labelledby")}: ${each.scrollWidth} of ${each.clientWidth}`);
}"""
TABLE_WIDTHS = (1280, 1024)
MOST_SHIFT = 0.05
# Pages, and what of each is its answer: on the first screen, whatever follows.
ANSWERS = {
    ("admin", "allocations"): ("#verdict", ".board-group[data-group=run_out] tbody tr:last-child"),
    ("maria", "allocations"): ("#verdict", ".board-group[data-group=unused] tbody tr:last-child"),
    ("kimberg", "charges"): ("#waiting-jobs tbody tr:last-child", "#waiting-jobs [data-testid=start-record]"),
    ("admin", "now"): ("[data-testid=headline]", "[data-testid=hurt-cores]", "[data-testid=free-sentence]"),
}
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
    expect(page.locator("#waiting-jobs tbody tr")).to_have_count(4)
    expect(page.locator("#waiting-jobs footer")).to_contain_text("4 jobs wait.")
    expect(page.locator("#waiting-jobs footer")).to_contain_text(
        re.compile(r"A new job would be number \d+ of \d+ in batch")
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
    groups = page.locator(".home-trend .fair-group")
    expect(groups).to_have_count(len(names))
    assert sorted(groups.evaluate_all("all => all.map((one) => one.dataset.name)")) == sorted(names)
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


@pytest.mark.deep
@pytest.mark.parametrize("width", [WIDE, *TABLE_WIDTHS])
def test_no_column_of_a_table_is_out_of_sight(visit: Open, width: int) -> None:
    """Neither where the page is opened nor in a window that becomes narrower."""
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
            for narrower in [width, *(each for each in TABLE_WIDTHS if each < width)]:
                window.resize(narrower)
                if cells := page.evaluate(CUT):
                    cut[username, path, narrower] = cells
            window.resize(width)
    assert cut == {}


def sum_of(shifts: list[Any]) -> float:
    return float(sum(shift for shift, *_nodes in shifts))


ENTRY = "{/climate}"
STILL = {
    "admin": (
        "/",
        f"{POLICY}/",
        f"{POLICY}/convergence/",
        ENTRY,
        f"{ENTRY}convergence/",
        f"{POLICY}/edit",
        f"{POLICY}/charges/",
        "/federation/",
        "/inbox/",
        "/usage/sources/",
        "/api/v1/docs",
    ),
    "maria": ("/", "/group/", f"{POLICY}/edit"),
    "ingrid": ("/", f"{POLICY}/convergence/"),
    "kimberg": ("/me/priority/", f"{POLICY}/charges/"),
}
# To the end and back, as one reads: parts that come when they are near must not push what is seen.
READ_ON = """async () => {
  for (let y = 0; y < document.documentElement.scrollHeight; y += innerHeight / 2) {
    scrollTo(0, y);
    await new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)));
  }
}"""


@pytest.mark.deep
@pytest.mark.parametrize("user", STILL)
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_pages_stay_where_they_are_while_their_parts_come(visit: Open, user: str, width: int) -> None:
    window = visit(width=width)
    window.sign_in(user)
    page = window.go("/")
    page.evaluate("document.fonts.ready")
    page.add_init_script(WATCH_SHIFTS)
    shifts = {}
    for path in STILL[user]:
        page = window.go(path.replace(ENTRY, entry_page("/climate")))
        page.wait_for_load_state("networkidle")
        page.evaluate(READ_ON)
        page.wait_for_load_state("networkidle")
        if (shift := sum_of(page.evaluate("window.shifts"))) > MOST_SHIFT:
            shifts[path] = shift
    assert shifts == {}


# The page in the font that stands in for Inter, and what moves when Inter takes its place: as on a first visit.
FONT_COMES = """async () => {
  const painted = () => new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)));
  const root = document.documentElement, fonts = getComputedStyle(root).getPropertyValue("--font");
  const standIns = fonts.replace(/^\\s*"Inter",/, "");
  if (standIns === fonts) throw new Error(`no stand-in in ${fonts}`);
  scrollTo(0, 0);
  root.style.setProperty("--font", standIns);
  await painted();
  const entries = [], observer = new PerformanceObserver((list) => entries.push(...list.getEntries()));
  observer.observe({ type: "layout-shift" });
  root.style.removeProperty("--font");
  await painted();
  entries.push(...observer.takeRecords());
  observer.disconnect();
  return entries.map(({ value, sources }) => [value, ...sources.map(({ node, previousRect, currentRect }) =>
    `${node?.nodeName} ${node?.id || node?.className || ""} ${previousRect.y} → ${currentRect.y}`)]);
}"""


@pytest.mark.deep
@pytest.mark.parametrize("user", STILL)
def test_pages_stay_where_they_are_when_the_font_comes(visit: Open, user: str) -> None:
    """In a wide window. In a narrow one a sentence may need a line more in another font, and that is a part of it."""
    window = visit(width=WIDE)
    window.sign_in(user)
    shifts = {}
    for path in STILL[user]:
        page = window.go(path.replace(ENTRY, entry_page("/climate")))
        page.wait_for_load_state("networkidle")
        page.evaluate("document.fonts.ready")
        # Twice: what else came just then moves nothing the second time.
        moved = min((page.evaluate(FONT_COMES) for _again in range(2)), key=sum_of)
        if sum_of(moved) > MOST_SHIFT:
            shifts[path] = moved
    assert shifts == {}


@pytest.mark.deep
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_a_page_begins_with_its_answer_on_the_first_screen(visit: Open, width: int, height: int) -> None:
    below = {}
    for (username, name), parts in ANSWERS.items():
        window = visit(width=width)
        window.sign_in(username)
        page = window.go(f"{POLICY}/{name}/")
        page.wait_for_load_state("networkidle")
        for part in parts:
            box = page.locator(part).bounding_box()
            assert box, (name, part)
            if box["y"] + box["height"] > height:
                below[username, name, part] = box["y"] + box["height"]
    assert below == {}
