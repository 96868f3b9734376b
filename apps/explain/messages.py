"""Messages about the priority of one account: verdict, reason, expected date, advice, levels and scheduler's number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from apps.explain.levels import effect_messages
from apps.explain.my_priority import MyPriority
from apps.explain.walk import WalkStep, ahead_message, equal_messages, level_messages, local_only_message
from apps.priorities.sentences import Message, build_message, text_of

# --- Expected date and advice ----------------------------------------------------------------------------------------
NEAR_FRONT = 0.1  # fraction of the other leaves ahead up to which fairshare is no reason to wait
MOST_DAYS = 30  # a later date is too uncertain to plan with
Outcome = Literal["on_target", "recovers", "never_if_nobody_runs", "not_at_this_pace", "not_within_horizon"]


@dataclass(frozen=True, slots=True)
class Outlook:
    """Forecast of when the deciding level reaches its target. at, earliest, latest: only for outcome `recovers`.

    usual, quiet: its fraction of the group's usage in the last days, and in the quietest seven consecutive days (for
    the user's own entry: no usage); None without usage. quiet_at: when it reaches the target at `quiet`; None if never.
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
    """Whether the account is so near the front that fairshare is no reason for a job to wait."""
    return mine.rank is not None and mine.rank - 1 <= NEAR_FRONT * max(mine.of - 1, 0)


def better_account(mine: MyPriority, others: Sequence[MyPriority]) -> MyPriority | None:
    """The user's best account with a better rank in the same cluster and policy; None without one."""
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
    """Whether a job could run under the other account: the same policy and the same cluster."""
    return not other.error and other.policy_slug == mine.policy_slug and other.namespace == mine.namespace


# --- When -------------------------------------------------------------------------------------------------------------
def when_messages(mine: MyPriority, outlook: Outlook | None = None) -> list[Message]:
    """The date at which the target is reached, with its assumption, or why there is none; empty for the past."""
    if mine.moment is not None:
        return []
    if mine.error:
        return [build_message(f"when.{mine.error}")]
    if mine.rank is None:
        return [build_message("when.new_user")] if mine.provisional else []
    if is_near_front(mine):
        return [
            build_message("when.front", n=mine.rank - 1, of=mine.of) if mine.rank > 1 else build_message("when.first")
        ]
    if mine.is_decided_above:
        return [build_message("when.above")]
    deciding = _deciding(mine)
    if mine.deciding is not None and mine.decided_by == "inherited":
        parent = mine.walk[mine.deciding].parent_name
        return [build_message("when.inherited", parent=parent, algorithm=mine.algorithm)]
    if deciding is None:
        return [build_message("when.equal")]
    if has_no_shares(deciding):
        return [build_message("when.no_shares", parent=deciding.parent_name)]
    is_you = deciding is mine.walk[-1]
    if deciding.state != "over":
        return [build_message("when.you_not_over") if is_you else build_message("when.not_over", name=deciding.name)]
    return [_date(deciding, outlook, is_you)]


def _deciding(mine: MyPriority) -> WalkStep | None:
    """The level that puts the account behind others; None without one."""
    if mine.deciding is None:
        return None
    step = mine.walk[mine.deciding]
    if mine.levels_decide:
        return step if mine.n_ahead and mine.decided_by == "component" else None
    return step if step.effect is not None and step.effect.lowers else None


def has_no_shares(step: WalkStep) -> bool:
    return step.target == 0 or (step.effect is not None and step.effect.ratio is None)


def _date(deciding: WalkStep, outlook: Outlook | None, is_you: bool) -> Message:
    """The date for a level over its target: at the usual pace, or if that is too late at the quietest pace."""
    if outlook is None or outlook.outcome == "on_target":
        return build_message("when.unknown")
    if outlook.outcome == "never_if_nobody_runs":
        return build_message("when.nobody_runs", parent=deciding.parent_name)
    whose = "you_recover" if is_you else "recovers"
    named: dict[str, Any] = {} if is_you else {"name": deciding.name}
    if outlook.is_soon(outlook.at):
        if outlook.earliest is None or outlook.latest is None:
            return build_message(f"when.{whose}", **named, on=outlook.at)
        return build_message(
            f"when.{whose}_between", **named, on=outlook.at, earliest=outlook.earliest, latest=outlook.latest
        )
    return _quiet_date(deciding, outlook, is_you)


