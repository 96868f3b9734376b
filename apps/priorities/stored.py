"""Blobs of snapshots to and from their rows as they are: as literals of SQL they would be twice as long, both ways."""

from __future__ import annotations

from apps.priorities.models import Snapshot
from apps.usage.pgbinary import cursor

_WRITE = "UPDATE priorities_snapshot SET data = %b WHERE id = %s"
_READ = "SELECT data FROM priorities_snapshot WHERE id = %s"


def write_data(snapshot: Snapshot, data: bytes) -> None:
    """In the caller's transaction, in which the row was made."""
    with cursor() as found:
        found.execute(_WRITE, [data, snapshot.pk])
    snapshot.data = data


def read_data(snapshot_id: int) -> bytes | None:
    """None where there is no such snapshot any more."""
    with cursor() as found:
        row = found.execute(_READ, [snapshot_id], binary=True).fetchone()
    return None if row is None else bytes(row[0])
