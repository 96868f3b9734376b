"""How often promises of a scheduler's job starts held, in groups, for all who may see an entry of its policy.

It names no job and no user. Groups of fewer than LEAST_BURSTS bursts are left out: they would be about single users.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Annotated, Literal

from django.db.models import F, Sum
from django.db.models.functions import TruncWeek

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.permissions import READ, find_scheduler, no_scheduler, require_reach
from apps.contrib.starts.answer import LEAST_RECENT_SHARE
from apps.contrib.starts.answers import DAYS_OF_RECORD, held_record
from apps.contrib.starts.learned_trees import LearnedTrees, learned_trees
from apps.contrib.starts.models import StartDay, StartState
from apps.contrib.starts.prediction.promises import Kind
from apps.core.errors import NotFound, Unavailable
from apps.policies.access.managers import manages
from apps.policies.selectors import get_policy
from apps.priorities.serving import store
from apps.priorities.visible_entries import visible_in

LEAST_BURSTS = 5
MOST_GROUPS = 100
By = Literal["all", "week", "size", "length", "partition"]
BY: tuple[By, ...] = ("all", "week", "size", "length", "partition")
_SUMMED = (
    *("kept", "broken", "unknown", "apart_kept", "apart_broken", "bursts", "bursts_kept", "above", "above_kept"),
    *("above_bursts", "above_bursts_kept", "planned", "planned_kept", "ours_beside_kept"),
)


@dataclass(frozen=True)
class HeldGroup:
    """Promises of one kind and level in one group. Shares are between 0 and 1, null without a promise that counts.

    A burst is a user's promises within an hour, which hold or break together: each counts once.
    """

    group: Annotated[str, "Monday of the week, class of size or length, partition; empty for all"]
    kind: Annotated[str, "submit, or waiting: made for a job that had waited for an hour or longer"]
    level: Annotated[int, "Per cent that should hold"]
    promises: Annotated[int, "Kept and broken"]
    held: float | None
    bursts: float
    held_by_burst: float | None
    above_floor: Annotated[int, "Promises of more than 5 minutes"]
    held_above_floor: Annotated[float | None, "Of these, by burst"]
    withdrawn: Annotated[int, "For a known cause, and counted in no share"]
    withdrawn_held: Annotated[int, "Of these, kept all the same"]
    unknown: Annotated[int, "The job left the queue and no start is known"]
    planned: Annotated[int, "Promises beside which the scheduler had planned a start"]
    planned_held: Annotated[float | None, "Of these, started by the planned start, or within 5 minutes"]
    beside_held: Annotated[float | None, "Of these, ours that held"]


@dataclass(frozen=True)
class StartRecord:
    """The record of one scheduler. taken_at: of the last report; null before the first one. past_queues: what
    they taught; null before the first day.
    """

    scheduler: Scheduler
    by: By
    days: int
    taken_at: datetime | None
    groups: list[HeldGroup]
    omitted: int
    recent_share: float | None
    past_queues: LearnedTrees | None = None

    @property
    def is_low(self) -> bool:
        return self.recent_share is not None and self.recent_share < LEAST_RECENT_SHARE


def get_start_record(*, name: str, by: By, at: datetime, actor: Actor, days: int = DAYS_OF_RECORD) -> StartRecord:
    """The record of the last days, in groups.

    Raises:
        NotFound: there is no such scheduler, or the actor may see no entry of its policy.
    """
    scheduler = readable_scheduler(name, at, actor)
    state = StartState.objects.filter(scheduler=scheduler).defer("data", "opening").first()
    rows = StartDay.objects.filter(scheduler=scheduler, day__gt=(at - timedelta(days=days)).date())
    group = {"week": TruncWeek("day"), "size": F("size"), "length": F("length"), "partition": F("partition")}.get(by)
    keys = ("kind", "level") if group is None else ("group", "kind", "level")
    if group is not None:
        rows = rows.annotate(group=group)
    summed = rows.values(*keys).annotate(**{f"n_{each}": Sum(each) for each in _SUMMED}).order_by(*keys)
    groups = [_group(row) for row in summed]
    shown = [each for each in groups if each.bursts >= LEAST_BURSTS or by == "all"]
    names = list(dict.fromkeys(each.group for each in shown))
    chosen = set(names[-MOST_GROUPS:])
    shown = [each for each in shown if each.group in chosen]
    recent = None if state is None else _recent_share(state)
    taken_at = None if state is None else state.taken_at
    n_omitted = len({each.group for each in groups} - {each.group for each in shown})
    return StartRecord(scheduler, by, days, taken_at, shown, n_omitted, recent, learned_trees(scheduler))


def readable_scheduler(name: str, at: datetime, actor: Actor) -> Scheduler:
    """A scheduler of whose policy the actor may see an entry.

    Raises:
        NotFound: there is none, or the token is bound to another one.
    """
    scheduler = find_scheduler(name)
    require_reach(name, actor)
    scope = READ if actor.has_scope(READ) else Token.Scope.SELF_READ.value
    policy = get_policy(slug=scheduler.policy.slug, actor=actor, scope=scope)
    if manages(policy, actor, at) and actor.has_scope(READ):
        return scheduler
    try:
        snapshot = store.newest(policy.slug)
    except (NotFound, Unavailable):
        raise no_scheduler(name) from None
    if not visible_in(policy=policy, snapshot=snapshot, at=at, actor=actor).any():
        raise no_scheduler(name)
    return scheduler


def low_records(scheduler: Scheduler) -> Iterable[tuple[str, float]]:
    """Kinds of promises of which the latest held less often than LEAST_RECENT_SHARE, with how often they did."""
    state = StartState.objects.filter(scheduler=scheduler).defer("data", "opening").first()
    for kind in Kind:
        share = None if state is None else held_record(state, kind is Kind.SUBMIT).recent_share
        if share is not None and share < LEAST_RECENT_SHARE:
            yield kind, share


def _recent_share(state: StartState) -> float | None:
    """The lower one of both kinds."""
    shares = [held_record(state, at_submit).recent_share for at_submit in (True, False)]
    return min((share for share in shares if share is not None), default=None)


def _group(row: dict[str, object]) -> HeldGroup:
    n: dict[str, float] = {each: row[f"n_{each}"] for each in _SUMMED}  # type: ignore[misc]
    group = row.get("group", "")
    return HeldGroup(
        group=group.isoformat() if isinstance(group, date) else str(group),
        kind=str(row["kind"]),
        level=int(str(row["level"])),
        promises=int(n["kept"] + n["broken"]),
        held=_share(n["kept"], n["kept"] + n["broken"]),
        bursts=round(n["bursts"], 6),
        held_by_burst=_share(n["bursts_kept"], n["bursts"]),
        above_floor=int(n["above"]),
        held_above_floor=_share(n["above_bursts_kept"], n["above_bursts"]),
        withdrawn=int(n["apart_kept"] + n["apart_broken"]),
        withdrawn_held=int(n["apart_kept"]),
        unknown=int(n["unknown"]),
        planned=int(n["planned"]),
        planned_held=_share(n["planned_kept"], n["planned"]),
        beside_held=_share(n["ours_beside_kept"], n["planned"]),
    )


def _share(kept: float, n: float) -> float | None:
    return min(kept / n, 1.0) if n else None
