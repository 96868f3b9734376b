"""The jobs of a replay as settings are compared by them: of advice and of experiments, so that both learn the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from apps.contrib.lab.comparison.replay import Jobs, processors_by_day
from apps.contrib.lab.experiments.inputs import WAS_RUNNING, GivenJobs

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]


def jobs_to_compare(stored: GivenJobs, entry: I8, rate: F8, day_begins_s: Sequence[float]) -> tuple[Jobs, float]:
    """(jobs of entries below the root, seconds from the start to the first day that has one).

    entry: of each job, at most 0 where it has none. rate: usage per second. day_begins_s: from the start, ascending.
    """
    rows = np.flatnonzero(entry > 0)
    if not len(rows) or not len(day_begins_s):
        return Jobs.none(), 0.0
    at_s = stored.at_s[rows]
    begins_s = np.asarray(day_begins_s, dtype=np.float64)
    first_day = max(0, int(np.searchsorted(begins_s, float(at_s.min()), side="right")) - 1)
    first_s = float(begins_s[first_day])
    jobs = Jobs(
        submit_s=at_s - first_s,
        run_s=stored.run_s[rows],
        requested_s=stored.requested_s[rows],
        cpus=stored.cpus[rows],
        entry=entry[rows],
        started_s=started_s(stored)[rows] - first_s,
        rate=rate[rows],
        site=stored.site[rows],
        n_days=len(begins_s) - first_day,
    )
    return jobs, first_s


def started_s(stored: GivenJobs) -> F8:
    """When each job started in fact, in seconds from the start: 0 for those that ran then, NaN for never."""
    runs = stored.marks & WAS_RUNNING != 0
    started: F8 = np.where(runs, 0.0, stored.at_s - stored.before_s + stored.waited_s)
    return started


def delivered_by_day(stored: GivenJobs, n_sites: int, n_days: int) -> I8:
    """The most processors that jobs ran on at once, (sites, days of 24 hours from the start)."""
    return processors_by_day(stored.site, started_s(stored), stored.run_s, stored.cpus, n_sites, n_days)


def narrowed_to(stored: GivenJobs, most_cpus: I8) -> GivenJobs:
    """Jobs that need more processors than their site has ever run on all of them, for as much longer."""
    wide = np.maximum(stored.cpus / most_cpus[stored.site], 1.0) if len(stored) else np.zeros(0)
    return replace(
        stored,
        cpus=np.minimum(stored.cpus, most_cpus[stored.site]),
        run_s=stored.run_s * wide,
        requested_s=np.where(stored.requested_s > 0, stored.requested_s * wide, -1.0),
        rate=stored.rate / wide,
    )


def with_usual_lengths(stored: GivenJobs, entry: I8) -> GivenJobs:
    """Jobs that never started are as long as they requested, times the part that their entry uses.

    The part is the median over the entry's jobs that ran, or over all jobs where it has none: who asks for a day and
    runs for an hour has an hour's demand. entry: of each job.
    """
    has_started, requested_s = np.isfinite(started_s(stored)), stored.requested_s
    known, guessed = has_started & (requested_s > 0), ~has_started & (requested_s > 0)
    if not known.any() or not guessed.any():
        return stored
    part = np.minimum(stored.run_s[known] / requested_s[known], 1.0)
    by_entry = np.full(int(entry.max()) + 1, float(np.median(part)))
    order = np.argsort(entry[known], kind="stable")
    ids, first = np.unique(entry[known][order], return_index=True)
    for one, parts in zip(ids.tolist(), np.split(part[order], first[1:]), strict=True):
        by_entry[one] = float(np.median(parts))
    return replace(stored, run_s=np.where(guessed, requested_s * by_entry[entry], stored.run_s))
