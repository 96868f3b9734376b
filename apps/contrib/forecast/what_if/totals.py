"""Usage of all entries a week ahead, in two parts: present usage after decay, and what continued demand adds."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Literal

from cachetools import LRUCache, cached

from apps.contrib.forecast.past_usage import DAY_S, load_snapshot_inputs
from apps.core.derived_state import in_memory
from apps.engine.algorithms import PriorityResult
from apps.policies.models import Policy
from apps.priorities.metering import steady_use_s, window_of
from apps.priorities.recompute.pipeline import Computed, Inputs
from apps.priorities.recompute.simulation import Changes, simulate
from apps.priorities.recompute.totals import Totals
from apps.priorities.serving.served_snapshot import ServedSnapshot, snapshot_key

DERIVED_STATE = (
    in_memory(
        "load_week_ahead",
        holds="totals of the week ahead",
        key="slug, id and last instant of the snapshot",
        inputs="the snapshot, and usage up to its instant",
        range="the snapshot's instant",
        ends="the newest ones push it out; a snapshot of another instant has another key",
    ),
)

DAYS_AHEAD = 7
_LONGEST_S = 365.0 * DAY_S  # assumed length of steady use where usage never decays
Basis = Literal["last_days", "present_usage"]
_MOST_CACHED = 4


@dataclass(frozen=True, eq=False)
class WeekAhead:
    """The week after a snapshot. basis: how the pace was estimated. continued: ranks if demand continues."""

    known: Totals
    added: Totals
    basis: Basis
    continued: PriorityResult


@cached(LRUCache(_MOST_CACHED), key=snapshot_key, lock=Lock())
def load_week_ahead(policy: Policy, snapshot: ServedSnapshot) -> WeekAhead:
    """Compute the week ahead; cached for the last few snapshots, because scenarios change little of it."""
    inputs = load_snapshot_inputs(policy, snapshot)
    known, added = _by_present_usage(snapshot) if inputs is None else _by_hours(inputs)
    continued = known.plus(added).compute(snapshot.settings.algorithm)
    return WeekAhead(known, added, "present_usage" if inputs is None else "last_days", continued)


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
    """For too much usage to read: assume that each entry runs at the pace implied by its decayed usage."""
    window = window_of(snapshot.settings.window)
    reach_s = _LONGEST_S if window.reach_s is None else min(window.reach_s, _LONGEST_S)
    whole_s = steady_use_s(0.0, reach_s, window)
    part = min(steady_use_s(0.0, float(DAYS_AHEAD * DAY_S), window) / whole_s, 1.0) if whole_s > 0 else 1.0
    now = snapshot.totals
    return now.times(1.0 - part), now.times(part)
