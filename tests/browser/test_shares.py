"""Shares changed by dragging: with the mouse, by touch and with keys, down to the numbers that REST reports."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import Locator, Page, expect

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.core import clock
from apps.engine.target_state import state_of, targets_on
from apps.policies import services
from apps.policies.changesets import drafts
from apps.policies.models import ChangeSet, Policy
from apps.policies.services import publish_document
from apps.priorities.sentences import numbers
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests.browser.conftest import Open, Visit, in_windows_of_all
from tests.grants import make_grant
from tests.pages.grid import PASSWORD, SLUG, Grid


@pytest.fixture
def draft(grid: Grid) -> ChangeSet:
    actor = Actor(user=grid.admin, via="page")
    return drafts.open_draft(policy_slug=SLUG, reason="Autumn shares", at=clock.now(), actor=actor)


@pytest.fixture
def window(visit: Open, draft: ChangeSet) -> Iterator[Visit]:
    opened = visit()
    opened.sign_in()
    opened.go(f"/changes/{draft.pk}/edit/?view=bars")
    expect(opened.page.locator("#stage .pull-grip").first).to_be_visible()
    yield opened
    if "/edit/" in opened.page.url:
        predicted(opened.page)


@pytest.fixture
def page(window: Visit) -> Page:
    return window.page


N_MANY = 100


@pytest.fixture
def many(grid: Grid) -> Grid:
    """A hundred projects beside each other, of which each ninth is idle, with usage of twenty days."""
    projects = [
        {
            "name": f"project{n:03}",
            "kind": "project",
            "shares": round(4000 / (n + 8)),
            "children": [{"name": f"user{n:03}", "kind": "user"}],
        }
        for n in range(N_MANY)
    ]
    document = {"policy": SLUG, "root": {"name": "SweGrid", "kind": "root", "children": projects}}
    publish_document(policy_slug=SLUG, document=document, reason="Projects.", at=grid.at, actor=COMMAND)
    rows = [
        RecordRow(
            job=f"{n}-{day}",
            user=f"user{n:03}",
            group=f"project{n:03}",
            submit_at=grid.at - timedelta(days=day + 1),
            start_at=grid.at - timedelta(days=day + 1),
            end_at=grid.at - timedelta(days=day),
            cpus=4000 / (n + 8) * (0.6 + (n * 7 % 10) / 10) * (1 + (day * 5 % 7 - 3) / 20),
        )
        for n in range(N_MANY)
        if n % 9 != 8
        for day in range(1, 20)
    ]
    ingest_batch(source=Source.objects.get(slug="cluster-a"), rows=rows, at=grid.at)
    grid.recompute()
    return grid


def stored(draft: ChangeSet) -> list[dict[str, Any]]:
    draft.refresh_from_db()
    return list(draft.operations)


def saved(page: Page, n: int) -> None:
    expect(page.locator("#draftbar")).to_have_attribute("data-edits", str(n))


def predicted(page: Page) -> None:
    """The effect is that of the numbers on the page, and nothing is asked for."""
    known = page.locator("#editor[data-known]:not([data-asking])")
    expect(known).to_be_attached(timeout=30_000)  # the first one of a process loads hours of usage


def reported(window: Visit, draft: ChangeSet) -> dict[str, Any]:
    """The change set as REST has it: its operations, and the targets that follow by path."""
    answer = window.page.request.get(f"{window.base}/api/v1/policies/{SLUG}/changesets/{draft.pk}")
    assert answer.ok, answer.text()
    found = answer.json()
    targets = {step["path"]: step["target_after"] for step in found["effect"]["effective"]}
    return {"operations": found["operations"], "targets": targets}


def grip(page: Page, grid: Grid, path: str) -> Locator:
    return page.locator(f"#stage .pull-grip[data-grip='{grid.uid(path)}'][role=slider]")


def field(page: Page, grid: Grid, path: str) -> Locator:
    return page.locator(f"#s-{grid.uid(path)}")


def target(page: Page, grid: Grid, path: str) -> Locator:
    """The number of the target column, or the newer one of two."""
    return page.locator(f"#members tr[data-uid='{grid.uid(path)}'] .c-target")


def middle(border: Locator) -> tuple[float, float]:
    box = border.locator(".line").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def pull(page: Page, border: Locator, by: float, *, drop: bool = True) -> None:
    """Take hold of a border and move it along the bar by so many pixels."""
    x, y = middle(border)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + by / 2, y)
    page.mouse.move(x + by, y)
    if drop:
        page.mouse.up()


def edge(page: Page, grid: Grid, path: str) -> float:
    """Where the border of an entry is, as a part of the bar."""
    bar = page.locator("#stage svg.pull-svg").bounding_box()
    assert bar is not None
    return (middle(grip(page, grid, path))[0] - bar["x"]) / bar["width"]


def test_a_dragged_border_is_one_operation_and_the_others_keep_their_shares(
    grid: Grid, window: Visit, draft: ChangeSet
) -> None:
    page = window.page
    assert edge(page, grid, "/atlas") == pytest.approx(0.6, abs=0.002)
    pull(page, grip(page, grid, "/atlas"), -100, drop=False)
    part = edge(page, grid, "/atlas")
    shares = int(field(page, grid, "/atlas").input_value())
    assert 30 < shares < 50, "whole shares while the border moves"
    assert shares / (shares + 40) == pytest.approx(part, abs=0.006), "the border is where the pointer is"
    expect(target(page, grid, "/atlas")).to_contain_text(f"{100 * shares / (shares + 40):.2f}")
    expect(field(page, grid, "/biomed")).to_have_value("30")
    assert stored(draft) == [], "nothing is saved before the border is dropped"
    page.mouse.up()
    saved(page, 1)
    found = reported(window, draft)
    assert found["operations"] == [{"op": "set_shares", "entry": str(grid.uid("/atlas")), "shares": float(shares)}]
    total = shares + 40
    wanted = {"/atlas": shares / total, "/biomed": 30 / total, "/cms": 10 / total}
    assert {path: found["targets"][path] for path in wanted} == pytest.approx(wanted, abs=1e-12)
    assert page.locator("#shares-title").is_visible()
    expect(grip(page, grid, "/atlas")).to_be_focused()
    page.click("#finish-publish")
    expect(page.locator("#problem .published-3")).to_be_visible()
    tree = page.request.get(f"{window.base}/api/v1/policies/{SLUG}/tree?path=/atlas").json()
    assert tree["shares"] == shares


@pytest.mark.deep
def test_a_chosen_sibling_gives_the_difference_and_the_sum_stays(grid: Grid, window: Visit, draft: ChangeSet) -> None:
    page = window.page
    page.select_option("#giver", label="cms")
    expect(grip(page, grid, "/cms")).to_have_count(0)
    pull(page, grip(page, grid, "/atlas"), 40)
    saved(page, 1)
    shares = {path: float(field(page, grid, path).input_value()) for path in ("/atlas", "/biomed", "/cms")}
    assert (shares["/atlas"] + shares["/cms"], shares["/biomed"]) == (70, 30)
    assert 60 < shares["/atlas"] < 70
    found = reported(window, draft)
    (operation,) = found["operations"]
    assert operation["shares"]["from"] == [str(grid.uid("/cms"))]
    parts = {path: number / 100 for path, number in shares.items() if path != "/biomed"}
    assert {path: found["targets"][path] for path in parts} == pytest.approx(parts, abs=1e-12)
    assert "/biomed" not in found["targets"], "nothing changes for it"
    page.keyboard.press("End")
    expect(field(page, grid, "/cms")).to_have_value("1")
    page.keyboard.press("Enter")
    saved(page, 2)
    assert reported(window, draft)["targets"]["/atlas"] == pytest.approx(0.69, abs=1e-12)


def test_a_sequence_of_keys_is_one_operation_undone_by_escape(grid: Grid, window: Visit, draft: ChangeSet) -> None:
    page = window.page
    border = grip(page, grid, "/atlas")
    border.focus()
    expect(border).to_have_attribute("aria-valuenow", "60")
    expect(border).to_have_attribute("aria-valuetext", re.compile(r"atlas.*60\.0.*60.*43\.5"))
    page.keyboard.press("ArrowRight")
    expect(field(page, grid, "/atlas")).to_have_value("61")
    page.keyboard.press("Shift+ArrowLeft")
    expect(field(page, grid, "/atlas")).to_have_value("59")  # 59.4 % of the whole: 58.5 to 59.4 shares
    page.keyboard.press("Escape")
    expect(field(page, grid, "/atlas")).to_have_value("60")
    assert stored(draft) == []
    for key in ("Home", "ArrowUp", "PageUp"):
        page.keyboard.press(key)
    shares = int(field(page, grid, "/atlas").input_value())
    page.keyboard.press("Enter")
    saved(page, 1)
    expect(page.locator("#status")).to_contain_text("atlas")  # announced to screen readers
    assert reported(window, draft)["operations"] == [
        {"op": "set_shares", "entry": str(grid.uid("/atlas")), "shares": float(shares)}
    ]
    expect(border).to_be_focused()
    page.keyboard.press("n")
    expect(grip(page, grid, "/biomed")).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    saved(page, 2)
    page.keyboard.press("Control+z")
    saved(page, 1)
    expect(field(page, grid, "/biomed")).to_have_value("30")
    page.keyboard.press("Control+Shift+z")
    saved(page, 2)


@pytest.mark.deep
def test_by_touch_on_a_small_screen_the_bar_is_vertical(grid: Grid, draft: ChangeSet, visit: Open) -> None:
    window = visit(width=390)
    window.sign_in()
    page = window.go(f"/changes/{draft.pk}/edit/?view=bars")
    touch = page.context.new_cdp_session(page)
    touch.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    expect(grip(page, grid, "/atlas")).to_have_attribute("aria-orientation", "vertical")
    border = grip(page, grid, "/atlas").locator(".hit")
    border.evaluate("node => node.scrollIntoView({ block: 'center' })")
    hit = border.bounding_box()
    scrolled = page.evaluate("scrollY")
    assert hit is not None
    assert min(hit["width"], hit["height"]) >= 44
    x, y = hit["x"] + hit["width"] / 2, hit["y"] + hit["height"] / 2

    def send(kind: str, at: float | None) -> None:
        points = [] if at is None else [{"x": x, "y": at}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    send("touchStart", y)
    for moved in (20, 60, 100):
        send("touchMove", y - moved)
    expect(field(page, grid, "/atlas")).not_to_have_value("60")
    assert page.evaluate("scrollY") == scrolled, "a border that is pulled doesn't scroll the page"
    send("touchEnd", None)
    saved(page, 1)
    shares = int(field(page, grid, "/atlas").input_value())
    assert shares / (shares + 40) == pytest.approx(0.6 - 100 / 600, abs=0.01)
    assert reported(window, draft)["operations"][0]["shares"] == shares
    page.click("#steps [data-step='1']")
    page.click("#steps [data-step='1']")
    grip(page, grid, "/atlas").focus()
    page.keyboard.press("Enter")
    saved(page, 2)
    assert int(field(page, grid, "/atlas").input_value()) > shares
    predicted(page)


def test_escape_while_a_border_is_dragged_saves_nothing(grid: Grid, window: Visit, draft: ChangeSet) -> None:
    page = window.page
    pull(page, grip(page, grid, "/atlas"), -150, drop=False)
    expect(field(page, grid, "/atlas")).not_to_have_value("60")
    page.keyboard.press("Escape")
    expect(field(page, grid, "/atlas")).to_have_value("60")
    page.mouse.up()
    assert edge(page, grid, "/atlas") == pytest.approx(0.6, abs=0.002)
    page.click("#views [data-view=treemap]")
    cell = page.locator("#stage .pull-edge.e:not(.off)")
    box = cell.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] - 80, box["y"] + box["height"] / 2)
    expect(field(page, grid, "/atlas")).not_to_have_value("60")
    page.keyboard.press("Escape")
    expect(field(page, grid, "/atlas")).to_have_value("60")
    page.mouse.up()
    assert stored(draft) == []


def test_a_cell_of_the_treemap_is_dragged(grid: Grid, window: Visit, draft: ChangeSet) -> None:
    page = window.page
    page.click("#views [data-view=treemap]")
    box = page.locator("#stage .pull-edge.e:not(.off)").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 60, y)
    page.mouse.up()
    saved(page, 1)
    shares = int(field(page, grid, "/atlas").input_value())
    stage = page.locator("#stage svg").bounding_box()
    assert stage is not None
    assert shares / (shares + 40) == pytest.approx((x - 60 - stage["x"]) / stage["width"], abs=0.01)
    assert reported(window, draft)["operations"][0]["shares"] == shares


@pytest.mark.deep
def test_an_edit_of_another_user_is_shown_and_the_bar_is_reset(grid: Grid, window: Visit, draft: ChangeSet) -> None:
    page = window.page
    actor = Actor(user=grid.admin, via="page")
    operation = {"op": "set_shares", "entry": str(grid.uid("/atlas")), "shares": 80}
    drafts.add_operations(id=draft.pk, version=1, operations=[operation], at=clock.now(), actor=actor)
    pull(page, grip(page, grid, "/atlas"), -100)
    panel = page.locator("#problem .stale")
    expect(panel.locator("[data-testid=theirs]")).to_contain_text("80")
    expect(field(page, grid, "/atlas")).to_have_value("80")
    assert edge(page, grid, "/atlas") == pytest.approx(80 / 120, abs=0.002)
    assert [each["shares"] for each in stored(draft)] == [80.0], "nothing was overwritten"
    mine = panel.locator("[data-testid=mine]").inner_text()
    panel.locator("form[data-mine] button").click()
    saved(page, 2)
    expect(page.locator("#problem .stale")).to_have_count(0)
    assert f"{stored(draft)[1]['shares']:g}" in mine


def test_a_border_dragged_without_a_connection_stays_and_is_saved_with_it(
    grid: Grid, window: Visit, draft: ChangeSet
) -> None:
    page = window.page
    page.context.set_offline(True)
    pull(page, grip(page, grid, "/atlas"), -100)
    expect(page.locator("#saved.waiting")).to_contain_text("1")
    dragged = edge(page, grid, "/atlas")
    assert dragged < 0.55, "what was dragged stays where it is"
    page.context.set_offline(False)
    page.evaluate("window.dispatchEvent(new Event('online'))")
    saved(page, 1)
    shares = stored(draft)[0]["shares"]
    expect(field(page, grid, "/atlas")).to_have_value(f"{shares:g}")
    assert edge(page, grid, "/atlas") == pytest.approx(dragged, abs=0.002)
    expect(page.locator("#problem")).to_be_empty()
    window.complaints[:] = [each for each in window.complaints if "ERR_INTERNET_DISCONNECTED" not in each]


def test_an_edit_that_waits_outlives_a_reload(grid: Grid, window: Visit, draft: ChangeSet) -> None:
    page = window.page
    page.route("**/edit/_operation", lambda route: route.fulfill(status=502, body="<h1>Bad gateway</h1>"))
    pull(page, grip(page, grid, "/atlas"), -100)
    expect(page.locator("#problem #cell-problem")).to_contain_text("sent again")
    page.unroute("**/edit/_operation")
    page.once("dialog", lambda dialog: dialog.accept())
    page.reload()
    saved(page, 1)
    shares = stored(draft)[0]["shares"]
    expect(field(page, grid, "/atlas")).to_have_value(f"{shares:g}")
    window.complaints[:] = [each for each in window.complaints if "status of 502" not in each]


def test_after_the_session_ended_a_drag_is_saved_when_its_user_signs_in_again(
    grid: Grid, window: Visit, draft: ChangeSet
) -> None:
    page = window.page
    page.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    pull(page, grip(page, grid, "/atlas"), -100)
    expect(page.locator("#again-password")).to_be_focused()
    assert stored(draft) == []
    page.fill("#again-password", PASSWORD)
    page.keyboard.press("Enter")
    saved(page, 1)
    shares = stored(draft)[0]["shares"]
    expect(field(page, grid, "/atlas")).to_have_value(f"{shares:g}")
    expect(page.locator("#problem")).to_be_empty()


def test_fields_accept_numbers_and_percentages_and_errors_are_shown_in_place(
    grid: Grid, window: Visit, draft: ChangeSet
) -> None:
    page = window.page
    atlas = field(page, grid, "/atlas")
    for typed in ("-4", "many", "100 %"):
        atlas.fill(typed)
        atlas.press("Enter")
        expect(page.locator("#problem .words")).not_to_be_empty()
        expect(atlas).to_have_attribute("aria-invalid", "true")
        expect(atlas).to_have_value(typed)
        assert edge(page, grid, "/atlas") == pytest.approx(0.6, abs=0.002)
    assert stored(draft) == []
    atlas.fill("37,5")
    atlas.press("Enter")
    saved(page, 1)
    assert stored(draft)[0]["shares"] == 37.5
    expect(field(page, grid, "/biomed")).to_be_focused()
    page.keyboard.type("25 %")
    page.keyboard.press("Enter")
    saved(page, 2)
    assert stored(draft)[1]["shares"] == pytest.approx(47.5 / 3, rel=1e-11)
    assert reported(window, draft)["targets"]["/biomed"] == pytest.approx(0.25, abs=1e-12)
    page.select_option("#giver", label="cms")
    field(page, grid, "/biomed").fill("500")
    field(page, grid, "/biomed").press("Enter")
    expect(page.locator("#problem .words")).not_to_be_empty()
    assert len(stored(draft)) == 2
    expect(field(page, grid, "/cms")).to_have_value("10")


SHOWN = """async (cases) => {
  const script = [...document.scripts].find((each) => each.src.includes("/js/shares"));
  const { gap, percent } = await import(new URL("numbers.js", script.src));
  return cases.map(([actual, target]) => [percent(actual, 2), percent(target, 2), gap(actual, target, 2)]);
}"""


def test_scripts_show_shares_as_the_server_does(page: Page) -> None:
    cases = [(0.0684, 0.0675), (0.3006, 0.3364), (0.25, 0.25), (0.25, 0.0), (1e-6, 0.00005), (0.00625, 0.12345), (1, 0)]
    shown = [numbers.compare_shares(actual, target, decimals=2) for actual, target in cases]
    assert page.evaluate(SHOWN, cases) == [[each.actual, each.target, each.points] for each in shown]


def test_numbers_of_a_column_keep_their_decimals_while_a_border_is_dragged(
    grid: Grid, window: Visit, draft: ChangeSet
) -> None:
    page = window.page
    before = page.locator("#members tr[data-uid] .c-target").all_inner_texts()
    pull(page, grip(page, grid, "/atlas"), -37, drop=False)
    expect(target(page, grid, "/atlas").locator("b")).to_be_visible()
    dragged = page.locator("#members tr[data-uid] .c-target").all_inner_texts()
    page.mouse.up()
    saved(page, 1)
    predicted(page)
    after = page.locator("#members tr[data-uid] .c-target").all_inner_texts()
    shown = re.findall(r"\d+(?:\.\d+)?", " ".join([*before, *dragged, *after]))
    assert {len(number.partition(".")[2]) for number in shown} == {2}


RULE = """async (cases) => {
  const script = [...document.scripts].find((each) => each.src.includes("/js/shares"));
  const { Group, isWhole, snap, stepOf } = await import(new URL("shares_model.js", script.src));
  return cases.map(({ shares, rest, uid, giver, part, whole }) => {
    const rows = Object.entries(shares).map(([name, number]) => ({ uid: name, shares: number, shares_before: number }));
    const none = new Map();
    const group = new Group({ rows, rest });
    const step = stepOf(group.pool(none), whole ?? isWhole(rows));
    const edits = group.edited(uid, snap(group.sharesFor(uid, part, giver, none), step), giver, none, step);
    return [Object.fromEntries(edits), group.operation(uid, giver, edits)?.find(([key]) => key === "shares")[1]];
  });
}"""
THREE = {"a": 60, "b": 30, "c": 10}
TENTHS = {"a": 0.1, "b": 0.2, "c": 0.7}
CASES: list[tuple[dict[str, Any], dict[str, float], str | None]] = [
    ({"uid": "a", "part": 0.5}, {"a": 40}, "40"),  # w = p · S / (1 − p)
    ({"uid": "a", "part": 0.503}, {"a": 40}, "40"),  # 40.48 shares
    ({"uid": "a", "part": 0.504}, {"a": 41}, "41"),  # 40.65 shares
    ({"uid": "a", "part": 0.6}, {}, None),  # as it is: no operation
    ({"uid": "c", "part": 1e-9}, {"c": 1}, "1"),  # 0 can be typed, not pulled
    ({"uid": "a", "part": 0.999}, {"a": 760}, "760"),  # at most 95 % of the whole
    ({"uid": "a", "part": 0.5, "whole": False}, {"a": 40}, "40"),
    ({"uid": "a", "part": 1 / 3, "whole": False}, {"a": 20}, "20"),
    ({"uid": "a", "part": 0.37, "whole": False}, {"a": 23.49}, "23.49"),
    ({"uid": "a", "part": 0.5, "rest": 20}, {"a": 60}, None),
    ({"uid": "b", "part": 0.5, "shares": TENTHS}, {"b": 0.8}, "0.8"),
    ({"uid": "b", "part": 0.3333, "shares": TENTHS}, {"b": 0.4}, "0.4"),  # 0.39994, to thousandths
    ({"uid": "a", "part": 0.65, "giver": "c"}, {"a": 65, "c": 5}, "65"),
    ({"uid": "a", "part": 0.99, "giver": "c"}, {"a": 69, "c": 1}, "69"),  # the giver keeps one
    ({"uid": "a", "part": 0.001, "giver": "c"}, {"a": 1, "c": 69}, "1"),
    ({"uid": "a", "part": 0.25, "giver": "b", "shares": TENTHS}, {"a": 0.25, "b": 0.05}, "25"),
    ({"uid": "a", "part": 0.2, "giver": "c", "shares": {"a": 1, "b": 2, "c": 4}}, {}, None),
    ({"uid": "a", "part": 0.3, "giver": "c", "shares": {"a": 1, "b": 2, "c": 4}}, {"a": 2, "c": 3}, str(200 / 7)),
]


def test_a_border_position_is_converted_to_shares(page: Page) -> None:
    cases = [{"shares": THREE, "rest": 0, "giver": "", **case} for case, _edits, _number in CASES]
    found = page.evaluate(RULE, cases)
    for case, (_case, edits, number), (result, sent) in zip(cases, CASES, found, strict=True):
        assert result == ({} if case["rest"] else edits), case
        assert sent == number, case


NARROW_SEGMENT = """async () => {
  const script = [...document.scripts].find((each) => each.src.includes("/js/shares"));
  const { buildBar, drawBar } = await import(new URL("shares_bar.js", script.src));
  const no = () => null;
  const view = { canPull: () => true, edited: no, before: no, describe: no, picked: "a", giver: null };
  const host = document.createElement("div");
  for (const [vertical, thick] of [[false, 44], [true, 44], [true, 0]]) {
    const row = { uid: "a", name: "a", target: 1e-6, actual: 1e-6, state: "on" };
    const list = [{ row, from: 0, to: 0.3, size: 1e-6 }];
    const bar = buildBar(host, list, list, { vertical, length: 600, thick, label: "", canPull: () => true });
    drawBar(bar, list, view);
  }
}"""


def test_segments_without_room_are_drawn_without_complaints(page: Page) -> None:
    """A bar upright in a place that is hidden has no thickness either. What a browser logs fails the test."""
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    page.evaluate(NARROW_SEGMENT)
    assert errors == []


@pytest.mark.deep
def test_a_hundred_siblings_are_reached_and_predicted(many: Grid, visit: Open, draft: ChangeSet) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"/changes/{draft.pk}/edit/?view=bars")
    predicted(page)
    expect(page.locator("#members tr[data-uid]:visible")).to_have_count(12)
    expect(page.locator("#zoom .pull-seg")).to_have_count(24)
    for _ in range(3):
        page.click("#zoomhead [data-page='1']")
    smallest = page.locator("#zoom .pull-seg[data-uid]").last
    uid = smallest.get_attribute("data-uid")
    smallest.click()
    row = page.locator(f"#members tr[data-uid='{uid}']")
    expect(row).to_be_visible()
    expect(page.locator(f"#zoom .pull-grip[data-grip='{uid}'][role=slider]")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    saved(page, 1)
    predicted(page)
    large = page.locator("#stage .pull-grip[role=slider]").first
    before = page.locator("#members .c-when").all_inner_texts()
    first = page.locator("#members input.cell").first
    pull(page, large, 300, drop=False)
    expect(first).not_to_have_value("500")
    predicted(page)
    under_way = page.locator("#members .c-when").all_inner_texts()
    assert under_way != before, "dates follow while the border is dragged"
    assert page.locator("#members .late").count() == 0
    page.keyboard.press("Escape")
    expect(first).to_have_value("500")
    predicted(page)
    assert page.locator("#members .c-when").all_inner_texts() == before, "and go back with it"
    page.mouse.up()
    pull(page, large, 300, drop=False)
    expect(first).not_to_have_value("500")
    predicted(page)
    page.mouse.up()
    saved(page, 2)
    predicted(page)
    assert page.locator("#members .c-when").all_inner_texts() == under_way, "what was shown is what the draft says"
    url = f"{window.base}/changes/{draft.pk}/edit/_effect?group={many.uid('/')}"
    body = page.request.get(url, headers={"HX-Request": "true"}).json()
    words = {each["uid"]: each["on_target"] for each in body["rows"]}
    shown = page.locator("#members tr[data-uid]").evaluate_all(
        """rows => rows.map((row) => [row.querySelector('.c-when b') ?? row.querySelector('.c-when'), row.dataset.uid])
        .map(([cell, uid]) => [uid, cell.textContent])"""
    )
    assert dict(shown) == words


@pytest.mark.deep
def test_unchangeable_entries_have_no_border_and_a_reason(grid: Grid, visit: Open) -> None:
    policy = Policy.objects.get(slug=SLUG)
    lead = User.objects.create_user("lead")
    make_grant(lead, grid.uid("/atlas"), policy=policy, at=clock.now())
    locking = drafts.open_draft(policy_slug=SLUG, at=clock.now(), actor=Actor(user=grid.admin, via="page"))
    operation = {"op": "lock", "entry": str(grid.uid("/atlas/bob")), "locked": True}
    drafts.add_operations(
        id=locking.pk, version=1, operations=[operation], at=clock.now(), actor=Actor(user=grid.admin, via="page")
    )
    services.publish_change_set(
        id=locking.pk, version=2, reason="Bob keeps his.", at=clock.now(), actor=Actor(user=grid.admin, via="page")
    )
    draft = drafts.open_draft(policy_slug=SLUG, at=clock.now(), actor=Actor(user=lead, via="page"))
    window = visit()
    window.sign_in("lead")
    page = window.go(f"/changes/{draft.pk}/edit/?view=bars&group={grid.uid('/atlas')}")
    predicted(page)
    expect(grip(page, grid, "/atlas/alice")).to_have_count(1)
    expect(grip(page, grid, "/atlas/bob")).to_have_count(0)
    expect(field(page, grid, "/atlas/bob")).to_have_count(0)
    expect(page.locator("#stage .pull-seg.fixed .seg-lock")).to_have_count(1)
    expect(page.locator("#giver option")).to_have_count(2)  # all others, and alice
    page.locator("#stage .pull-seg.fixed").click()
    expect(page.locator("#stage .pull-grip.left.on")).to_have_count(0)
    predicted(page)
    page.goto(f"{window.base}/changes/{draft.pk}/edit/?view=bars")
    expect(page.locator("#stage .pull-seg.fixed").first).to_be_visible()
    expect(page.locator("#stage .pull-grip[role=slider]")).to_have_count(0)
    expect(page.locator("#members input")).to_have_count(0)
    assert window.axe() == []
    predicted(page)


@in_windows_of_all
def test_the_page_is_accessible_in_both_themes_and_widths(
    grid: Grid, draft: ChangeSet, visit: Open, theme: str, width: int
) -> None:
    actor = Actor(user=grid.admin, via="page")
    operations: list[dict[str, Any]] = [
        {"op": "set_shares", "entry": "/atlas", "shares": 45},
        {"op": "add", "parent": "/", "name": "spare", "kind": "reserve", "shares": 0},
        {"op": "archive", "entry": "/cms/erin"},
        {"op": "set_shares", "entry": "/biomed/carol", "shares": "parent"},
        {"op": "set_shares", "entry": "/atlas/alice", "shares": 0},
        {"op": "set_shares", "entry": "/atlas/bob", "shares": 0},
    ]
    drafts.add_operations(id=draft.pk, version=1, operations=operations, at=clock.now(), actor=actor)
    window = visit(theme=theme, width=width)
    window.sign_in()
    borders = {"/": 3, "/cms": 0, "/biomed": 0, "/atlas": 0}
    for path, n in borders.items():
        page = window.go(f"/changes/{draft.pk}/edit/?view=bars&group={grid.uid(path)}")
        predicted(page)
        expect(page.locator("#stage .pull-grip[role=slider]")).to_have_count(n)
        assert window.axe() == [], path
        assert window.overflow() == 0, path
    window.go(f"/changes/{draft.pk}/edit/?view=bars&entry={grid.uid('/biomed')}")
    window.page.click("#views [data-view=treemap]")
    expect(window.page.locator("#stage .pull-grip.on")).to_have_count(1)
    assert window.axe() == []
    predicted(window.page)
    small: list[str] = window.page.evaluate(
        """[...document.querySelectorAll('main a, main button, main input:not([type=hidden]), main select')]
        .filter((each) => each.getClientRects().length && !each.closest('label, .seg'))
        .filter((each) => getComputedStyle(each).display !== 'inline')
        .filter((each) => { const box = each.getBoundingClientRect(); return box.width < 24 || box.height < 23.5; })
        .map((each) => each.outerHTML.slice(0, 120))"""
    )
    assert [each for each in small if 'class="label"' not in each] == []


def test_tab_reaches_one_border_in_every_selection(grid: Grid, page: Page, draft: ChangeSet) -> None:
    stops = page.locator("#stage [role=slider][tabindex='0']")
    expect(stops).to_have_attribute("data-grip", str(grid.uid("/atlas")))
    field(page, grid, "/biomed").focus()
    expect(page.locator("#stage .pull-seg.on")).to_have_attribute("data-uid", str(grid.uid("/biomed")))
    expect(stops).to_have_attribute("data-grip", str(grid.uid("/atlas")))
    page.select_option("#giver", label="atlas")
    expect(stops).to_have_attribute("data-grip", str(grid.uid("/biomed")))
    grip(page, grid, "/cms").focus()
    expect(stops).to_have_attribute("data-grip", str(grid.uid("/cms")))
    expect(page.locator("#stage .pull-seg.on")).to_have_attribute("data-uid", str(grid.uid("/cms")))
    assert stored(draft) == []


STATES = """async (rows) => {
  const script = [...document.scripts].find((each) => each.src.includes("/js/shares"));
  const { Group } = await import(new URL("shares_model.js", script.src));
  const group = new Group({ rows: [], rest: 0 });
  return rows.map((row) => group.state(row, row.target));
}"""


def near_and_far(actual: float, tolerance: Mapping[str, float], rng: random.Random) -> Iterator[float]:
    """Targets for an actual share: none, all, random ones, and those at the edges of its tolerance and beside them."""
    relative, least = tolerance["relative"], tolerance["points"] / 100
    edges = [
        actual - least,
        actual / (1 + relative),
        actual + least,
        *([actual / (1 - relative)] if relative < 1 else []),
    ]
    yield from (0.0, 1.0, rng.random(), rng.random() * actual)
    yield from (edge * (1 + beside) for edge in edges for beside in (0, 1e-7, -1e-7) if 0 < edge < 1)


def test_states_while_borders_move_are_those_of_the_one_rule(page: Page) -> None:
    rng = random.Random(74)
    rows: list[dict[str, Any]] = []
    expected: list[str] = []
    for _ in range(500):
        tolerance = {"relative": rng.choice((0.0, 0.1, 0.5, 1.0, 2.0)), "points": rng.choice((0.0, 0.5, 5.0))}
        actual = rng.choice((None, 0.0, 1.0, rng.random(), 10 ** rng.uniform(-6, 0)))
        on_from, on_to = (0.0, None) if actual is None else targets_on(actual, tolerance)
        for target in (None, *near_and_far(actual or 0.0, tolerance, rng)):
            has_usage = bool(actual) or rng.random() < 0.5
            rows.append(
                {"actual": actual, "target": target, "has_usage": has_usage, "on_from": on_from, "on_to": on_to}
            )
            expected.append(
                state_of(target=target, actual=actual, has_usage=has_usage, has_demand=False, tolerance=tolerance)
            )
    assert set(expected) == {"over", "under", "on", "idle", "unknown"}
    words = {"nodata": "unknown"}
    states = [words.get(state, state) for state in page.evaluate(STATES, rows)]
    assert [each for each in zip(rows, states, expected, strict=True) if each[1] != each[2]] == []
