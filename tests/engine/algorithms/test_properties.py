"""What algorithms declare of themselves, on drawn trees; each test takes those that declare its property."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apps.engine.algorithms import PriorityResult, all_algorithms, compute, get_algorithm, read_algorithm
from apps.engine.operators import ON_TARGET_TOLERANCE, Properties, all_operators
from apps.engine.tree import MAX_DEPTH, FairshareTree
from tests.examples import examples

Settings = dict[str, Any]
VARIANTS: dict[str, list[Settings]] = {
    "aequus": [
        *({"operator": operator.name} for operator in all_operators()),
        {"operator": "relative", "resolution": 8},
        {"operator": "slurm", "factor_from": "key"},
    ],
    "slurm-fair-tree": [{"ties": "as-slurm"}, {"ties": "as-documented"}],
    "slurm-classic": [{}, {"damping_factor": 5}],
    "slurm-depth-oblivious": [{}, {"damping_factor": 3}],
}
EVERY: list[list[Settings]] = [
    [{"name": name, **variant} for variant in VARIANTS.get(name, [{}])] for name in all_algorithms()
]
FEW = examples(40)
RANGES = {"gridwide": 100.0}


def declared(chosen: Settings) -> Properties:
    return get_algorithm(chosen["name"]).properties(read_algorithm(chosen))


def those(holds: Callable[[Properties], bool]) -> pytest.MarkDecorator:
    """A test for each algorithm, with those of its variants that declare it."""
    found = [[chosen for chosen in variants if holds(declared(chosen))] for variants in EVERY]
    assert any(found)
    return pytest.mark.parametrize("variants", [some for some in found if some], ids=lambda some: str(some[0]["name"]))


@dataclass(frozen=True)
class Drawn:
    """Rows of a tree in any order of siblings, row 0 the root; NaN shares are inherited."""

    parent: list[int]
    shares: list[float]
    usage: list[float]
    is_reserve: list[bool]
    is_account: list[bool]

    def is_below(self, row: int, ancestor: int) -> bool:
        while row > 0 and row != ancestor:
            row = self.parent[row]
        return row == ancestor


@dataclass(frozen=True)
class Solved:
    """A result with arrays by row instead of by entry."""

    result: PriorityResult
    entry_of: Any

    def __getitem__(self, name: str) -> Any:
        return getattr(self.result, name)[self.entry_of]


def solve(drawn: Drawn, chosen: Settings) -> Solved:
    parent = np.array(drawn.parent)
    is_group = np.isin(np.arange(len(parent)), parent) | np.array(drawn.is_account)
    tree, order = FairshareTree.from_columns(
        parent, drawn.shares, is_group=is_group, is_reserve=drawn.is_reserve, is_user=~is_group
    )
    entry_of = np.empty(len(order), dtype=np.int64)
    entry_of[order] = np.arange(len(order))
    return Solved(compute(tree, np.array(drawn.usage)[order], algorithm=chosen), entry_of)


SMALL = st.integers(0, 6).map(float)
AMOUNTS = st.one_of(st.just(0.0), st.integers(0, 1000).map(float))


@st.composite
def trees(
    draw: st.DrawFn,
    *,
    shares: st.SearchStrategy[float] = SMALL,
    amounts: st.SearchStrategy[float] = AMOUNTS,
    inherits: bool = False,
    only_leaves: bool = False,
    n_most: int = 14,
) -> Drawn:
    n = draw(st.integers(2, n_most))
    reserve = draw(st.integers(0, 8)) == 0
    parent = [-1, *(draw(st.integers(0, row - 1)) for row in range(1, n))]
    weights = st.one_of(shares, shares, shares, st.just(float("nan"))) if inherits else shares
    drawn = Drawn(
        parent=parent,
        shares=[1.0, *(draw(weights) for _ in range(n - 1))],
        usage=[draw(amounts) for _ in range(n)],
        is_reserve=[reserve and row == n - 1 for row in range(n)],
        is_account=[draw(st.integers(0, 9)) == 0 for _ in range(n)],
    )
    keeps = [not drawn.is_reserve[row] and not (only_leaves and row in parent) for row in range(n)]
    return replace(drawn, usage=[amount * kept for amount, kept in zip(drawn.usage, keeps, strict=True)])


def takes(variants: list[Settings]) -> bool:
    return get_algorithm(variants[0]["name"]).takes_inherit


def contest_of(result: PriorityResult) -> tuple[Any, Any]:
    """Entry and fairshare parent, both as entries, of all that compete."""
    contest, entry, _, _ = result.tree.competition
    return entry[1:], entry[contest.parent[1:]]


def groups_in(drawn: Drawn) -> list[tuple[int, list[int]]]:
    """Rows of fairshare parents, and of those who compete below them."""
    solved = solve(drawn, {"name": "aequus"})
    row_of = np.argsort(solved.entry_of)
    entries, parents = contest_of(solved.result)
    assume(len(entries))
    return [
        (int(row_of[parent]), row_of[entries[parents == parent]].tolist()) for parent in sorted(set(parents.tolist()))
    ]


@those(lambda declared: True)
@FEW
@given(data=st.data())
@pytest.mark.fault("F13")
def test_targets_add_up_to_1_in_every_group_with_a_share(variants: list[Settings], data: st.DataObject) -> None:
    drawn = data.draw(trees(shares=st.one_of(SMALL, st.floats(0, 1e300)), inherits=takes(variants)))
    result = solve(drawn, variants[0]).result
    entries, parents = contest_of(result)
    for parent in set(parents.tolist()):
        group = entries[parents == parent]
        expected = 1.0 if (result.tree.shares[group] > 0).any() else 0.0
        assert result.target[group].sum() == pytest.approx(expected, rel=1e-12)


@those(lambda declared: declared.order_independent)
@FEW
@given(data=st.data())
def test_permuting_siblings_changes_nothing(variants: list[Settings], data: st.DataObject) -> None:
    """Integral shares and usage, so that sums don't depend on their order and ties are ties."""
    drawn = data.draw(trees(inherits=takes(variants)))
    rows = [0, *data.draw(st.permutations(range(1, len(drawn.parent))))]  # new row i was row rows[i]
    new_row = {old: new for new, old in enumerate(rows)}
    shuffled = Drawn(
        parent=[-1, *(new_row[drawn.parent[old]] for old in rows[1:])],
        shares=[drawn.shares[old] for old in rows],
        usage=[drawn.usage[old] for old in rows],
        is_reserve=[drawn.is_reserve[old] for old in rows],
        is_account=[drawn.is_account[old] for old in rows],
    )
    for chosen in variants:
        before, after = solve(drawn, chosen), solve(shuffled, chosen)
        for name in ("target", "actual", "priority", "factor"):
            np.testing.assert_allclose(after[name], before[name][rows], rtol=1e-12, atol=1e-12, err_msg=f"{chosen}")
        assert after["rank"].tolist() == before["rank"][rows].tolist(), chosen


