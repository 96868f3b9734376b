"""The fair line in a browser: days that pass, keys, selecting, going in, drafting, new numbers, and many entries."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from math import nan, sin
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from apps.core import clock
from apps.policies.models import Entry
from apps.series.convergence import query
from bench.pages import _SEEN
from tests.browser.conftest import Open, Visit, at_widths, come, in_windows, settled
from tests.pages.convergence.figures.test_over_time import projected
from tests.pages.grid import SLUG, Grid, make_grid
from tests.series_by_hand import HandMade, put_in_place

PAGE = f"/policy/{SLUG}/convergence/"
FIGURE = "#fig-fair-line"
LINKS = f"{FIGURE} .fair-group > a"
N_DAYS = 90
AT_REST = """() => new Promise(done => {
  let last, still = 0
  const look = () => {
    still = scrollY === last ? still + 1 : 0
    last = scrollY
    still > 9 ? done() : requestAnimationFrame(look)
  }
  look()
})"""
PLACES = f"""() => Object.fromEntries([...document.querySelectorAll("{FIGURE} .fair-group")]
    .map((one) => [one.dataset.name, parseFloat(one.getAttribute("x"))]))"""


@pytest.fixture
def made(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    used: dict[str, list[float]] = {
        "/atlas/alice": [400 + 90 * sin(n / 5) for n in range(N_DAYS)],
        "/biomed/carol": [250 - n for n in range(N_DAYS)],
        "/cms/dave": [0.0] * 40 + [80.0 + n for n in range(50)],
    }
    monkeypatch.setattr("apps.pages.convergence.views.projections_of", projected)
    yesterday = clock.now().date() - timedelta(days=1)
    return put_in_place(HandMade(yesterday, used, decay=0.8), monkeypatch)


def opened(visit: Open, address: str = "", **kwargs: Any) -> tuple[Visit, Page]:
    window = visit(**kwargs)
    window.sign_in()
    page = window.go(f"{PAGE}{address}")
    page.wait_for_selector(f"{FIGURE}[data-drawn]", timeout=20_000)
    return window, page


def moving(visit: Open) -> Visit:
    """A window of somebody who hasn't asked for less motion."""
    window = visit(is_kept=False)
    window.page.emulate_media(reduced_motion="no-preference")
    window.sign_in()
    return window


def slider(page: Page) -> Locator:
    return page.locator(f"{FIGURE} input[type=range]")


def go_to(page: Page, stop: int) -> None:
    slider(page).evaluate(
        "(one, stop) => { one.value = stop; one.dispatchEvent(new Event('input', { bubbles: true })); }", stop
    )
    spoken = str(slider(page).get_attribute("aria-valuetext"))
    expect(page.locator(f"{FIGURE} .fair-day")).to_have_text(spoken.split(". ")[0])


def edge_of(page: Page, name: str) -> tuple[float, float]:
    box = page.locator(f"{FIGURE} [data-name={name}] a > circle").bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + 1


@in_windows
def test_it_is_the_first_thing_fits_and_is_accessible(made: HandMade, visit: Open, theme: str, width: int) -> None:
    window, page = opened(visit, theme=theme, width=width)
    first = page.locator("#convergence .card").first
    expect(first).to_have_attribute("id", "fig-fair-line")
    expect(page.locator(f"{LINKS} > circle")).to_have_count(3)
    window.look()


@pytest.mark.deep
def test_days_pass_up_to_the_end_of_the_forecast(made: HandMade, visit: Open) -> None:
    page = moving(visit).go(PAGE)
    page.wait_for_selector(f"{FIGURE}[data-drawn]")
    now, before = slider(page).input_value(), page.evaluate(PLACES)
    assert int(str(slider(page).get_attribute("max"))) == int(now) + 30
    play = page.locator("[data-fair-play]")
    play.click()
    expect(play).to_have_text("Pause")
    expect(play).to_have_text("Play", timeout=60_000)
    assert slider(page).input_value() == slider(page).get_attribute("max")
    expect(page.locator(f"{FIGURE} svg.fair")).to_have_class(re.compile("is-ahead"))
    assert page.evaluate(PLACES) != before
    go_to(page, int(now))
    settled(page, "+(document.querySelector('#fig-fair-line svg.fair').classList.contains('is-ahead'))", most=0)
    page.wait_for_function(
        f"(was) => JSON.stringify(({PLACES})()) === was", arg=page.evaluate("JSON.stringify", before)
    )


