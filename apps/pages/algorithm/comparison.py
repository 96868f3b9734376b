"""Compares algorithms on one tree and its usage; nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.accounts.actor import Actor
from apps.core.errors import FieldProblem, Invalid
from apps.engine.algorithms import PriorityResult, all_algorithms, read_algorithm
from apps.engine.analysis.tree_resolution import exact_ahead
from apps.engine.errors import BadParameter
from apps.policies.access.scope import administers_policies
from apps.policies.settings import PolicySettings, refuse_unsuitable_tree
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.selectors.trials import simulate_view

MOST_ALGORITHMS = 4
MOST_COMPARED_LEAVES = 50
MOST_COUNTED_ENTRIES = 5_000  # of a tree on which all algorithms are tried at once
I8 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PolicyAlgorithm:
    """The algorithm of a policy, and the algorithms that its tree can't use, with reasons."""

    policy_slug: str
    policy_name: str
    revision: int
    as_of: datetime | None
    settings: PolicySettings
    misfits: Mapping[str, str]
    may_change: bool


@dataclass(frozen=True, slots=True)
class AlgorithmSide:
    """One algorithm of the comparison; `refused` says why it can't be used on this tree.

    Counts are of compared leaves that both it and the first algorithm rank: n_moved have another rank; n_by_operator
    also by exact numbers; n_by_rounding because components are rounded, or rounded differently. A leaf can be in both
    of the last two.
    """

    algorithm: Mapping[str, Any]
    n_ranked: int
    refused: str = ""
    n_moved: int = 0
    n_by_operator: int = 0
    n_by_rounding: int = 0


@dataclass(frozen=True, slots=True)
class LeafRank:
    """A leaf's rank under one algorithm. `moved`: ranks gained relative to the first algorithm; < 0 lost."""

    rank: int | None
    factor: float | None
    moved: int | None


@dataclass(frozen=True, slots=True)
class ComparedLeaf:
    """One leaf under all algorithms; `spread` is the distance between its best and its worst rank."""

    uid: UUID
    name: str
    path: str
    kind: str
    ranks: tuple[LeafRank, ...]
    spread: int


@dataclass(frozen=True)
class Comparison:
    """Result of a comparison. `as_of` None: there is no usage yet, so nothing to compare."""

    policy_slug: str
    policy_name: str
    revision: int
    as_of: datetime | None
    settings: PolicySettings
    sides: tuple[AlgorithmSide, ...]
    leaves: tuple[ComparedLeaf, ...]
    n_leaves: int  # visible leaves that some algorithm ranks
    n_moved: int  # leaves among them whose rank differs


@dataclass(frozen=True, slots=True)
class CountedMoves:
    """How many visible leaves one algorithm gives another rank than the policy's own; None: not counted."""

    algorithm: Mapping[str, Any]
    n_moved: int | None
    refused: str = ""


def get_algorithm_page(*, policy_slug: str, actor: Actor) -> PolicyAlgorithm:
    view = open_view(policy_slug=policy_slug, actor=actor)
    reasons = {name: _misfit(view, {"name": name}) for name in all_algorithms()}
    return PolicyAlgorithm(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        revision=view.revision,
        as_of=view.as_of,
        settings=view.settings,
        misfits={name: reason for name, reason in reasons.items() if reason},
        may_change=administers_policies(actor),
    )


def compare_algorithms(*, policy_slug: str, algorithms: Sequence[Mapping[str, Any]], actor: Actor) -> Comparison:
    """Compare visible leaves under up to four algorithms, largest moves first; without any in the order of the first.

    An empty mapping means the policy's own algorithm. Raises Invalid for invalid settings.
    """
    view = open_view(policy_slug=policy_slug, actor=actor)
    if not 1 <= len(algorithms) <= MOST_ALGORITHMS:
        problem = FieldProblem("algorithms", f"must be 1 to {MOST_ALGORITHMS}")
        raise Invalid(f"{problem.where} {problem.message}.", fields=[problem])
    all_settings = [read_algorithm_settings(each) if each else dict(view.settings.algorithm) for each in algorithms]
    computed = [_computed(view, settings) for settings in all_settings]
    results = [result for result, _refused in computed]
    leaves, spread = _leaves(view, results)
    parts = _move_counts(results, leaves)
    order = np.argsort(-spread, kind="stable")
    if not spread.any():
        order = np.argsort(_ranks(results, leaves)[0], kind="stable")
    shown = order[:MOST_COMPARED_LEAVES]
    return Comparison(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        revision=view.revision,
        as_of=view.as_of,
        settings=view.settings,
        sides=tuple(
            AlgorithmSide(settings, 0 if result is None else result.n_ranked, refused, *part)
            for settings, (result, refused), part in zip(all_settings, computed, parts, strict=True)
        ),
        leaves=tuple(_leaf(view, results, int(leaves[at]), int(spread[at])) for at in shown.tolist()),
        n_leaves=len(leaves),
        n_moved=int((spread > 0).sum()),
    )


