"""Measured properties of algorithms: each of these algorithms lacks the named properties by its formula alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from apps.engine import operators
from apps.engine.algorithms import get_algorithm, read_algorithm
from apps.engine.algorithms.base import PriorityResult, assemble
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.algorithms.package_properties import disproved, measure_properties
from apps.engine.arrays import FloatArray
from apps.engine.errors import PackageFailed
from apps.engine.numerics import vector_ranks
from apps.engine.operators import Properties
from apps.engine.parameters import Parameter, Settings
from tests.engine.random_cases import ALGORITHMS

Formula = Callable[[FloatArray, FloatArray, Prepared, Compared], FloatArray]


class ByFormula:
    """Entries are ordered level by level by the formula of target and actual share."""

    name = "by-formula"
    label = formula = component = reference = "x"
    parameters: tuple[Parameter, ...] = ()
    fields: tuple[str, ...] = ("target", "rank", "factor")
    takes_inherit = True

    def __init__(self, formula: Formula) -> None:
        self._formula = formula

    def properties(self, settings: Settings) -> Properties:
        return Properties(True, True, True, True)

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        priority = self._formula(prepared.target, compared.actual, prepared, compared)
        classify = vector_ranks.classes_of_numbers(priority, 1e-12, is_root_listed=prepared.is_root_listed)
        ahead = vector_ranks.count_ahead(prepared.contest, classify, prepared.ends)
        return assemble(prepared, compared, settings, priority=priority, scalar=None, ahead=ahead, key_factor=None)


def _gap(t: FloatArray, s: FloatArray) -> FloatArray:
    """−1 without shares, 1 without usage, 0 on target."""
    larger = np.maximum(t, s)
    gap: FloatArray = np.divide(t - s, larger, out=np.zeros_like(t), where=~operators.on_target(t, s))
    return gap


def _lacking(formula: Formula) -> set[str]:
    measured = measure_properties(ByFormula(formula), {})
    return {each.name for each in fields(Properties) if not getattr(measured, each.name)}


def _relative(t: FloatArray, s: FloatArray, prepared: Prepared, compared: Compared) -> FloatArray:
    return _gap(t, s)


def _by_all_usage(t: FloatArray, s: FloatArray, prepared: Prepared, compared: Compared) -> FloatArray:
    """Fades as the whole tree is used, so that more usage brings an entry over its target closer to 0."""
    return _gap(t, s) / (1.0 + 1e-4 * float(compared.total[0]))


def _by_cousins(t: FloatArray, s: FloatArray, prepared: Prepared, compared: Compared) -> FloatArray:
    """Usage of the whole tree decides how much the target counts, so that siblings turn with it."""
    heavy = compared.total[0] > 1000
    return np.where(_gap(t, s) > 0, t if heavy else 1.0 - t / 2, _gap(t, s))


def _by_amount(t: FloatArray, s: FloatArray, prepared: Prepared, compared: Compared) -> FloatArray:
    """A job counts less where much was used before."""
    total = compared.total[prepared.entry]
    return _gap(t, s) / (1.0 + 1e-3 * total)


def _shifted(t: FloatArray, s: FloatArray, prepared: Prepared, compared: Compared) -> FloatArray:
    return _gap(t, s) / 2 + 0.25


def _in_order(t: FloatArray, s: FloatArray, prepared: Prepared, compared: Compared) -> FloatArray:
    """A tie is won by the sibling that is listed first."""
    return _gap(t, s) - 1e-6 * np.arange(len(t))


def _reversed(t: FloatArray, s: FloatArray, prepared: Prepared, compared: Compared) -> FloatArray:
    return -_gap(t, s)


def _absolute(t: FloatArray, s: FloatArray, prepared: Prepared, compared: Compared) -> FloatArray:
    return t - s


def _equal(t: FloatArray, s: FloatArray, prepared: Prepared, compared: Compared) -> FloatArray:
    return np.zeros_like(t)


def _by_usage(t: FloatArray, s: FloatArray, prepared: Prepared, compared: Compared) -> FloatArray:
    """The sibling that used least is first, whatever its shares."""
    return -s


def _bound_in_the_middle(t: FloatArray, s: FloatArray, prepared: Prepared, compared: Compared) -> FloatArray:
    """More shares lower the priority of an entry with more than half of them."""
    return _gap(t, s) * np.where((t > 0.5) & (s < t), 1.5 - t, 1.0)


def test_an_algorithm_with_all_properties_lacks_none() -> None:
    assert _lacking(_relative) == set()


@pytest.mark.deep
def test_a_formula_lacks_what_it_violates_and_nothing_else() -> None:
    lacking: dict[Formula, set[str]] = {
        _by_all_usage: {"isolation", "scale_invariance", "boundaries", "monotone"},
        _by_cousins: {"isolation", "scale_invariance", "boundaries", "order_in_groups", "monotone"},
        _shifted: {"sign"},
        _in_order: {"order_independent", "boundaries", "sign"},
        _reversed: {"proportional_redistribution", "boundaries", "monotone", "sign"},
        _absolute: {"proportional_redistribution", "boundaries"},
        _equal: {"proportional_redistribution", "sign"},
        _by_usage: {"proportional_redistribution", "boundaries", "sign"},
    }
    assert {formula.__name__: _lacking(formula) for formula in lacking} == {
        formula.__name__: names for formula, names in lacking.items()
    }


def test_scaling_is_tried_with_usage_and_with_shares_of_one_group() -> None:
    assert "scale_invariance" in _lacking(_by_amount)

    def by_shares(t: FloatArray, s: FloatArray, prepared: Prepared, compared: Compared) -> FloatArray:
        return _gap(t, s) / (1.0 + 1e-3 * prepared.contest.shares)

    assert {"scale_invariance", "isolation"} & _lacking(by_shares) == {"scale_invariance"}


def test_monotone_holds_for_shares_and_for_usage() -> None:
    assert "monotone" in _lacking(_bound_in_the_middle)

    def by_usage(t: FloatArray, s: FloatArray, prepared: Prepared, compared: Compared) -> FloatArray:
        """More usage raises the priority of an entry beyond its target."""
        return np.where(s > t, _gap(t, s) + 0.5 * s, _gap(t, s))

    assert "monotone" in _lacking(by_usage)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "flux" else pytest.mark.deep) for name in ALGORITHMS]
)
def test_measured_properties_of_built_in_algorithms_equal_the_declared_ones(name: str) -> None:
    """Both ways: no tree disproves what is declared, and some tree disproves what isn't."""
    variants: dict[str, list[dict[str, Any]]] = {
        "aequus": [{"operator": "relative"}, {"operator": "absolute"}, {"operator": "relative", "resolution": 8}],
        "slurm-fair-tree": [{"ties": "as-slurm"}, {"ties": "as-documented"}],
    }
    for variant in variants.get(name, [{}]):
        settings = read_algorithm({"name": name, **variant})
        algorithm = get_algorithm(name)
        assert measure_properties(algorithm, settings) == algorithm.properties(settings), variant


def test_a_declared_property_is_disproved_and_an_undeclared_one_is_not() -> None:
    measured = Properties(False, True, False, True, sign=False)
    declared = Properties(True, False, True, True, sign=True)
    assert disproved(measured, declared) == ("isolation", "scale_invariance", "sign")
    assert disproved(declared, measured) == ("proportional_redistribution",)


def test_an_algorithm_that_fails_on_a_tree_fails_the_measurement() -> None:
    def fail(t: FloatArray, s: FloatArray, prepared: Prepared, compared: Compared) -> FloatArray:
        raise ArithmeticError("no")

    with pytest.raises(PackageFailed, match="ArithmeticError: no"):
        measure_properties(ByFormula(fail), {})
