"""Level fairshare LF = S/U with the 64-bit mantissas of x86-64 long doubles, from integers alone.

Slurm divides 80-bit long doubles, and whether two levels tie depends on their last bit. Integer arithmetic gives the
same bits on every processor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import FEWEST_FOR_MACHINE_CODE, BoolArray, FloatArray, IntArray, LongArray

Words = npt.NDArray[np.uint64]
Amounts = FloatArray | LongArray

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_HALF = np.uint64(32)
_LOWER = np.uint64(0xFFFFFFFF)
_BASE = np.uint64(1 << 32)
_TOP_BIT = np.uint64(63)
_EXTRA_BITS = np.uint64(11)  # a long double's mantissa has 64 bits, a double's 53
_BEYOND = 1 << 20  # an exponent that no quotient of doubles reaches


class LongNumbers(NamedTuple):
    """Positive numbers mantissa · 2^exponent; the mantissa's top bit is set.

    Equal numbers have equal parts; ordering by exponent, then mantissa, orders the numbers.
    """

    exponent: IntArray
    mantissa: Words

    @classmethod
    def from_floats(cls, values: Amounts) -> LongNumbers:
        """Convert positive doubles exactly; round positive long doubles to 64 bits where they have more."""
        mantissa, exponent = np.frexp(values)
        if values.dtype == np.longdouble:
            whole = np.rint(np.ldexp(mantissa, 64))
            carries = whole == 2.0**64
            words = np.where(carries, 2.0**63, whole).astype(np.uint64)
            return cls(exponent.astype(np.int64) - 64 + carries, words)
        return cls(exponent.astype(np.int64) - 64, np.ldexp(mantissa, 53).astype(np.uint64) << _EXTRA_BITS)

    def __truediv__(self, divisor: LongNumbers) -> LongNumbers:
        """Return the quotient rounded to a mantissa of 64 bits, half to even."""
        is_larger = self.mantissa >= divisor.mantissa
        upper = np.where(is_larger, self.mantissa >> _ONE, self.mantissa)
        lower = np.where(is_larger, (self.mantissa & _ONE) << _TOP_BIT, _ZERO)
        quotient, remainder = _divide_words(upper, lower, divisor.mantissa)
        missing = divisor.mantissa - remainder
        rounded = quotient + ((remainder > missing) | ((remainder == missing) & (quotient & _ONE == _ONE)))
        overflows = rounded < quotient
        exponent = self.exponent - divisor.exponent - 64 + is_larger + overflows
        return LongNumbers(exponent, np.where(overflows, _ONE << _TOP_BIT, rounded))

    def equals(self, other: LongNumbers) -> BoolArray:
        """Return where both numbers are the same."""
        equal: BoolArray = (self.exponent == other.exponent) & (self.mantissa == other.mantissa)
        return equal

    def exceeds(self, other: LongNumbers) -> BoolArray:
        """Return where this number is strictly greater than the other."""
        greater: BoolArray = (self.exponent > other.exponent) | (
            (self.exponent == other.exponent) & (self.mantissa > other.mantissa)
        )
        return greater

    def to_doubles(self) -> FloatArray:
        """Return the nearest doubles; infinity where a number exceeds them."""
        with np.errstate(over="ignore", under="ignore"):
            exponent = np.clip(self.exponent, -5000, 5000).astype(np.int32)
            nearest: FloatArray = np.ldexp(self.mantissa.astype(np.float64), exponent)
        return nearest


def level_fairshare(shares: FloatArray, usage: Amounts, parent_usage: Amounts) -> LongNumbers:
    """LF = S / U with U = usage / parent_usage, each quotient rounded once, half to even.

    Below all other levels where shares are 0; otherwise above all others where usage is 0. Elsewhere parent_usage > 0.
    usage and parent_usage may be doubles or long doubles. Source: Slurm 22.05, priority/multifactor, Fair Tree.
    """
    if len(shares) >= FEWEST_FOR_MACHINE_CODE and usage.dtype == parent_usage.dtype == np.float64:
        # Imported here, because small trees shouldn't wait for numba to be loaded.
        from apps.engine import fast
        from apps.engine.numerics import long_kernels

        if fast.is_on():
            level = LongNumbers(np.empty(len(shares), dtype=np.int64), np.empty(len(shares), dtype=np.uint64))
            doubles = np.asarray(usage, dtype=np.float64), np.asarray(parent_usage, dtype=np.float64)
            if fast.attempt(long_kernels.fill_level_fairshare, shares, *doubles, *level):
                return level
    is_finite = (shares > 0) & (usage > 0)
    S, used, used_by_parent = (
        LongNumbers.from_floats(np.where(is_finite, values, 1.0)) for values in (shares, usage, parent_usage)
    )
    U = used / used_by_parent
    LF = S / U
    outside = np.where(shares > 0, _BEYOND, -_BEYOND)
    return LongNumbers(np.where(is_finite, LF.exponent, outside), np.where(is_finite, LF.mantissa, _ONE << _TOP_BIT))


def _divide_words(upper: Words, lower: Words, divisor: Words) -> tuple[Words, Words]:
    """Return quotient and remainder of (upper · 2^64 + lower) / divisor; upper < divisor, whose top bit is set.

    Long division in digits of 32 bits. Source: Knuth, The Art of Computer Programming, volume 2, 4.3.1, algorithm D.
    """
    first, remainder = _divide_digit(upper, lower >> _HALF, divisor)
    second, remainder = _divide_digit(remainder, lower & _LOWER, divisor)
    return (first << _HALF) + second, remainder


def _divide_digit(remainder: Words, next_digit: Words, divisor: Words) -> tuple[Words, Words]:
    """Return one digit of the quotient and the remainder after it.

    The divisor's upper half gives an estimate, at most 2 too large.
    """
    upper, lower = divisor >> _HALF, divisor & _LOWER
    digit: Words = remainder // upper
    over = remainder - digit * upper
    for _ in range(2):
        is_too_big = (over < _BASE) & ((digit >= _BASE) | (digit * lower > (over << _HALF) + next_digit))
        digit = digit - is_too_big
        over = np.where(is_too_big, over + upper, over)
    after: Words = (remainder << _HALF) + next_digit - digit * divisor
    return digit, after