def count_moves(*, policy_slug: str, algorithms: Sequence[Mapping[str, Any]], actor: Actor) -> tuple[CountedMoves, ...]:
    """How many ranks each of these algorithms would change, with its defaults for what it leaves out.

    Not counted before the first usage, and in trees of more than MOST_COUNTED_ENTRIES, where each takes its time.
    """
    view = open_view(policy_slug=policy_slug, actor=actor)
    all_settings = [read_algorithm_settings(each) for each in algorithms]
    if view.snapshot is None or len(view.tree) > MOST_COUNTED_ENTRIES:
        return tuple(CountedMoves(settings, None, _misfit(view, settings)) for settings in all_settings)
    own, _refused = _computed(view, view.settings.algorithm)
    counted = []
    for settings in all_settings:
        result, refused = _computed(view, settings)
        results = [own, result]
        is_counted = own is not None and result is not None
        n_moved = _move_counts(results, _leaves(view, results)[0])[1][0] if is_counted else None
        counted.append(CountedMoves(settings, n_moved, refused))
    return tuple(counted)


def read_algorithm_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the settings of an algorithm, with defaults. Raises Invalid with the field."""
    try:
        return read_algorithm(settings)
    except BadParameter as error:
        raise Invalid(
            f"{error.place}: {error.message}.", code="bad_settings", fields=[FieldProblem(error.place, error.message)]
        ) from None


def _computed(view: PolicyView, settings: Mapping[str, Any]) -> tuple[PriorityResult | None, str]:
    """Return the priorities under these settings, or why there are none."""
    problem = _misfit(view, settings)
    if problem or view.snapshot is None:
        return None, problem
    try:
        return simulate_view(view, view.tree, algorithm=settings), ""
    except Invalid as error:
        return None, error.message


def _misfit(view: PolicyView, settings: Mapping[str, Any]) -> str:
    """Say why the tree can't use the algorithm, "" if it can. A hidden entry is not named."""
    if settings["name"] not in all_algorithms():
        return f"{settings['name']} isn't installed here any more."
    try:
        refuse_unsuitable_tree(view.tree, settings)
    except Invalid as error:
        if error.code != "no_inherit":
            return error.message
        first = int(np.argmax(view.tree.inherit))
        if view.visibility.may_see(first):
            return error.message
        return f"{settings['name']} has no inherited shares, and an entry that you don't see inherits its own."
    return ""


def _leaves(view: PolicyView, results: Sequence[PriorityResult | None]) -> tuple[I8, I8]:
    """Return visible entries that some algorithm ranks as leaves, in tree order, and the spread of their ranks."""
    ranked = np.zeros(len(view.tree), dtype=np.bool_)
    for result in results:
        if result is not None:
            ranked |= result.is_ranked
    leaves = np.flatnonzero(ranked & view.visibility.mask if view.snapshot is None else ranked & view.shows_numbers)
    if not len(leaves):
        return leaves, np.zeros(0, dtype=np.int64)
    worst, best = _ranks(results, leaves, missing=0).max(axis=0), _ranks(results, leaves).min(axis=0)
    return leaves, np.where(worst > 0, worst - best, 0)


def _move_counts(results: Sequence[PriorityResult | None], leaves: I8) -> list[tuple[int, int, int]]:
    """(moved, by operator, by rounding) of each algorithm against the first: rank = exact rank + effect of rounding."""
    ranks, exact = _ranks(results, leaves, missing=0), _exact_ranks(results, leaves)
    counts = []
    for at in range(len(results)):
        both = (ranks[0] > 0) & (ranks[at] > 0)
        by_operator = both & (exact[at] != exact[0])
        by_rounding = both & (ranks[at] - exact[at] != ranks[0] - exact[0])
        counts.append((int((both & (ranks[at] != ranks[0])).sum()), int(by_operator.sum()), int(by_rounding.sum())))
    return counts


def _exact_ranks(results: Sequence[PriorityResult | None], leaves: I8) -> I8:
    """(algorithms, leaves): exact ranks; the rank itself where nothing is rounded, 0 without one."""
    rows = []
    for result, rank in zip(results, _ranks(results, leaves, missing=0), strict=True):
        if result is not None and result.settings["name"] == "aequus":
            of_all = np.zeros(result.tree.n_entries, dtype=np.int64)
            of_all[result.tree.is_ranked] = exact_ahead(result) + 1
            rank = np.where(of_all[leaves] > 0, of_all[leaves], rank)
        rows.append(rank)
    return np.array(rows, dtype=np.int64)


def _ranks(results: Sequence[PriorityResult | None], leaves: I8, *, missing: int = np.iinfo(np.int64).max) -> I8:
    """(algorithms, leaves): ranks; `missing` without one."""
    rows = [
        np.full(len(leaves), missing)
        if result is None
        else np.where(result.has_rank[leaves], result.rank[leaves], missing)
        for result in results
    ]
    return np.array(rows, dtype=np.int64)


def _leaf(view: PolicyView, results: Sequence[PriorityResult | None], i: int, spread: int) -> ComparedLeaf:
    tree = view.tree
    ranks = [int(result.rank[i]) if result is not None and result.has_rank[i] else None for result in results]
    leaf_ranks = []
    for result, rank in zip(results, ranks, strict=True):
        factor = float(result.factor[i]) if result is not None and result.has_factor[i] else None
        moved = None if rank is None or ranks[0] is None else ranks[0] - rank
        leaf_ranks.append(LeafRank(rank, factor, moved))
    return ComparedLeaf(
        uid=tree.uuid(i),
        name=tree.name[i],
        path=tree.path(i),
        kind=tree.kind_names[int(tree.kind_code[i])],
        ranks=tuple(leaf_ranks),
        spread=spread,
    )
