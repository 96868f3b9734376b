"""Exact quotients one by one, as machine code where numba is installed: what `long_quotients` does on whole arrays."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import FloatArray, IntArray
from apps.engine.fast import compiled

Words = npt.NDArray[np.uint64]

_NONE, _ONE = np.uint64(0), np.uint64(1)
_LIFT, _HALF, _TOP = np.uint64(11), np.uint64(32), np.uint64(63)
_LOWER, _BASE = np.uint64((1 << 32) - 1), np.uint64(1 << 32)
_BEYOND = 1 << 20


@compiled
def _divide_one(number: np.uint64, divisor: np.uint64) -> tuple[np.uint64, int]:
    """The quotient's mantissa, rounded half to even, and how far its exponent moves; both with the top bit set."""
    moved = 0
    rest, lower = number, _NONE
    if number >= divisor:
        rest, lower = number >> _ONE, (number & _ONE) << _TOP
        moved = 1
    upper_half, lower_half = divisor >> _HALF, divisor & _LOWER
    quotient = _NONE
    for next_digit in (lower >> _HALF, lower & _LOWER):
        digit = rest // upper_half
        over = rest - digit * upper_half
        while over < _BASE and (digit >= _BASE or digit * lower_half > (over << _HALF) + next_digit):
            digit -= _ONE
            over += upper_half
        rest = (rest << _HALF) + next_digit - digit * divisor
        quotient = (quotient << _HALF) + digit
    missing = divisor - rest
    if rest > missing or (rest == missing and quotient & _ONE):
        quotient += _ONE
        if quotient == _NONE:
            return _ONE << _TOP, moved + 1
    return quotient, moved


@compiled
def fill_levels(shares: FloatArray, usage: FloatArray, whole: FloatArray, exponent: IntArray, mantissa: Words) -> None:
    """`long_quotients.levels` into (exponent, mantissa), one after the other."""
    for i in range(len(shares)):
        if shares[i] > 0 and usage[i] > 0:
            s, s_exponent = math.frexp(shares[i])
            u, u_exponent = math.frexp(usage[i])
            p, p_exponent = math.frexp(whole[i])
            part, moved = _divide_one(np.uint64(u * 2.0**53) << _LIFT, np.uint64(p * 2.0**53) << _LIFT)
            mantissa[i], moved_again = _divide_one(np.uint64(s * 2.0**53) << _LIFT, part)
            exponent[i] = s_exponent - (u_exponent - p_exponent - 64 + moved) - 128 + moved_again
        else:
            mantissa[i] = _ONE << _TOP
            exponent[i] = _BEYOND if shares[i] > 0 else -_BEYOND
