"""Priorities of a changed tree on the usage of the newest snapshot, with the rights of one reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.core.errors import Invalid
from apps.engine.algorithms import PriorityResult
from apps.engine.errors import BadParameter
from apps.policies.tree.columns import TreeColumns
from apps.priorities.recompute.comparison import matching_indexes
from apps.priorities.recompute.reader_trials import moved_from, totals_of_reader
from apps.priorities.recompute.totals import Totals, simulate_totals
from apps.priorities.selectors.rows import PolicyView


def simulate_view(view: PolicyView, after: TreeColumns, *, algorithm: Mapping[str, Any]) -> PriorityResult:
    """As `simulate_totals`, of the snapshot of the view; hidden usage enters in steps. Raises as that."""
    assert view.snapshot is not None, "callers have checked it"  # noqa: S101 - an invariant, not input
    totals = totals_of_reader(view.snapshot.totals, view.numbers_in_snapshot)
    return shown_to_reader(view, totals, simulate_totals(totals, after, algorithm=algorithm), after)


def simulate_view_or_none(
    view: PolicyView, after: TreeColumns, *, algorithm: Mapping[str, Any]
) -> PriorityResult | None:
    """As `simulate_view`; None where the algorithm doesn't fit the tree, fails or is no longer installed."""
    try:
        return simulate_view(view, after, algorithm=algorithm)
    except (Invalid, BadParameter):
        return None


def shown_to_reader(
    view: PolicyView, totals: Totals, result: PriorityResult, after: TreeColumns | None = None
) -> PriorityResult:
    """Return the result of a trial with the reader's totals, as far from the ranks that are shown as the trial moves.

    after: the tree of the result; None: that of the snapshot.
    """
    assert view.snapshot is not None, "callers have checked it"  # noqa: S101 - an invariant, not input
    if view.numbers_in_snapshot.all():
        return result
    places = None if after is None else matching_indexes(after, view.snapshot.tree)
    return moved_from(view.snapshot.values, totals.compute(view.snapshot.settings.algorithm), result, places)
