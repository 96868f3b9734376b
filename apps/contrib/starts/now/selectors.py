"""Read the view of now of a group's level, for readers who may see every number in it.

Numbers of now are sums that change by one person's job within minutes, so there is no rule of five that would protect
anybody in them: the difference of two of them is that person. Readers of sums get finished days elsewhere, and no view
of now.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import numpy as np
from django.utils.translation import gettext as _

from apps.accounts.account_index import load_account_index
from apps.accounts.actor import Actor
from apps.contrib.starts.now.level import F8, I8, Level, level_of
from apps.contrib.starts.now.listed_jobs import ListedJobs, load_listed_jobs
from apps.contrib.starts.now.records import GroupNow, LevelNow, ResourceNow, RunsOn
from apps.contrib.starts.now.started_jobs import count_sources_without_waits, load_started_jobs
from apps.contrib.starts.now.unused_shares import unused_shares
from apps.contrib.starts.now.wait_statistics import WaitStatistics, wait_statistics, waits_of, withheld_total
from apps.core.errors import NotAllowed
from apps.core.postgresql import consistent_read
from apps.mapping.rules.placement import place_accounts
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import load_rule_set
from apps.policies.access.managers import manages
from apps.policies.access.scope import list_own_levels
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.priorities.selectors.rows import PolicyView, open_view

WAIT_DAYS = 7


def get_level_now(*, policy_slug: str, uid: UUID | None, at: datetime, actor: Actor) -> LevelNow:
    """The level of a group; by default the first one of the actor's own groups that the actor may read, else the root.

    Raises:
        NotFound: the actor doesn't see the group.
        NotAllowed: the actor doesn't see the numbers of each of its children.
    """
    view = open_view(policy_slug=policy_slug, actor=actor, is_live=True)
    level = _readable_level(view, uid)
    return _level_now(view, level, at)


def _readable_level(view: PolicyView, uid: UUID | None) -> Level:
    groups = [view.require(uid)] if uid is not None else _own_groups(view)
    is_read = view.visibility.mask & view.visibility.outright
    with_unmapped = manages(view.policy, view.actor, view.now)
    for group in groups:
        level = level_of(view.tree, view.target[0], group, with_unmapped=with_unmapped)
        if view.visibility.may_name_below(group) and is_read[level.read].all():
            return level
    raise NotAllowed(_("Waits and running jobs are for readers who may see every user’s numbers."))


def _own_groups(view: PolicyView) -> list[int]:
    """The groups of the actor's roles by path, and the root; NotFound if the actor sees none of them."""
    own = list_own_levels(policy=view.policy, tree=view.tree, actor=view.actor, at=view.now)
    seen = [i for i in dict.fromkeys((*own, 0)) if view.visibility.may_see(i)]
    return seen or [view.require(view.tree.uuid(0))]


def _level_now(view: PolicyView, level: Level, at: datetime) -> LevelNow:
    to_at = at.replace(second=0, microsecond=0)
    statistics, total = _waits(view, level, to_at)
    jobs = load_listed_jobs(view.policy, view.tree, view.snapshot, level, to_at)
    cores = _resource(level, jobs, jobs.cores_running, jobs.cores_waiting)
    has_gpus = bool(jobs.gpus_running.any() or jobs.gpus_waiting.any())
    gpus = _resource(level, jobs, jobs.gpus_running, jobs.gpus_waiting) if has_gpus else [None] * len(level.rows)
    tree = view.tree
    rows = [
        GroupNow(
            kind=row.kind,
            uid=tree.uuid(row.entry) if row.entry >= 0 else None,
            path=tree.path(row.entry) if row.entry >= 0 else "",
            target=row.target,
            waits=statistics[i],
            jobs_waiting=int(jobs.jobs[i]) if jobs.is_counted else None,
            cores=cores[i],
            gpus=gpus[i],
        )
        for i, row in enumerate(level.rows)
    ]
    return LevelNow(
        policy=view.policy.slug,
        uid=tree.uuid(level.group),
        path=tree.path(level.group),
        as_of=to_at,
        n_days=WAIT_DAYS,
        rows=rows,
        total=total,
        schedulers=jobs.schedulers,
        jobs_without_size=jobs.unsized,
        coming_free=jobs.coming_free,
        sources_without_waits=count_sources_without_waits(),
    )


def _resource(level: Level, jobs: ListedJobs, running: F8, waiting: F8) -> list[ResourceNow | None]:
    """Of each row; None where no scheduler is counted."""
    if not jobs.is_counted:
        return [None] * len(level.rows)
    shares = unused_shares(level.target, running, waiting)
    return [
        ResourceNow(
            running=float(running[i]),
            entitled=float(shares.entitled[i]) if shares.has_targets else None,
            above=float(shares.above[i]),
            unused=float(shares.unused[i]),
            waiting=float(waiting[i]),
            reclaimed=float(shares.reclaimed[i]),
            runs_on=[RunsOn(at, float(shares.runs_on[i, at])) for at in np.flatnonzero(shares.runs_on[i]).tolist()],
        )
        for i in range(len(level.rows))
    ]


def _waits(view: PolicyView, level: Level, to_at: datetime) -> tuple[list[WaitStatistics], WaitStatistics]:
    """Of each row, and of all together."""
    period = timedelta(days=WAIT_DAYS)
    jobs = load_started_jobs(from_at=to_at - 2 * period, to_at=to_at)
    row = level.of_entries(entries_of_accounts(view.policy, view.tree, jobs.account_id))
    wait_s, is_recent = waits_of(jobs.submit_s, jobs.start_s), jobs.start_s >= (to_at - period).timestamp()
    statistics = wait_statistics(row, wait_s, is_recent, len(level.rows))
    (total,) = wait_statistics(np.where(row >= 0, 0, -1), wait_s, is_recent, 1)
    n_jobs = np.bincount(row[is_recent & (row >= 0)], minlength=len(level.rows)).tolist()
    return statistics, withheld_total(total, statistics, n_jobs)


def entries_of_accounts(policy: Policy, tree: TreeColumns, account_id: I8) -> I8:
    """The entry at which usage of each account counts, (n,); −1 for unmapped accounts."""
    with consistent_read() as may_cache:
        index, rule_set = load_account_index(use_cache=may_cache), load_rule_set(policy, tree)
    if not len(index.ids):
        return np.full(len(account_id), UNMAPPED, np.int64)
    entry = place_accounts(tree, rule_set.rules, rule_set.known, index.keys).of_usage
    place = np.minimum(np.searchsorted(index.ids, account_id), len(index.ids) - 1)
    is_known = index.ids[place] == account_id  # an account may have been deleted since its job was read
    return np.where(is_known, entry[place], UNMAPPED).astype(np.int64)
