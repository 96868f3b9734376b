"""The policy's own jobs of the last days, and its usage before them, as the advisor replays them.

Jobs of other policies, and of accounts without an entry here, change nothing: neither what is read nor how much of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from apps.accounts.account_index import load_account_index
from apps.contrib.lab.comparison.replay import MOST_REPLAY_DAYS, Jobs, typical_amount
from apps.contrib.lab.comparison.replayed_settings import HALF_LIVES_S, half_life_window
from apps.contrib.lab.experiments.account_entries import entries_of_accounts
from apps.contrib.lab.experiments.past_usage import load_usage_before, reach_days
from apps.contrib.lab.experiments.replay_records import (
    count_by_account,
    load_recorded_jobs,
    own_sources,
    replayed_jobs,
)
from apps.contrib.lab.experiments.replayed_jobs import jobs_to_compare
from apps.contrib.lab.simulation.scenario import PastUsage
from apps.priorities.selectors.rows import PolicyView
from apps.series.back_test_runs import days_until
from apps.series.head_mapping import head_mapping

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
MOST_READ_JOBS = 1_500_000  # jobs of the policy; of more, every n-th is read


@dataclass(frozen=True, eq=False)
class OwnJobs:
    """past: usage before the first day. typical_h: the job up to which half of all work was done, in hours of the
    metric. one_in: of so many jobs one was read. origin_s: the first day's begin, in seconds since 1970.
    n_unknown: jobs that wait without a requested time, and are left out.
    """

    jobs: Jobs
    past: PastUsage | None
    typical_h: float | None
    one_in: int
    origin_s: float
    n_unknown: int

    @classmethod
    def none(cls) -> OwnJobs:
        return cls(Jobs.none(), None, None, 1, 0.0, 0)


def load_own_jobs(view: PolicyView, at: datetime) -> OwnJobs:
    """Jobs of up to MOST_REPLAY_DAYS whole days before `at`."""
    days = days_until(view.policy, at, MOST_REPLAY_DAYS)
    if not days:
        return OwnJobs.none()
    from_at, to_at = days[0].from_at, days[-1].to_at
    accounts = load_account_index(use_cache=False)
    entry = head_mapping(view.policy, accounts.keys).entry.astype(np.int64)

    def entry_of(ids: I8) -> I8:
        return entries_of_accounts(accounts, entry, ids)

    ids, counts = count_by_account(from_at, to_at)
    n_own = int(counts[entry_of(ids) > 0].sum()) if len(ids) else 0
    one_in = max(1, -(-n_own // MOST_READ_JOBS))
    recorded = load_recorded_jobs(from_at, to_at, one_in=one_in)
    replayed = replayed_jobs(recorded, from_at, to_at, entry_of=entry_of, cpus={})
    stored, rate = replayed.jobs, replayed.rates(recorded, view.settings.metric)
    begins_s = [float(day.from_s - days[0].from_s) for day in days]
    jobs, later_s = jobs_to_compare(stored, entry_of(replayed.account_ids)[stored.who], rate, begins_s)
    n_unknown = replayed.left_out.get("unknown_length", (0, 0.0))[0] * one_in
    if not len(jobs):
        return replace(OwnJobs.none(), n_unknown=n_unknown)
    first_s = days[0].from_s + later_s
    typical = typical_amount(jobs)
    typical_h = None if typical is None else typical / 3_600.0
    return OwnJobs(jobs, _past(view, int(first_s), entry_of), typical_h, one_in, first_s, n_unknown)


def _past(view: PolicyView, first_s: int, entry_of: Callable[[I8], I8]) -> PastUsage | None:
    window = dict(view.settings.window)
    tried = [window, *(half_life_window(window, each) for each in HALF_LIVES_S)]
    before = load_usage_before(
        datetime.fromtimestamp(first_s, UTC),
        n_days=reach_days(tried),
        metric=view.settings.metric,
        sources=own_sources(),
        sites=(),
        done=lambda: None,
    )
    ids = np.unique(before.account_id)
    entry = entry_of(ids) if len(ids) else np.zeros(0, np.int64)
    past = before.of_entries(ids, np.where(entry > 0, entry, -1))
    return PastUsage(past.entry, past.site, past.hour, past.amount) if len(past.entry) else None
