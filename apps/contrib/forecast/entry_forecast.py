"""Forecasts of one entry if usage continues as recently: when its level is on target, and its factor in coming days.

On target is within the policy's tolerance, as for states: so a forecast names the day on which the state changes.

Factors are recomputed for each day, for algorithms where one number of the whole path decides. All entries then
continue at the pace of the last 14 days.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache, cached

from apps.contrib.forecast.past_usage import DAY_S, LevelPast, load_snapshot_inputs
from apps.core.derived_state import in_memory
from apps.core.errors import Invalid
from apps.engine.algorithms import PriorityResult
from apps.engine.decay import Window, weights
from apps.engine.explain import (
    ON_TARGET,
    Balance,
    Course,
    Outcome,
    Recovery,
    RecoveryRange,
    UsageRate,
    catch_up,
    course_in_window,
    fading_course,
    half_life_s_of,
    has_closed_form,
    recovery_range,
    steady_rate,
    usual_rates,
)
from apps.engine.target_state import is_on_target
from apps.explain.levels import Numbers, effects_of
from apps.policies.models import Policy
from apps.priorities.projections import HORIZON_DAYS, CurvePoint, PaceDays
from apps.priorities.recompute.simulation import Changes, simulate
from apps.priorities.sentences import Message, build_message, text_of
from apps.priorities.sentences.numbers import factor as written
from apps.priorities.serving.served_snapshot import ServedSnapshot, snapshot_key

DERIVED_STATE = (
    in_memory(
        "_simulate_days",
        holds="the coming days of all entries",
        key="slug, id and last instant of the snapshot",
        inputs="the snapshot, and usage up to its instant",
        range="the snapshot's instant",
        ends="the newest ones push it out; a snapshot of another instant has another key",
    ),
)

F8 = npt.NDArray[np.float64]
_NEGLIGIBLE = 1e-3  # weight at the end of the window below which the closed form ignores the window
Method = Literal["closed_form", "hour_by_hour"]
DAYS = (1, 2, 3, 5, 7, 10, 14, 21, 28)
_WEEK_DAYS = 7
_MOST_CACHED_ENTRY_FORECASTS = 2


@dataclass(frozen=True)
class LevelState:
    """An entry in its group: decayed usage, target 0..1, and half the width of the band around it.

    is_idle: no usage and no demand, although it has a target.
    """

    own_usage: float
    group_usage: float
    target: float
    slack: float
    is_idle: bool = False

    @property
    def actual(self) -> float:
        return self.own_usage / self.group_usage if self.group_usage > 0 else 0.0

    @property
    def edge(self) -> float | None:
        """The nearer edge of the band around the target, None within it: on target."""
        if self.group_usage <= 0 or is_on_target(self.actual, self.target, self.slack):
            return None
        return min(max(self.target + math.copysign(self.slack, self.actual - self.target), 0.0), 1.0)


@dataclass(frozen=True, eq=False)
class Outlook:
    """Forecast of one level. share: its assumed fraction of new usage in its group; share_seen: its fraction in recent
    days.

    daily_group: usage of the group on each recent day; days: which these are. to_target: when it is on target, which is
    at the nearer edge of the band around it. course: usage from now on, hour by hour. find: returns when the entry has
    a given fraction of its group. with_share: `find` for another share of new usage.
    """

    state: LevelState
    share: float
    share_seen: float | None
    daily_group: F8
    days: PaceDays | None
    method: Method
    to_target: RecoveryRange
    course: Course
    find: Callable[[float], RecoveryRange]
    with_share: Callable[[float], Callable[[float], RecoveryRange]]
    is_scenario: bool = False  # `share` is assumed by the reader, not measured

    @property
    def is_known(self) -> bool:
        """Whether a time can be forecast: it is on target now, or its pace is known from some day."""
        return bool(len(self.daily_group)) or self.state.edge is None

    def at_share(self, share: float) -> RecoveryRange:
        """Return when it is on target at another share of the group's usage."""
        return _to_target(self.state, self.with_share(share))

    def pace(self, daily_group: float) -> UsageRate:
        return UsageRate(self.share * daily_group / DAY_S, daily_group / DAY_S)

    @property
    def paces(self) -> tuple[UsageRate, ...]:
        """Rates of the recent days: the least, the slow, the usual, the fast and the most; five, slowest first."""
        days = _known_days(self.daily_group)
        daily = (float(days.min()), *(rate * DAY_S for rate in usual_rates(days)), float(days.max()))
        return tuple(self.pace(rate) for rate in daily)


