"""Why a scheduler's numbers and ours differ: each input changed alone is found as the reason, and the parts add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.adapters.slurm import parse_shares
from apps.contrib.schedulers.own_values import OwnValue, read_values
from apps.contrib.schedulers.shadow_differences import (
    Comparison,
    Ours,
    Reason,
    _positions,
    build_their_tree,
    compare,
    own_usage_of,
    split_difference,
)
from apps.engine.algorithms import compute, read_algorithm

FAIR_TREE = read_algorithm("slurm-fair-tree")


@pytest.fixture(scope="module")
def rows(golden_dir: Path) -> list[OwnValue]:
    """A real site's sshare."""
    return read_values(parse_shares((golden_dir / "slurm/charged/sshare.txt").read_text(), "c1"))


def ours_of(rows: list[OwnValue], algorithm: Mapping[str, Any] = FAIR_TREE) -> tuple[Ours, list[int]]:
    """What we compute from the tree and usage of these rows."""
    found = build_their_tree(rows)
    assert found is not None
    result = compute(found.tree, found.own_usage, algorithm=algorithm)
    ours = Ours(found.tree, algorithm, result.factor, result.has_factor, result.usage)
    return ours, found.entry_of_row.tolist()


def changed(rows: list[OwnValue], user: str, group: str, **columns: Any) -> list[OwnValue]:
    return [replace(one, **columns) if (one.user, one.group) == (user, group) else one for one in rows]


def adds_up(found: Comparison) -> bool:
    parts = [one.by_usage + one.by_tree + one.by_rule for one in found.differences]
    return parts == pytest.approx([one.difference for one in found.differences], abs=1e-12)


def test_the_same_tree_usage_and_rule_equal_sshare(rows: list[OwnValue]) -> None:
    found = compare(rows, *ours_of(rows))
    assert (len(found.differences), found.n_equal, found.n_unknown, found.scale) == (8, 8, 0, "factor")
    assert found.largest <= 1e-6


def test_other_usage_is_the_reason(rows: list[OwnValue]) -> None:
    """dan and cat of biology change places."""
    found = compare(rows, *ours_of(changed(rows, "dan", "biology", raw_usage=600.0)))
    assert adds_up(found)
    assert {one.reason for one in found.differences} == {"usage", "none"}
    most = found.ordered()[0]
    assert (most.reason, most.our_usage - most.their_usage) in {("usage", 580.0), ("usage", 0.0)}


def test_another_share_is_the_reason(rows: list[OwnValue]) -> None:
    found = compare(rows, *ours_of(changed(rows, "bob", "physics", raw_shares=500.0)))
    assert adds_up(found)
    assert {one.reason for one in found.differences} == {"tree", "none"}


def test_another_rule_is_the_reason_on_the_scale_of_positions(rows: list[OwnValue]) -> None:
    found = compare(rows, *ours_of(rows, read_algorithm("slurm-classic")))
    assert adds_up(found)
    assert {one.reason for one in found.differences} <= {"rule", "none", "rounding"}
    assert found.n_equal < len(found.differences)
    assert compare(rows, *ours_of(rows, read_algorithm("aequus"))).scale == "position"


def test_a_tree_that_our_algorithm_refuses_differs_by_rule(rows: list[OwnValue]) -> None:
    """Flux has no shares of the parent, Slurm has."""
    ours, entry = ours_of(rows, read_algorithm("flux"))
    found = compare(changed(rows, "cat", "biology", raw_shares=-1.0), ours, entry)
    assert adds_up(found)
    assert not any(one.by_tree for one in found.differences)


def test_truncated_digits_are_rounding(rows: list[OwnValue]) -> None:
    """Two ties are broken by half a second that sshare doesn't print."""
    tied = [replace(one, raw_usage=7.0) if one.group == "biology" and one.user else one for one in rows]
    tied = changed(tied, "", "biology", raw_usage=21.0)
    ours, entry = ours_of(tied)
    more = np.zeros(ours.tree.n_entries)
    more[[at for at, row in zip(entry, tied, strict=True) if row.user == "dan"]] = 0.5
    tree = build_their_tree(tied)
    assert tree is not None
    result = compute(tree.tree, tree.own_usage + more, algorithm=FAIR_TREE)
    listed = [
        replace(row, fairshare=float(ours.factor[at])) if row.user else row for row, at in zip(tied, entry, strict=True)
    ]
    found = compare(listed, Ours(tree.tree, FAIR_TREE, result.factor, result.has_factor, result.usage), entry)
    assert {one.reason for one in found.differences} == {"rounding", "none"}
    assert found.largest > 1e-6


