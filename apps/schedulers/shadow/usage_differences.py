"""By how much the usage that a scheduler lists and the one from its log differ, and why, by rule. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

UsageReason = Literal["same", "all_alike", "running", "removed_limits", "reset", "earlier", "longer", "shorter"]
USAGE_REASONS: tuple[UsageReason, ...] = (
    *("all_alike", "removed_limits", "reset", "running", "earlier", "longer", "shorter", "same"),
)
_CUT = 1.0  # sshare cuts to whole numbers
_ALIKE = 1e-3  # quotients that differ by less are one
_PRINTED = 1e-6


@dataclass(frozen=True, slots=True)
class UsagePair:
    """ours: from the log, decayed as the policy says. theirs: as listed. Both in one unit, core-seconds or billing."""

    group: str
    user: str
    ours: float
    theirs: float
    is_running: bool = False


@dataclass(frozen=True, slots=True)
class UsageDifference:
    pair: UsagePair
    difference: float
    reason: UsageReason

    def to_json(self) -> dict[str, Any]:
        pair = self.pair
        named = {"group": pair.group, "user": pair.user, "ours": pair.ours, "theirs": pair.theirs}
        return {**named, "difference": self.difference, "reason": self.reason}


@dataclass(frozen=True)
class UsageComparison:
    """rows: the largest difference first. quotient: ours / theirs where it is the same for all, else None."""

    rows: Sequence[UsageDifference]
    ours: float
    theirs: float
    quotient: float | None

    @property
    def n_different(self) -> int:
        return sum(row.reason != "same" for row in self.rows)


def compare_usage(pairs: Sequence[UsagePair], *, has_limits: bool, begins_late: bool) -> UsageComparison:
    """has_limits: AccountingStorageEnforce has `limits`; without it Slurm loses the end of each job. begins_late: usage
    from before the log's first job can still count.

    Of several reasons the first that fits: one quotient for all, then what explains that ours is more, then less.
    """
    quotient = _quotient(pairs)
    rows = [
        UsageDifference(one, one.ours - one.theirs, _reason(one, quotient, has_limits, begins_late)) for one in pairs
    ]
    rows.sort(key=lambda row: (-abs(row.difference), row.pair.group, row.pair.user))
    return UsageComparison(rows, sum(one.ours for one in pairs), sum(one.theirs for one in pairs), quotient)


def _quotient(pairs: Sequence[UsagePair]) -> float | None:
    """Of those with enough usage for it to mean something; at least two."""
    found = np.array([one.ours / one.theirs for one in pairs if one.theirs > 1 / _ALIKE and one.ours > 0])
    only_one_side = any(_differs(one) and not (one.ours > 0 and one.theirs > 0) for one in pairs)
    if len(found) < 2 or only_one_side:
        return None
    middle = float(np.median(found))
    is_one = bool(np.all(np.abs(found - middle) <= _ALIKE * middle))
    return middle if is_one and abs(middle - 1) > _ALIKE else None


def _differs(one: UsagePair) -> bool:
    return abs(one.ours - one.theirs) > _CUT + _PRINTED * one.theirs


def _reason(one: UsagePair, quotient: float | None, has_limits: bool, begins_late: bool) -> UsageReason:
    if not _differs(one):
        return "same"
    if quotient is not None:
        return "all_alike"
    if one.ours > one.theirs:
        return "removed_limits" if not has_limits else "reset" if one.theirs < _CUT else "longer"
    return "running" if one.is_running else "earlier" if begins_late else "shorter"
