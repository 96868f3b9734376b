"""Entries, people and accounts of one policy by name: those that one person may see, and nothing of any other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import RLock
from typing import Literal
from uuid import UUID

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from apps.accounts.account_ids import AccountKey
from apps.policies.access.scope import Rights, Verb, rules_all
from apps.policies.tree.columns import Mask
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.search.name_index import Hits, Match, NameIndex, fold

EntryKind = Literal["entry", "person", "account"]
_MOST_NAMES = 4_000_000  # in all indexes of a process, some 25 bytes each
_MOST_BELOW = 20_000  # names below a group that are looked at one by one
_MOST_LOOKED_AT = 400  # matches of one part of a path

_indexes: LRUCache[Hashable, NameIndex] = LRUCache(_MOST_NAMES, getsizeof=lambda one: min(len(one) + 1, _MOST_NAMES))
_lock = RLock()


@dataclass(frozen=True, slots=True)
class EntryHit:
    """kind: of the hit; entry_kind: as the tree names it (VO, project). rank: None where it has none, or is hidden."""

    kind: EntryKind
    policy_slug: str
    policy_name: str
    uid: UUID
    title: str
    path: str
    entry_kind: str
    match: Match
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class EntryHits:
    """The best of one kind. n: all there are, None where there are more than were counted."""

    hits: Sequence[EntryHit]
    n: int | None


def find_entries(view: PolicyView, query: str, kind: EntryKind, *, most: int) -> EntryHits:
    """By a folded query: a part of a name, or parts of a path with `/` or spaces between them."""
    index = _index(view, kind)
    found = index.find(query, most=most)
    if not found and (parts := _parts(query)):
        found = _along_paths(view, index, kind, parts, most)
    return EntryHits([_hit(view, kind, *one) for one in found], found.n)


def find_by_uid(view: PolicyView, uid: UUID) -> EntryHit | None:
    """A visible entry; None for a hidden one and for one that isn't there."""
    i = view.tree.index_of_uid(uid)
    if i is None or not view.visibility.may_see(i):
        return None
    is_person = not view.tree.is_group[i] and not view.tree.is_reserve[i]
    return _hit(view, "person" if is_person else "entry", i, Match.BEGINS)


def entries_named(view: PolicyView, name: str, *, most: int) -> list[int]:
    """Visible entries of exactly this name, or at this path, people first."""
    if name.startswith("/"):
        named = entries_named(view, name.rpartition("/")[2], most=_MOST_LOOKED_AT)
        return [i for i in named if fold(view.tree.path(i)) == fold(name)]
    wanted = fold(name)
    found = _index(view, "person").find_equal(wanted, most=most) + _index(view, "entry").find_equal(wanted, most=most)
    if not found and view.snapshot is not None:
        places = _index(view, "account").find_equal(wanted, most=most)
        here = _here(view, view.snapshot)
        found = [int(here[int(view.snapshot.index.places.entry[place])]) for place in places]
    return list(dict.fromkeys(found))[:most]


def entries_alike(view: PolicyView, name: str, *, most: int) -> list[str]:
    """Visible names that begin like this one, people first."""
    wanted = fold(name)[:3]
    hits = [*_index(view, "person").find(wanted, most=most), *_index(view, "entry").find(wanted, most=most)]
    return list(dict.fromkeys(view.tree.name[i] for i, match in hits if match == Match.BEGINS))[:most]


# --- Indexes ----------------------------------------------------------------------------------------------------------
def _index(view: PolicyView, kind: EntryKind) -> NameIndex:
    """Only of names that the view's actor sees: what is hidden can't make an answer slower."""
    if kind == "account":
        return _account_index(view)
    tree = view.tree

    def build() -> NameIndex:
        places = np.flatnonzero(_shown(view, kind))
        return NameIndex([tree.name[i] for i in places.tolist()], places)

    return _kept((kind, tree.digest, _digest(view.visibility.mask)) if tree.digest else None, build)


def _shown(view: PolicyView, kind: EntryKind) -> Mask:
    tree = view.tree
    is_person = ~tree.is_group & ~tree.is_reserve
    shown: Mask = view.visibility.mask & (is_person if kind == "person" else ~is_person)
    return shown


def _account_index(view: PolicyView) -> NameIndex:
    """Accounts that aren't called like their entry, at entries where the actor reads whose they are."""
    snapshot = view.snapshot
    if snapshot is None:
        return NameIndex([], np.zeros(0, dtype=np.int64))
    named, places = _named(view, snapshot), snapshot.index.places

    def build() -> NameIndex:
        at = np.flatnonzero(named[places.entry])
        entries, tree = places.entry[at].tolist(), snapshot.tree
        both = [(account_name(places.keys[k]), k, i) for k, i in zip(at.tolist(), entries, strict=True)]
        other = [(name, k) for name, k, i in both if name and name.casefold() != tree.name[i].casefold()]
        return NameIndex([name for name, _k in other], np.array([k for _name, k in other], dtype=np.int64))

    return _kept(("account", snapshot.snapshot_id, snapshot.index.digest, _digest(named)), build)


