"""When an entry returns to its target at a given pace of usage, and the future balance of its group at any pace.

Of a sibling group: `own` is the entry's usage, `group` that of all siblings, `share` the entry's part of the group's
future usage. The entry is over target if own > target · group and under target if own < target · group.

The future balance is computed once for all paces: weighted usage is linear in added usage, so usage at a future instant
is the decayed known usage, plus the pace times the weighted usage of a steady pace of one a second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import FloatArray
from apps.engine.decay import Window, bucket_weights, weights
from apps.engine.decay_functions import BUCKET_S
from apps.engine.errors import BadParameter

Outcome = Literal["on_target", "recovers", "never_if_nobody_runs", "not_at_this_pace", "not_within_horizon"]
_TIE = 1e-12
_FADED = 1e-200
_AT_ONCE_S = 1e-3  # a half-life after which everything is gone within a second
# Windows with w(a + b) = w(a) · w(b): usage of any age decays alike. `pbs` also multiplies all usage at its instants.
_GEOMETRIC = ("none", "exponential", "slurm", "gridengine", "lsf")
_SCALES_ALIKE = (*_GEOMETRIC, "pbs")
_DENSE_H = 14 * 24  # up to here every hour is computed, beyond it every sixth
_SPARSE_H = 6


@dataclass(frozen=True)
class Balance:
    """An entry's balance: usage in one unit, weighted by age in the policy's window. target: 0..1."""

    own_usage: float
    group_usage: float
    target: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.group_usage) and 0 <= self.own_usage <= self.group_usage * (1 + _TIE)):
            raise BadParameter("own usage from 0 to the group's is allowed", place="own_usage")
        if not 0 <= self.target <= 1:
            raise BadParameter("0..1 is allowed", place="target")

    @property
    def excess_usage(self) -> float:
        """own − target · group: > 0 over target, < 0 under it, 0 on it."""
        wished = self.target * self.group_usage
        excess = self.own_usage - wished
        return 0.0 if abs(excess) <= _TIE * max(self.own_usage, wished) else excess


@dataclass(frozen=True)
class Recovery:
    """The outcome for an entry. in_s: seconds from now, 0 on target; set for `on_target` and `recovers` only.

    never_if_nobody_runs: without new usage the proportions stay, so the shares don't change. not_at_this_pace: the
    entry's part of new usage keeps it on its side of the target for ever. not_within_horizon: neither shown nor
    excluded within the requested horizon.
    """

    outcome: Outcome
    in_s: float | None


ON_TARGET = Recovery("on_target", 0.0)


def recovery(balance: Balance, *, group_rate: float, share: float, half_life_s: float | None) -> Recovery:
    """When target and actual meet, in closed form, for windows without an end.

    group_rate: usage a second of the whole group, R ≥ 0. share: the entry's part r of it, 0..1. half_life_s: h of
    exponential decay, None for none. With x = own − t · group, y = (t − r) · K and K = R · h/ln 2: h · log₂((x + y)/y)
    seconds; without decay x/((t − r) · R). Meeting requires y of the sign of x: an over-used entry that runs less than
    its target, or a starved one that runs more. Source: excess(a) = (x + y) · 2^(−a/h) − y after a seconds, from own' =
    r · R − (ln 2/h) · own and likewise for the group.
    """
    _check_pace(group_rate, share)
    excess = balance.excess_usage
    if excess == 0.0:
        return ON_TARGET
    if group_rate == 0.0:
        return Recovery("never_if_nobody_runs", None)
    gap = balance.target - share
    if abs(gap) <= _TIE or (gap > 0) != (excess > 0):
        return Recovery("not_at_this_pace", None)
    if half_life_s is None:
        return _recovers(excess / (gap * group_rate))
    if not 0 < half_life_s < math.inf:
        raise BadParameter("seconds > 0 are allowed", place="half_life_s")
    pull = gap * group_rate * half_life_s / math.log(2.0)
    return _recovers(half_life_s * math.log1p(excess / pull) / math.log(2.0))


def has_closed_form(window: Window) -> bool:
    """Whether `recovery` applies to this window: exponential decay or none, and no end."""
    return window.reach_s is None and window.aging in _GEOMETRIC


def scales_alike(window: Window) -> bool:
    """Whether decay alone preserves the proportions of usage for ever, so that nothing changes while no job runs."""
    return window.reach_s is None and window.aging in _SCALES_ALIKE


def half_life_s_of(window: Window) -> float | None:
    """The half-life for `recovery`, None if nothing decays; BadParameter if the window has no closed form."""
    if not has_closed_form(window):
        raise BadParameter(f"aging {window.aging!r} or the window's end has no closed form", place="window")
    for age_s in (86_400.0, 3600.0, 60.0, 1.0):
        left = float(weights(np.array([age_s]), window)[0])
        if left == 1.0:
            return None
        if left > _FADED:
            return -age_s * math.log(2.0) / math.log(left)
    return _AT_ONCE_S


def _recovers(in_s: float) -> Recovery:
    return Recovery("recovers", in_s) if math.isfinite(in_s) else Recovery("not_within_horizon", None)


def _check_pace(group_rate: float, share: float) -> None:
    if not 0 <= group_rate < math.inf:
        raise BadParameter("a finite number ≥ 0 is allowed", place="group_rate")
    if not 0 <= share <= 1:
        raise BadParameter("0..1 is allowed", place="share")


@dataclass(frozen=True)
class RecoveryRange:
    """Recovery at three paces of the group: the soonest and the latest of them, and that at the middle pace."""

    soonest: Recovery
    middle: Recovery
    latest: Recovery


def usual_rates(daily_usage: Sequence[float] | FloatArray) -> tuple[float, float, float]:
    """Usage a second, slow, usual and fast: the usual one is 0 only if none of the recent days has usage.

    It is that of the median day, which one exceptional day doesn't change. If a quarter of the days or more is without
    usage it is the mean: decayed usage is linear in the pace, and the median of days with and without jobs is neither.
    slow, fast: the 25th and the 75th percentile, and the usual one where it is beyond them. In the unit of daily_usage
    a second; BadParameter without days.
    """
    if not len(daily_usage):
        raise BadParameter("at least one day is needed", place="daily_usage")
    days = np.asarray(daily_usage, dtype=np.float64)
    quiet, middle, busy = np.percentile(days, [25, 50, 75]).tolist()
    usual = middle if quiet > 0 else float(days.mean())
    return min(quiet, usual) / 86_400.0, usual / 86_400.0, max(busy, usual) / 86_400.0


def recovery_range(
    balance: Balance, *, rates: Sequence[float], share: float, half_life_s: float | None
) -> RecoveryRange:
    """Recovery at three paces of the group, slowest first, as returned by `usual_rates`.

    No recovery counts as later than any recovery.
    """
    slow, middle, fast = (recovery(balance, group_rate=rate, share=share, half_life_s=half_life_s) for rate in rates)
    first, last = sorted((slow, fast), key=lambda estimate: math.inf if estimate.in_s is None else estimate.in_s)
    return RecoveryRange(first, middle, last)


@dataclass(frozen=True, eq=False)
class History:
    """Usage by hour, as stored in buckets: hour_start_s ascending epoch seconds, own and group unweighted, (hours,)."""

    hour_start_s: FloatArray
    own_usage: FloatArray
    group_usage: FloatArray


def recovery_in_window(
    history: History,
    *,
    target: float,
    as_of_s: float,
    window: Window,
    group_rate: float,
    share: float,
    horizon_s: float,
) -> Recovery:
    """Recovery for any window and decay, hour by hour: the first full hour from now at which the balance has turned.

    Each hour's buckets are weighted as a recompute would weight them; new usage is evenly distributed. If a window or
    its decay function has a limited reach, no old usage is left after it; a balance that hasn't turned by then never
    does (`not_at_this_pace`). A group whose window is empty is on target, because it has no usage.
    """
    _check_pace(group_rate, share)
    if not BUCKET_S <= horizon_s < math.inf:
        raise BadParameter("an hour or more is allowed", place="horizon_s")
    start = _balance_after(history, 0, target, as_of_s, window, group_rate, share)
    if start == 0:
        return ON_TARGET
    settled_s = math.inf if window.reach_s is None else window.reach_s + 2 * BUCKET_S
    for hours in range(1, math.ceil(min(horizon_s, settled_s) / BUCKET_S) + 1):
        if _balance_after(history, hours, target, as_of_s, window, group_rate, share) * start <= 0:
            return Recovery("recovers", float(hours * BUCKET_S))
    if group_rate == 0.0 and scales_alike(window):
        return Recovery("never_if_nobody_runs", None)
    if settled_s <= horizon_s or _stays(target, share, start, group_rate, window):
        return Recovery("not_at_this_pace", None)
    return Recovery("not_within_horizon", None)


def _stays(target: float, share: float, sign: int, group_rate: float, window: Window) -> bool:
    """Whether new usage keeps the entry on its side of the target, in a window without end and with uniform decay."""
    return scales_alike(window) and group_rate > 0 and (share - target) * sign >= 0


def _balance_after(
    history: History, hours: int, target: float, as_of_s: float, window: Window, group_rate: float, share: float
) -> int:
    """The sign of the balance after this many hours: 1 over target, 0 on it, −1 under it."""
    then_s = as_of_s + hours * BUCKET_S
    old = bucket_weights(history.hour_start_s, then_s, window)
    new = float(bucket_weights(as_of_s + BUCKET_S * np.arange(hours), then_s, window).sum()) * group_rate * BUCKET_S
    own = float((old * history.own_usage).sum()) + share * new
    group = float((old * history.group_usage).sum()) + new
    return int(np.sign(Balance(min(own, group), group, target).excess_usage))


@dataclass(frozen=True)
class UsageRate:
    """Usage a second from now on: the entry's own and the whole group's, 0 ≤ own ≤ group."""

    own_rate: float
    group_rate: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.group_rate) and 0 <= self.own_rate <= self.group_rate * (1 + 1e-12)):
            raise BadParameter("a finite pace from 0 to the group's is allowed", place="pace")


@dataclass(frozen=True, eq=False)
class Course:
    """Future usage at `hours` from now, (m,), ascending from 0: known usage, weighted then, own and of the group.

    steady_s: weighted usage of one a second from now on. fades_alike: decay preserves the proportions of known usage.
    is_whole: nothing changes after the last hour, because a window has passed.
    """

    hours: FloatArray
    own_usage: FloatArray
    group_usage: FloatArray
    steady_s: FloatArray
    fades_alike: bool
    is_whole: bool = False

    def at(self, pace: UsageRate) -> tuple[FloatArray, FloatArray]:
        """Own and group usage at each of the hours, (m,) each."""
        own, group = pace.own_rate * self.steady_s, pace.group_rate * self.steady_s
        return self.own_usage + np.maximum(own, 0.0), self.group_usage + np.maximum(group, 0.0)

    def part(self, pace: UsageRate) -> FloatArray:
        """own / group at each of the hours, (m,); 0 where the group has none."""
        own, group = self.at(pace)
        return np.divide(own, group, out=np.zeros_like(own), where=group > 0)


def steady_rate(window: Window) -> float:
    """Factor of a pace in `recovery` that makes it count as usage in whole hours, which age from their end.

    K of whole hours is 1 h/(1 − w), w being the part of an hour that is left after an hour; K of the closed form is
    h/ln 2. 1 without decay.
    """
    half_life_s = half_life_s_of(window)
    if half_life_s is None:
        return 1.0
    left = 2.0 ** (-BUCKET_S / half_life_s)
    return float(BUCKET_S * math.log(2.0) / (half_life_s * (1.0 - left)))


def fading_course(balance: Balance, window: Window, *, hours: int) -> Course:
    """The course for a window with uniform decay and no end, for which the balance alone is sufficient."""
    half_life_s = half_life_s_of(window)
    grid = _grid(hours, dense_h=_DENSE_H)
    if half_life_s is None:
        constant = np.ones_like(grid)
        return Course(
            grid, balance.own_usage * constant, balance.group_usage * constant, grid * BUCKET_S, fades_alike=True
        )
    with np.errstate(under="ignore"):
        left = np.exp2(-grid * BUCKET_S / half_life_s)
    steady_s = BUCKET_S * (1.0 - left) / (1.0 - 2.0 ** (-BUCKET_S / half_life_s))
    return Course(grid, balance.own_usage * left, balance.group_usage * left, steady_s, fades_alike=True)


def course_in_window(history: History, window: Window, *, as_of_s: float, hours: int) -> Course:
    """The course for any window: each hour's usage is weighted at each future hour as a recompute would weight it."""
    settled_h = math.inf if window.reach_s is None else math.ceil(window.reach_s / BUCKET_S) + 2
    is_whole, hours = settled_h <= hours, int(min(hours, settled_h))
    if window.depends_on_instant:
        grid = _grid(hours, dense_h=0)
        both = np.stack([history.own_usage, history.group_usage])
        known = np.stack([_weighed(history, both, as_of_s + hour * BUCKET_S, window) for hour in grid.tolist()])
        steady_s = np.array([_steady_s(hour, as_of_s, window) for hour in grid.tolist()])
        return Course(grid, known[:, 0], known[:, 1], steady_s, scales_alike(window), is_whole)
    grid = _grid(hours, dense_h=_DENSE_H)
    own, group, newest_age_s = _by_lag(history, as_of_s)
    age_s = np.maximum(newest_age_s + BUCKET_S * np.arange(len(own) + hours), 0.0)
    weight = weights(age_s, window)
    lags = len(own)
    indices = grid.astype(np.int64)
    known = np.array([[weight[at : at + lags] @ own, weight[at : at + lags] @ group] for at in indices.tolist()])
    summed = np.concatenate([[0.0], np.cumsum(weights(BUCKET_S * np.arange(hours, dtype=np.float64), window))])
    return Course(grid, known[:, 0], known[:, 1], BUCKET_S * summed[indices], scales_alike(window), is_whole)


