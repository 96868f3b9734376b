"""Facts of a queue at one instant, as numbers that trees learn from: the job, the machine, what is ahead of it.

A promise keeps them as bytes: LAYOUT, then each of FACTS as a little-endian float32, NaN for what isn't known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apps.contrib.starts.prediction.calibration import SHIFT_S
from apps.contrib.starts.prediction.promises import LEVELS

FACTS = (
    *("cpus", "limit", "age", "hour", "weekday"),
    *("waiting_jobs", "waiting_cpus", "waiting_work", "oldest_wait"),
    *("running_jobs", "running_cpus", "running_work", "share_of_free", "fits_in"),
    *("jobs_ahead", "cpus_ahead", "work_ahead", "plan"),
    *("own_waiting", "own_waiting_cpus", "own_running_cpus", "share_of_use"),
    *("recent_50", "recent_80", "recent_95", "last_start", "starts_of_hour"),
)
LAYOUT = 1  # of FACTS: another one for other names, meanings or units
FACTS_BYTES = 1 + 4 * len(FACTS)  # of one promise
_DAY_S, _HOUR_S = 86_400.0, 3_600.0
_FLOAT = np.dtype("<f4")
UNKNOWN_WAITS_S = (math.nan,) * len(LEVELS)
Numbers = NDArray[np.float64]
Places = NDArray[np.int64]


class Waiters(NamedTuple):
    """Waiting jobs in the order in which they are planned. limit_s: asked or assumed time; user: a number.

    tasks: how often each waits, with cpus of one: more than once for an array.
    """

    cpus: Numbers
    limit_s: Numbers
    waited_s: Numbers
    user: Places
    tasks: Numbers


class Runners(NamedTuple):
    """Running jobs. left_s: until their limits, above 0."""

    cpus: Numbers
    left_s: Numbers
    user: Places


class Lately(NamedTuple):
    """recent_s: quantiles of recent waits at LEVELS for each asked job, NaN: unknown, (n, levels).

    last_start_s: since a job started; NaN: unknown. starts_of_hour: jobs that started in the last hour.
    """

    recent_s: Numbers
    last_start_s: float
    starts_of_hour: float


def facts_of(
    places: Places,
    waiters: Waiters,
    runners: Runners | None,
    capacity: float,
    *,
    at_s: float,
    plan_s: Numbers,
    share_of_use: Numbers,
    lately: Lately,
) -> Numbers:
    """FACTS of the jobs at some places of the order, (n, facts).

    runners: None if nobody lists them. capacity: processors in use. plan_s, share_of_use: of the jobs. NaN: unknown.
    """
    n_users = int(max(waiters.user.max(), -1 if runners is None else runners.user.max(initial=-1))) + 1
    user, cpus, size = waiters.user[places], waiters.cpus[places], max(capacity, 1.0)
    waiting_cpus = waiters.cpus * waiters.tasks
    work = waiting_cpus * waiters.limit_s
    ones = np.ones(len(places))
    return np.column_stack(
        [
            np.log2(np.maximum(cpus, 1.0)),
            np.log(waiters.limit_s[places] + SHIFT_S),
            np.log(waiters.waited_s[places] + SHIFT_S),
            ones * (at_s % _DAY_S // _HOUR_S),
            ones * ((at_s // _DAY_S + 3) % 7),  # 1970 began on a Thursday
            ones * np.log1p(len(waiters.cpus)),
            ones * (waiting_cpus.sum() / size),
            ones * np.log(work.sum() / size + SHIFT_S),
            ones * np.log(waiters.waited_s.max() + SHIFT_S),
            *_of_runners(cpus, runners, capacity),
            np.log1p(places),
            _before(waiting_cpus, places) / size,
            np.log(_before(work, places) / size + SHIFT_S),
            np.log(plan_s + SHIFT_S),
            np.log1p(np.bincount(waiters.user, minlength=n_users)[user]),
            np.bincount(waiters.user, waiting_cpus, n_users)[user] / size,
            ones * np.nan if runners is None else np.bincount(runners.user, runners.cpus, n_users)[user] / size,
            share_of_use,
            *np.log(lately.recent_s + SHIFT_S).T,
            ones * np.log(lately.last_start_s + SHIFT_S),
            ones * np.log1p(lately.starts_of_hour),
        ]
    )


def packed(facts: Numbers) -> bytes:
    """Facts of one job as a promise keeps them."""
    return bytes([LAYOUT]) + facts.astype(_FLOAT).tobytes()


def is_of_layout(row: bytes | memoryview) -> bool:
    """Whether `unpacked` can read what a promise keeps."""
    return len(row) == FACTS_BYTES and row[0] == LAYOUT


def unpacked(rows: Sequence[bytes | memoryview]) -> Numbers:
    """Facts of several jobs of this layout, (n, facts): those that `packed` was given, as `as_kept` gives them."""
    table = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), FACTS_BYTES)
    return np.ascontiguousarray(table[:, 1:]).view(_FLOAT).astype(np.float64)


def as_kept(facts: Numbers) -> Numbers:
    """Facts as they are after they were kept, so that bounds are made by what trees learn from."""
    return facts.astype(_FLOAT).astype(np.float64)


def _before(amounts: Numbers, places: Places) -> Numbers:
    """Sums of what is ahead of each place."""
    return np.concatenate([[0.0], np.cumsum(amounts)])[places]


def _of_runners(cpus: Numbers, runners: Runners | None, capacity: float) -> tuple[Numbers, ...]:
    """Their number, processors and work; the job's share of what is free, and when it would fit in."""
    ones, size = np.ones(len(cpus)), max(capacity, 1.0)
    if runners is None:
        return (ones * np.nan,) * 5
    busy = runners.cpus.sum()
    free = capacity - busy
    return (
        ones * np.log1p(len(runners.cpus)),
        ones * (busy / size),
        ones * np.log((runners.cpus * runners.left_s).sum() / size + SHIFT_S),
        cpus / max(free, 0.5),
        np.log(_fits_in_s(cpus - free, runners) + SHIFT_S),
    )


def _fits_in_s(lacks: Numbers, runners: Runners) -> Numbers:
    """When the running jobs of the nearest limits have freed so many processors; NaN if all of them don't."""
    soonest = np.argsort(runners.left_s, kind="stable")
    freed = np.cumsum(runners.cpus[soonest])
    left_s = np.append(runners.left_s[soonest], np.nan)
    fits_in_s = left_s[np.searchsorted(freed, lacks)]
    return np.where(np.isnan(lacks), np.nan, np.where(lacks <= 0, 0.0, fits_in_s))
