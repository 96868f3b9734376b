"""Judges daily shares: which entries are on target or idle, which diverge since when, which wait below target; and
computes figures of merit.

Pure functions from arrays to sentences. A share is outside the band if it differs from the target by more than the
tolerance. An entry *diverges* if it is outside, is further away than at its nearest since it was last inside by more
than half the tolerance, and is not returning (within a tenth of the furthest distance since). An entry is *idle* if it
is below the band without waiting jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from math import inf
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from apps.engine import convergence as engine
from apps.engine.convergence import DayState, HalfTime, Outcome
from apps.engine.target_state import is_on_target, slack_of
from apps.policies.settings import tolerances_of
from apps.priorities.level_facts import StateCount
from apps.series.convergence.messages import Sentence, build_sentence, side_label
from apps.series.convergence.query import BEFORE_ENTRY
from apps.series.daily_series import F8, DailySeries, Mask, SeriesDays

Course = Literal["on", "idle", "moves_away", "starved", "approaching", "steady", "unknown"]
States = npt.NDArray[np.str_]
QUIET = ("no_demand", "met", "")
_MOST_NAMED_DIVERGING = 2
_RETURNED = 0.9
NAMES = np.array([""] + [state.name.lower() for state in DayState if state is not DayState.ABSENT])


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of entries by day: fractions, NaN where unknown or hidden. slack: half the width of the tolerance band."""

    names: Sequence[str]
    on: Sequence[date]
    actual: F8
    target: F8
    slack: F8
    states: States

    @property
    def deviation(self) -> F8:
        deviation: F8 = self.actual - self.target
        return deviation

    @property
    def is_by_hour(self) -> bool:
        return bool(self.on) and isinstance(self.on[0], datetime)

    def step_sentence(self, key: str, **values: Any) -> Sentence:
        """Return a sentence that counts days, or its variant that counts hours."""
        return build_sentence(f"{key}_hours" if self.is_by_hour else key, **values)


@dataclass(frozen=True, slots=True)
class EntryVerdict:
    """One entry on the last day: its trend, since when, and its deviation in points (positive: over target)."""

    course: Course
    since: date | None = None
    first: int = 0  # index of that day
    points: float = 0.0

    @property
    def side(self) -> str:
        return "over" if self.points > 0 else "under"


def assess_entries(shares: Shares) -> list[EntryVerdict]:
    deviation = shares.deviation
    return [_assess_entry(shares, row, deviation[row]) for row in range(len(shares.names))]


def _assess_entry(shares: Shares, row: int, deviation: F8) -> EntryVerdict:
    if not deviation.size or not np.isfinite(deviation[-1]):
        return EntryVerdict("unknown")
    state, points = str(shares.states[row, -1]), float(deviation[-1]) * 100
    if state == "on":
        return EntryVerdict("on", points=points)
    if state in QUIET:
        return EntryVerdict("idle", points=points)
    if state == "starved":
        first = _since(shares.states[row] == "starved")
        return EntryVerdict("starved", shares.on[first], first, points)
    away, slack = np.abs(deviation), shares.slack[row]
    first = _last_inside(shares, row)
    nearest = first + _nearest(away[first:])
    moved = away[-1] - away[nearest] > slack[-1] / 2
    if moved and away[-1] >= _RETURNED * np.nanmax(away[nearest:]):
        return EntryVerdict("moves_away", shares.on[nearest], nearest, points)
    if away[-1] < _RETURNED * np.nanmax(away[first:]):
        return EntryVerdict("approaching", shares.on[first], first, points)
    return EntryVerdict("steady", shares.on[first], first, points)


def _since(mask: Mask) -> int:
    """Return the first day of the unbroken run that includes the last day."""
    outside = np.flatnonzero(~mask)
    return int(outside[-1]) + 1 if outside.size else 0


def _last_inside(shares: Shares, row: int) -> int:
    """Return the last day within the band, or the first known day if there is none."""
    inside = np.flatnonzero(is_on_target(shares.actual[row], shares.target[row], shares.slack[row]))
    return int(inside[-1]) if inside.size else int(np.flatnonzero(np.isfinite(shares.deviation[row]))[0])


def _nearest(away: F8) -> int:
    """Return the last of the days with the smallest distance."""
    known = np.where(np.isfinite(away), away, np.inf)
    return int(len(known) - 1 - np.argmin(known[::-1]))


def has_the_only_demand(shares: Shares, row: int, first: int) -> bool:
    """Whether the entry has siblings and none of them is known to have had unmet demand since `first`."""
    beside = np.delete(shares.states[:, first:], row, axis=0)
    return bool(beside.size) and bool(np.isin(beside, QUIET).all())


