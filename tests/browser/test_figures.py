"""What every figure does in a browser, shown on the decay function: hand-over, state in the URL, keys, downloads."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Open, in_windows
from tests.pages.grid import SLUG, Grid

DECAY = f"/policy/{SLUG}/decay/"
FIGURE = "#fig-decay"


def drawn(page: Page, query: str = "") -> None:
    """Waits until the figure shows what this query of the page asks for."""
    page.wait_for_selector(f"{FIGURE}[data-drawn='{query}']")


@in_windows
def test_a_figure_is_drawn_without_a_layout_shift(grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in()
    page = window.go(DECAY)
    drawn(page)
    expect(page.locator(f"{FIGURE} .fig-wait")).to_have_count(0)
    assert page.locator(f"{FIGURE} .main-svg").first.get_attribute("aria-hidden") == "true"
    box = page.locator(f"{FIGURE} .fig-plot").bounding_box()
    assert box
    assert box["height"] == (360 if width == 1440 else 300)
    window.look()


def test_a_selection_is_in_the_address_and_undone_by_back(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(DECAY)
    drawn(page)
    expect(page.locator(f"{FIGURE} th")).to_have_count(0)  # a closed table is not in the page
    page.click(f"{FIGURE} .fig-more summary")
    page.click(f"{FIGURE} [data-choice='function-pbs']")
    drawn(page, "?function=slurm&function=gridengine&function=lsf&function=pbs")
    assert "function=pbs" in page.url
    assert page.evaluate(
        f"document.activeElement === document.querySelector(\"{FIGURE} [data-choice='function-pbs']\")"
    )
    expect(page.locator(f"{FIGURE} thead th")).to_have_count(6)
    page.go_back()
    drawn(page)
    expect(page.locator(f"{FIGURE} thead th")).to_have_count(5)
    page.dblclick(f"{FIGURE} [data-choice='function-flux']")
    expect(page.locator(f"{FIGURE} thead th")).to_have_count(3)


@pytest.mark.deep
def test_the_skip_link_does_not_change_the_controls(grid: Grid, visit: Open) -> None:
    """It sets off popstate, as Back does, and a figure that is asked again replaces its controls."""
    window = visit()
    window.sign_in()
    page = window.go(DECAY)
    drawn(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate("addEventListener('popstate', () => { document.body.dataset.popped = 'yes'; })")
    page.focus(".skip")
    page.keyboard.press("Enter")
    page.wait_for_selector("body[data-popped]", state="attached")
    page.click(f"{FIGURE} [data-choice='function-pbs']")
    drawn(page, "?function=slurm&function=gridengine&function=lsf&function=pbs")
    assert len([url for url in asked if "/decay" in url]) == 1, asked


def test_keys_announce_points_and_zoom(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(DECAY)
    drawn(page)
    page.focus(f"{FIGURE} .fig-plot")
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator("#status")).to_contain_text("%")
    spread = "document.querySelector('#fig-decay .fig-live')._fullLayout.xaxis.range.reduce((a, b) => b - a)"
    whole = page.evaluate(spread)
    page.keyboard.press("+")
    assert page.evaluate(spread) < whole
    page.keyboard.press("0")
    assert page.evaluate(spread) == whole


def test_a_picture_is_saved_with_its_sentence(grid: Grid, visit: Open, tmp_path: Path) -> None:
    window = visit()
    window.sign_in()
    page = window.go(DECAY)
    drawn(page)
    shown = page.inner_text(f"{FIGURE} .fig-say")
    page.click(f"{FIGURE} header button")
    with page.expect_download() as waiting:
        page.click(f"{FIGURE} [data-download='svg']")
    waiting.value.save_as(tmp_path / "figure.svg")
    picture = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert shown.split(",")[0] in picture.replace("&#160;", "\u00a0").replace("&nbsp;", "\u00a0")
    page.click(f"{FIGURE} header button")
    with page.expect_download() as waiting:
        page.click(f"{FIGURE} [data-figure-csv]")
    waiting.value.save_as(tmp_path / "figure.csv")
    lines = (tmp_path / "figure.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith('"age_days","left_percent_own"')
    assert len(lines) == 242


def test_a_query_without_an_answer_is_reported_in_place_of_the_figure(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"{DECAY}?age=1000000")
    expect(page.locator(f"{FIGURE} .fig-state")).to_contain_text("1000000")


def test_a_figure_that_can_not_be_drawn_opens_its_table_and_is_drawn_on_request(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    window.page.route("**/plotly*.min.js*", lambda route: route.abort())
    page = window.go(DECAY)
    expect(page.locator(f"{FIGURE} .fig-state")).to_contain_text("could not be drawn")
    expect(page.locator(f"{FIGURE} tbody tr").first).to_be_visible()
    assert {one for one in window.complaints if "ERR_FAILED" not in one} == set()
    window.complaints.clear()
    page.unroute("**/plotly*.min.js*")
    page.click(f"{FIGURE} .fig-state button")
    drawn(page)
    expect(page.locator(f"{FIGURE} .fig-state")).to_have_count(0)


@pytest.mark.deep
def test_without_scripts_every_number_is_shown(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(f"{DECAY}?age=7&function=lsf")
    expect(page.locator(f"{FIGURE} .fig-plot")).to_be_hidden()
    expect(page.locator(f"{FIGURE} tbody tr").nth(20)).to_be_visible()


@pytest.mark.deep
def test_the_plotly_styles_match_the_installed_bundle(browser: Browser) -> None:
    """The policy forbids plotly.js to add them by script, so a copy is served; an update of plotly needs a new one."""
    page = browser.new_page()
    page.set_content("<div id='figure'></div>")
    bundle = finders.find("vendor/plotly-basic.min.js")
    page.add_script_tag(content=Path(str(bundle)).read_text(encoding="utf-8"))
    page.evaluate("Plotly.newPlot('figure', [{ y: [1, 2] }])")
    rules = "document.getElementById('plotly.js-style-global').sheet.cssRules"
    made = page.evaluate(f"[...{rules}].map((rule) => rule.cssText).join('\\n')")
    page.close()
    copy = Path(str(finders.find("vendor/plotly-global.css"))).read_text(encoding="utf-8")
    assert copy.partition("\n")[2].strip() == made


def test_a_page_without_figures_loads_no_bundle(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url))
    window.go(f"/policy/{SLUG}/")
    assert asked
    assert not [url for url in asked if "plotly" in url]
