"""The future balance of a group, as numbers that are scaled by any pace: computed once for all paces.

Weighted usage is linear in added usage, so that own and group usage at a future instant are the known usage, aged,
plus a steady usage of one a second, weighted alike, times the pace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import FloatArray
from apps.engine.decay import BUCKET_S, Window, bucket_weights, weights
from apps.engine.errors import BadParameter
from apps.engine.explain.recovery import ON_TARGET, Balance, History, Recovery, half_life_s_of, scales_alike

_BY_INSTANTS = ("pbs", "flux")  # their weights depend on the instant and not on the age alone
_DENSE_H = 14 * 24  # up to here every hour is computed; beyond, every sixth
_SPARSE_H = 6


@dataclass(frozen=True)
class Pace:
    """Usage a second from now on: the entry's own and the whole group's, 0 ≤ own ≤ group."""

    own_rate: float
    group_rate: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.group_rate) and 0 <= self.own_rate <= self.group_rate * (1 + 1e-12)):
            raise BadParameter("a finite pace from 0 to the group's is allowed", place="pace")


@dataclass(frozen=True)
class Spell:
    """Another pace for the first hours from now on."""

    pace: Pace
    hours: float


@dataclass(frozen=True, eq=False)
class Course:
    """At `hours` from now, (m,), ascending from 0: usage that is known now, weighted then, own and of the group; and
    `steady_s`, what one a second from now on comes to. fades_alike: aging keeps the proportions of what is known.
    is_whole: nothing changes any more after the last hour, because a window has passed.
    """

    hours: FloatArray
    own_usage: FloatArray
    group_usage: FloatArray
    steady_s: FloatArray
    fades_alike: bool
    is_whole: bool = False

    def at(self, pace: Pace, spell: Spell | None = None) -> tuple[FloatArray, FloatArray]:
        """Own and group usage at each of the hours, (m,) each."""
        own, group = pace.own_rate * self.steady_s, pace.group_rate * self.steady_s
        if spell is not None:
            after = np.interp(self.hours - spell.hours, self.hours, self.steady_s, left=0.0)
            within = self.steady_s - after
            own = own + (spell.pace.own_rate - pace.own_rate) * within
            group = group + (spell.pace.group_rate - pace.group_rate) * within
        return self.own_usage + np.maximum(own, 0.0), self.group_usage + np.maximum(group, 0.0)

    def part(self, pace: Pace, spell: Spell | None = None) -> FloatArray:
        """own / group at each of the hours, (m,); 0 where the group has none."""
        own, group = self.at(pace, spell)
        return np.divide(own, group, out=np.zeros_like(own), where=group > 0)


def steady_rate(window: Window) -> float:
    """By how much a pace has to be multiplied in `recovery` to count as hours do, which begin to age when they end.

    K of whole hours is 1 h/(1 − w) with w = what an hour leaves, K of the closed form h/ln 2; 1 without aging.
    """
    half_life_s = half_life_s_of(window)
    if half_life_s is None:
        return 1.0
    left = 2.0 ** (-BUCKET_S / half_life_s)
    return float(BUCKET_S * math.log(2.0) / (half_life_s * (1.0 - left)))


def fading_course(balance: Balance, window: Window, *, hours: int) -> Course:
    """For a window in which all ages alike and that never ends: the balance alone is enough."""
    half_life_s = half_life_s_of(window)
    grid = _grid(hours, dense_h=_DENSE_H)
    if half_life_s is None:
        one = np.ones_like(grid)
        return Course(grid, balance.own_usage * one, balance.group_usage * one, grid * BUCKET_S, fades_alike=True)
    with np.errstate(under="ignore"):
        left = np.exp2(-grid * BUCKET_S / half_life_s)
    steady_s = BUCKET_S * (1.0 - left) / (1.0 - 2.0 ** (-BUCKET_S / half_life_s))
    return Course(grid, balance.own_usage * left, balance.group_usage * left, steady_s, fades_alike=True)


def course_in_window(history: History, window: Window, *, as_of_s: float, hours: int) -> Course:
    """For any window: each hour's usage is weighted at each future hour as a recompute would weight it."""
    settled_h = math.inf if window.reach_s is None else math.ceil(window.reach_s / BUCKET_S) + 2
    is_whole, hours = settled_h <= hours, int(min(hours, settled_h))
    if window.aging in _BY_INSTANTS:
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
    places = grid.astype(np.int64)
    known = np.array([[weight[at : at + lags] @ own, weight[at : at + lags] @ group] for at in places.tolist()])
    summed = np.concatenate([[0.0], np.cumsum(weights(BUCKET_S * np.arange(hours, dtype=np.float64), window))])
    return Course(grid, known[:, 0], known[:, 1], BUCKET_S * summed[places], scales_alike(window), is_whole)


def meeting(course: Course, target: float, pace: Pace, spell: Spell | None = None) -> Recovery:
    """When own / group meets `target` on a course: between two of its hours on the straight line between them.

    Outcomes as those of `recovery_in_window`; a course that ends with its window is complete.
    """
    own, group = course.at(pace, spell)
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
    found: FloatArray = both @ bucket_weights(history.hour_start_s, then_s, window)
    return found


def _steady_s(hours: float, as_of_s: float, window: Window) -> float:
    starts_s = as_of_s + BUCKET_S * np.arange(int(hours))
    return float(BUCKET_S * bucket_weights(starts_s, as_of_s + hours * BUCKET_S, window).sum())
