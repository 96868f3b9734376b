"""Usage of all entries some days ahead, in two parts: what is known now, aged, and what going on as lately adds."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Literal

from cachetools import LRUCache, cached

from apps.analytics.forecast.past_usage import DAY_S, load_snapshot_inputs, snapshot_key
from apps.engine.algorithms import PriorityResult
from apps.policies.models import Policy
from apps.priorities.metering import steady_use_s, window_of
from apps.priorities.recompute.pipeline import Computed, Inputs
from apps.priorities.recompute.simulation import Changes, simulate
from apps.priorities.recompute.totals import Totals
from apps.priorities.serving.served_snapshot import ServedSnapshot

DAYS_AHEAD = 7
_LONGEST_S = 365.0 * DAY_S  # of a steady use that never fades
Basis = Literal["last_days", "present_usage"]
_MOST_KEPT = 4


@dataclass(frozen=True, eq=False)
class Ahead:
    """A week from a snapshot on. basis: where the pace comes from. goes_on: all ranks if demand continues."""

    known: Totals
    more: Totals
    basis: Basis
    goes_on: PriorityResult


@cached(LRUCache(_MOST_KEPT), key=snapshot_key, lock=Lock())
def ahead_of(policy: Policy, snapshot: ServedSnapshot) -> Ahead:
    """Kept for the last few snapshots: what is supposed changes little of it."""
    inputs = load_snapshot_inputs(policy, snapshot)
    known, more = _by_present_usage(snapshot) if inputs is None else _by_hours(inputs)
    goes_on = known.plus(more).compute(snapshot.settings.algorithm)
    return Ahead(known, more, "present_usage" if inputs is None else "last_days", goes_on)


def _by_hours(inputs: Inputs) -> tuple[Totals, Totals]:
    """Simulate the week without demand and with that of the last two weeks; the difference is what demand adds."""
    known, whole = (
        _totals_of(inputs, simulated[0])
        for simulated in simulate(inputs, [Changes(is_idle=True), Changes()], [DAYS_AHEAD])
    )
    return known, whole.less(known)


def _totals_of(inputs: Inputs, computed: Computed) -> Totals:
    return Totals(inputs.tree, computed.result.usage, computed.result.group_usage)


def _by_present_usage(snapshot: ServedSnapshot) -> tuple[Totals, Totals]:
    """For too many hours to read: assume that each entry runs at the pace that its weighted usage implies."""
    window = window_of(snapshot.settings.window)
    reach_s = _LONGEST_S if window.reach_s is None else min(window.reach_s, _LONGEST_S)
    whole_s = steady_use_s(0.0, reach_s, window)
    part = min(steady_use_s(0.0, float(DAYS_AHEAD * DAY_S), window) / whole_s, 1.0) if whole_s > 0 else 1.0
    now = snapshot.totals
    return now.times(1.0 - part), now.times(part)
