"""Figures of core-hours: stacked weeks hold the amounts they were given; what is left agrees with the allocation."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.http import QueryDict

from apps.contrib.allocations.core_hour_weeks import AllocationLeft, CoreHourWeeks, WeekAmounts
from apps.contrib.allocations.figures.by_name import draw_core_hour_figure
from apps.contrib.allocations.periods import Period
from apps.core.errors import Invalid, NotFound
from apps.web.figures import Figure
from tests.web.figures.schema import check_schema

JANUARY = Period(date(2026, 1, 1), date(2026, 1, 31))
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
EDGES = (BEGIN, datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 12, tzinfo=UTC), datetime(2026, 1, 14, tzinfo=UTC))


def left(name: str, core_h: float, *values: float, number: int = 1, days: Period = JANUARY) -> AllocationLeft:
    due = core_h * (EDGES[-1] - BEGIN) / timedelta(days=days.n_days)
    return AllocationLeft(UUID(int=number), name, (1, number - 1), days, core_h, due, EDGES, (core_h, *values))


def weeks(**changes: Any) -> CoreHourWeeks:
    usual: dict[str, Any] = {
        "policy_slug": "grid",
        "name": "physics",
        "period": JANUARY,
        "zone": ZoneInfo("UTC"),
        "now": EDGES[-1],
        "edges": EDGES,
        "entries": (WeekAmounts("a", "alice", 0, (1.0, 0.0, 3.0)), WeekAmounts("b", "bob", 9, (10.0, 20.0, 0.75))),
        "rest": WeekAmounts("rest", "all other usage of physics", 8, (0.0, 0.25, 0.0)),
        "sites": (WeekAmounts("here", "Here", 0, (11.0, 20.25, 3.75)),),
        "n_hidden": 0,
        "allocations_left": (left("alice", 100.0, 90.0, 60.0, 40.0),),
        "n_allocations": 1,
    }
    return CoreHourWeeks(**usual | changes)


def figure(name: str, query: str = "", **changes: Any) -> Figure:
    return draw_core_hour_figure(name, weeks(**changes), QueryDict(query))


@pytest.mark.parametrize(
    ("name", "query"),
    [("usage", ""), ("usage", "usage_by=site"), ("usage", "usage_unit=percent&usage_hide=b"), ("burn-down", "")],
)
def test_figures_are_valid_for_plotly_and_drawn_by_the_server(name: str, query: str) -> None:
    found = figure(name, query)
    check_schema(found)


def test_bars_and_table_show_the_core_hours_of_each_week() -> None:
    found = figure("usage")
    assert [(trace["name"], trace["y"]) for trace in found.traces] == [
        ("bob", [10.0, 20.0, 0.75]),
        ("alice", [1.0, 0.0, 3.0]),
        ("all other usage of physics", [0.0, 0.25, 0.0]),
    ]
    assert found.traces[0]["x"] == ["2025-12-29", "2026-01-05", "2026-01-12"]
    assert found.table.raw == [
        ["2026-01-12", 0.75, 3.0, 0.0, 3.75],
        ["2026-01-05", 20.0, 0.0, 0.25, 20.25],
        ["2026-01-01", 10.0, 1.0, 0.0, 11.0],
    ]
    assert re.findall(r"[\d.]+", found.sentence)[:4] == ["31", "35", "3", "87.9"]
    assert found.sentence.startswith("bob")


def test_the_largest_remainder_is_never_the_finding() -> None:
    rest = WeekAmounts("rest", "all other usage of physics", 8, (90.0, 90.0, 90.0))
    assert figure("usage", rest=rest).sentence.startswith("bob used the most: 31")
    alone = figure("usage", entries=(), rest=rest)
    assert alone.sentence.startswith("all other usage of physics used the most: 270")


def test_percentages_refer_to_the_shown_amounts() -> None:
    found = figure("usage", "usage_unit=percent&usage_hide=rest")
    assert [sum(week) for week in zip(*(trace["y"] for trace in found.traces), strict=True)] == pytest.approx([100] * 3)
    assert found.traces[1]["y"][0] == pytest.approx(100 / 11, abs=0.005)


def test_a_series_keeps_its_colour_when_others_are_hidden() -> None:
    both, alone = figure("usage"), figure("usage", "usage_hide=a&usage_hide=rest")
    assert [trace["name"] for trace in alone.traces] == ["bob"]
    colors = {trace["name"]: trace["marker"]["color"] for trace in both.traces}
    assert len(set(colors.values())) == 3
    assert alone.traces[0]["marker"]["color"] == colors["bob"]
    chips = {choice.key: choice for choice in alone.controls[2].choices}
    assert chips["usage_hide-a"].query == "usage_hide=rest"
    assert not chips["usage_hide-a"].is_chosen
    assert chips["usage_hide-b"].query == "", "hiding the last one shows all"


def test_entries_without_amounts_are_counted_and_nothing_else() -> None:
    found = figure("usage", entries=(WeekAmounts("a", "alice", 0, (1.0, 0.0, 3.0)),), rest=None, n_hidden=2)
    assert "2 more entries" in found.sentence
    assert [column.title for column in found.table.columns[1:]] == ["alice", "Sum"]
    nothing = figure("usage", entries=(), rest=None, n_hidden=2)
    assert "2 more entries" in nothing.empty
    assert not nothing.traces
    assert figure("usage", entries=(), rest=None, sites=(), edges=()).empty == "This period has not started."


def test_remaining_hours_are_in_percent_of_the_allocation_with_the_pace() -> None:
    found = figure("burn-down")
    pace, alice = found.traces
    assert alice["y"] == [100.0, 90.0, 60.0, 40.0]
    assert pace["y"] == [100, 0]
    assert pace["x"] == ["2026-01-01 00:00", "2026-02-01 00:00"]
    assert [row[1] for row in found.table.raw] == [40.0, 60.0, 90.0, 100.0]
    # 60 of 100 in 13 days: the remainder ends after 21.67 days, in the 22nd of January, 9 days before the 31st.
    assert "40 of 100 core-hours left" in found.sentence
    assert "22 Jan 2026, 9 days early" in found.sentence


def test_usage_above_the_allocation_is_shaded() -> None:
    found = figure("burn-down", allocations_left=(left("alice", 100.0, 90.0, 60.0, -4.0),))
    check_schema(found)
    assert found.sentence == "alice used 4.0 core-hours more than the 100 allocated, 4.0\u00a0% over."
    assert found.layout["yaxis"]["range"][0] < -4
    assert found.layout["shapes"][-1]["y1"] == 0
    assert found.labels[0].text.startswith("alice 4 ")


def test_allocations_of_other_days_have_no_common_pace() -> None:
    later = left("bob", 50.0, 50.0, 45.0, 44.0, number=2, days=Period(date(2026, 1, 1), date(2026, 2, 28)))
    found = figure("burn-down", allocations_left=(left("alice", 100.0, 90.0, 60.0, 58.0), later), n_allocations=2)
    assert [trace["name"] for trace in found.traces] == ["alice", "bob"]
    hidden = figure(
        "burn-down", f"left_hide={later.uid}", allocations_left=(left("alice", 100.0, 9.0, 6.0, 5.0), later)
    )
    assert [trace.get("name") for trace in hidden.traces] == [None, "alice"]
    assert figure("burn-down", allocations_left=(), n_allocations=0).empty


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("usage_by=queue", "usage_by"),
        ("usage_unit=furlong", "usage_unit"),
        ("&".join(f"usage_hide={n}" for n in range(900)), "usage_hide"),
    ],
)
def test_invalid_figure_parameters_are_refused_by_name(query: str, where: str) -> None:
    with pytest.raises(Invalid) as caught:
        draw_core_hour_figure("usage", weeks(), QueryDict(query))
    assert [problem.where for problem in caught.value.fields] == [where]


def test_an_entry_has_the_same_colour_in_both_figures() -> None:
    usage, left_of = (
        figure("usage"),
        figure("burn-down", allocations_left=(left("bob", 9.0, 8.0, 7.0, 6.0, number=10),)),
    )
    colors = {trace["name"]: trace["marker"]["color"].partition("/")[0] for trace in usage.traces}
    assert left_of.traces[1]["line"]["color"] == colors["bob"]


def test_an_unknown_figure_is_404() -> None:
    with pytest.raises(NotFound):
        figure("pie")
