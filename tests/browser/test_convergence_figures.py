"""Convergence as one state in a browser: range, zoom, cursor, selection, menu, keys, and numbers that come."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable
from datetime import timedelta
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
from tests.pages.convergence.figures.test_over_time import projected
from tests.pages.grid import SLUG, Grid
from tests.series_by_hand import HandMade, put_in_place

PAGE = f"/policy/{SLUG}/convergence/"
FIGURE = "#fig-over-time"
READOUT = f"{FIGURE} [data-readout]"
PLOT = f"{FIGURE} .fig-plot"
N_DAYS = 120


@pytest.fixture
def made(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    """120 days up to the day before AT; the targets change on day 60. All are on target on 29 November."""
    used: dict[str, list[float]] = {
        "/atlas/alice": [400 + 90 * sin(n / 5) for n in range(N_DAYS)],
        "/biomed/carol": [250 - n for n in range(N_DAYS)],
        "/cms/dave": [0.0] * 60 + [80 + n for n in range(60)],
    }
    targets = {"/atlas": [0.7] * 60 + [0.6] * 60, "/biomed": [0.2] * 60 + [0.3] * 60}
    yesterday = clock.now().date() - timedelta(days=1)
    monkeypatch.setattr("apps.pages.convergence.views.projections_of", projected)
    return put_in_place(HandMade(yesterday, used, decay=0.8, targets=targets), monkeypatch)


def opened(visit: Open, query: str = "?section=rest", **kwargs: Any) -> tuple[Visit, Page]:
    window = visit(**kwargs)
    window.sign_in()
    page = window.go(f"{PAGE}{query}")
    ready(page)
    return window, page


def ready(page: Page) -> None:
    """Plotly has taken the place of the server's picture, and the tiles, which load near the window, their numbers."""
    query = page.evaluate("location.search")
    page.wait_for_selector(f"{FIGURE}[data-drawn='{query}'] .fig-live.is-shown", timeout=20_000)
    page.mouse.move(0, 0)  # over no picture while the page scrolls
    page.locator(".tiles").last.scroll_into_view_if_needed()
    page.wait_for_selector(f".tiles[data-drawn='{query}']")
    page.locator(FIGURE).evaluate("node => node.scrollIntoView({ block: 'center', behavior: 'instant' })")


def point(page: Page, x: float, y: float = 0.4) -> tuple[float, float]:
    """A place of the window, by parts of the inner box of the picture."""
    box = page.locator(PLOT).bounding_box()
    assert box
    return box["x"] + 34 + (box["width"] - 46) * x, box["y"] + 10 + (box["height"] - 32) * y


def drag(page: Page, start: float, end: float) -> None:
    page.mouse.move(*point(page, start))
    page.mouse.down()
    page.mouse.move(*point(page, end), steps=6)
    page.mouse.up()


def zoom_of(page: Page) -> str:
    found = re.search(r"zoom=([\d.-]+)", page.url)
    return found[1] if found else ""


def end_of_line(page: Page) -> list[float]:
    """The last two values of the line."""
    found: list[float] = page.evaluate(
        f"document.querySelector('{FIGURE} .fig-live').data.find((one) => one.name).y.slice(-2)"
    )
    return found


@pytest.mark.deep
@in_windows
def test_the_picture_fits_each_window(made: HandMade, visit: Open, theme: str, width: int) -> None:
    window, page = opened(visit, "?range=90&section=rest", theme=theme, width=width)
    expect(page.locator(f"{PLOT} svg.course")).to_have_count(0)
    window.look()


@pytest.mark.deep
def test_nothing_moves_when_plotly_takes_over(made: HandMade, visit: Open) -> None:
    """Places of dates, values and dots, within two pixels."""
    window = visit()
    window.sign_in()
    page = window.page
    page.route("**/plotly*.js", lambda route: route.abort())
    window.go(PAGE)
    places = """(all) => Object.fromEntries(all.flatMap((selector) => [...document.querySelectorAll(selector)]
        .filter((one) => one.getClientRects().length && one.textContent).map((one) => {
            const box = one.getBoundingClientRect();
            return [one.textContent, [box.left + box.width / 2, box.top + scrollY + box.height / 2]];
        })))"""
    served = page.evaluate(places, [f"{PLOT} svg.course text"])
    page.unroute("**/plotly*.js")
    page.reload()
    ready(page)
    drawn = page.evaluate(places, [f"{PLOT} .xtick text", f"{PLOT} .ytick text", f"{PLOT} .annotation-text"])
    assert set(drawn) == set(served)
    for text, (x, y) in served.items():
        assert drawn[text] == pytest.approx([x, y], abs=2.5), text
    window.complaints.clear()  # the script that was held back


