"""Small multiples: the numbers of the series at each stop of the cursor, and one scale a section."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.core import clock
from apps.pages.convergence.figures.labels import mark_of
from apps.pages.convergence.figures.tiles import balance_text
from apps.priorities.level_facts import IDLE_STATES
from apps.web.figures.used_and_target import short_balance, used_text
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page
from tests.series_by_hand import HandMade, put_in_place

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


def test_a_heat_map_has_a_cell_for_each_entry_and_day(eva: Client, open_grid: Grid) -> None:
    answer = eva.get(PANELS.replace("panels", "heat") + "?days=365&view=raw").json()
    rows = [one["name"] for one in answer["rows"]]
    assert set(rows) == {"atlas", "biomed", "cms"}
    picture = Page(answer["svg"])
    cells = {
        (int(float(x)), int(float(y))): str(path.attributes["class"]).removeprefix("cell ")
        for path in picture.all(".heat-cells path")
        for x, y in re.findall(r"M([\d.]+) ([\d.]+)", str(path.attributes["d"]))
    }
    assert len(cells) == 3 * DAYS
    assert cells[0, rows.index("cms")] == "idle", "no demand is no state of balance"
    assert cells[DAYS - 1, rows.index("atlas")] == "ice-o3", "16.7 points over"
    assert cells[DAYS - 1, rows.index("biomed")] == "ice-u2", "6.7 points under"
    assert [len(one["reads"]) for one in answer["rows"]] == [DAYS] * 3
    assert (len(answer["axis"]["stops"]), answer["axis"]["resting"]) == (DAYS, DAYS - 1)
    over_time = eva.get(PANELS.replace("panels", "over-time") + "?range=all&view=raw").json()["axis"]
    assert answer["axis"]["stops"] == over_time["stops"], "one cursor for both"
    lines = b"".join(eva.get(PANELS.replace("panels", "heat.csv") + "?view=raw")).decode().splitlines()
    assert [line.split(",")[0].strip('"') for line in lines[1:]] == rows


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


@pytest.mark.parametrize("state", IDLE_STATES)
def test_a_day_without_demand_has_the_same_word_on_tiles_in_read_outs_and_in_the_heat_map(state: str) -> None:
    shape, amount, word = balance_text(state, 0.05, 0.1)
    assert (shape, amount, word) == ("idle", "", "no demand")
    assert used_text(0.05, 0.1, state, 0.0) == f"used 5.0\u00a0%, target 10.0\u00a0%, {word}"
    assert short_balance(0.05, 0.1, state) == f"◌ {word}"
    assert mark_of(state, -0.05) == "$line-strong"
