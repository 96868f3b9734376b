"""Small multiples: the numbers of the series, one scale a section, and what the overlays leave out."""

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
    answer = client.get(f"{PANELS}?{query}")
    assert answer.status_code == 200, answer.content[:500]
    return {one["name"]: one for one in answer.json()["panels"]}


def line_of(panel: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in panel["data"] if one.get("meta", {}).get("read"))
    return found


def test_each_panel_is_valid_for_plotly_with_the_numbers_of_its_days(eva: Client) -> None:
    panels = panels_of(eva, "view=raw")
    assert set(panels) == {"atlas", "biomed", "cms"}
    for panel in panels.values():
        go.Figure(colored(panel["data"]), colored(panel["layout"]))
    assert line_of(panels["atlas"])["y"][-1] == round(99000 / 1290, 2)
    assert line_of(panels["cms"])["y"][-1] == 0


def test_a_section_has_one_scale_and_the_newest_snapshot_is_inside_it(eva: Client) -> None:
    panels = panels_of(eva)
    tops = {tuple(panel["layout"]["yaxis"]["range"]) for panel in panels.values()}
    assert len(tops) == 1
    top = tops.pop()[1]
    assert all(value <= top for panel in panels.values() for value in line_of(panel)["y"])
    assert {line_of(panel)["x"][-1] for panel in panels.values()} == {"2026-11-20"}


def test_overlays_hidden_on_the_page_are_hidden_in_figures(eva: Client) -> None:
    usual, bare = panels_of(eva, "view=raw"), panels_of(eva, "view=raw&overlay=none")
    for name, kind in (("cms", "fillpattern"), ("atlas", "fillcolor")):
        assert [one for one in usual[name]["data"] if kind in one]
        assert not [one for one in bare[name]["data"] if kind in one]
    assert usual["atlas"]["marks"]
    assert not bare["atlas"]["marks"]
    waits = [one for one in usual["biomed"]["data"] if one.get("line", {}).get("width") == 4]
    assert [one["x"] for one in waits] == [["2026-11-16", "2026-11-19"]]


def test_a_page_after_the_last_is_empty_and_unknown_figures_are_not_found(eva: Client) -> None:
    assert panels_of(eva, "page=2") == {}
    assert eva.get(PANELS.replace("panels", "tea")).status_code == 404
    assert eva.get(f"{PANELS}?days=8").status_code == 422


def test_the_csv_has_every_subgroup(eva: Client) -> None:
    lines = b"".join(eva.get(f"{PANELS}.csv?days=7")).decode().splitlines()
    assert len(lines) == 9
    assert lines[0].count("actual") == 3


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
    cells = answer["data"][0]
    assert len(cells["x"]) == DAYS
    assert set(cells["y"]) == {"atlas", "biomed", "cms"}
    at = {name: row for name, row in zip(cells["y"], cells["z"], strict=True)}
    assert at["cms"][0] == 3.5, "no demand is no state of balance"
    assert at["atlas"][-1] == 6.5, "16.7 points over"
    assert at["biomed"][-1] == 1.5, "6.7 points under"
    go.Figure(colored(answer["data"]), colored(answer["layout"]))
    lines = b"".join(eva.get(PANELS.replace("panels", "heat.csv") + "?view=raw")).decode().splitlines()
    assert [line.split(",")[0].strip('"') for line in lines[1:]] == cells["y"][::-1]


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
