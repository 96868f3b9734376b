"""The figures of convergence in a browser: zoom, range, picks, time travel, downloads, and numbers that come."""

from __future__ import annotations

import csv
import os
import re
from datetime import date, timedelta
from math import sin
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from apps.core import clock
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests.browser.conftest import Open, Visit, in_windows
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.series_by_hand import HandMade, put_in_place

PAGE = f"/policy/{SLUG}/convergence/"
FIGURE = "#fig-focus"
PLOT = f"{FIGURE} .fig-plot"
N_DAYS = 120


@pytest.fixture
def made(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    """120 days up to the day before AT; the targets change on day 60."""
    used: dict[str, list[float]] = {
        "/atlas/alice": [400 + 90 * sin(n / 5) for n in range(N_DAYS)],
        "/biomed/carol": [250 - n for n in range(N_DAYS)],
        "/cms/dave": [0.0] * 60 + [80 + n for n in range(60)],
    }
    targets = {"/atlas": [0.7] * 60 + [0.6] * 60, "/biomed": [0.2] * 60 + [0.3] * 60}
    yesterday = clock.now().date() - timedelta(days=1)
    return put_in_place(HandMade(yesterday, used, decay=0.8, targets=targets), monkeypatch)


def opened(visit: Open, query: str = "", **kwargs: Any) -> tuple[Visit, Page]:
    window = visit(**kwargs)
    window.sign_in()
    page = window.go(f"{PAGE}{query}")
    drawn(page, query)
    return window, page


def drawn(page: Page, query: str, figure: str = FIGURE) -> None:
    page.locator(figure).scroll_into_view_if_needed()
    page.wait_for_selector(f"{figure}[data-drawn='{query}']")


def range_of(page: Page, figure: str = FIGURE) -> list[str]:
    found: list[str] = page.evaluate(f"document.querySelector('{figure} .fig-live')._fullLayout.xaxis.range")
    return [one[:10] for one in found]


def lines_of(page: Page) -> dict[str, list[float]]:
    """The last two values of each line, by its name."""
    found: dict[str, list[float]] = page.evaluate(
        f"""Object.fromEntries(document.querySelector('{FIGURE} .fig-live').data
            .filter((one) => one.meta?.read).map((one) => [one.name, one.y.slice(-2)]))"""
    )
    return found


def at(page: Page, x: float, y: float = 0.4) -> tuple[float, float]:
    """A place of the window, by parts of the inner box of the picture."""
    box = page.evaluate(
        f"""(() => {{ const live = document.querySelector('{FIGURE} .fig-live'), size = live._fullLayout._size,
            box = live.getBoundingClientRect(); return [box.left + size.l, box.top + size.t, size.w, size.h]; }})()"""
    )
    return box[0] + box[2] * x, box[1] + box[3] * y


def chip(page: Page, name: str) -> str:
    key = page.locator(f"{FIGURE} .chip", has_text=name).get_attribute("data-choice")
    return f"{FIGURE} [data-choice='{key}']"


@pytest.mark.deep
@in_windows
def test_figure_and_controls_fit_each_window(made: HandMade, visit: Open, theme: str, width: int) -> None:
    window, page = opened(visit, "?days=90", theme=theme, width=width)
    expect(page.locator(f"{FIGURE} .fig-wait")).to_have_count(0)
    assert set(lines_of(page)) == {"atlas", "biomed", "cms"}
    window.look()


@pytest.mark.deep
def test_range_unit_selection_and_isolation_are_in_the_address_and_undone_by_back(
    made: HandMade, grid: Grid, visit: Open
) -> None:
    _window, page = opened(visit)
    page.click(f"{FIGURE} [data-choice='range-7']")
    drawn(page, "?range=7")
    assert range_of(page)[0] == "2026-11-13"
    page.click(f"{FIGURE} [data-choice='range-90']")
    drawn(page, "?range=90")
    page.click(f"{FIGURE} [data-choice='show-ratio']")
    drawn(page, "?range=90&show=ratio")
    expect(page.locator(f"{FIGURE} .ytick", has_text="100\u00a0%")).to_have_count(1)
    page.dblclick(chip(page, "biomed"))
    expect(page.locator(f"{FIGURE} .chip[data-shown=true]")).to_have_count(1)
    page.wait_for_function("location.search.includes('hide=')")
    drawn(page, page.evaluate("location.search"))
    assert list(lines_of(page)) == ["biomed"]
    page.go_back()
    drawn(page, "?range=90&show=ratio")
    assert len(lines_of(page)) == 3
    page.fill("#pick", "biomed/carol")
    page.press("#pick", "Enter")
    expect(page.locator(f"{FIGURE} .chip")).to_have_count(4)
    drawn(page, page.evaluate("location.search"))
    assert "carol" in lines_of(page)
    page.locator(f"{FIGURE} [aria-label='Drop cms']").click()
    expect(page.locator(f"{FIGURE} .chip")).to_have_count(3)
    query = page.evaluate("location.search")
    page.reload()
    drawn(page, query)
    assert set(lines_of(page)) == {"atlas", "biomed", "carol"}


@pytest.mark.deep
def test_a_ninth_selection_asks_which_to_replace(made: HandMade, grid: Grid, visit: Open) -> None:
    tree = grid.tree
    nine = "&".join(f"pick={tree.uuid(i)}" for i in range(1, 10))
    window = visit()
    window.sign_in()
    page = window.go(f"{PAGE}?{nine}")
    expect(page.locator(f"{FIGURE} .fig-state")).to_contain_text("9")
    expect(page.locator(f"{FIGURE} .chip")).to_have_count(9)
    page.locator(f"{FIGURE} .chip").nth(4).click()
    expect(page.locator(f"{FIGURE} .chip[data-shown=true]")).to_have_count(8, timeout=30_000)
    drawn(page, page.evaluate("location.search"))
    assert len(lines_of(page)) == 8
    page.fill("#pick", "nobody/at/all")
    page.press("#pick", "Enter")
    expect(page.locator(f"{FIGURE} .fig-state")).not_to_be_empty()
    window.complaints.clear()  # the console reports the refusal


@pytest.mark.deep
def test_zoom_by_drag_wheel_keys_and_slider(made: HandMade, visit: Open) -> None:
    _window, page = opened(visit, "?days=90")
    whole = range_of(page)
    page.mouse.move(*at(page, 0.3))
    page.mouse.down()
    page.mouse.move(*at(page, 0.6), steps=6)
    page.mouse.up()
    page.wait_for_function(f"document.querySelector('{FIGURE} .fig-live')._fullLayout.xaxis.range[0] > '2026-09-01'")
    zoomed = range_of(page)
    assert whole[0] < zoomed[0] < zoomed[1] < whole[1]
    page.keyboard.down("Shift")
    page.mouse.move(*at(page, 0.3))
    page.mouse.down()
    page.mouse.move(*at(page, 0.6), steps=6)
    page.mouse.up()
    page.keyboard.up("Shift")
    assert range_of(page)[0] < zoomed[0], "Shift pans"
    page.keyboard.press("0")
    assert range_of(page) == whole
    page.mouse.move(*at(page, 0.5))
    page.mouse.wheel(0, -100)
    page.wait_for_function(
        f"document.querySelector('{FIGURE} .fig-live')._fullLayout.xaxis.range[0].slice(0, 10) !== '{whole[0]}'"
    )
    near = range_of(page)
    page.keyboard.press("PageUp")
    assert range_of(page)[0] < near[0]
    page.keyboard.press("0")
    handle = page.locator(f"{FIGURE} .rangeslider-grabber-min").bounding_box()
    assert handle
    page.mouse.move(handle["x"] + 2, handle["y"] + 4)
    page.mouse.down()
    page.mouse.move(handle["x"] + 150, handle["y"] + 4, steps=6)
    page.mouse.up()
    assert range_of(page)[0] > whole[0]


@pytest.mark.deep
def test_a_click_on_a_day_opens_its_tree_and_one_on_a_revision_its_changes(made: HandMade, visit: Open) -> None:
    window, page = opened(visit, "?days=7")
    mark = page.locator(f"{FIGURE} .annotation-text-g", has_text="rev 2")
    expect(mark).to_have_count(1)
    with page.expect_navigation(url=re.compile(r"diff/\?to=2$|diff\?to=2$")):
        mark.click()
    page = window.go(f"{PAGE}?days=7")
    drawn(page, "?days=7")
    page.focus(PLOT)
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#status")).to_contain_text("19 Nov")
    with page.expect_navigation(url=re.compile(r"/policy/grid/\?at=2026-11-19T23")):
        page.keyboard.press("Enter")
    expect(page.locator("[data-testid=time-bar], .timebar").first).to_be_visible()


@pytest.mark.deep
def test_downloads_have_exactly_what_is_shown(made: HandMade, visit: Open, tmp_path: Path) -> None:
    _window, page = opened(visit, "?range=7&pick=atlas&pick=cms")
    saved = {}
    for kind in ("png", "svg", "csv"):
        page.click(f"{FIGURE} header button")
        with page.expect_download() as waiting:
            page.click(f"{FIGURE} [data-figure-csv]" if kind == "csv" else f"{FIGURE} [data-download='{kind}']")
        saved[kind] = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(saved[kind])
        assert re.fullmatch(rf"fairshare_grid_convergence_\S+_rev2\.{kind}", saved[kind].name)
    assert saved["png"].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(saved["png"].read_bytes()) > 20_000
    picture = saved["svg"].read_text(encoding="utf-8")
    assert "SweGrid · Revision 2" in picture
    assert "atlas" in picture
    assert "biomed" not in picture
    rows = list(csv.reader(saved["csv"].read_text(encoding="utf-8").splitlines()))
    assert rows[0] == ["day", *(f"{n} {k}_percent" for n in ("atlas", "cms") for k in ("actual", "target"))]
    assert len(rows) == 9, "seven days, and today so far"


@pytest.mark.deep
def test_a_recompute_appears_automatically_and_keeps_zoom_and_selection(
    made: HandMade, grid: Grid, visit: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = visit(is_kept=False)
    window.sign_in()
    page = window.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/live") else None)
    page.clock.install(time=AT)
    window.go(f"{PAGE}?days=30&pick=atlas")
    drawn(page, "?days=30&pick=atlas")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    before, tag = lines_of(page)["atlas"], page.get_attribute(FIGURE, "data-tag")
    with page.expect_response(lambda answer: answer.url.endswith("/live")) as unchanged:
        page.clock.run_for(6_000)
    assert unchanged.value.status == 304
    page.focus(PLOT)
    page.keyboard.press("+")
    zoomed = range_of(page)
    monkeypatch.setenv(clock.VARIABLE, (AT + timedelta(minutes=20)).isoformat())
    # The clock runs on: slow new numbers may be asked for before the test moves the clock.
    with page.expect_response(lambda answer: answer.url.endswith("/live") and answer.status == 200):
        more_usage(grid)
        page.clock.run_for(6_000)
    page.wait_for_selector(f"{FIGURE}:not([data-tag='{tag}'])")
    after = lines_of(page)["atlas"]
    assert after[0] == before[0], "the complete days are the same"
    assert after[1] > before[1]
    assert range_of(page) == zoomed
    expect(page.locator("[data-live-text]")).to_contain_text("Updated")
    page.click("#live [data-live-pause]")
    expect(page.locator("#live")).to_have_attribute("data-state", "paused")
    n_asked = len(asked)
    page.clock.run_for(20_000)
    assert len(asked) == n_asked
    page.route("**/live", lambda route: route.abort())
    page.click("#live [data-live-pause]")
    expect(page.locator("#live")).to_have_attribute("data-state", "failed")
    expect(page.locator(f"{FIGURE} .fig-foot")).to_be_visible()
    assert lines_of(page)["atlas"] == after
    page.unroute("**/live")
    page.clock.run_for(6_000)
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    expect(page.locator(f"{FIGURE} .fig-foot")).to_be_hidden()
    window.complaints.clear()  # the console reports the request that failed


def more_usage(grid: Grid) -> None:
    rows = [
        RecordRow(
            job="more",
            user="alice",
            group="atlas",
            start_at=AT - timedelta(hours=8),
            end_at=AT - timedelta(hours=1),
            cpus=5_000,
        )
    ]
    ingest_batch(source=Source.objects.get(slug="cluster-a"), rows=rows, at=AT)
    grid.recompute()


@pytest.mark.deep
def test_without_scripts_every_number_is_shown(made: HandMade, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(f"{PAGE}?days=90")
    expect(page.locator(f"{FIGURE} tbody tr")).to_have_count(91)
    expect(page.locator(f"{FIGURE} tbody tr").first).to_be_visible()
    page.fill("#pick", "biomed/carol")
    page.click(".pick-form button")
    page.wait_for_url("**pick=biomed%2Fcarol**")
    assert page.locator(f"{FIGURE} .chip").count() == 4
    window.look()


MANY = f"/policy/{SLUG}/n/{{uid}}/biomed/convergence/"
# Distance of each live panel from the window, in pixels; 0 where it is seen.
DISTANCES = """() => [...document.querySelectorAll("[data-panel]:has(.panel-plot.is-live)")].map((each) => {
  const { top, bottom } = each.getBoundingClientRect();
  return Math.max(0, top - innerHeight, -bottom);
})"""
SEEN_WITHOUT = """() => [...document.querySelectorAll("[data-panel]:not(:has(.panel-plot.is-live))")].filter((each) => {
  const { top, bottom } = each.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}).length"""


def wait_for(page: Page, condition: str) -> None:
    """Until it is true; compiled once, as the page's policy allows no further text to become code."""
    page.evaluate(
        f"""() => new Promise((done, failed) => {{
            const end = performance.now() + 20_000;
            const look = () => {{
                if ({condition}) done();
                else if (performance.now() > end) failed(new Error("still not true"));
                else requestAnimationFrame(look);
            }};
            look();
        }})"""
    )


def many_days(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> str:
    used = {f"/biomed/helper{n:04}": [float(n + day) for day in range(40)] for n in range(1, 30)}
    used["/biomed/carol"] = [0.0] * 40
    put_in_place(HandMade(clock.now().date() - timedelta(days=1), used, decay=0.8), monkeypatch)
    return MANY.format(uid=grid.uid("/biomed"))


@pytest.mark.deep
@pytest.mark.parametrize(("width", "most"), [(1440, 40), (390, 30)])
def test_at_most_forty_panels_are_rendered_near_the_window(
    large_grid: Grid, transactional_db: None, monkeypatch: pytest.MonkeyPatch, visit: Open, width: int, most: int
) -> None:
    """Beside each other forty are fewer than there is room for; below each other distance alone removes them."""
    address = many_days(large_grid, monkeypatch)
    window = visit(width=width)
    window.sign_in()
    page = window.go(address)
    counts = []
    for shown in range(24, 73, 12):
        page.locator(".more-panels").scroll_into_view_if_needed()
        expect(page.locator("article[data-panel]")).to_have_count(shown, timeout=30_000)
        wait_for(page, f"({SEEN_WITHOUT})() === 0")
        counts.append(len(page.evaluate(DISTANCES)))
    assert max(counts) <= most
    if width == 1440:
        assert max(counts) == most, "the limit is what holds them back"
    wait_for(page, f"({DISTANCES})().every((distance) => distance <= 2000)")
    for _ in range(6):
        page.mouse.wheel(0, -700)
        wait_for(page, f"({SEEN_WITHOUT})() === 0")
        assert len(page.evaluate(DISTANCES)) <= most


@pytest.mark.deep
@in_windows
def test_a_heat_map_has_a_legend_and_current_values(
    long_grid: Grid,
    transactional_db: None,
    monkeypatch: pytest.MonkeyPatch,
    visit: Open,
    theme: str,
    width: int,
    tmp_path: Path,
) -> None:
    address = many_days(long_grid, monkeypatch)
    window = visit(theme=theme, width=width)
    window.sign_in()
    page = window.go(f"{address}?days=90")
    drawn(page, "?days=90", "#fig-heat")
    legend = page.locator("#fig-heat .fig-legend li")
    expect(legend).to_have_count(8)
    shown = page.locator("#fig-heat .fig-legend .box:not(.dot)").evaluate_all(
        "(cells) => cells.map((one) => getComputedStyle(one).backgroundColor)"
    )
    assert len(set(shown)) == 7, "each step has a colour of its own"
    days = (date_of(range_of(page, "#fig-heat")[1]) - date_of(range_of(page, "#fig-heat")[0])).days
    labels = page.locator("#fig-heat .annotation-text")
    if width < 440:
        assert days == 28
        expect(page.locator("#fig-heat .fig-note")).to_contain_text("28")
        expect(labels).to_have_count(0)
    else:
        assert days == 41, "all days that there are, and the newest snapshot"
        expect(labels).to_have_count(32)
        balances = labels.all_text_contents()
        page.locator("#fig-heat .fig-more summary").click()
        assert balances == page.locator("#fig-heat tbody td").all_inner_texts()
    folder_of_downloads = Path(os.environ.get("FAIRSHARE_SHOTS") or tmp_path)
    for kind in ("svg", "png"):
        page.click("#fig-heat header button")
        with page.expect_download() as waiting:
            page.click(f"#fig-heat [data-download='{kind}']")
        waiting.value.save_as(folder_of_downloads / f"heat-{theme}-{width}-download.{kind}")
    picture = (folder_of_downloads / f"heat-{theme}-{width}-download.svg").read_text(encoding="utf-8")
    words = legend.all_inner_texts()
    assert [one for one in words if f">{one}<" in picture] == words, "the picture says what its colours mean, too"
    window.look()
    if folder := os.environ.get("FAIRSHARE_SHOTS"):
        page.locator("#fig-heat").screenshot(path=Path(folder) / f"heat-{theme}-{width}.png")


def date_of(text: str) -> date:
    return date.fromisoformat(text)
