"""Array types of the engine, and the chunk size of its cached loops."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
LongArray = npt.NDArray[np.longdouble]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# Entries processed at once by loops of several steps, so that intermediate arrays stay in the processor's cache.
CHUNK = 1 << 14
