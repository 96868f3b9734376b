"""Priorities at a future instant if demand continues: a recompute for that instant.

Pure: everything it needs is in its arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.core.errors import Conflict
from apps.engine import decay
from apps.engine.algorithms import PriorityResult, compute_prepared, get_algorithm, read_algorithm
from apps.engine.algorithms.inputs import compare_totals, prepare
from apps.engine.errors import BadParameter, BadTree
from apps.engine.tree import FairshareTree
from apps.mapping.rules.rule_set import Rulebook
from apps.policies.settings import PolicySettings, refusing_failed_packages
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.document_merge import indexes_of
from apps.priorities.metering import APPROACHES, AccountUsage, steady_use_s, usage_of_accounts, window_of
from apps.priorities.recompute.inputs import Correction
from apps.priorities.recompute.pipeline import Inputs, compute_from

F8 = npt.NDArray[np.float64]


@contextmanager
def needing_the_algorithm() -> Iterator[None]:
    """Where nothing can be said without computing: an algorithm whose package is gone is a Conflict, `no_algorithm`."""
    try:
        yield
    except BadParameter as error:
        raise Conflict(str(error), code="no_algorithm") from None


def compute_from_totals(
    tree: FairshareTree, usage: F8, group_usage: F8, *, algorithm: Mapping[str, Any]
) -> PriorityResult:
    """Priorities of a tree whose totals are known.

    usage: totals in the scope an entry is compared by; group_usage: in the one its children are compared by. Raises
    BadTree and BadParameter as `compute` does, and Invalid (`package_failed`) where a package fails.
    """
    settings = read_algorithm(algorithm)
    chosen = get_algorithm(settings["name"])
    if tree.inherits.any() and not chosen.takes_inherit:
        at = int(np.argmax(tree.inherits))
        raise BadTree(f"{chosen.name} has no inherited shares; a number ≥ 0 is allowed", place=tree.path(at), row=at)
    prepared = prepare(tree)
    with refusing_failed_packages():
        return compute_prepared(prepared, compare_totals(prepared, usage, group_usage), settings)


DAY_S = 86_400
DEMAND_DAYS = 14
HORIZONS_DAYS = (0, 1, 7, 30)
_WHOLE = decay.Window()

I4 = npt.NDArray[np.int32]
U1 = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Side:
    """One tree with its settings, membership rules and active corrections.

    None for what is as in the inputs.
    """

    tree: TreeColumns
    settings: PolicySettings
    book: Rulebook | None = None
    corrections: tuple[Correction, ...] | None = None


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


def demand_of(inputs: Inputs, settings: PolicySettings) -> AccountUsage:
    """What each account used a second, by source, in the buckets that began in the last 14 days, without aging.

    Running jobs count from then on for what counts them. What jobs requested and may still use is no demand of then.
    """
    as_of_s = inputs.as_of.timestamp()
    since_s = as_of_s - DEMAND_DAYS * DAY_S
    usage, opened = inputs.usage, inputs.opened
    recent = usage.hour_epoch >= since_s
    used = usage_of_accounts(
        usage=usage.selected(recent),
        opened=replace(opened, start_epoch=np.maximum(opened.start_epoch, since_s)),
        account_ids=inputs.account_ids,
        sources=inputs.sources,
        classes=inputs.classes,
        metric=settings.metric,
        window=_WHOLE,
        as_of_s=as_of_s,
    )
    rates = {name: used.by_approach[name] / (DEMAND_DAYS * DAY_S) for name in APPROACHES}
    return AccountUsage({**rates, "predictive": rates["active"]}, used.has_demand, used.demand_core_s)


def accounts_ahead(
    inputs: Inputs, settings: PolicySettings, demand: AccountUsage, days: int, *, is_order_independent: bool = True
) -> AccountUsage:
    """What counts of each account's usage `days` after the inputs: what is known has aged, demand has gone on.

    Jobs that run now have run until now, and may still use what they requested; what they use from now on is demand.
    """
    as_of_s = inputs.as_of.timestamp()
    then_s = as_of_s + days * DAY_S
    window = window_of(settings.window)
    known = usage_of_accounts(
        usage=inputs.usage,
        opened=inputs.opened,
        account_ids=inputs.account_ids,
        sources=inputs.sources,
        classes=inputs.classes,
        metric=settings.metric,
        window=window,
        as_of_s=then_s,
        known_until_s=as_of_s,
        is_order_independent=is_order_independent,
    )
    if not days:
        return known
    more_s = steady_use_s(as_of_s, then_s, window)
    ahead = {name: known.by_approach[name] + more_s * demand.by_approach[name] for name in APPROACHES}
    return AccountUsage(ahead, known.has_demand, known.demand_core_s)


def project(
    inputs: Inputs,
    sides: Sequence[Side],
    horizons_days: Sequence[int] = HORIZONS_DAYS,
    *,
    is_order_independent: bool = True,
) -> list[list[PriorityResult]]:
    """For each side the priorities at each horizon. `inputs` hold the usage that any of them counts.

    is_settled: as for `usage_of_accounts`.

    Raises BadTree and BadParameter as the engine does.
    """
    known: list[tuple[PolicySettings, list[AccountUsage]]] = []
    found = []
    for side in sides:
        settings = side.settings
        accounts = next((each for other, each in known if _counts_alike(other, settings)), None)
        if accounts is None:
            demand = demand_of(inputs, settings)
            accounts = [
                accounts_ahead(inputs, settings, demand, days, is_order_independent=is_order_independent)
                for days in horizons_days
            ]
            known.append((settings, accounts))
        found.append(
            [
                compute_from(_inputs_at(inputs, side, days), each).result
                for days, each in zip(horizons_days, accounts, strict=True)
            ]
        )
    return found


def compare(inputs: Inputs, before: Side, after: Side, horizons_days: Sequence[int] = HORIZONS_DAYS) -> Projection:
    """Both side by side, leaf by leaf: those of the new tree, then those that are gone."""
    without, with_it = project(inputs, [before, after], horizons_days)
    old, new = before.tree, after.tree
    leaves = with_it[0].is_ranked.copy()
    place = indexes_of(new.uid, old)
    leaves |= (place >= 0) & without[0].is_ranked[place]
    rows = np.flatnonzero(leaves)
    gone = without[0].is_ranked.copy()
    gone[place[place >= 0]] = False
    lost = np.flatnonzero(gone)
    here, there = np.append(rows, np.full(len(lost), -1)), np.append(place[rows], lost)
    return Projection(
        tuple(horizons_days),
        np.concatenate([new.uid[rows], old.uid[lost]]),
        np.array([_ranks(each, there) for each in without], dtype=np.int32),
        np.array([_ranks(each, here) for each in with_it], dtype=np.int32),
        np.array([_factors(each, there) for each in without]),
        np.array([_factors(each, here) for each in with_it]),
    )


def _ranks(result: PriorityResult, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.where((at >= 0) & result.is_ranked[at], result.rank[at], 0)


def _factors(result: PriorityResult, at: npt.NDArray[np.int64]) -> F8:
    return np.where((at >= 0) & result.is_ranked[at] & result.has_factor[at], result.factor[at], np.nan)


def _counts_alike(one: PolicySettings, other: PolicySettings) -> bool:
    """Both share the usage of accounts: scopes and approaches are chosen later."""
    return one.metric == other.metric and one.window == other.window


def _inputs_at(inputs: Inputs, side: Side, days: int) -> Inputs:
    """What else depends on the instant sees the one to come."""
    then = replace(inputs.fingerprint, as_of=inputs.as_of + timedelta(days=days))
    found = replace(inputs, tree=side.tree, settings=side.settings, fingerprint=then)
    if side.book is not None:
        found = replace(found, rules=side.book.rules, known=side.book.known)
    return found if side.corrections is None else replace(found, corrections=side.corrections)
