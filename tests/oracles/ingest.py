"""A slow, readable twin of the ingest: the newest version of each record, then its seconds hour by hour."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from apps.usage.parsers.base import STATES, RecordRow

HOUR = timedelta(hours=1)
LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)
NAMES = ("user", "group", "dn", "fqan", "project")
CLASSES = ("queue", "partition", "qos")
NEVER = datetime(9999, 1, 1, tzinfo=UTC)

Key = tuple[str, str, str, datetime | None, int]
Bucket = tuple[str, str, str, str, datetime]


def version_of(row: RecordRow) -> tuple[int, datetime, int]:
    end_at = {"finished": row.end_at, "withdrawn": NEVER}.get(row.state, LONG_AGO)
    assert end_at is not None
    return row.revision, end_at, STATES.index(row.state)


def key_of(row: RecordRow) -> Key:
    return row.cluster, row.job, row.array_task, row.submit_at or row.start_at, row.restart


def says_otherwise(row: RecordRow, known: RecordRow) -> bool:
    """Whether a report of an open job says otherwise than one of the same version about what counts."""
    if row.state not in ("pending", "running") or row.start_at != known.start_at:
        return False
    numbers = [(row.requested_s, known.requested_s), (row.cpus, known.cpus), (row.gpus, known.gpus)]
    names = [[getattr(each, name) for name in NAMES] for each in (row, known)]
    classes = [[getattr(each, name) for name in CLASSES] for each in (row, known)]
    return any(new and new != old for new, old in numbers) or any(
        new != old and all(one or not other for one, other in zip(new, old, strict=True))
        for new, old in (names, classes)
    )


def newest(rows: Iterable[RecordRow]) -> tuple[dict[Key, RecordRow], dict[str, int]]:
    """What stays of records that come one after the other, and how each was counted."""
    kept: dict[Key, RecordRow] = {}
    counts = dict.fromkeys(("new", "duplicate", "corrected", "late"), 0)
    for row in rows:
        known = kept.get(key_of(row))
        if known is None:
            counts["new"] += 1
        elif version_of(row) == version_of(known) and not says_otherwise(row, known):
            counts["duplicate"] += 1
            continue
        elif version_of(row) < version_of(known):
            counts["late"] += 1
            continue
        else:
            counts["corrected"] += 1
        kept[key_of(row)] = row
    return kept, counts


def buckets_of(rows: Iterable[RecordRow]) -> dict[Bucket, tuple[float, float]]:
    """(cpu_s, jobs) of each (user, group, site, queue, hour)."""
    sums: dict[Bucket, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in rows:
        if row.state != "finished":
            continue
        assert row.start_at is not None
        assert row.end_at is not None
        hour = row.start_at.replace(minute=0, second=0, microsecond=0)
        while hour <= row.end_at:
            seconds = (min(row.end_at, hour + HOUR) - max(row.start_at, hour)).total_seconds()
            bucket = sums[(row.user, row.group, row.site, row.queue, hour)]
            bucket[0] += seconds * row.cpus
            bucket[1] += hour <= row.end_at < hour + HOUR
            hour += HOUR
    return {key: (cpu_s, jobs) for key, (cpu_s, jobs) in sums.items() if cpu_s or jobs}
