"""Since when usage changed: of each source a short staircase of (watermark, first hour touched).

What is derived from buckets by the hour (the daily series) asks from which hour on it has to be made again. A note of
an earlier hour makes all notes of later ones superfluous, and there is one a day at most: a few hundred rows a year.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from django.db import connection

HOUR_US = 3_600_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The watermark that the caller's transaction will commit is at least the one it sees now and one more. Whatever note
# of the same day of UTC or a later one there is, this one covers.
_NOTE = """
WITH covered AS (
    DELETE FROM usage_changedhour
    WHERE source_id = %(source)s AND from_hour_at >= date_trunc('day', %(from)s::timestamptz, 'UTC')
    RETURNING from_hour_at)
INSERT INTO usage_changedhour (source_id, watermark, from_hour_at)
SELECT id, watermark + 1, LEAST(%(from)s::timestamptz, (SELECT min(from_hour_at) FROM covered))
FROM usage_source WHERE id = %(source)s
"""
# A note made after its transaction counted up is one ahead: it can't be newer than what its source has come to.
_EARLIEST = """
SELECT min(changed.from_hour_at) FROM usage_changedhour AS changed
JOIN usage_source AS source ON source.id = changed.source_id
LEFT JOIN unnest(%s::text[], %s::int8[]) AS known(slug, watermark) ON known.slug = source.slug
WHERE known.slug IS NULL OR LEAST(changed.watermark, source.watermark) > known.watermark
"""
_IS_GONE = """
SELECT EXISTS (SELECT FROM unnest(%s::text[]) AS known(slug)
    WHERE NOT EXISTS (SELECT FROM usage_source AS source WHERE source.slug = known.slug))
"""


def note_change(source_id: int, from_at: datetime) -> None:
    """Buckets of hours from then on change; in the transaction that changes them, before it counts up the watermark."""
    hour_at = _EPOCH + (from_at - _EPOCH) // timedelta(hours=1) * timedelta(hours=1)
    with connection.cursor() as cursor:
        cursor.execute(_NOTE, {"source": source_id, "from": hour_at})


def note_hour(source_id: int, hour: int) -> None:
    """Mark by the number of the hour since 1970."""
    note_change(source_id, _EPOCH + timedelta(hours=hour))


def note_all(source_ids: Iterable[int]) -> None:
    """Of these sources every hour may count otherwise."""
    for source_id in sorted(source_ids):
        note_change(source_id, _EPOCH)


def earliest_change(watermarks: Mapping[str, int]) -> datetime | None:
    """The first hour whose usage may have changed since these watermarks were read, None where none has.

    A source that they don't name is new: all its hours are. One that they name and that is gone has left all of them.
    """
    slugs = sorted(watermarks)
    with connection.cursor() as cursor:
        cursor.execute(_EARLIEST, [slugs, [watermarks[slug] for slug in slugs]])
        found: datetime | None = cursor.fetchone()[0]
        cursor.execute(_IS_GONE, [slugs])
        is_gone: bool = cursor.fetchone()[0]
    return _EPOCH if is_gone else found
