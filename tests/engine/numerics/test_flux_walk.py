"""flux's walk list by list: the bits of the walk by columns, whatever the tree, and what happens without numba."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from apps.engine import fast
from apps.engine.algorithms import compute
from apps.engine.arrays import FEWEST_FOR_MACHINE_CODE
from apps.engine.numerics import flux_walk
from apps.engine.tree import FairshareTree
from tests.engine import flux_walks
from tests.engine.numerics.exact_twins import differences
from tests.material import missing

FLUX = {"name": "flux"}
Draw = Callable[[np.random.Generator, int], npt.NDArray[np.floating[Any]]]
AMOUNTS: dict[str, Draw] = {
    "any": lambda rng, n: rng.exponential(3600.0, n) * (rng.random(n) > 0.2),
    "whole": lambda rng, n: np.floor(rng.exponential(3600.0, n)),
    "ties": lambda rng, n: rng.integers(0, 3, n).astype(np.float64),
    "near ties": lambda rng, n: 1000.0 + rng.integers(-2, 3, n) * 2.0**-43,
    "idle": lambda rng, n: np.zeros(n),
    "all equal": lambda rng, n: np.full(n, 7.0),
    "subnormal": lambda rng, n: rng.integers(0, 4, n) * 5e-324,
    "almost none": lambda rng, n: rng.uniform(0.5e-9, 2e-9, n),
    "any size": lambda rng, n: 10.0 ** rng.uniform(-20, 70, n),
    "huge": lambda rng, n: rng.uniform(0, 1, n) * 1.7e308,
}
SHARES: dict[str, Draw] = {
    "few": lambda rng, n: rng.integers(0, 4, n).astype(np.float64),
    "any": lambda rng, n: rng.exponential(1.0, n),
    "subnormal": lambda rng, n: rng.integers(0, 4, n) * 5e-324,
    "any size": lambda rng, n: 10.0 ** rng.uniform(-70, 70, n),
}


def tree_of(rng: np.random.Generator, n: int, spread: int, shares: npt.NDArray[np.floating[Any]]) -> FairshareTree:
    """spread: the parent of a row is one of as many before it; leaves, empty groups and reserves are mixed."""
    rows = np.arange(n)
    parent = np.maximum(rows - rng.integers(1, spread + 1, n), 0) // (1 + rng.integers(0, 2, n) * 3)
    parent[0] = -1
    has_children = np.bincount(parent[1:], minlength=n) > 0
    kind = rng.random(n)
    is_reserve = ~has_children & (kind > 0.95)
    is_reserve[0] = False
    return FairshareTree.from_columns(parent, shares, is_group=has_children | (kind < 0.1), is_reserve=is_reserve)[0]


def test_walks_of_random_trees_have_the_same_bits() -> None:
    did_decide: dict[tuple[str, str], list[bool]] = {}
    rng = np.random.default_rng(75)
    for name, amounts in AMOUNTS.items():
        for of_shares, draw in SHARES.items():
            with flux_walks.both() as decided:
                for n, spread in ((1, 1), (2, 1), (60, 60), (300, 100), (900, 900)):
                    tree = tree_of(rng, n, spread, draw(rng, n))
                    compute(tree, np.where(tree.is_reserve, 0.0, amounts(rng, tree.n_entries)), algorithm=FLUX)
            did_decide[name, of_shares] = decided
    assert all(did_decide["idle", shares] == [True] * 5 for shares in ("few", "any"))
    assert not all(did_decide["near ties", "few"])
    assert all(did_decide["any", "any"])
    assert not any(did_decide["huge", "any"][2:])  # quotients of long doubles


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 100, 70_000])
def test_lists_of_any_length_are_sorted(n: int) -> None:
    rng = np.random.default_rng(n)
    tree = FairshareTree.from_columns(np.append(-1, np.zeros(n, dtype=np.int64)), np.ones(n + 1))[0]
    alternating = np.where(np.arange(n + 1) % 2, 1000.0, 1000.0 + 2.0**-43)
    with flux_walks.both() as did_decide:
        compute(tree, np.append(0.0, rng.exponential(1.0, n)), algorithm=FLUX)
        compute(tree, np.append(0.0, np.full(n, 3.0)), algorithm=FLUX)
        compute(tree, np.append(0.0, alternating[1:]), algorithm=FLUX)
        # Weights that have one key in a long list, and are apart: sorted by columns if there are very many.
        compute(tree, np.append(0.0, 1000.0 + rng.permutation(n) * 2.0**-39), algorithm=FLUX)
    assert did_decide == [True, True, n == 1, n <= 100]


def test_random_cases_agree_with_exact_arithmetic() -> None:
    with flux_walks.both() as did_decide:
        assert list(differences("flux", first=75_000_000, n=70)) == []
    assert 0 < sum(did_decide) < len(did_decide)


def test_columns_are_walked_where_numba_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be absent, compile nothing on this processor, or find damaged machine code in its cache."""

    def fails(*_arguments: object) -> bool:
        raise ValueError("no target machine")

    n = FEWEST_FOR_MACHINE_CODE
    tree = FairshareTree.from_columns(np.append(-1, np.zeros(n, dtype=np.int64)), np.ones(n + 1))[0]
    usage = np.arange(n + 1.0)
    with fast.switched(False):
        plain = compute(tree, usage, algorithm=FLUX)
    monkeypatch.setattr(flux_walk, "walk", fails)
    monkeypatch.setattr(fast, "_is_on", True)
    with caplog.at_level(logging.ERROR, fast.__name__):
        assert (compute(tree, usage, algorithm=FLUX).rank == plain.rank).all()
    assert [record.message for record in caplog.records] == ["numba fails; this process goes on without machine code"]
    assert not fast.is_on()


def test_machine_code_of_each_column_is_made_once() -> None:
    """Usage of a mapped file can't be written, another can: both are read by the same code."""
    if not fast.IS_INSTALLED:
        missing("no machine code: numba is not installed", "make setup")
    n = FEWEST_FOR_MACHINE_CODE
    tree = FairshareTree.from_columns(np.append(-1, np.zeros(n, dtype=np.int64)), np.ones(n + 1))[0]
    usage = np.arange(n + 1.0)
    fixed = usage.copy()
    fixed.flags.writeable = False
    with fast.switched(True):
        assert (compute(tree, usage, algorithm=FLUX).rank == compute(tree, fixed, algorithm=FLUX).rank).all()
    assert len(flux_walk.walk.signatures) == 1  # type: ignore[attr-defined]