@those(lambda declared: declared.order_in_groups)
@FEW
@given(data=st.data())
@pytest.mark.paper("4.39")
def test_usage_of_cousins_never_reverses_the_order_inside_a_group(
    variants: list[Settings], data: st.DataObject
) -> None:
    drawn = data.draw(trees(inherits=takes(variants)))
    parent, group = data.draw(st.sampled_from(groups_in(drawn)))
    rows = range(len(drawn.parent))
    elsewhere = [row for row in rows if not drawn.is_below(row, parent) and not drawn.is_reserve[row]]
    assume(elsewhere)
    usage = list(drawn.usage)
    usage[data.draw(st.sampled_from(elsewhere))] += data.draw(st.sampled_from([1.0, 50.0, 1e6]))
    for chosen in variants:
        before, after = solve(drawn, chosen), solve(replace(drawn, usage=usage), chosen)
        if declared(chosen).isolation:
            assert after["priority"][group].tolist() == before["priority"][group].tolist(), chosen
        assert not turned(before["priority"][group], after["priority"][group]), chosen
        leaves = [row for row in group if before["rank"][row] > 0 and row not in drawn.parent]
        assert not turned(-before["rank"][leaves], -after["rank"][leaves]), chosen


def turned(before: Any, after: Any) -> bool:
    """A leaf that was ahead of another is now behind, by more than rounding."""
    was = np.subtract.outer(before, before) > 1e-9
    now = np.subtract.outer(after, after) < -1e-9
    return bool((was & now).any())