@pytest.mark.deep
def test_a_click_stays_on_the_page_and_selects(made: HandMade, grid: Grid, visit: Open) -> None:
    _window, page = opened(visit)
    page.mouse.click(*point(page, 0.3))
    assert page.url.endswith(f"{PAGE}?section=rest")
    tops = "(tiles) => tiles.map((one) => one.getBoundingClientRect().top + scrollY)"
    drawn = page.locator(".tile").evaluate_all(tops)
    page.locator(f".tile[data-uid='{grid.uid('/cms')}'] [data-select]").click()
    expect(page.locator(f"{FIGURE} .fig-title")).to_have_text("cms")
    assert f"entry={grid.uid('/cms')}" in page.url
    expect(page.locator(".tile.is-selected h3 a")).to_have_text("cms")
    expect(page.locator("#status")).to_contain_text("cms")
    assert page.locator(".tile").evaluate_all(tops) == drawn, "nothing moves"
    page.go_back()
    expect(page.locator(f"{FIGURE} .fig-title")).not_to_have_text("cms")
    expect(page.locator(f".tile[data-uid='{grid.uid('/cms')}'] [data-select]")).to_be_focused()


@pytest.mark.deep
def test_back_keeps_the_focus_in_the_plot_or_on_the_page(made: HandMade, grid: Grid, visit: Open) -> None:
    _window, page = opened(visit)
    page.locator(f".tile[data-uid='{grid.uid('/cms')}'] [data-select]").click()
    expect(page.locator(f"{FIGURE} .fig-title")).to_have_text("cms")
    page.focus(PLOT)
    page.go_back()
    expect(page.locator(f"{FIGURE} .fig-title")).not_to_have_text("cms")
    expect(page.locator(PLOT)).to_be_focused()
    page.select_option("#level", str(grid.uid("/atlas")))
    page.select_option("#level", str(grid.uid("/biomed")))  # before the first has come
    tile = page.locator(f".tile[data-uid='{grid.uid('/biomed/carol')}'] [data-select]")
    tile.focus()
    page.go_back()
    expect(tile).to_have_count(0)
    expect(page.locator("#main")).to_be_focused()


@pytest.mark.deep
def test_shift_click_and_the_menu_lead_elsewhere(made: HandMade, grid: Grid, visit: Open) -> None:
    _window, page = opened(visit)
    tile = page.locator(f".tile[data-uid='{grid.uid('/cms')}']")
    tile.locator("[data-go-menu]").click()
    items = page.locator("#go-menu a:visible")
    expect(items.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(items.nth(1)).to_be_focused()
    assert str(grid.uid("/cms")) in str(items.first.get_attribute("href"))
    page.keyboard.press("Escape")
    expect(page.locator("#go-menu")).to_be_hidden()
    expect(tile.locator("[data-go-menu]")).to_be_focused()
    page.mouse.move(5, 5)
    page.focus(PLOT)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.locator("#go-menu [data-go=day]")).to_contain_text("19 Nov")
    page.keyboard.press("Escape")
    with page.expect_navigation(url=re.compile(rf"/n/{grid.uid('/cms')}/cms/$")):
        tile.locator("[data-select]").click(modifiers=["Shift"])


@pytest.mark.deep
def test_a_zoom_is_in_the_address_of_all_pictures_and_is_reset_by_button_double_click_and_key(
    made: HandMade, visit: Open
) -> None:
    _window, page = opened(visit)
    reset, tile = page.locator("#reset-zoom"), page.locator(".tile svg.course").first
    whole = tile.locator(".days").text_content() or ""
    expect(reset).to_be_hidden()
    bar = page.locator(".rangebar").bounding_box()
    undoings: list[Callable[[], None]] = [
        reset.click,
        lambda: page.mouse.dblclick(*point(page, 0.5)),
        lambda: page.press(PLOT, "0"),
    ]
    for undo in undoings:
        drag(page, 0.1, 0.4)
        expect(reset).to_be_visible()
        assert page.locator(".rangebar").bounding_box() == bar, "its place was kept"
        assert re.fullmatch(r"2026-\d\d-\d\d\.\.2026-\d\d-\d\d", zoom_of(page))
        expect(tile.locator(".days")).not_to_have_text(whole)
        undo()
        expect(reset).to_be_hidden()
        assert zoom_of(page) == ""
        expect(tile.locator(".days")).to_have_text(whole)
    page.press(PLOT, "+")
    expect(reset).to_be_visible()
    zoomed = zoom_of(page)
    expect(page.locator("#status")).to_have_text(re.compile(r"^Zoomed to \d+ \w+ 2026 to \d+ \w+ 2026\.$"))
    page.reload()
    ready(page)
    assert zoom_of(page) == zoomed
    expect(reset).to_be_visible()
    page.go_back()
    expect(reset).to_be_hidden()


