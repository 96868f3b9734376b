"""The past days under a draft: what the daily series and the ranks would have been with its shares and settings.

Usage is as it was. With other shares, jobs would have run in another order and left other usage: that is not computed.
Each day is compared with the draft, and with the revision that was in force at its end, as in the daily series.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import date

import numpy as np
import numpy.typing as npt

from apps.core import blobs
from apps.engine.convergence import actual_share as share_of
from apps.engine.convergence import is_inside
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.document_merge import indexes_of
from apps.series.builder import Builder, BuiltDay
from apps.series.convergence.verdict import half_band
from apps.series.daily_series import COMPETES, Day
from apps.series.inputs import PolicyState

F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
MOST_DAILY = 100  # entries whose targets change, with values of each day
_DAYS_AT_ONCE = 10  # of both states in memory


@dataclass(frozen=True, eq=False)
class BackTest:
    """Entries (n,) of the draft's tree, in its order, over d days. `was`: by the revision in force on each day.

    uid: (n, 16). n_days: on which the entry has an actual and a target share in both. The following are over these
    days. days_on, days_on_was: on target. off, off_was: mean distance of the actual share from the target, 0..1; NaN
    without such a day. rank, rank_was: mean rank of a ranked leaf over the days on which it has one in both; NaN
    without one.

    daily: (k,) places of the entries whose targets the draft changes most, at most MOST_DAILY. Of these, (k, d), NaN
    where unknown: target, target_was, actual, actual_was. on: (d,) ordinals of the days.
    """

    on: npt.NDArray[np.int64]
    uid: npt.NDArray[np.uint8]
    n_days: I4
    days_on: I4
    days_on_was: I4
    off: F8
    off_was: F8
    rank: F8
    rank_was: F8
    daily: npt.NDArray[np.int64]
    target: F8
    target_was: F8
    actual: F8
    actual_was: F8

    @property
    def days(self) -> list[date]:
        return [date.fromordinal(day) for day in self.on.tolist()]

    def pack(self) -> tuple[bytes, str]:
        return blobs.pack({each.name: getattr(self, each.name) for each in fields(self)})

    @classmethod
    def unpack(cls, data: bytes, digest: str) -> BackTest:
        """Raises CorruptBlob as `blobs.unpack`."""
        return cls(**blobs.unpack(data, digest)[0])


def back_test(
    policy: Policy, draft: PolicyState, days: Sequence[Day], *, done: Callable[[int], object] = lambda n_days: None
) -> BackTest:
    """Compare these consecutive days, oldest first, with a draft. done: is called with the number of finished days.

    Raises BadTree, BadParameter and Invalid as `RevisionContext.priorities`.
    """
    sums = _Sums(draft.tree, len(days))
    past, drafted = (
        Builder(policy, days, with_priorities=True),
        Builder(policy, days, state=draft, with_priorities=True),
    )
    for first in range(0, len(days), _DAYS_AT_ONCE):
        chunk = days[first : first + _DAYS_AT_ONCE]
        was = [_DayShares.of(built) for built in past.build(chunk)]
        for at, built in enumerate(drafted.build(chunk)):
            sums.add(was[at], _DayShares.of(built))
        done(first + len(chunk))
    return sums.result(days)


@dataclass(frozen=True, eq=False, slots=True)
class _DayShares:
    """One day of the entries of one tree. actual, target: fractions among siblings, NaN where unknown; rank: 0 without
    one.
    """

    tree: TreeColumns
    actual: F8
    target: F8
    is_on: Mask
    rank: I4

    @classmethod
    def of(cls, built: BuiltDay) -> _DayShares:
        columns, tree, result = built.values.columns, built.context.tree, built.priorities
        if result is None:
            raise RuntimeError("The days of a back-test are built with priorities.")
        competes = (columns["flags"].astype(np.uint8) & COMPETES) > 0
        peers = columns["peers_decayed"].astype(np.float64)
        is_known = competes & (peers > 0)
        actual = np.where(is_known, share_of(columns["decayed"].astype(np.float64), peers), np.nan)
        target = np.where(competes, columns["target"].astype(np.float64), np.nan)
        slack = half_band(np.nan_to_num(target), built.context.settings.tolerance, tree.n_children == 0)
        is_on = is_known & is_inside(np.nan_to_num(actual), np.nan_to_num(target), slack)
        return cls(tree, actual, target, is_on, np.where(result.is_ranked, result.rank, 0).astype(np.int32))

    def at(self, places: npt.NDArray[np.int64]) -> _DayShares:
        """The same of the entries at these places, −1 for those that this tree doesn't have."""
        is_here = places >= 0
        return _DayShares(
            self.tree,
            np.where(is_here, self.actual[places], np.nan),
            np.where(is_here, self.target[places], np.nan),
            is_here & self.is_on[places],
            np.where(is_here, self.rank[places], 0).astype(np.int32),
        )


class _Sums:
    """Sums over days, by entry of the draft."""

    def __init__(self, tree: TreeColumns, n_days: int) -> None:
        n = len(tree)
        self._tree = tree
        self._places: tuple[TreeColumns, npt.NDArray[np.int64]] | None = None
        self._n_days, self._n_ranked = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self._days_on, self._off, self._rank = (np.zeros((2, n)) for _ in range(3))
        self._changed = np.zeros(n)  # the largest change of a target on one day
        self._shares: list[tuple[F8, F8, F8, F8]] = []

    def add(self, was: _DayShares, now: _DayShares) -> None:
        was = was.at(self._places_in(was.tree))
        both = np.isfinite(was.actual - was.target + now.actual - now.target)
        ranked = (was.rank > 0) & (now.rank > 0)
        self._n_days += both
        self._n_ranked += ranked
        for side, day in enumerate((was, now)):
            self._days_on[side] += both & day.is_on
            self._off[side] += np.where(both, np.abs(day.actual - day.target), 0.0)
            self._rank[side] += np.where(ranked, day.rank, 0)
        np.fmax(self._changed, np.abs(now.target - was.target), out=self._changed)
        self._shares.append((now.target, was.target, now.actual, was.actual))

    def _places_in(self, tree: TreeColumns) -> npt.NDArray[np.int64]:
        if self._places is None or self._places[0] is not tree:
            self._places = tree, indexes_of(self._tree.uid, tree)
        return self._places[1]

    def result(self, days: Sequence[Day]) -> BackTest:
        order = np.lexsort((np.arange(len(self._changed)), -self._changed))
        daily = np.sort(order[self._changed[order] > _LEAST_CHANGE][:MOST_DAILY])
        shares = [np.column_stack([day[column][daily] for day in self._shares]) for column in range(4)]
        with np.errstate(invalid="ignore"):
            off, rank = self._off / _or_nan(self._n_days), self._rank / _or_nan(self._n_ranked)
        return BackTest(
            np.array([day.on.toordinal() for day in days], np.int64),
            self._tree.uid,
            self._n_days,
            self._days_on[1].astype(np.int32),
            self._days_on[0].astype(np.int32),
            off[1],
            off[0],
            rank[1],
            rank[0],
            daily,
            *shares,
        )


_LEAST_CHANGE = 1e-9  # of a target: a smaller one is an error of rounding


def _or_nan(n_days: I4) -> F8:
    return np.where(n_days > 0, n_days, np.nan)
