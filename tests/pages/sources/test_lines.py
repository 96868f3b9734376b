"""What a page says about a source."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

import pytest

from apps.pages.sources.presenters import coverage_label, day_table, figures, gaps, headline, what_is_late
from apps.usage.models import Source
from apps.usage.quality.coverage import Coverage, Day
from apps.web.svg.strips import NARROW, WIDE
from apps.web.texts.source_lines import SourceLine, source_line

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)


def line(name: str = "sacct", *, lag_s: float | None = 120, every_s: int | None = 300) -> SourceLine:
    """Its last contact; its newest record is a month old, as on an idle cluster."""
    last, idle = None if lag_s is None else NOW - timedelta(seconds=lag_s), NOW - timedelta(days=30)
    source = Source(
        slug=name,
        name=name,
        namespace="abisko",
        expected_every_s=every_s,
        last_received_at=last,
        last_record_end_at=idle,
        created_at=NOW,
    )
    return source_line(source, NOW, n_rejected=0, unmapped=None)


@pytest.mark.parametrize(
    ("lag_s", "every_s", "state", "lag"),
    [
        (120, 300, "on_time", ["2\u00a0min", "5\u00a0min"]),
        (600, 300, "on_time", ["10\u00a0min", "5\u00a0min"]),
        (601, 300, "late", ["10\u00a0min", "5\u00a0min"]),
        (9 * 3600, 3600, "late", ["9\u00a0h", "1\u00a0h"]),
        (9 * 60, 3600, "on_time", ["9\u00a0min", "1\u00a0h"]),
        (9 * 60, None, "by_hand", ["9\u00a0min"]),
        (None, 300, "no_contact", []),
    ],
)
def test_lag_is_shown_against_the_expected_interval(
    lag_s: float | None, every_s: int | None, state: str, lag: list[str]
) -> None:
    found = line(lag_s=lag_s, every_s=every_s)
    assert (str(found.state), re.findall(r"\d+(?:\u00a0\w+)?", found.lag)) == (state, lag)


def test_every_state_of_a_source_has_its_own_text() -> None:
    lines = [line(lag_s=lag_s) for lag_s in (None, 120, 601)] + [line(every_s=None)]
    assert len({each.state for each in lines}) == len({each.state_text for each in lines}) == 4


def test_ticks_of_the_interval_are_aligned_and_long_lags_are_clipped() -> None:
    meters = [line(lag_s=lag_s).meter for lag_s in (0, 300, 600, 86400)]
    assert [(meter.bar, meter.is_late) for meter in meters if meter] == [
        ("1.5", False),
        ("24.0", False),
        ("48.0", False),
        ("74.0", True),
    ]


@pytest.mark.parametrize(
    ("lags", "expected"),
    [
        ([], ("none", 0, 0)),
        ([60], ("on_time", 1, 1)),
        ([60, 60], ("on_time", 2, 2)),
        ([3000], ("late", 1, 1)),
        ([3000, 60], ("late", 1, 2)),
        ([3000, 3000, 60], ("late", 2, 3)),
    ],
)
def test_the_headline_is_a_verdict(lags: list[float], expected: tuple[str, int, int]) -> None:
    found = headline([line(f"s{n}", lag_s=lag) for n, lag in enumerate(lags)])
    assert (found.key, found.n, found.of) == expected
    if found.of > 1:
        assert str(found.n) in found.text
        assert str(found.of) in found.text


def test_sources_without_an_interval_are_not_on_time() -> None:
    by_hand = line(every_s=None)
    alone, beside, timed = (headline(lines) for lines in ([by_hand], [by_hand, line()], [line()]))
    assert (alone.key, alone.n, alone.of) == ("by_hand", 1, 1)
    assert (beside.key, beside.n, beside.of) == ("on_time_in_part", 1, 2)
    assert len({alone.text, beside.text, timed.text}) == 3


def test_the_longest_lag_is_listed_first() -> None:
    sentences = what_is_late([line("slow", lag_s=700), line("mute", lag_s=9 * 3600), line("fine")], NOW)
    assert len(sentences) == 2
    for sentence, named in zip(sentences, [("mute", "9\u00a0h"), ("slow", "11\u00a0min")], strict=True):
        assert [each for each in named if each not in sentence] == []


def _days(*states: Coverage) -> list[Day]:
    start = date(2026, 3, 1)
    return [Day(start + timedelta(days=n), 5, 19, state) for n, state in enumerate(states)]


def test_gaps_are_described_in_text_and_as_a_table() -> None:
    rows = [("nsc", _days(Coverage.FULL, Coverage.HOLE, Coverage.PART)), ("pdc", _days(Coverage.FULL))]
    assert gaps(rows) == ["nsc: 2 Mar"]
    label = coverage_label(rows, 60)
    assert re.findall(r"\d+", label) == ["60", "2"]
    assert "nsc: 2 Mar" in label
    first = day_table(rows)[0]
    assert (first.full, first.part, first.hole) == (1, 1, 1)
    assert re.findall(r"\d+ \w+", first.incomplete) == ["2 Mar", "3 Mar", "19 h"]


def test_the_strip_fits_its_box_at_both_widths() -> None:
    rows = [(f"source number {n} with a long name", _days(*[Coverage.FULL] * 60)) for n in range(3)]
    for figure, width, n_days in zip(figures(rows), (WIDE, NARROW), (60, 28), strict=True):
        assert [len(strip.cells) for strip in figure.strips] == [n_days] * 3
        last = float(figure.strips[0].cells[-1].x) + float(figure.cell_width)
        assert width - 2.1 <= last <= width, "days are 2 px apart"
        assert figure.strips[-1].y + 18 <= figure.height
        assert all(len(strip.name) <= 22 for strip in figure.strips)
        assert all(float(x) < width - 30 for x, _text in figure.ticks)


def test_a_single_source_takes_the_whole_width() -> None:
    wide, _narrow = figures([("sacct", _days(*[Coverage.FULL] * 60))])
    assert wide.strips[0].cells[0].x == "0"
    assert wide.strips[0].name == ""
