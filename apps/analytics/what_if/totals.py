"""Usage of all entries some days ahead, in two parts: what is known now, aged, and what going on as lately adds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Lock
from typing import Literal

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache, cached

from apps.analytics.forecast.past_usage import DAY_S, inputs_of, key_of
from apps.engine.algorithms import PriorityResult
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.priorities.metering import APPROACHES, AccountUsage, steady_use_s, window_of
from apps.priorities.recompute.pipeline import Inputs, compute_from
from apps.priorities.recompute.projection import accounts_ahead, compute_from_totals, demand_of
from apps.priorities.serving.served_snapshot import ServedSnapshot

F8 = npt.NDArray[np.float64]
DAYS_AHEAD = 7
_LONGEST_S = 365.0 * DAY_S  # of a steady use that never fades
Basis = Literal["last_days", "present_usage"]
_MOST_KEPT = 4


@dataclass(frozen=True, eq=False)
class Totals:
    """Of every entry and all below it, (n,): in the scope it is compared by, and in that of its children."""

    usage: F8
    group_usage: F8

    def plus(self, other: Totals) -> Totals:
        return Totals(self.usage + other.usage, self.group_usage + other.group_usage)

    def less(self, other: Totals) -> Totals:
        return Totals(np.maximum(self.usage - other.usage, 0.0), np.maximum(self.group_usage - other.group_usage, 0.0))

    def times(self, factor: float) -> Totals:
        return Totals(self.usage * factor, self.group_usage * factor)

    def scaled_below(self, tree: TreeColumns, group: int, factor: float) -> Totals:
        """Scale the usage of an entry and all below it; ancestors lose or gain the difference."""
        inside = tree.subtree_mask(group)
        changed = self.added(tree, int(tree.parent[group]), (factor - 1.0) * float(self.usage[group]))
        return Totals(
            np.where(inside, self.usage * factor, changed.usage),
            np.where(inside, self.group_usage * factor, changed.group_usage),
        )

    def added(self, tree: TreeColumns, entry: int, amount: float) -> Totals:
        """As if an entry had so much more, or less where it is below 0; never below 0."""
        usage, group_usage = self.usage.copy(), self.group_usage.copy()
        while entry >= 0:
            usage[entry] = max(usage[entry] + amount, 0.0)
            group_usage[entry] = max(group_usage[entry] + amount, 0.0)
            entry = int(tree.parent[entry])
        return Totals(usage, group_usage)


@dataclass(frozen=True, eq=False)
class Ahead:
    """A week from a snapshot on. basis: where the pace comes from. goes_on: all ranks if demand continues."""

    known: Totals
    more: Totals
    basis: Basis
    goes_on: PriorityResult


@cached(LRUCache(_MOST_KEPT), key=key_of, lock=Lock())
def ahead_of(policy: Policy, snapshot: ServedSnapshot) -> Ahead:
    """Kept for the last few snapshots: what is supposed changes little of it."""
    inputs = inputs_of(policy, snapshot)
    known, more = _by_present_usage(snapshot) if inputs is None else _by_hours(inputs)
    then = known.plus(more)
    tree, algorithm = snapshot.tree.engine_tree(), snapshot.settings.algorithm
    goes_on = compute_from_totals(tree, then.usage, then.group_usage, algorithm=algorithm)
    return Ahead(known, more, "present_usage" if inputs is None else "last_days", goes_on)


def _by_hours(inputs: Inputs) -> tuple[Totals, Totals]:
    """As changes of a policy are foreseen: hours aged by a week, and the demand of the last two weeks added."""
    settings = inputs.settings
    demand = demand_of(inputs, settings)
    then = replace(inputs, fingerprint=replace(inputs.fingerprint, as_of=inputs.as_of + timedelta(days=DAYS_AHEAD)))
    nothing = AccountUsage(
        {name: np.zeros_like(demand.by_approach[name]) for name in APPROACHES}, demand.has_demand, demand.demand_core_s
    )
    known, whole = (
        compute_from(then, accounts_ahead(inputs, settings, each, DAYS_AHEAD)).result for each in (nothing, demand)
    )
    aged = Totals(known.usage, known.group_usage)
    return aged, Totals(whole.usage, whole.group_usage).less(aged)


def _by_present_usage(snapshot: ServedSnapshot) -> tuple[Totals, Totals]:
    """For too many hours to read: assume that each entry runs at the pace that its weighted usage implies."""
    window = window_of(snapshot.settings.window)
    reach_s = _LONGEST_S if window.reach_s is None else min(window.reach_s, _LONGEST_S)
    whole_s = steady_use_s(0.0, reach_s, window)
    part = min(steady_use_s(0.0, float(DAYS_AHEAD * DAY_S), window) / whole_s, 1.0) if whole_s > 0 else 1.0
    now = Totals(snapshot.values.usage, snapshot.values.group_usage)
    return now.times(1.0 - part), now.times(part)
