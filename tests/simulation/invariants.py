"""What holds after each step, whatever the step was; each function returns what doesn't."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from django.db.models import Count, Sum

from apps.accounts.audit_log import check_chain
from apps.priorities.models import Snapshot
from apps.usage.models import Bucket, Record, Source
from tests.oracles.hourly_usage import Job

_ROUNDED_S = 1e-6
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def usage_differences() -> list[str]:
    """Each record counts once: the hours of a source are those of its ended records."""
    records: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    ended = Record.objects.filter(state="finished").values_list("source_id", "start_at", "end_at", "cpus")
    for source_id, start_at, end_at, cpus in ended:
        assert start_at is not None
        assert end_at is not None
        job = Job(_seconds(start_at), _seconds(end_at), cpus)
        for hour_s, core_s in job.by_hour():
            records[source_id][hour_s] += float(core_s)
    own = Source.all_objects.exclude(kind=Source.Kind.PEER).values_list("pk", flat=True)
    hours = Bucket.objects.filter(source_id__in=list(own)).values_list("source_id", "hour_at").annotate(Sum("cpu_s"))
    buckets: dict[tuple[int, int], float] = {(source, int(hour.timestamp())): total for source, hour, total in hours}
    made = {(source, hour): total for source, by_hour in records.items() for hour, total in by_hour.items()}
    unlike = [
        key for key in sorted(buckets.keys() | made.keys())
        if abs(buckets.get(key, 0.0) - made.get(key, 0.0)) > _ROUNDED_S
    ]  # fmt: skip
    return [f"{len(unlike)} hours differ from their records, the first is {_described(unlike[0])}"] if unlike else []


def _seconds(at: datetime) -> Fraction:
    return Fraction((at - _EPOCH) // timedelta(microseconds=1), 1_000_000)


def _described(key: tuple[int, int]) -> str:
    return f"source {key[0]}, {datetime.fromtimestamp(key[1], UTC):%d %b %H:%M}"


def count_differences() -> list[str]:
    counts = dict(Record.objects.values_list("source_id").annotate(Count("pk")))
    rows = Source.all_objects.exclude(kind=Source.Kind.PEER).values_list("pk", "slug", "n_records")
    return [
        f"{slug}: {n} records by its row, {counts.get(pk, 0)} stored" for pk, slug, n in rows if n != counts.get(pk, 0)
    ]


def audit_differences(at: datetime) -> list[str]:
    check = check_chain(at=at)
    return [f"the audit chain is broken: {check.problem}"] if check.broken_id else []


def snapshots_ahead(at: datetime) -> list[str]:
    """None is left of a clock that was ahead once a later one was computed by the right clock."""
    ahead = Snapshot.objects.filter(is_live=True, as_of__gt=at).values_list("policy__slug", "as_of")
    return [
        f"{slug}: a snapshot as of {as_of:%d %b %Y %H:%M} is left, and it is {at:%d %b %Y %H:%M}"
        for slug, as_of in ahead
    ]
