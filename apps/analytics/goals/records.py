"""What a goal asks for, and the changes that were found for it: numbers and operations, no sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal
from uuid import UUID

from apps.priorities.recompute.projection import DEMAND_DAYS
from apps.priorities.serving.served_snapshot import instant

Lever = Literal["shares", "unused", "equal", "refund", "half_life"]
LEVERS: tuple[Lever, ...] = ("shares", "unused", "equal", "refund", "half_life")


@dataclass(frozen=True)
class Goal:
    """`entry` at its target, within the policy's tolerance, on the day `by`.

    most_lost: by which the deviation (target − actual) of any other entry may fall, a part of 1. least_target,
    most_target: of the entry, 0..1.
    """

    entry: UUID
    by: date
    most_lost: float = 0.01
    least_target: float = 0.0
    most_target: float = 1.0


@dataclass(frozen=True)
class Moved:
    """An entry whose deviation differs at the date: `points` of percent, below 0 for a loss."""

    uid: UUID
    name: str
    path: str
    points: float


@dataclass(frozen=True)
class NewShares:
    """The shares of an entry before and after."""

    uid: UUID
    name: str
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class Option:
    """One change with what the projection makes of it.

    is_reached: at the date the entry is within its tolerance, and nobody else loses more than the bound. target,
    actual: of the entry then. outside: how far actual is outside the tolerance, a part of 1. lost: of the one who loses
    most. moved: those who give or gain, the largest loss first. operations: of a draft. refund_s: seconds of
    `resource`, ≥ 0. half_life_s: None where it stays.
    """

    lever: Lever
    is_reached: bool
    target: float
    actual: float
    outside: float
    lost: float
    moved: Sequence[Moved]
    operations: Sequence[Mapping[str, Any]]
    shares: Sequence[NewShares] = ()
    refund_s: float = 0.0
    resource: str = ""
    half_life_s: float | None = None
    half_life_before_s: float | None = None


@dataclass(frozen=True, eq=False)
class Solution:
    """The answer: present course, then the options that reach the goal, in the order of `LEVERS`; closest: where none
    does. at: the instant that is judged, whole days after `as_of` and at most the end of the day of the goal.

    target, actual, outside: of the entry at that instant if nothing changes. left_out: levers whose effect on entries
    that the actor may not see would show, or that the policy doesn't have.
    """

    goal: Goal
    as_of: datetime
    at: datetime
    name: str
    path: str
    target: float
    actual: float
    tolerance: float
    outside: float
    options: Sequence[Option]
    closest: Option | None
    left_out: Mapping[Lever, str] = field(default_factory=dict)

    @property
    def is_reached_already(self) -> bool:
        return self.outside == 0.0 and self.goal.least_target <= self.target <= self.goal.most_target

    def option(self, lever: str) -> Option | None:
        """The one of this lever, if it reaches the goal."""
        return next((one for one in self.options if one.lever == lever), None)


# --- As REST and the command send them --------------------------------------------------------------------------------
def solution_json(policy: str, found: Solution) -> dict[str, Any]:
    goal = found.goal
    return {
        "policy": policy,
        "entry": found.path,
        "entry_uid": str(goal.entry),
        "by": goal.by.isoformat(),
        "most_lost_points": goal.most_lost * 100,
        "least_target": goal.least_target,
        "most_target": goal.most_target,
        "as_of": instant(found.as_of),
        "at": instant(found.at),
        "assumes": {"demand_days": DEMAND_DAYS, "demand": "as_lately", "changes": "from_now_on"},
        "is_reached_already": found.is_reached_already,
        "is_possible": found.is_reached_already or bool(found.options),
        "without": {
            "target": found.target,
            "actual": found.actual,
            "tolerance": found.tolerance,
            "outside_points": found.outside * 100,
        },
        "options": [option_json(one) for one in found.options],
        "closest": None if found.closest is None else option_json(found.closest),
        "left_out": [{"lever": lever, "reason": reason} for lever, reason in found.left_out.items()],
    }


def option_json(option: Option) -> dict[str, Any]:
    return {
        "lever": option.lever,
        "is_reached": option.is_reached,
        "target": option.target,
        "actual": option.actual,
        "outside_points": option.outside * 100,
        "most_lost_points": option.lost * 100,
        "shares": [
            {"entry_uid": str(one.uid), "name": one.name, "before": one.before, "after": one.after}
            for one in option.shares
        ],
        "refund_h": option.refund_s / 3600 if option.lever == "refund" else None,
        "resource": option.resource or None,
        "half_life_s": option.half_life_s,
        "moved": [
            {"entry_uid": str(one.uid), "entry": one.path, "name": one.name, "points": one.points}
            for one in option.moved
        ],
        "operations": [dict(one) for one in option.operations],
    }
