"""Adjustments of usage age like usage, keep members in proportion, and never leave less than nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine import decay
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.working_tree import columns_of
from apps.priorities.recompute.corrections import Correction, apply_corrections, correction_amounts
from tests.examples import new_uid

HOUR_S = 3600.0
AS_OF_S = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()
METRIC = {"weights": {"cpu_s": 1.0, "gpu_s": 50.0}}
ROOT, A, B, A1, A2 = (UUID(int=number) for number in range(1, 6))


@pytest.fixture(scope="module")
def tree() -> TreeColumns:
    """root → a (a1, a2), b."""
    return columns_of(
        [
            Node(ROOT, None, "root"),
            Node(A, ROOT, "a"),
            Node(B, ROOT, "b", "user", is_group=False),
            Node(A1, A, "a1", "user", is_group=False),
            Node(A2, A, "a2", "user", is_group=False),
        ]
    )


def correction(entry: UUID, amount_s: float, *, hours_ago: float = 1.0, resource: str = "cpu_s") -> Correction:
    return Correction(new_uid(), entry, resource, amount_s, AS_OF_S - hours_ago * HOUR_S)


def own_after(tree: TreeColumns, own: list[float], *corrections: Correction) -> list[float]:
    counted = correction_amounts(corrections, metric=METRIC, window=decay.Window(), as_of_s=AS_OF_S)
    result: list[float] = apply_corrections(tree, np.array(own, dtype=np.float64), corrections, counted).tolist()
    return result


def test_usage_charged_to_a_group_belongs_to_no_member(tree: TreeColumns) -> None:
    assert own_after(tree, [0, 0, 100, 300, 100], correction(A, 60)) == [0, 60, 100, 300, 100]


def test_a_credit_to_a_group_reduces_its_members_proportionally(tree: TreeColumns) -> None:
    assert own_after(tree, [0, 0, 100, 300, 100], correction(A, -200)) == [0, 0, 100, 150, 50]


@pytest.mark.fault("F7")
def test_a_credit_cannot_exceed_usage(tree: TreeColumns) -> None:
    assert own_after(tree, [0, 0, 100, 300, 100], correction(A1, -1e9)) == [0, 0, 100, 0, 100]
    assert own_after(tree, [0, 0, 0, 0, 0], correction(A, -5)) == [0, 0, 0, 0, 0]


def test_adjustments_of_one_entry_are_summed_before_clipping(tree: TreeColumns) -> None:
    assert own_after(tree, [0, 0, 0, 10, 0], correction(A1, -100), correction(A1, 95)) == [0, 0, 0, 5, 0]


def test_an_adjustment_of_an_archived_entry_is_inactive(tree: TreeColumns) -> None:
    own = [0.0, 0, 1, 2, 3]
    assert own_after(tree, own, correction(uuid4(), -2)) == own


def test_an_adjustment_decays_and_is_weighted_like_usage() -> None:
    window = decay.Window.of(length_s=10 * HOUR_S, aging="exponential", half_life_s=2 * HOUR_S)
    some = [
        correction(A, 8, hours_ago=1),
        correction(A, 8, hours_ago=3),
        correction(A, 8, hours_ago=12),
        correction(A, 8, hours_ago=-1),
        correction(A, 8, hours_ago=1, resource="gpu_s"),
        correction(A, 8, hours_ago=1, resource="node_s"),
    ]
    counted = correction_amounts(some, metric=METRIC, window=window, as_of_s=AS_OF_S)
    assert counted.tolist() == [8.0, 4.0, 0.0, 0.0, 400.0, 0.0]


usages = st.lists(st.floats(0, 1e12), min_size=5, max_size=5)
amounts = st.lists(st.tuples(st.sampled_from([A, B, A1, A2]), st.floats(-1e12, 1e12)), max_size=6)


@given(usages, amounts)
@pytest.mark.fault("F7")
def test_adjusted_usage_is_finite_and_non_negative_and_others_unchanged(
    own: list[float], changes: list[tuple[UUID, float]]
) -> None:
    columns = columns_of(
        [Node(ROOT, None, "root"), Node(A, ROOT, "a"), Node(B, ROOT, "b"), Node(A1, A, "a1"), Node(A2, A, "a2")]
    )
    after = own_after(columns, own, *(correction(entry, amount) for entry, amount in changes))
    assert all(np.isfinite(after))
    assert min(after) >= 0
    assert after[0] == own[0]
    if not any(entry == B for entry, _ in changes):
        assert after[2] == own[2]


def test_adjustments_apply_by_instant_and_not_by_row_order() -> None:
    some = [correction(A, 1.0, hours_ago=hours) for hours in (1, 5, 9)]
    window = decay.Window(length_s=6 * HOUR_S)
    counted = correction_amounts(some, metric=METRIC, window=window, as_of_s=AS_OF_S)
    turned = correction_amounts(some[::-1], metric=METRIC, window=window, as_of_s=AS_OF_S)
    assert counted.tolist() == turned.tolist()[::-1] == [1.0, 1.0, 0.0]
