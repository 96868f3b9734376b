"""Months as pages name them."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import Invalid
from apps.series.months import Month, month_of, read_month

DATES = st.dates(date(1971, 2, 1), date(2199, 12, 31))


@given(DATES)
def test_a_month_has_the_days_of_the_calendar(on: date) -> None:
    month = month_of(on)
    n_days = monthrange(on.year, on.month)[1]
    assert (month.first_on, month.last_on, month.n_days) == (
        date(on.year, on.month, 1),
        date(on.year, on.month, n_days),
        n_days,
    )
    assert month.text == on.isoformat()[:7]
    assert on in month
    assert month.first_on in month
    assert month.last_on in month
    assert month.first_on - timedelta(days=1) not in month
    assert month.last_on + timedelta(days=1) not in month


@given(DATES, st.integers(0, 12))
def test_months_before_one_are_counted_back_over_new_year(on: date, n: int) -> None:
    month = month_of(on)
    for _ in range(n):
        month = month_of(month.first_on - timedelta(days=1))
    assert month_of(on).before(n) == month
    assert month_of(on).before() == month_of(date(on.year, on.month, 1) - timedelta(days=1))


def test_a_month_is_read_from_1970_to_the_current_one() -> None:
    today = date(2026, 11, 20)
    assert read_month("2026-11", today) == Month(date(2026, 11, 1))
    assert read_month("1970-01", today) == Month(date(1970, 1, 1))
    for text in ("2026-12", "1969-12", "2026-13", "2026-1", "2026-011", "", "november", "26-11-1"):
        with pytest.raises(Invalid) as refused:
            read_month(text, today)
        assert refused.value.message == "month is a month from 1970-01 to 2026-11, such as 2026-10."
        assert [field.where for field in refused.value.fields] == ["month"]
