"""Why an account has another rank than a day ago: the level at which most accounts went past it, or it past them.

Where levels decide, ranks are the accounts ahead of each level of the path, so that the change of a rank is the sum of
their changes. A level is named as the reason if at least half of the change is of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite, log
from typing import Any

from apps.accounts.actor import Actor
from apps.core.errors import DomainError
from apps.explain.my_priority import MyPriority, get_my_priority
from apps.explain.path import WalkStep
from apps.priorities.models import Snapshot
from apps.priorities.sentences import Message, build_message
from apps.priorities.sentences.numbers import change_shares

_DAY = timedelta(days=1)
_LONGEST_DAY = timedelta(hours=36)  # the oldest snapshot that is compared as that of a day ago
_LEAST_PART = 0.5  # of the change of a rank, from which a level is its reason
_BEYOND = 1e3  # in the logarithm of a quotient, of more than any two shares
_STATES = ("over", "on", "under")  # from behind to ahead


@dataclass(frozen=True, slots=True)
class RankChange:
    """Another rank than a day ago. as_of, rank: of that day. message: from where to where, and because of what."""

    as_of: datetime
    rank: int
    message: Message


def change_since_yesterday(now: MyPriority, *, actor: Actor) -> RankChange | None:
    """Compare with the last stored snapshot of at least a day ago; None without one, or if the rank is the same."""
    if now.as_of is None or now.rank is None or now.moment is not None:
        return None
    day_ago = now.as_of - _DAY
    stored = Snapshot.objects.filter(policy__slug=now.policy_slug, is_live=True, as_of__lte=day_ago)
    as_of = stored.order_by("-as_of").values_list("as_of", flat=True).first()
    if as_of is None or as_of < now.as_of - _LONGEST_DAY:
        return None
    try:
        accounts = get_my_priority(actor=actor, at=as_of, policy_slug=now.policy_slug)
    except DomainError:  # the snapshot is damaged, or was deleted meanwhile
        return None
    own = [each for each in accounts if (each.account, each.namespace) == (now.account, now.namespace)]
    then = next((each for each in own if each.entry_uid == now.entry_uid), None)
    return None if then is None else compare_ranks(then, now)


def compare_ranks(then: MyPriority, now: MyPriority) -> RankChange | None:
    """None if one of them has no rank, or both have the same."""
    if then.rank is None or now.rank is None or then.as_of is None or then.rank == now.rank:
        return None
    cause, facts = _cause(then, now, is_worse=now.rank > then.rank)
    message = build_message(f"since.{cause}", other_rank=then.rank, rank=now.rank, **facts)
    return RankChange(then.as_of, then.rank, message)


def _cause(then: MyPriority, now: MyPriority, *, is_worse: bool) -> tuple[str, dict[str, Any]]:
    """Key of the reason, and its facts."""
    level = _level(then, now, is_worse=is_worse)
    if level is None:
        return ("worse" if is_worse else "better"), {}
    before, after = level
    names = {"name": after.name, "parent": after.parent_name}
    own = None if before.is_suppressed or after.is_suppressed else _own_cause(before, after, is_worse=is_worse)
    if own is not None:
        return own[0], {**names, **own[1]}
    if not now.levels_decide:
        return ("worse" if is_worse else "better"), {}
    return ("others_ahead" if is_worse else "others_behind"), names


def _level(then: MyPriority, now: MyPriority, *, is_worse: bool) -> tuple[WalkStep, WalkStep] | None:
    """The level of at least half of the change, then and now; None without one."""
    if then.settings != now.settings:
        return None
    before, sign = {step.uid: step for step in then.walk}, 1 if is_worse else -1
    pairs = [(before[step.uid], step) for step in now.walk if step.uid in before]
    changes = [(sign * _change(*pair), pair) for pair in pairs]
    whole = sum(max(change, 0.0) for change, _pair in changes)
    if now.levels_decide:
        whole = max(whole, abs((now.rank or 0) - (then.rank or 0)))
    change, pair = max(changes, key=lambda each: each[0], default=(0.0, None))
    return pair if change > 0 and change >= _LEAST_PART * whole else None


def _change(then: WalkStep, now: WalkStep) -> float:
    """By how much the level moves the rank back: accounts ahead where levels decide, else bits off the factor."""
    if then.leaves_ahead is not None and now.leaves_ahead is not None:
        return float(now.leaves_ahead - then.leaves_ahead)
    if then.effect is None or now.effect is None:
        return 0.0
    change = then.effect.change - now.effect.change
    return change if isfinite(change) else 0.0


def _own_cause(before: WalkStep, after: WalkStep, *, is_worse: bool) -> tuple[str, dict[str, Any]] | None:
    """What the level itself did in the direction of the change; None if it did nothing that its numbers show."""
    used, targets = (before.actual, after.actual), (before.target, after.target)
    if None in used or None in targets or used == (0.0, 0.0):  # without usage another target is no other quotient
        return None
    by_use, by_target = _growth(*used), -_growth(*targets)
    if (by_use + by_target) * (1 if is_worse else -1) <= 0:
        return None
    if abs(by_target) > abs(by_use):
        facts = {"other_target": before.target, "target": after.target}
        return ("target_fell" if is_worse else "target_rose", facts) if _is_shown(*targets) else None
    if not _is_shown(*used):
        return None
    facts = {"other_actual": before.actual, "actual": after.actual}
    if {before.state, after.state} <= set(_STATES):
        steps = _STATES.index(before.state) - _STATES.index(after.state)
        if steps * (1 if is_worse else -1) > 0:
            return f"{before.state}_{after.state}", facts
    return "used_more" if is_worse else "used_less", facts


def _growth(before: float | None, after: float | None) -> float:
    """Of a share, as a logarithm; a share that begins or ends grows or shrinks by more than any other."""
    if not before or not after:
        return 0.0 if before == after else _BEYOND if after else -_BEYOND
    return log(after / before)


def _is_shown(before: float | None, after: float | None) -> bool:
    shown = change_shares(before, after)
    return shown.before != shown.after
