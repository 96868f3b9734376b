"""What an entry is entitled to: its target of what all that compete with it use.

entitled_d = target_d · used of all that compete with it, itself included, on day d
borrowed_d = max(0, used_d − entitled_d)
unused_d   = max(0, entitled_d − used_d)

A period is the sum of its days, and each day has the target of its own revision: shares that are published today leave
the days before as they were. Of jobs that run now, `used` is what runs, and the target is that of now.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.engine.arrays import FloatArray


@dataclass(frozen=True, eq=False, slots=True)
class Entitlement:
    """Amounts in the unit of what is used, in the shape of the arrays given; entitled = used + unused − borrowed."""

    entitled: FloatArray
    borrowed: FloatArray
    unused: FloatArray


def entitlement(target: FloatArray, used: FloatArray, used_by_all: FloatArray | float) -> Entitlement:
    """Compare usage with the entitlement, day by day.

    Args:
        target: of each day or entry, 0..1.
        used: by the entry, ≥ 0. used_by_all: by all that compete with it, itself included.
    """
    entitled = target * used_by_all
    return Entitlement(entitled, np.maximum(used - entitled, 0.0), np.maximum(entitled - used, 0.0))
