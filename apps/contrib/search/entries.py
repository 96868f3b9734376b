"""Searches entries, people and accounts of one policy by name, restricted to those that the actor may see."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import Literal
from uuid import UUID

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from apps.accounts.account_keys import AccountKey, canonical
from apps.contrib.search.name_index import Hits, Match, NameIndex
from apps.core.cache_sizes import mask_digest, sized
from apps.core.derived_state import in_memory
from apps.engine.target_state import State, slack_of
from apps.mapping.permissions import own_keys
from apps.policies.access.scope import Rights, Verb, administers_within_bounds
from apps.policies.settings import tolerance_at
from apps.policies.tree.columns import Mask
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.serving.lookup import AccountNames
from apps.priorities.serving.served_snapshot import ServedSnapshot

DERIVED_STATE = (
    in_memory(
        "_indexes",
        holds="names of a tree in order",
        key="digest of the tree",
        inputs="the tree",
        range="one tree",
        ends="the newest ones push it out",
    ),
)

EntryKind = Literal["entry", "person", "account"]
_MOST_INDEXED_NAMES = 4_000_000  # in all indexes of a process, about 25 bytes each
_MOST_INDEXES = 1_000
_MOST_BELOW = 20_000  # names below a group that are compared one by one
_MOST_PATH_MATCHES = 400  # of one part of a path

_indexes: LRUCache[Hashable, NameIndex] = LRUCache(
    _MOST_INDEXED_NAMES, getsizeof=sized(_MOST_INDEXED_NAMES, _MOST_INDEXES, len)
)
_lock = RLock()


@dataclass(frozen=True, slots=True)
class EntryHit:
    """kind: of the hit; entry_kind: as the tree names it (VO, project). rank: None if unranked or hidden; of a group
    that of its best user.

    actual, target: shares, 0..1; None where they are unknown or hidden, and for the root.
    """

    kind: EntryKind
    policy_slug: str
    policy_name: str
    uid: UUID
    title: str
    path: str
    entry_kind: str
    match: Match
    rank: int | None = None
    actual: float | None = None
    target: float | None = None
    state: State = "unknown"
    slack: float = 0.0  # half the width of the tolerance around its target
    is_group: bool = False


@dataclass(frozen=True, slots=True)
class EntryHits:
    """The best hits of one kind. n: number of all, None if there are too many to count."""

    hits: Sequence[EntryHit]
    n: int | None


def find_entries(view: PolicyView, query: str, kind: EntryKind, *, most: int) -> EntryHits:
    """Search by a folded query: part of a name, or parts of a path separated by `/` or spaces."""
    index = _index(view, kind)
    hits = index.find(query, most=most)
    if not hits and (parts := _parts(query)):
        hits = _find_by_path(view, index, kind, parts, most)
    return EntryHits([_hit(view, kind, *hit) for hit in hits], hits.n)


def hit_of(view: PolicyView, i: int) -> EntryHit:
    """A visible entry as a hit that begins with its name."""
    is_person = not view.tree.is_group[i] and not view.tree.is_reserve[i]
    return _hit(view, "person" if is_person else "entry", i, Match.BEGINS)


def find_by_uid(view: PolicyView, uid: UUID) -> EntryHit | None:
    """Return a visible entry; None for a hidden or missing one."""
    i = view.tree.index_of_uid(uid)
    return None if i is None or not view.visibility.may_see(i) else hit_of(view, i)


def _index(view: PolicyView, kind: EntryKind) -> NameIndex:
    """Index of the names that the view's actor sees: hidden names can't influence the response time."""
    if kind == "account":
        return _account_index(view)
    tree = view.tree

    def build() -> NameIndex:
        positions = np.flatnonzero(_searchable(view, kind))
        return NameIndex(tree.texts_of(positions), positions)

    return _cached_index((kind, tree.digest, mask_digest(view.visibility.mask)) if tree.digest else None, build)


def _searchable(view: PolicyView, kind: EntryKind) -> Mask:
    tree = view.tree
    is_person = ~tree.is_group & ~tree.is_reserve
    shown: Mask = view.visibility.mask & (is_person if kind == "person" else ~is_person)
    return shown


def _account_index(view: PolicyView) -> NameIndex:
    """Index of accounts named unlike their entry, at entries where the actor may see account names."""
    snapshot = view.snapshot
    if snapshot is None:
        return NameIndex([], np.zeros(0, dtype=np.int64))
    named, places = _entries_with_names(view, snapshot), snapshot.index.places
    own = AccountNames(named, tuple(map(canonical, own_keys(view.actor))))
    where = np.isin(places.entry, view.snapshot_index[view.own_entries]) & ~named[places.entry]
    own_accounts = [k for k in np.flatnonzero(where).tolist() if own.is_own(places.keys[k])]

    def build() -> NameIndex:
        at = np.union1d(np.flatnonzero(named[places.entry]), np.array(own_accounts, dtype=np.int64))
        names = list(map(account_name, places.keys.take(at)))
        pairs = zip(names, snapshot.tree.names_of(places.entry[at]), strict=True)
        is_other = [name != of_entry and name.casefold() != of_entry.casefold() for name, of_entry in pairs]
        other = np.flatnonzero(np.array(is_other, np.bool_) & np.array(list(map(bool, names)), np.bool_))
        return NameIndex([names[row] for row in other.tolist()], at[other])

    key = ("account", snapshot.snapshot_id, snapshot.index.digest, mask_digest(named), tuple(own_accounts))
    return _cached_index(key, build)


def account_name(key: AccountKey) -> str:
    return key.user_name or key.dn or key.group_name


def _entries_with_names(view: PolicyView, snapshot: ServedSnapshot) -> Mask:
    """Mask of the snapshot's entries at which the actor may see the names of all accounts."""
    tree, position = view.tree, view.snapshot_index
    shown = np.zeros(len(tree), dtype=np.bool_)
    if administers_within_bounds(view.actor, "policies:read"):  # the view has no entries outside the bounds of a token
        shown[:] = True
    else:
        for uid in Rights(view.policy, view.actor, view.now).at(Verb.MAP_ACCOUNTS, Verb.VIEW_MEMBERS):
            i = tree.index_of_uid(uid)
            if i is not None:
                shown |= tree.subtree_mask(i)
    shown &= view.visibility.mask & (position >= 0)
    named = np.zeros(len(snapshot.tree), dtype=np.bool_)
    named[position[shown]] = True
    return named


