"""Waits by row: each number equals a plain count over the jobs, and no row speaks of fewer than five."""

from __future__ import annotations

from math import ceil, floor
from random import Random

import numpy as np
import pytest

from apps.contrib.starts.now.wait_statistics import (
    LEAST_WAIT_JOBS,
    WaitStatistics,
    wait_statistics,
    waits_of,
    withheld_total,
)


def _percentile(waits: list[float], part: float) -> float:
    """Between the two nearest of the sorted waits, by hand."""
    ordered = sorted(waits)
    at = part * (len(ordered) - 1)
    low, high = ordered[floor(at)], ordered[ceil(at)]
    return low + (high - low) * (at - floor(at))


def _by_hand(jobs: list[tuple[int, float, bool]], n_rows: int) -> list[tuple[float | None, ...]]:
    rows: list[tuple[float | None, ...]] = []
    for row in range(n_rows):
        now = [wait for of, wait, is_recent in jobs if of == row and is_recent]
        then = [wait for of, wait, is_recent in jobs if of == row and not is_recent]
        of_now = (len(now), _percentile(now, 0.5), _percentile(now, 0.9)) if len(now) >= 5 else (None, None, None)
        rows.append((*of_now, _percentile(then, 0.5) if len(then) >= 5 else None))
    return rows


@pytest.mark.parametrize("seed", range(40))
def test_each_row_equals_a_count_over_its_jobs(seed: int) -> None:
    rng = Random(seed)
    n_rows = rng.randrange(1, 6)
    jobs = [
        (rng.randrange(-1, n_rows), float(rng.choice((0, 1, 60, rng.randrange(900_000)))), rng.random() < 0.6)
        for _ in range(rng.randrange(60))
    ]
    row = np.array([of for of, _wait, _is in jobs], np.int64)
    wait_s = np.array([wait for _of, wait, _is in jobs], np.float64)
    is_recent = np.array([is_recent for _of, _wait, is_recent in jobs], np.bool_)
    statistics = wait_statistics(row, wait_s, is_recent, n_rows)
    for shown, by_hand in zip(statistics, _by_hand(jobs, n_rows), strict=True):
        for number, expected in zip(shown, by_hand, strict=True):
            assert number == (None if expected is None else pytest.approx(expected, rel=1e-12))


def test_four_jobs_show_nothing_and_five_show_all() -> None:
    row, recent = np.zeros(9, np.int64), np.array([True] * 5 + [False] * 4)
    five = wait_statistics(row, np.arange(9.0), recent, 1)[0]
    assert five._replace(p90_s=None) == WaitStatistics(5, 2.0, None, None)
    assert five.p90_s == pytest.approx(3.6)
    assert five.trend_s is None
    four = wait_statistics(row[1:], np.arange(8.0), recent[1:], 1)[0]
    assert four == WaitStatistics(None, None, None, None)


def test_the_trend_is_the_change_of_the_median() -> None:
    recent = np.array([True] * 5 + [False] * 5)
    waits = np.array([10.0] * 5 + [70.0] * 5)
    assert wait_statistics(np.zeros(10, np.int64), waits, recent, 1)[0].trend_s == -60.0


def test_no_rows_and_no_jobs_are_no_statistics() -> None:
    nothing, no = np.zeros(0), np.zeros(0, np.bool_)
    assert wait_statistics(np.zeros(0, np.int64), nothing, no, 0) == []
    assert wait_statistics(np.zeros(0, np.int64), nothing, no, 2) == [WaitStatistics(None, None, None, None)] * 2


def test_a_job_that_a_clock_lets_start_before_its_submission_waited_no_time() -> None:
    assert waits_of(np.array([100.0, 100.0]), np.array([90.0, 130.0])).tolist() == [0.0, 30.0]


@pytest.mark.parametrize("seed", range(20))
def test_the_total_never_discloses_the_number_of_jobs_of_hidden_rows(seed: int) -> None:
    rng = Random(seed)
    jobs = [rng.choice((0, 1, 3, 5, 9)) for _ in range(4)]
    rows = [WaitStatistics(n if n >= LEAST_WAIT_JOBS else None, None, None, None) for n in jobs]
    total = withheld_total(WaitStatistics(sum(jobs), 1.0, 2.0, None), rows, jobs)
    hidden = sum(n for n in jobs if n < LEAST_WAIT_JOBS)
    if total.jobs is not None:
        rest = total.jobs - sum(row.jobs or 0 for row in rows)
        assert rest == hidden
        assert rest == 0 or rest >= LEAST_WAIT_JOBS
    else:
        assert 0 < hidden < LEAST_WAIT_JOBS
    assert (total.median_s, total.p90_s) == (1.0, 2.0)