@those(lambda declared: declared.monotone)
@FEW
@given(data=st.data())
def test_more_usage_never_raises_a_priority_and_more_shares_never_lower_it(
    variants: list[Settings], data: st.DataObject
) -> None:
    drawn = data.draw(trees(inherits=takes(variants)))
    _, group = data.draw(st.sampled_from(groups_in(drawn)))
    row = data.draw(st.sampled_from(group))
    more = data.draw(st.sampled_from([1.0, 7.0, 1e5]))
    shares = [weight + more * (each == row) for each, weight in enumerate(drawn.shares)]
    usage = [amount + more * (each == row) for each, amount in enumerate(drawn.usage)]
    leaves = [each for each in group if each not in drawn.parent]
    for chosen in variants:
        before, richer = solve(drawn, chosen), solve(replace(drawn, shares=shares), chosen)
        assert richer["priority"][row] >= before["priority"][row] - 1e-12, chosen
        assert not overtaken(before["rank"], richer["rank"], row, leaves), chosen
        if not drawn.is_reserve[row]:
            busier = solve(replace(drawn, usage=usage), chosen)
            assert busier["priority"][row] <= before["priority"][row] + 1e-12, chosen
            assert not overtaken(-before["rank"], -busier["rank"], row, leaves), chosen


def overtaken(before: Any, after: Any, row: int, leaves: list[int]) -> bool:
    """A leaf that had a larger number than the row's has now a smaller one."""
    ranked = [each for each in leaves if row in leaves and before[each] != 0 and before[row] != 0]
    return any(before[each] > before[row] and after[each] < after[row] for each in ranked)


@those(lambda declared: True)
@FEW
@given(data=st.data())
def test_numbers_stay_in_their_ranges(variants: list[Settings], data: st.DataObject) -> None:
    drawn = data.draw(trees(inherits=takes(variants)))
    for chosen in variants:
        result, most = solve(drawn, chosen).result, RANGES.get(chosen["name"], 1.0)
        assert (np.abs(result.priority) <= most).all(), chosen
        for share in (result.target, result.actual, result.target_global, result.factor):
            assert ((share >= 0) & (share <= 1)).all(), chosen
        ranks = result.rank[result.is_ranked]
        assert result.n_ranked == len(ranks)
        assert [1 + int((ranks < rank).sum()) for rank in ranks] == ranks.tolist(), chosen
        assert (result.rank[~result.has_rank] == 0).all()
        best_first = result.factor[result.is_ranked][np.argsort(ranks, kind="stable")]
        assert (np.diff(best_first) <= 1e-12).all(), chosen


@those(lambda declared: declared.sign)
@FEW
@given(data=st.data())
def test_priorities_are_above_0_below_target_and_below_0_above_it(
    variants: list[Settings], data: st.DataObject
) -> None:
    drawn = data.draw(trees(only_leaves=True))
    for chosen in variants:
        result = solve(drawn, chosen).result
        entries, _ = contest_of(result)
        t, s = result.target[entries], result.actual[entries]
        checked = (t > 0) | (s > 0)  # with neither share nor usage an entry may be below or on target
        is_balanced = np.abs(t - s) <= ON_TARGET_TOLERANCE * np.maximum(t, s)
        expected = np.where(is_balanced, 0, np.sign(t - s))
        assert (np.sign(result.priority[entries])[checked] == expected[checked]).all(), chosen


