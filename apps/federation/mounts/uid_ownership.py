"""Which uids of a document belong to entries that are, or were, outside the mount.

A document can't claim those, so that another authority can't take over entries that others decide about.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from django.db import connection

from apps.policies.models import Policy
from apps.policies.tree.difference import mount_of
from apps.policies.tree.names import MAX_DEPTH
from apps.policies.tree.stored import load_tree
from apps.policies.tree.terms import MountedPublication

# Passed as one array: a driver takes quadratic time for a hundred thousand single parameters.
_LAST_PLACES = """
SELECT DISTINCT ON (uid) uid, parent_uid FROM policies_entry
WHERE policy_id = %s AND uid = ANY(%s::uuid[]) ORDER BY uid, since DESC
"""
Key = TypeVar("Key")
Value = TypeVar("Value")
Place = tuple[UUID | None, int]  # an entry, and a revision that had it

# For each time that an entry was added, in whatever revision, its last location.
_CAME_AND_WENT = """
SELECT uid, parent_uid, CASE WHEN came THEN since END, CASE WHEN went THEN until - 1 END FROM (
    SELECT uid, parent_uid, since, until,
        lag(until) OVER versions IS DISTINCT FROM since AS came, lead(since) OVER versions IS NULL AS went
    FROM policies_entry WHERE policy_id = %s AND uid = ANY(%s::uuid[])
    WINDOW versions AS (PARTITION BY uid ORDER BY since)
) AS version WHERE came OR went
"""

_ABOVE = """
SELECT asked.uid, asked.number, was.parent_uid, was.mount IS NOT NULL,
    CASE WHEN was.mount IS NOT NULL THEN (SELECT mount IS NOT NULL AND (until IS NULL OR until >= asked.number)
        FROM policies_entry WHERE policy_id = %(policy)s AND uid = asked.uid AND since < asked.number
        ORDER BY since DESC LIMIT 1) END,
    CASE WHEN was.mount IS NOT NULL THEN EXISTS (SELECT FROM policies_entry AS today
        WHERE today.policy_id = %(policy)s AND today.uid = asked.uid AND today.until IS NULL
            AND today.mount = was.mount) END
FROM unnest(%(uids)s::uuid[], %(numbers)s::int4[]) AS asked(uid, number)
JOIN LATERAL (SELECT parent_uid, mount FROM policies_entry
    WHERE policy_id = %(policy)s AND uid = asked.uid AND since <= asked.number ORDER BY since DESC LIMIT 1
) AS was ON true
"""
_THERE = "SELECT uid FROM policies_entry WHERE policy_id = %s AND until IS NULL AND uid = ANY(%s::uuid[])"


def owned_elsewhere(policy: Policy, mount_uid: UUID, uids: Collection[UUID]) -> set[UUID]:
    """Uids, none of them in the current tree, that belonged to this policy outside the mount.

    Each is judged by its last location and that of its ancestors. Uids that only came through mounts that have ended
    belong to no one; another document may claim them.
    """
    owned = _last_elsewhere(policy, mount_uid, uids)
    return owned - _only_from_ended_mounts(policy, mount_uid, owned) if owned else owned


def _last_elsewhere(policy: Policy, mount_uid: UUID, uids: Collection[UUID]) -> set[UUID]:
    is_elsewhere: dict[UUID, bool | None] = {mount_uid: False}
    above: dict[UUID, UUID] = {}
    asked = set(uids)
    with connection.cursor() as cursor:
        for _ in range(MAX_DEPTH + 2):
            cursor.execute(_LAST_PLACES, [policy.pk, list(asked)])
            places = cursor.fetchall()
            is_elsewhere.update((uid, True) for uid, parent in places if parent is None)
            above.update((uid, parent) for uid, parent in places if parent is not None)
            asked = {parent for _, parent in places} - above.keys() - is_elsewhere.keys() - {None}
            if not asked:
                break
    _inherit_from_above(is_elsewhere, above)
    return {uid for uid in uids if is_elsewhere.get(uid, False) is not False}  # None: above all depths


def _inherit_from_above(values: dict[Key, Value | None], above: Mapping[Key, Key]) -> None:
    """Pass each value found for an entry to all entries below it that have none; iterative, for any depth."""
    for start in above:
        way, place = [], start
        while place not in values and place in above:
            way.append(place)
            place = above[place]
        values.update(dict.fromkeys(way, values.get(place)))


def _only_from_ended_mounts(policy: Policy, mount_uid: UUID, uids: Collection[UUID]) -> set[UUID]:
    """Uids that came below a mount each time, unless another mount has them that is still unchanged."""
    with connection.cursor() as cursor:
        cursor.execute(_CAME_AND_WENT, [policy.pk, list(uids)])
        rows = cursor.fetchall()
    mount_over = _mounts_above(policy, {(above, number) for _, above, *numbers in rows for number in numbers if number})
    kept = set()
    for uid, above, came, went in rows:
        at_first, at_last = (mount_over.get((above, number)) if number else None for number in (came, went))
        if came and (at_first is None or not at_first.existed):
            kept.add(uid)  # made at this site
        if any(over is not None and over.is_there and over.uid != mount_uid for over in (at_first, at_last)):
            kept.add(uid)
    return set(uids) - kept


@dataclass(frozen=True)
class _MountAbove:
    """A mount above an entry. existed: it existed in the revision before, too, so its document alone added the entry.

    is_there: the same document is mounted there today.
    """

    uid: UUID
    existed: bool
    is_there: bool


def _mounts_above(policy: Policy, places: Collection[Place]) -> dict[Place, _MountAbove | None]:
    """For each location the mount that it was or was below.

    Each entry is read once a revision, whatever is below it.
    """
    mount_above: dict[Place, _MountAbove | None] = {}
    above: dict[Place, Place] = {}
    asked = {place for place in places if place[0] is not None}
    for _ in range(MAX_DEPTH + 2):
        if not asked:
            break
        uids, numbers = zip(*asked, strict=True)
        with connection.cursor() as cursor:
            cursor.execute(_ABOVE, {"policy": policy.pk, "uids": list(uids), "numbers": list(numbers)})
            rows = cursor.fetchall()
        for uid, number, parent, is_mount, existed, is_there in rows:
            if is_mount or parent is None:
                mount_above[uid, number] = _MountAbove(uid, bool(existed), is_there) if is_mount else None
            else:
                above[uid, number] = (parent, number)
        asked = {(parent, number) for _, number, parent, is_mount, *_ in rows if parent is not None and not is_mount}
        asked -= above.keys() | mount_above.keys()
    _inherit_from_above(mount_above, above)
    return mount_above


def owned_by_another_policy(policy: Policy, mounted: MountedPublication | None, uids: Collection[UUID]) -> set[UUID]:
    """Uids that belong to other policies of this site, other than through the same document.

    A uid is one entry at a site, and usage reported for it counts in every policy.
    """
    owned: set[UUID] = set()
    if not uids:
        return owned
    for other in Policy.all_objects.exclude(pk=policy.pk).order_by("slug"):
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
                owned.add(uid)
    return owned