@pytest.mark.deep
def test_the_end_of_a_zoom_has_its_own_value(made: HandMade, visit: Open) -> None:
    _window, page = opened(visit)
    now = page.locator(f"{PLOT} .annotation-text").last.text_content() or ""
    drag(page, 0.05, 0.3)
    expect(page.locator(f"{PLOT} .annotation-text").last).not_to_have_text(now)
    value = (page.locator(f"{PLOT} .annotation-text").last.text_content() or "").replace("\u00a0", " ")
    expect(page.locator(READOUT)).to_contain_text(value)


@pytest.mark.deep
def test_one_cursor_is_on_all_pictures(made: HandMade, visit: Open) -> None:
    _window, page = opened(visit)
    page.set_viewport_size({"width": 1440, "height": 2_600})  # tiles far off the window have no picture
    readout = page.locator(READOUT)
    expect(readout).to_contain_text("20 Nov")
    page.mouse.move(*point(page, 0.25))
    lines = page.locator(".cross[visibility=visible]")
    expect(lines).to_have_count(2 + page.locator(".tile").count())  # of the course, the cells, and each tile
    day = re.sub(r"^\S+ ", "", readout.locator("b").inner_text())
    for tile in page.locator(".tile").all():  # the balance is of that day, too
        used, target = (
            float(re.sub(r".*?([\d.]+)\s*%.*", r"\1", tile.locator(f"[data-{name}]").inner_text(), flags=re.S))
            for name in ("used", "target")
        )
        amount = re.match(r"[\d.]+", tile.locator(".bal").inner_text().strip())
        if amount:
            assert float(amount[0]) == pytest.approx(abs(used - target), abs=0.051)
    assert page.locator(".tile [data-used]").all_inner_texts() == [
        text for text in page.locator(".tile [data-used]").all_inner_texts() if text.startswith(day)
    ]
    places = lines.evaluate_all("(all) => all.map((one) => one.getAttribute('x1')).filter((x) => x)")
    assert len(set(places)) == 1
    page.mouse.move(5, 5)
    expect(lines).to_have_count(0)
    page.focus(PLOT)
    page.keyboard.press("Shift+ArrowLeft")
    expect(readout).to_contain_text("13 Nov")
    expect(page.locator("#status")).to_contain_text("13 Nov")
    expect(lines).to_have_count(2 + page.locator(".tile").count())  # of the course, the cells, and each tile
    page.keyboard.press("End")
    expect(readout).to_contain_text("expected")
    page.keyboard.press("Escape")
    expect(readout).to_contain_text("20 Nov")


@pytest.mark.deep
def test_a_range_that_is_none_is_refused_at_its_field(made: HandMade, visit: Open) -> None:
    window, page = opened(visit)
    page.click("#custom")
    page.fill("#from", "the other day")
    page.fill("#to", "15 Nov")
    page.click("#range-form button[type=submit]")
    expect(page.locator("#from")).to_be_focused()
    expect(page.locator("#from")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#range-hint")).to_contain_text("the other day")
    assert page.input_value("#to") == "15 Nov", "what was typed is kept"
    assert page.url.endswith(f"{PAGE}?section=rest")
    window.complaints.clear()  # the console reports the refusal
    page.fill("#from", "1 Nov 2026")
    page.keyboard.press("Enter")
    expect(page.locator("[data-period]")).to_contain_text("1 Nov to 15 Nov 2026")
    expect(page.locator("#range-pop")).to_be_hidden()
    expect(page.locator("#custom")).to_have_attribute("aria-current", "true")


@pytest.mark.deep
def test_range_unit_and_comparison_keep_what_was_selected(made: HandMade, grid: Grid, visit: Open) -> None:
    _window, page = opened(visit)
    page.locator(f".tile[data-uid='{grid.uid('/cms')}'] [data-select]").click()
    expect(page.locator(f"{FIGURE} .fig-title")).to_have_text("cms")
    for control, word in (("#range-7", "range=7"), ("#compare", "compare=1"), ("#unit-points", "unit=points")):
        page.click(control)
        page.wait_for_url(f"**{word}**")
        expect(page.locator(f"{FIGURE} .fig-title")).to_have_text("cms")
        ready(page)
        assert f"entry={grid.uid('/cms')}" in page.url
    expect(page.locator(READOUT)).not_to_contain_text("days before")
    page.mouse.move(*point(page, 0.4))
    expect(page.locator(READOUT)).to_contain_text("7 days before")


@pytest.mark.deep
def test_the_day_on_target_is_the_same_in_words_and_picture(made: HandMade, visit: Open) -> None:
    _window, page = opened(visit)
    day = page.locator("[data-testid=on-target]").inner_text()
    assert day == "29 Nov"
    expect(page.locator("[data-facts] h3")).to_contain_text(day)
    expect(page.locator(f"{PLOT} .annotation-text", has_text=f"on target {day}")).to_have_count(1)


@pytest.mark.deep
def test_tiles_are_walked_by_arrow_keys(made: HandMade, visit: Open) -> None:
    _window, page = opened(visit)
    links = page.locator("[data-select]")
    links.first.focus()
    page.keyboard.press("ArrowRight")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(links.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".tile.is-selected")).to_have_count(1)


