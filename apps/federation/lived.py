"""Whose entries are or were: what a document can't claim because it lies, or lay, outside of the mount."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db import connection

from apps.policies.models import Policy
from apps.policies.mounts import mount_of
from apps.policies.names import MAX_DEPTH
from apps.policies.terms import Mounted
from apps.policies.trees import load_tree

# As one array: a driver reads a hundred thousand single parameters in the time of their square.
_LAST_PLACES = """
SELECT DISTINCT ON (uid) uid, parent_uid FROM policies_entry
WHERE policy_id = %s AND uid = ANY(%s::uuid[]) ORDER BY uid, since DESC
"""


def lived_elsewhere(policy: Policy, mount_uid: UUID, uids: Collection[UUID]) -> set[UUID]:
    """Which of these, none of which is in the tree, this policy had elsewhere than below the mount: by where each was
    when it was last there, and where those above it were.
    """
    found: set[UUID] = set()
    at_of: dict[UUID, set[UUID]] = {uid: {uid} for uid in uids}  # an entry above → the uids that it stands for
    with connection.cursor() as cursor:
        for _ in range(MAX_DEPTH + 2):
            cursor.execute(_LAST_PLACES, [policy.pk, list(at_of)])
            above: dict[UUID, set[UUID]] = {}
            for uid, parent in cursor.fetchall():
                if parent is None:
                    found |= at_of[uid]
                elif parent != mount_uid:
                    above.setdefault(parent, set()).update(at_of[uid])
            if not above:
                break
            at_of = above
    return found


_THERE = "SELECT uid FROM policies_entry WHERE policy_id = %s AND until IS NULL AND uid = ANY(%s::uuid[])"


def lives_in_another_policy(policy: Policy, mounted: Mounted | None, uids: Collection[UUID]) -> set[UUID]:
    """Which of these are entries of other policies of this site, but for what comes there from the same
    document: a uid is one entry at a site, and what is told of it counts in every policy.
    """
    found: set[UUID] = set()
    if not uids:
        return found
    for other in Policy.objects.exclude(pk=policy.pk).order_by("slug"):
        with connection.cursor() as cursor:
            cursor.execute(_THERE, [other.pk, list(uids)])
            there = [uid for (uid,) in cursor.fetchall()]
        if not there:
            continue
        tree = load_tree(other)
        for uid in there:
            i = tree.index_of_uid(uid)
            at = None if i is None else mount_of(tree, i)
            if i is not None and (at is None or at == i or tree.mount[at] != mounted):
                found.add(uid)
    return found