def forecast_level(
    state: LevelState, past: LevelPast, window: Window, *, as_of_s: float, share: float | None = None
) -> Outlook:
    """Forecast one level if usage continues as in the recent days. share: instead of the entry's recent fraction."""
    whole = float(past.group_daily.sum())
    measured = min(float(past.own_daily.sum()) / whole, 1.0) if whole > 0 else None
    assumed = share if share is not None else measured if measured is not None else 0.0
    with_share: Callable[[float], Callable[[float], RecoveryRange]]
    if uses_closed_form(window):
        endless = replace(window, length_s=None)
        course = fading_course(_balance(state, state.target), endless, hours=24 * HORIZON_DAYS)
        with_share = partial(_ClosedForm, state, past.group_daily, endless)
        method: Method = "closed_form"
    else:
        course = _course(state, past, window, as_of_s)
        with_share = partial(_OnCourse, course, past.group_daily)
        method = "hour_by_hour"
    find = with_share(assumed)
    return Outlook(
        state,
        assumed,
        measured,
        past.group_daily,
        past.days,
        method,
        _to_target(state, find),
        course,
        find,
        with_share,
        is_scenario=share is not None,
    )


def with_target(outlook: Outlook, *, target: float, slack: float) -> Outlook:
    """Return the forecast with another target, 0..1, and half the width of its tolerance; usage is unchanged.

    Equal to `forecast_level` with that target, but cheap.
    """
    if (outlook.state.target, outlook.state.slack) == (target, slack):
        return outlook
    state = replace(outlook.state, target=target, slack=slack)
    return replace(outlook, state=state, to_target=_to_target(state, outlook.find))


def _to_target(state: LevelState, find: Callable[[float], RecoveryRange]) -> RecoveryRange:
    return RecoveryRange(ON_TARGET, ON_TARGET, ON_TARGET) if state.edge is None else find(state.edge)


def uses_closed_form(window: Window) -> bool:
    """Whether the closed form applies: no window, or usage is negligible when its window ends."""
    endless = replace(window, length_s=None) if window.aging != "linear" else window
    if not has_closed_form(endless):
        return False
    return window.length_s is None or float(weights(np.array([window.length_s]), endless)[0]) <= _NEGLIGIBLE


def needs_hourly_usage(window: Window) -> bool:
    """Whether the forecast needs past usage by the hour."""
    return not uses_closed_form(window)


class _ClosedForm:
    """Time of return to any target by the closed form. `steady_rate` corrects for hours that start to decay when they
    end.
    """

    def __init__(self, state: LevelState, days: F8, window: Window, share: float) -> None:
        self.state, self.share = state, share
        self.rates = usual_rates(_known_days(days) * steady_rate(window))
        self.half_life_s = half_life_s_of(window)

    def __call__(self, target: float) -> RecoveryRange:
        recoveries = recovery_range(
            _balance(self.state, target), rates=self.rates, share=self.share, half_life_s=self.half_life_s
        )
        return RecoveryRange(
            *(_bounded(recovery) for recovery in (recoveries.soonest, recoveries.middle, recoveries.latest))
        )


class _OnCourse:
    """Time of return to any target on a course computed hour by hour."""

    def __init__(self, course: Course, days: F8, share: float) -> None:
        rates = usual_rates(_known_days(days))
        self.course, self.paces = course, [UsageRate(share * rate, rate) for rate in rates]

    def __call__(self, target: float) -> RecoveryRange:
        slow, middle, fast = (catch_up(self.course, target, pace) for pace in self.paces)
        first, last = sorted((slow, fast), key=lambda recovery: math.inf if recovery.in_s is None else recovery.in_s)
        return RecoveryRange(first, middle, last)


def _known_days(daily: F8) -> F8:
    """Usage by day, with one day of none where no day is known."""
    return daily if len(daily) else np.zeros(1)