def _quiet_date(deciding: WalkStep, outlook: Outlook, is_you: bool) -> Message:
    facts = {"name": deciding.name, "parent": deciding.parent_name, "share": outlook.quiet}
    if outlook.is_soon(outlook.quiet_at):
        about: dict[str, Any] = {"on": outlook.quiet_at, "other_share": outlook.usual}
        return (
            build_message("when.you_stop", parent=deciding.parent_name, **about)
            if is_you
            else build_message("when.quiet", **facts, **about)
        )
    if is_you:
        return build_message("when.you_later")
    if outlook.quiet is None:
        return build_message("when.unknown")
    if outlook.quiet_at is None:
        return build_message("when.never", **facts, target=deciding.target)
    return build_message("when.later", **facts)


# --- Advice --------------------------------------------------------------------------------------------------
def change_messages(mine: MyPriority, others: Sequence[MyPriority] = ()) -> list[Message]:
    """What the user can do, the most helpful first. others: further accounts of the same user."""
    if mine.error == "unmapped":
        return [build_message("change.unmapped", policy=mine.policy_name, account=mine.name, factor=mine.factor)]
    if mine.error:
        return [build_message("change.nothing_kept", policy=mine.policy_name)] if mine.moment else []
    if mine.moment is not None:
        return []
    if mine.rank is None:
        return [*_unranked(mine), *_elsewhere(mine, others)]
    if is_near_front(mine):
        return [build_message("change.nothing")]
    return [*_elsewhere(mine, others), *_by_usage(mine)]


def _unranked(mine: MyPriority) -> list[Message]:
    parent = mine.walk[-1].parent_name if mine.walk else mine.policy_name
    return [] if mine.provisional else [build_message("change.unranked", parent=parent)]


def _elsewhere(mine: MyPriority, others: Sequence[MyPriority]) -> list[Message]:
    better = better_account(mine, others)
    if better is None:
        return []
    account = better.name if better.account != mine.account or not better.group else f"{better.name} ({better.group})"
    ranks = {"other_rank": better.rank, "rank": mine.rank, "of": mine.of}
    return [build_message("change.other_account", account=account, entry=better.entry_path, **ranks)]


def _by_usage(mine: MyPriority) -> list[Message]:
    """Advice by whose usage or shares put the account behind."""
    deciding, last = _deciding(mine), mine.walk[-1] if mine.walk else None
    if last is None or mine.is_decided_above:
        return []
    if deciding is not None and has_no_shares(deciding):
        return [build_message("change.shares", parent=deciding.parent_name)]
    by_group = deciding is not None and deciding is not last and deciding.state == "over"
    found = [build_message("change.group", name=deciding.name)] if by_group and deciding is not None else []
    if last.state == "over":
        found.append(build_message("change.own_use"))
    elif last.state == "idle" and by_group:
        found.append(build_message("change.nothing_ran"))
    if found:
        return found
    if deciding is None or not mine.levels_decide:
        return [build_message("change.every_job")]
    return [build_message("change.others", name=deciding.name)]


# --- All messages about an account ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class LevelMessages:
    """Messages about one level, addressed to the account's owner."""

    step: WalkStep
    standing: Message
    ahead: Message
    decides: bool
    is_you: bool
    local_only: Message | None = None  # usage of other sites doesn't count here
    effects: Sequence[Message] = ()  # on the factor
    equal: Sequence[Message] = ()  # siblings with an equal component

    @property
    def messages(self) -> list[Message]:
        """All messages, in reading order."""
        return [self.standing, *self.effects, self.ahead, *self.equal, *([self.local_only] if self.local_only else [])]


