"""Ranks of own accounts after a job of some size."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Annotated, Any
from uuid import UUID

from cachetools import LRUCache, cached
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.contrib.forecast.rate_limit import limit_computations
from apps.core.cache_sizes import mask_digest
from apps.core.derived_state import in_memory
from apps.core.errors import FieldProblem, Invalid
from apps.core.typed_numbers import read_number
from apps.engine.algorithms import PriorityResult
from apps.explain.job_starts import JobStart, NewJobShape, NewJobStart, load_new_job_start
from apps.explain.my_priority import get_my_priority
from apps.pages.my_priority.numbers.rank_history import get_own_entry
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import Mask
from apps.priorities.recompute.reader_trials import moved_from, totals_of_reader
from apps.priorities.recompute.totals import conflict_without_algorithm
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visible_entries import numbers_visible_in

DERIVED_STATE = (
    in_memory(
        "_cache",
        "_rank_after",
        holds="ranks after one job more",
        key="last instant of the snapshot, tree, entry, core-hours, visible entries",
        inputs="the snapshot",
        range="the snapshot's instant",
        ends="the newest ones push it out; a snapshot of another instant has another key",
    ),
)

DEFAULT_CORE_H = 1000.0
MOST_JOB_CORE_H = 1e9
MOST_ACCOUNTS_WITH_START = 20  # the best ones; each of another name or cluster takes a few requests
_MOST_CACHED_RANKS = 4_000
_STEP = 5


@dataclass(frozen=True)
class RankRange:
    """Range of ranks (both ends equal if exact), None without a rank."""

    rank: tuple[int, int] | None

    @property
    def is_exact(self) -> bool:
        return self.rank is None or self.rank[0] == self.rank[1]


def read_core_hours(text: str) -> float:
    """The size of a job as a person types it; NaN, which `ranks_after_job` refuses, if it isn't a number."""
    try:
        return read_number(text)
    except ValueError:
        return math.nan


def ranks_after_job(
    *, policy_slug: str, entry_uids: Sequence[UUID], core_h: float, actor: Actor, at: datetime
) -> dict[UUID, RankRange]:
    """Rank each entry as the newest snapshot would if a job of this size counted in full and all other usage stayed.

    core_h: usage in hours of the policy's metric: core-hours if it counts cores only. Readers of a subtree get ranks in
    steps of five, and hidden usage enters in steps, so that trying sizes cannot reveal others' usage.

    Raises: NotFound if none of the actor's accounts is mapped to one of the entries. Invalid if core_h is not within 0
    to 1,000,000,000. TooOften above the allowed rate of computations; the default size is not limited. Unavailable if
    nothing has been computed yet.
    """
    if not 0 <= core_h <= MOST_JOB_CORE_H:  # also rejects NaN
        message = _("must be a number of hours from 0 to 1,000,000,000")
        raise Invalid(f"core_h {message}.", fields=[FieldProblem("core_h", message)])
    if core_h != DEFAULT_CORE_H:
        limit_computations(actor)
    policy = get_policy(slug=policy_slug, actor=actor, scope=Token.Scope.SELF_READ)
    ranks = {}
    for uid in entry_uids:
        own_entry = get_own_entry(policy_slug=policy_slug, entry_uid=uid, actor=actor, at=at)
        visible = numbers_visible_in(policy=policy, snapshot=own_entry.snapshot, at=at, actor=actor)
        with conflict_without_algorithm():
            ranks[uid] = _rank_after(own_entry.snapshot, own_entry.entry, core_h, visible)
    return ranks


@dataclass(frozen=True, slots=True)
class AfterJob:
    """Rank of one account now and after the job."""

    account: Annotated[str, "User name"]
    group: Annotated[str, "Group, called account in Slurm; empty if the account has none"]
    namespace: Annotated[str, "Jobs of one namespace may run under each of its accounts"]
    path: Annotated[str, "Of its entry"]
    rank: Annotated[int, "Now"]
    of: Annotated[int, "Ranked accounts"]
    rank_after: Annotated[int | None, "With the job's usage; null if unranked"]
    rank_after_to: Annotated[int | None, "Upper end of the range; above rank_after if ranks are rounded to steps"]
    job: Annotated[NewJobShape | None, "The job of that size that `start` is of; null: nothing estimates starts"] = None
    start: Annotated[JobStart | None, "When it would start if it was submitted now; null: nothing estimates it"] = None


def list_ranks_after_job(*, policy_slug: str, core_h: float, actor: Actor, at: datetime) -> list[AfterJob]:
    """List each account of the actor that is ranked in the policy, best first. Raises as `ranks_after_job`."""
    get_policy(slug=policy_slug, actor=actor, scope=Token.Scope.SELF_READ)
    priorities = [
        priority for priority in get_my_priority(actor=actor, policy_slug=policy_slug) if priority.rank is not None
    ]
    uids = list(dict.fromkeys(priority.entry_uid for priority in priorities if priority.entry_uid is not None))
    places = ranks_after_job(policy_slug=policy_slug, entry_uids=uids, core_h=core_h, actor=actor, at=at)
    starts: dict[tuple[str, str], NewJobStart | None] = {}
    ranks = []
    for priority in priorities[:MOST_ACCOUNTS_WITH_START]:
        if (key := (priority.account, priority.namespace)) not in starts:
            starts[key] = load_new_job_start(priority, core_h=core_h, actor=actor, at=at)
    for priority in priorities:
        start = starts.get((priority.account, priority.namespace))
        place = None if priority.entry_uid is None else places[priority.entry_uid].rank
        first, last = place or (None, None)
        ranks.append(
            AfterJob(
                priority.account,
                priority.group,
                priority.namespace,
                priority.entry_path,
                priority.rank or 0,
                priority.of,
                first,
                last,
                None if start is None else start.job,
                None if start is None else start.start,
            )
        )
    return ranks


def _key(snapshot: ServedSnapshot, entry: int, core_h: float, visible: Mask) -> Hashable:
    return *snapshot.key, entry, core_h, mask_digest(visible)


_cache: LRUCache[Hashable, Any] = LRUCache(_MOST_CACHED_RANKS)


@cached(_cache, key=_key, lock=Lock())
def _rank_after(snapshot: ServedSnapshot, entry: int, core_h: float, visible: Mask) -> RankRange:
    totals, algorithm = totals_of_reader(snapshot.totals, visible), snapshot.settings.algorithm
    result = totals.added(entry, core_h * 3600).compute(algorithm)
    if not visible.all():
        result = moved_from(snapshot.values, totals.compute(algorithm), result)
    return _rank_range(result, entry, is_exact=bool(visible.all()))


def _rank_range(result: PriorityResult, entry: int, *, is_exact: bool) -> RankRange:
    """The rank; for readers of a subtree the step of five that it is in."""
    if not result.has_rank[entry]:
        return RankRange(None)
    rank = int(result.rank[entry])
    if is_exact:
        return RankRange((rank, rank))
    first = (rank - 1) // _STEP * _STEP + 1
    return RankRange((first, first + _STEP - 1))