def test_usage_of_removed_users_stays_with_their_group(rows: list[OwnValue]) -> None:
    """Listed numbers are cut to whole ones: a remainder of one for each member is nothing."""
    of = {one.group: i for i, one in enumerate(rows) if not one.user}
    assert own_usage_of(rows)[of["physics"]] == 0
    assert own_usage_of(changed(rows, "", "physics", raw_usage=120.0))[of["physics"]] == 0
    assert own_usage_of(changed(rows, "", "physics", raw_usage=219.0))[of["physics"]] == 100


def test_rows_without_parents_form_no_tree(rows: list[OwnValue]) -> None:
    assert build_their_tree([replace(one, parent="") for one in rows]) is None
    looped = [replace(one, parent="hep") if not one.user and one.group == "physics" else one for one in rows]
    assert build_their_tree(looped) is None


FACTORS = st.sampled_from([0.0, 0.25, 0.5, 0.501, 1.0]) | st.floats(0, 1)
NUMBERS = st.lists(st.tuples(*[FACTORS] * 5), min_size=1, max_size=20)


@given(NUMBERS, st.booleans(), st.sampled_from(["factor", "position"]))
def test_parts_add_up_and_a_stated_reason_predicts_the_difference(
    numbers: list[tuple[float, ...]], same_usage: bool, scale: Any
) -> None:
    ours, with_usage, with_tree, theirs, restarted = np.array(numbers).T
    predicted: dict[Reason, Any] = {"restart": restarted}
    found = split_difference(
        ours, with_usage, with_tree, theirs, same_usage=same_usage, scale=scale, predicted=predicted
    )
    assert found.by_usage + found.by_tree + found.by_rule == pytest.approx(found.whole, abs=1e-12)
    rank = (lambda values: values) if scale == "factor" else _positions
    for i, reason in enumerate(found.reasons):
        by_usage, by_tree, by_rule = (float(part[i]) for part in (found.by_usage, found.by_tree, found.by_rule))
        misses = {
            "usage": abs(by_tree + by_rule),
            "rounding": abs(by_tree + by_rule),
            "tree": abs(by_usage) + abs(by_rule),
            "both": abs(by_rule),
            "restart": abs(rank(restarted)[i] - rank(theirs)[i]),
        }
        most = max(abs(found.whole[i]) / 100, 1e-6 if scale == "factor" else 1e-9) + 1e-12
        if reason == "unexplained":
            assert all(miss > most - 2e-12 for miss in misses.values())
        elif reason != "none" and abs(found.whole[i]) > most:
            assert misses[reason] <= most
            assert same_usage or reason != "rounding"


def test_parts_that_cancel_each_other_leave_no_reason() -> None:
    """Usage and the rule differ by as much, in opposite directions: the tree alone gives another number."""
    parts = split_difference(
        np.array([0.5]), np.array([0.2]), np.array([0.0]), np.array([0.3]), same_usage=False, scale="factor"
    )
    assert parts.reasons == ["unexplained"]


def test_a_restart_is_the_reason_where_slurm_counts_no_usage(rows: list[OwnValue]) -> None:
    """Depth-oblivious lists EffectvUsage 0 from a restart until jobs run; RawUsage stays."""
    ours, entry = ours_of(rows, read_algorithm("slurm-depth-oblivious"))
    restarted = [replace(row, fairshare=1.0, effective_usage=0.0) for row in rows]
    found = compare(restarted, ours, entry)
    assert {one.reason for one in found.differences} <= {"restart", "none", "rounding"}
    assert found.n_equal < len(found.differences)
    still_counted = [replace(row, effective_usage=0.5) for row in restarted]
    assert "restart" not in {one.reason for one in compare(still_counted, ours, entry).differences}


def test_a_restart_is_proved_with_the_damping_factor(rows: list[OwnValue]) -> None:
    ours, entry = ours_of(rows, {**read_algorithm("slurm-classic"), "damping_factor": 5})
    listed = [
        replace(row, effective_usage=0.5, fairshare=2 ** (-0.5 / row.norm_shares / 5) if row.norm_shares else 0.0)
        for row in rows
    ]
    assert {one.reason for one in compare(listed, ours, entry).differences} == {"restart"}


def test_numbers_that_no_computation_gives_are_unexplained(rows: list[OwnValue]) -> None:
    ours, entry = ours_of(rows)
    found = compare(changed(rows, "cat", "biology", fairshare=0.4321), ours, entry)
    assert [one.reason for one in found.differences if one.user == "cat"] == ["unexplained"]