@dataclass(frozen=True)
class AccountMessages:
    """All messages about one account in one policy, in reading order."""

    verdict: Message
    reason: Sequence[Message]
    own: Message | None
    levels: Sequence[LevelMessages]
    number: Message | None
    when: Sequence[Message]
    changes: Sequence[Message]
    stale: Message | None

    @property
    def summary(self) -> list[Message]:
        """Verdict, reason, and the effect of the user's own usage."""
        return [self.verdict, *self.reason, *([self.own] if self.own else [])]


def messages_of(mine: MyPriority, others: Sequence[MyPriority] = (), outlook: Outlook | None = None) -> AccountMessages:
    """All messages about an account. others: further accounts of the same user. outlook: None if unknown."""
    deciding = mine.walk[mine.deciding] if mine.deciding is not None else None
    return AccountMessages(
        verdict=_verdict(mine),
        reason=_reason(mine, deciding),
        own=_own(mine, deciding),
        levels=[_level(mine, step, at) for at, step in enumerate(mine.walk)],
        number=_number(mine),
        when=when_messages(mine, outlook),
        changes=change_messages(mine, others),
        stale=build_message("fresh.behind", problems=list(mine.problems))
        if mine.problems and not mine.moment
        else None,
    )


def reason_in_short(mine: MyPriority) -> str:
    """The reason for an account's rank as text, for a table row."""
    deciding = mine.walk[mine.deciding] if mine.deciding is not None else None
    return text_of(_reason(mine, deciding))


def _verdict(mine: MyPriority) -> Message:
    """The verdict by the third of the ranking that the account is in, with its rank."""
    if mine.error:
        is_not_kept = mine.moment and mine.error == "no_snapshot"
        return build_message(
            "verdict.nothing_kept" if is_not_kept else f"verdict.{mine.error}", policy=mine.policy_name
        )
    if mine.rank is None or not mine.of:
        return build_message("verdict.new_user" if mine.provisional else "verdict.unranked")
    if mine.of == 1:
        return build_message("verdict.only")
    place = (mine.rank - 1) / (mine.of - 1)
    word = "ahead" if place <= 1 / 3 else "middle" if place <= 2 / 3 else "behind"
    return build_message(f"verdict.{word}", rank=mine.rank, of=mine.of)


def _reason(mine: MyPriority, deciding: WalkStep | None) -> list[Message]:
    if mine.error == "unmapped":
        return [build_message("rank.unmapped", policy=mine.policy_name, factor=mine.factor)]
    if mine.error:  # in a view of the past the advice is sufficient
        return [] if mine.moment else [build_message("rank.no_snapshot", policy=mine.policy_name)]
    if mine.why_unranked:
        return list(mine.why_unranked)
    if mine.of == 1:
        return [build_message("reason.alone")]
    if deciding is None:
        return [_no_level(mine)]
    whom = "you" if deciding is mine.walk[-1] else "group"
    return [_of_levels(mine, deciding, whom) if mine.levels_decide else _of_factor(deciding, whom)]


def _no_level(mine: MyPriority) -> Message:
    if mine.is_decided_above:
        return build_message("reason.above")
    if mine.explained_by == "number":
        return build_message("reason.number", algorithm=mine.algorithm)
    if all(step.target is None for step in mine.walk):
        return build_message("reason.no_level")
    return build_message("reason.equal" if mine.levels_decide else "reason.factor_same")


def _of_levels(mine: MyPriority, deciding: WalkStep, whom: str) -> Message:
    """The level at which most others are ahead; if none is ahead, the level that helps most."""
    key = f"reason.{whom}"
    names = {
        "name": deciding.name,
        "parent": deciding.parent_name,
        "actual": deciding.actual,
        "target": deciding.target,
    }
    if mine.n_ahead and mine.decided_by == "inherited":
        return build_message("reason.inherited", parent=deciding.parent_name, algorithm=mine.algorithm)
    if mine.n_ahead and mine.decided_by == "rule":
        return _by_rule(mine, deciding, whom)
    if mine.n_ahead:
        return build_message(key if deciding.state == "over" else f"{key}_less", **names)
    return build_message(f"{key}_under" if deciding.state in ("under", "idle") else f"{key}_first", **names)


