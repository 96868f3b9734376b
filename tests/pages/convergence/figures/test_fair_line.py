"""The fair line: places, heights and words, the numbers of its stops, and what has no place."""

from __future__ import annotations

import csv
from datetime import date
from io import StringIO
from math import log2
from typing import Any

import numpy as np
import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND
from apps.core import clock
from apps.pages.convergence.figures.fair_layout import NARROW, WIDE, lay_out, part_of, pixels_of_root, radius_of
from apps.pages.convergence.figures.fair_line import ENDS, MOST_CIRCLES, isolated, places_of
from apps.policies.publishing.direct import publish_operations
from tests.pages.convergence.figures.test_over_time import projected
from tests.pages.grid import SLUG, Grid, make_grid
from tests.pages.page import Page, read
from tests.series_by_hand import HandMade, put_in_place

DAYS = 90
PAGE = f"/policy/{SLUG}/convergence/"
FIGURE = f"{PAGE}figures/fair-line"
LAST = date(2026, 11, 19)
places = st.floats(0, 1)
targets = st.floats(0, 1)


@pytest.fixture
def series(open_grid: Grid, db: None, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    used = {
        "/atlas/alice": [600.0 + 10 * n for n in range(DAYS)],
        "/biomed/carol": [300.0] * DAYS,
        "/cms/dave": [0.0] * DAYS,
    }
    return put_in_place(HandMade(LAST, used), monkeypatch)


@pytest.fixture
def eva(open_grid: Grid, series: HandMade, client: Client) -> Client:
    client.force_login(open_grid.admin)
    return client


def answer_of(client: Client, query: str = "view=raw") -> dict[str, Any]:
    answer = client.get(f"{FIGURE}?{query}")
    assert answer.status_code == 200, answer.content[:500]
    found: dict[str, Any] = answer.json()
    return found


# --- Places and heights


def test_half_and_double_of_a_target_are_equally_far_from_it() -> None:
    actual, target = np.array([0.1, 0.05, 0.2, 0.0, 0.1, 0.0, np.nan]), np.array([0.1, 0.1, 0.1, 0.1, 0.0, 0.0, 0.1])
    found = places_of(actual, target)
    span = ENDS[1] - ENDS[0]
    assert found[:3].tolist() == pytest.approx([0.5, 0.5 - 1 / span, 0.5 + 1 / span])
    assert found[3:6].tolist() == [0.0, 1.0, 0.5], "nothing used, no target, neither"
    assert np.isnan(found[6])


@given(actual=st.floats(0, 1e9), target=st.floats(0, 1e9))
def test_a_place_is_on_the_axis_and_on_the_side_of_the_share(actual: float, target: float) -> None:
    place = float(places_of(np.array([actual]), np.array([target]))[0])
    assert 0 <= place <= 1
    assert (place > 0.5) <= (actual >= target)
    assert (place < 0.5) <= (actual <= target)
    if actual > 0 and target > 0 and ENDS[0] < log2(max(actual / target, 1e-300)) < ENDS[1]:
        assert place == pytest.approx((log2(actual / target) - ENDS[0]) / (ENDS[1] - ENDS[0]), abs=1e-9)


@given(st.lists(st.tuples(places, targets, st.sampled_from(["", "name  1.0 of 2.0 %"])), max_size=30))
def test_circles_stay_in_the_picture_and_words_cover_nothing(circles: list[tuple[float, float, str]]) -> None:
    place, target = (np.array([one[at] for one in circles], np.float64) for at in (0, 1))
    root_px = pixels_of_root(target, WIDE)
    spots = lay_out(place, target, root_px, [one[2] for one in circles], range(len(circles)), WIDE)
    for spot, (at, size, _words) in zip(spots, circles, strict=True):
        assert spot.radius == pytest.approx(radius_of(size, root_px), abs=0.1)
        assert spot.radius <= WIDE.most_radius + 0.1
        assert spot.radius <= spot.y <= WIDE.height - spot.radius + 2.1
        assert WIDE.x(at) - spot.radius >= 0
        assert WIDE.x(at) + spot.radius <= WIDE.width
    lines = [
        (part_of(at) * WIDE.width, spot.y) for spot, (at, *_rest) in zip(spots, circles, strict=True) if spot.has_words
    ]
    assert len(lines) == len(set(lines))


def test_areas_are_as_targets_are() -> None:
    root_px = pixels_of_root(np.array([0.4, 0.1, 0.1]), NARROW)
    assert radius_of(0.4, root_px) == pytest.approx(2 * radius_of(0.1, root_px))
    assert radius_of(0.4, root_px) == pytest.approx(NARROW.most_radius)
    assert pixels_of_root(np.array([0.0, np.nan]), WIDE) == 0.0
    assert radius_of(0.0, 0.0) == radius_of(float("nan"), 10.0) == 3.0


def test_a_long_name_keeps_its_ends_and_its_direction() -> None:
    name = isolated("א" * 60 + "x" * 60, 14)
    assert len(name) <= 16
    assert (name[0], name[-1]) == ("\u2068", "\u2069")
    assert name[1] == "א"
    assert name[-2] == "x"


# --- Numbers


def test_stops_are_the_last_sixty_days_with_the_numbers_of_the_page(eva: Client) -> None:
    answer = answer_of(eva)
    assert (len(answer["labels"]), answer["now"]) == (60, 59), "shares of single days have no forecast"
    text = b"".join(eva.get(f"{PAGE}days.csv?view=raw&from=2026-09-21&to=2026-11-19")).decode()
    rows = {(row["name"], row["day"]): row for row in csv.DictReader(StringIO(text))}
    for group in answer["groups"]:
        mine = [row for (name, _day), row in sorted(rows.items()) if name == group["name"]]
        assert len(mine) == len(group["s"]) == 60
        for at, row in enumerate(mine):
            actual, target = np.array([float(row["actual"])]), np.array([float(row["target"])])
            assert group["x"][at] == pytest.approx(float(places_of(actual, target)[0]), abs=6e-5)
    assert [one["name"] for one in answer["groups"]] == ["atlas", "biomed", "cms"], "furthest off target first"
    assert {one["name"]: one["s"][-1] for one in answer["groups"]} == {"atlas": "o", "biomed": "i", "cms": "i"}


def test_the_heading_is_the_part_of_targets_within_their_tolerance(eva: Client) -> None:
    """Targets are 60, 30 and 10 %; of 600 and 300 core-seconds atlas used two thirds."""
    answer = answer_of(eva, "view=raw&of=parent")
    assert answer["headings"][0].startswith("0"), "66.7 of 60, 33.3 of 30 and 0 of 10 % are outside 10 %"
    assert len(answer["headings"]) == len(answer["details"]) == 60
    assert "atlas" in answer["details"][-1]
    assert answer["title"] == answer["headings"][-1]


def test_the_forecast_follows_now(eva: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.pages.convergence.views.projections_of", projected)
    answer = answer_of(eva, "")
    assert (len(answer["labels"]), answer["now"]) == (91, 60)
    assert answer["marks"][0]["part"] == pytest.approx(60 / 90)
    for group in answer["groups"]:
        assert len(group["x"]) == len(group["s"]) == len(group["used"]) == 91
    lines = b"".join(eva.get(f"{FIGURE}.csv")).decode().splitlines()
    assert len(lines) == 1 + 3 * 91
    assert {line.rsplit(",", 1)[1] for line in lines[1:]} == {"0", "1"}


def test_without_a_forecast_the_line_ends_now(eva: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.pages.convergence.views.projections_of", lambda _view, _uids: {})
    answer = answer_of(eva, "")
    assert answer["now"] == len(answer["labels"]) - 1
    assert answer["marks"] == []


def test_the_page_has_the_list_before_scripts(eva: Client, open_grid: Grid) -> None:
    page = Page(eva.get(f"{PAGE}?view=raw").content.decode())
    links = page.all("#fig-fair-line [role=list] [role=listitem] > a")
    assert [one.parent.attributes["data-name"] for one in links if one.parent] == ["atlas", "biomed", "cms"]
    assert [one.attributes["tabindex"] for one in links] == ["0", "-1", "-1"]
    assert f"entry={open_grid.uid('/atlas')}" in str(links[0].attributes["href"])
    assert "83.2" in str(links[0].attributes["aria-label"])
    assert len(page.all("#fig-fair-line tbody tr")) == 3
    below = Page(eva.get(f"{PAGE}?view=raw&level={open_grid.uid('/atlas')}").content.decode())
    assert below.has("#fig-fair-line [data-above]"), "the way up"
    assert not page.has("#fig-fair-line [data-above]")


# --- Bad input


def line_of(client: Client, used: dict[str, list[float]], monkeypatch: pytest.MonkeyPatch, **more: Any) -> Page:
    put_in_place(HandMade(LAST, used, **more), monkeypatch)
    answer = client.get(f"{PAGE}?view=raw")
    assert answer.status_code == 200
    assert "nan" not in answer.content.decode().lower().replace("nano", "").replace("finance", "")
    return read(answer)


def test_all_idle_entries_are_circles_without_demand(eva: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    long_ago = {"/atlas/alice": [9.0, *[0.0] * (DAYS - 1)], "/biomed/carol": [0.0] * DAYS}
    put_in_place(HandMade(LAST, long_ago, decay=0.99), monkeypatch)
    answer = answer_of(eva, "")
    yesterday = answer["now"] - 1
    assert {one["s"][yesterday] for one in answer["groups"]} == {"i"}
    assert next(one for one in answer["groups"] if one["name"] == "cms")["x"][yesterday] == 0


def test_where_nobody_ever_used_anything_there_is_no_line(eva: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    page = line_of(eva, {"/atlas/alice": [0.0] * DAYS}, monkeypatch)
    assert len(page.text("#fig-fair-line .fig-state")) > 15


def test_an_entry_alone_is_always_where_it_should_be(
    eva: Client, open_grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dave is all of cms when erin has left, whatever he uses."""
    publish_operations(
        policy_slug=SLUG,
        operations=[{"op": "archive", "entry": "/cms/erin"}],
        reason="She has left.",
        at=clock.now(),
        actor=COMMAND,
    )
    used = {"/atlas/alice": [600.0] * DAYS, "/cms/dave": [5.0 + day for day in range(DAYS)]}
    put_in_place(HandMade(LAST, used), monkeypatch)
    answer = answer_of(eva, f"view=raw&level={open_grid.uid('/cms')}")
    (alone,) = answer["groups"]
    assert (alone["name"], set(alone["x"]), set(alone["s"])) == ("dave", {0.5}, {"n"})
    assert {heading.partition("%")[0].strip("\xa0 ") for heading in answer["headings"]} == {"100"}
    page = read(eva.get(f"{PAGE}?view=raw&level={open_grid.uid('/cms')}"))
    assert len(page.all("#fig-fair-line .fair-group")) == 1


def test_usage_without_a_target_is_at_the_right_end_in_the_smallest_circle(
    eva: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = {"/atlas/alice": [600.0] * DAYS, "/biomed/carol": [300.0] * DAYS, "/cms/dave": [100.0] * DAYS}
    targets = {"/atlas": [0.7] * DAYS, "/biomed": [0.3] * DAYS, "/cms": [0.0] * DAYS}
    put_in_place(HandMade(LAST, used, targets=targets), monkeypatch)
    answer = answer_of(eva)
    groups = {one["name"]: one for one in answer["groups"]}
    assert (set(groups["cms"]["x"]), set(groups["cms"]["s"])) == ({1.0}, {"o"})
    page = read(eva.get(f"{PAGE}?view=raw"))
    circles = (page.one(f"#fig-fair-line [data-name={name}] circle") for name in ("cms", "biomed", "atlas"))
    cms, biomed, atlas = (float(str(circle.attributes["r"])) for circle in circles)
    assert cms == 3.0 < biomed < atlas
    assert "0.0" in str(page.one("#fig-fair-line .fair-group[data-name=cms] > a").attributes["aria-label"])


def test_an_entry_whose_forecast_is_not_known_has_no_place_ahead(eva: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_one(view: Any, uids: Any) -> Any:
        known = projected(view, uids)
        return {uid: known[uid] for uid in list(known)[1:]}

    monkeypatch.setattr("apps.pages.convergence.views.projections_of", without_one)
    answer = answer_of(eva, "")
    now = answer["now"]
    ahead = {one["name"]: one["x"][now + 1 :] for one in answer["groups"]}
    unknown = [name for name, places in ahead.items() if set(places) == {None}]
    assert len(unknown) == 1
    assert all(None not in places for name, places in ahead.items() if name not in unknown)
    (of_unknown,) = (one for one in answer["groups"] if one["name"] in unknown)
    assert set(of_unknown["s"][now + 1 :]) == {"x"}
    assert of_unknown["x"][now] is not None


def test_a_level_of_which_nothing_is_known_says_so(
    eva: Client, open_grid: Grid, series: HandMade, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "apps.series.convergence.selectors.share_methods.actual_share",
        lambda found, _method: np.full(found.used.shape, np.nan),
    )
    answer = answer_of(eva)
    assert len(answer["empty"]) > 15
    page = read(eva.get(f"{PAGE}?view=raw"))
    assert page.has("#fig-fair-line .fig-state")


def test_a_day_without_data_in_the_middle_is_no_place(
    eva: Client, series: HandMade, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.series.convergence.share_methods import actual_share

    def with_hole(found: Any, method: Any) -> Any:
        shares = actual_share(found, method).copy()
        shares[:, -20] = np.nan
        return shares

    monkeypatch.setattr("apps.series.convergence.selectors.share_methods.actual_share", with_hole)
    answer = answer_of(eva)
    at = len(answer["labels"]) - 20
    for group in answer["groups"]:
        assert group["x"][at] is None
        assert group["s"][at] == "x"
        assert group["x"][at - 1] is not None
    assert not any(letter.isdigit() for letter in answer["headings"][at]), "nothing is counted"


def test_more_than_two_hundred_have_a_density_of_the_rest(
    db: None, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = make_grid(clock.now(), extra_users=MOST_CIRCLES + 60)
    used = {"/biomed/carol": [5.0] * DAYS} | {f"/biomed/helper{n:04}": [1.0 + n] * DAYS for n in range(1, 30)}
    put_in_place(HandMade(LAST, used), monkeypatch)
    client.force_login(wide.admin)
    answer = answer_of(client, f"view=raw&level={wide.uid('/biomed')}")
    assert len(answer["groups"]) == MOST_CIRCLES
    assert len(answer["rest"]["bins"]) == len(answer["labels"])
    assert max(map(max, answer["rest"]["bins"])) == 1
    assert len(answer["table"]["rows"]) >= MOST_CIRCLES + 60


def test_of_too_many_siblings_the_heading_names_how_many_are_compared(
    db: None, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with 10,000 of them: the largest are compared."""
    monkeypatch.setattr("apps.series.convergence.query.MOST_CONVERGENCE_MEMBERS", 12)
    wide = make_grid(clock.now(), extra_users=40)
    put_in_place(HandMade(LAST, {"/biomed/carol": [5.0] * DAYS, "/biomed/helper0001": [2.0] * DAYS}), monkeypatch)
    client.force_login(wide.admin)
    answer = answer_of(client, f"view=raw&level={wide.uid('/biomed')}")
    assert len(answer["groups"]) == 12
    assert all("12" in heading for heading in answer["headings"])


def test_a_drafted_share_is_typed_into_the_form_which_says_what_is_no_share(eva: Client, open_grid: Grid) -> None:
    path = f"/policy/{SLUG}/n/{open_grid.uid('/atlas')}/atlas/?panel=shares"
    page = read(eva.get(path, {"panel": "shares", "shares": "15.0%"}))
    assert page.one("#shares").attributes["value"] == "15.0%"
    assert "aria-invalid" not in page.one("#shares").attributes
    for text in ("tea", "1e400", "-3", "101%", "9" * 500, "\u2068", "nan", "1,000 %", "100%"):
        page = read(eva.get(path, {"panel": "shares", "shares": text}))
        assert page.one("#shares").attributes["value"] == text[:40], text
        assert page.one("#shares").attributes["aria-invalid"] == "true", text
        assert page.one("#shares-hint").attributes["class"] == "err", text
        assert "60 of 100 shares of SweGrid" in page.text("#panel"), "the effect is that of no change"
