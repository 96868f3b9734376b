"""Whose entries were: what a document can't claim because this policy had it outside of the mount."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db import connection

from apps.policies.models import Policy
from apps.policies.names import MAX_DEPTH

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
