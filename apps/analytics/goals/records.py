"""What a goal asks for, and the changes that were found for it: numbers and operations, no sentences."""

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
class GoalMoved:
    """An entry whose deviation differs at the date."""

    entry_uid: UUID
    entry: str
    name: str
    points: Annotated[float, "By which its deviation (target − actual) rises; below 0 for a loss"]


@dataclass(frozen=True)
class GoalShares:
    """The shares of an entry before and after."""

    entry_uid: UUID
    name: str
    before: float
    after: float


@dataclass(frozen=True, eq=False, kw_only=True)
class GoalOption:
    """One change with what the projection makes of it.

    is_reached: at the date the entry is within its tolerance, and nobody else loses more than the bound. target,
    actual: of the entry then. most_lost_points: of the one who loses most. moved: those who give or gain, the largest
    loss first.
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
    operations: Annotated[Sequence[Mapping[str, Any]], "As a change set takes them"]


@dataclass(frozen=True)
class GoalCourse:
    """The entry at the instant that is judged if nothing changes."""

    target: float
    actual: float
    tolerance: float
    outside_points: float


@dataclass(frozen=True)
class GoalAssumes:
    """What a projection takes for granted."""

    demand_days: int = DEMAND_DAYS
    demand: Annotated[str, "as_lately: every account goes on as in the last `demand_days` days"] = "as_lately"
    changes: Annotated[str, "from_now_on: a change holds from now on"] = "from_now_on"


@dataclass(frozen=True)
class GoalLeftOut:
    """A lever whose effect on entries that the actor may not see would show, or that the policy doesn't have."""

    lever: Lever
    reason: Reason


@dataclass(frozen=True, eq=False)
class GoalSolution:
    """The answer: present course, then the options that reach the goal, in the order of `LEVERS`."""

    policy: str
    entry: str
    entry_uid: UUID
    by: date
    most_lost_points: float
    least_target: float
    most_target: float
    as_of: datetime
    at: Annotated[datetime, "The instant that is judged: whole days after as_of, at most the end of `by`"]
    assumes: GoalAssumes
    is_reached_already: bool
    is_possible: bool
    without: Annotated[GoalCourse, "If nothing changes"]
    options: Sequence[GoalOption]
    closest: Annotated[GoalOption | None, "Where no option reaches the goal"]
    left_out: Sequence[GoalLeftOut]

    @property
    def name(self) -> str:
        return self.entry.rpartition("/")[2]

    def option(self, lever: str) -> GoalOption | None:
        """The one of this lever, if it reaches the goal."""
        return next((one for one in self.options if one.lever == lever), None)
