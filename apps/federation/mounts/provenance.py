"""Provenance of an entry's settings for its viewers: which authority, which version, how old."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.federation.models import Mount, Remote
from apps.federation.staleness import Condition, age_of, condition_of, is_held, is_stale, mounts_with_held
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.mounts import mount_of


@dataclass(frozen=True)
class Provenance:
    """version 0: no document has landed yet. age_s: since it was last confirmed, None where it never was.

    mount_id None: the entry is marked as a mount, and nothing is fetched for it. acts: what is done about it now that
    it is too old; "keep" as long as it isn't.
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
    """Of each mount of a tree, by the uid of its entry; without mounts nothing is asked of the database."""
    if not tree.mount:
        return {}
    rows = mounts_with_held(Mount.objects.filter(policy=policy))
    mounts = {row.entry_uid: row for row in rows}
    found = [_described(tree, i, mounts.get(tree.uuid(i)), at) for i in tree.mount]
    return {each.entry_uid: each for each in found}


def mounted_at(policy: Policy, tree: TreeColumns, i: int, *, at: datetime) -> Provenance | None:
    """Of one entry that is a mount itself."""
    if i not in tree.mount:
        return None
    rows = mounts_with_held(Mount.objects.filter(policy=policy, entry_uid=tree.uuid(i)))
    return _described(tree, i, rows.first(), at)


def provenance_of(found: Mapping[UUID, Provenance], tree: TreeColumns, i: int) -> Provenance | None:
    """Of one entry: what it is mounted from itself, or the mount that it lies below; None for our own."""
    mount = mount_of(tree, i) if found else None
    return None if mount is None else found.get(tree.uuid(mount))


def _described(tree: TreeColumns, i: int, row: Mount | None, at: datetime) -> Provenance:
    told = tree.mount[i]
    return Provenance(
        entry_uid=tree.uuid(i),
        entry_path=tree.path(i),
        issuer=told.issuer,
        publication=told.publication,
        version=row.landed_version if row else 0,
        age_s=age_of(row, at) if row else None,
        condition=condition_of(row, is_held=is_held(row), at=at) if row else Condition.PAUSED,
        mount_id=row.pk if row else None,
        acts=row.stale_action if row and is_stale(row, at) else Remote.StaleAction.KEEP,
    )
