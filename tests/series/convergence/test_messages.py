"""Values of messages about a course, as they are written."""

from __future__ import annotations

from datetime import UTC, date, datetime

from apps.priorities.sentences.numbers import count
from apps.series.convergence.messages import build_sentence


def test_a_day_is_a_date_and_an_hour_has_its_time() -> None:
    on, at = date(2026, 11, 20), datetime(2026, 11, 20, 6, 30, tzinfo=UTC)
    day, hour = build_sentence("local_only_above", since=on), build_sentence("local_only_above", since=at)
    assert "20 Nov 2026" in day.text
    assert "06:30" not in day.text
    assert "20 Nov 2026, 06:30" in hour.text
    assert (day.json()["values"], hour.json()["values"]) == ({"since": on.isoformat()}, {"since": at.isoformat()})


def test_numbers_are_rounded_to_one_place_and_counts_are_whole() -> None:
    steady = build_sentence("one_steady", name="physics", points=12.345, side="above")
    assert steady.text == "physics stays 12.3 points above its target."
    assert build_sentence("starved_hours", name="physics", n=1).text.endswith("for 1 hour.")
    assert f"for {count(1234)} hours." in build_sentence("starved_hours", name="physics", n=1234).text
