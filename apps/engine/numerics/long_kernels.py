"""Level fairshare LF = S/U entry by entry, as machine code where numba is installed; same bits as `long_quotients`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import FloatArray, IntArray
from apps.engine.fast import compiled

Words = npt.NDArray[np.uint64]
Number = tuple[int, np.uint64]  # exponent, mantissa with the top bit set

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_EXTRA_BITS, _HALF, _TOP_BIT = np.uint64(11), np.uint64(32), np.uint64(63)
_LOWER, _BASE = np.uint64((1 << 32) - 1), np.uint64(1 << 32)
_BEYOND = 1 << 20


@compiled
def _long(value: float) -> Number:
    """Convert a positive double exactly."""
    mantissa, exponent = math.frexp(value)
    return exponent - 64, np.uint64(mantissa * 2.0**53) << _EXTRA_BITS


@compiled
def _divide(number: Number, divisor: Number) -> Number:
    """Return the quotient rounded to a mantissa of 64 bits, half to even."""
    exponent = number[0] - divisor[0] - 64
    dividend_word, divisor_word = number[1], divisor[1]
    remainder, lower = dividend_word, _ZERO
    if dividend_word >= divisor_word:
        remainder, lower = dividend_word >> _ONE, (dividend_word & _ONE) << _TOP_BIT
        exponent += 1
    upper_half, lower_half = divisor_word >> _HALF, divisor_word & _LOWER
    quotient = _ZERO
    for next_digit in (lower >> _HALF, lower & _LOWER):
        digit = remainder // upper_half
        over = remainder - digit * upper_half
        while over < _BASE and (digit >= _BASE or digit * lower_half > (over << _HALF) + next_digit):
            digit -= _ONE
            over += upper_half
        remainder = (remainder << _HALF) + next_digit - digit * divisor_word
        quotient = (quotient << _HALF) + digit
    missing = divisor_word - remainder
    if remainder > missing or (remainder == missing and quotient & _ONE):
        quotient += _ONE
        if quotient == _ZERO:
            return exponent + 1, _ONE << _TOP_BIT
    return exponent, quotient


@compiled
def fill_level_fairshare(
    shares: FloatArray, usage: FloatArray, parent_usage: FloatArray, exponent: IntArray, mantissa: Words
) -> bool:
    """Write `long_quotients.level_fairshare` into (exponent, mantissa), one entry after the other; returns True."""
    for i in range(len(shares)):
        if shares[i] > 0 and usage[i] > 0:
            S = _long(shares[i])
            U = _divide(_long(usage[i]), _long(parent_usage[i]))
            LF = _divide(S, U)
            exponent[i], mantissa[i] = LF
        else:
            exponent[i] = _BEYOND if shares[i] > 0 else -_BEYOND
            mantissa[i] = _ONE << _TOP_BIT
    return True
