"""Rows of snapshots: their packed values are written, read and checked for damage."""

from __future__ import annotations

from django.db import InternalError, transaction

from apps.core.blobs import CorruptBlob
from apps.priorities.models import Snapshot
from apps.usage.pgbinary import cursor

_WRITE = "UPDATE priorities_snapshot SET data = %b WHERE id = %s"
_READ = "SELECT data FROM priorities_snapshot WHERE id = %s"


def write_data(snapshot: Snapshot, data: bytes) -> None:
    """Write the bytes of a new row, in the caller's transaction."""
    with cursor() as db_cursor:
        db_cursor.execute(_WRITE, [data, snapshot.pk])
    snapshot.data = data


def read_data(snapshot_id: int) -> bytes | None:
    """The bytes of a snapshot; None if it no longer exists.

    Raises:
        CorruptBlob: the database can't read them, because a page is damaged.
    """
    try:
        with transaction.atomic(), cursor() as db_cursor:
            row = db_cursor.execute(_READ, [snapshot_id], binary=True).fetchone()
    except InternalError as error:
        raise CorruptBlob(str(error)) from error
    return None if row is None else bytes(row[0])
