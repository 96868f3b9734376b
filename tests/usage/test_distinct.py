"""Distinct numbers by machine code are those of numpy, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from apps.engine import fast
from apps.usage import distinct
from apps.usage.distinct import distinct_values, number_distinct
from apps.usage.parsers.base import I8

EXTREMES = np.array([np.iinfo(np.int64).min, -1, 0, 1, np.iinfo(np.int64).max])
SHORT_NAMES = np.array([b"", b"a", b"b", b"site-0a", b"site-0b", b"site-00b", b"\xff" * 8], "S8").view(np.int64)


def columns() -> list[I8]:
    """Few and many values, in bursts and not, all equal, all different, and such that differ in few bits."""
    rng = np.random.default_rng(75)
    drawn = [
        rng.integers(-span, span, int(rng.integers(1, 400))) for span in (1, 5, 300, 2**31, 2**62) for _ in range(8)
    ]
    bursts = [np.repeat(column, 3) for column in drawn[:20]]
    bits = [1 << np.arange(63), np.arange(500) << 20, np.arange(500) << 40, np.arange(500) << 54, np.arange(500)[::-1]]
    names = [rng.choice(SHORT_NAMES, 200), rng.choice(EXTREMES, 200), np.zeros(0, np.int64)]
    return [*drawn, *bursts, *bits, *names]


@pytest.mark.parametrize("is_on", [True, False], ids=["machine code", "numpy"])
def test_values_are_numbered_ascending_by_their_first_rows(monkeypatch: pytest.MonkeyPatch, is_on: bool) -> None:
    """Without numba the kernel runs as Python."""
    monkeypatch.setattr(fast, "_is_on", is_on)
    monkeypatch.setattr(distinct, "FEWEST_FOR_MACHINE_CODE", 0)
    for column in columns():
        number, first = number_distinct(column)
        assert (number.dtype, first.dtype) == (np.dtype(np.int64),) * 2
        assert column[first].tolist() == distinct_values(column).tolist() == sorted(set(column.tolist()))
        assert (column[first][number] == column).all()
        assert first.tolist() == [column.tolist().index(value) for value in column[first].tolist()]


def test_a_kernel_that_fails_leaves_the_work_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.usage import distinct_kernel

    def fail(*_: object) -> int:
        raise RuntimeError("cached by another version")

    monkeypatch.setattr(fast, "_is_on", True)
    monkeypatch.setattr(distinct_kernel, "number_by_appearance", fail)
    monkeypatch.setattr(distinct, "FEWEST_FOR_MACHINE_CODE", 0)
    number, first = number_distinct(np.array([7, 3, 7, 5]))
    assert (number.tolist(), first.tolist()) == ([2, 0, 2, 1], [1, 3, 0])
    assert not fast.is_on()


@pytest.mark.parametrize("is_on", [True, False], ids=["machine code", "Python"])
def test_values_that_were_chosen_to_collide_cost_no_square_of_their_number(
    monkeypatch: pytest.MonkeyPatch, is_on: bool
) -> None:
    from apps.usage import distinct_kernel

    monkeypatch.setattr(fast, "_is_on", is_on)
    monkeypatch.setattr(distinct, "FEWEST_FOR_MACHINE_CODE", 0)
    alike = np.arange(1, 500, dtype=np.int64) * (2**31 + 1)
    room = distinct_kernel.empty_places(len(alike))
    number, first = np.empty((2, len(alike)), np.int64)
    assert distinct_kernel.number_by_appearance(alike, room, number, first) == 0
    assert [each.tolist() for each in number_distinct(alike)] == [list(range(len(alike)))] * 2
