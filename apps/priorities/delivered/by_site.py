"""What each site delivered to the entries of a policy: core-seconds as recorded, by where the records come from.

As `delivered` counts them: no aging, no metric, no scope; hours that are held don't count. A site is an origin of
sources: "" is this one, all its sources together; any other is a peer.

Asked again, it is worked out anew only where something of what it depends on is otherwise: an hour of usage, an
account, a rule, the tree, or whose a source is.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from apps.accounts.names.account_index import Roll, load_roll
from apps.engine import sweep
from apps.mapping.rules.placement import place_accounts
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import Rulebook, load_rulebook
from apps.policies.models import Policy
from apps.policies.tree.stored import TreeColumns
from apps.priorities.metering.usage import places_among
from apps.priorities.recompute.pipeline import one_view
from apps.usage.buckets import account_sums
from apps.usage.buckets.account_sums import Piece, first_hour, hour_from
from apps.usage.models import Source

F8 = npt.NDArray[np.float64]
_MOST_BYTES = 128 * 1024**2


@dataclass(frozen=True, eq=False)
class BySite:
    """Core-seconds. origins: "" first, then by name. own: (stretches, origins, entries), of the entry itself.

    first_at: the first hour in which a site delivered anything at all, mapped or not.
    """

    tree: TreeColumns = field(repr=False)
    origins: tuple[str, ...]
    own: F8
    first_at: Mapping[str, datetime]

    @cached_property
    def below(self) -> F8:
        """(origins, entries), of each entry and all below it, over the whole time."""
        own, tree = self.own.sum(axis=0), self.tree.engine_tree()
        return np.stack([sweep.sum_up(tree, row)[0] for row in own])

    @property
    def n_bytes(self) -> int:
        return int(self.own.nbytes + self.own[0].nbytes)


def load_by_site(
    *, policy: Policy, tree: TreeColumns, from_at: datetime | None, to_at: datetime, cuts: Sequence[datetime] = ()
) -> BySite:
    """Hours that begin at `from_at` or later (None: ever) and before `to_at`, in stretches between the cuts.

    The caller has checked which entries the reader may see.
    """
    sums = account_sums.remembered
    with sums.lock, one_view() as is_settled:
        edges = _edges(from_at, to_at, cuts)
        stretches = sums.between(edges, remembers=is_settled)
        origin_of = dict(Source.objects.values_list("pk", "origin"))
        book, roll = load_rulebook(policy, tree), load_roll(remembers=is_settled)
    return _remembered.of(_Asked(tree, book, roll, stretches, origin_of), keeps=is_settled and bool(tree.digest))


def _edges(from_at: datetime | None, to_at: datetime, cuts: Sequence[datetime]) -> list[int]:
    inner = {cut for cut in cuts if cut < to_at and (from_at is None or cut > from_at)}
    end = hour_from(to_at)
    begin = first_hour(end) if from_at is None else min(hour_from(from_at), end)
    return [begin, *sorted(min(max(hour_from(cut), begin), end) for cut in inner), end]


@dataclass(frozen=True, eq=False)
class _Asked:
    """All that an answer depends on, read in one transaction."""

    tree: TreeColumns
    book: Rulebook
    roll: Roll
    stretches: Sequence[Sequence[Piece]]
    origin_of: Mapping[int, str]

    @cached_property
    def key(self) -> Hashable:
        """Of pieces by their numbers, which never come again; of the roll by its keys, see _Remembered."""
        numbers = tuple(tuple(piece.number for piece in stretch) for stretch in self.stretches)
        known = self.tree.digest, self.book.rules, self.book.known.digest
        return *known, id(self.roll.keys), numbers, tuple(sorted(self.origin_of.items()))

    def work_out(self) -> BySite:
        entry, _joins = place_accounts(self.tree, self.book.rules, self.book.known, self.roll.keys)
        origins = ("", *sorted({origin for origin in self.origin_of.values() if origin}))
        own = np.zeros((len(self.stretches), len(origins), len(self.tree)))
        first: dict[str, int] = {}
        for stretch, pieces in enumerate(self.stretches):
            own[stretch] = self._own(pieces, entry, origins)
            for source_id, hour in chain.from_iterable(
                zip(piece.first_sources.tolist(), piece.first_hours.tolist(), strict=True) for piece in pieces
            ):
                origin = self.origin_of.get(source_id, "")
                first[origin] = min(hour, first.get(origin, hour))
        first_at = {origin: datetime.fromtimestamp(hour * 3600, UTC) for origin, hour in first.items()}
        return BySite(self.tree, origins, own, first_at)

    def _own(self, pieces: Sequence[Piece], entry: npt.NDArray[np.int32], origins: tuple[str, ...]) -> F8:
        """(origins, entries). Sums of whole 2⁻¹⁰ s are exact in any order."""
        shape, cells, amounts = (len(origins), len(self.tree)), [np.zeros(0, np.int64)], [np.zeros(0)]
        for piece in pieces:
            sources = piece.first_sources
            row = np.array([origins.index(self.origin_of.get(one, "")) for one in sources.tolist()], np.int64)
            at = entry[places_among(self.roll.ids, piece.account_id)]
            counts = np.flatnonzero(at != UNMAPPED)
            cells.append(row[np.searchsorted(sources, piece.source_id[counts])] * shape[1] + at[counts])
            amounts.append(piece.cpu_s[counts])
        found = np.bincount(np.concatenate(cells), weights=np.concatenate(amounts), minlength=shape[0] * shape[1])
        return found.astype(np.float64, copy=False).reshape(shape)


def _n_bytes(kept: tuple[Roll, BySite]) -> int:
    return kept[1].n_bytes


class _Remembered:
    """The last answers, bounded by their bytes; each holds on to its roll, so that no other gets its identity."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: LRUCache[Hashable, tuple[Roll, BySite]] = LRUCache(_MOST_BYTES, getsizeof=_n_bytes)

    def of(self, asked: _Asked, *, keeps: bool) -> BySite:
        if not keeps:
            return asked.work_out()
        with self._lock:  # concurrent requests for it wait
            known = self._known.get(asked.key)
            found = known[1] if known is not None else asked.work_out()
            if known is None and found.n_bytes <= self._known.maxsize:
                self._known[asked.key] = asked.roll, found
        return found


_remembered = _Remembered()
