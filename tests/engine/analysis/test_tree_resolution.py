"""What a resolution does to the order of one tree, recounted in exact fractions, and the smallest job that shows."""

from __future__ import annotations

from fractions import Fraction
from math import inf, isinf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine import sweep
from apps.engine.algorithms import PriorityResult, compute
from apps.engine.analysis.job_size import smallest_jobs
from apps.engine.analysis.tree_resolution import changed_pairs, collisions, collisions_at, least_resolution, safe_bits
from apps.engine.tree import FairshareTree
from tests.each_case import each_case
from tests.engine.analysis.test_job_size import office
from tests.examples import examples
from tests.oracles import analysis as oracles_analysis

COUNTED = ("n_leaves", "n_misplaced", "n_lost", "n_tied_pairs", "n_turned_pairs")
RESOLUTIONS = (2, 5, 10, 100, 256, 1024, 10_000, 65_536)


def twin(result: PriorityResult, resolution: int, operator: str) -> dict[str, int]:
    tree = result.tree
    vectors = oracles_analysis.exact_vectors(
        tree.parent.tolist(),
        [Fraction(x) for x in tree.shares.tolist()],
        [Fraction(x) for x in result.usage.tolist()],
        operator,
    )
    leaves = np.flatnonzero(tree.is_ranked).tolist()
    return oracles_analysis.rounding_losses([vectors[leaf] for leaf in leaves], resolution)


@examples(40)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(oracles_analysis.EXACT)), r=st.sampled_from(RESOLUTIONS))
@pytest.mark.paper("A7")
def test_counts_of_leaves_and_pairs_equal_exact_fractions(seed: int, name: str, r: int) -> None:
    result = office(seed, operator=name)
    found = collisions(result, r)
    assert {each: getattr(found, each) for each in COUNTED} == twin(result, r, name)
    assert found.n_pairs == found.n_tied_pairs + found.n_turned_pairs


def test_several_resolutions_equal_single_ones() -> None:
    result = office(3)
    assert collisions_at(result, RESOLUTIONS) == [collisions(result, r) for r in RESOLUTIONS]


@examples(60)
@given(ranks=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=40))
def test_tied_and_reversed_pairs_equal_a_pairwise_count(ranks: list[tuple[int, int]]) -> None:
    before, after = (np.array([pair[side] for pair in ranks], dtype=np.int64) for side in (0, 1))
    pairs = [(i, j) for i in range(len(ranks)) for j in range(i)]
    tied = sum(before[i] != before[j] and after[i] == after[j] for i, j in pairs)
    turned = sum((before[i] - before[j]) * (after[i] - after[j]) < 0 for i, j in pairs)
    assert changed_pairs(before, after) == (tied, turned)


def test_excluded_leaves_are_not_counted() -> None:
    result = office(7)
    leaves = np.flatnonzero(result.is_ranked)
    some = np.zeros(result.tree.n_entries, dtype=np.bool_)
    some[leaves[:2]] = True
    found = collisions(result, 2, leaves=some)
    assert found.n_leaves == 2
    assert found.n_pairs <= 1
    assert collisions(result, 2, leaves=result.is_ranked) == collisions(result, 2)


def test_zero_shares_last_reserves_the_lowest_component() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 0], [1, 0, 1, 1000])
    algorithm = {"name": "aequus", "operator": "absolute", "resolution": 4, "zero_shares": "last"}
    result = compute(tree, [0, 0, 1000, 1], algorithm=algorithm)
    assert result.rank[1:].tolist() == [3, 2, 1]
    found = collisions(result, 4)
    assert (found.n_misplaced, found.n_lost) == (0, 0)


@each_case("resolution", [8, 100, 10_000])
@each_case("name", ["absolute", "relative", "relative-2", "sigmoid", "sigmoid-2", "slurm", "combined"])
@pytest.mark.paper("Z4")
def test_the_smallest_visible_job_changes_the_component(name: str, resolution: int) -> None:
    result = office(4, resolution=resolution, operator=name)
    found, tree = smallest_jobs(result), result.tree
    own = result.usage - sweep.sibling_sum(tree, result.usage)
    for leaf in np.flatnonzero(result.is_ranked).tolist():
        path = [leaf]
        while tree.parent[path[-1]] > 0:
            path.append(int(tree.parent[path[-1]]))
        limits = [float(found.here[entry]) for entry in path]
        assert found.anywhere[leaf] == min(limits)
        assert found.everywhere[leaf] == max(limits)
        for entry, limit in zip(path, limits, strict=True):
            below, beyond = (0.0, 1e15) if isinf(limit) else (limit * (1 - 1e-6), limit * (1 + 1e-6) + 1e-6)
            assert changes(result, own, leaf, entry, below) is False
            assert changes(result, own, leaf, entry, beyond) is not isinf(limit)


def changes(
    result: PriorityResult, own: np.ndarray[tuple[int], np.dtype[np.float64]], leaf: int, at: int, job: float
) -> bool:
    """Whether a job on the leaf gives the entry another component, by a recompute."""
    more = own.copy()
    more[leaf] += job
    return bool(compute(result.tree, more, algorithm=result.settings).scalar[at] != result.scalar[at])


def test_in_a_group_without_usage_any_job_is_visible() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0], [1, 1, 3])
    found = smallest_jobs(compute(tree, [0, 0, 0]))
    assert found.everywhere[1:].tolist() == [0.0, 0.0]
    alone, _ = FairshareTree.from_columns([-1, 0], [1, 1])
    assert smallest_jobs(compute(alone, [0, 5])).anywhere[1] == inf, "who is alone is on target whatever they run"


@examples(30)
@given(seed=st.integers(0, 10**6))
@pytest.mark.paper("A13")
def test_safe_bits_are_the_fewest_without_loss_or_misplacement(seed: int) -> None:
    result = office(seed)
    found = safe_bits(result)
    by_bits = dict(zip(range(1, 32), collisions_at(result, [2**bits for bits in range(1, 32)]), strict=True))
    lossless = [bits for bits, each in by_bits.items() if not each.n_lost]
    assert found.distinct == min(lossless) == least_resolution(result).bits
    misplacing = [bits for bits, each in by_bits.items() if each.n_misplaced]
    assert found.same_ranks == max(misplacing, default=0) + 1