def _cached_index(key: Hashable | None, build: Callable[[], NameIndex]) -> NameIndex:
    with _lock:
        index = _indexes.get(key) if key is not None else None
        if index is None:
            index = build()
            if key is not None:
                _indexes[key] = index
        return index


def _view_indices(view: PolicyView, snapshot: ServedSnapshot) -> npt.NDArray[np.int64]:
    """Index in the view's tree of each entry of the snapshot; −1 if it isn't there, or its numbers are hidden."""
    view_indices = np.full(len(snapshot.tree), -1, dtype=np.int64)
    known = np.flatnonzero(view.snapshot_index >= 0)
    view_indices[view.snapshot_index[known]] = known
    return view_indices


def _parts(query: str) -> list[str]:
    parts = [part for part in query.replace("/", " ").split(" ") if part]
    return parts if len(parts) > 1 or "/" in query else []


def _find_by_path(view: PolicyView, index: NameIndex, kind: EntryKind, parts: Sequence[str], most: int) -> Hits:
    """Find names with the last part below names with the other parts, in order; shorter names first."""
    below = _below(view, parts[:-1])
    positions = np.flatnonzero(below & _searchable(view, kind)) if kind != "account" else np.zeros(0, dtype=np.int64)
    if kind != "account" and len(positions) <= _MOST_BELOW:
        names = ((i, view.tree.name[i].casefold()) for i in positions.tolist())
        matches = sorted((len(name), i) for i, name in names if parts[-1] in name)
        path_hits = Hits((i, Match.NOTE) for _length, i in matches)
    else:
        hits = index.find(parts[-1], most=_MOST_PATH_MATCHES)
        path_hits = Hits(
            (position, Match.NOTE) for position, _match in hits if below[_entry_index(view, kind, position)]
        )
    path_hits.n = len(path_hits)
    del path_hits[most:]
    return path_hits


def _below(view: PolicyView, parts: Sequence[str]) -> Mask:
    """Mask of entries below visible ones whose names contain these parts, in order."""
    tree, below = view.tree, np.ones(len(view.tree), dtype=np.bool_)
    for part in parts:
        tops = [i for i, _match in _index(view, "entry").find(part, most=_MOST_PATH_MATCHES) if below[i]]
        below = np.zeros(len(tree), dtype=np.bool_)
        for level in (level for i in tops for level in tree.subtree(i)[1:]):
            below[level.start : level.stop] = True
    return below


def _entry_index(view: PolicyView, kind: EntryKind, position: int) -> int:
    if kind != "account" or view.snapshot is None:
        return position
    return int(_view_indices(view, view.snapshot)[int(view.snapshot.index.places.entry[position])])


def _hit(view: PolicyView, kind: EntryKind, position: int, match: Match) -> EntryHit:
    i, tree = _entry_index(view, kind, position), view.tree
    title = tree.name[i]
    if kind == "account" and view.snapshot is not None:
        title = account_name(view.snapshot.index.places.keys[position])
    hit = EntryHit(
        kind,
        view.policy.slug,
        view.policy.name,
        tree.uuid(i),
        title,
        tree.path(i),
        tree.kind_names[int(tree.kind_code[i])],
        match,
    )
    if not i:
        return hit
    row = view.row(i, position=(1, 1))  # its place among siblings isn't shown
    is_group = bool(tree.is_group[i])
    tolerance = tolerance_at(view.settings.tolerance, not tree.n_children[i])
    slack = slack_of(row.target or 0.0, tolerance)
    return replace(
        hit, rank=row.rank, actual=row.actual, target=row.target, state=row.state, slack=slack, is_group=is_group
    )


def clear_indexes() -> None:
    """Clear the indexes, for benchmarks."""
    with _lock:
        _indexes.clear()