def verdict(shares: Shares, *, n_hidden: int = 0) -> list[Sentence]:
    """Return the sentences about a group, most important first."""
    if not shares.on:
        return [build_sentence("no_days")]
    judged = assess_entries(shares)
    known = [entry for entry in judged if entry.course != "unknown"]
    before = (shares.states == BEFORE_ENTRY).any(axis=0)
    sentences = [] if known else [build_sentence("before_entries" if before.any() else "nobody_used")]
    if known:
        sentences.append(_on_target_sentence(StateCount.of(shares.states[:, -1].tolist()), shares.on[-1]))
        sentences += _diverging(shares, judged) + _waiting(shares, judged)
        sentences += [
            build_sentence(course, n=n)
            for course in ("approaching", "steady")
            if (n := sum(o.course == course for o in known))
        ]
        if before.any():
            sentences.append(shares.step_sentence("before_some_entries", n=int(before.sum())))
    if n_hidden:
        sentences.append(build_sentence("hidden", n=n_hidden))
    return sentences


def verdict_of_one(shares: Shares) -> list[Sentence]:
    """Return the sentences about a single entry."""
    if not shares.on:
        return [build_sentence("no_days")]
    name, judged = shares.names[0], assess_entries(shares)[0]
    if shares.states[0, -1] == BEFORE_ENTRY:
        return [build_sentence("one_before_entry", name=name)]
    points = round(abs(judged.points), 1)
    if judged.course == "moves_away":
        return [_diverging_sentence(shares, 0, judged)]
    if judged.course == "starved":
        n = len(shares.on) - judged.first
        return [shares.step_sentence("starved", name=name, since=judged.since, n=n)]
    if judged.course == "approaching":
        return [build_sentence("one_approaching", name=name, points=points, side=side_label(judged.side))]
    if judged.course == "steady":
        return [build_sentence("one_steady", name=name, points=points, side=side_label(judged.side))]
    return [build_sentence(f"one_{judged.course}", name=name)]


def _on_target_sentence(count: StateCount, on: date) -> Sentence:
    n, parts = count.n_on + count.n_idle, {"n_on": count.n_on, "n_idle": count.n_idle}
    if not count.n_off:
        return build_sentence("all_at_target_or_idle", n=n, on=on, **parts)
    if n:
        return build_sentence("at_target_or_idle", n=n, of=count.n_all, on=on, **parts)
    return build_sentence("none_at_target", of=count.n_all, on=on)


def _ranked(judged: Sequence[EntryVerdict], course: Course) -> list[int]:
    rows = [row for row, entry in enumerate(judged) if entry.course == course]
    return sorted(rows, key=lambda row: -abs(judged[row].points))


def _diverging(shares: Shares, judged: Sequence[EntryVerdict]) -> list[Sentence]:
    rows = _ranked(judged, "moves_away")
    sentences = [_diverging_sentence(shares, row, judged[row]) for row in rows[:_MOST_NAMED_DIVERGING]]
    rest = len(rows) - len(sentences)
    return [*sentences, build_sentence("more_move_away", n=rest)] if rest else sentences


def _diverging_sentence(shares: Shares, row: int, entry: EntryVerdict) -> Sentence:
    alone = entry.points > 0 and has_the_only_demand(shares, row, entry.first)
    return build_sentence(
        "moves_away_alone" if alone else "moves_away",
        name=shares.names[row],
        since=entry.since,
        points=round(abs(entry.points), 1),
        side=side_label(entry.side),
    )


def _waiting(shares: Shares, judged: Sequence[EntryVerdict]) -> list[Sentence]:
    rows = _ranked(judged, "starved")
    sentences = [
        shares.step_sentence(
            "starved", name=shares.names[row], since=judged[row].since, n=len(shares.on) - judged[row].first
        )
        for row in rows[:_MOST_NAMED_DIVERGING]
    ]
    rest = len(rows) - len(sentences)
    return [*sentences, build_sentence("more_starved", n=rest)] if rest else sentences


@dataclass(frozen=True, slots=True)
class MeritFigures:
    """Figures of merit: means over days, of known and visible values; None where there are none.

    mean_deviation: share-weighted |actual − target|. inside: fraction of the shares within their band. demand_error: as
    mean_deviation, for unmet demand only. idle_redistributed: fraction of capacity that entries without further demand
    left to others. half_time_days: days until the slowest entry closed half of its gap after the last change of
    targets; None: no target changed, infinite: some entry hasn't yet (`n_halved` of `n_changed` have).
    """

    mean_deviation: float | None = None
    inside: float | None = None
    demand_error: float | None = None
    idle_redistributed: float | None = None
    half_time_days: float | None = None
    half_time_revision: int | None = None
    n_halved: int = 0
    n_changed: int = 0
    n_days: int = 0

    @property
    def mean_deviation_points(self) -> float | None:
        """`mean_deviation` in percentage points."""
        return None if self.mean_deviation is None else self.mean_deviation * 100

    @property
    def demand_error_points(self) -> float | None:
        """`demand_error` in percentage points."""
        return None if self.demand_error is None else self.demand_error * 100