def test_pausing_stops_the_days(made: HandMade, visit: Open) -> None:
    page = moving(visit).go(PAGE)
    page.wait_for_selector(f"{FIGURE}[data-drawn]")
    play = page.locator("[data-fair-play]")
    play.click()
    expect(slider(page)).to_have_value(re.compile(r"^([2-9]|\d\d)$"))
    play.click()
    expect(play).to_have_text("Play")
    stopped = page.evaluate(PLACES)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate(PLACES) == stopped


def test_a_day_is_chosen_by_keys_and_read_out(made: HandMade, visit: Open) -> None:
    _window, page = opened(visit)
    heading = page.locator(f"{FIGURE} h2")
    slider(page).focus()
    page.keyboard.press("Home")
    expect(slider(page)).to_have_attribute("aria-valuetext", re.compile(r"Sep|Oct"))
    expect(page.locator(f"{FIGURE} .fair-day")).to_have_text(re.compile(r"Sep|Oct"))
    assert heading.inner_text() in str(slider(page).get_attribute("aria-valuetext"))
    page.keyboard.press("End")
    expect(page.locator(f"{FIGURE} .fig-say")).to_contain_text("pace")


def test_reduced_motion_has_days_without_playing(made: HandMade, visit: Open) -> None:
    window = visit(is_kept=False)
    window.page.emulate_media(reduced_motion="reduce")
    window.sign_in()
    page = window.go(PAGE)
    page.wait_for_selector(f"{FIGURE}[data-drawn]")
    expect(page.locator("[data-fair-play]")).to_be_hidden()
    before = page.evaluate(PLACES)
    slider(page).evaluate("(one) => { one.value = 3; one.dispatchEvent(new Event('input', { bubbles: true })); }")
    assert page.evaluate(PLACES) != before, "at once"


def test_it_is_read_as_a_list_and_walked_by_keys(made: HandMade, grid: Grid, visit: Open) -> None:
    _window, page = opened(visit)
    items = page.locator(FIGURE).get_by_role("list").first.get_by_role("listitem")
    expect(items).to_have_count(3)
    links = page.locator(LINKS)
    names = items.evaluate_all("(all) => all.map((one) => one.dataset.name)")
    assert [str(link.get_attribute("aria-label")).split(":")[0] for link in links.all()] == names
    links.first.focus()
    page.keyboard.press("ArrowRight")
    expect(links.nth(1)).to_be_focused()
    expect(links.nth(1)).to_have_attribute("tabindex", "0")
    expect(links.first).to_have_attribute("tabindex", "-1")
    page.keyboard.press("Enter")
    expect(page.locator("#fig-over-time-title")).to_have_text(names[1])
    expect(links.nth(1)).to_have_attribute("aria-current", "true")
    page.keyboard.press(" ")
    page.wait_for_url("**level=**")
    expect(page.locator("h1")).to_contain_text(names[1])
    page.locator("[data-above]").click()
    expect(page.locator(f"{LINKS}")).to_have_count(3)


def test_a_click_shows_the_course_and_a_double_click_goes_in(made: HandMade, grid: Grid, visit: Open) -> None:
    _window, page = opened(visit)
    circle = page.locator(f"{FIGURE} [data-name=biomed] a > circle")
    circle.click()
    expect(page.locator("#fig-over-time-title")).to_have_text("biomed")
    assert f"entry={grid.uid('/biomed')}" in page.url
    circle.dblclick()
    page.wait_for_url(f"**level={grid.uid('/biomed')}**")
    expect(page.locator(f"{FIGURE} [data-name=carol]")).to_have_count(1)


def test_a_double_click_at_the_edge_goes_in_too(made: HandMade, grid: Grid, visit: Open) -> None:
    _window, page = opened(visit)
    x, y = edge_of(page, "biomed")
    page.mouse.dblclick(x, y)
    page.wait_for_url(f"**level={grid.uid('/biomed')}**")


def test_a_name_may_be_a_word_of_its_sentence(made: HandMade, monkeypatch: pytest.MonkeyPatch, visit: Open) -> None:
    name, member_of = "USED NEW $&", query._member

    def renamed(*of: Any) -> Any:
        member = member_of(*of)
        return replace(member, name=name) if member.name == "biomed" else member

    monkeypatch.setattr(query, "_member", renamed)
    _window, page = opened(visit)
    link = page.locator(f'{FIGURE} [data-name="{name}"] > a')
    page.locator(f"{FIGURE} input[type=range]").press("ArrowLeft")
    expect(link).to_have_attribute("aria-label", re.compile(rf"^{re.escape(name)}: used \d"))
    page.locator(f"{FIGURE} input[type=range]").press("ArrowRight")
    link.press("+")
    expect(page.locator("[data-fair-draft]")).to_contain_text(re.compile(rf"^{re.escape(name)}: target 30"))


