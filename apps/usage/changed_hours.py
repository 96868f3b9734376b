"""Record from which hour on the buckets of a source changed, by watermark, and find the earliest change.

Data derived from buckets by hour (the daily series) uses it to find out from which hour on it must be recomputed. A
note of an earlier hour supersedes all notes of later hours, and there is at most one a day: a few hundred rows a year.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from django.db import connection
from django.db.models.expressions import RawSQL

from apps.accounts.models import AuditEvent
from apps.core.postgresql import SERVER_EPOCH
from apps.usage.models import Source

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The caller's transaction commits a watermark of at least the current one plus one. The new note supersedes all notes
# of the same UTC day or later.
_REMOVED = ("source.removed", "source.forgotten")  # verbs of the audit log; their details have the last watermark
_NOTE = """
WITH covered AS (
    DELETE FROM usage_changedhour
    WHERE source_id = %(source)s AND from_hour_at >= date_trunc('day', %(from)s::timestamptz, 'UTC')
    RETURNING from_hour_at)
INSERT INTO usage_changedhour (source_id, watermark, from_hour_at)
SELECT id, watermark + 1, LEAST(%(from)s::timestamptz, (SELECT min(from_hour_at) FROM covered))
FROM usage_source WHERE id = %(source)s
"""
# A note written after its transaction raised the watermark is one too high: bound it by the watermark of its source.
_EARLIEST = """
SELECT min(changed.from_hour_at) FROM usage_changedhour AS changed
JOIN usage_source AS source ON source.id = changed.source_id
LEFT JOIN unnest(%s::text[], %s::int8[]) AS known(slug, watermark) ON known.slug = source.slug
WHERE source.archived_at IS NULL
    AND (known.slug IS NULL OR LEAST(changed.watermark, source.watermark) > known.watermark)
"""
_IS_GONE = """
SELECT EXISTS (SELECT FROM unnest(%s::text[]) AS known(slug)
    WHERE NOT EXISTS (
        SELECT FROM usage_source AS source WHERE source.slug = known.slug AND source.archived_at IS NULL))
"""


def first_watermark(slug: str) -> int:
    """Of a source made now: above that of a removed one with the same slug, by the audit log; 0 if there was none.

    What is stored of sources names them by slug and watermark.
    """
    removed = (
        AuditEvent.objects.filter(verb__in=_REMOVED, subject=slug).order_by("-id").values_list("details", flat=True)
    )
    details = removed.first()
    return 0 if details is None else int(details.get("watermark", 0)) + 1


def note_change(source_id: int, from_at: datetime) -> None:
    """Record that buckets from the hour of `from_at` on change.

    Call it in the transaction that changes them, before the watermark is raised.
    """
    hour_at = _EPOCH + (from_at - _EPOCH) // timedelta(hours=1) * timedelta(hours=1)
    with connection.cursor() as cursor:
        cursor.execute(_NOTE, {"source": source_id, "from": hour_at})


def note_hour(source_id: int, hour: int) -> None:
    """Record that buckets from this hour on change; `hour` counts from 1970."""
    note_change(source_id, _EPOCH + timedelta(hours=hour))


def note_all_changed(source_ids: Iterable[int]) -> None:
    """Record that every hour of these sources may have changed."""
    for source_id in sorted(source_ids):
        note_change(source_id, _EPOCH)


class ReadMarks:
    """The watermarks at which buckets were read, for a cache of them."""

    def __init__(self) -> None:
        self._marks: dict[str, tuple[int, int]] | None = None  # by source slug: primary key and watermark
        self._epoch = ""

    def first_changed_hour(self) -> int | None:
        """The first hour since 1970 whose buckets may have changed since the last call; None if none has.

        Call it in the transaction that reads the buckets. The first call, and one after a failure, returns 0.
        """
        before, self._marks = self._marks, None  # until the check below has succeeded
        with_epoch = Source.objects.annotate(epoch=RawSQL(SERVER_EPOCH, ()))  # noqa: S611 - a constant
        rows = list(with_epoch.values_list("slug", "pk", "watermark", "epoch"))
        marks = {slug: (pk, mark) for slug, pk, mark, _epoch in rows}
        before_epoch, self._epoch = self._epoch, rows[0][3] if rows else ""
        changed: int | None = None
        if before is None or before_epoch != self._epoch or not _is_continued(before, marks):
            changed = 0
        elif marks != before:
            changed_at = earliest_change({slug: mark for slug, (_pk, mark) in before.items()})
            changed = None if changed_at is None else (changed_at - _EPOCH) // timedelta(hours=1)
        self._marks = marks
        return changed


def _is_continued(before: Mapping[str, tuple[int, int]], marks: Mapping[str, tuple[int, int]]) -> bool:
    """Whether every source that still exists is the same row, with a watermark that hasn't gone back."""
    return all(
        slug not in marks or (marks[slug][0] == pk and marks[slug][1] >= mark) for slug, (pk, mark) in before.items()
    )


def earliest_change(watermarks: Mapping[str, int]) -> datetime | None:
    """The first hour whose usage may have changed since these watermarks (by slug) were read, None if none has.

    For a source missing in `watermarks`, that is its first hour; for one that was archived or deleted since, 1970.
    """
    slugs = sorted(watermarks)
    with connection.cursor() as cursor:
        cursor.execute(_EARLIEST, [slugs, [watermarks[slug] for slug in slugs]])
        first_at: datetime | None = cursor.fetchone()[0]
        cursor.execute(_IS_GONE, [slugs])
        is_gone: bool = cursor.fetchone()[0]
    return _EPOCH if is_gone else first_at
