"""An entry's future if things go on: when its level comes back to target, and its factor on the days to come.

The factor of an entry on the days to come, where one number of the whole path decides: each day as recomputed then.
All entries continue at the pace of the last 14 days, as in what-if comparisons: both give one number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache, cached

from apps.analytics.forecast.past_usage import DAY_S, LevelPast, inputs_of, key_of
from apps.core.errors import Invalid
from apps.engine.algorithms import PriorityResult
from apps.engine.decay import Window, weights
from apps.engine.explain import (
    Balance,
    Course,
    Pace,
    Recovery,
    RecoveryRange,
    course_in_window,
    fading_course,
    half_life_s_of,
    has_closed_form,
    meeting,
    quartile_rates,
    recovery_range,
    steady_rate,
)
from apps.explain.levels import Numbers, effects_of
from apps.policies.models import Policy
from apps.priorities.recompute.simulation import Changes, simulate
from apps.priorities.sentences import Message, say
from apps.priorities.sentences.numbers import factor as written
from apps.priorities.serving.served_snapshot import ServedSnapshot

# --- Return to target -------------------------------------------------------------------------------------------------
F8 = npt.NDArray[np.float64]
HORIZON_DAYS = 365
_NEGLIGIBLE = 1e-3  # of what an hour counted, where a window ends: the closed form may leave it out
Method = Literal["closed_form", "hour_by_hour"]


@dataclass(frozen=True)
class Standing:
    """An entry in its group: weighted usage, target 0..1, and half the width of the tolerance."""

    own_usage: float
    group_usage: float
    target: float
    slack: float

    @property
    def actual(self) -> float:
        return self.own_usage / self.group_usage if self.group_usage > 0 else 0.0

    @property
    def edge(self) -> float | None:
        """The nearer end of the tolerance, None within it."""
        away = self.actual - self.target
        if abs(away) <= self.slack * (1 + 1e-9) or self.group_usage <= 0:
            return None
        return min(max(self.target + math.copysign(self.slack, away), 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class Outlook:
    """Forecast of an entry. share: its assumed part of new usage; share_seen: its part of the last days.

    daily_group: what the group used on each of them. to_target, to_tolerance: None where they don't apply: without a
    pace, and within the tolerance. course: from now on, hour by hour. find: when the
    entry has this part of its group.
    """

    standing: Standing
    share: float
    share_seen: float | None
    daily_group: F8
    method: Method
    to_target: RecoveryRange
    to_tolerance: RecoveryRange | None
    course: Course
    find: Callable[[float], RecoveryRange]
    is_scenario: bool = False  # `share` is supposed, not seen

    def pace(self, daily_group: float) -> Pace:
        return Pace(self.share * daily_group / DAY_S, daily_group / DAY_S)

    @property
    def paces(self) -> tuple[Pace, ...]:
        """At the least, the quartiles and the most of a day: five, slowest first."""
        days = self.daily_group if len(self.daily_group) else np.zeros(1)
        return tuple(self.pace(float(rate)) for rate in np.percentile(days, [0, 25, 50, 75, 100]))


def foresee(
    standing: Standing, past: LevelPast, window: Window, *, as_of_s: float, share: float | None = None
) -> Outlook:
    """If things go on as in the last days. share: instead of the part that the entry had of what its group ran."""
    whole = float(past.group_daily.sum())
    seen = min(float(past.own_daily.sum()) / whole, 1.0) if whole > 0 else None
    taken = share if share is not None else seen if seen is not None else 0.0
    find: Callable[[float], RecoveryRange]
    if is_closed(window):
        endless = replace(window, length_s=None)
        course = fading_course(_balance(standing, standing.target), endless, hours=24 * HORIZON_DAYS)
        find = _Closed(standing, past.group_daily, taken, endless)
        method: Method = "closed_form"
    else:
        course = _course(standing, past, window, as_of_s)
        find = _LookedUp(course, past.group_daily, taken)
        method = "hour_by_hour"
    edge = standing.edge
    return Outlook(
        standing,
        taken,
        seen,
        past.group_daily,
        method,
        find(standing.target),
        None if edge is None else find(edge),
        course,
        find,
        is_scenario=share is not None,
    )


def with_target(outlook: Outlook, *, target: float, slack: float) -> Outlook:
    """The forecast with another target, 0..1, and half the width of its tolerance; usage is unchanged.

    Equal to `foresee` with that target, and cheap.
    """
    standing = replace(outlook.standing, target=target, slack=slack)
    edge = standing.edge
    return replace(
        outlook,
        standing=standing,
        to_target=outlook.find(target),
        to_tolerance=None if edge is None else outlook.find(edge),
    )


def is_closed(window: Window) -> bool:
    """Whether the closed form applies: also where usage is negligible when its window ends."""
    endless = replace(window, length_s=None) if window.aging != "linear" else window
    if not has_closed_form(endless):
        return False
    return window.length_s is None or float(weights(np.array([window.length_s]), endless)[0]) <= _NEGLIGIBLE


def needs_hours(window: Window) -> bool:
    """Whether days and a balance are not enough to foresee with."""
    return not is_closed(window)


class _Closed:
    """Recovery to any target by the closed form; hours begin to age when they end, which `steady_rate` makes up for."""

    def __init__(self, standing: Standing, days: F8, share: float, window: Window) -> None:
        self.standing, self.share = standing, share
        self.rates = quartile_rates((days if len(days) else np.zeros(1)) * steady_rate(window))
        self.half_life_s = half_life_s_of(window)

    def __call__(self, target: float) -> RecoveryRange:
        found = recovery_range(
            _balance(self.standing, target), rates=self.rates, share=self.share, half_life_s=self.half_life_s
        )
        return RecoveryRange(*(_bounded(one) for one in (found.soonest, found.middle, found.latest)))


class _LookedUp:
    """On a course computed hour by hour."""

    def __init__(self, course: Course, days: F8, share: float) -> None:
        rates = quartile_rates(days if len(days) else np.zeros(1))
        self.course, self.paces = course, [Pace(share * rate, rate) for rate in rates]

    def __call__(self, target: float) -> RecoveryRange:
        slow, middle, fast = (meeting(self.course, target, pace) for pace in self.paces)
        first, last = sorted((slow, fast), key=lambda one: math.inf if one.in_s is None else one.in_s)
        return RecoveryRange(first, middle, last)


def _bounded(one: Recovery) -> Recovery:
    too_far = one.in_s is not None and one.in_s > HORIZON_DAYS * DAY_S
    return Recovery("not_within_horizon", None) if too_far else one


def _balance(standing: Standing, target: float) -> Balance:
    return Balance(min(standing.own_usage, standing.group_usage), standing.group_usage, target)


def _course(standing: Standing, past: LevelPast, window: Window, as_of_s: float) -> Course:
    """Hour by hour, brought to what counts now: adjustments and what jobs may still use are not in the hours."""
    if past.history is None or not len(past.history.hour_start_s):
        return fading_course(_balance(standing, standing.target), Window(), hours=24 * HORIZON_DAYS)
    found = course_in_window(past.history, window, as_of_s=as_of_s, hours=24 * HORIZON_DAYS)
    own = _brought_to(found.own_usage, standing.own_usage)
    group = _brought_to(found.group_usage, standing.group_usage)
    return replace(found, own_usage=np.minimum(own, group), group_usage=group)


def _brought_to(known: F8, now: float) -> F8:
    if known[0] > 0:
        return known if math.isclose(known[0], now, rel_tol=1e-9) else known * (now / known[0])
    return known + np.where(np.arange(len(known)) == 0, now, 0.0)


@dataclass(frozen=True)
class CurvePoint:
    """The entry's part of its group at an instant: most likely, between the quartiles, and between least and most."""

    at: datetime
    likely: float
    least: float
    p25: float
    p75: float
    most: float


