"""Names for the array types that every module of the engine passes around."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
LongArray = npt.NDArray[np.longdouble]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# Entries processed at once where several steps follow, so that what is between stays in the processor's cache.
CHUNK = 1 << 14
