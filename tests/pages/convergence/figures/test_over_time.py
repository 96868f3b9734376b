"""One entry over time: its numbers are those of the series and of the forecast, in the picture, the table and REST."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.http import QueryDict
from django.test import Client

from apps.core.errors import Invalid
from apps.pages.convergence.page_query import read_page_query
from apps.priorities.projections import CurvePoint, PaceDays, Projection
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.serving import store
from apps.series.daily_series import SeriesState
from apps.web.figures.traces import line
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read, text_of
from tests.series_by_hand import HandMade, put_in_place
from tests.web.figures.schema import colored

LAST = date(2026, 11, 19)
DAYS = 40
PAGE = f"/policy/{SLUG}/convergence/"
FIGURE = f"{PAGE}figures/over-time"


@pytest.fixture
def series(open_grid: Grid, db: None, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    used = {
        "/atlas/alice": [600.0 + 10 * n for n in range(DAYS)],
        "/biomed/carol": [300.0] * DAYS,
        "/cms/dave": [20.0] * DAYS,
    }
    return put_in_place(HandMade(LAST, used), monkeypatch)


@pytest.fixture
def eva(open_grid: Grid, series: HandMade, client: Client) -> Client:
    client.force_login(open_grid.admin)
    return client


def figure_of(client: Client, query: str = "") -> dict[str, Any]:
    answer = client.get(f"{FIGURE}?{query}")
    assert answer.status_code == 200, answer.content[:1000]
    found: dict[str, Any] = answer.json()
    return found


def line_of(figure: dict[str, Any]) -> dict[str, Any]:
    """The line of the used share."""
    found: dict[str, Any] = next(one for one in figure["data"] if one.get("name"))
    return found


def dash_of(trace: dict[str, Any]) -> str:
    return str(trace.get("line", {}).get("dash", ""))


def rows_of(client: Client, query: str = "") -> list[dict[str, str]]:
    text = b"".join(client.get(f"{FIGURE}.csv?{query}")).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text)))


ON_TARGET = AT + timedelta(days=9.25)


def projected(view: PolicyView, uids: Sequence[UUID]) -> dict[UUID, Projection]:
    """Every entry is on target in nine days and a quarter, on a straight line from its share to its target."""

    def curve(start: float, end: float) -> Any:
        def points(days: int) -> list[CurvePoint]:
            part = [start + (end - start) * min(day / 10, 1) for day in range(days + 1)]
            return [
                CurvePoint(AT + timedelta(days=day), value, value - 0.02, value - 0.01, value + 0.01, value + 0.02)
                for day, value in enumerate(part)
            ]

        return points

    assert view.snapshot is not None
    actual, target = view.snapshot.values.actual, view.target[0]
    return {
        uid: Projection(
            "recovers",
            AT,
            ON_TARGET,
            AT + timedelta(days=8),
            AT + timedelta(days=12),
            usual_share=0.25,
            pace_days=PaceDays(28, AT),
            curve=curve(float(actual[i]), float(target[i])),
        )
        for uid in uids
        if (i := view.tree.index_of_uid(uid))
    }


@pytest.fixture
def forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("views", "api"):
        monkeypatch.setattr(f"apps.pages.convergence.{module}.projections_of", projected)


@pytest.mark.parametrize("query", ["", "unit=points&range=7", "compare=1", "range=all&view=raw"])
def test_the_figure_is_valid_for_plotly(eva: Client, forecast: None, query: str) -> None:
    import plotly.graph_objects as go

    found = figure_of(eva, query)
    layout = found["layout"]
    go.Figure(colored(found["data"]), colored(layout))
    assert {trace["type"] for trace in found["data"]} == {"scatter"}, "what the basic bundle draws"


def test_points_come_from_the_series_and_the_last_from_the_newest_snapshot(
    eva: Client, open_grid: Grid, series: HandMade
) -> None:
    """atlas used 600 of 920 on the first day; the snapshot is of AT, a day after the last day of the series."""
    atlas = f"entry={open_grid.uid('/atlas')}"
    raw = line_of(figure_of(eva, f"{atlas}&view=raw&range=all"))
    assert raw["x"][:2] == ["2026-10-11", "2026-10-12"]
    assert raw["y"][:2] == [round(60000 / 920, 2), round(61000 / 930, 2)]
    assert raw["x"][-1] == "2026-11-19", "a single day has no number before it is over"
    now = line_of(figure_of(eva, atlas))
    actual = float(store.newest(SLUG).values.actual[open_grid.tree.index_of_path("/atlas") or 0])
    assert (now["x"][-1][:10], now["y"][-1]) == ("2026-11-20", round(actual * 100, 2))
    points = line_of(figure_of(eva, f"{atlas}&unit=points"))
    assert points["y"][-1] == round((actual - 0.6) * 100, 2)


def test_the_entry_farthest_off_target_is_selected(eva: Client) -> None:
    found = figure_of(eva)
    uids = read(eva.get(f"{PAGE}?section=rest")).each("[data-panel]", "data-uid")
    off = {uid: abs(line_of(figure_of(eva, f"entry={uid}&unit=points"))["y"][-1]) for uid in uids}
    assert found["entry"] == max(off, key=lambda uid: off[uid])
    assert found["title"] in found["sentence"]


def test_a_raised_target_is_a_step_and_usage_stays(eva: Client, series: HandMade, open_grid: Grid) -> None:
    query = f"entry={open_grid.uid('/atlas')}&view=raw&range=all"
    before = line_of(figure_of(eva, query))["y"]
    series.targets = {"/atlas": [0.5] * 20 + [0.6] * 20}
    found = figure_of(eva, query)
    assert line_of(found)["y"] == before
    target = next(one for one in found["data"] if dash_of(one) == "4px,3px")
    assert target["line"]["shape"] == "hv"
    assert target["y"] == [50.0, 60.0, 60.0]
    assert target["x"][1] == series.on[20].isoformat()
    low, high = [one for one in found["data"] if one.get("line", {}).get("width") == 0][:2]
    assert [round((a + b) / 2, 2) for a, b in zip(low["y"], high["y"], strict=True)] == target["y"], "its tolerance"


def test_a_revision_has_words_only_where_it_changed_the_target(eva: Client, series: HandMade, open_grid: Grid) -> None:
    query = f"entry={open_grid.uid('/atlas')}&range=all&view=raw"

    def revisions() -> tuple[list[str], set[float]]:
        layout = figure_of(eva, query)["layout"]
        ticks = {one["y1"] for one in layout["shapes"] if one.get("ysizemode") == "pixel"}
        return [one["text"] for one in layout["annotations"] if "\u00a0%" in one["text"] and "to" in one["text"]], ticks

    assert revisions() == ([], {4})
    first = figure_of(eva, query)["layout"]["shapes"]
    day = date.fromisoformat(next(one["x0"] for one in first if one.get("ysizemode") == "pixel"))
    n_before = series.on.index(day)
    series.targets = {"/atlas": [0.5] * n_before + [0.6] * (DAYS - n_before)}
    words, ticks = revisions()
    assert [text.partition(": ")[2] for text in words] == ["target 50.0 to 60.0\u00a0%"]
    assert 7 in ticks


def test_the_period_before_is_shifted_by_its_length(eva: Client, open_grid: Grid) -> None:
    query = f"entry={open_grid.uid('/atlas')}&view=raw&range=7"
    rows = {row["day"]: row for row in rows_of(eva, f"{query}&compare=1")}
    all_rows = {row["day"]: row for row in rows_of(eva, query.replace("range=7", "range=all"))}
    for day, row in rows.items():
        earlier = (date.fromisoformat(day) - timedelta(days=7)).isoformat()
        assert row["before_percent"] == all_rows[earlier]["used_percent"]
    assert len(rows) == 7
    assert "before_percent" not in rows_of(eva, query)[0]


def test_the_day_on_target_is_that_of_the_projection_everywhere(eva: Client, forecast: None, open_grid: Grid) -> None:
    query = f"entry={open_grid.uid('/atlas')}"
    found, page = figure_of(eva, query), read(eva.get(f"{PAGE}?{query}"))
    day = "29 Nov"
    assert day in found["sentence"]
    assert day in page.text("[data-facts] h3")
    assert page.text("[data-testid=on-target]") == day
    assert [one["text"] for one in found["layout"]["annotations"] if "target" in one["text"]] == [f"on target {day}"]
    ring = next(one for one in found["data"] if one.get("marker", {}).get("size") == 9)
    assert ring["x"][0].startswith("2026-11-29")
    assert ring["y"][0] != float(rows_of(eva, query)[-1]["target_percent"]), "where it enters the tolerance"


def test_days_ahead_equal_the_curve_in_picture_table_and_rest(eva: Client, forecast: None, open_grid: Grid) -> None:
    uid = open_grid.uid("/atlas")
    found, rows = figure_of(eva, f"entry={uid}"), rows_of(eva, f"entry={uid}")
    ahead = next(one for one in found["data"] if dash_of(one) == "5px,3px")
    expected = [row["expected_percent"] for row in rows if row["expected_percent"]][::-1]
    assert len(expected) == 24
    assert [round(float(value), 2) for value in expected] == ahead["y"][1:]
    assert found["reads"][-1].startswith("expected")
    assert f"{ahead['y'][-1]:.1f}" in found["reads"][-1]
    rest = eva.get(f"/api/v1/policies/{SLUG}/convergence").json()
    projection = next(one for one in rest["results"] if one["uid"] == str(uid))["projection"]
    assert [round(one["likely"] * 100, 2) for one in projection["next_days"][:25]] == ahead["y"]
    assert projection["on_target_at"].startswith("2026-11-29")
    assert not [one for one in figure_of(eva, f"entry={uid}&view=raw")["data"] if dash_of(one) == "5px,3px"]


def test_a_zoom_is_drawn_by_the_server_and_its_end_has_the_value(eva: Client, open_grid: Grid) -> None:
    uid = open_grid.uid("/atlas")
    found = figure_of(eva, f"entry={uid}&zoom=2026-11-02..2026-11-10")
    assert [day[:10] for day in found["layout"]["xaxis"]["range"]] == ["2026-11-02", "2026-11-10"]
    row = next(row for row in rows_of(eva, f"entry={uid}") if row["day"] == "2026-11-10")
    label = f"{float(row['used_percent']):.1f}\u00a0%"
    assert found["layout"]["annotations"][-1]["text"] == label
    assert found["resting"]["label"] == "Tue 10 Nov"
    assert figure_of(eva, f"entry={uid}&zoom=2026-11-02..2026-11-03")["axis"]["is_zoomed"] is False, "too short"


def test_the_server_and_plotly_draw_the_same_ticks_and_dots(eva: Client, forecast: None, open_grid: Grid) -> None:
    found = figure_of(eva, f"entry={open_grid.uid('/atlas')}&range=90")
    svg = Page(found["svg"])
    layout = found["layout"]
    assert [text_of(one) for one in svg.all(".days.wide text")] == layout["xaxis"]["ticktext"]
    assert [text_of(one) for one in svg.all(".days.narrow text")] == found["narrow"]["xaxis"]["ticktext"]
    shown = [text_of(one) for one in svg.all("text[text-anchor=end]")]
    assert shown == [text.replace("\u00a0", " ") for text in layout["yaxis"]["ticktext"]]
    low, high = layout["yaxis"]["range"]
    dot = next(one for one in found["data"] if one.get("marker", {}).get("size") == 8)
    drawn = float((svg.one(".dot-end").attributes["cy"] or "").removesuffix("%"))
    assert drawn == pytest.approx(100 * (high - dot["y"][0]) / (high - low), abs=0.01)
    assert layout["margin"] == {"l": 44, "r": 12, "t": 10, "b": 22}


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("range=8", "range"),
        ("range=1e9", "range"),
        ("unit=tea", "unit"),
        ("entry=/nobody", "entry"),
        ("level=x", "level"),
        ("zoom=tomorrow", "zoom"),
        ("from=x", "from"),
        ("from=1 Nov 2026&to=2 Nov 2026", "from"),
        ("from=0001-01-01&to=9999-12-31", "from"),
        ("window=nan&view=windowed", "window_s"),
    ],
)
def test_invalid_parameters_are_refused_by_name(eva: Client, query: str, where: str) -> None:
    state = SeriesState(LAST - timedelta(days=DAYS - 1), LAST)
    with pytest.raises(Invalid) as caught:
        read_page_query(QueryDict(query), state, AT.date())
    assert [problem.where for problem in caught.value.fields] == [where]
    assert eva.get(f"{FIGURE}?{query}", headers={"Accept": "application/json"}).status_code == 422
    assert read(eva.get(f"{PAGE}?{query}"), 422).item("cannot-be-shown").attributes["data-value"] == where


@pytest.mark.parametrize("text", ["1 Nov 2026", "1 November 2026", "2026-11-01", "1 Nov", "Nov 1, 2026"])
def test_days_are_read_as_people_write_them(eva: Client, text: str) -> None:
    answer = eva.get(FIGURE, {"from": text, "to": "15 Nov"})
    assert answer.status_code == 200
    assert answer.json()["axis"]["whole"] == ["2026-11-01", "2026-11-15"]


def test_a_range_before_the_first_day_is_empty(eva: Client) -> None:
    assert figure_of(eva, "from=1990-01-01&to=1990-02-01")["empty"]


def test_an_invisible_entry_is_answered_like_an_unknown_one(
    closed_grid: Grid, db: None, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    put_in_place(HandMade(LAST, {"/atlas/alice": [5.0] * DAYS, "/biomed/carol": [3.0] * DAYS}), monkeypatch)
    client.force_login(closed_grid.alice)
    uids = (str(closed_grid.uid("/biomed")), "00000000-0000-0000-0000-000000000001")
    answers = [client.get(f"{FIGURE}?entry={uid}", headers={"Accept": "application/json"}) for uid in uids]
    assert [answer.status_code for answer in answers] == [422, 422]
    hidden, missing = (answer.content.decode().replace(uid, "") for answer, uid in zip(answers, uids, strict=True))
    assert hidden == missing
    assert "biomed" not in hidden
    response = client.get(FIGURE).content + b"".join(client.get(f"{FIGURE}.csv"))
    assert b"atlas" in response
    assert b"biomed" not in response


def test_json_is_fetched_once(eva: Client) -> None:
    first = eva.get(f"{FIGURE}?range=30")
    assert first.json()["name"] == "over-time"
    assert eva.get(f"{FIGURE}?range=30", headers={"If-None-Match": first["ETag"]}).status_code == 304


def test_names_are_escaped_for_plotly() -> None:
    drawn = line([0], [1.0], name="$ink %{x} R&D <b>", color="$series-1", words=["50 %"])
    assert drawn["hovertemplate"] == "&#36;ink %&#123;x} R&amp;D &lt;b&gt; %{customdata}<extra></extra>"
