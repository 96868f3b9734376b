"""Mounts for viewers: what a document would change, and where an entry's settings come from.

Differences compare the document's entries with ours. Provenance is authority, version and age.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from uuid import UUID

import numpy as np
import zstandard

from apps.core.errors import DomainError
from apps.core.signing import open_document
from apps.federation.conditions import Condition, age_of, condition_of, is_held, mounts_with_pending_version
from apps.federation.documents.wire import PolicyDocument, PolicyLimits, read_policy
from apps.federation.models import Mount, Remote
from apps.federation.mounts.application import apply_document
from apps.federation.staleness import is_stale
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.difference import mount_of
from apps.policies.tree.revision_diff import TargetChanges, TreeDiff, compare_targets, diff_trees
from apps.policies.tree.stored import load_tree

_MOST_SORTED = 5_000  # a longer list is shown level by level
_SAME = 1e-9


@dataclass(frozen=True)
class ComparedEntry:
    """One entry of the document or of the mount. Shares as stated, None if it inherits or doesn't exist.

    inside: its target within the document, 0..1. asked: its global target if the document were applied, by the mount's
    own share; here: its present global target. None if the entry doesn't exist there.
    """

    uid: UUID
    name: str
    kind: str
    path: str
    level: int
    in_document: bool
    in_tree: bool
    shares_stated: float | None
    shares_here: float | None
    inside: float | None
    asked: float | None
    here: float | None

    @property
    def differs(self) -> bool:
        if not (self.in_document and self.in_tree) or self.shares_stated != self.shares_here:
            return True
        if self.asked is None or self.here is None:
            return self.asked is not self.here
        return abs(self.asked - self.here) > _SAME


@dataclass(frozen=True, eq=False)
class Differences:
    """The newest accepted document of a mount compared with the current tree, for managers who may mount there.

    diff: what applying the document would change; None if it can't be applied, for the reason in `problem`.
    """

    mount: Mount
    document: PolicyDocument
    tree: TreeColumns
    at: int
    diff: TreeDiff | None
    problem: str

    @property
    def n_entries(self) -> int:
        return len(self.document.tree)

    @property
    def n_levels(self) -> int:
        return len(self.document.tree.level_starts) - 2

    @cached_property
    def stated(self) -> Sequence[ComparedEntry]:
        """Every entry of either, those of the document first, each below its parent as far as that is known."""
        document, tree = self.document.tree, self.tree
        inside, here = compare_targets(document, document), compare_targets(tree, tree)
        own = 1.0 if self.at == 0 else _of(here, self.at)
        rows = [self._of_document(i, inside, here, own) for i in range(1, len(document))]
        below = tree.subtree_mask(self.at)
        below[self.at] = False
        gone = [i for i in np.flatnonzero(below).tolist() if document.index_of_uid(tree.uuid(i)) is None]
        rows += [self._of_tree(i, here) for i in gone]
        if len(rows) <= _MOST_SORTED:
            rows.sort(key=lambda row: row.path.split("/"))
        return rows

    @cached_property
    def n_differing(self) -> int:
        return sum(row.differs for row in self.stated)

    def _of_document(self, i: int, inside: TargetChanges, here: TargetChanges, own: float | None) -> ComparedEntry:
        document, tree = self.document.tree, self.tree
        node, j = document.node(i), tree.index_of_uid(document.uuid(i))
        within = _of(inside, i)
        return ComparedEntry(
            uid=node.uid,
            name=node.name,
            kind=node.kind,
            path=document.path(i),
            level=int(document.level[i]),
            in_document=True,
            in_tree=j is not None,
            shares_stated=node.shares,
            shares_here=None if j is None else tree.node(j).shares,
            inside=within,
            asked=None if within is None or own is None else within * own,
            here=None if j is None else _of(here, j),
        )

    def _of_tree(self, i: int, here: TargetChanges) -> ComparedEntry:
        node = self.tree.node(i)
        above = self.tree.path(self.at)
        path = self.tree.path(i)
        return ComparedEntry(
            uid=node.uid,
            name=node.name,
            kind=node.kind,
            path=path if above == "/" else path[len(above) :],
            level=int(self.tree.level[i]) - int(self.tree.level[self.at]) + int(self.document.tree.level[0]),
            in_document=False,
            in_tree=True,
            shares_stated=None,
            shares_here=node.shares,
            inside=None,
            asked=None,
            here=_of(here, i),
        )


def load_differences(mount: Mount) -> Differences | None:
    """Load the differences; None if there is no accepted document, or the entry has left the tree.

    The caller has checked the actor's right to the mount.
    """
    if not mount.document:
        return None
    tree = load_tree(mount.policy)
    at = tree.index_of_uid(mount.entry_uid)
    if at is None:
        return None
    data = zstandard.ZstdDecompressor().decompress(bytes(mount.document))
    opened = open_document(data, trusted=None)  # it was checked before it was stored
    document = read_policy(opened.document, PolicyLimits(entries=1_000_000, levels=64))
    diff, problem = None, ""
    try:
        laid = apply_document(tree, mount.entry_uid, document, owned_elsewhere=lambda uids: ())
        everything = np.ones(len(tree), dtype=np.bool_)
        diff = diff_trees(tree, laid.tree, sees_before=everything, sees_after=np.ones(len(laid.tree), dtype=np.bool_))
    except DomainError as error:
        problem = error.message
    return Differences(mount, document, tree, at, diff, problem)


def _of(moves: TargetChanges, i: int) -> float | None:
    value = float(moves.new_global[i])
    return None if np.isnan(value) else value


@dataclass(frozen=True)
class Provenance:
    """Origin of an entry's settings.

    version 0: no document applied yet. age_s: since the last confirmation, None without one. mount_id None: the entry
    is marked as a mount, but nothing is fetched for it. acts: the action taken because it is stale; "keep" if it isn't.
    """

    entry_uid: UUID
    entry_path: str
    issuer: str
    publication: str
    version: int
    age_s: float | None
    condition: Condition
    mount_id: int | None
    acts: str = Remote.StaleAction.KEEP


def load_provenance(policy: Policy, tree: TreeColumns, *, at: datetime) -> Mapping[UUID, Provenance]:
    """Provenance of each mount of a tree, by the uid of its entry; no query for a tree without mounts."""
    if not tree.mount:
        return {}
    rows = mounts_with_pending_version(Mount.objects.filter(policy=policy))
    mounts = {row.entry_uid: row for row in rows}
    summaries = [_summary(tree, i, mounts.get(tree.uuid(i)), at) for i in tree.mount]
    return {each.entry_uid: each for each in summaries}


def provenance_of_mount(policy: Policy, tree: TreeColumns, i: int, *, at: datetime) -> Provenance | None:
    """Provenance of one entry that is a mount itself."""
    if i not in tree.mount:
        return None
    rows = mounts_with_pending_version(Mount.objects.filter(policy=policy, entry_uid=tree.uuid(i)))
    return _summary(tree, i, rows.first(), at)


def provenance_of(by_mount: Mapping[UUID, Provenance], tree: TreeColumns, i: int) -> Provenance | None:
    """Provenance of an entry that is a mount or is below one; None for local entries."""
    mount = mount_of(tree, i) if by_mount else None
    return None if mount is None else by_mount.get(tree.uuid(mount))


def _summary(tree: TreeColumns, i: int, row: Mount | None, at: datetime) -> Provenance:
    mounted = tree.mount[i]
    return Provenance(
        entry_uid=tree.uuid(i),
        entry_path=tree.path(i),
        issuer=mounted.issuer,
        publication=mounted.publication,
        version=row.applied_version if row else 0,
        age_s=age_of(row, at) if row else None,
        condition=condition_of(row, is_held=is_held(row), at=at) if row else Condition.PAUSED,
        mount_id=row.pk if row else None,
        acts=row.stale_action if row and is_stale(row, at) else Remote.StaleAction.KEEP,
    )
