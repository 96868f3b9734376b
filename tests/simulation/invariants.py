"""What holds after each step, whatever the step was; each function returns what doesn't."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

from django.db.models import Count, Sum

from apps.accounts.audit_log import check_chain
from apps.core.resource_kinds import rates_of
from apps.policies.models import Policy, Revision
from apps.policies.tree.stored import load_tree
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from apps.priorities.serving.leaf_lines import every_leaf
from apps.priorities.snapshot_values import unpack_snapshot
from apps.priorities.snapshots import read_data
from apps.runs.models import Run
from apps.series.models import SeriesDay, SeriesHour
from apps.usage.models import Bucket, KindHour, Record, SealedHour, SealedKind, Source
from apps.usage.records.imports import KIND as IMPORT
from tests.oracles.hourly_usage import Job

_ROUNDED_S = 1e-6
_QUANTUM = 2.0**-10  # of an hour by kind, which the rate of energy may round in another way
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def usage_differences() -> list[str]:
    """Each record counts once: the hours of a source are those of its ended records, and of the removed ones."""
    made: dict[tuple[int, int], float] = defaultdict(float)
    ended = Record.objects.filter(state="finished").values_list("source_id", "start_at", "end_at", "cpus")
    for source_id, *job in ended:
        for hour_s, core_s in _by_hour(*job):
            made[source_id, hour_s] += core_s
    removed = SealedHour.objects.exclude(source__kind=Source.Kind.PEER)
    for source_id, hour_at, core_s in removed.values_list("source_id", "hour_at", "cpu_s"):
        made[source_id, int(hour_at.timestamp())] += core_s
    own = Source.all_objects.exclude(kind=Source.Kind.PEER).values_list("pk", flat=True)
    hours = Bucket.objects.filter(source_id__in=list(own)).values_list("source_id", "hour_at").annotate(Sum("cpu_s"))
    buckets: dict[tuple[int, int], float] = {(source, int(hour.timestamp())): total for source, hour, total in hours}
    unlike = [
        key for key in sorted(buckets.keys() | made.keys())
        if abs(buckets.get(key, 0.0) - made.get(key, 0.0)) > _ROUNDED_S
    ]  # fmt: skip
    return [f"{len(unlike)} hours differ from their records, the first is {_described(unlike[0])}"] if unlike else []


def kind_differences() -> list[str]:
    """The hours by kind of a source are those of its ended records, and of the removed ones."""
    made: dict[tuple[int, int, str], float] = defaultdict(float)
    ended = Record.objects.filter(state="finished", kinds__isnull=False)
    for source_id, start_at, end_at, kinds in ended.values_list("source_id", "start_at", "end_at", "kinds"):
        assert kinds is not None
        assert start_at is not None
        assert end_at is not None
        for kind, rate in rates_of(tuple(kinds.items()), (end_at - start_at).total_seconds()):
            for hour_s, kind_s in _by_hour(start_at, end_at, rate):
                made[source_id, hour_s, kind] += kind_s
    removed = SealedKind.objects.values_list("source_id", "hour_at", "kind__name", "amount")
    for source_id, hour_at, kind, amount in removed:
        made[source_id, int(hour_at.timestamp()), kind] += amount
    own = list(Source.all_objects.exclude(kind=Source.Kind.PEER).values_list("pk", flat=True))
    rows = KindHour.objects.filter(source_id__in=own).values_list("source_id", "hour_at", "kind__name")
    stored = {(source, int(at.timestamp()), kind): total for source, at, kind, total in rows.annotate(Sum("amount"))}
    unlike = [
        key for key in sorted(stored.keys() | made.keys()) if abs(stored.get(key, 0.0) - made.get(key, 0.0)) > _QUANTUM
    ]
    first = f"{_described(unlike[0][:2])}, {unlike[0][2]}" if unlike else ""
    return [f"{len(unlike)} hours by kind differ from their records, the first is {first}"] if unlike else []


@lru_cache(maxsize=20_000)
def _by_hour(start_at: datetime, end_at: datetime, cpus: float) -> Sequence[tuple[int, float]]:
    """(hour, core-seconds) of a job that has ended; few of them are new at each step."""
    job = Job(_seconds(start_at), _seconds(end_at), cpus)
    return [(hour_s, float(core_s)) for hour_s, core_s in job.by_hour()]


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


def import_differences() -> list[str]:
    """Each line of a log that was imported is counted once, however often its worker ended."""
    differences = []
    done = Run.objects.filter(kind=IMPORT, state=Run.State.SUCCEEDED).values_list("pk", "counts")
    for run_id, counts in done:
        n_counted = sum(counts[name] for name in ("new", "duplicate", "corrected", "too_late", "rejected"))
        if n_counted != counts["lines"] - 1:  # without the header
            differences.append(f"run {run_id} counted {n_counted} lines: {counts}")
    return differences


class Revisions:
    """What was published, as it was first seen."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], tuple[Any, ...]] = {}

    def forget(self) -> None:
        """An older database came back."""
        self._seen.clear()

    def differences(self) -> list[str]:
        """None is changed or missing."""
        rows = Revision.objects.values_list("policy__slug", "number", "tree_digest", "reason", "published_at")
        now = {(slug, number): (*rest,) for slug, number, *rest in rows}
        unlike = [f"revision {number} of {slug}" for slug, number in self._seen if self._is_unlike(slug, number, now)]
        self._seen |= now
        return [f"{each} was changed since it was published" for each in unlike]

    def _is_unlike(self, slug: str, number: int, now: dict[tuple[str, int], tuple[Any, ...]]) -> bool:
        return self._seen[slug, number] != now.get((slug, number))


