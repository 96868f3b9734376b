"""Up to eight subgroups in one figure: points equal to the series, colours that stay, and what can't be drawn."""

from __future__ import annotations

import csv
import io
from datetime import date
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.errors import Invalid
from apps.pages.convergence.figures.by_name import draw_figure, read_figure
from apps.priorities.serving import store
from apps.series.convergence.numbers import get_convergence_data
from apps.series.convergence.query import today_of
from apps.series.convergence.selectors import get_series_state
from apps.web.figures import Figure
from apps.web.figures.traces import line
from tests.pages.grid import SLUG, Grid
from tests.series_by_hand import HandMade, put_in_place
from tests.web.figures.schema import check_schema

LAST = date(2026, 11, 19)
DAYS = 40
FIGURE = f"/policy/{SLUG}/convergence/figures/focus"


@pytest.fixture
def series(open_grid: Grid, db: None, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    used = {
        "/atlas/alice": [600.0 + 10 * n for n in range(DAYS)],
        "/biomed/carol": [300.0] * DAYS,
        "/cms/dave": [20.0] * DAYS,
    }
    return put_in_place(HandMade(LAST, used), monkeypatch)


@pytest.fixture
def draw(open_grid: Grid, series: HandMade) -> Any:
    def figure(query: str = "") -> Figure:
        actor = Actor(user=open_grid.admin, via="page")
        state = get_series_state(policy_slug=SLUG, actor=actor)
        asked = read_figure("focus", QueryDict(query), state, today_of(clock.now()))
        numbers = asked.numbers
        found = None if numbers is None else get_convergence_data(numbers, policy_slug=SLUG, uid=None, actor=actor)
        return draw_figure(asked, found)

    return figure


@pytest.fixture
def eva(open_grid: Grid, series: HandMade, client: Client) -> Client:
    client.force_login(open_grid.admin)
    return client


def lines_of(figure: Figure) -> dict[str, dict[str, Any]]:
    return {trace["name"]: trace for trace in figure.traces if trace.get("meta", {}).get("read")}


@pytest.mark.parametrize("query", ["", "show=ratio&range=7", "show=percent&pick=atlas", "range=all&view=raw"])
def test_the_figure_is_valid_for_plotly(draw: Any, query: str) -> None:
    found = draw(query)
    check_schema(found)


def test_points_come_from_the_series_and_the_last_from_the_newest_snapshot(
    draw: Any, open_grid: Grid, series: HandMade
) -> None:
    """atlas used 600 of 920 on the first day; the snapshot is of AT, a day after the last day of the series."""
    atlas = lines_of(draw("view=raw&show=percent&range=all"))["atlas"]
    assert atlas["x"][:2] == ["2026-10-11", "2026-10-12"]
    assert atlas["y"][:2] == [round(60000 / 920, 2), round(61000 / 930, 2)]
    assert atlas["x"][-1] == "2026-11-19", "a single day has no number before it is over"
    now = lines_of(draw("show=percent"))["atlas"]
    actual = store.newest(SLUG).values.actual[open_grid.tree.index_of_path("/atlas") or 0]
    assert (now["x"][-1], now["y"][-1]) == ("2026-11-20", round(float(actual) * 100, 2))
    points = lines_of(draw())["atlas"]
    assert points["y"][-1] == round((float(actual) - 0.6) * 100, 2)


def test_the_default_selection_is_the_four_largest_deviations(draw: Any) -> None:
    found = draw()
    assert next(iter(lines_of(found))) in found.sentence
    assert len(found.extra["picks"]) == 3
    off = [abs(trace["y"][-2]) for trace in lines_of(found).values()]
    assert off == sorted(off, reverse=True)


def test_selected_entries_keep_their_colours_when_others_are_removed(draw: Any, open_grid: Grid) -> None:
    carol = str(open_grid.uid("/biomed/carol"))
    found = draw(f"pick=atlas&pick={carol}&pick=/cms")
    assert list(lines_of(found)) == ["atlas", "carol", "cms"]
    chips = {choice.label: choice for choice in found.controls[-1].choices}
    assert [chips[name].swatch for name in ("atlas", "carol", "cms")] == ["$series-1", "$series-2", "$series-3"]
    fewer = draw(chips["carol"].drop)
    assert {name: trace["line"]["color"] for name, trace in lines_of(fewer).items()} == {
        "atlas": "$series-1",
        "cms": "$series-3",
    }
    again = draw(chips["carol"].drop + "&pick=biomed")
    assert lines_of(again)["biomed"]["line"]["color"] == "$series-2", "the lowest that is free"
    hidden = draw(chips["atlas"].query)
    assert list(lines_of(hidden)) == ["carol", "cms"]
    assert lines_of(hidden)["cms"]["line"]["color"] == "$series-3"
    assert list(lines_of(draw(chips["carol"].alone))) == ["carol"]


def test_a_ninth_selection_asks_which_one_to_drop(draw: Any, open_grid: Grid) -> None:
    tree = open_grid.tree
    nine = [tree.uuid(i) for i in range(1, 10)]
    found = draw("&".join(f"pick={uid}" for uid in nine))
    assert found.empty
    assert "9" in found.empty
    assert not found.traces
    links = found.controls[0].choices
    assert len(links) == 9
    kept = draw(links[2].query)
    assert kept.extra["picks"] == [str(uid) for uid in nine if uid != nine[2]]
    assert sorted(kept.extra["slots"]) == list("12345678")
    hundred = draw("&".join(f"pick={n}" for n in range(100)))
    assert "100" in hundred.empty
    assert len(hundred.controls[0].choices) == 2


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("range=8", "range"),
        ("range=1e9", "range"),
        ("show=tea", "show"),
        ("pick=/nobody", "pick"),
        ("pick=00000000-0000-0000-0000-000000000001", "pick"),
        ("pick=/", "pick"),
        ("from=x", "from"),
        ("from=0001-01-01&to=9999-12-31", "from"),
        ("window=nan&view=windowed", "window_s"),
    ],
)
def test_invalid_figure_parameters_are_refused_by_name(draw: Any, query: str, where: str) -> None:
    with pytest.raises(Invalid) as caught:
        draw(query)
    assert [problem.where for problem in caught.value.fields] == [where]


