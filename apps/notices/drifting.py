"""Since when an entry is outside its band although it wants to be inside: arrays in, runs of days out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.priorities.series.columns import DailySeries, Mask
from apps.priorities.states import out_of_tolerance

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Drift:
    """Of some siblings, up to the last day; arrays (entries,).

    starved_days: in a row under the band with demand. pushing_days: in a row over it while a sibling was starved.
    deviation: actual − target on the last day.
    """

    starved_days: I8
    pushing_days: I8
    deviation: F8


def drift_of(siblings: DailySeries, *, tolerance: Mapping[str, Any]) -> Drift:
    """All that compete in one group, days without a gap before the last one count only.

    actual = decayed / peers_decayed at the day's end; outside: |actual − target| over max(relative · target, points).
    Demand: jobs that waited, where the sources tell; else that anything ran.
    """
    counted = _without_gaps(siblings)
    peers = siblings.peers_decayed[:, counted]
    there = siblings.exists[:, counted] & siblings.competes[:, counted] & (peers > 0)
    target = siblings.target[:, counted]
    actual = np.divide(siblings.decayed[:, counted], peers, out=target.copy(), where=there)
    demand = wants_more(siblings)[:, counted]
    outside = there & out_of_tolerance(target, actual, is_idle=np.zeros_like(there), tolerance=tolerance)
    starved = outside & (actual < target) & demand
    pushing = outside & (actual > target) & _others(starved)
    deviation = (actual - target)[:, -1] if counted.any() else np.zeros(len(siblings.uids))
    return Drift(_run_at_end(starved), _run_at_end(pushing), deviation)


def wants_more(series: DailySeries) -> Mask:
    """Jobs waited; where nobody tells, whoever ran something is taken to want more."""
    found: Mask = np.where(series.knows_waiting, series.waited_core_s > 0, series.used > 0)
    return found


def _without_gaps(series: DailySeries) -> Mask:
    """The days after the last gap, and of the policy's own life."""
    on = series.days.on
    counted = np.zeros(len(on), dtype=np.bool_)
    for at in range(len(on) - 1, -1, -1):
        is_next = at == len(on) - 1 or on[at + 1] - on[at] == timedelta(days=1)
        if not is_next or series.days.is_before_first[at]:
            break
        counted[at] = True
    return counted


def _others(starved: Mask) -> Mask:
    """Whether another one of them is starved on the day; nobody is over and starved at once."""
    found: Mask = np.broadcast_to(starved.any(axis=0), starved.shape)
    return found


def _run_at_end(mask: Mask) -> I8:
    """How many of the last days in a row."""
    backwards = mask[:, ::-1]
    return np.cumprod(backwards, axis=1).sum(axis=1, dtype=np.int64)