def catch_up(course: Course, target: float, pace: UsageRate) -> Recovery:
    """When own / group meets `target`, interpolated linearly between two hours of the course.

    Outcomes are those of `recovery_in_window`; a course that ends with its window is complete.
    """
    own, group = course.at(pace)
    own = np.minimum(own, group)
    excess = own - target * group
    excess[np.abs(excess) <= 1e-12 * np.maximum(own, target * group)] = 0.0
    if excess[0] == 0.0:
        return ON_TARGET
    turned = np.flatnonzero(excess * np.sign(excess[0]) <= 0)
    if len(turned):
        after = int(turned[0])
        before = after - 1
        part = excess[before] / (excess[before] - excess[after])
        return Recovery("recovers", float(BUCKET_S * (course.hours[before] + part * (np.diff(course.hours)[before]))))
    runs = pace.group_rate > 0
    if not runs and course.fades_alike:
        return Recovery("never_if_nobody_runs", None)
    share = pace.own_rate / pace.group_rate if runs else 0.0
    if course.is_whole or (course.fades_alike and (share - target) * excess[0] >= 0):
        return Recovery("not_at_this_pace", None)
    return Recovery("not_within_horizon", None)


def _grid(hours: int, *, dense_h: int) -> FloatArray:
    dense = np.arange(min(dense_h, hours) + 1, dtype=np.float64)
    sparse = np.arange(dense[-1] + _SPARSE_H, hours + _SPARSE_H, _SPARSE_H)
    return np.concatenate([dense, np.minimum(sparse, hours)])


