"""The past days under a draft: what the daily series and the ranks would have been with its shares and settings.

Usage is as it was. With other shares, jobs would have run in another order and left other usage: that is not computed.
All days are compared with the draft, and with the current policy. On the days since its revision was published, the
latter are the stored daily series; days before it are those of *Compare with the current policy*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import date

import numpy as np
import numpy.typing as npt

from apps.core import blobs
from apps.engine import sweep
from apps.engine.algorithms import PriorityResult
from apps.engine.convergence import actual_share as share_of
from apps.engine.convergence import mean_deviation
from apps.engine.target_state import is_on_target
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.document_merge import indexes_of
from apps.series.builder import Builder, BuiltDay
from apps.series.convergence.verdict import half_band
from apps.series.daily_series import COMPETES
from apps.series.days import Day
from apps.series.revision_context import PolicyState

F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
MOST_DAILY = 100  # entries whose targets change, with values of each day
_DAYS_AT_ONCE = 10  # of both states in memory
LEAST_CHANGE = 1e-9  # of a share or a mean rank: a smaller one is an error of rounding


@dataclass(frozen=True, eq=False)
class BackTest:
    """Entries (n,) of the draft's tree, in its order, over d days. `was`: by the current policy.

    uid: (n, 16). n_days: on which the entry has an actual and a target share in both. The following are over these
    days. days_on, days_on_was: on target. off, off_was: mean distance of the actual share from the target, 0..1; NaN
    without such a day. rank, rank_was: mean rank of a ranked leaf over the days on which it has one in both; NaN
    without one.

    daily: (k,) places of the entries whose targets the draft changes most, at most MOST_DAILY, in the order of the
    tree; of a draft that changes no target, those whose actual shares differ most, and where none does, the ranks of
    the leaves below them. Of these, (k, d), NaN where unknown: target, target_was, actual, actual_was; and leaf_rank,
    leaf_rank_was: the mean rank of the leaves below it (of itself, if it is one) that have one in both. on: (d,)
    ordinals of the days. is_idle: (d,) days on which nothing ran.
    """

    on: I8
    is_idle: Mask
    uid: npt.NDArray[np.uint8]
    n_days: I4
    days_on: I4
    days_on_was: I4
    off: F8
    off_was: F8
    rank: F8
    rank_was: F8
    daily: I8
    target: F8
    target_was: F8
    actual: F8
    actual_was: F8
    leaf_rank: F8
    leaf_rank_was: F8

    @property
    def days(self) -> list[date]:
        return [date.fromordinal(day) for day in self.on.tolist()]

    @property
    def deviation(self) -> tuple[F8, F8]:
        """(with the draft, with the current policy): distance from the target on each day, (d,), 0..1, the mean of
        the `daily` entries weighted by their targets; NaN where none of them is known in both.
        """
        counts = np.isfinite(self.actual - self.target + self.actual_was - self.target_was)
        sides = ((self.actual, self.target), (self.actual_was, self.target_was))
        known = [[np.where(counts, values, 0.0) for values in side] for side in sides]
        means = [mean_deviation(actual, target, counts) for actual, target in known]
        with_draft, current = (np.where(is_known, mean, np.nan) for mean, is_known in means)
        return with_draft, current

    def pack(self) -> tuple[bytes, str]:
        return blobs.pack({each.name: getattr(self, each.name) for each in fields(self)})

    @classmethod
    def unpack(cls, data: bytes, digest: str) -> BackTest:
        """Raises CorruptBlob as `blobs.unpack`."""
        return cls(**blobs.unpack(data, digest)[0])


def back_test(
    policy: Policy,
    current: PolicyState,
    draft: PolicyState,
    days: Sequence[Day],
    *,
    done: Callable[[int], object] = lambda n_days: None,
) -> BackTest:
    """Compare these consecutive days, oldest first, with a draft. done: is called with the number of finished days.

    A draft that changes no target is compared twice: who differs most is known only after the last day.

    Raises BadTree, BadParameter and Invalid as `RevisionContext.priorities`.
    """
    sums = _Sums(current.tree, draft.tree)
    for n_days, pairs in _both(policy, current, draft, days):
        for was, now in pairs:
            sums.add(was, now)
        done(n_days if sums.changes_targets else n_days // 2)
    if not sums.changes_targets and sums.choose_most_changed():
        for n_days, pairs in _both(policy, current, draft, days):
            for was, now in pairs:
                sums.add_daily(was, now)
            done((len(days) + n_days) // 2)
    done(len(days))
    return sums.result(days)


def _both(
    policy: Policy, current: PolicyState, draft: PolicyState, days: Sequence[Day]
) -> Iterator[tuple[int, list[tuple[_DayShares, _DayShares]]]]:
    """(number of the days so far, days by the current policy and with the draft) of some days at once.

    No transaction is open meanwhile: usage is read in one that writes nothing.
    """
    past, drafted = (Builder(policy, days, state=state, with_priorities=True) for state in (current, draft))
    for first in range(0, len(days), _DAYS_AT_ONCE):
        chunk = days[first : first + _DAYS_AT_ONCE]
        was, now = ([_DayShares.of(built) for built in builder.build(chunk)] for builder in (past, drafted))
        yield first + len(chunk), list(zip(was, now, strict=True))


def past_priorities(policy: Policy, state: PolicyState, days: Sequence[Day]) -> Iterator[PriorityResult]:
    """Priorities at the end of each of these consecutive days, oldest first, with one state's tree and settings.

    Raises BadTree, BadParameter and Invalid as `RevisionContext.priorities`.
    """
    for built in Builder(policy, days, state=state, with_priorities=True).build(days):
        if built.priorities is not None:
            yield built.priorities


@dataclass(frozen=True, eq=False, slots=True)
class _DayShares:
    """One day of the entries of one tree. actual, target: fractions among siblings, NaN where unknown; rank: of ranked
    leaves, 0 without one.
    """

    actual: F8
    target: F8
    is_on: Mask
    rank: I4
    is_idle: bool

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
        is_on = is_known & is_on_target(np.nan_to_num(actual), np.nan_to_num(target), slack)
        rank = np.where(result.is_ranked, result.rank, 0).astype(np.int32)
        return cls(actual, target, is_on, rank, is_idle=not built.values.root_used)

    def at(self, places: I8) -> _DayShares:
        """Values of the entries at these places, −1 for those that this tree doesn't have."""
        is_here = places >= 0
        return _DayShares(
            np.where(is_here, self.actual[places], np.nan),
            np.where(is_here, self.target[places], np.nan),
            is_here & self.is_on[places],
            np.where(is_here, self.rank[places], 0).astype(np.int32),
            self.is_idle,
        )