@pytest.mark.deep
def test_downloads_have_exactly_what_is_shown(made: HandMade, grid: Grid, visit: Open, tmp_path: Path) -> None:
    _window, page = opened(visit, f"?range=7&section=rest&entry={grid.uid('/cms')}")
    saved = {}
    for kind in ("png", "svg", "csv"):
        page.click(f"{FIGURE} [popovertarget=fig-over-time-save]")
        with page.expect_download() as waiting:
            page.click(f"{FIGURE} [data-figure-csv]" if kind == "csv" else f"{FIGURE} [data-download='{kind}']")
        saved[kind] = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(saved[kind])
        assert re.fullmatch(rf"fairshare_grid_cms_\S+_rev2\.{kind}", saved[kind].name)
    assert saved["png"].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    picture = saved["svg"].read_text(encoding="utf-8")
    assert "SweGrid · Revision 2" in picture
    assert "cms" in picture
    rows = list(csv.DictReader(saved["csv"].read_text(encoding="utf-8").splitlines()))
    assert len([row for row in rows if row["used_percent"]]) == 8, "seven days, and today so far"
    assert len([row for row in rows if row["expected_percent"]]) == 5


@pytest.mark.deep
def test_a_recompute_appears_automatically_and_keeps_zoom_and_selection(
    made: HandMade, grid: Grid, visit: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = visit(is_kept=False)
    window.sign_in()
    page = window.page
    page.clock.install(time=AT)
    query = f"?section=rest&entry={grid.uid('/atlas')}&zoom=2026-11-12..2026-11-24"
    window.go(f"{PAGE}{query}")
    page.clock.run_for(4_000)
    ready(page)
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    before, tag = end_of_line(page), page.get_attribute(FIGURE, "data-tag")
    used = page.locator(f".tile[data-uid='{grid.uid('/atlas')}'] [data-used] b")
    shown = used.inner_text()
    monkeypatch.setenv(clock.VARIABLE, (AT + timedelta(minutes=20)).isoformat())
    with page.expect_response(lambda answer: answer.url.endswith("/live") and answer.status == 200):
        more_usage(grid)
        page.clock.run_for(6_000)
    page.clock.run_for(3_000)
    page.wait_for_selector(f"{FIGURE}:not([data-tag='{tag}'])")
    after = end_of_line(page)
    assert after[0] == before[0], "the complete days are the same"
    assert after[1] > before[1]
    expect(used).not_to_have_text(shown)
    assert zoom_of(page) == "2026-11-12..2026-11-24"
    assert page.url.endswith(query)


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


def many_days(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> str:
    used = {f"/biomed/helper{n:04}": [float(n + day) for day in range(40)] for n in range(1, 30)}
    used["/biomed/carol"] = [0.0] * 40
    put_in_place(HandMade(clock.now().date() - timedelta(days=1), used, decay=0.8), monkeypatch)
    return f"{PAGE}?level={grid.uid('/biomed')}"


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
    page = window.go(f"{address}&range=90")
    page.locator("#fig-heat").scroll_into_view_if_needed()
    page.wait_for_selector("#fig-heat[data-drawn]", timeout=20_000)
    legend = page.locator("#fig-heat .fig-legend").first.locator("li")
    expect(legend).to_have_count(8)
    labels = page.locator("#fig-heat .heat-now text")
    expect(labels).to_have_count(32)
    if width < 440:
        expect(labels.first).to_be_hidden()
    else:
        balances = labels.all_text_contents()
        page.locator("#fig-heat .fig-more summary").click()
        expect(page.locator("#fig-heat tbody td")).to_have_text(balances)
    folder = Path(os.environ.get("FAIRSHARE_SHOTS") or tmp_path)
    page.click("#fig-heat header button")
    with page.expect_download() as waiting:
        page.click("#fig-heat [data-download='svg']")
    waiting.value.save_as(folder / f"heat-{theme}-{width}-download.svg")
    picture = (folder / f"heat-{theme}-{width}-download.svg").read_text(encoding="utf-8")
    words = legend.all_inner_texts()
    assert [one for one in words if f">{one}<" in picture] == words, "the picture says what its colours mean, too"
    window.look()
