"""Records of goals and of their solutions: numbers and operations, without sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from apps.priorities.recompute.simulation import DEMAND_DAYS

Lever = Literal["shares", "unused", "equal", "refund", "half_life"]
LEVERS: tuple[Lever, ...] = ("shares", "unused", "equal", "refund", "half_life")
Reason = Literal["hidden", "no_half_life"]


@dataclass(frozen=True)
class Goal:
    """Bring `entry` to its target, within the policy's tolerance, on the day `by`.

    most_lost: largest acceptable drop of any other entry's deviation (target − actual), as a fraction of 1.
    least_target, most_target: accepted range of the entry's target, 0..1.
    """

    entry: UUID
    by: date
    most_lost: float = 0.01
    least_target: float = 0.0
    most_target: float = 1.0


@dataclass(frozen=True)
class GoalMoved:
    """An entry whose deviation is changed at the date."""

    entry_uid: UUID
    path: str
    name: str
    points: Annotated[float, "Change of its deviation (target − actual); below 0 for a loss"]


@dataclass(frozen=True)
class GoalShares:
    """Shares of an entry before and after the change."""

    entry_uid: UUID
    name: str
    before: float
    after: float


@dataclass(frozen=True, eq=False, kw_only=True)
class GoalOption:
    """One change and its projected effect.

    is_reached: at the date the entry is within its tolerance, and no other entry loses more than the bound. target,
    actual: of the entry then. most_lost_points: the largest loss of another entry. moved: entries that lose or gain,
    the largest loss first.
    """

    lever: Annotated[
        Lever, "shares: one weight; unused: those give that use less than their target; equal: all give alike"
    ]
    is_reached: bool
    target: float
    actual: float
    outside_points: Annotated[float, "How far actual is outside the tolerance"]
    most_lost_points: float
    shares: Sequence[GoalShares] = ()
    refund_h: Annotated[float | None, "Hours of `resource` to refund"] = None
    resource: str | None = None
    half_life_s: float | None = None
    moved: Annotated[Sequence[GoalMoved], "The 50 largest losses and the 50 largest gains"]
    operations: Annotated[Sequence[Mapping[str, Any]], "Operations for a change set"]


@dataclass(frozen=True)
class GoalCourse:
    """The entry at the evaluated instant if nothing changes."""

    target: float
    actual: float
    tolerance: float
    outside_points: float


@dataclass(frozen=True)
class GoalAssumes:
    """Assumptions of the projection."""

    demand_days: int = DEMAND_DAYS
    demand: Annotated[str, "as_lately: every account continues as in the last `demand_days` days"] = "as_lately"
    changes: Annotated[str, "from_now_on: a change is effective from now on"] = "from_now_on"


@dataclass(frozen=True)
class GoalLeftOut:
    """A lever that was not tried: its effect would reveal hidden entries, or the policy doesn't have it."""

    lever: Lever
    reason: Annotated[Reason, "hidden: its effect would show numbers that the caller may not see"]


@dataclass(frozen=True, eq=False)
class GoalSolution:
    """The solution: the course without changes, then the options that reach the goal, in the order of `LEVERS`."""

    policy: str
    path: str
    entry_uid: UUID
    by: date
    most_lost_points: float
    least_target: float
    most_target: float
    as_of: datetime
    at: Annotated[datetime, "The evaluated instant: whole days after as_of, at most the end of `by`"]
    assumes: GoalAssumes
    is_reached_already: bool
    is_possible: bool
    without: Annotated[GoalCourse, "If nothing changes"]
    options: Sequence[GoalOption]
    closest: Annotated[GoalOption | None, "The best option if none reaches the goal"]
    left_out: Sequence[GoalLeftOut]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def option(self, lever: str) -> GoalOption | None:
        """Return the option of this lever, None if it doesn't reach the goal."""
        return next((option for option in self.options if option.lever == lever), None)
