"""Who runs on whose unused share: the sums close, and each number equals the formula written out by hand."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from apps.contrib.starts.now.unused_shares import unused_shares


def _exactly(target: list[Fraction], running: list[int], waiting: list[int]) -> dict[str, list[Fraction]]:
    """The formulas in fractions, without rounding."""
    in_use = sum(running)
    entitled = [t * in_use for t in target]
    above = [max(r - e, Fraction(0)) for r, e in zip(running, entitled, strict=True)]
    unused = [max(e - r, Fraction(0)) for r, e in zip(running, entitled, strict=True)]
    claimed = [min(u, Fraction(w)) for u, w in zip(unused, waiting, strict=True)]
    total = sum(unused)
    back = [a * sum(claimed) / total if total else Fraction(0) for a in above]
    on = [a * u / total if total else Fraction(0) for a in above for u in unused]
    return {
        "entitled": entitled,
        "above": above,
        "unused": unused,
        "claimed": claimed,
        "reclaimed": back,
        "runs_on": on,
    }


@pytest.mark.parametrize("seed", range(60))
def test_numbers_equal_the_formula_in_fractions_and_the_sums_close(seed: int) -> None:
    rng = Random(seed)
    n = rng.randrange(1, 8)
    weights = [rng.choice((0, 1, 2, 7)) for _ in range(n)]
    weights[0] = weights[0] or 1
    target = [Fraction(weight, sum(weights)) for weight in weights]
    running = [rng.choice((0, 0, 8, rng.randrange(5_000))) for _ in range(n)]
    waiting = [rng.choice((0, rng.randrange(5_000))) for _ in range(n)]
    shares = unused_shares(*(np.array(each, np.float64) for each in (target, running, waiting)))
    for name, by_hand in _exactly(target, running, waiting).items():
        assert getattr(shares, name).ravel().tolist() == pytest.approx([float(each) for each in by_hand], abs=1e-6), (
            name
        )
    assert shares.entitled.sum() == pytest.approx(sum(running))
    assert shares.above.sum() == pytest.approx(shares.unused.sum(), abs=1e-6)
    assert shares.runs_on.sum(axis=1).tolist() == pytest.approx(shares.above.tolist(), abs=1e-6)
    assert shares.runs_on.sum(axis=0).tolist() == pytest.approx(shares.unused.tolist(), abs=1e-6)
    assert shares.reclaimed.sum() == pytest.approx(shares.claimed.sum(), abs=1e-6)
    assert not np.diag(shares.runs_on).any(), "nobody runs on an own share"


def test_an_example_by_hand() -> None:
    """Targets 50, 30 and 20 %; 60 cores run of the first, 40 of the second, none of the third, which asks for 10."""
    shares = unused_shares(np.array([0.5, 0.3, 0.2]), np.array([60.0, 40.0, 0.0]), np.array([0.0, 0.0, 10.0]))
    assert shares.entitled.tolist() == [50.0, 30.0, 20.0]
    assert shares.above.tolist() == [10.0, 10.0, 0.0]
    assert shares.unused.tolist() == [0.0, 0.0, 20.0]
    assert shares.runs_on[:, 2].tolist() == [10.0, 10.0, 0.0]
    assert (shares.claimed.tolist(), shares.reclaimed.tolist()) == ([0.0, 0.0, 10.0], [5.0, 5.0, 0.0])


def test_exact_balance_is_neither_above_nor_unused() -> None:
    third = np.full(3, 1 / 3)
    shares = unused_shares(third, np.array([0.1 + 0.2, 0.3, 0.3]), np.zeros(3))
    assert not shares.above.any()
    assert not shares.unused.any()
    assert not shares.runs_on.any()


def test_nothing_runs_on_an_empty_machine() -> None:
    shares = unused_shares(np.array([0.5, 0.5]), np.zeros(2), np.array([100.0, 0.0]))
    assert shares.has_targets
    assert not np.concatenate([shares.entitled, shares.above, shares.unused, shares.claimed, shares.reclaimed]).any()


def test_without_targets_nobody_is_entitled() -> None:
    shares = unused_shares(np.zeros(2), np.array([4.0, 8.0]), np.array([1.0, 1.0]))
    assert not shares.has_targets
    assert not np.concatenate(
        [shares.entitled, shares.above, shares.unused, shares.reclaimed, shares.runs_on.ravel()]
    ).any()


def test_what_has_no_target_runs_wholly_on_shares_of_others() -> None:
    shares = unused_shares(np.array([0.75, 0.25, 0.0]), np.array([0.0, 0.0, 16.0]), np.zeros(3))
    assert shares.above.tolist() == [0.0, 0.0, 16.0]
    assert shares.runs_on[2].tolist() == [12.0, 4.0, 0.0]
