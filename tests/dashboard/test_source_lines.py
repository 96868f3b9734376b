"""What a page says about a source."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from apps.dashboard.figures.coverage import NARROW, WIDE
from apps.dashboard.source_lines import (
    SourceLine,
    coverage_label,
    day_table,
    figures,
    gaps,
    headline,
    source_line,
    what_is_late,
)
from apps.usage.coverage import Coverage, Day
from apps.usage.models import Source

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)


def line(name: str = "sacct", *, lag_s: float | None = 120, every_s: int | None = 300) -> SourceLine:
    last = None if lag_s is None else NOW - timedelta(seconds=lag_s)
    source = Source(
        slug=name, name=name, namespace="abisko", expected_every_s=every_s, last_record_end_at=last, created_at=NOW
    )
    return source_line(source, NOW, n_rejected=0, unmapped=None)


@pytest.mark.parametrize(
    ("lag_s", "every_s", "state", "words", "lag"),
    [
        (120, 300, "on_time", "on time", "2 of 5\u00a0min"),
        (300, 300, "on_time", "on time", "5 of 5\u00a0min"),
        (301, 300, "late", "late", "5 of 5\u00a0min"),
        (899, 300, "late", "late", "14 of 5\u00a0min"),
        (900, 300, "silent", "silent", "15 of 5\u00a0min"),
        (9 * 3600, 3600, "silent", "silent", "9 of 1\u00a0h"),
        (9 * 60, 3600, "on_time", "on time", "9\u00a0min of 1\u00a0h"),
        (9 * 60, None, "by_hand", "by hand", "no rhythm"),
        (None, 300, "empty", "no records yet", "–"),
    ],
)
def test_lag_is_said_against_the_expected_interval(
    lag_s: float | None, every_s: int | None, state: str, words: str, lag: str
) -> None:
    found = line(lag_s=lag_s, every_s=every_s)
    assert (str(found.state), found.state_words, found.lag) == (state, words, lag)


def test_the_tick_of_the_expected_interval_stands_in_one_line_and_long_silence_is_clipped() -> None:
    meters = [line(lag_s=lag_s).meter for lag_s in (0, 150, 300, 86400)]
    assert [(meter.bar, meter.is_late) for meter in meters if meter] == [
        ("1.5", False),
        ("24.0", False),
        ("48.0", False),
        ("74.0", True),
    ]


@pytest.mark.parametrize(
    ("lags", "expected"),
    [
        ([], "No usage sources yet"),
        ([60], "The source is on time"),
        ([60, 60], "All 2 sources are on time"),
        ([3000], "The source is late"),
        ([3000, 60], "1 of 2 sources is late"),
        ([3000, 3000, 60], "2 of 3 sources are late"),
    ],
)
def test_the_headline_is_a_verdict(lags: list[float], expected: str) -> None:
    assert headline([line(f"s{n}", lag_s=lag) for n, lag in enumerate(lags)]) == expected


def test_sources_without_a_rhythm_are_not_called_on_time() -> None:
    by_hand = line(every_s=None)
    assert headline([by_hand]) == "1 source, filled by hand"
    assert headline([by_hand, line()]) == "1 source is on time, others by hand"


def test_the_longest_silence_is_named_first() -> None:
    sentences = what_is_late([line("late", lag_s=400), line("mute", lag_s=9 * 3600), line("fine")], NOW)
    assert sentences == ["mute has been silent for 9\u00a0h.", "late sent its last record 6\u00a0min ago."]


def _days(*states: Coverage) -> list[Day]:
    start = date(2026, 3, 1)
    return [Day(start + timedelta(days=n), 5, 19, state) for n, state in enumerate(states)]


def test_holes_are_told_in_words_and_as_a_table() -> None:
    rows = [("nsc", _days(Coverage.FULL, Coverage.HOLE, Coverage.PART)), ("pdc", _days(Coverage.FULL))]
    assert gaps(rows) == ["nsc: 2 Mar"]
    assert coverage_label(rows, 60) == "Coverage of 2 sources over 60 days. Days without usage: nsc: 2 Mar."
    first = day_table(rows)[0]
    assert (first.full, first.part, first.hole, first.odd) == (1, 1, 1, "2 Mar (none), 3 Mar (19 h missing)")


def test_the_strip_fits_into_its_box_at_both_widths() -> None:
    rows = [(f"source number {n} with a long name", _days(*[Coverage.FULL] * 60)) for n in range(3)]
    for figure, width, n_days in zip(figures(rows), (WIDE, NARROW), (60, 28), strict=True):
        assert [len(strip.cells) for strip in figure.strips] == [n_days] * 3
        last = float(figure.strips[0].cells[-1].x) + float(figure.cell_width)
        assert last <= width
        assert figure.strips[-1].y + 18 <= figure.height
        assert all(len(strip.name) <= 22 for strip in figure.strips)
        assert all(float(x) < width - 30 for x, _text in figure.ticks)


def test_one_source_alone_takes_the_whole_width() -> None:
    wide, _narrow = figures([("sacct", _days(*[Coverage.FULL] * 60))])
    assert wide.strips[0].cells[0].x == "0"
    assert wide.strips[0].name == ""