def audit_differences(at: datetime) -> list[str]:
    check = check_chain(at=at)
    return [f"the audit chain is broken: {check.problem}"] if check.broken_id else []


def served_differences() -> list[str]:
    """What is answered is of one snapshot, the newest that is stored: its revision, and its rank of each leaf."""
    store.poll()
    newest = Snapshot.objects.filter(is_live=True, policy__archived_at=None).order_by("policy", "-id")
    differences = []
    for row in newest.distinct("policy").select_related("policy"):
        slug, served = row.policy.slug, store.newest(row.policy.slug, poll=False)
        if (served.snapshot_id, served.revision) != (row.pk, row.revision_number):
            differences.append(f"{slug}: snapshot {served.snapshot_id} is served, and {row.pk} is the newest")
            continue
        tree = load_tree(row.policy, row.revision_number)
        values, _meta = unpack_snapshot(read_data(row.pk) or b"", row.digest, tree)
        ranks = {
            tree.path(place): int(values.rank[place]) if values.has_rank[place] else None
            for place in values.is_ranked.nonzero()[0].tolist()
        }
        answered = {leaf["entry"]: leaf["rank"] for leaf in every_leaf(served) if leaf["entry"] in ranks}
        if answered != ranks:
            differences.append(f"{slug}: ranks are answered that snapshot {row.pk} doesn't have")
    return differences


def lost_days(policy: Policy) -> list[str]:
    """Days and hours of a series follow each other, without one missing."""
    gaps = []
    for table, column, step in ((SeriesDay, "on", timedelta(days=1)), (SeriesHour, "begins_at", timedelta(hours=1))):
        begins = list(table._default_manager.filter(policy=policy).order_by(column).values_list(column, flat=True))
        gaps += [f"{policy.slug}: none from {one} to {other}" for one, other in pairwise(begins) if other - one != step]
    return gaps


def snapshots_ahead(at: datetime) -> list[str]:
    """None is left of a clock that was ahead once a later one was computed by the right clock."""
    ahead = Snapshot.objects.filter(is_live=True, as_of__gt=at).values_list("policy__slug", "as_of")
    return [
        f"{slug}: a snapshot as of {as_of:%d %b %Y %H:%M} is left, and it is {at:%d %b %Y %H:%M}"
        for slug, as_of in ahead
    ]