def account_name(key: AccountKey) -> str:
    return key.user_name or key.dn or key.group_name


def _named(view: PolicyView, snapshot: ServedSnapshot) -> Mask:
    """Entries of the snapshot at which the actor reads names of accounts: by right, and the own ones."""
    tree, place = view.tree, view.snapshot_index
    shown = np.zeros(len(tree), dtype=np.bool_)
    if rules_all(view.actor, "policies:read"):
        shown[:] = True
    else:
        for uid in Rights(view.policy, view.actor, view.now).at(Verb.MAP_ACCOUNTS, Verb.VIEW_MEMBERS):
            i = tree.index_of_uid(uid)
            if i is not None:
                shown |= tree.subtree_mask(i)
        shown[view.own_entries] = True
    shown &= view.visibility.mask & (place >= 0)
    named = np.zeros(len(snapshot.tree), dtype=np.bool_)
    named[place[shown]] = True
    return named


def _kept(key: Hashable | None, build: Callable[[], NameIndex]) -> NameIndex:
    with _lock:
        found = _indexes.get(key) if key is not None else None
        if found is None:
            found = build()
            if key is not None:
                _indexes[key] = found
        return found


def _digest(mask: Mask) -> bytes:
    return blake2b(np.packbits(mask).tobytes(), digest_size=16).digest()


def _here(view: PolicyView, snapshot: ServedSnapshot) -> npt.NDArray[np.int64]:
    """Where each entry of the snapshot is in the view's tree; −1 where it isn't, or its numbers are hidden."""
    here = np.full(len(snapshot.tree), -1, dtype=np.int64)
    known = np.flatnonzero(view.snapshot_index >= 0)
    here[view.snapshot_index[known]] = known
    return here


# --- Hits -------------------------------------------------------------------------------------------------------------
def _parts(query: str) -> list[str]:
    parts = [part for part in query.replace("/", " ").split(" ") if part]
    return parts if len(parts) > 1 or "/" in query else []


def _along_paths(view: PolicyView, index: NameIndex, kind: EntryKind, parts: Sequence[str], most: int) -> Hits:
    """Names with the last part, below names with the others in their order; the shorter first."""
    below = _below(view, parts[:-1])
    places = np.flatnonzero(below & _shown(view, kind)) if kind != "account" else np.zeros(0, dtype=np.int64)
    if kind != "account" and len(places) <= _MOST_BELOW:
        names = ((i, view.tree.name[i].casefold()) for i in places.tolist())
        fits = sorted((len(name), i) for i, name in names if parts[-1] in name)
        found = Hits((i, Match.NOTE) for _length, i in fits)
    else:
        hits = index.find(parts[-1], most=_MOST_LOOKED_AT)
        found = Hits((place, Match.NOTE) for place, _match in hits if below[_entry(view, kind, place)])
    found.n = len(found)
    del found[most:]
    return found


def _below(view: PolicyView, parts: Sequence[str]) -> Mask:
    """Entries below a visible one with each of these parts in its name, in their order."""
    tree, below = view.tree, np.ones(len(view.tree), dtype=np.bool_)
    for part in parts:
        tops = [i for i, _match in _index(view, "entry").find(part, most=_MOST_LOOKED_AT) if below[i]]
        below = np.zeros(len(tree), dtype=np.bool_)
        for level in (level for i in tops for level in tree.subtree(i)[1:]):
            below[level.start : level.stop] = True
    return below


def _entry(view: PolicyView, kind: EntryKind, place: int) -> int:
    if kind != "account" or view.snapshot is None:
        return place
    return int(_here(view, view.snapshot)[int(view.snapshot.index.places.entry[place])])


def _hit(view: PolicyView, kind: EntryKind, place: int, match: Match) -> EntryHit:
    i, tree = _entry(view, kind, place), view.tree
    title = tree.name[i]
    if kind == "account" and view.snapshot is not None:
        title = account_name(view.snapshot.index.places.keys[place])
    return EntryHit(
        kind,
        view.policy.slug,
        view.policy.name,
        tree.uuid(i),
        title,
        tree.path(i),
        tree.kind_names[int(tree.kind_code[i])],
        match,
        rank_of(view, i) if kind != "entry" else None,
    )


def rank_of(view: PolicyView, i: int) -> int | None:
    """None where it has no rank, or its numbers are hidden."""
    at = -1 if view.snapshot is None else int(view.snapshot_index[i])
    if view.snapshot is None or at < 0 or not view.snapshot.values.has_rank[at]:
        return None
    return int(view.snapshot.values.rank[at])


def forget() -> None:
    """Empty the indexes, for measurements."""
    with _lock:
        _indexes.clear()
