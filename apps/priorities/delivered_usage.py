"""Core-seconds delivered to entries between instants, in total or by site, as recorded.

This is raw usage of all sources except held hours: no decay, metric, scope or adjustment. Accounts are mapped to
entries as in a recompute. A bucket belongs to the period in which its hour begins.

A site is an origin of sources: "" is this site, with all its sources together; any other is a peer. Results by site
are cached until usage, accounts, rules, the tree, or the origin of a source change.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache
from django.db import connection

from apps.accounts.account_index import AccountIndex, load_account_index
from apps.engine import sweep
from apps.mapping.rules.placement import place_accounts
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import RuleSet, load_rule_set
from apps.policies.models import Policy
from apps.policies.tree.stored import TreeColumns
from apps.priorities.metering import indexes_in
from apps.priorities.recompute.pipeline import consistent_read
from apps.usage import account_sums
from apps.usage.account_sums import Piece, earliest_hour, first_full_hour
from apps.usage.held_hours import NOT_HELD, OF_CURRENT
from apps.usage.models import Source
from apps.usage.pgbinary import fetch_columns

F8 = npt.NDArray[np.float64]

_USED = f"""
SELECT array_agg(account_id), array_agg(source_id), array_agg(period::int8), array_agg(cpu_s) FROM (
    SELECT account_id, source_id, width_bucket(hour_at, %s::timestamptz[]) AS period, sum(cpu_s) AS cpu_s
    FROM usage_bucket WHERE hour_at >= %s::timestamptz AND hour_at < %s::timestamptz{NOT_HELD}{OF_CURRENT}
    GROUP BY account_id, source_id, period
) AS used
"""  # noqa: S608 - constants only


@dataclass(frozen=True, eq=False)
class Delivered:
    """Core-seconds of entries in n consecutive periods.

    edges: n + 1 ascending instants. column_of: entry → its column of `below`. below: (n, entries), of each entry and
    all below it. unmapped: (n,), of unmapped accounts. has_any: the database has usage, at whatever time.
    """

    edges: Sequence[datetime]
    column_of: Mapping[int, int]
    below: F8
    unmapped: F8
    has_any: bool

    def between(self, i: int, from_at: datetime, to_at: datetime) -> float:
        """Core-seconds of one entry between two edges, or instants beyond the outer edges."""
        first, last = bisect_left(self.edges, from_at), bisect_left(self.edges, to_at)
        return float(self.below[first:last, self.column_of[i]].sum())


def load_delivered(
    *, policy: Policy, tree: TreeColumns, entries: Sequence[int], edges: Sequence[datetime]
) -> Delivered:
    """Core-seconds of entries in the periods between edges. The caller checks which entries may be seen."""
    by_site = load_delivered_by_site(policy=policy, tree=tree, entries=entries, whole=(), edges=edges)
    return Delivered(by_site.edges, by_site.column_of, by_site.below, by_site.unmapped, by_site.has_any)


@dataclass(frozen=True, eq=False)
class DeliveredBySite(Delivered):
    """Delivered usage, also by site. origins: "" for this site, then peers. by_site: (n, origins), of `whole`."""

    origins: Sequence[str]
    by_site: F8


def load_delivered_by_site(
    *, policy: Policy, tree: TreeColumns, entries: Sequence[int], whole: Sequence[int], edges: Sequence[datetime]
) -> DeliveredBySite:
    """As `load_delivered`, and by site the sum over the entries `whole`, none of which is below another."""
    cut, wanted = sorted(set(edges)), sorted(set(entries))
    n = max(len(cut) - 1, 0)
    origin_of = dict(Source.objects.values_list("pk", "origin"))
    origins = ("", *sorted({origin for origin in origin_of.values() if origin}))
    below, unmapped, by_site = np.zeros((n, len(wanted))), np.zeros(n), np.zeros((n, len(origins)))
    used = _load_usage(policy, tree, cut, {pk: origins.index(origin) for pk, origin in origin_of.items()})
    for part in () if used is None else used.parts():
        unmapped[part.period] += part.cpu_s[part.entry == UNMAPPED].sum()
        is_mapped = part.entry != UNMAPPED
        own = np.bincount(part.entry[is_mapped], weights=part.cpu_s[is_mapped], minlength=len(tree)).astype(np.float64)
        total = sweep.sum_up(tree.engine_tree(), own)[0]
        below[part.period] += total[wanted]
        by_site[part.period, part.origin] = total[list(whole)].sum()
    column_of = {i: at for at, i in enumerate(wanted)}
    return DeliveredBySite(cut, column_of, below, unmapped, used is not None, origins, by_site)


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """Usage of one period, from 0, and origin, by account."""

    period: int
    origin: int
    entry: npt.NDArray[np.int32]
    cpu_s: F8


@dataclass(frozen=True, eq=False, slots=True)
class _Used:
    """Usage by account, period and origin. entry: of the account, −1 for none."""

    period: npt.NDArray[np.int64]
    origin: npt.NDArray[np.int64]
    entry: npt.NDArray[np.int32]
    cpu_s: F8

    def parts(self) -> Iterator[_Part]:
        order = np.lexsort((self.origin, self.period))
        keys = np.stack([self.period[order], self.origin[order]])
        edges = np.flatnonzero(np.r_[True, (np.diff(keys, axis=1) != 0).any(axis=0), True]) if len(order) else ()
        for begin, end in pairwise(edges):
            rows = order[begin:end]
            yield _Part(int(keys[0, begin]), int(keys[1, begin]), self.entry[rows], self.cpu_s[rows])


def _load_usage(
    policy: Policy, tree: TreeColumns, cut: Sequence[datetime], origin_of: Mapping[int, int]
) -> _Used | None:
    """Usage in the periods between cuts, placed by the current rules; None if the database has none at all."""
    with consistent_read() as may_cache:
        with connection.cursor() as cursor:
            cursor.execute("SELECT EXISTS (SELECT 1 FROM usage_bucket)")
            if not cursor.fetchone()[0]:
                return None
        columns = fetch_columns(_USED, [list(cut), cut[0], cut[-1]]) if len(cut) > 1 else []
        if not columns:
            none = np.zeros(0, np.int64)
            return _Used(none, none, none.astype(np.int32), np.zeros(0))
        accounts, rule_set = load_account_index(use_cache=may_cache), load_rule_set(policy, tree)
    account, source, period, cpu_s = columns
    entry = place_accounts(tree, rule_set.rules, rule_set.known, accounts.keys).of_usage
    known, which = np.unique(source, return_inverse=True)
    origin = np.array([origin_of.get(pk, 0) for pk in known.tolist()], np.int64)[which]
    return _Used(period - 1, origin, entry[indexes_in(accounts.ids, account)], cpu_s)


_MOST_BYTES = 128 * 1024**2


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
        origin_of = dict(Source.objects.values_list("pk", "origin"))
        rule_set, account_index = load_rule_set(policy, tree), load_account_index(use_cache=may_cache)
    return _cache.of(_Inputs(tree, rule_set, account_index, periods, origin_of), keeps=may_cache and bool(tree.digest))


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

    @cached_property
    def key(self) -> Hashable:
        """Cache key. Numbers of pieces are unique; the account index is identified by its keys, see `_Cache`."""
        numbers = tuple(tuple(piece.number for piece in period) for period in self.periods)
        known = self.tree.digest, self.rule_set.rules, self.rule_set.known.digest
        return *known, id(self.account_index.keys), numbers, tuple(sorted(self.origin_of.items()))

    def compute(self) -> BySite:
        entry = place_accounts(self.tree, self.rule_set.rules, self.rule_set.known, self.account_index.keys).of_usage
        origins = ("", *sorted({origin for origin in self.origin_of.values() if origin}))
        own = np.zeros((len(self.periods), len(origins), len(self.tree)))
        first: dict[str, int] = {}
        for period, pieces in enumerate(self.periods):
            own[period] = self._own(pieces, entry, origins)
            for source_id, hour in chain.from_iterable(
                zip(piece.first_sources.tolist(), piece.first_hours.tolist(), strict=True) for piece in pieces
            ):
                origin = self.origin_of.get(source_id, "")
                first[origin] = min(hour, first.get(origin, hour))
        first_at = {origin: datetime.fromtimestamp(hour * 3600, UTC) for origin, hour in first.items()}
        return BySite(self.tree, origins, own, first_at)

    def _own(self, pieces: Sequence[Piece], entry: npt.NDArray[np.int32], origins: tuple[str, ...]) -> F8:
        """Own core-seconds (origins, entries). They are multiples of 2⁻¹⁰ s, so sums are exact in any order."""
        shape, cells, amounts = (len(origins), len(self.tree)), [np.zeros(0, np.int64)], [np.zeros(0)]
        for piece in pieces:
            sources = piece.first_sources
            row = np.array([origins.index(self.origin_of.get(source, "")) for source in sources.tolist()], np.int64)
            at = entry[indexes_in(self.account_index.ids, piece.account_id)]
            counts = np.flatnonzero(at != UNMAPPED)
            cells.append(row[np.searchsorted(sources, piece.source_id[counts])] * shape[1] + at[counts])
            amounts.append(piece.cpu_s[counts])
        sums = np.bincount(np.concatenate(cells), weights=np.concatenate(amounts), minlength=shape[0] * shape[1])
        return sums.astype(np.float64, copy=False).reshape(shape)


def _n_bytes(kept: tuple[AccountIndex, BySite]) -> int:
    return kept[1].n_bytes


class _Cache:
    """Results, bounded by bytes. Each keeps a reference to its account index, so that its identity isn't reused."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: LRUCache[Hashable, tuple[AccountIndex, BySite]] = LRUCache(_MOST_BYTES, getsizeof=_n_bytes)

    def of(self, inputs: _Inputs, *, keeps: bool) -> BySite:
        if not keeps:
            return inputs.compute()
        with self._lock:  # concurrent requests for it wait
            known = self._known.get(inputs.key)
            by_site = known[1] if known is not None else inputs.compute()
            if known is None and by_site.n_bytes <= self._known.maxsize:
                self._known[inputs.key] = inputs.account_index, by_site
        return by_site


_cache = _Cache()
