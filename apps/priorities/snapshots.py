"""Rows of snapshots, and of the places of accounts that many of them share: written, read and checked for damage."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import InternalError, transaction
from django.db.models import Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from apps.core.blobs import CorruptBlob
from apps.mapping.rules.account_places import AccountPlaces, unpack_places
from apps.policies.models import Policy
from apps.priorities.models import Snapshot
from apps.usage.pgbinary import cursor

_LAST = datetime(9999, 12, 31, tzinfo=UTC)
_WRITE = "UPDATE priorities_snapshot SET data = %b WHERE id = %s"
_READ = "SELECT data FROM priorities_snapshot WHERE id = %s"
_READ_PLACES = "SELECT data FROM priorities_storedplaces WHERE digest = %s"
_IS_SOUND = """
SELECT encode(sha256(snapshot.data), 'hex') = snapshot.digest AND encode(sha256(places.data), 'hex') = places.digest
FROM priorities_snapshot AS snapshot JOIN priorities_storedplaces AS places ON places.digest = snapshot.places_id
WHERE snapshot.id = %s
"""
_WRITE_PLACES = """
INSERT INTO priorities_storedplaces AS known (digest, data, used_at) VALUES (%(digest)s, %(data)b, %(at)s)
ON CONFLICT (digest) DO UPDATE SET data = excluded.data, used_at = GREATEST(known.used_at, excluded.used_at)
"""
# To the hour, because a new version of the row is written. All snapshots depend on the row, so that it is verified.
_USE_PLACES = """
WITH locked AS (
    SELECT digest, used_at, encode(sha256(data), 'hex') = digest AS is_sound
    FROM priorities_storedplaces WHERE digest = %(digest)s FOR NO KEY UPDATE),
used AS (UPDATE priorities_storedplaces SET used_at = %(at)s WHERE digest IN (
    SELECT digest FROM locked WHERE used_at < %(at)s - interval '1 hour'))
SELECT digest FROM locked WHERE is_sound
"""


def without_ahead(policy: Policy) -> QuerySet[Snapshot]:
    """Snapshots of a policy without those that were made before the newest live one, and are of a later instant: a
    clock that was ahead made them. All of them where none is live.
    """
    newest = Snapshot.objects.filter(policy=policy, is_live=True).order_by("-id")
    as_of, pk = (Subquery(newest.values(field)[:1]) for field in ("as_of", "pk"))
    is_in_order = Q(as_of__lte=Coalesce(as_of, Value(_LAST))) | Q(pk__gt=Coalesce(pk, Value(0)))
    return Snapshot.objects.filter(is_in_order, policy=policy)


def write_data(snapshot: Snapshot, data: bytes) -> None:
    """Write the bytes of a new row, in the caller's transaction."""
    with cursor() as db_cursor:
        db_cursor.execute(_WRITE, [data, snapshot.pk])
    snapshot.data = data


def write_places(places: AccountPlaces, *, at: datetime) -> str:
    """Store the places of accounts unless they are, undamaged; return their digest.

    The row is locked until the caller's transaction ends, so that it isn't deleted before a snapshot refers to it.
    """
    with cursor() as db_cursor:
        is_sound = db_cursor.execute(_USE_PLACES, {"digest": places.digest, "at": at}).rowcount
        if not is_sound:
            db_cursor.execute(_WRITE_PLACES, {"digest": places.digest, "data": places.packed[0], "at": at})
    return places.digest


def read_data(snapshot_id: int) -> bytes | None:
    """The bytes of a snapshot; None if it no longer exists.

    Raises:
        CorruptBlob: the database can't read them, because a page is damaged.
    """
    return _read(_READ, snapshot_id)


def is_sound(snapshot: Snapshot) -> bool:
    """Whether its stored bytes, and those of its places, are as they were written."""
    try:
        with transaction.atomic(), cursor() as db_cursor:
            row = db_cursor.execute(_IS_SOUND, [snapshot.pk]).fetchone()
    except InternalError:  # a page is damaged
        return False
    return row is not None and bool(row[0])


def read_places(digest: str) -> AccountPlaces:
    """Stored places of accounts.

    Raises:
        CorruptBlob: they are damaged, or no longer stored.
    """
    data = _read(_READ_PLACES, digest)
    if data is None:
        raise CorruptBlob("Its places of accounts are no longer stored.")
    return unpack_places(data, digest)


def _read(query: str, key: int | str) -> bytes | None:
    try:
        with transaction.atomic(), cursor() as db_cursor:
            row = db_cursor.execute(query, [key], binary=True).fetchone()
    except InternalError as error:
        raise CorruptBlob(str(error)) from error
    return None if row is None else bytes(row[0])
