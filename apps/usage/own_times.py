"""Finished jobs with their own times, for decay that is finer than the hours of buckets.

Buckets say in which hour usage was; records say when. Records are used from an instant of each source on. Before it its
buckets are used: where records were removed, or hours are held, where usage is too old for the difference to matter,
and beyond the newest 300,000 jobs. Peers report no records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from django.db import connection

from apps.usage.arrays import KINDS, PART_BEFORE, epochs_or_nan, kind_columns
from apps.usage.columns import RATE_ARRAYS
from apps.usage.models import Overlap, Source
from apps.usage.parsers.base import F8, FINISHED, I8, Flags
from apps.usage.pgbinary import fetch_columns

MOST_TIMED_RECORDS = 300_000
_HOUR = timedelta(hours=1)
_FROM = """
SELECT max(hour_at) FROM (
    SELECT hour_at, sum(sum(jobs)) OVER (ORDER BY hour_at DESC) AS n_jobs FROM usage_bucket
    WHERE source_id = ANY(%s::int8[]) AND hour_at >= %s::timestamptz GROUP BY hour_at) AS newest_first
WHERE n_jobs > %s
"""
_LOAD = f"""
SELECT array_agg(account_id), array_agg(source_id), array_agg(job_class_id), array_agg(start_at), array_agg(end_at),
    array_agg(own.from_at), {RATE_ARRAYS},
    array_agg(COALESCE(named.code, 0)), array_agg(COALESCE(part_before.began_at, '-infinity')),
    {KINDS}
FROM unnest(%s::int8[], %s::timestamptz[]) AS own(id, from_at)
JOIN usage_record ON source_id = own.id {PART_BEFORE}
LEFT JOIN unnest(%s::text[]) WITH ORDINALITY AS named(name, code) ON named.name = site
WHERE state = {FINISHED} AND end_at > own.from_at AND start_at < %s::timestamptz
"""  # noqa: S608 - constants only


@dataclass(frozen=True, eq=False, slots=True)
class EndedRecords:
    """Finished jobs as columns, with rates per second. Instants are seconds since 1970; site_code, sites: see
    UsageArrays. from_epoch: only what a job used after it counts here. since: that instant by source.
    part_before_epoch: as of OpenRecords.
    """

    since: Mapping[int, float]
    account_id: I8
    source_id: I8
    job_class_id: I8
    start_epoch: F8
    end_epoch: F8
    from_epoch: F8
    cpus: F8
    gpus: F8
    mem_gb: F8
    nodes: F8
    billing: F8
    site_code: I8
    part_before_epoch: F8
    sites: tuple[str, ...] = ()
    kinds: Mapping[str, F8] = field(default_factory=dict)  # rates by name; one that isn't there is 0

    def selected(self, chosen: Flags | I8) -> EndedRecords:
        """The chosen jobs, by mask or index."""
        others = ("since", "sites", "kinds")
        columns = {name: getattr(self, name)[chosen] for name in self.__slots__ if name not in others}
        return replace(self, **columns, kinds={name: column[chosen] for name, column in self.kinds.items()})

    def covers(self, source_id: I8, hour_epoch: I8) -> Flags:
        """Which buckets these records replace."""
        from_s = np.full(len(source_id), np.inf)
        for source, since_s in self.since.items():
            from_s[source_id == source] = since_s
        covered: Flags = hour_epoch >= from_s
        return covered


def own_times_since(*, sources: Sequence[int], reach_s: float, to_at: datetime) -> dict[int, float]:
    """The whole hour by source from which its records replace its buckets, in seconds since 1970."""
    try:
        from_at = _whole_hour(to_at - timedelta(seconds=reach_s))
    except OverflowError:
        from_at = datetime(1970, 1, 1, tzinfo=UTC)
    with connection.cursor() as cursor:
        cursor.execute(_FROM, [list(sources), from_at, MOST_TIMED_RECORDS])
        too_many_at = cursor.fetchone()[0]
    if too_many_at is not None:
        from_at = too_many_at + _HOUR
    since_by_source = {}
    for source in Source.all_objects.filter(pk__in=sources).exclude(kind=Source.Kind.PEER):
        since_at = from_at
        if source.sealed_before_at is not None:
            since_at = max(since_at, _whole_hour(source.sealed_before_at) + _HOUR)
        held = Overlap.objects.filter(held=source).exclude(state=Overlap.State.COUNTED).order_by("-to_at").first()
        if held is not None:
            since_at = max(since_at, held.to_at)
        since_by_source[source.pk] = since_at.timestamp()
    return since_by_source


def load_ended_records(*, since: Mapping[int, float], to_at: datetime, sites: Sequence[str] = ()) -> EndedRecords:
    """Load the finished jobs of sources that ended after the instant of each and started before `to_at`."""
    from_at = [datetime.fromtimestamp(at_s, UTC) for at_s in since.values()]
    arrays = fetch_columns(_LOAD, [list(since), from_at, list(sites), to_at])
    ids, nothing = np.zeros(0, np.int64), np.zeros(0)
    columns: list[Any] = arrays or [ids, ids, ids, ids, ids, ids, *[nothing] * 5, ids, ids, ids, None]
    account_id, source_id, job_class_id, start_us, end_us, from_us, cpus, gpus, mem_mb, nodes, billing, *rest = columns
    return EndedRecords(
        dict(since),
        account_id,
        source_id,
        job_class_id,
        start_us / 1e6,
        end_us / 1e6,
        from_us / 1e6,
        cpus,
        gpus,
        mem_mb / 1024.0,
        nodes,
        billing,
        rest[0],
        epochs_or_nan(rest[1]),
        tuple(sites),
        kind_columns(rest[2], rest[3], end_us - start_us),
    )


def _whole_hour(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
