"""The coverage calendar: a cell a day and source, the source with most gaps first, and every day in words."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from django.http import QueryDict

from apps.core.errors import Invalid
from apps.pages.sources.figures import coverage_figure
from apps.usage.quality.coverage import Coverage, Day, SourceDays
from apps.web.figures import Figure
from tests.web.figures.schema import check_schema

FIRST = date(2026, 11, 1)
HOURS = {Coverage.FULL: (24, 0), Coverage.PART: (17, 7), Coverage.HOLE: (0, 24), Coverage.OFF: (0, 0)}


def source(name: str, letters: str) -> SourceDays:
    state = {"f": Coverage.FULL, "p": Coverage.PART, "h": Coverage.HOLE, "o": Coverage.OFF}
    days = [Day(FIRST + timedelta(days=at), *HOURS[state[one]], state[one]) for at, one in enumerate(letters)]
    return SourceDays(name, name, days)


def figure(*sources: SourceDays, query: str = "") -> Figure:
    return coverage_figure(sources, QueryDict(query))


GAPS = (source("east", "ffff"), source("north", "phof"))


def test_the_figure_is_valid_for_plotly_with_an_area_for_each_state() -> None:
    found = figure(*GAPS)
    check_schema(found)
    areas = {trace["fillcolor"]: trace for trace in found.traces if "fillcolor" in trace}
    assert set(areas) == {"$level-mark", "$warn-mark", "$surface-3", "$line-strong", "$surface", "rgba(0,0,0,0)"}
    n_boxes = {color: area["x"].count(None) for color, area in areas.items()}
    assert n_boxes["$level-mark"] == 2, "a run of four days, and one day"
    assert n_boxes["$surface"] == 3, "between four days"
    assert areas["rgba(0,0,0,0)"]["line"]["color"] == "$bad", "an outline"
    assert areas["$warn-mark"]["x"][:3] == ["2026-10-31 13:55", "2026-10-31 13:55", "2026-11-01 10:04"]


def test_the_source_with_most_gaps_is_first_and_named() -> None:
    found = figure(*GAPS)
    assert [row[0] for row in found.table.rows] == ["north", "east"]
    assert found.layout["yaxis"]["ticktext"] == ["north", "east"]
    assert found.layout["yaxis"]["tickvals"] == [1, 0]
    assert found.sentence == "north has 2 days with a gap in the last 30, the last on 2 Nov."
    assert [label.text for label in found.labels] == ["1 of 3", "Complete"]
    assert figure(GAPS[0]).sentence == "east has no gaps in the last 30 days."


def test_a_usual_name_is_whole_in_a_wide_window_and_cut_in_its_middle_in_a_narrow_one() -> None:
    narrow = figure(source("turku.example, neutrinos", "ffff"))
    assert narrow.layout["yaxis"]["ticktext"] == ["turku.example, neutrinos"]
    assert narrow.extra["narrow"]["ticktext"] == ["turku.…utrinos"]


def test_every_day_is_in_the_csv_with_a_label() -> None:
    found = figure(*GAPS)
    assert found.table.raw[:2] == [["north", "2026-11-01", 17, 7, "part"], ["north", "2026-11-02", 0, 24, "hole"]]
    assert len(found.table.raw) == 8
    assert next(trace for trace in found.traces if "customdata" in trace)["customdata"] == [
        "7 hours missing",
        "no usage all day",
        "Not due",
        "Complete",
    ]
    assert found.table.rows[0][1:5] == ["1", "1", "1", "1"]


def test_without_sources_a_message_replaces_the_figure() -> None:
    assert figure().empty
    check_schema(figure())


@pytest.mark.parametrize("text", ["61", "1e9", "-1"])
def test_invalid_numbers_of_days_are_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        figure(*GAPS, query=f"coverage_days={text}")
    assert [problem.where for problem in caught.value.fields] == ["coverage_days"]