def test_a_range_before_the_first_day_names_the_available_days(draw: Any) -> None:
    found = draw("from=1990-01-01&to=1990-02-01")
    assert "1990" in found.empty
    assert found.controls


def test_an_invisible_entry_is_answered_like_an_unknown_one(
    closed_grid: Grid, db: None, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    put_in_place(HandMade(LAST, {"/atlas/alice": [5.0] * DAYS, "/biomed/carol": [3.0] * DAYS}), monkeypatch)
    client.force_login(closed_grid.alice)
    uids = (str(closed_grid.uid("/biomed/carol")), "00000000-0000-0000-0000-000000000001")
    answers = [client.get(f"{FIGURE}?pick={uid}", headers={"Accept": "application/json"}) for uid in uids]
    assert [answer.status_code for answer in answers] == [422, 422]
    hidden, missing = (answer.content.decode().replace(uid, "") for answer, uid in zip(answers, uids, strict=True))
    assert hidden == missing
    assert "biomed" not in hidden
    response = client.get(FIGURE).content + b"".join(client.get(f"{FIGURE}.csv"))
    assert b"atlas" in response
    assert b"biomed" not in response


def test_json_is_fetched_once_and_the_csv_has_every_day_of_the_range(eva: Client) -> None:
    first = eva.get(f"{FIGURE}?pick=atlas&range=30")
    assert first.json()["name"] == "focus"
    assert eva.get(f"{FIGURE}?pick=atlas&range=30", headers={"If-None-Match": first["ETag"]}).status_code == 304
    lines = b"".join(eva.get(f"{FIGURE}.csv?pick=atlas&range=30")).decode().splitlines()
    rows = list(csv.reader(io.StringIO("\n".join(lines))))
    assert rows[0] == ["day", "atlas actual_percent", "atlas target_percent"]
    assert (rows[1][0], rows[-1][0]) == ("2026-11-20", "2026-10-21")
    assert len(rows) == 32


def test_ten_thousand_selected_entries_are_refused(eva: Client) -> None:
    answer = eva.get(f"{FIGURE}?" + "&".join(["pick=atlas"] * 10_000))
    assert answer.status_code == 400
    assert len(answer.content) < 100_000


def test_the_page_keeps_the_selection_when_its_period_changes(eva: Client) -> None:
    page = eva.get(f"/policy/{SLUG}/convergence/?pick=atlas&show=ratio").content.decode()
    assert "?days=90&amp;show=ratio&amp;pick=atlas" in page
    assert 'data-choice="show-ratio"' in page


def test_names_are_escaped_for_plotly() -> None:
    drawn = line([0], [1.0], name="$ink %{x} R&D <b>", color="$series-1", words=["50 %"])
    assert drawn["hovertemplate"] == "&#36;ink %&#123;x} R&amp;D &lt;b&gt; %{customdata}<extra></extra>"
