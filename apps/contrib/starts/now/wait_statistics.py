"""How long jobs of each group waited before they started: median, 90th percentile and trend."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
LEAST_WAIT_JOBS = 5  # jobs of a period; of fewer, nothing is shown


class WaitStatistics(NamedTuple):
    """Waits of the jobs that started in a period, and in the period of equal length before it, in seconds.

    Numbers of a period with fewer than LEAST_WAIT_JOBS jobs are null.
    """

    jobs: Annotated[int | None, "Jobs that started in the period; null: fewer than 5"]
    median_s: Annotated[float | None, "Median wait of these; null: fewer than 5 jobs"]
    p90_s: Annotated[float | None, "90th percentile of the waits; null: fewer than 5 jobs"]
    median_before_s: Annotated[float | None, "Median wait in the period before; null: fewer than 5 jobs"]

    @property
    def trend_s(self) -> float | None:
        """By how much the median is longer than before."""
        if self.median_s is None or self.median_before_s is None:
            return None
        return self.median_s - self.median_before_s


def waits_of(submit_s: F8, start_s: F8) -> F8:
    """Seconds from submission to start, (n,); 0 where a clock says that a job started first."""
    waits: F8 = np.maximum(start_s - submit_s, 0.0)
    return waits


def wait_statistics(row: I8, wait_s: F8, is_recent: npt.NDArray[np.bool_], n_rows: int) -> list[WaitStatistics]:
    """Statistics of each row of a table.

    Percentiles lie between the two nearest waits, by linear interpolation, as the lab has them: with the waits sorted
    from 0, the part q is at q · (n − 1).

    Args:
        row: (n,) row of each job; −1 for jobs of none.
        wait_s: (n,) seconds.
        is_recent: (n,) whether the job started in the period, else in the one before.
    """
    recent, before = _sorted_by_row(row, wait_s, is_recent, n_rows), _sorted_by_row(row, wait_s, ~is_recent, n_rows)
    return [_statistics(*waits) for waits in zip(recent, before, strict=True)]


def withheld_total(total: WaitStatistics, rows: list[WaitStatistics], jobs: list[int]) -> WaitStatistics:
    """The statistics of all rows together; without the number of jobs, where it would disclose hidden rows.

    jobs: number of jobs of each row in the period. Fewer than LEAST_WAIT_JOBS jobs of hidden rows, but some, would be
    the total less the shown rows.
    """
    hidden = sum(n for n, row in zip(jobs, rows, strict=True) if row.jobs is None)
    return total._replace(jobs=None) if 0 < hidden < LEAST_WAIT_JOBS else total


def _sorted_by_row(row: I8, wait_s: F8, chosen: npt.NDArray[np.bool_], n_rows: int) -> list[F8]:
    """The waits of the chosen jobs of each row, ascending."""
    kept = chosen & (row >= 0)
    order = np.lexsort((wait_s[kept], row[kept]))
    waits = wait_s[kept][order]
    ends = np.cumsum(np.bincount(row[kept], minlength=n_rows))
    return np.split(waits, ends[:-1]) if n_rows else []


def _statistics(waits: F8, waits_before: F8) -> WaitStatistics:
    median_s, p90_s = _percentiles(waits)
    n_jobs = len(waits) if len(waits) >= LEAST_WAIT_JOBS else None
    return WaitStatistics(n_jobs, median_s, p90_s, _percentiles(waits_before)[0])


def _percentiles(waits: F8) -> tuple[float | None, float | None]:
    if len(waits) < LEAST_WAIT_JOBS:
        return None, None
    median_s, p90_s = np.quantile(waits, (0.5, 0.9)).tolist()
    return median_s, p90_s
