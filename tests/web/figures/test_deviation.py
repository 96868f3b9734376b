"""The deviation by day: a gap stays a gap, publications are marked, and too little is not drawn."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from apps.web.figures import Figure
from apps.web.figures.deviation import DeviationDay, deviation_figure
from tests.web.figures.schema import check_schema

FIRST = date(2026, 11, 1)


def drawn(*deviations: float | None, revisions: tuple[int, ...] = (), sees_part: bool = False) -> Figure:
    numbers = revisions or (1,) * len(deviations)
    days = [
        DeviationDay(FIRST + timedelta(n), value, number, 3)
        for n, (value, number) in enumerate(zip(deviations, numbers, strict=True))
    ]
    return deviation_figure(
        days, policy="grid", sees_part=sees_part, why_empty="Too few days.", revision_url=lambda number: f"?to={number}"
    )


def test_the_line_is_in_points_and_ends_at_the_last_known_day() -> None:
    found = drawn(0.082, None, 0.0104, None)
    check_schema(found)
    line, dot = found.traces
    assert line["y"] == [8.2, None, 1.04, None]
    assert line["connectgaps"] is False
    assert (dot["x"], dot["y"]) == (["2026-11-03"], [1.04])
    assert [label.text for label in found.labels] == ["1.0 point"]
    assert "from 8.2 to 1.0 points" in found.sentence
    assert "visible to you" in drawn(0.1, 0.2, sees_part=True).sentence


def test_days_on_which_the_revision_changed_are_marked() -> None:
    marks = drawn(0.1, 0.1, 0.1, 0.1, revisions=(1, 1, 2, 4)).marks
    assert [(mark.at, mark.label, mark.url) for mark in marks] == [
        ("2026-11-03", "Rev 2", "?to=2"),
        ("2026-11-04", "Rev 4", "?to=4"),
    ]


@pytest.mark.parametrize("deviations", [(), (0.1,), (None, None), (None, 0.1, None)])
def test_a_line_needs_two_known_days(deviations: tuple[float | None, ...]) -> None:
    found = drawn(*deviations)
    assert (found.empty, list(found.traces)) == ("Too few days.", [])
    assert len(found.table.raw) == len(deviations)


def test_the_csv_has_unrounded_points() -> None:
    found = drawn(0.0123456, None)
    assert found.table.csv_header == ("day", "revision", "share_weighted_deviation_points", "entries_compared")
    assert drawn(0.0123456, None).table.raw == [["2026-11-01", 1, 0.0123456 * 100, 3], ["2026-11-02", 1, "", 3]]


def test_hours_of_the_first_day_say_that_they_are_hours() -> None:
    begin = datetime(2026, 11, 1, 6, tzinfo=UTC)
    hours = [DeviationDay(begin + timedelta(hours=n), value, 1, 3) for n, value in enumerate((0.2, None, 0.1))]
    found = deviation_figure(hours, policy="grid", sees_part=False, why_empty="", revision_url=str)
    check_schema(found)
    assert found.traces[0]["x"] == ["2026-11-01 06:00", "2026-11-01 07:00", "2026-11-01 08:00"]
    assert found.layout["xaxis"]["tickformat"] == "%H:%M"
    assert found.table.csv_header[0] == "hour"
    assert found.table.raw[2][0] == "2026-11-01T08:00:00+00:00"
    assert "complete hours" in found.sentence
