"""Columns of usage by their definitions: of the whole policy, and through levels that are compared in other scopes."""

from __future__ import annotations

import numpy as np
import pytest

from apps.engine.algorithms.inputs import norm_usage
from apps.engine.analysis.properties import exponent_curve, exponent_of
from apps.engine.case_fields import read_number
from apps.engine.decay import Window
from apps.engine.errors import BadCase
from apps.engine.slurm_charge import PeriodCharge
from apps.engine.tree import FairshareTree

#      0 root, 1 a, 2 b, 3 a/u, 4 a/v
PARENT = [-1, 0, 0, 1, 1]


def normed(total: list[float], group_total: list[float] | None = None) -> list[float]:
    tree, _order = FairshareTree.from_columns(PARENT, [1.0] * len(PARENT))
    totals = np.array(total)
    groups = totals if group_total is None else np.array(group_total)
    return list(map(float, norm_usage(tree, totals, groups, np.array(PARENT))))


def test_usage_is_divided_by_that_of_the_root_and_nothing_by_nothing() -> None:
    assert normed([8.0, 6.0, 2.0, 6.0, 0.0]) == [1.0, 0.75, 0.25, 0.75, 0.0]
    assert normed([0.0] * 5) == [0.0] * 5
    assert normed([8.0, 6.0, 2.0, 6.0, 0.0], [8.0, 6.0, 2.0, 6.0, 0.0]) == [1.0, 0.75, 0.25, 0.75, 0.0]


def test_no_entry_used_more_than_the_whole() -> None:
    """Sums of doubles may exceed their total by the last bit."""
    assert normed([8.0, 9.0, 0.0, 9.0, 0.0])[1] == 1.0


def test_in_other_scopes_it_is_the_product_of_the_parts_down_the_tree() -> None:
    """The children of /a are compared by usage of this site alone: 2 of 4 hours."""
    assert normed([8.0, 6.0, 2.0, 2.0, 2.0], [8.0, 4.0, 2.0, 2.0, 2.0]) == [1.0, 0.75, 0.25, 0.375, 0.375]
    assert normed([8.0, 6.0, 2.0, 2.0, 2.0], [8.0, 0.0, 2.0, 2.0, 2.0]) == [1.0, 0.75, 0.25, 0.0, 0.0]


def test_the_exponent_of_a_parents_ratio_is_that_of_the_manual() -> None:
    ratio = np.array([1.0, np.exp(0.2), np.exp(-0.2), np.exp(0.4)])
    assert exponent_of(ratio) == pytest.approx([1.0, 0.5, 0.5, 0.2])
    ratios, exponents = exponent_curve()
    assert (ratios[0], ratios[50], ratios[-1]) == (pytest.approx(0.2), 1.0, pytest.approx(5.0))
    assert exponents.argmax() == 50
    assert exponents == pytest.approx(exponents[::-1])


def test_a_field_that_is_absent_or_null_has_its_default_or_is_missing() -> None:
    for section in ({}, {"x": None}):
        assert read_number(section, "x", "case", default=3.0) == 3.0
        with pytest.raises(BadCase, match="is missing") as refusal:
            read_number(section, "x", "case", minimum=0.0)
        assert refusal.value.place == "case.x"
    assert read_number({"x": 0}, "x", "", minimum=0.0, maximum=1.0) == 0.0
    assert read_number({"x": 1}, "x", "", minimum=0.0, maximum=1.0) == 1.0
    for value in (-0.1, 1.1, "0", True, float("nan")):
        with pytest.raises(BadCase, match="can't be used"):
            read_number({"x": value}, "x", "", minimum=0.0, maximum=1.0)


def test_after_a_resize_a_job_is_charged_from_the_tick_before_it() -> None:
    """A part that begins at a tick is charged from the tick before: Slurm charges that period with both sizes."""
    window = Window.of("slurm", calc_period_s=300.0, half_life_s=604_800.0, phase_s=0.0)
    charge = PeriodCharge(window, 10_000.0)
    start = np.array([1_200.0, 1_201.0, 1_499.5, 1_500.0, 1_250.0, 700.0])
    before = np.array([100.0, 100.0, 100.0, 100.0, 1_230.0, np.nan])
    assert charge.charged_from(start, before).tolist() == [900.0, 1_200.0, 1_200.0, 1_200.0, 1_230.0, 700.0]
    assert charge.charged_from(start, None).tolist() == start.tolist()
