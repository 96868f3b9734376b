"""S / (u / p) as arithmetic with 64-bit mantissas gives it, from integers alone and so on every processor.

Slurm on x86-64 divides 80-bit long doubles; whether two levels tie depends on their last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import BoolArray, FloatArray, IntArray, LongArray

Words = npt.NDArray[np.uint64]
Amounts = FloatArray | LongArray

_ONE = np.uint64(1)
_TOP = np.uint64(63)
_HALF = np.uint64(32)
_LOWER = np.uint64(0xFFFFFFFF)
_BASE = np.uint64(1 << 32)
_NONE = np.uint64(0)
_LIFT = np.uint64(11)  # from the 53 bits of a double to 64
_BEYOND = 1 << 20  # an exponent that no quotient of doubles reaches
_FEWEST_FOR_MACHINE_CODE = 8192


class LongNumbers(NamedTuple):
    """mantissa · 2^exponent, the mantissa's top bit set: equal numbers have equal parts, and both order them."""

    exponent: IntArray
    mantissa: Words


def levels(shares: FloatArray, usage: Amounts, whole: Amounts) -> LongNumbers:
    """shares / (usage / whole), each quotient rounded once, half to even. usage, whole: doubles or long doubles.

    Below all others where shares are 0; else above all others where usage is 0. `whole` > 0 elsewhere.
    """
    if len(shares) >= _FEWEST_FOR_MACHINE_CODE and usage.dtype == whole.dtype == np.float64:
        from apps.engine import fast  # here, because small trees shouldn't wait for numba to be loaded
        from apps.engine.numerics import long_kernels  # here, because small trees shouldn't wait for numba to be loaded

        if fast.is_on():
            found = LongNumbers(np.empty(len(shares), dtype=np.int64), np.empty(len(shares), dtype=np.uint64))
            used, of_all = np.asarray(usage, dtype=np.float64), np.asarray(whole, dtype=np.float64)
            long_kernels.fill_levels(shares, used, of_all, found.exponent, found.mantissa)
            return found
    is_finite = (shares > 0) & (usage > 0)
    part = _divide(_long(np.where(is_finite, usage, 1.0)), _long(np.where(is_finite, whole, 1.0)))
    level = _divide(_long(np.where(is_finite, shares, 1.0)), part)
    outside = np.where(shares > 0, _BEYOND, -_BEYOND)
    return LongNumbers(np.where(is_finite, level.exponent, outside), np.where(is_finite, level.mantissa, _ONE << _TOP))


def to_doubles(numbers: LongNumbers) -> FloatArray:
    """The doubles nearest to these; infinite where that is beyond them."""
    with np.errstate(over="ignore", under="ignore"):
        exponent = np.clip(numbers.exponent, -5000, 5000).astype(np.int32)
        near: FloatArray = np.ldexp(numbers.mantissa.astype(np.float64), exponent)
    return near


def is_above(one: LongNumbers, other: LongNumbers) -> BoolArray:
    """Where the first of two is strictly greater."""
    above: BoolArray = (one.exponent > other.exponent) | (
        (one.exponent == other.exponent) & (one.mantissa > other.mantissa)
    )
    return above


def _long(values: Amounts) -> LongNumbers:
    """Positive doubles, exactly; positive long doubles, rounded to 64 bits where they have more."""
    mantissa, exponent = np.frexp(values)
    if values.dtype == np.longdouble:
        whole = np.rint(np.ldexp(mantissa, 64))
        carries = whole == 2.0**64
        words = np.where(carries, 2.0**63, whole).astype(np.uint64)
        return LongNumbers(exponent.astype(np.int64) - 64 + carries, words)
    return LongNumbers(exponent.astype(np.int64) - 64, np.ldexp(mantissa, 53).astype(np.uint64) << _LIFT)


def _divide(number: LongNumbers, divisor: LongNumbers) -> LongNumbers:
    """The quotient rounded to a mantissa of 64 bits, half to even."""
    below = divisor.mantissa
    is_larger = number.mantissa >= below
    upper = np.where(is_larger, number.mantissa >> _ONE, number.mantissa)
    lower = np.where(is_larger, (number.mantissa & _ONE) << _TOP, _NONE)
    quotient, rest = _divide_words(upper, lower, below)
    missing = below - rest
    rounded = quotient + ((rest > missing) | ((rest == missing) & (quotient & _ONE == _ONE)))
    overflows = rounded < quotient
    exponent = number.exponent - divisor.exponent - 64 + is_larger + overflows
    return LongNumbers(exponent, np.where(overflows, _ONE << _TOP, rounded))


def _divide_words(upper: Words, lower: Words, divisor: Words) -> tuple[Words, Words]:
    """(upper · 2^64 + lower) / divisor → quotient and rest; upper < divisor, whose top bit is set.

    Long division in digits of 32 bits. Source: Knuth, The Art of Computer Programming, volume 2, 4.3.1, algorithm D.
    """
    first, rest = _digit(upper, lower >> _HALF, divisor)
    second, rest = _digit(rest, lower & _LOWER, divisor)
    return (first << _HALF) + second, rest


def _digit(rest: Words, next_digit: Words, divisor: Words) -> tuple[Words, Words]:
    """One digit of the quotient, estimated by the divisor's upper half (at most 2 too big), and what rests after it."""
    upper, lower = divisor >> _HALF, divisor & _LOWER
    digit: Words = rest // upper
    over = rest - digit * upper
    for _ in range(2):
        is_too_big = (over < _BASE) & ((digit >= _BASE) | (digit * lower > (over << _HALF) + next_digit))
        digit = digit - is_too_big
        over = np.where(is_too_big, over + upper, over)
    after: Words = (rest << _HALF) + next_digit - digit * divisor
    return digit, after
