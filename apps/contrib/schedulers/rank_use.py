"""Whether a scheduler orders jobs by the ranks of its policy: one fact, said wherever a rank is shown beside a wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.selectors import VisibleQueue
from apps.explain.my_priority import MyPriority
from apps.priorities.sentences import Message, build_message

RankUse = Literal["used", "paused", "shares", "unused"]


def is_in_subtree(queue: VisibleQueue, entry: int) -> bool:
    """Whether the scheduler gets values of an entry of the served tree; also if the entry isn't known, as -1."""
    uid, snapshot = queue.scheduler.subtree_uid, queue.snapshot
    if uid is None or snapshot is None or entry < 0:
        return True
    return snapshot.tree.index_of_uid(uid) in snapshot.tree.ancestors(entry)


def use_of_rank(scheduler: Scheduler, partition: str | None = None, *, is_inside: bool = True) -> RankUse:
    """Whether the scheduler orders jobs of a partition by ranks. partition: several with commas; None: any of them.

    is_inside: the job's entry is in the part of the policy whose values the scheduler gets.
    """
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
    if scheduler.is_reset_requested:
        return build_message("use.reset", **facts)
    if scheduler.mode in (Scheduler.Mode.OFF, Scheduler.Mode.SHADOW):
        return build_message(f"use.{scheduler.mode}", **facts)
    if not is_inside:
        return build_message("use.outside", **facts)
    return build_message("use.elsewhere", **facts, partitions=chosen)


def rank_use_messages(queues: Sequence[VisibleQueue], priority: MyPriority) -> Iterator[Message]:
    """Of the schedulers in which an account runs, by name."""
    for queue in sorted(queues, key=lambda queue: queue.scheduler.name):
        entry = -1
        if queue.snapshot is not None and priority.walk:
            entry = queue.snapshot.tree.index_of_uid(priority.walk[-1].uid) or -1
        message = rank_use_message(queue.scheduler, is_inside=is_in_subtree(queue, entry))
        if message is not None:
            yield message


def _partitions(scheduler: Scheduler) -> set[str] | None:
    """Those whose jobs get values; None: all."""
    if scheduler.mode == Scheduler.Mode.CANARY:
        return {scheduler.canary_partition}
    return None if scheduler.partitions is None else set(scheduler.partitions)
