"""Time axes: days are days, and clock times are in the zone of the page and name it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest
from django.utils import timezone

from apps.web.figures import axes

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def stockholm() -> Iterator[None]:
    with timezone.override("Europe/Stockholm"):
        yield


def test_hours_of_a_few_days_name_their_zone_at_the_last_tick_and_in_the_read_out() -> None:
    axis = axes.day_axis(NOON - timedelta(hours=24), NOON)
    assert axis["range"] == ["2026-11-19 13:00", "2026-11-20 14:00"]
    assert axis["tickformat"] == "%H:%M"
    assert (axis["ticksuffix"], axis["showticksuffix"]) == ("\u00a0CET", "last")
    assert axis["unifiedhovertitle"]["text"] == "%{x|%a %-d %b %Y, %H:%M}\u00a0CET"


def test_hours_of_many_days_have_days_as_ticks_and_the_zone_in_the_read_out() -> None:
    axis = axes.day_axis(NOON - timedelta(days=7), NOON)
    assert axis["tickformat"] == "%-d %b"
    assert "ticksuffix" not in axis
    assert axis["unifiedhovertitle"]["text"].endswith("%H:%M}\u00a0CET")


def test_days_have_no_zone() -> None:
    axis = axes.day_axis(date(2026, 11, 1), date(2026, 11, 20))
    assert axis["range"] == ["2026-11-01", "2026-11-21"]
    assert not {"ticksuffix", "unifiedhovertitle"} & set(axis)


def test_both_zones_are_named_where_clocks_are_put_back() -> None:
    autumn = datetime(2026, 10, 25, 12, tzinfo=UTC)
    assert axes.zone_text(autumn - timedelta(hours=24), autumn) == "CEST/CET"


@pytest.mark.parametrize("at", [NOON, NOON.astimezone(timezone.get_fixed_timezone(-300))])
def test_an_instant_is_drawn_in_the_zone_of_the_page_wherever_it_comes_from(at: datetime) -> None:
    assert axes.moment(at) == "2026-11-20 13:00"
    assert axes.moment(date(2026, 11, 20)) == "2026-11-20"
