"""Whether a scheduler orders jobs by the ranks of its policy: one fact, said wherever a rank is shown beside a wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal
from uuid import UUID

from django.db.models import Exists, OuterRef

from apps.contrib.schedulers.models import AgentPass, Scheduler
from apps.contrib.schedulers.selectors import VisibleQueue
from apps.explain.my_priority import MyPriority
from apps.policies.tree.stored import load_tree
from apps.priorities.sentences import Message, build_message

RankUse = Literal["used", "paused", "shares", "unused"]


def is_in_subtree(queue: VisibleQueue, entry: int) -> bool:
    """Whether the scheduler gets values of an entry of the served tree; also if the entry isn't known, as -1."""
    uid, snapshot = queue.scheduler.subtree_uid, queue.snapshot
    if uid is None or snapshot is None or entry < 0:
        return True
    return snapshot.tree.index_of_uid(uid) in (*snapshot.tree.ancestors(entry), entry)


def use_of_rank(scheduler: Scheduler, partition: str | None = None, *, is_inside: bool = True) -> RankUse:
    """Whether the scheduler orders jobs of a partition by ranks. partition: several with commas; None: any of them.

    is_inside: the job's entry is in the part of the policy whose values the scheduler gets.
    """
    if scheduler.carries == Scheduler.Carries.LIMITS:
        return "unused"
    if scheduler.is_reset_requested or scheduler.mode in (Scheduler.Mode.OFF, Scheduler.Mode.SHADOW):
        return "unused"
    if scheduler.carries == Scheduler.Carries.SHARES:
        return "shares"
    chosen = _partitions(scheduler)
    is_here = partition is None or chosen is None or not chosen.isdisjoint(partition.split(","))
    if not (is_inside and is_here):
        return "unused"
    return "paused" if scheduler.is_paused else "used"


def rank_use_message(scheduler: Scheduler, partition: str | None = None, *, is_inside: bool = True) -> Message | None:
    """How far the scheduler uses a rank; None if it orders all these jobs by it. Parameters as of `use_of_rank`."""
    use, name = use_of_rank(scheduler, partition, is_inside=is_inside), scheduler.name
    chosen = sorted(_partitions(scheduler) or ())
    facts: dict[str, Any] = {"scheduler": name}
    if use in ("paused", "shares"):
        return build_message(f"use.{use}", **facts)
    if use == "used":
        return build_message("use.partitions", **facts, partitions=chosen) if partition is None and chosen else None
    if scheduler.carries == Scheduler.Carries.LIMITS:
        return build_message("use.limits", **facts)
    if scheduler.is_reset_requested:
        return build_message("use.reset", **facts)
    if scheduler.mode in (Scheduler.Mode.OFF, Scheduler.Mode.SHADOW):
        return build_message(f"use.{scheduler.mode}", **facts)
    if not is_inside:
        return build_message("use.outside", **facts)
    return build_message("use.elsewhere", **facts, partitions=chosen)


def rank_use_messages(queues: Sequence[VisibleQueue], priority: MyPriority) -> Iterator[Message]:
    """Of the schedulers in which an account runs, by name, but those that get limits alone: they may be beside one of
    the same cluster that gets ranks.
    """
    for queue in sorted(queues, key=lambda queue: queue.scheduler.name):
        if queue.scheduler.carries == Scheduler.Carries.LIMITS:
            continue
        entry = None
        if queue.snapshot is not None and priority.walk:
            entry = queue.snapshot.tree.index_of_uid(priority.walk[-1].uid)
        message = rank_use_message(queue.scheduler, is_inside=is_in_subtree(queue, -1 if entry is None else entry))
        if message is not None:
            yield message


def rank_use_in_policy(policy_slug: str, uid: UUID | None = None) -> list[Message]:
    """Of all schedulers of a policy whose agent has reported, but as `rank_use_messages`, by name. uid: of an entry of
    its tree; None: of any.
    """
    reported = AgentPass.objects.filter(scheduler=OuterRef("pk"))
    schedulers = Scheduler.objects.filter(Exists(reported), policy__slug=policy_slug).select_related("policy")
    schedulers = schedulers.exclude(carries=Scheduler.Carries.LIMITS)
    messages = []
    for scheduler in schedulers.order_by("name"):
        message = rank_use_message(scheduler, is_inside=_is_below(scheduler, uid))
        messages += [] if message is None else [message]
    return messages


def _is_below(scheduler: Scheduler, uid: UUID | None) -> bool:
    """Whether the scheduler gets values of an entry, or of some below it; also if the tree doesn't have it."""
    if scheduler.subtree_uid is None or uid is None:
        return True
    tree = load_tree(scheduler.policy)
    at, top = tree.index_of_uid(uid), tree.index_of_uid(scheduler.subtree_uid)
    return at is None or top in (*tree.ancestors(at), at) or (top is not None and at in tree.ancestors(top))


def _partitions(scheduler: Scheduler) -> set[str] | None:
    """Those whose jobs get values; None: all."""
    if scheduler.mode == Scheduler.Mode.CANARY:
        return {scheduler.canary_partition}
    return None if scheduler.partitions is None else set(scheduler.partitions)
