"""Quotients with 64-bit mantissas: against exact fractions, and the same bits from machine code."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apps.engine import fast
from apps.engine.arrays import FEWEST_FOR_MACHINE_CODE, FloatArray
from apps.engine.numerics import long_kernels, long_quotients
from tests.examples import examples
from tests.material import missing
from tests.oracles.slurm_fair_tree import to_bits

WEIGHTS = st.one_of(
    st.integers(1, 60).map(float), st.floats(1e-300, 1e300), st.sampled_from((5e-324, 1e-310, 1.0, 0.1, 1.7e308))
)
TRIPLES = st.lists(st.tuples(WEIGHTS, WEIGHTS, WEIGHTS), min_size=1, max_size=20)


def exact(s: float, u: float, p: float) -> Fraction:
    return to_bits(Fraction(s) / to_bits(Fraction(u) / Fraction(p), 64), 64)


def columns(triples: list[tuple[float, float, float]]) -> tuple[FloatArray, FloatArray, FloatArray]:
    s, u, p = np.array(triples, dtype=np.float64).T
    return s, u, p


@examples(150)
@given(TRIPLES)
def test_levels_are_exact_quotients_rounded_twice(triples: list[tuple[float, float, float]]) -> None:
    found = long_quotients.level_fairshare(*columns(triples))
    for (s, u, p), exponent, mantissa in zip(triples, found.exponent.tolist(), found.mantissa.tolist(), strict=True):
        assert mantissa >= 2**63
        assert Fraction(mantissa) * Fraction(2) ** exponent == exact(s, u, p)


def test_mathematically_equal_shares_and_usage_agree_with_exact_fractions() -> None:
    triples = [(s / 36, 10.0 * s, 360.0) for s in range(1, 36)]
    found = long_quotients.level_fairshare(*columns(triples))
    expected = [exact(*triple) for triple in triples]
    same = [
        Fraction(m) * Fraction(2) ** e for e, m in zip(found.exponent.tolist(), found.mantissa.tolist(), strict=True)
    ]
    assert same == expected
    assert 1 < len(set(same)) < 35


def test_zero_shares_are_below_and_zero_usage_above_all_levels() -> None:
    found = long_quotients.level_fairshare(
        np.array([0.0, 0.0, 1.0, 5e-324]), np.array([0.0, 5.0, 0.0, 9e307]), np.full(4, 9e307)
    )
    order = np.lexsort((found.mantissa, found.exponent)).tolist()
    assert order == [0, 1, 3, 2]
    assert found.to_doubles().tolist() == [0.0, 0.0, float("inf"), 5e-324]


def test_machine_code_gives_the_same_bits() -> None:
    if not fast.IS_INSTALLED:
        missing("no machine code: numba is not installed", "make setup")
    rng = np.random.default_rng(5)
    n = 60_000
    small = rng.integers(0, 40, (3, n // 2)).astype(np.float64)
    small[2] += small[1] + 1
    wild = 10.0 ** rng.uniform(-320, 300, (3, n // 2))
    s, u, p = np.concatenate((small, wild), axis=1)
    with fast.switched(True):
        compiled = long_quotients.level_fairshare(s, u, p)
    with fast.switched(False):
        plain = long_quotients.level_fairshare(s, u, p)
    assert (compiled.exponent == plain.exponent).all()
    assert (compiled.mantissa == plain.mantissa).all()


@examples(50)
@given(TRIPLES)
def test_the_compiled_version_agrees_on_random_numbers(triples: list[tuple[float, float, float]]) -> None:
    s, u, p = columns(triples)
    exponent, mantissa = np.empty(len(s), dtype=np.int64), np.empty(len(s), dtype=np.uint64)
    if fast.IS_INSTALLED:
        long_kernels.fill_level_fairshare(s, u, p, exponent, mantissa)
    else:
        with np.errstate(over="ignore"):
            long_kernels.fill_level_fairshare(s, u, p, exponent, mantissa)
    plain = long_quotients.level_fairshare(s, u, p)
    assert exponent.tolist() == plain.exponent.tolist()
    assert mantissa.tolist() == plain.mantissa.tolist()


@examples(150)
@given(st.lists(st.tuples(st.integers(1, 2**64 - 1), st.integers(-200, 200)), min_size=1, max_size=20))
def test_long_doubles_are_taken_over_bit_by_bit(numbers: list[tuple[int, int]]) -> None:
    """Up to 64 bits are kept; platforms whose long doubles have fewer keep those."""
    values = np.ldexp(np.array([n for n, _ in numbers], dtype=np.longdouble), [at for _, at in numbers])
    taken_over = long_quotients.LongNumbers.from_floats(values)
    for value, exponent, mantissa in zip(
        values, taken_over.exponent.tolist(), taken_over.mantissa.tolist(), strict=True
    ):
        assert mantissa >= 2**63
        assert Fraction(mantissa) * Fraction(2) ** exponent == Fraction(*value.as_integer_ratio())


def test_long_doubles_divide_as_exact_numbers_beside_machine_code() -> None:
    """Long doubles aren't given to machine code, however many there are: it would cut their last bits off."""
    n = FEWEST_FOR_MACHINE_CODE
    used = np.arange(1, n + 1, dtype=np.longdouble) + np.longdouble(2) ** -52
    parent = np.full(n, 3, dtype=np.longdouble) * n
    quotients = long_quotients.level_fairshare(np.ones(n), used, parent)
    for at in (0, 1, n // 2, n - 1):
        exact_used = to_bits(Fraction(*used[at].as_integer_ratio()) / (3 * n), 64)
        assert Fraction(int(quotients.mantissa[at])) * Fraction(2) ** int(quotients.exponent[at]) == to_bits(
            1 / exact_used, 64
        )
