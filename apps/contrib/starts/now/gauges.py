"""Prometheus metrics of the top groups: waits, and cores beside what the group is entitled to.

Every reader of a dashboard sees scraped values. So a group is left out whose number is mostly of one account, or of
fewer than FAIRSHARE_SMALLEST_GROUP accounts. What a group is entitled to discloses the sum of all groups, and with it
that of the groups left out: it is a sample only where these, too, are many enough together, or run nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache
from django.conf import settings
from prometheus_client.core import Metric

from apps.accounts.actor import SYSTEM
from apps.contrib.starts.now.level import F8, I8, Level, level_of
from apps.contrib.starts.now.listed_jobs import ListedJobs, load_listed_jobs
from apps.contrib.starts.now.selectors import WAIT_DAYS, entries_of_accounts
from apps.contrib.starts.now.started_jobs import load_started_jobs
from apps.contrib.starts.now.unused_shares import unused_shares
from apps.contrib.starts.now.wait_statistics import WaitStatistics, wait_statistics, waits_of
from apps.core import clock
from apps.core.derived_state import in_memory
from apps.pages.monitoring.gauges import gauge
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.serving import store
from apps.priorities.suppression import is_large_enough

DERIVED_STATE = (
    in_memory(
        "_waits",
        holds="waits of the top groups of a policy",
        key="policy, digest of its tree, ten minutes",
        inputs="usage records of two weeks, rules of accounts",
        range="one policy",
        ends="the next ten minutes; the newest ones push it out",
    ),
)

_EVERY_S = 600  # two weeks of jobs are too many to read for each scrape
_MOST_KEPT_POLICIES = 64
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GroupWaits:
    """Waits of a group whose jobs are of enough accounts."""

    path: str
    waits: WaitStatistics


_waits: LRUCache[tuple[int, str, int], list[GroupWaits]] = LRUCache(_MOST_KEPT_POLICIES)


def now_families() -> Iterator[Metric]:
    """Of the top groups of each policy that has a snapshot, at most FAIRSHARE_METRICS_ENTRIES, the highest targets."""
    seconds = gauge(
        "fairshare_group_wait_seconds", "Wait of jobs that started in seven days", "policy", "entry", "quantile"
    )
    cores = gauge(
        "fairshare_group_cores", "Cores now: running, entitled (target x in use), waiting", "policy", "entry", "state"
    )
    at = clock.now()
    for slug in sorted(store.state().snapshots):
        view = open_view(policy_slug=slug, actor=SYSTEM, is_live=True)
        level = level_of(view.tree, view.target[0], 0, with_unmapped=True)
        shown = _shown_rows(level)
        for each in _group_waits(view, level, shown, at):
            for quantile, value in (("0.5", each.waits.median_s), ("0.9", each.waits.p90_s)):
                if value is not None:
                    seconds.add_metric([slug, each.path, quantile], value)
        jobs = load_listed_jobs(view.policy, view.tree, view.snapshot, level, at)
        for row, state, value in core_samples(level, jobs, shown) if jobs.is_counted else ():
            cores.add_metric([slug, view.tree.path(level.rows[row].entry), state], value)
    yield from (seconds, cores)


def core_samples(level: Level, jobs: ListedJobs, shown: list[int]) -> Iterator[tuple[int, str, float]]:
    """Row, state and number of cores. shown: rows of groups that may be samples."""
    smallest = int(settings.FAIRSHARE_SMALLEST_GROUP)
    running, waiting = jobs.users_running, jobs.users_waiting
    safe = [row for row in shown if running.is_safe([row], smallest)]
    rest = [row for row in range(len(level.rows)) if row not in safe]
    shares = unused_shares(level.target, jobs.cores_running, jobs.cores_waiting)
    shows_entitled = shares.has_targets and running.is_safe(rest, smallest)
    for row in safe:
        yield row, "running", float(jobs.cores_running[row])
        if shows_entitled:
            yield row, "entitled", float(shares.entitled[row])
    for row in shown:
        if waiting.is_safe([row], smallest):
            yield row, "waiting", float(jobs.cores_waiting[row])


def _shown_rows(level: Level) -> list[int]:
    groups = [i for i, row in enumerate(level.rows) if row.kind == "group"]
    most = max(int(settings.FAIRSHARE_METRICS_ENTRIES), 0)
    return sorted(groups, key=lambda i: -level.rows[i].target)[:most]


def _group_waits(view: PolicyView, level: Level, shown: list[int], at: datetime) -> list[GroupWaits]:
    key = (view.policy.pk, view.tree.digest, int(at.timestamp()) // _EVERY_S)
    known = _waits.get(key)
    if known is None:
        known = _waits[key] = _read_waits(view, level, shown, at)
    return known


def _read_waits(view: PolicyView, level: Level, shown: list[int], at: datetime) -> list[GroupWaits]:
    period = timedelta(days=WAIT_DAYS)
    jobs = load_started_jobs(from_at=at - 2 * period, to_at=at)
    row = level.of_entries(entries_of_accounts(view.policy, view.tree, jobs.account_id))
    wait_s, is_recent = waits_of(jobs.submit_s, jobs.start_s), jobs.start_s >= (at - period).timestamp()
    statistics = wait_statistics(row, wait_s, is_recent, len(level.rows))
    safe = _safe_rows(row[is_recent], jobs.account_id[is_recent], np.ones(int(is_recent.sum())), len(level.rows))
    return [GroupWaits(view.tree.path(level.rows[i].entry), statistics[i]) for i in shown if safe[i]]


def _safe_rows(row: I8, person: I8, amount: F8, n_rows: int) -> Mask:
    """Which rows satisfy the rule of five by themselves, (n_rows,)."""
    kept = row >= 0
    people, number = np.unique(person[kept], return_inverse=True)
    pairs, at = np.unique(row[kept] * len(people) + number, return_inverse=True)
    row_of_pair, of_pair = pairs // max(len(people), 1), np.bincount(at, weights=amount[kept], minlength=len(pairs))
    n_active = np.bincount(row_of_pair, minlength=n_rows)
    used, largest = np.bincount(row_of_pair, weights=of_pair, minlength=n_rows), np.zeros(n_rows)
    np.maximum.at(largest, row_of_pair, of_pair)
    return is_large_enough(n_active, used, largest, smallest=int(settings.FAIRSHARE_SMALLEST_GROUP))
