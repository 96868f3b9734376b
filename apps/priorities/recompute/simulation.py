"""Priorities under hypothetical changes, now or some days ahead, from the inputs of a recompute; nothing is stored.

`simulate` computes as a recompute does, so that its numbers are those that would really follow. It needs the hourly
usage of every account. Four calculations do without, each for its reason:

- `recompute.totals` changes the tree, the algorithm or the usage of entries in the newest snapshot. It reads no usage,
  so that pages answer while a user edits. It can't change the metric, the window, the approach or adjustments.
- `serving.new_users` ranks a user who isn't in the tree yet, for look-ups within milliseconds.
- `series.builder` computes many past days, each from the one before.
- `priorities.selectors.draft` and the plug-in `forecast` need no priorities: the targets of a draft follow from its
  tree, and the share of an entry has a closed form.

Everything here is a pure function of its arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from apps.engine import decay
from apps.mapping.rules.rule_set import RuleSet
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.priorities.metering import (
    APPROACHES,
    AccountUsage,
    accounts_with_demand,
    steady_use_s,
    usage_of_accounts,
    window_of,
)
from apps.priorities.recompute.comparison import ComputedTree, Side, compare
from apps.priorities.recompute.corrections import Correction
from apps.priorities.recompute.pipeline import Computed, Inputs, compute_from

F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]
U1 = npt.NDArray[np.uint8]
DAY_S = 86_400
DEMAND_DAYS = 14
HORIZONS_DAYS = (0, 1, 7, 30)
_NO_DECAY = decay.Window()


@dataclass(frozen=True, eq=False)
class Changes:
    """Hypothetical changes of a recompute's inputs; None: as in the inputs.

    without_sources: ids of usage sources to leave out, with their open jobs.
    """

    tree: TreeColumns | None = None
    settings: PolicySettings | None = None
    rule_set: RuleSet | None = None
    corrections: tuple[Correction, ...] | None = None
    without_sources: frozenset[int] = frozenset()


def apply_changes(inputs: Inputs, changes: Changes, *, days_ahead: int = 0) -> Inputs:
    """The inputs with the changes, for an instant some days later."""
    changed = replace(
        inputs,
        fingerprint=replace(inputs.fingerprint, as_of=inputs.as_of + timedelta(days=days_ahead)),
        tree=changes.tree or inputs.tree,
        settings=changes.settings or inputs.settings,
        corrections=inputs.corrections if changes.corrections is None else changes.corrections,
    )
    if changes.rule_set is not None:
        changed = replace(changed, rules=changes.rule_set.rules, known=changes.rule_set.known)
    return _without_sources(changed, changes.without_sources) if changes.without_sources else changed


def _without_sources(inputs: Inputs, source_ids: Collection[int]) -> Inputs:
    excluded = np.array(sorted(source_ids), dtype=np.int64)
    return replace(
        inputs,
        sources=[source for source in inputs.sources if source.id not in source_ids],
        usage=inputs.usage.selected(~np.isin(inputs.usage.source_id, excluded)),
        opened=inputs.opened.selected(~np.isin(inputs.opened.source_id, excluded)),
    )


def simulate(
    inputs: Inputs,
    variants: Sequence[Changes],
    horizons_days: Sequence[int] = (0,),
    *,
    is_order_independent: bool = True,
) -> list[list[Computed]]:
    """Priorities of each variant at each horizon, in days; the usage of accounts is summed once for equal metrics.

    `inputs` must hold all usage that any variant counts. is_order_independent: as in `usage_of_accounts`. Raises
    BadTree and BadParameter as the engine does, and Invalid (`package_failed`) where a package fails.
    """
    known: list[tuple[Changes, list[AccountUsage]]] = []
    results = []
    for changes in variants:
        accounts = next((each for other, each in known if _same_usage(inputs, other, changes)), None)
        if accounts is None:
            accounts = _usage_at(inputs, changes, horizons_days, is_order_independent=is_order_independent)
            known.append((changes, accounts))
        computed = []
        for days, usage in zip(horizons_days, accounts, strict=True):
            changed = apply_changes(inputs, changes, days_ahead=days)
            if changes.without_sources:
                usage = _usage_without(usage, inputs, changed)
            computed.append(compute_from(changed, usage))
        results.append(computed)
    return results


def _same_usage(inputs: Inputs, changes: Changes, other: Changes) -> bool:
    """Whether the usage of accounts is the same: scopes, approaches and sources are selected after it is summed."""
    own_settings, other_settings = changes.settings or inputs.settings, other.settings or inputs.settings
    return own_settings.metric == other_settings.metric and own_settings.window == other_settings.window


def _usage_at(
    inputs: Inputs, changes: Changes, horizons_days: Sequence[int], *, is_order_independent: bool
) -> list[AccountUsage]:
    settings = changes.settings or inputs.settings
    demand = demand_of(inputs, settings) if any(horizons_days) else None
    return [
        usage_ahead(inputs, settings, demand, days, is_order_independent=is_order_independent) for days in horizons_days
    ]


def _usage_without(accounts: AccountUsage, inputs: Inputs, remaining: Inputs) -> AccountUsage:
    """Usage of the remaining sources: each has a column, so that no sum is made again."""
    ids = {source.id for source in remaining.sources}
    chosen = np.array(
        [source.id in ids for source in sorted(inputs.sources, key=lambda source: source.id)], dtype=np.bool_
    )
    by_approach = {name: used.T[chosen].T for name, used in accounts.by_approach.items()}
    return accounts_with_demand(by_approach, remaining.opened, remaining.account_ids)


def demand_of(inputs: Inputs, settings: PolicySettings) -> AccountUsage:
    """What each account used a second, by source, in the buckets that began in the last 14 days, without decay.

    The elapsed part of running jobs is included where the approach counts it. What jobs requested and haven't used is
    no demand of the past.
    """
    as_of_s = inputs.as_of.timestamp()
    since_s = as_of_s - DEMAND_DAYS * DAY_S
    usage, opened = inputs.usage, inputs.opened
    recent = replace(
        inputs.recorded,
        usage=usage.selected(usage.hour_epoch >= since_s),
        opened=replace(opened, start_epoch=np.maximum(opened.start_epoch, since_s)),
    )
    used = usage_of_accounts(recent, metric=settings.metric, window=_NO_DECAY, as_of_s=as_of_s)
    rates = {name: used.by_approach[name] / (DEMAND_DAYS * DAY_S) for name in APPROACHES}
    return AccountUsage({**rates, "predictive": rates["active"]}, used.has_demand, used.demand_core_s)


def usage_ahead(
    inputs: Inputs,
    settings: PolicySettings,
    demand: AccountUsage | None,
    days: int,
    *,
    is_order_independent: bool = True,
) -> AccountUsage:
    """Usage of each account, decayed, `days` after the inputs: what is known now, and demand since; None: no demand.

    Running jobs have run until the instant of the inputs and may still use what they requested. What they use after
    it is part of the demand.
    """
    as_of_s = inputs.as_of.timestamp()
    then_s = as_of_s + days * DAY_S
    window = window_of(settings.window)
    known = usage_of_accounts(
        inputs.recorded,
        metric=settings.metric,
        window=window,
        as_of_s=then_s,
        known_until_s=as_of_s,
        is_order_independent=is_order_independent,
    )
    if not days or demand is None:
        return known
    more_s = steady_use_s(as_of_s, then_s, window)
    ahead = {name: known.by_approach[name] + more_s * demand.by_approach[name] for name in APPROACHES}
    return AccountUsage(ahead, known.has_demand, known.demand_core_s)


@dataclass(frozen=True, eq=False)
class Projection:
    """Leaves ranked before or after a change, with rank and factor at each horizon with and without it.

    uid: u1 (n, 16). ranks: (horizons, n), 0 for none. factors: (horizons, n), NaN for none.
    """

    horizons_days: tuple[int, ...]
    uid: U1
    rank_without: I4
    rank_with: I4
    factor_without: F8
    factor_with: F8

    @property
    def n_moved(self) -> int:
        """Leaves that get another rank at once."""
        return int((self.rank_without[0] != self.rank_with[0]).sum())


def project(
    inputs: Inputs, before: Changes, after: Changes, horizons_days: Sequence[int] = HORIZONS_DAYS
) -> Projection:
    """Simulate both at each horizon, and list the leaves of the new tree, then those that are removed."""
    without, with_it = simulate(inputs, [before, after], horizons_days)
    trees = before.tree or inputs.tree, after.tree or inputs.tree
    compared = compare(ComputedTree(trees[0], without[0].result), ComputedTree(trees[1], with_it[0].result))
    rows = compared.is_leaf
    old = [Side(compared.before.index[rows], each.result) for each in without]
    new = [Side(compared.after.index[rows], each.result) for each in with_it]
    return Projection(
        tuple(horizons_days),
        compared.uid[rows],
        np.array([side.leaf_rank for side in old], dtype=np.int32),
        np.array([side.leaf_rank for side in new], dtype=np.int32),
        np.array([side.leaf_factor for side in old]),
        np.array([side.leaf_factor for side in new]),
    )
