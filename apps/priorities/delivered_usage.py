"""Usage delivered to entries between instants, in total or by site, as recorded, in a unit: by default core-seconds.

This is raw usage of all sources except held hours: no decay, metric, scope or adjustment. In a unit it is

    Σ weight · resource · factor of the class, and of each start of a job at least the minimum

in seconds, of which 3600 make an hour of the unit. Accounts are mapped to entries as in a recompute. A bucket belongs
to the period in which its hour begins, and what a short job is short of to the hour in which it ended.

A site is an origin of sources: "" is this site, with all its sources together; any other is a peer. Results by site
are cached until usage, accounts, rules, the tree, or the origin of a source change.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from apps.accounts.account_index import AccountIndex, load_account_index
from apps.core.cache_sizes import sized
from apps.core.derived_state import in_memory
from apps.core.postgresql import consistent_read
from apps.engine import sweep
from apps.mapping.rules.placement import place_accounts
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import RuleSet, load_rule_set
from apps.policies.models import Policy
from apps.policies.tree.stored import TreeColumns
from apps.policies.units import CORE_HOUR, Unit
from apps.priorities.recompute.inputs import first_usage_at
from apps.priorities.usage_factors import JobClassRow, class_factor, needed_resources, weighted_terms
from apps.usage import account_sums
from apps.usage.account_sums import Measure, Piece, earliest_hour, first_full_hour
from apps.usage.models import JobClass, Source

DERIVED_STATE = (
    in_memory(
        "_cache",
        "_period_cache",
        holds="delivered usage by entry, site and period",
        key="accounts, tree, rules, known accounts, pieces of sums, origins of sources, unit, factors of classes",
        inputs="buckets, accounts, tree, mapping",
        range="the periods asked for",
        ends="another key; changed hours make new pieces",
    ),
)

F8 = npt.NDArray[np.float64]
_MOST_DELIVERED_BYTES = 128 * 1024**2
_MOST_RESULTS = 64  # each holds the tree that it is of
_Amounts = tuple[F8, F8, float]
_MOST_PERIODS = 1_000


@dataclass(frozen=True, eq=False)
class Delivered:
    """Unit-seconds of entries in n consecutive periods.

    edges: n + 1 ascending instants. column_of: entry → its column of `below`. below: (n, entries), of each entry and
    all below it. unmapped: (n,), of unmapped accounts. has_any: the database has usage, at whatever time.
    """

    edges: Sequence[datetime]
    column_of: Mapping[int, int]
    below: F8
    unmapped: F8
    has_any: bool

    def between(self, i: int, from_at: datetime, to_at: datetime) -> float:
        """Unit-seconds of one entry between two edges, or instants beyond the outer edges."""
        first, last = bisect_left(self.edges, from_at), bisect_left(self.edges, to_at)
        return float(self.below[first:last, self.column_of[i]].sum())

    def unmapped_between(self, from_at: datetime, to_at: datetime) -> float:
        """As `between`, of unmapped accounts."""
        return float(self.unmapped[bisect_left(self.edges, from_at) : bisect_left(self.edges, to_at)].sum())


def load_delivered(
    *,
    policy: Policy,
    tree: TreeColumns,
    entries: Sequence[int],
    edges: Sequence[datetime],
    unit: Unit = CORE_HOUR,
) -> Delivered:
    """Unit-seconds of entries in the periods between edges. The caller checks which entries may be seen."""
    by_site = load_delivered_by_site(policy=policy, tree=tree, entries=entries, whole=(), edges=edges, unit=unit)
    return Delivered(by_site.edges, by_site.column_of, by_site.below, by_site.unmapped, by_site.has_any)


@dataclass(frozen=True, eq=False)
class DeliveredBySite(Delivered):
    """Delivered usage, also by site. origins: "" for this site, then peers. by_site: (n, origins), of `whole`."""

    origins: Sequence[str]
    by_site: F8


def load_delivered_by_site(
    *,
    policy: Policy,
    tree: TreeColumns,
    entries: Sequence[int],
    whole: Sequence[int],
    edges: Sequence[datetime],
    unit: Unit = CORE_HOUR,
) -> DeliveredBySite:
    """As `load_delivered`, and by site the sum over the entries `whole`, none of which is below another."""
    cut, wanted = sorted(set(edges)), sorted(set(entries))
    sums = account_sums.cached_sums
    with sums.lock, consistent_read() as may_cache:
        first_at = first_usage_at()
        hours = [] if first_at is None else [first_full_hour(max(at, first_at)) for at in cut]
        periods = sums.load_pieces(hours, use_cache=may_cache, measure=measure_of(unit))
        inputs = _read_inputs(policy, tree, periods, unit, may_cache=may_cache)
    n = max(len(cut) - 1, 0)
    below, unmapped, by_site = np.zeros((n, len(wanted))), np.zeros(n), np.zeros((n, len(inputs.origins)))
    for period, pieces in enumerate(inputs.periods):
        amounts = _period_cache.of(inputs, pieces, tuple(wanted), tuple(whole), keeps=may_cache and bool(tree.digest))
        below[period], by_site[period], unmapped[period] = amounts
    column_of = {i: at for at, i in enumerate(wanted)}
    return DeliveredBySite(cut, column_of, below, unmapped, first_at is not None, inputs.origins, by_site)


@dataclass(frozen=True, eq=False)
class BySite:
    """Core-seconds by site. origins: "" first, then by name. own: (periods, origins, entries), without entries below.

    first_at: the first hour in which each site delivered any usage, mapped or not.
    """

    tree: TreeColumns = field(repr=False)
    origins: tuple[str, ...]
    own: F8
    first_at: Mapping[str, datetime]

    @cached_property
    def below(self) -> F8:
        """(origins, entries), of each entry and all below it, over all periods."""
        own, tree = self.own.sum(axis=0), self.tree.engine_tree()
        return np.stack([sweep.sum_up(tree, row)[0] for row in own])

    @property
    def n_bytes(self) -> int:
        return int(self.own.nbytes + self.own[0].nbytes)


def load_by_site(
    *, policy: Policy, tree: TreeColumns, from_at: datetime | None, to_at: datetime, cuts: Sequence[datetime] = ()
) -> BySite:
    """Usage by site of hours that begin in [from_at, to_at), in periods between the cuts. from_at None: all usage.

    The caller checks which entries may be seen.
    """
    sums = account_sums.cached_sums
    with sums.lock, consistent_read() as may_cache:
        edges = _edges(from_at, to_at, cuts)
        periods = sums.load_pieces(edges, use_cache=may_cache)
        inputs = _read_inputs(policy, tree, periods, CORE_HOUR, may_cache=may_cache)
    return _cache.of(inputs, keeps=may_cache and bool(tree.digest))


def measure_of(unit: Unit) -> Measure:
    """What is summed to know usage in a unit."""
    return Measure(
        needed_resources(weighted_terms(dict(unit.weights))),
        by_class=bool(unit.class_factors),
        minimum_s=unit.minimum_charge_s,
    )


def _read_inputs(
    policy: Policy, tree: TreeColumns, periods: Sequence[Sequence[Piece]], unit: Unit, *, may_cache: bool
) -> _Inputs:
    origin_of = dict(Source.objects.values_list("pk", "origin"))
    index = load_account_index(use_cache=may_cache)
    return _Inputs(tree, load_rule_set(policy, tree), index, periods, origin_of, unit, _factors_of(unit))


def _factors_of(unit: Unit) -> tuple[tuple[int, float], ...]:
    """Ids of job classes that a unit has a factor for, and the factor; all others have 1."""
    if not unit.class_factors:
        return ()
    rows = JobClass.objects.order_by("id").values_list("id", "queue", "partition", "qos")
    factors = ((row[0], class_factor(JobClassRow(*row), unit.rules)) for row in rows)
    return tuple((class_id, factor) for class_id, factor in factors if factor != 1.0)


def _edges(from_at: datetime | None, to_at: datetime, cuts: Sequence[datetime]) -> list[int]:
    inner = {cut for cut in cuts if cut < to_at and (from_at is None or cut > from_at)}
    end = first_full_hour(to_at)
    begin = earliest_hour(end) if from_at is None else min(first_full_hour(from_at), end)
    return [begin, *sorted(min(max(first_full_hour(cut), begin), end) for cut in inner), end]


@dataclass(frozen=True, eq=False)
class _Inputs:
    """Everything that a result depends on, read in one transaction."""

    tree: TreeColumns
    rule_set: RuleSet
    account_index: AccountIndex
    periods: Sequence[Sequence[Piece]]
    origin_of: Mapping[int, str]
    unit: Unit
    factors: tuple[tuple[int, float], ...]

    def key_of(self, periods: Sequence[Sequence[Piece]]) -> Hashable:
        """Cache key of periods, for one account index. Numbers of pieces are unique."""
        numbers = tuple(tuple(piece.number for piece in period) for period in periods)
        known = self.tree.digest, self.rule_set.rules, self.rule_set.known.digest
        return *known, numbers, tuple(sorted(self.origin_of.items())), self.unit, self.factors

    @cached_property
    def origins(self) -> tuple[str, ...]:
        return ("", *sorted({origin for origin in self.origin_of.values() if origin}))

    @cached_property
    def _entry(self) -> npt.NDArray[np.int32]:
        """Of each account, −1 for none."""
        return place_accounts(self.tree, self.rule_set.rules, self.rule_set.known, self.account_index.keys).of_usage

    def compute(self) -> BySite:
        own = np.zeros((len(self.periods), len(self.origins), len(self.tree)))
        first: dict[str, int] = {}
        for period, pieces in enumerate(self.periods):
            own[period] = self.own(pieces)[0]
            for source_id, hour in chain.from_iterable(
                zip(piece.first_sources.tolist(), piece.first_hours.tolist(), strict=True) for piece in pieces
            ):
                origin = self.origin_of.get(source_id, "")
                first[origin] = min(hour, first.get(origin, hour))
        first_at = {origin: datetime.fromtimestamp(hour * 3600, UTC) for origin, hour in first.items()}
        return BySite(self.tree, self.origins, own, first_at)

    def amounts(self, pieces: Sequence[Piece], wanted: Sequence[int], whole: Sequence[int]) -> _Amounts:
        """Unit-seconds of one period: of the wanted entries with those below, by site of `whole`, and unmapped."""
        own, unmapped = self.own(pieces)
        below, by_site = np.zeros(len(wanted)), np.zeros(len(self.origins))
        for origin in np.flatnonzero(own.any(axis=1)).tolist():
            total = sweep.sum_up(self.tree.engine_tree(), own[origin])[0]
            below += total[list(wanted)]
            by_site[origin] = total[list(whole)].sum()
        return below, by_site, unmapped

    def own(self, pieces: Sequence[Piece]) -> tuple[F8, float]:
        """Own unit-seconds (origins, entries), and those of unmapped accounts.

        Resources are multiples of 2⁻¹⁰ s, so that their sums are exact in any order; they are weighted afterwards. With
        factors of classes, each class is weighted by its own before the sum.
        """
        shape, cells = (len(self.origins), len(self.tree)), [np.zeros(0, np.int64)]
        terms = weighted_terms(dict(self.unit.weights))
        needed = needed_resources(terms)
        amounts = [np.zeros((len(needed), 0))]
        unmapped = np.zeros(len(needed))
        for piece in pieces:
            sources = piece.first_sources
            names = [self.origin_of.get(source, "") for source in sources.tolist()]
            row = np.array([self.origins.index(name) for name in names], np.int64)
            at = self._entry[np.searchsorted(self.account_index.ids, piece.account_id.astype(np.int64))]
            counts = at != UNMAPPED
            used = piece.amounts * self._factor(piece) if self.factors else piece.amounts
            unmapped += used[:, ~counts].sum(axis=1)
            cells.append(row[np.searchsorted(sources, piece.source_id[counts])] * shape[1] + at[counts])
            amounts.append(used[:, counts])
        cell, used = np.concatenate(cells), np.concatenate(amounts, axis=1)
        total, of_unmapped = np.zeros(shape[0] * shape[1]), 0.0
        sums: dict[str, F8] = {
            name: np.append(np.bincount(cell, weights=amount, minlength=len(total)).astype(np.float64), left)
            for name, amount, left in zip(needed, used, unmapped, strict=True)
        }
        for term in terms:
            weighted = term.weight * term.rest(sums.__getitem__)
            total += weighted[:-1]
            of_unmapped += float(weighted[-1])
        return total.reshape(shape), of_unmapped

    def _factor(self, piece: Piece) -> F8:
        """(n,), the factor of the class of each row."""
        ids, factors = np.array(self.factors, np.float64).T
        at = np.minimum(np.searchsorted(ids, piece.job_class_id), len(ids) - 1)
        return np.where(ids[at] == piece.job_class_id, factors[at], 1.0)


class _Cache:
    """Results for the last account index, bounded by bytes and by number."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._index: AccountIndex | None = None
        self._known: LRUCache[Hashable, BySite] = LRUCache(
            _MOST_DELIVERED_BYTES,
            getsizeof=sized(_MOST_DELIVERED_BYTES, _MOST_RESULTS, lambda by_site: by_site.n_bytes),
        )

    def of(self, inputs: _Inputs, *, keeps: bool) -> BySite:
        if not keeps:
            return inputs.compute()
        key = inputs.key_of(inputs.periods)
        with self._lock:  # concurrent requests for it wait
            if self._index is not inputs.account_index:
                self._index = inputs.account_index
                self._known.clear()
            by_site = self._known.get(key)
            if by_site is None:
                by_site = inputs.compute()
                if by_site.n_bytes <= _MOST_DELIVERED_BYTES:
                    self._known[key] = by_site
        return by_site


_cache = _Cache()


class _PeriodCache:
    """Amounts of periods, for the last account index: only periods with changed pieces are summed again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._index: AccountIndex | None = None
        self._known: LRUCache[Hashable, _Amounts] = LRUCache(_MOST_PERIODS)

    def of(
        self, inputs: _Inputs, pieces: Sequence[Piece], wanted: tuple[int, ...], whole: tuple[int, ...], *, keeps: bool
    ) -> _Amounts:
        key = inputs.key_of([pieces]), wanted, whole
        with self._lock:
            if keeps and self._index is not inputs.account_index:
                self._index = inputs.account_index
                self._known.clear()
            known = self._known.get(key) if keeps else None
        amounts = known or inputs.amounts(pieces, wanted, whole)
        with self._lock:
            if keeps and self._index is inputs.account_index:
                self._known[key] = amounts
        return amounts


_period_cache = _PeriodCache()
