"""Who runs on whose unused share: cores, or GPUs, in use by siblings beside what their targets give each of them.

in use     C = Σ R                     R: what runs of each sibling
entitled   E = target · C              of what is in use now, not of the machine: idle cores are nobody's loss
above      A = max(R − E, 0)           runs on unused shares of others
unused     U = max(E − R, 0)           Σ A = Σ U, because Σ E = Σ R
runs on    X[g, h] = A[g] · U[h] / Σ U    in proportion: a core has no owner, so any other choice would be made up
claimed    D = min(U, W)               W: what its waiting jobs ask for; the unused share that they could take
reclaimed  A · Σ D / Σ U               if only what waits now came; if all came, all of A
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.engine.entitlement import entitlement

F8 = npt.NDArray[np.float64]
_SAME = 1e-12  # relative: what runs is what it is entitled to, as an entry is on target


@dataclass(frozen=True, eq=False, slots=True)
class UnusedShares:
    """Arrays (n,) by sibling, in the unit of what runs. has_targets: whether any sibling has a target above 0."""

    entitled: F8
    above: F8
    unused: F8
    claimed: F8
    reclaimed: F8
    has_targets: bool

    @property
    def runs_on(self) -> F8:
        """(n, n): how much of what runs of one is on the unused share of another; rows sum to `above`."""
        total = self.unused.sum()
        return np.outer(self.above, self.unused / total) if total > 0 else np.zeros((len(self.above),) * 2)


def unused_shares(target: F8, running: F8, waiting: F8) -> UnusedShares:
    """Compare what runs with the shares.

    Edge values: nothing runs: all is 0. No sibling has a target: nobody is entitled to any: all is 0.
    What runs without a target of its own has the target 0, and is above it as a whole.

    Args:
        target: (n,) among the siblings, with the sum 1, or 0 if none has a target.
        running, waiting: (n,) cores or GPUs, ≥ 0.
    """
    nothing = np.zeros(len(target))
    if not target.sum() > 0:
        return UnusedShares(nothing, nothing, nothing, nothing, nothing, has_targets=False)
    now = entitlement(target, running, running.sum())
    differs = np.abs(running - now.entitled) > _SAME * np.maximum(running, now.entitled)
    above, unused = np.where(differs, now.borrowed, 0.0), np.where(differs, now.unused, 0.0)
    claimed = np.minimum(unused, waiting)
    total = unused.sum()
    reclaimed = above * (claimed.sum() / total) if total > 0 else nothing
    return UnusedShares(now.entitled, above, unused, claimed, reclaimed, has_targets=True)
