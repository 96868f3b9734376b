"""Read planned waits under a draft, for readers who may see every number of its policy.

A reader who chooses shares and sees whose jobs would wait longer learns of the usage and queue of all. So they are for
those who see these anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from apps.contrib.schedulers.factor_priorities import adds_up
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_state import QueueJob, load_listing
from apps.contrib.schedulers.rank_use import rank_use_message, use_of_rank
from apps.contrib.schedulers.selectors import SchedulerView, views_of
from apps.contrib.starts.draft_waits.factors import (
    TriedFactors,
    counts_alike,
    factors_of_projection,
    factors_of_totals,
)
from apps.contrib.starts.draft_waits.planned import TwoPlans, Waits, plan_twice, waits_by_row
from apps.contrib.starts.draft_waits.records import (
    DraftState,
    DraftWaits,
    GroupDraftWaits,
    QueueStateName,
    SchedulerDraftWaits,
)
from apps.contrib.starts.now.level import Level, LevelRow, level_of
from apps.contrib.starts.now.listed_jobs import entries_of_jobs, is_of_now
from apps.contrib.starts.plan_error import plan_error
from apps.core.errors import NotAllowed, NotFound
from apps.pages.changes.review.reviewed_change import ReviewPage
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import Policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.stored import load_tree
from apps.priorities.selectors.rows import newest_or_none
from apps.priorities.serving.served_snapshot import ServedSnapshot

I8 = npt.NDArray[np.int64]
_USED = ("used", "paused")


def has_queues(policy: Policy) -> bool:
    """Whether a scheduler of the policy gets ranks, or could."""
    return _schedulers(policy).exists()


def get_draft_waits(page: ReviewPage, uid: UUID | None = None) -> DraftWaits:
    """uid: the group whose children are compared; by default the lowest one that contains all that is edited.

    Raises:
        NotAllowed: the reader doesn't see the numbers of every entry.
        NotFound: the published tree has no such group.
    """
    if not page.sees_all_numbers:
        raise NotAllowed(_("Planned waits under a draft are for those who see the numbers of all entries."))
    review = page.review
    tree, policy = review.before, review.policy
    level = _level(tree, _edited_group(page) if uid is None else _group(tree, uid))
    snapshot = newest_or_none(policy.slug)
    effect = page.effect if review.is_open else None
    state: DraftState = "decided" if effect is None else effect.state
    views = views_of(_schedulers(policy), page.now)
    if not views:
        state = "no_scheduler"
    rows: list[SchedulerDraftWaits] = []
    if effect is not None and effect.projection is not None and snapshot is not None:
        factors = factors_of_projection(tree, effect.projection)
        rows = [scheduler_draft_waits(view, tree, snapshot, level, factors, page.now) for view in views]
    return DraftWaits(
        state="ready" if rows else state,
        policy=policy.slug,
        uid=tree.uuid(level.group),
        path=tree.path(level.group),
        as_of=None if effect is None else effect.as_of,
        schedulers=rows,
    )


def waits_if_published(policy: Policy, tree: TreeColumns, settings: PolicySettings, at: datetime) -> DraftWaits:
    """If a tree and settings were published, by the usage of the newest snapshot.

    The caller has checked that the reader sees the numbers of every entry.
    """
    published = load_tree(policy), settings_of(policy, policy.head_number)
    level, snapshot = _level(published[0], 0), newest_or_none(policy.slug)
    state: DraftState = "ready"
    factors = None
    if snapshot is None:
        state = "no_snapshot"
    elif not counts_alike(published[1], settings):
        state = "counts_otherwise"
    else:
        factors = factors_of_totals(snapshot.totals, published, (tree, settings))
        state = "unsuitable" if factors is None else "ready"
    rows = []
    if snapshot is not None and factors is not None:
        views = views_of(_schedulers(policy), at)
        rows = [scheduler_draft_waits(view, published[0], snapshot, level, factors, at) for view in views]
    as_of = None if snapshot is None else snapshot.as_of
    return DraftWaits(state, policy.slug, published[0].uuid(0), "/", as_of, rows)


def _schedulers(policy: Policy) -> QuerySet[Scheduler]:
    """Those that get limits alone are left out: they may be beside one of the same cluster that gets ranks."""
    schedulers = Scheduler.objects.select_related("policy").filter(policy=policy).order_by("name")
    return schedulers.exclude(carries=Scheduler.Carries.LIMITS)


def _group(tree: TreeColumns, uid: UUID) -> int:
    i = tree.index_of_uid(uid)
    if i is None or not (tree.is_group[i] or i == 0):
        raise NotFound(_("There is no such group."))
    return i


def _edited_group(page: ReviewPage) -> int:
    """The lowest group above all edited entries that has two groups below it; else the root."""
    review, tree = page.review, page.review.before
    edited = [tree.index_of_uid(uid) for uid in (review.outcome.changes if review.outcome else ())]
    paths = [[*tree.ancestors(i), i] for i in edited if i is not None]
    shared = 0
    for steps in zip(*(path[:-1] for path in paths), strict=False):
        if len(set(steps)) > 1:
            break
        shared = steps[0]
    while shared and sum(row.kind == "group" for row in _level(tree, shared).rows) < 2:
        shared = int(tree.parent[shared])
    return shared


def _level(tree: TreeColumns, group: int) -> Level:
    return level_of(tree, np.zeros(len(tree)), group, with_unmapped=True)


def scheduler_draft_waits(
    view: SchedulerView, tree: TreeColumns, snapshot: ServedSnapshot, level: Level, factors: TriedFactors, at: datetime
) -> SchedulerDraftWaits:
    """Of one scheduler. tree: that of the level and the factors."""
    scheduler, listing = view.scheduler, load_listing(view.scheduler)
    table, state = listing or (None, None)
    name: QueueStateName = "ready"
    n_left_out, groups = 0, list[GroupDraftWaits]()
    if table is None or state is None:
        name = "no_report"
    elif not view.lists_queue or not is_of_now(view):
        name = "stale"
    elif not state.has_running or not state.partitions:
        name = "no_plan"
    else:
        waiting = state.jobs[: len(table)]
        entry = entries_of_jobs(waiting, tree, snapshot, scheduler.namespace)
        follows = _follows(scheduler, waiting, entry, tree)
        published, draft = (np.where(follows, of_entry[entry], np.nan) for of_entry in factors)
        plans = plan_twice(state, table, scheduler, (published, draft))
        n_left_out = len({job.job for job in waiting}) - int(plans.has_both.sum())
        name = "ready" if plans.has_both.any() else "no_jobs"
        groups = _groups(plans, tree, level, level.of_entries(entry))
    message = rank_use_message(scheduler)
    return SchedulerDraftWaits(
        scheduler=scheduler.name,
        state=name,
        taken_at=None if state is None else state.taken_at,
        rank_use=use_of_rank(scheduler),
        rank_use_text="" if message is None else message.text,
        adds_up=adds_up(scheduler),
        jobs_left_out=n_left_out,
        error=plan_error(scheduler, at),
        groups=groups,
    )


def _follows(scheduler: Scheduler, jobs: Sequence[QueueJob], entry: I8, tree: TreeColumns) -> Mask:
    """(n,) whether the scheduler orders a job by its factor. One that orders none so is planned as if it did all."""
    is_mapped = entry >= 0
    if use_of_rank(scheduler) not in _USED:
        return is_mapped
    top = 0 if scheduler.subtree_uid is None else tree.index_of_uid(scheduler.subtree_uid)
    is_inside = np.zeros(len(tree), np.bool_) if top is None else tree.subtree_mask(top)
    uses = {partition: use_of_rank(scheduler, partition) in _USED for partition in {job.partition for job in jobs}}
    return is_mapped & is_inside[entry] & np.array([uses[job.partition] for job in jobs], np.bool_)


def _groups(plans: TwoPlans, tree: TreeColumns, level: Level, row: I8) -> list[GroupDraftWaits]:
    """Groups, and other rows with enough jobs, by the change of their medians; those without one last, by path."""
    waits = waits_by_row(plans, row, len(level.rows))
    pairs = zip(level.rows, waits, strict=True)
    groups = [_group_waits(of, each, tree) for of, each in pairs if of.kind == "group" or each is not None]
    return sorted(groups, key=lambda each: (each.change_s is None, -(each.change_s or 0.0), each.path))


def _group_waits(of: LevelRow, waits: Waits | None, tree: TreeColumns) -> GroupDraftWaits:
    is_entry = of.entry >= 0
    return GroupDraftWaits(
        of.kind,
        tree.uuid(of.entry) if is_entry else None,
        tree.path(of.entry) if is_entry else "",
        *(waits or (None,) * 5),
    )
