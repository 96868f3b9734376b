"""What is kept of every entry and day, in the order in which it lies in a tile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]
U1 = npt.NDArray[np.uint8]

AMOUNTS = ("used", "peers_used", "decayed", "peers_decayed", "target", "target_global", "waited_core_s", "largest")
EXISTS, COMPETES, KNOWS_WAITING = 1, 2, 4  # bits of `flags`
DTYPES: dict[str, type[np.generic]] = {**dict.fromkeys(AMOUNTS, np.float64), "n_active": np.int32, "flags": np.uint8}


@dataclass(frozen=True, eq=False, slots=True)
class DayValues:
    """One day of all entries of the tree of that day, arrays (n,) in its order; see DailySeries.

    what[name]: the fields of DTYPES.
    """

    what: dict[str, npt.NDArray[np.generic]]
    root_used: float
    root_decayed: float