def curve_of(outlook: Outlook, as_of: datetime, *, days: float, n_points: int = 41) -> Sequence[CurvePoint]:
    """From now to some days ahead; a part lies between what it is without new usage and the share of new usage."""
    hours = np.linspace(0.0, days * 24, n_points)
    course = outlook.course
    parts = np.stack([np.interp(hours, course.hours, course.part(pace)) for pace in outlook.paces])
    edges = np.sort(parts[[0, 4]], axis=0), np.sort(parts[[1, 3]], axis=0)
    return [
        CurvePoint(
            as_of + timedelta(hours=float(hour)),
            float(parts[2][n]),
            float(edges[0][0][n]),
            float(edges[1][0][n]),
            float(edges[1][1][n]),
            float(edges[0][1][n]),
        )
        for n, hour in enumerate(hours)
    ]


# --- Factor on the days to come ---------------------------------------------------------------------------------------
DAYS = (1, 2, 3, 5, 7, 10, 14, 21, 28)
_A_WEEK = 7
_MOST_REMEMBERED = 2


@dataclass(frozen=True)
class FactorPoint:
    """The factor, 0..1, so many days after the snapshot."""

    days: Annotated[int, "After as_of"]
    at: datetime
    factor: float


@dataclass(frozen=True, eq=False)
class FactorAhead:
    """points: from now on; none where the hours are too many to read. level: the entry whose effect on the factor
    changes most, None where none does or the algorithm has no effect by level.
    """

    points: Sequence[FactorPoint]
    level: int | None
    said: Sequence[Message]


