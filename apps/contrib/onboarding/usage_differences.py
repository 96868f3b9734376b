"""Usage that the scheduler lists beside what its log has, and why they differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

UsageReason = Literal[
    "same",
    "config_unknown",
    "qos_unknown",
    "weights_unknown",
    "running_left_out",
    "decay",
    "billing_cut",
    "all_alike",
    "running",
    "removed_limits",
    "reset",
    "earlier",
    "longer",
    "shorter",
]
_CUT = 1.0  # sshare truncates to whole numbers
_PRINTED = 1e-6  # of a large number; sshare prints about six digits
_ALIKE = 1e-3  # quotients that differ by less are equal


@dataclass(frozen=True, slots=True)
class Cause:
    """What may make the usage of one user differ, because we know or chose it otherwise than the scheduler.

    usage: ours without this cause, None if it can't be computed. most: how much less ours can be by it.
    """

    reason: UsageReason
    usage: float | None = None
    most: float = math.inf

    def explains(self, ours: float, sshare_usage: float) -> bool:
        if self.usage is not None:
            return abs(self.usage - sshare_usage) <= _CUT + _ALIKE * sshare_usage
        return math.isinf(self.most) or 0 < sshare_usage - ours <= self.most + _CUT


@dataclass(frozen=True, slots=True)
class UsagePair:
    """ours: from the log, with the policy's decay. theirs: as listed. Both in core-seconds or in billing units.

    causes: what may explain a difference, the likeliest first.
    """

    group: str
    user: str
    ours: float
    theirs: float
    is_running: bool = False
    causes: Sequence[Cause] = ()


@dataclass(frozen=True, slots=True)
class UsageDifference:
    """A pair with the reason why its two numbers differ."""

    group: str
    user: str
    ours: Annotated[float, "From the log"]
    theirs: Annotated[float, "RawUsage of sshare"]
    difference: float
    reason: UsageReason


@dataclass(frozen=True)
class UsageComparison:
    """Usage differences, largest first. quotient: ours / theirs if it is equal for all users, else None."""

    rows: Sequence[UsageDifference]
    ours: float
    theirs: float
    quotient: float | None

    @property
    def differences(self) -> Sequence[UsageDifference]:
        """Rows of users whose numbers differ."""
        return [row for row in self.rows if row.reason != "same"]


def compare_usage(pairs: Sequence[UsagePair], *, has_limits: bool, begins_late: bool) -> UsageComparison:
    """Explain differences of usage, by the first reason that fits.

    has_limits: AccountingStorageEnforce contains `limits`; without it Slurm doesn't count the end of each job.
    begins_late: usage from before the log's first job may still count.
    """
    quotient = _quotient(pairs)
    rows = [
        UsageDifference(
            *(pair.group, pair.user, pair.ours, pair.theirs, pair.ours - pair.theirs),
            _reason(pair, quotient, has_limits, begins_late),
        )
        for pair in pairs
    ]
    rows.sort(key=lambda row: (-abs(row.difference), row.group, row.user))
    return UsageComparison(rows, sum(pair.ours for pair in pairs), sum(pair.theirs for pair in pairs), quotient)


def _quotient(pairs: Sequence[UsagePair]) -> float | None:
    """The common quotient of at least two users with significant usage; None if there is none."""
    quotients = np.array([pair.ours / pair.theirs for pair in pairs if pair.theirs > 1 / _ALIKE and pair.ours > 0])
    only_one_side = any(_differs(pair) and not (pair.ours > 0 and pair.theirs > 0) for pair in pairs)
    if len(quotients) < 2 or only_one_side:
        return None
    middle = float(np.median(quotients))
    is_one = bool(np.all(np.abs(quotients - middle) <= _ALIKE * middle))
    return middle if is_one and abs(middle - 1) > _ALIKE else None


def _differs(pair: UsagePair) -> bool:
    return abs(pair.ours - pair.theirs) > _CUT + _PRINTED * pair.theirs


def _reason(pair: UsagePair, quotient: float | None, has_limits: bool, begins_late: bool) -> UsageReason:
    if not _differs(pair):
        return "same"
    for cause in pair.causes:
        if cause.explains(pair.ours, pair.theirs):
            return cause.reason
    if quotient is not None:
        return "all_alike"
    if pair.ours > pair.theirs:
        return "removed_limits" if not has_limits else "reset" if pair.theirs < _CUT else "longer"
    return "running" if pair.is_running else "earlier" if begins_late else "shorter"
