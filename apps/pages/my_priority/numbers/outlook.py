"""Predictions for an own account: when its deciding level returns to target, and its rank after a job."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Annotated, Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache, cached

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.contrib.forecast.selectors import Forecast, build_forecast
from apps.contrib.forecast.what_if.trial import MOST_CORE_H, RankRange, limit_computations, rank_range_of
from apps.core.errors import FieldProblem, Invalid
from apps.engine.explain import Recovery
from apps.explain.my_priority import MyPriority, get_my_priority
from apps.explain.verdict import Outlook
from apps.pages.my_priority.numbers.rank_history import get_own_entry
from apps.policies.selectors import find_policy, get_policy
from apps.policies.tree.columns import Mask
from apps.priorities.recompute.reader_trials import moved_from, totals_of_reader
from apps.priorities.recompute.totals import conflict_without_algorithm
from apps.priorities.selectors.rows import newest_or_none
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visible_entries import numbers_visible_in

F8 = npt.NDArray[np.float64]
_WEEK_DAYS = 7


def outlook_of(mine: MyPriority) -> Outlook | None:
    """Predict for the user's own deciding level from its forecast; None if recent usage is unknown."""
    snapshot = None if mine.error or mine.moment else newest_or_none(mine.policy_slug)
    if snapshot is None or mine.decisive is None or snapshot.snapshot_id != mine.snapshot_id:
        return None
    policy, entry = find_policy(mine.policy_slug), snapshot.tree.index_of_uid(mine.walk[-1].uid)
    if policy is None or not entry:
        return None
    query = AccountQuery(mine.account, mine.group, mine.namespace)
    visible = np.zeros(len(snapshot.tree), np.bool_)
    visible[[snapshot.tree.index_of_uid(step.uid) or 0 for step in mine.walk]] = True
    return outlook_in(build_forecast(policy, snapshot, entry, query, visible), mine)


def outlook_in(forecast: Forecast, mine: MyPriority) -> Outlook | None:
    """The deciding level's part of a forecast; None if recent usage is unknown."""
    step = mine.decisive
    level = next((level for level in forecast.levels if step is not None and level.uid == step.uid), None)
    if step is None or level is None or level.outlook is None:
        return None
    expected, found, as_of = level.outlook, level.outlook.to_target, forecast.as_of
    is_own = step is mine.walk[-1] and not step.is_group
    quiet = 0.0 if is_own else quietest_week(level.own_daily, expected.daily_group)
    return Outlook(
        found.middle.outcome,
        as_of,
        at=_instant(as_of, found.middle),
        earliest=_instant(as_of, found.soonest),
        latest=_instant(as_of, found.latest),
        usual=expected.share_seen,
        quiet=quiet,
        quiet_at=None if quiet is None else _instant(as_of, expected.at_share(quiet).middle),
    )


def quietest_week(own_daily: F8, group_daily: F8) -> float | None:
    """Return an entry's smallest share, 0..1, of its group's usage in seven consecutive days; None if unknown."""
    if len(group_daily) < _WEEK_DAYS:
        return None
    # Sums of every seven days in a row.
    own, group = (np.convolve(daily, np.ones(_WEEK_DAYS), mode="valid") for daily in (own_daily, group_daily))
    parts = own[group > 0] / group[group > 0]
    return float(min(parts.min(), 1.0)) if len(parts) else None


def _instant(as_of: datetime, found: Recovery) -> datetime | None:
    return None if not found.in_s else as_of + timedelta(seconds=found.in_s)


DEFAULT_CORE_H = 1000.0
_MOST_CACHED = 4_000


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
    if not 0 <= core_h <= MOST_CORE_H:  # also rejects NaN
        message = "must be a number of hours from 0 to 1,000,000,000"
        raise Invalid(f"core_h {message}.", fields=[FieldProblem("core_h", message)])
    if core_h != DEFAULT_CORE_H:
        limit_computations(actor)
    policy = get_policy(slug=policy_slug, actor=actor, scope=Token.Scope.SELF_READ)
    found = {}
    for uid in entry_uids:
        mine = get_own_entry(policy_slug=policy_slug, entry_uid=uid, actor=actor, at=at)
        visible = numbers_visible_in(policy=policy, snapshot=mine.snapshot, at=at, actor=actor)
        with conflict_without_algorithm():
            found[uid] = _rank_after(mine.snapshot, mine.entry, core_h, visible)
    return found


@dataclass(frozen=True, slots=True)
class AfterJob:
    """Rank of one account now and after the job."""

    account: Annotated[str, "User name"]
    group: Annotated[str, "Group, called account in Slurm; empty if the account has none"]
    namespace: Annotated[str, "Jobs of one namespace may run under each of its accounts"]
    entry: Annotated[str, "Path of its entry"]
    rank: Annotated[int, "Now"]
    of: Annotated[int, "Ranked accounts"]
    rank_after: Annotated[int | None, "With the job's usage; null if unranked"]
    rank_after_to: Annotated[int | None, "Upper end of the range; above rank_after if ranks are rounded to steps"]


def list_ranks_after_job(*, policy_slug: str, core_h: float, actor: Actor, at: datetime) -> list[AfterJob]:
    """List each account of the actor that is ranked in the policy, best first. Raises as `ranks_after_job`."""
    get_policy(slug=policy_slug, actor=actor, scope=Token.Scope.SELF_READ)
    mine = [one for one in get_my_priority(actor=actor, policy_slug=policy_slug) if one.rank is not None]
    uids = list(dict.fromkeys(one.entry_uid for one in mine if one.entry_uid is not None))
    places = ranks_after_job(policy_slug=policy_slug, entry_uids=uids, core_h=core_h, actor=actor, at=at)
    found = []
    for one in mine:
        place = None if one.entry_uid is None else places[one.entry_uid].rank
        first, last = place or (None, None)
        found.append(
            AfterJob(one.account, one.group, one.namespace, one.entry_path, one.rank or 0, one.of, first, last)
        )
    return found


def _key(snapshot: ServedSnapshot, entry: int, core_h: float, visible: Mask) -> Hashable:
    return snapshot.snapshot_id, snapshot.computed_at, entry, core_h, np.packbits(visible).tobytes()


_cache: LRUCache[Hashable, Any] = LRUCache(_MOST_CACHED)


@cached(_cache, key=_key, lock=Lock())
def _rank_after(snapshot: ServedSnapshot, entry: int, core_h: float, visible: Mask) -> RankRange:
    totals, algorithm = totals_of_reader(snapshot.totals, visible), snapshot.settings.algorithm
    result = totals.added(entry, core_h * 3600).compute(algorithm)
    if not visible.all():
        result = moved_from(snapshot.values, totals.compute(algorithm), result)
    return rank_range_of(result, entry, bool(visible.all()))