def factor_ahead(policy: Policy, snapshot: ServedSnapshot, entry: int) -> FactorAhead | None:
    """None where levels decide, which have curves of their own, and for an entry without a factor."""
    if snapshot.order.explanation.kind == "levels" or not snapshot.values.has_factor[entry]:
        return None
    ahead = _work_out(policy, snapshot)
    if ahead is None:
        return FactorAhead((), None, [say("forecast.factor_too_many_hours")])
    now = FactorPoint(0, snapshot.as_of, float(snapshot.values.factor[entry]))
    points = [now] + [
        FactorPoint(days, snapshot.as_of + timedelta(days=days), float(factors[entry]))
        for days, factors in zip(DAYS, ahead.factors, strict=True)
    ]
    level = _level_of_change(snapshot, ahead.last, entry)
    return FactorAhead(points, level, _said(snapshot, ahead.last, points, level))


def _said(
    snapshot: ServedSnapshot, last: PriorityResult, points: Sequence[FactorPoint], level: int | None
) -> list[Message]:
    facts = {"factor": points[0].factor, "horizon_s": float(DAYS[-1] * DAY_S)}
    if len({written(point.factor) for point in points}) == 1:
        return [say("forecast.factor_stays", **facts)]
    week = next(point.factor for point in points if point.days == _A_WEEK)
    said = [
        say(
            "forecast.factor_goes",
            **facts,
            week_factor=week,
            in_s=float(_A_WEEK * DAY_S),
            month_factor=points[-1].factor,
        )
    ]
    if level is None:
        return said
    tree = snapshot.tree
    names = {"name": tree.name[level], "parent": tree.name[int(tree.parent[level])]}
    actual = {"other_actual": float(snapshot.values.actual[level]), "actual": float(last.actual[level])}
    return [*said, say("forecast.factor_by_level", **names, **actual, horizon_s=facts["horizon_s"])]


def _level_of_change(snapshot: ServedSnapshot, last: PriorityResult, entry: int) -> int | None:
    """The entry on the path whose part in log2 F differs most between now and the last day."""
    chain = [*snapshot.tree.ancestors(entry), entry][1:]
    damping = float(snapshot.algorithm.get("damping_factor", 1))

    def changes(values: Numbers) -> list[float]:
        effects = effects_of(snapshot.order.explanation, values, chain, damping)
        return [0.0 if effect is None else effect.change for effect in effects]

    pairs = zip(changes(snapshot.values), changes(last), strict=True)
    sizes = [0.0 if one == other else abs(one - other) for one, other in pairs]  # both may be −inf
    return chain[sizes.index(max(sizes))] if any(sizes) else None


@dataclass(frozen=True, eq=False)
class _Ahead:
    """factors: (n,) for each of `DAYS`. last: all numbers of the last of them."""

    factors: Sequence[F8]
    last: PriorityResult


@cached(LRUCache(_MOST_REMEMBERED), key=key_of, lock=Lock())
def _work_out(policy: Policy, snapshot: ServedSnapshot) -> _Ahead | None:
    """Kept: the account beside this one asks for the same days."""
    inputs = inputs_of(policy, snapshot)
    if inputs is None:
        return None
    try:
        (found,) = simulate(inputs, [Changes()], DAYS, is_order_independent=False)
    except Invalid:  # a package failed on the usage of a day to come
        return None
    return _Ahead([each.result.factor for each in found], found[-1].result)
