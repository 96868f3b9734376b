"""Sums of hours in pieces: they cover what is asked for, and are as few as months and days allow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apps.usage.account_sums import _Rows, _sum_cells, first_full_hour, split_into_spans
from apps.usage.changed_hours import _is_continued

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOURS = st.integers(-1_000_000, 1_000_000)


def at(hour: int) -> datetime:
    return EPOCH + timedelta(hours=hour)


@given(HOURS, st.integers(0, 30_000))
def test_periods_are_split_into_whole_months_days_and_partial_days(first: int, n: int) -> None:
    found = split_into_spans(first, first + n)
    assert [begin for begin, _end in found] == ([first, *(end for _begin, end in found[:-1])] if n else [])
    assert (found[-1][1] if n else first) == first + n
    issues = 0
    for begin, end in found:
        whole_month = at(begin).day == 1 and at(begin).hour == 0 and at(end).day == 1 and at(end).hour == 0
        whole_day = at(begin).hour == 0 and end - begin == 24
        assert end > begin
        assert (whole_month and end - begin <= 31 * 24) or whole_day or at(begin).date() == at(end - 1).date()
        issues += not (whole_month or whole_day)
    assert issues <= 2, "the hours at both ends"
    months = {(at(begin).year, at(begin).month) for begin, end in found if end - begin > 24}
    whole = {(day.year, day.month) for day in map(at, range(first, first + n)) if (day.day, day.hour) == (1, 0)}
    assert len(whole - months) <= 1, "a month that lies whole in it is one piece; the last one may not"


@given(HOURS, st.integers(0, 3_599_999_999))
def test_the_first_whole_hour_begins_at_the_instant_or_later(hour: int, us: int) -> None:
    assert first_full_hour(at(hour)) == hour
    assert first_full_hour(at(hour) + timedelta(microseconds=us)) == hour + (us > 0)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(5, 8), st.integers(-50, 50), st.integers(0, 2**20))))
def test_sums_of_few_and_scattered_accounts_equal_a_dictionary(
    rows: list[tuple[int, int, int, int]],
) -> None:
    for spread in (1, 10**9):  # counted in cells, or sorted
        by_hand: dict[tuple[int, int], float] = {}
        first: dict[int, int] = {}
        for account, source, hour, quanta in rows:
            key = (account * spread, source)
            by_hand[key] = by_hand.get(key, 0.0) + quanta / 1024
            first[source] = min(hour, first.get(source, hour))
        columns = [np.array([row[n] for row in rows], np.int64) for n in range(4)]
        none, amounts = np.zeros(0, np.int64), (columns[3] / 1024)[None]
        piece = _sum_cells(_Rows(columns[0] * spread, columns[1], columns[2] * 3_600_000_000, none, amounts))
        keys = zip(piece.account_id.tolist(), piece.source_id.tolist(), strict=True)
        sums = dict(zip(keys, piece.amounts[0].tolist(), strict=True))
        assert sums == {key: value for key, value in by_hand.items() if value or key in sums}
        assert dict(zip(piece.first_sources.tolist(), piece.first_hours.tolist(), strict=True)) == first


def test_kept_sums_are_used_while_the_watermark_of_the_same_source_grows() -> None:
    before = {"fram": (1, 10), "saga": (2, 10)}
    assert _is_continued(before, {"fram": (1, 10), "saga": (2, 11), "new": (3, 0)})
    assert _is_continued(before, {"fram": (1, 10)})  # a source that is gone counts no longer
    assert not _is_continued(before, {"fram": (1, 9), "saga": (2, 10)})  # a database from a backup
    assert not _is_continued(before, {"fram": (4, 99), "saga": (2, 10)})  # another source of this name
