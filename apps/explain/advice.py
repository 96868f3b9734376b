"""Advice for a user about a priority: named cases, the most effective first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from apps.explain.my_priority import MyPriority
from apps.explain.walk import WalkStep
from apps.priorities.sentences import Message, say

_NEAR_FRONT = 0.1  # so small a part of all others ahead is no reason to wait
Outcome = Literal["on_target", "recovers", "never_if_nobody_runs", "not_at_this_pace", "not_within_horizon"]


@dataclass(frozen=True, slots=True)
class Outlook:
    """When the deciding level comes back to its target, as the forecast has it; instants only where it `recovers`."""

    outcome: Outcome
    at: datetime | None = None
    earliest: datetime | None = None
    latest: datetime | None = None


def advise(mine: MyPriority, others: Sequence[MyPriority] = (), outlook: Outlook | None = None) -> list[Message]:
    """For one account; others: further ones of the same person. There is no advice about the past."""
    if mine.error == "unmapped":
        return [say("advice.unmapped", policy=mine.policy_name, account=mine.name, factor=mine.factor)]
    if mine.error:
        return [say("advice.nothing_kept" if mine.moment else "advice.no_snapshot", policy=mine.policy_name)]
    if mine.moment is not None:
        return []
    stale = [say("advice.stale", problems=list(mine.problems))] if mine.problems else []
    if mine.rank is None:
        return [*stale, _unranked(mine), *_elsewhere(mine, others)]
    if is_near_front(mine):
        return [*stale, _front(mine)]
    return [*stale, *_elsewhere(mine, others), *_waiting(mine, outlook)]


def is_near_front(mine: MyPriority) -> bool:
    """Whether fairshare is no reason why a job waits."""
    return mine.rank is not None and mine.rank - 1 <= _NEAR_FRONT * max(mine.of - 1, 0)


def better_account(mine: MyPriority, others: Sequence[MyPriority]) -> MyPriority | None:
    """Another account of the same cluster and policy that is ahead: where jobs of this one may run as well."""
    able = [
        other
        for other in others
        if not other.error
        and other.policy_slug == mine.policy_slug
        and other.namespace == mine.namespace
        and (other.account, other.group) != (mine.account, mine.group)
        and other.rank is not None
        and (mine.rank is None or other.rank < mine.rank)
    ]
    return min(able, key=lambda other: other.rank or 0, default=None)


def _elsewhere(mine: MyPriority, others: Sequence[MyPriority]) -> list[Message]:
    better = better_account(mine, others)
    if better is None:
        return []
    account = better.name if better.account != mine.account or not better.group else f"{better.name} ({better.group})"
    return [
        say(
            "advice.other_account",
            account=account,
            entry=better.entry_path,
            other_rank=better.rank,
            rank=mine.rank,
            of=mine.of,
        )
    ]


def _unranked(mine: MyPriority) -> Message:
    if mine.provisional:
        return say("advice.newcomer")
    return say("advice.unranked", parent=mine.walk[-1].parent_name if mine.walk else mine.policy_name)


def _front(mine: MyPriority) -> Message:
    if not mine.n_ahead:
        return say("advice.first")
    return say("advice.front", n=mine.n_ahead, of=mine.of)


def _waiting(mine: MyPriority, outlook: Outlook | None) -> list[Message]:
    """What holds it back, and until when."""
    last = mine.walk[-1] if mine.walk else None
    deciding = None if mine.deciding is None else mine.walk[mine.deciding]
    if last is None or mine.is_decided_above:
        return [say("advice.above")]
    found = _of_group(mine, deciding, last, outlook)
    if last.state == "over":
        found += [_own_use(last), *(_outlook(last, outlook) if deciding is last else [])]
    elif last.state == "idle":
        found.append(say("advice.nothing_ran"))
    if not found and deciding is not None and mine.levels_decide and deciding.n_ahead:
        return [say("advice.other_order", name=deciding.name)]
    return found or [say("advice.not_over")]


def _of_group(mine: MyPriority, deciding: WalkStep | None, last: WalkStep, outlook: Outlook | None) -> list[Message]:
    """What a level above the own one does, where it is the main reason to wait."""
    if deciding is None:
        return []
    facts = {
        "name": deciding.name,
        "parent": deciding.parent_name,
        "actual": deciding.actual,
        "target": deciding.target,
    }
    if mine.levels_decide:
        is_reason = deciding.state == "over" and deciding.n_ahead > 0 and deciding is not last
        return [say("advice.group_waits", **facts), *_outlook(deciding, outlook)] if is_reason else []
    effect = deciding.effect
    if effect is None or not effect.lowers:
        return []
    if effect.ratio is None:
        return [say("advice.no_shares", name=deciding.name, parent=deciding.parent_name)]
    if deciding is last:
        return []
    said = say("advice.factor_group", **facts, factor=effect.factor, other_factor=effect.factor_above)
    return [said, *(_outlook(deciding, outlook) if deciding.state == "over" else [])]


def _own_use(last: WalkStep) -> Message:
    return say("advice.own_use", name=last.name, parent=last.parent_name, actual=last.actual, target=last.target)


def _outlook(deciding: WalkStep, outlook: Outlook | None) -> list[Message]:
    if outlook is None or outlook.outcome == "on_target":
        return []
    names = {"name": deciding.name, "parent": deciding.parent_name}
    if outlook.outcome != "recovers":
        return [say(f"advice.{outlook.outcome}", **names)]
    if outlook.earliest is None or outlook.latest is None:
        return [say("advice.wait_until", **names, on=outlook.at)]
    return [say("advice.wait_between", **names, on=outlook.at, earliest=outlook.earliest, latest=outlook.latest)]
