"""All messages about the priority of one account: the verdict, every level, and the number that schedulers get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.explain.levels import effect_messages
from apps.explain.my_priority import MyPriority
from apps.explain.path import (
    WalkStep,
    ahead_message,
    equal_messages,
    level_messages,
    local_only_message,
    tolerance_messages,
)
from apps.explain.verdict import AccountFacts, Verdict, decide
from apps.priorities.sentences import Message, build_message

_BY_ALGORITHM = {
    "slurm-fair-tree": "fair_tree",
    "flux": "flux",
    "slurm-classic": "classic",
    "slurm-depth-oblivious": "depth_oblivious",
}


@dataclass(frozen=True)
class LevelMessages:
    """Messages about one level, addressed to the account's owner."""

    step: WalkStep
    standing: Message
    ahead: Message
    decides: bool
    is_you: bool
    local_only: Message | None = None  # usage of other sites doesn't count here
    tolerance: Sequence[Message] = ()  # what counts as on target
    effects: Sequence[Message] = ()  # on the factor
    equal: Sequence[Message] = ()  # siblings with an equal component

    @property
    def messages(self) -> list[Message]:
        """All messages, in reading order."""
        return [
            self.standing,
            *self.tolerance,
            *self.effects,
            self.ahead,
            *self.equal,
            *([self.local_only] if self.local_only else []),
        ]


@dataclass(frozen=True)
class AccountMessages:
    """All messages about one account in one policy."""

    verdict: Verdict
    levels: Sequence[LevelMessages]
    number: Message | None
    stale: Message | None

    @property
    def summary(self) -> list[Message]:
        """Heading and reason."""
        return [self.verdict.heading, *self.verdict.reason]


def messages_of(
    priority: MyPriority, others: Sequence[MyPriority] = (), facts: AccountFacts | None = None
) -> AccountMessages:
    """All messages about an account. others: further accounts of the same user. facts: None if unknown."""
    is_late = priority.problems and not priority.moment
    return AccountMessages(
        verdict=decide(priority, others, facts),
        levels=[_level(priority, step, at) for at, step in enumerate(priority.walk)],
        number=_number(priority),
        stale=build_message("fresh.behind", problems=list(priority.problems)) if is_late else None,
    )


def _level(priority: MyPriority, step: WalkStep, at: int) -> LevelMessages:
    is_you, decides = at == len(priority.walk) - 1 and not step.is_group, at == priority.deciding
    standing = level_messages(step, is_you=is_you, decides=decides)[0]
    ahead = ahead_message(step, is_you=is_you, is_yours=not is_you)
    local_only = local_only_message(step.local_only) if step.local_only else None
    return LevelMessages(
        step,
        standing,
        ahead,
        decides,
        is_you,
        local_only,
        tolerance_messages(step),
        effect_messages(step.effect),
        equal_messages(step),
    )


def _number(priority: MyPriority) -> Message | None:
    """The number that schedulers get, and its formula."""
    if priority.error:
        return None
    if priority.rank is None:
        return build_message("number.fallback" if priority.levels_decide else "number.unranked", factor=priority.factor)
    place: dict[str, Any] = {
        "rank": priority.rank,
        "of": priority.of,
        "factor": priority.factor,
        "algorithm": priority.algorithm,
    }
    if priority.algorithm in _BY_ALGORITHM:
        place["damping"] = priority.settings.get("damping_factor", 1)
        return build_message(f"number.{_BY_ALGORITHM[priority.algorithm]}", **place)
    if priority.compares == "deviations":
        return build_message("number.deviations", **place, deviations=list(priority.priorities))
    if priority.compares == "ranks":
        return build_message("number.walk" if priority.levels_decide else "number.one", **place)
    place |= {"vector": list(priority.priorities), "parts": list(priority.vector)}
    if "resolution" not in priority.settings:
        return build_message("number.levels", **place)
    is_key = priority.settings.get("factor_from") == "key"
    most = int(priority.settings["resolution"]) - 1
    return build_message("number.vector_key" if is_key else "number.vector", **place, resolution=most)
