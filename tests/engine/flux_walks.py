"""flux's two walks beside each other: list by list in doubles, and column by column with ties in exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from apps.engine import fast
from apps.engine.algorithms import flux
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.numerics.flux_ties import Walked


@contextmanager
def both() -> Iterator[list[bool]]:
    """Trees of any size are walked in both ways, which have to agree in every bit.

    The list gets whether doubles decided, one tree after the other. Without numba the kernel runs as Python.
    """
    did_decide: list[bool] = []
    by_lists, by_columns = flux._walk_lists, flux._walk_columns

    def walk(prepared: Prepared, compared: Compared) -> Walked | None:
        with np.errstate(all="ignore"):
            walked = by_lists(prepared, compared)
        did_decide.append(walked is not None)
        if walked is not None:
            for name, column, wanted in zip(Walked._fields, walked, by_columns(prepared, compared), strict=True):
                assert (column.dtype, column.tobytes()) == (wanted.dtype, wanted.tobytes()), name
        return walked

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flux, "FEWEST_FOR_MACHINE_CODE", 0)
        patch.setattr(flux, "_walk_lists", walk)
        patch.setattr(fast, "_is_on", True)
        yield did_decide