@those(lambda declared: declared.boundaries)
@FEW
@given(data=st.data())
def test_zero_usage_is_highest_and_zero_shares_lowest(variants: list[Settings], data: st.DataObject) -> None:
    drawn = data.draw(trees(only_leaves=True))
    for chosen in variants:
        result, most = solve(drawn, chosen).result, RANGES.get(chosen["name"], 1.0)
        entries, _ = contest_of(result)
        used, priority = result.actual[entries], result.priority[entries]
        assert (priority[(used == 0) & (result.target_global[entries] > 0)] == most).all(), chosen
        assert (priority[(used > 0) & (result.target[entries] == 0)] == -most).all(), chosen


@those(lambda declared: declared.scale_invariance)
@FEW
@given(data=st.data())
def test_multiplying_usage_or_the_shares_of_a_group_changes_nothing(
    variants: list[Settings], data: st.DataObject
) -> None:
    """By powers of two, so that no rounding makes or breaks a tie; and by anything, within rounding."""
    drawn = data.draw(trees(inherits=takes(variants)))
    _, group = data.draw(st.sampled_from(groups_in(drawn)))

    def scaled(usage_scale: float, shares_scale: float) -> Drawn:
        shares = [weight * (shares_scale if row in group else 1) for row, weight in enumerate(drawn.shares)]
        return replace(drawn, usage=[amount * usage_scale for amount in drawn.usage], shares=shares)

    for chosen in variants:
        before, exact, rough = (solve(each, chosen) for each in (drawn, scaled(0.25, 8.0), scaled(3.7, 0.3)))
        np.testing.assert_allclose(rough["priority"], before["priority"], rtol=0, atol=1e-7, err_msg=f"{chosen}")
        np.testing.assert_allclose(exact["factor"], before["factor"], rtol=1e-12, err_msg=f"{chosen}")
        assert exact["rank"].tolist() == before["rank"].tolist(), chosen


@those(lambda declared: declared.proportional_redistribution)
def test_unused_share_goes_to_active_siblings_in_proportion(variants: list[Settings]) -> None:
    """Serve the member of an account that is ahead, one job at a time, while the third is idle."""
    drawn = Drawn([-1, 0, 0, 1, 1, 1, 2], [1, 1, 1, 5, 3, 2, 1], [0.0] * 7, [False] * 7, [False] * 7)
    for chosen in variants:
        usage = np.array([0, 0, 0, 1.0, 1.0, 0.0, 400.0])
        for _ in range(400):
            priority = solve(replace(drawn, usage=usage.tolist()), chosen)["priority"]
            usage[3 if priority[3] >= priority[4] else 4] += 1.0
        assert usage[3] / (usage[3] + usage[4]) == pytest.approx(5 / 8, abs=0.004), chosen


EXTREME = st.sampled_from([0.0, 5e-324, 1e-300, 1e-12, 1.0, 3.0, 1e12, 1e300])


@those(lambda declared: True)
@FEW
@given(data=st.data())
def test_up_to_64_levels_and_any_usage_give_finite_numbers(variants: list[Settings], data: st.DataObject) -> None:
    """A chain with a sibling or two on every level; infinity only where a level may be infinite."""
    depth = data.draw(st.one_of(st.integers(1, MAX_DEPTH), st.just(MAX_DEPTH)))
    parent, chain = [-1], 0
    for n_siblings in data.draw(st.lists(st.integers(1, 3), min_size=depth, max_size=depth)):
        parent += [chain] * n_siblings
        chain = len(parent) - n_siblings
    n = len(parent)
    shares, usage = (data.draw(st.lists(EXTREME, min_size=n, max_size=n)) for _ in range(2))
    drawn = Drawn(parent, shares, usage, [False] * n, [False] * n)
    for chosen in variants:
        result = solve(drawn, chosen).result
        assert result.tree.depth == depth
        for name in ("usage", "target", "actual", "priority", "target_global", "factor"):
            assert np.isfinite(getattr(result, name)).all(), (chosen, name)
        for name, column in result.columns.items():
            assert not np.isnan(column.values).any(), (chosen, name)
            assert name == "level_fs" or np.isfinite(column.values).all(), (chosen, name)
        assert result.rank[result.is_ranked].min() == 1
