"""What follows for one account: when fairshare no longer holds its jobs back, and what would change its rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from apps.explain.my_priority import MyPriority
from apps.explain.walk import WalkStep
from apps.priorities.sentences import Message, say

NEAR_FRONT = 0.1  # so small a part of all others ahead is no reason to wait
MOST_DAYS = 30  # a date further ahead says nothing to plan with
Outcome = Literal["on_target", "recovers", "never_if_nobody_runs", "not_at_this_pace", "not_within_horizon"]


@dataclass(frozen=True, slots=True)
class Outlook:
    """When the deciding level comes back to its target, as the forecast has it; instants only where it `recovers`.

    usual, quiet: its part of its group's usage on the last days, and in the quietest seven of them in a row (of the
    person: nothing at all); None where nothing ran. quiet_at: when it is back at `quiet`; None where it never is.
    """

    outcome: Outcome
    as_of: datetime
    at: datetime | None = None
    earliest: datetime | None = None
    latest: datetime | None = None
    usual: float | None = None
    quiet: float | None = None
    quiet_at: datetime | None = None

    def is_soon(self, at: datetime | None) -> bool:
        return at is not None and at - self.as_of <= timedelta(days=MOST_DAYS)


def is_near_front(mine: MyPriority) -> bool:
    """Whether fairshare is no reason why a job waits."""
    return mine.rank is not None and mine.rank - 1 <= NEAR_FRONT * max(mine.of - 1, 0)


def better_account(mine: MyPriority, others: Sequence[MyPriority]) -> MyPriority | None:
    """Another account of the same cluster and policy that is ahead: where jobs of this one may run as well."""
    able = [
        other
        for other in others
        if runs_where(mine, other)
        and (other.account, other.group) != (mine.account, mine.group)
        and other.rank is not None
        and (mine.rank is None or other.rank < mine.rank)
    ]
    return min(able, key=lambda other: other.rank or 0, default=None)


def runs_where(mine: MyPriority, other: MyPriority) -> bool:
    """Whether a job of one may run under the other: the same policy, and names of the same cluster."""
    return not other.error and other.policy_slug == mine.policy_slug and other.namespace == mine.namespace


# --- When -------------------------------------------------------------------------------------------------------------
def when_said(mine: MyPriority, outlook: Outlook | None = None) -> list[Message]:
    """A date with its assumption, or why there is none. Nothing of the past: it can't be waited for."""
    if mine.moment is not None:
        return []
    if mine.error:
        return [say(f"when.{mine.error}")]
    if mine.rank is None:
        return [say("when.newcomer")] if mine.provisional else []
    if is_near_front(mine):
        return [say("when.front", n=mine.rank - 1, of=mine.of) if mine.rank > 1 else say("when.first")]
    if mine.is_decided_above:
        return [say("when.above")]
    deciding = _deciding(mine)
    if deciding is None:
        return [say("when.equal")]
    if has_no_shares(deciding):
        return [say("when.no_shares", parent=deciding.parent_name)]
    is_you = deciding is mine.walk[-1]
    if deciding.state != "over":
        return [say("when.you_not_over") if is_you else say("when.not_over", name=deciding.name)]
    return [_date(deciding, outlook, is_you)]


def _deciding(mine: MyPriority) -> WalkStep | None:
    """The level that holds the account back; None where none does."""
    if mine.deciding is None:
        return None
    step = mine.walk[mine.deciding]
    if mine.levels_decide:
        return step if step.n_ahead else None
    return step if step.effect is not None and step.effect.lowers else None


def has_no_shares(step: WalkStep) -> bool:
    return step.target == 0 or (step.effect is not None and step.effect.ratio is None)


def _date(deciding: WalkStep, outlook: Outlook | None, is_you: bool) -> Message:
    """Of a level over its target: at the usual pace, else at the quietest one."""
    if outlook is None or outlook.outcome == "on_target":
        return say("when.unknown")
    if outlook.outcome == "never_if_nobody_runs":
        return say("when.nobody_runs", parent=deciding.parent_name)
    whose = "you_recover" if is_you else "recovers"
    named: dict[str, Any] = {} if is_you else {"name": deciding.name}
    if outlook.is_soon(outlook.at):
        if outlook.earliest is None or outlook.latest is None:
            return say(f"when.{whose}", **named, on=outlook.at)
        return say(f"when.{whose}_between", **named, on=outlook.at, earliest=outlook.earliest, latest=outlook.latest)
    return _quiet_date(deciding, outlook, is_you)


def _quiet_date(deciding: WalkStep, outlook: Outlook, is_you: bool) -> Message:
    facts = {"name": deciding.name, "parent": deciding.parent_name, "share": outlook.quiet}
    if outlook.is_soon(outlook.quiet_at):
        about: dict[str, Any] = {"on": outlook.quiet_at, "other_share": outlook.usual}
        return (
            say("when.you_stop", parent=deciding.parent_name, **about)
            if is_you
            else say("when.quiet", **facts, **about)
        )
    if is_you:
        return say("when.you_later")
    if outlook.quiet is None:
        return say("when.unknown")
    if outlook.quiet_at is None:
        return say("when.never", **facts, target=deciding.target)
    return say("when.later", **facts)


# --- What changes it --------------------------------------------------------------------------------------------------
def changes_said(mine: MyPriority, others: Sequence[MyPriority] = ()) -> list[Message]:
    """What its person can do, the most helpful first; others: further accounts of the same person."""
    if mine.error == "unmapped":
        return [say("change.unmapped", policy=mine.policy_name, account=mine.name, factor=mine.factor)]
    if mine.error:
        return [say("change.nothing_kept", policy=mine.policy_name)] if mine.moment else []
    if mine.moment is not None:
        return []
    if mine.rank is None:
        return [*_unranked(mine), *_elsewhere(mine, others)]
    if is_near_front(mine):
        return [say("change.nothing")]
    return [*_elsewhere(mine, others), *_by_usage(mine)]


def _unranked(mine: MyPriority) -> list[Message]:
    parent = mine.walk[-1].parent_name if mine.walk else mine.policy_name
    return [] if mine.provisional else [say("change.unranked", parent=parent)]


def _elsewhere(mine: MyPriority, others: Sequence[MyPriority]) -> list[Message]:
    better = better_account(mine, others)
    if better is None:
        return []
    account = better.name if better.account != mine.account or not better.group else f"{better.name} ({better.group})"
    ranks = {"other_rank": better.rank, "rank": mine.rank, "of": mine.of}
    return [say("change.other_account", account=account, entry=better.entry_path, **ranks)]


def _by_usage(mine: MyPriority) -> list[Message]:
    """Whose usage or shares hold it back."""
    deciding, last = _deciding(mine), mine.walk[-1] if mine.walk else None
    if last is None or mine.is_decided_above:
        return []
    if deciding is not None and has_no_shares(deciding):
        return [say("change.shares", parent=deciding.parent_name)]
    by_group = deciding is not None and deciding is not last and deciding.state == "over"
    found = [say("change.group", name=deciding.name)] if by_group and deciding is not None else []
    if last.state == "over":
        found.append(say("change.own_use"))
    elif last.state == "idle" and by_group:
        found.append(say("change.nothing_ran"))
    if found:
        return found
    if deciding is None or not mine.levels_decide:
        return [say("change.every_job")]
    return [say("change.others", name=deciding.name)]