def half_band(target: F8, tolerance: Mapping[str, Any], is_leaf: Mask) -> F8:
    """Return half the width of the band around each target. is_leaf: along the first axis of `target`."""
    shape = (len(is_leaf),) + (1,) * (target.ndim - 1)
    return slack_of(target, tolerances_of(tolerance, is_leaf.reshape(shape)))


def day_states(
    actual: F8, target: F8, slack: F8, series: DailySeries, visible: Mask, before_entry: Mask | None = None
) -> States:
    """Return lower-case names of DayState, or `before_entry`; "" where nothing can be compared or the day is hidden."""
    codes = engine.day_states(
        actual=_filled(actual),
        target=_filled(target),
        tolerance=_filled(slack),
        used=series.used,
        waited=series.waited_core_s,
        knows_waiting=series.knows_waiting,
        competes=series.competes & visible,
    )
    codes[~np.isfinite(actual)] = DayState.ABSENT
    states = NAMES[codes]
    return states if before_entry is None else np.where(before_entry, BEFORE_ENTRY, states)


def measure(shares: Shares, days: SeriesDays) -> MeritFigures:
    """Compute the figures of merit."""
    actual, target = _filled(shares.actual), _filled(shares.target)
    counts = np.isfinite(shares.actual) & np.isfinite(shares.target)
    codes = np.zeros(shares.states.shape, dtype=np.int8)
    for code, name in enumerate(NAMES.tolist()):
        codes[shares.states == name] = code
    return MeritFigures(
        mean_deviation=engine.mean_of_days(*engine.mean_deviation(actual, target, counts)),
        inside=engine.mean_of_days(*inside_by_point(shares.actual, shares.target, shares.slack)),
        demand_error=engine.mean_of_days(*engine.demand_aware_error(actual, target, codes, counts)),
        idle_redistributed=engine.mean_of_days(
            engine.redistributed_share(actual, target, codes), np.asarray(counts.any(axis=0))
        ),
        n_days=len(days.on),
        **_half_time(shares, days),
    )


def inside_by_point(actual: F8, target: F8, slack: F8) -> tuple[F8, Mask]:
    """(Σ target of entries within their tolerance / Σ target, points where any is known), each (points,).

    actual, target: (entries, points), 0..1, NaN where unknown; slack: half the width of the tolerance.
    """
    counts = np.isfinite(actual) & np.isfinite(target)
    actual, target, slack = (np.where(np.isfinite(values), values, 0.0) for values in (actual, target, slack))
    return engine.weighted_mean(is_on_target(actual, target, slack).astype(np.float64), target, counts)


def half_times_of(shares: Shares, row: int) -> list[HalfTime]:
    """Return the half-times after each change of one member's target, on its last unbroken run of known days."""
    unknown = np.flatnonzero(~(np.isfinite(shares.actual[row]) & np.isfinite(shares.target[row])))
    first = int(unknown[-1]) + 1 if unknown.size else 0
    half_times = engine.half_times(shares.actual[row, first:], shares.target[row, first:], shares.slack[row, first:])
    return [
        HalfTime(half_time.at + first, half_time.gap, half_time.outcome, half_time.days) for half_time in half_times
    ]


def _half_time(shares: Shares, days: SeriesDays) -> dict[str, Any]:
    """Fields about the last day on which a target changed so that there was a gap to close."""
    last: Sequence[HalfTime] = [
        half_time
        for row in range(len(shares.names))
        for half_time in half_times_of(shares, row)
        if half_time.outcome in (Outcome.REACHED, Outcome.NOT_YET)
    ]
    if not last:
        return {}
    at = max(half_time.at for half_time in last)
    changed = [half_time for half_time in last if half_time.at == at]
    halved = [half_time.days for half_time in changed if half_time.days is not None]
    return {
        "half_time_days": float(max(halved)) if len(halved) == len(changed) else inf,
        "half_time_revision": int(days.revision[at]),
        "n_halved": len(halved),
        "n_changed": len(changed),
    }


def _filled(values: F8) -> F8:
    """Replace unknown values by 0."""
    return np.where(np.isfinite(values), values, 0.0)
