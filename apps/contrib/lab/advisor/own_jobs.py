"""The policy's own jobs of the last days, and its usage before them, as the advisor replays them.

Jobs of other policies, and of accounts without an entry here, change nothing: neither what is read nor how much of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from apps.accounts.account_index import load_account_index
from apps.contrib.lab.advisor.replay import MOST_DAYS, Jobs
from apps.contrib.lab.advisor.replayed_settings import HALF_LIVES_S, half_life_window
from apps.contrib.lab.experiments.account_entries import entries_of_accounts
from apps.contrib.lab.experiments.inputs import WAS_RUNNING
from apps.contrib.lab.experiments.past_usage import load_usage_before, reach_days
from apps.contrib.lab.experiments.replay_records import (
    ReplayedJobs,
    count_by_account,
    load_recorded_jobs,
    own_sources,
    replayed_jobs,
)
from apps.contrib.lab.simulation.scenario import PastUsage
from apps.priorities.selectors.rows import PolicyView
from apps.series.back_test_runs import days_until
from apps.series.daily_series import Day
from apps.series.inputs import head_mapping

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
MOST_READ = 1_500_000  # jobs of the policy; of more, every n-th is read


@dataclass(frozen=True, eq=False)
class OwnJobs:
    """past: usage before the first day. typical_h: the job up to which half of all work was done, in hours of the
    metric. one_in: of so many jobs one was read. origin_s: the first day's begin, in seconds since 1970.
    """

    jobs: Jobs
    past: PastUsage | None
    typical_h: float | None
    one_in: int
    origin_s: float

    @classmethod
    def none(cls) -> OwnJobs:
        return cls(Jobs.none(), None, None, 1, 0.0)


def load_own_jobs(view: PolicyView, at: datetime) -> OwnJobs:
    """Jobs of up to MOST_DAYS whole days before `at`."""
    days = days_until(view.policy, at, MOST_DAYS)
    if not days:
        return OwnJobs.none()
    from_at, to_at = days[0].from_at, days[-1].to_at
    accounts = load_account_index(use_cache=False)
    entry = head_mapping(view.policy, accounts.keys).entry.astype(np.int64)

    def entry_of(ids: I8) -> I8:
        return entries_of_accounts(accounts, entry, ids)

    ids, counts = count_by_account(from_at, to_at)
    n_own = int(counts[entry_of(ids) > 0].sum()) if len(ids) else 0
    one_in = max(1, -(-n_own // MOST_READ))
    recorded = load_recorded_jobs(from_at, to_at, one_in=one_in)
    replayed = replayed_jobs(recorded, from_at, to_at, is_mapped=lambda ids: entry_of(ids) > 0, cpus={})
    if not len(replayed.jobs):
        return OwnJobs.none()
    rate = recorded.rates(view.settings.metric)[replayed.rows]
    first_s = _first_day_s(days, float(replayed.jobs.at_s.min()) + days[0].from_s)
    jobs = _jobs(replayed, rate, entry_of(replayed.account_ids), days, first_s)
    past = _past(view, first_s, entry_of)
    return OwnJobs(jobs, past, _typical_h(jobs), one_in, float(first_s))


def _jobs(replayed: ReplayedJobs, rate: F8, entry_of_who: I8, days: Sequence[Day], first_s: int) -> Jobs:
    stored = replayed.jobs
    later_s = days[0].from_s - first_s
    runs = stored.marks & WAS_RUNNING != 0
    started_s = np.where(runs, 0.0, stored.at_s - stored.before_s + stored.waited_s)
    entry = entry_of_who[stored.who]
    return Jobs(
        submit_s=stored.at_s + later_s,
        run_s=_run_times(stored.run_s, stored.requested_s, entry, np.isfinite(started_s)),
        requested_s=stored.requested_s,
        cpus=stored.cpus,
        entry=entry,
        started_s=np.where(np.isfinite(started_s), started_s + later_s, np.nan),
        rate=rate,
        site=stored.site,
        n_days=sum(day.from_s >= first_s for day in days),
    )


def _run_times(run_s: F8, requested_s: F8, entry: I8, has_started: npt.NDArray[np.bool_]) -> F8:
    """Run times of jobs; of those that never started, what they requested times the part that their entry uses.

    The part is the median over the entry's jobs that ran, or over all jobs where it has none: who asks for a day and
    runs for an hour has an hour's demand.
    """
    known = has_started & (requested_s > 0)
    guessed = ~has_started & (requested_s > 0)
    if not known.any() or not guessed.any():
        return run_s
    part = np.minimum(run_s[known] / requested_s[known], 1.0)
    by_entry = np.full(int(entry.max()) + 1, float(np.median(part)))
    order = np.argsort(entry[known], kind="stable")
    ids, first = np.unique(entry[known][order], return_index=True)
    for one, parts in zip(ids.tolist(), np.split(part[order], first[1:]), strict=True):
        by_entry[one] = float(np.median(parts))
    return np.where(guessed, requested_s * by_entry[entry], run_s)


def _typical_h(jobs: Jobs) -> float | None:
    """By work, not by number: a thousand jobs of a second don't make the typical job a second long."""
    ran = np.isfinite(jobs.started_s) & (jobs.started_s > 0)
    amount = np.sort((jobs.run_s * jobs.rate)[ran])
    amount = amount[amount > 0]
    if not len(amount):
        return None
    so_far = np.cumsum(amount)
    return float(amount[np.searchsorted(so_far, so_far[-1] / 2)]) / 3600.0


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


def _first_day_s(days: Sequence[Day], first_s: float) -> int:
    """Begin of the day with this instant, of the first job."""
    return next((day.from_s for day in days if day.to_s > first_s), days[0].from_s)
