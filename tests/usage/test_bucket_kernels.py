"""Sums of buckets by machine code are those of numpy, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from apps.engine import fast
from apps.usage import bucket_deltas
from apps.usage.bucket_deltas import HOUR_US, Delta, FinishedRecords, compute_delta
from apps.usage.parsers.base import F8

ARRAYS = ("account_id", "site", "job_class_id", "hour", "amounts", "site_index", "sites")


def drawn(rng: np.random.Generator, n: int) -> FinishedRecords:
    """Records of few or many accounts, some of no length, some over days, some subtracted, some at whole hours."""
    unit = int(rng.choice([1, 1_000_000, HOUR_US // 4]))
    start_us = rng.integers(-3 * HOUR_US, 50 * HOUR_US, n) // unit * unit
    length_us = (rng.exponential(2.0, n) * rng.choice([0, 1, 30], n) * HOUR_US).astype(np.int64) // unit * unit

    def rate() -> F8:
        return rng.choice(np.array([0.0, 1.0, 1 / 3, 1e9, 1e-9]), n) * float(rng.integers(0, 2))

    return FinishedRecords(
        rng.choice([1, 1, 1, -1], n),
        rng.integers(0, 2, n),
        rng.integers(1, rng.choice([2, 20, 2**31]), n),
        rng.integers(1, 4, n),
        rng.choice([b"", b"a", b"a-long-name-of-a-site"], n),
        start_us,
        start_us + length_us,
        rate(),
        rate(),
        rate(),
        rate(),
        rate(),
    )


def test_machine_code_adds_up_what_numpy_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without numba the kernel runs as Python. A piece holds few hours, so that sums of pieces are joined, too."""
    monkeypatch.setattr(bucket_deltas, "_MOST_PIECES", 300)
    rng = np.random.default_rng(75)
    for number in range(60):
        records = drawn(rng, int(rng.integers(1, 200)))
        deltas: list[Delta] = []
        for is_on, fewest in ((True, 0), (False, 2**62)):
            monkeypatch.setattr(fast, "_is_on", is_on)
            monkeypatch.setattr(bucket_deltas, "FEWEST_FOR_MACHINE_CODE", fewest)
            deltas.append(compute_delta(records))
        for name in ARRAYS:
            by_kernel, by_numpy = (getattr(delta, name) for delta in deltas)
            assert (by_kernel.dtype, by_kernel.tobytes()) == (by_numpy.dtype, by_numpy.tobytes()), (number, name)
