"""Local-only fallbacks in the numbers that a reader sees, for entries visible to them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from apps.priorities.local_only.services import LocalOnlyEntry
from apps.priorities.records.moment import LocalOnly
from apps.priorities.selectors.rows import PolicyView


def list_local_only(view: PolicyView) -> list[LocalOnly]:
    """All entries that the actor sees below which it is so in the numbers of the view, by path."""
    tops = view.snapshot.fallen_tops if view.snapshot is not None else ()
    return sorted((one for one in (_told(view, top) for top in tops) if one.path), key=lambda one: one.path)


def local_only_among(view: PolicyView, uids: Iterable[UUID]) -> list[LocalOnly]:
    """What decides by whose usage these entries are compared, and those right below them; each once, by path."""
    snapshot = view.snapshot
    if snapshot is None or not snapshot.fallen:
        return []
    found: dict[UUID, LocalOnlyEntry] = {}
    for uid in uids:
        i = snapshot.tree.index_of_uid(uid)
        for place in () if i is None else (i, int(snapshot.tree.parent[i])):
            if place in snapshot.fallen:
                found[snapshot.fallen[place].uid] = snapshot.fallen[place]
    return sorted((_told(view, each) for each in found.values()), key=lambda one: (one.path, one.since))


def _told(view: PolicyView, fallen: LocalOnlyEntry) -> LocalOnly:
    i = view.tree.index_of_uid(fallen.uid)
    was_then = view.asked is not None
    if i is None or not view.visibility.may_see(i):
        return LocalOnly(fallen.uid, "", fallen.since, "", was_then)
    return LocalOnly(fallen.uid, view.tree.path(i), fallen.since, fallen.reason, was_then)
