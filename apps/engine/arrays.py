"""Array types of the engine, and the chunk size of its cached loops."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", bound=np.generic)
FloatArray = npt.NDArray[np.float64]
LongArray = npt.NDArray[np.longdouble]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# Entries processed at once by loops of several steps, so that intermediate arrays stay in the processor's cache.
CHUNK = 1 << 14

# Smaller inputs don't wait for numba, which takes half a second to load.
FEWEST_FOR_MACHINE_CODE = 8192


def read_only(column: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """A view of one kind, whatever the column is: machine code is made once for each kind."""
    view = np.ascontiguousarray(column).view()
    view.flags.writeable = False
    return view