@pytest.mark.deep
def test_a_pulled_edge_drafts_a_share(made: HandMade, grid: Grid, visit: Open) -> None:
    window, page = opened(visit)
    x, y = edge_of(page, "biomed")
    page.mouse.move(x, y)
    expect(page.locator(".fair-plot")).to_have_class(re.compile("is-edge"))
    page.mouse.down()
    page.mouse.move(x, y - 9, steps=4)
    page.mouse.up()
    drafted = page.locator("[data-fair-draft]")
    expect(drafted).to_contain_text("biomed")
    link = drafted.locator("a")
    wanted = re.search(r"shares=([\d.]+)%25", str(link.get_attribute("href")))
    assert wanted
    assert float(wanted[1]) > 30, "a larger circle is a larger target"
    radius = float(str(page.locator(".fair-draft").get_attribute("r")))
    own = float(str(page.locator(f"{FIGURE} [data-name=biomed] a > circle").get_attribute("r")))
    assert (radius / own) ** 2 == pytest.approx(float(wanted[1]) / 30, rel=0.03), "areas are as targets are"
    before = Entry.objects.count()
    window.follow("[data-fair-draft] a")
    expect(page.locator("#shares")).to_have_value(f"{wanted[1]}%")
    assert Entry.objects.count() == before, "nothing is changed before it is published"
    page.go_back()
    page.wait_for_selector(f"{FIGURE}[data-drawn]")
    page.locator(LINKS).first.focus()
    page.keyboard.press("+")
    expect(page.locator("[data-fair-draft]")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("[data-fair-draft]")).to_be_hidden()


@pytest.mark.deep
def test_a_finger_pulls_an_edge_sideways_and_scrolls_the_page_up_and_down(made: HandMade, visit: Open) -> None:
    _window, page = opened(visit, width=390)
    touch = page.context.new_cdp_session(page)
    touch.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    circle = page.locator(f"{FIGURE} [data-name=biomed] a > circle")
    drafted = page.locator("[data-fair-draft]")

    def swipe(dx: float, dy: float) -> None:
        circle.evaluate("node => node.scrollIntoView({ block: 'center' })")
        box = circle.bounding_box()
        assert box
        x, y = box["x"] + box["width"] + 4, box["y"] + box["height"] / 2
        touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        for part in (0.25, 0.5, 0.75, 1.0):
            point = {"x": x + dx * part, "y": y + dy * part}
            touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    swipe(0, -160)
    page.wait_for_function("scrollY > 0")
    page.evaluate(AT_REST)  # a page goes on after the finger has left it
    expect(drafted).to_be_hidden()
    circle.evaluate("node => node.scrollIntoView({ block: 'center' })")
    before = page.evaluate("scrollY")
    swipe(24, 0)
    expect(drafted).to_contain_text("biomed")
    wanted = re.search(r"shares=([\d.]+)%25", str(drafted.locator("a").get_attribute("href")))
    assert wanted
    assert float(wanted[1]) > 30, "pulled outwards, the target is larger"
    assert page.evaluate("scrollY") == before


def test_new_numbers_move_the_circles_of_now_alone(made: HandMade, grid: Grid, visit: Open) -> None:
    _window, page = opened(visit)
    before, tag = page.evaluate(PLACES), page.locator(FIGURE).get_attribute("data-tag")
    made.used = {**made.used, "/cms/dave": [0.0] * N_DAYS}
    page.evaluate("""document.dispatchEvent(new CustomEvent("live:changed",
        { detail: { changed: new Set(["numbers"]) } }))""")
    expect(page.locator(FIGURE)).not_to_have_attribute("data-tag", str(tag))
    go_to(page, 10)
    assert page.evaluate(PLACES) != before


@pytest.mark.deep
def test_the_small_one_is_on_the_home_of_a_group(made: HandMade, grid: Grid, visit: Open) -> None:
    page = moving(visit).go(f"/?level={grid.uid('/biomed')}")
    come(page, ".home-trend")
    expect(page.locator(f".home-trend {FIGURE}[data-drawn]")).to_have_count(1)
    page.locator("[data-fair-play]").click()
    expect(slider(page)).to_have_value(re.compile(r"^([2-9]|\d\d)$"))
    page.locator("[data-fair-play]").click()
    page.locator(f"{LINKS} > circle").first.click()
    page.wait_for_url(f"**/convergence/?level={grid.uid('/biomed')}&entry=**")


