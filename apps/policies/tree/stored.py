"""Load the trees of stored revisions, from their blobs through a per-process cache, or from the entry rows."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from uuid import UUID
from weakref import WeakValueDictionary

from django.db.models import F, Q

from apps.accounts.request_cache import once_per_request
from apps.core.blobs import CorruptBlob
from apps.core.cache_sizes import own_bytes
from apps.core.derived_state import in_memory
from apps.core.errors import NotFound
from apps.core.key_locks import KeyLocks
from apps.policies.models import Entry, Policy, Revision
from apps.policies.tree.columns import Node, TreeColumns, unpack_tree
from apps.policies.tree.files import map_tree
from apps.policies.tree.terms import read_dates, read_members, read_mounted
from apps.policies.tree.working_tree import columns_of

DERIVED_STATE = (
    in_memory(
        "tree_cache",
        holds="trees of revisions",
        key="digest of the tree",
        inputs="the stored tree",
        range="one tree",
        ends="those used later push it out",
    ),
)

__all__ = ["Node", "TreeColumns", "archived_lookup", "load_archived", "load_tree", "load_tree_from_rows", "node_of"]

log = logging.getLogger(__name__)

_MOST_CACHED_BYTES = 192 * 1024**2  # of a process's own memory: mapped files are shared, and free
_MOST_TREES = 100  # each may be a mapped file, which was deleted since
_UIDS_AT_ONCE = 10_000


class _TreeCache:
    """The trees used last, by digest, bounded by their number and by the memory that they hold by now.

    A tree with this digest can't be outdated. One that was dropped is found as long as a snapshot or a request has it.
    """

    def __init__(self, *, most_trees: int = _MOST_TREES, most_bytes: int = _MOST_CACHED_BYTES) -> None:
        self._lock = threading.Lock()
        self._most_trees, self._most_bytes = most_trees, most_bytes
        self._trees: OrderedDict[str, TreeColumns] = OrderedDict()
        self._in_use: WeakValueDictionary[str, TreeColumns] = WeakValueDictionary()
        self.loading = KeyLocks()

    def get(self, digest: str) -> TreeColumns | None:
        with self._lock:
            tree = self._in_use.get(digest)
            if tree is not None:
                self._trees[digest] = tree
                self._trees.move_to_end(digest)
            return tree

    def load_once(self, digest: str, load: Callable[[], TreeColumns]) -> TreeColumns:
        """One thread loads a tree that isn't here; the others that ask for it wait for that one."""
        with self.loading.hold(digest):
            tree = self.get(digest)
            if tree is None:
                tree = load()
                self.put(tree)
            return tree

    def put(self, tree: TreeColumns) -> None:
        with self._lock:
            self._trees[tree.digest] = self._in_use[tree.digest] = tree
            self._trees.move_to_end(tree.digest)
        self.shrink()

    def shrink(self) -> None:
        """Drop those used least recently, beyond the bounds; one stays. Pages derive more and more from trees."""
        with self._lock:
            left = self._most_bytes
            for place, (digest, tree) in enumerate(reversed(list(self._trees.items()))):
                left -= own_bytes(tree)
                if place >= self._most_trees or (place and left < 0):
                    del self._trees[digest]

    def clear(self) -> None:
        with self._lock:
            self._trees.clear()
            self._in_use.clear()


tree_cache = _TreeCache()


def load_tree(policy: Policy, number: int | None = None) -> TreeColumns:
    """Load the tree of a revision (None: the head) from its blob; raise NotFound if the revision doesn't exist."""
    wanted = policy.head_number if number is None else number
    return tree_with_digest(policy, wanted, digest_of_tree(policy, wanted))


def digest_of_tree(policy: Policy, number: int) -> str:
    """Raises NotFound if the revision doesn't exist."""
    revisions = Revision.objects.filter(policy_id=policy.pk, number=number)
    digest = once_per_request(("tree", policy.pk, number), revisions.values_list("tree_digest", flat=True).first)
    if digest is None:
        raise NotFound(f"Policy {policy.slug} has no revision {number}.")
    return digest


