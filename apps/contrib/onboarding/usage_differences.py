"""Usage that the scheduler lists beside what its log has, and why they differ.

A reason is stated only where it predicts the difference: what the scheduler would list by it is within 1 % of the
difference, or the whole unit to which sshare is cut. Everything else is unexplained, with its number; what is not known
of the site is said beside it, as a hint and not as a reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

UsageReason = Literal[
    "same",
    "qos_unknown",
    "running_left_out",
    "decay",
    "removed_limits",
    "all_alike",
    "from_zero",
    "unexplained",
]
Hint = Literal[
    "config_unknown", "qos_unknown", "weights_unknown", "billing_cut", "no_limits", "running", "log_begins_late"
]
PROVED = 0.01  # of a difference, by which a prediction may miss it
_CUT = 1.0  # sshare truncates to whole numbers
_PRINTED = 1e-6  # of a large number; sshare prints about six digits
_ALIKE = 1e-3  # quotients that differ by less are equal
_DECIDES_ALONE = 1e-9  # 1 − leverage of a user without whom a factor isn't known
F8 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cause:
    """What may make the usage of one user differ. usage: what the scheduler would list by it, in the unit of usage."""

    reason: UsageReason
    usage: float


@dataclass(frozen=True, slots=True)
class UsagePair:
    """ours: from the log, with the policy's decay. theirs: as listed. Both in core-seconds or in billing units.

    causes: what may explain a difference, the likeliest first. by_unknown_qos: our usage by QOS whose UsageFactor is
    not known, in which each counts once. hints: what is not known of the site, true of this user.
    """

    group: str
    user: str
    ours: float
    theirs: float
    causes: Sequence[Cause] = ()
    by_unknown_qos: Mapping[str, float] = field(default_factory=dict)
    hints: Sequence[Hint] = ()


@dataclass(frozen=True, slots=True)
class UsageDifference:
    """A pair with the reason why its two numbers differ."""

    group: str
    user: str
    ours: Annotated[float, "From the log"]
    theirs: Annotated[float, "RawUsage of sshare"]
    difference: float
    reason: UsageReason
    predicted: Annotated[float | None, "RawUsage by this reason, at most 1 % of the difference from it; null: none"]
    hints: Sequence[Hint]


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


def predicts(predicted: float, ours: float, theirs: float) -> bool:
    """Whether a predicted usage of the scheduler explains the difference of ours and theirs."""
    return math.isfinite(predicted) and abs(predicted - theirs) <= max(PROVED * abs(ours - theirs), _CUT)


def compare_usage(pairs: Sequence[UsagePair]) -> UsageComparison:
    """Explain differences of usage by the first reason that predicts them."""
    quotient = _quotient(pairs)
    with_factors = _with_qos_factors(pairs)
    rows = []
    for i, pair in enumerate(pairs):
        causes = [*pair.causes]
        if i in with_factors:
            causes.insert(0, Cause("qos_unknown", with_factors[i]))
        if quotient is not None:
            causes.append(Cause("all_alike", pair.ours / quotient))
        if pair.ours > pair.theirs:
            causes.append(Cause("from_zero", 0.0))
        rows.append(_row(pair, causes))
    rows.sort(key=lambda row: (-abs(row.difference), row.group, row.user))
    return UsageComparison(rows, sum(pair.ours for pair in pairs), sum(pair.theirs for pair in pairs), quotient)


def _row(pair: UsagePair, causes: Sequence[Cause]) -> UsageDifference:
    numbers = (pair.group, pair.user, pair.ours, pair.theirs, pair.ours - pair.theirs)
    if not _differs(pair):
        return UsageDifference(*numbers, "same", None, ())
    proved = next((cause for cause in causes if predicts(cause.usage, pair.ours, pair.theirs)), None)
    if proved is None:
        return UsageDifference(*numbers, "unexplained", None, tuple(pair.hints))
    return UsageDifference(*numbers, proved.reason, proved.usage, ())


def _with_qos_factors(pairs: Sequence[UsagePair]) -> dict[int, float]:
    """What the scheduler would list of each pair with the factors of QOS that fit all other users best.

    A user counts for no factor of its own: the only one with a QOS fits any number. NaN where the others lack one.
    """
    names = sorted({name for pair in pairs for name in pair.by_unknown_qos})
    at = [i for i, pair in enumerate(pairs) if pair.by_unknown_qos]
    if not names:
        return {}
    used = np.array([[pairs[i].by_unknown_qos.get(name, 0.0) for name in names] for i in at])
    others = np.array([pairs[i].ours for i in at]) - used.sum(axis=1)
    listed = np.array([pairs[i].theirs for i in at])
    predicted = np.maximum(others + _predicted_by_others(used, listed - others), others)
    return {i: float(usage) for i, usage in zip(at, predicted, strict=True)}


def _predicted_by_others(used: F8, charged: F8) -> F8:
    """Charge (users,) of each user's usage (users, names) by the factors that fit the others best; NaN for none.

    c_i − r_i / (1 − h_i), with the residual r and the leverage h of the least squares of all: the identity of leaving
    one out (PRESS, Allen 1974). Factors that would be negative are 0 for all.
    """
    factors = _factors_that_fit(used, charged)
    free = used[:, factors > 0]
    leverage = np.einsum("ij,ji->i", free, np.linalg.pinv(free))
    left = 1.0 - leverage
    return charged - (charged - used @ factors) / np.where(left > _DECIDES_ALONE, left, np.nan)


def _factors_that_fit(used: F8, charged: F8) -> F8:
    """Factors (names,), at least 0, with which usage (users, names) is closest to what was charged (users,)."""
    is_free = np.ones(used.shape[1], np.bool_)
    factors = np.zeros(used.shape[1])
    while is_free.any():
        factors[:] = 0.0
        factors[is_free] = np.linalg.lstsq(used[:, is_free], charged, rcond=None)[0]
        if (factors >= 0).all():
            break
        is_free &= factors > 0  # each turn leaves at least one out
        factors[~is_free] = 0.0
    return factors


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
