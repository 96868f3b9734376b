"""Which allocation continues where another one ends, beside a search through all of them."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.allocations.summary import Successors
from apps.policies.models import Allocation
from tests.call_counts import count_calls

FIRST = date(2026, 1, 1)
ROW = st.tuples(st.integers(0, 12), st.integers(0, 6), st.sampled_from(["core-h", "GPU-h"]))


def made(rows: list[tuple[int, int, str]]) -> list[Allocation]:
    days = [(FIRST + timedelta(days=begin), FIRST + timedelta(days=begin + length)) for begin, length, _ in rows]
    return [
        Allocation(pk=n, starts_on=first, ends_on=last, unit=unit, amount=1.0)
        for n, ((first, last), (_, _, unit)) in enumerate(zip(days, rows, strict=True))
    ]


@given(st.lists(ROW, min_size=1, max_size=12))
def test_it_is_the_first_that_ends_later_and_leaves_no_gap(rows: list[tuple[int, int, str]]) -> None:
    allocations = made(rows)
    successors = Successors(reversed(allocations))
    for each in allocations:
        following = [
            other
            for other in allocations
            if other.unit == each.unit and other.ends_on > each.ends_on and (other.starts_on - each.ends_on).days <= 1
        ]
        first = min(following, key=lambda other: (other.starts_on, other.pk), default=None)
        assert successors.of(each) is first


def test_ten_times_as_many_cost_about_ten_times_as_much() -> None:
    def calls(n: int) -> int:
        allocations = made([(day, 0, "core-h") for day in range(n)])

        def work() -> None:
            successors = Successors(allocations)
            for each in allocations:
                successors.of(each)

        return count_calls(work)[1]

    assert calls(5_000) < 12 * calls(500)
