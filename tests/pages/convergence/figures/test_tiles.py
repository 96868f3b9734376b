"""Small multiples: the numbers of the series at each stop of the cursor, and one scale a section."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any

import plotly.graph_objects as go
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.core import clock
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.series_by_hand import HandMade, put_in_place
from tests.web.figures.schema import colored

DAYS = 40
PANELS = f"/policy/{SLUG}/convergence/figures/panels"


@pytest.fixture
def series(open_grid: Grid, db: None, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    used = {
        "/atlas/alice": [600.0 + 10 * n for n in range(DAYS)],
        "/biomed/carol": [300.0] * DAYS,
        "/cms/dave": [0.0] * DAYS,
    }
    waited = {"/biomed/carol": [0.0] * 36 + [500.0] * 4}
    return put_in_place(HandMade(date(2026, 11, 19), used, waited=waited), monkeypatch)


@pytest.fixture
def eva(open_grid: Grid, series: HandMade, client: Client) -> Client:
    client.force_login(open_grid.admin)
    return client


def panels_of(client: Client, query: str = "") -> dict[str, dict[str, Any]]:
    """Panels of all sections, by name."""
    panels: dict[str, dict[str, Any]] = {}
    for section in ("off", "small", "rest"):
        answer = client.get(f"{PANELS}?section={section}&{query}")
        assert answer.status_code == 200, answer.content[:500]
        panels |= {one["name"]: one for one in answer.json()["panels"]}
    return panels


def test_each_panel_has_its_values_at_the_stops_of_the_cursor(eva: Client, open_grid: Grid) -> None:
    panels = panels_of(eva, "view=raw&range=all")
    assert set(panels) == {"atlas", "biomed", "cms"}
    assert panels["atlas"]["used"][-1] == f"{99000 / 1290:.1f}\u00a0%"
    assert panels["cms"]["used"][-1] == "0.0\u00a0%"
    axis = eva.get(PANELS, {"view": "raw", "range": "all"}).json()["axis"]
    assert (axis["stops"][0], len(axis["stops"])) == ("2026-10-11", DAYS)
    assert {len(one["used"]) for one in panels.values()} == {DAYS}
    main = eva.get(PANELS.replace("panels", "over-time"), {"view": "raw", "range": "all"}).json()["axis"]
    assert main == axis, "one cursor for all pictures"


def test_a_section_has_one_scale_and_the_newest_snapshot_is_inside_it(eva: Client) -> None:
    for section in ("off", "small"):
        answer = eva.get(PANELS, {"section": section}).json()
        tops = {one["svg"].split('text-anchor="end">')[3].split("<")[0] for one in answer["panels"]}
        assert len(tops) <= 1
        top = float(next(iter(tops), "100").split("\u00a0")[0])
        assert all(float(one["heading"]["used"].split("\u00a0")[0]) <= top for one in answer["panels"])
        if answer["panels"]:
            assert f"{top:.0f}" in answer["scale"]


def test_a_page_after_the_last_is_empty_and_unknown_figures_are_not_found(eva: Client) -> None:
    assert panels_of(eva, "page=2") == {}
    assert eva.get(PANELS.replace("panels", "tea")).status_code == 404
    assert eva.get(f"{PANELS}?days=8").status_code == 422
    assert eva.get(f"{PANELS}?section=tea").status_code == 422


def test_the_csv_has_every_entry(eva: Client) -> None:
    lines = b"".join(eva.get(f"{PANELS}.csv?range=7")).decode().splitlines()
    assert len(lines) == 9
    assert lines[0].count("used") == 3


def test_stacked_shares_sum_to_the_whole_with_target_borders(eva: Client) -> None:
    answer = eva.get(PANELS.replace("panels", "stack") + "?days=30&view=raw").json()
    areas = [one for one in answer["data"] if "stackgroup" in one]
    assert [one["name"] for one in areas] == ["atlas", "biomed", "cms"], "by target"
    assert [sum(values) for values in zip(*(one["y"] for one in areas), strict=True)] == pytest.approx(
        [100] * 30, abs=0.02
    )
    borders = [one["y"][0] for one in answer["data"] if one["line"].get("dash")]
    assert borders == [60.0, 90.0]
    go.Figure(colored(answer["data"]), colored(answer["layout"]))
    assert len(answer["table"]["rows"]) == 30


def test_a_heat_map_has_a_cell_for_each_entry_and_day(eva: Client, open_grid: Grid) -> None:
    answer = eva.get(PANELS.replace("panels", "heat") + "?days=365&view=raw").json()
    rows = answer["layout"]["yaxis"]["ticktext"]
    assert set(rows) == {"atlas", "biomed", "cms"}

    def color_at(name: str, day: str) -> str:
        """Of the area that covers the middle of a cell."""
        row = rows.index(name)
        for area in answer["data"]:
            if area.get("fill") == "toself":
                for at in range(0, len(area["x"]), 6):
                    first, last, low, high = (area["x"][at], area["x"][at + 2], area["y"][at], area["y"][at + 1])
                    if first < f"{day} 12" and last > f"{day} 00:00" and low < row < high and first[:10] <= day:
                        return str(area["fillcolor"])
        return ""

    last = answer["data"][-1]["x"][-1]
    assert color_at("cms", answer["data"][-1]["x"][0]) == "$surface-3", "no demand is no state of balance"
    assert color_at("atlas", last) == "$ice-o3", "16.7 points over"
    assert color_at("biomed", last) == "$ice-u2", "6.7 points under"
    read_outs = [one for one in answer["data"] if one.get("hovertemplate")]
    assert [len(one["x"]) for one in read_outs] == [DAYS] * 3
    assert {one["type"] for one in answer["data"]} == {"scatter"}, "what the basic bundle draws"
    go.Figure(colored(answer["data"]), colored(answer["layout"]))
    lines = b"".join(eva.get(PANELS.replace("panels", "heat.csv") + "?view=raw")).decode().splitlines()
    assert [line.split(",")[0].strip('"') for line in lines[1:]] == rows[::-1]


def test_live_updates_follow_the_snapshot_and_write_nothing(
    eva: Client, open_grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"/policy/{SLUG}/live"
    first = eva.get(address)
    assert first.json()["revision"] == 2
    with CaptureQueriesContext(connection) as queries:
        same = eva.get(address, headers={"If-None-Match": first["ETag"]})
    assert (same.status_code, same.content) == (304, b"")
    reads = re.compile(r"\s*(SELECT|SAVEPOINT|RELEASE|PREPARE live_page_\d+ AS\s+SELECT|EXECUTE live_page_\d+)\b")
    assert not [one for one in queries if not reads.match(one["sql"])]
    monkeypatch.setenv(clock.VARIABLE, (AT + timedelta(seconds=30)).isoformat())
    assert eva.get(address, headers={"If-None-Match": first["ETag"]}).status_code == 304, "time alone changes nothing"
    monkeypatch.setenv(clock.VARIABLE, (AT + timedelta(minutes=20)).isoformat())
    old = eva.get(address, headers={"If-None-Match": first["ETag"]}).json()["parts"]
    assert [name for name, tag in old.items() if tag != first.json()["parts"][name]] == ["fresh"], "they are old by now"
    open_grid.recompute()
    later = eva.get(address, headers={"If-None-Match": first["ETag"]})
    assert later.status_code == 200
    assert later.json()["age_s"] == 0
    assert eva.get("/policy/nothing/live").status_code == 404


def test_a_known_figure_is_304(eva: Client) -> None:
    first = eva.get(PANELS, {"view": "raw"})
    assert first.status_code == 200, first.content[:500]
    again = eva.get(PANELS, {"view": "raw"}, headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = eva.get(PANELS, {"view": "raw", "days": "7"}, headers={"If-None-Match": first["ETag"]})
    assert other.status_code == 200