class _Sums:
    """Sums over days, by entry of the draft."""

    def __init__(self, current: TreeColumns, draft: TreeColumns) -> None:
        n = len(draft)
        self._uid, self._tree = draft.uid, draft.engine_tree()
        self._places = indexes_of(draft.uid, current)
        self._n_days, self._n_ranked = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self._days_on, self._off, self._rank = (np.zeros((2, n)) for _ in range(3))
        self._is_idle: list[bool] = []
        self._daily: I8 | None = None  # where targets change, known from the first day: they are the same on all
        self._apart = np.zeros((2, n))  # sums of how far shares and mean ranks differ
        self._n_apart = np.zeros((2, n), np.int32)
        self._shares: list[tuple[F8, ...]] = []

    def add(self, was: _DayShares, now: _DayShares) -> None:
        was = was.at(self._places)
        both = np.isfinite(was.actual - was.target + now.actual - now.target)
        ranked = (was.rank > 0) & (now.rank > 0)
        self._n_days += both
        self._n_ranked += ranked
        for side, day in enumerate((was, now)):
            self._days_on[side] += both & day.is_on
            self._off[side] += np.where(both, np.abs(day.actual - day.target), 0.0)
            self._rank[side] += np.where(ranked, day.rank, 0)
        self._is_idle.append(was.is_idle)
        if self._daily is None:
            self._daily = _changed_most(np.abs(np.nan_to_num(now.target) - np.nan_to_num(was.target)))
        below = self._mean_below(ranked, now.rank, was.rank)
        if self.changes_targets:
            self._keep(was, now, below)
            return
        for at, (one, other) in enumerate(((now.actual, was.actual), below)):
            apart = np.abs(one - other)
            is_known = np.isfinite(apart)
            self._apart[at] += np.where(is_known, apart, 0.0)
            self._n_apart[at] += is_known

    @property
    def changes_targets(self) -> bool:
        """After the first day."""
        return self._daily is not None and len(self._daily) > 0

    def choose_most_changed(self) -> bool:
        """Of a draft without other targets, after the last day: those whose shares differ most, on the mean of their
        days; where no share differs, whose ranks do. Whether there is one.
        """
        means = np.where(self._n_apart > 0, self._apart / np.maximum(self._n_apart, 1), 0.0)
        shares, ranks = (_changed_most(mean) for mean in means)
        self._daily = shares if len(shares) else ranks
        return len(self._daily) > 0

    def add_daily(self, was: _DayShares, now: _DayShares) -> None:
        """Values of a day of those that `choose_most_changed` chose."""
        was = was.at(self._places)
        self._keep(was, now, self._mean_below((was.rank > 0) & (now.rank > 0), now.rank, was.rank))

    def _keep(self, was: _DayShares, now: _DayShares, mean_ranks: Sequence[F8]) -> None:
        rows = (now.target, was.target, now.actual, was.actual, *mean_ranks)
        self._shares.append(tuple(values[self._daily] for values in rows))

    def _mean_below(self, ranked: Mask, *ranks: I4) -> list[F8]:
        """The mean rank of the ranked leaves below each entry; NaN where there are none."""
        n_below = sweep.sum_up(self._tree, ranked.astype(np.int64))[0]
        return [
            sweep.sum_up(self._tree, np.where(ranked, rank, 0).astype(np.int64))[0] / _or_nan(n_below) for rank in ranks
        ]

    def result(self, days: Sequence[Day]) -> BackTest:
        shares = [np.column_stack(columns) for columns in zip(*self._shares, strict=True)]
        shares = shares or [np.zeros((0, len(days)))] * 6
        with np.errstate(invalid="ignore"):
            off, rank = self._off / _or_nan(self._n_days), self._rank / _or_nan(self._n_ranked)
        return BackTest(
            np.array([day.on.toordinal() for day in days], np.int64),
            np.array(self._is_idle, np.bool_),
            self._uid,
            self._n_days,
            self._days_on[1].astype(np.int32),
            self._days_on[0].astype(np.int32),
            off[1],
            off[0],
            rank[1],
            rank[0],
            np.zeros(0, np.int64) if self._daily is None else self._daily,
            *shares,
        )


def _changed_most(change: F8) -> I8:
    """Places of the entries with the largest change, at most MOST_DAILY, in their order; none without a change."""
    order = np.argsort(-change, kind="stable")[:MOST_DAILY]
    return np.sort(order[change[order] > LEAST_CHANGE])


def _or_nan(n: npt.NDArray[np.integer]) -> F8:
    return np.where(n > 0, n, np.nan)