def _by_lag(history: History, as_of_s: float) -> tuple[FloatArray, FloatArray, float]:
    """Usage by how many hours ago it was, (lags,), own and group, and the age of the newest hour."""
    start_s = np.asarray(history.hour_start_s, dtype=np.float64)
    if not len(start_s):
        return np.zeros(1), np.zeros(1), 0.0
    newest_s = math.ceil(as_of_s / BUCKET_S) * BUCKET_S - BUCKET_S
    lag = np.maximum((newest_s - np.floor(start_s / BUCKET_S) * BUCKET_S) / BUCKET_S, 0).astype(np.int64)
    own = np.bincount(lag, weights=history.own_usage).astype(np.float64)
    group = np.bincount(lag, weights=history.group_usage).astype(np.float64)
    return own, group, as_of_s - newest_s - BUCKET_S


def _weighed(history: History, both: npt.NDArray[np.float64], then_s: float, window: Window) -> FloatArray:
    sums: FloatArray = both @ bucket_weights(history.hour_start_s, then_s, window)
    return sums


def _steady_s(hours: float, as_of_s: float, window: Window) -> float:
    starts_s = as_of_s + BUCKET_S * np.arange(int(hours))
    return float(BUCKET_S * bucket_weights(starts_s, as_of_s + hours * BUCKET_S, window).sum())