def load_current_trees() -> list[tuple[Policy, TreeColumns]]:
    """Load the policies that have a revision and aren't archived, each with the tree of its head."""
    heads = Revision.objects.filter(number=F("policy__head_number"), policy__archived_at=None)
    rows = heads.select_related("policy").only("number", "tree_digest", "policy")
    return [(row.policy, tree_with_digest(row.policy, row.number, row.tree_digest)) for row in rows]


def tree_with_digest(policy: Policy, number: int, digest: str) -> TreeColumns:
    """The tree of a revision whose digest is known: from the cache, the file of a large one, or the revision's blob."""
    tree = tree_cache.get(digest)
    return tree_cache.load_once(digest, lambda: _load(policy, number, digest)) if tree is None else tree


def _load(policy: Policy, number: int, digest: str) -> TreeColumns:
    def unpack() -> TreeColumns:
        return unpack_tree(Revision.objects.values_list("tree", flat=True).get(policy=policy, number=number), digest)

    try:
        return map_tree(digest, unpack)
    except CorruptBlob:
        log.exception("The tree of revision %s of %s is damaged; its entries replace it", number, policy.slug)
        return replace(load_tree_from_rows(policy, number), digest=digest)


def load_tree_from_rows(policy: Policy, number: int | None = None) -> TreeColumns:
    """Rebuild a revision's tree from its entry rows, which stand in for a damaged blob."""
    wanted = policy.head_number if number is None else number
    nodes = [
        node_of(entry)
        for entry in Entry.objects.filter(policy=policy, since__lte=wanted)
        .filter(Q(until=None) | Q(until__gt=wanted))
        .iterator(chunk_size=50_000)
    ]
    if not nodes:
        raise NotFound(f"Policy {policy.slug} has no revision {wanted}.")
    return columns_of(nodes, policy_slug=policy.slug, number=wanted)


def load_archived(policy: Policy, uid: UUID, number: int | None = None) -> Sequence[Node]:
    """Return the last version of an archived entry and the descendants archived with it, parents first; empty if not
    archived.

    number: treat the entry as of that revision instead of now.
    """
    versions = Entry.objects.filter(policy=policy, uid=uid).order_by("-since")
    last = (versions if number is None else versions.filter(since__lte=number)).first()
    if last is None or last.until is None or (number is not None and last.until > number):
        return []
    entries, level = [node_of(last)], [uid]
    # Rows closed and reopened in the same revision belong to entries that were moved or changed, not archived.
    stayed = Entry.objects.filter(policy=policy, since=last.until).values("uid")
    while level:
        rows = Entry.objects.filter(policy=policy, until=last.until, parent_uid__in=level).exclude(uid__in=stayed)
        rows = rows.order_by("name")
        nodes = [node_of(row) for row in rows]
        entries += nodes
        level = [node.uid for node in nodes]
    return entries


def archived_lookup(
    policy: Policy, number: int | None = None, *, new_uids: Iterable[UUID] = ()
) -> Callable[[UUID], Sequence[Node]]:
    """Return `load_archived` of one policy as a function of the uid.

    new_uids: entries that are to be added, thousands perhaps, and most likely never existed: one query finds those
    that did.
    """
    new = frozenset(new_uids)

    @cache
    def existing() -> frozenset[UUID]:
        uids = list(new)
        parts = (uids[start : start + _UIDS_AT_ONCE] for start in range(0, len(uids), _UIDS_AT_ONCE))
        rows = (Entry.objects.filter(policy=policy, uid__in=part).values_list("uid", flat=True) for part in parts)
        return frozenset(uid for part in rows for uid in part)

    def archived(uid: UUID) -> Sequence[Node]:
        return [] if uid in new and uid not in existing() else load_archived(policy, uid, number)

    return archived


def node_of(entry: Entry) -> Node:
    return Node(
        uid=entry.uid,
        parent_uid=entry.parent_uid,
        name=entry.name,
        kind=entry.kind,
        shares=entry.shares,
        is_group=entry.is_group,
        scope=entry.scope,
        scope_sources=tuple(entry.scope_sources),
        locked=entry.locked,
        dates=read_dates(entry.dates),
        members=read_members(entry.members, stored=True),
        mount=read_mounted(entry.mount),
    )