def _by_rule(mine: MyPriority, deciding: WalkStep, whom: str) -> Message:
    """Others are equal at the level: the algorithm takes them first, or they have levels that this entry lacks."""
    if mine.compares == "ranks":
        named = {"name": deciding.name, "parent": deciding.parent_name, "algorithm": mine.algorithm}
        return build_message(f"reason.{whom}_listed", **named)
    last = mine.walk[-1]
    if last.target is None:
        return build_message("reason.no_own_shares", parent=last.parent_name)
    return build_message(f"reason.{whom}_ended", name=deciding.name, parent=deciding.parent_name)


def _of_factor(deciding: WalkStep, whom: str) -> Message:
    """The level that changes the factor most."""
    effect = deciding.effect
    facts = {
        "name": deciding.name,
        "parent": deciding.parent_name,
        "actual": deciding.actual,
        "target": deciding.target,
    }
    if effect is None or effect.ratio is None:
        return build_message(f"factor.{whom}_no_shares", **facts, factor=0.0)
    direction = "lowers" if effect.lowers else "raises"
    return build_message(f"factor.{whom}_{direction}", **facts, factor=effect.factor, other_factor=effect.factor_above)


def _own(mine: MyPriority, deciding: WalkStep | None) -> Message | None:
    """State of the user's own entry, if another level decides."""
    last = mine.walk[-1] if mine.walk else None
    if last is None or last is deciding or last.state == "unknown":
        return None
    is_over_too = deciding is not None and deciding.state == "over"
    key = "over_alone" if last.state == "over" and not is_over_too else last.state
    return build_message(f"own.{key}", parent=last.parent_name)


def _level(mine: MyPriority, step: WalkStep, at: int) -> LevelMessages:
    is_you, decides = at == len(mine.walk) - 1, at == mine.deciding
    standing = level_messages(step, is_you=is_you, decides=decides)[0]
    ahead = ahead_message(step, is_you=is_you, is_yours=not is_you)
    local_only = local_only_message(step.local_only) if step.local_only else None
    return LevelMessages(
        step, standing, ahead, decides, is_you, local_only, effect_messages(step.effect), equal_messages(step)
    )


_BY_ALGORITHM = {
    "slurm-fair-tree": "fair_tree",
    "flux": "flux",
    "slurm-classic": "classic",
    "slurm-depth-oblivious": "depth_oblivious",
}


def _number(mine: MyPriority) -> Message | None:
    """The number that schedulers get, and its formula."""
    if mine.error:
        return None
    if mine.rank is None:
        return build_message("number.fallback" if mine.levels_decide else "number.unranked", factor=mine.factor)
    place: dict[str, Any] = {"rank": mine.rank, "of": mine.of, "factor": mine.factor, "algorithm": mine.algorithm}
    if mine.algorithm in _BY_ALGORITHM:
        place["damping"] = mine.settings.get("damping_factor", 1)
        return build_message(f"number.{_BY_ALGORITHM[mine.algorithm]}", **place)
    if mine.compares == "deviations":
        return build_message("number.deviations", **place, deviations=list(mine.priorities))
    if mine.compares == "ranks":
        return build_message("number.walk" if mine.levels_decide else "number.one", **place)
    place |= {"vector": list(mine.priorities), "parts": list(mine.vector)}
    if "resolution" not in mine.settings:
        return build_message("number.levels", **place)
    is_key = mine.settings.get("factor_from") == "key"
    most = int(mine.settings["resolution"]) - 1
    return build_message("number.vector_key" if is_key else "number.vector", **place, resolution=most)