def _bounded(recovery: Recovery) -> Recovery:
    too_far = recovery.in_s is not None and recovery.in_s > HORIZON_DAYS * DAY_S
    return Recovery("not_within_horizon", None) if too_far else recovery


def _balance(state: LevelState, target: float) -> Balance:
    return Balance(min(state.own_usage, state.group_usage), state.group_usage, target)


def _course(state: LevelState, past: LevelPast, window: Window, as_of_s: float) -> Course:
    """Compute the course hour by hour, scaled to the present usage, which includes adjustments and running jobs."""
    if past.history is None or not len(past.history.hour_start_s):
        return fading_course(_balance(state, state.target), Window(), hours=24 * HORIZON_DAYS)
    course = course_in_window(past.history, window, as_of_s=as_of_s, hours=24 * HORIZON_DAYS)
    own = _scaled(course.own_usage, state.own_usage)
    group = _scaled(course.group_usage, state.group_usage)
    return replace(course, own_usage=np.minimum(own, group), group_usage=group)


def _scaled(known: F8, now: float) -> F8:
    if known[0] > 0:
        return known if math.isclose(known[0], now, rel_tol=1e-9) else known * (now / known[0])
    return known + np.where(np.arange(len(known)) == 0, now, 0.0)


def instant_of(as_of: datetime, recovery: Recovery) -> datetime | None:
    """Return the instant of a recovery to come; None for one that is there or never comes."""
    return None if not recovery.in_s else as_of + timedelta(seconds=recovery.in_s)


@dataclass(frozen=True)
class DatedRecovery:
    """A recovery with its instant, both None if there is none."""

    outcome: Outcome
    in_s: Annotated[float | None, "Seconds after as_of; null: never, or too far ahead"]
    at: datetime | None

    @classmethod
    def of(cls, recovery: Recovery, as_of: datetime) -> DatedRecovery:
        at = None if recovery.in_s is None else as_of + timedelta(seconds=recovery.in_s)
        return cls(recovery.outcome, recovery.in_s, at)


@dataclass(frozen=True)
class DatedRecoveryRange:
    """`RecoveryRange` with instants."""

    soonest: DatedRecovery
    middle: DatedRecovery
    latest: DatedRecovery

    @classmethod
    def of(cls, recoveries: RecoveryRange, as_of: datetime) -> DatedRecoveryRange:
        each = (recoveries.soonest, recoveries.middle, recoveries.latest)
        return cls(*(DatedRecovery.of(recovery, as_of) for recovery in each))


@dataclass(frozen=True)
class DailyUsage:
    """Usage of a group a day on recent days, in the policy's metric: extremes, quartiles and the usual pace."""

    least: float
    p25: float
    p50: float
    usual: Annotated[float, "To which dates refer: p50, or the mean if a quarter of the days is without usage"]
    p75: float
    most: float

    @classmethod
    def of(cls, daily: F8) -> DailyUsage:
        days = _known_days(daily)
        least, p25, p50, p75, most = np.percentile(days, [0, 25, 50, 75, 100]).tolist()
        return cls(least, p25, p50, usual_rates(days)[1] * DAY_S, p75, most)


def curve_of(outlook: Outlook, as_of: datetime, *, days: float, n_points: int = 41) -> Sequence[CurvePoint]:
    """Return the curve over the next days. The fraction is between that without new usage and the share
    of new usage.
    """
    hours = np.linspace(0.0, days * 24, n_points)
    course = outlook.course
    parts = np.stack([np.interp(hours, course.hours, course.part(pace)) for pace in outlook.paces])
    least, most = np.sort(parts[[0, 4]], axis=0)
    p25, p75 = np.sort(parts[[1, 3]], axis=0)
    columns = np.stack([hours, parts[2], least, p25, p75, most])
    return [CurvePoint(as_of + timedelta(hours=hour), *values) for hour, *values in columns.T.tolist()]


@dataclass(frozen=True)
class FactorPoint:
    """The factor, 0..1, some days after the snapshot."""

    days: Annotated[int, "After as_of"]
    at: datetime
    factor: float