def test_the_cells_share_the_cursor_of_the_course(made: HandMade, visit: Open) -> None:
    _window, page = opened(visit)
    page.locator("#fig-heat").scroll_into_view_if_needed()
    page.wait_for_selector("#fig-heat[data-drawn]")
    page.wait_for_selector("#fig-over-time .fig-live.is-shown", timeout=20_000)
    box = page.locator(".heat-cells").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 5)
    cell = page.locator("#fig-heat [data-readout]").inner_text()
    day = re.search(r"\w{3} \d+ \w{3}", cell)
    assert day
    expect(page.locator("#fig-over-time [data-readout]")).to_contain_text(day[0])
    expect(page.locator("#fig-over-time .cross")).to_have_attribute("visibility", "visible")
    page.locator("#fig-heat .fig-plot").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    name = page.locator("#fig-heat [data-readout] b").inner_text()
    expect(page.locator("#fig-over-time-title")).to_have_text(name)


def test_the_bench_of_pages_follows_links_of_pictures(made: HandMade, grid: Grid, visit: Open) -> None:
    _window, page = opened(visit)
    links = page.evaluate(_SEEN)["links"]
    assert f"{PAGE}?entry={grid.uid('/biomed')}" in links
    assert all(isinstance(link, str) for link in links)


# --- Bad input


@pytest.mark.deep
def test_playing_passes_over_days_without_data(made: HandMade, visit: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.series.convergence.share_methods import actual_share

    n_unknown = 4

    def with_hole(found: Any, method: Any) -> Any:
        shares = actual_share(found, method).copy()
        shares[:, -20 : -20 + n_unknown] = nan
        return shares

    monkeypatch.setattr("apps.series.convergence.selectors.share_methods.actual_share", with_hole)
    page = moving(visit).go(PAGE)
    page.wait_for_selector(f"{FIGURE}[data-drawn]")
    hole = int(slider(page).input_value()) + 1 - 20
    go_to(page, hole)
    expect(page.locator(f"{FIGURE} h2")).to_have_text("Nothing is known of this time")
    expect(page.locator(f"{FIGURE} .fair-group.unknown")).to_have_count(3)
    where = page.evaluate(PLACES)
    go_to(page, hole - 1)
    assert page.evaluate(PLACES) == where, "circles wait where they were last seen"
    page.locator("[data-fair-play]").click()
    page.wait_for_function(
        f"(stop) => Number(document.querySelector('{FIGURE} input[type=range]').value) > stop", arg=hole + n_unknown
    )
    expect(page.locator(f"{FIGURE} .fair-group.unknown")).to_have_count(0)
    expect(page.locator(f"{FIGURE} h2")).to_contain_text("of all shares")


@pytest.mark.deep
@at_widths
def test_two_hundred_entries_with_long_and_right_to_left_names_fit(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, visit: Open, width: int
) -> None:
    wide = make_grid(clock.now(), extra_users=240)
    names = {"helper0003": "ש" * 120, "helper0004": "Long" * 30}

    def renamed(*of: Any) -> Any:
        member = member_of(*of)
        return replace(member, name=names.get(member.name, member.name))

    member_of = query._member
    monkeypatch.setattr(query, "_member", renamed)
    used = {f"/biomed/helper{n:04}": [1.0 + (n * 7 + day) % 40 for day in range(N_DAYS)] for n in range(3, 200)}
    put_in_place(HandMade(clock.now().date() - timedelta(days=1), used), monkeypatch)
    window, page = opened(visit, f"?level={wide.uid('/biomed')}&view=raw", width=width)
    expect(page.locator(f"{FIGURE} .fair-group")).to_have_count(200)
    expect(page.locator(f"{FIGURE} .fair-rest")).to_have_count(1)
    go_to(page, 10)
    texts = page.evaluate("""[...document.querySelectorAll("#fig-fair-line .words")].filter((one) => one.textContent)
        .map((one) => one.getBoundingClientRect()).map(({ left, right, top, bottom }) => [left, right, top, bottom])""")
    plot = page.locator(".fair-plot").bounding_box()
    assert plot
    assert texts
    for left, right, *_rest in texts:
        assert left >= plot["x"] - 1
        assert right <= plot["x"] + plot["width"] + 1
    window.look()
