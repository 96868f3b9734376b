"""Read SLUIDs, Slurm's own identifiers of jobs since 24.11: `s` and 13 digits to the base 32 of Crockford.

A job that is requeued gets another one; one that is resized keeps its first, and each of its rows has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apps.usage.parsers.base import I8, NO_TIME, Bytes, Flags, narrow_column

NO_SLUID = 0
_LENGTH = 14
_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_READ_AS = {"O": 0, "I": 1, "L": 1}
_NO_DIGIT = 255


def _values() -> np.ndarray[Any, np.dtype[np.uint8]]:
    values = np.full(256, _NO_DIGIT, np.uint8)
    for letter, value in [*zip(_DIGITS, range(32), strict=True), *_READ_AS.items()]:
        values[[ord(letter), ord(letter.lower())]] = value
    return values


_VALUES = _values()


def sluid_of(value: object) -> int:
    """The number of one SLUID as it is stored, a signed one of 64 bits; NO_SLUID for anything else."""
    return int(sluids_of([value.encode("ascii", "replace") if isinstance(value, str) else b""])[0])


def sluids_of(texts: Sequence[bytes]) -> I8:
    """The numbers of SLUIDs; NO_SLUID where a text is none."""
    column: Bytes = narrow_column(texts, _LENGTH)
    numbers = np.zeros(len(column), np.uint64)
    if not len(column) or column.dtype.itemsize < _LENGTH:
        return numbers.view(np.int64)
    letters = column.view(np.uint8).reshape(len(column), column.dtype.itemsize)
    values = _VALUES[letters[:, 1:_LENGTH]]
    is_one: Flags = (letters[:, 0] | 0x20 == ord("s")) & (values != _NO_DIGIT).all(axis=1)
    is_one &= (letters[:, _LENGTH:] == 0).all(axis=1)
    for digit in values.T:
        numbers = (numbers << np.uint64(5)) | digit.astype(np.uint64)
    return np.where(is_one, numbers, np.uint64(NO_SLUID)).view(np.int64)


def of_jobs(original: I8, row: I8, is_part: Flags, submit_us: I8, start_us: I8) -> I8:
    """What identifies each job: the SLUID that all its rows share, else that of its row if it can't be one of several.

    The later part of a resized job may begin when it was submitted, as accounting says; then its row's isn't the one
    that the controller lists.
    """
    may_be_part = is_part | ((start_us != NO_TIME) & (start_us <= submit_us))
    return np.where(original != NO_SLUID, original, np.where(may_be_part, NO_SLUID, row))