@dataclass(frozen=True, eq=False)
class FactorAhead:
    """points: from now on; empty if there is too much usage to read. level: the entry on the path whose effect on the
    factor changes most; None if none does or the algorithm has no effects by level.
    """

    points: Annotated[
        Sequence[FactorPoint], "Factor as it would be recomputed then; empty if there is too much usage to read"
    ]
    level: int | None
    level_path: Annotated[str | None, "Path of the entry whose effect on the factor changes most"]
    messages: Sequence[Message]

    @property
    def sentence(self) -> str:
        return text_of(self.messages)


def factor_ahead(policy: Policy, snapshot: ServedSnapshot, entry: int) -> FactorAhead | None:
    """Forecast the factor; None for an entry without one, and where levels decide, which have curves of their own."""
    if snapshot.order.explanation.kind == "levels" or not snapshot.values.has_factor[entry]:
        return None
    ahead = _simulate_days(policy, snapshot)
    if ahead is None:
        return FactorAhead((), None, None, [build_message("forecast.factor_too_many_hours")])
    now = FactorPoint(0, snapshot.as_of, float(snapshot.values.factor[entry]))
    points = [now] + [
        FactorPoint(days, snapshot.as_of + timedelta(days=days), float(factors[entry]))
        for days, factors in zip(DAYS, ahead.factors, strict=True)
    ]
    level = _level_of_change(snapshot, ahead.last, entry)
    path = None if level is None else snapshot.index.path(level)
    return FactorAhead(points, level, path, _messages(snapshot, ahead.last, points, level))


def _messages(
    snapshot: ServedSnapshot, last: PriorityResult, points: Sequence[FactorPoint], level: int | None
) -> list[Message]:
    facts = {"factor": points[0].factor, "horizon_s": float(DAYS[-1] * DAY_S)}
    if len({written(point.factor) for point in points}) == 1:
        return [build_message("forecast.factor_stays", **facts)]
    week = next(point.factor for point in points if point.days == _WEEK_DAYS)
    messages = [
        build_message(
            "forecast.factor_goes",
            **facts,
            week_factor=week,
            in_s=float(_WEEK_DAYS * DAY_S),
            month_factor=points[-1].factor,
        )
    ]
    if level is None:
        return messages
    tree = snapshot.tree
    names = {"name": tree.name[level], "parent": tree.name[int(tree.parent[level])]}
    actual = {"other_actual": float(snapshot.values.actual[level]), "actual": float(last.actual[level])}
    return [*messages, build_message("forecast.factor_by_level", **names, **actual, horizon_s=facts["horizon_s"])]


def _level_of_change(snapshot: ServedSnapshot, last: PriorityResult, entry: int) -> int | None:
    """Return the entry on the path whose contribution to log2 F differs most between now and the last day."""
    chain = [*snapshot.tree.ancestors(entry), entry][1:]
    damping = float(snapshot.algorithm.get("damping_factor", 1))

    def changes(values: Numbers) -> list[float]:
        effects = effects_of(snapshot.order.explanation, values, chain, damping)
        return [0.0 if effect is None else effect.change for effect in effects]

    pairs = zip(changes(snapshot.values), changes(last), strict=True)
    sizes = [0.0 if present == other else abs(present - other) for present, other in pairs]  # both may be −inf
    return chain[sizes.index(max(sizes))] if any(sizes) else None


@dataclass(frozen=True, eq=False)
class _Simulated:
    """factors: (n,) for each of `DAYS`. last: all numbers of the last day."""

    factors: Sequence[F8]
    last: PriorityResult


@cached(LRUCache(_MOST_CACHED_ENTRY_FORECASTS), key=snapshot_key, lock=Lock())
def _simulate_days(policy: Policy, snapshot: ServedSnapshot) -> _Simulated | None:
    """Simulate all days; cached, because other accounts of the policy need the same."""
    inputs = load_snapshot_inputs(policy, snapshot)
    if inputs is None:
        return None
    try:
        (days,) = simulate(inputs, [Changes()], DAYS, is_order_independent=False)
    except Invalid:  # an operator's package failed on simulated usage
        return None
    return _Simulated([each.result.factor for each in days], days[-1].result)
