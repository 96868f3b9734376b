"""Remove records past their retention. Their hours are sealed first; buckets stay, so no sum of usage changes.

A record that ended before its source's seal is too late: it may have been counted and removed already. Late records are
listed with their usage, and never counted. What removed records had added to each hour is stored as SealedHour, so that
buckets can still be audited against records and sealed hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from django.db import OperationalError, connection, transaction
from django.db.models import F, Max, Min, QuerySet

from apps.accounts import audit_log as audit
from apps.accounts.actor import SYSTEM
from apps.accounts.clock_watch import believed
from apps.core.postgresql import is_busy
from apps.runs.fault_points import fault_point
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import enqueue_run, work_other_runs
from apps.usage import bucket_deltas, pgbinary
from apps.usage.columns import STORED_RATES
from apps.usage.kinds import add_sealed_kinds
from apps.usage.models import Record, Source
from apps.usage.open_jobs import LONGEST_RUN_S
from apps.usage.parsers.base import F8, FINISHED, I8, WITHDRAWN
from apps.usage.pgbinary import float8_array, int8_array, timestamptz_array
from apps.usage.records import partitions
from apps.usage.records.retention_start import retention_start
from apps.usage.records.stored_runs import delete_lines
from apps.usage.records.stored_versions import lock_source

KIND = "usage_retention"
_IDS_AT_A_TIME = 200_000

_SUMMED = f"""
SELECT array_agg(source_id), array_agg(COALESCE(start_at, end_at)), array_agg(end_at),
    {", ".join(f"array_agg(CASE WHEN counted THEN {rate} ELSE 0 END)" for rate in STORED_RATES.values())},
    array_agg((counted AND NOT is_charge)::int::int8),
    array_agg(CASE WHEN counted THEN COALESCE(kinds::text, '') ELSE '' END)
FROM gone
"""  # noqa: S608 - constants only
_IS_EXPIRED = f"(record.end_at < source.sealed_before_at AND record.state IN ({FINISHED}, {WITHDRAWN}))"
_REMOVE_EXPIRED = f"""
WITH gone AS (
    DELETE FROM usage_record AS record USING usage_source AS source
    WHERE record.id > %s AND record.id <= %s AND source.id = record.source_id AND {_IS_EXPIRED}
    RETURNING record.source_id, record.start_at, record.end_at, record.cpus, record.gpus, record.mem_mb,
        record.nodes, record.billing, record.is_charge, record.kinds, record.state = {FINISHED} AS counted)
{_SUMMED}
"""  # noqa: S608 - constants only
_SOURCES_OF = """
SELECT DISTINCT record.source_id FROM usage_record AS record JOIN usage_source AS source ON source.id = source_id
WHERE record.id > %s AND record.id <= %s AND record.end_at < source.sealed_before_at ORDER BY 1
"""
_KEEPS = """
SELECT EXISTS (SELECT FROM "{table}" AS record JOIN usage_source AS source ON source.id = record.source_id
    WHERE {is_expired} IS NOT TRUE)
"""
_SOURCES_IN = 'SELECT DISTINCT source_id FROM "{table}" ORDER BY 1'
_IDS_IN = 'SELECT COALESCE(min(id), 0), COALESCE(max(id), -1) FROM "{table}"'
_SUM_OF = f"""
WITH gone AS (SELECT *, state = {FINISHED} AS counted FROM "{{table}}" WHERE id >= %s AND id < %s)
{_SUMMED}
"""  # noqa: S608 - constants only
_PATIENCE = "SET LOCAL lock_timeout = '3s'"  # readers queue behind us meanwhile; the next run may have more luck

_ADD_SEALED = f"""
INSERT INTO usage_sealedhour (source_id, hour_at, n_records, {", ".join(bucket_deltas.AMOUNTS)})
SELECT %s::int8, given.* FROM unnest(%s::timestamptz[], %s::int8[], {", ".join(["%s::float8[]"] * 6)}) AS given
ON CONFLICT (source_id, hour_at) DO UPDATE SET n_records = usage_sealedhour.n_records + EXCLUDED.n_records,
    {", ".join(f"{name} = usage_sealedhour.{name} + EXCLUDED.{name}" for name in bucket_deltas.AMOUNTS)}
"""  # noqa: S608 - constants only


def enqueue_retention(*, at: datetime) -> Run | None:
    """Enqueue a run that removes records past their retention; None if there are none."""
    if not any(_due(source, at) for source in _record_sources()):
        return None
    return enqueue_run(kind=KIND, subject="usage", at=at)


def run_retention(run: Run, lease: Lease) -> dict[str, Any]:
    """Handler of `usage_retention`: seal every source that is due, drop partitions of which nothing is kept, then
    remove the other records in one pass by id.
    """
    at = believed(lease.clock())
    sealed = [source.slug for source in _record_sources() if _seal(source, lease, at)]
    gone: dict[str, int] = dict(run.cursor.get("gone", {}))
    _drop_expired(lease, gone, run.cursor)
    ids = _expired_of(Record.objects.all()).aggregate(first=Min("id"), last=Max("id"))
    before_id, last_id = int(ids["first"] or 1) - 1, int(ids["last"] or 0)
    for first_id in range(max(before_id, int(run.cursor.get("id", 0))), last_id, _IDS_AT_A_TIME):
        with lease.fenced() as held:
            _add_counts(gone, _remove_expired(first_id, min(first_id + _IDS_AT_A_TIME, last_id)))
            held.cursor = {"id": first_id + _IDS_AT_A_TIME, "gone": gone}
            held.save(update_fields=["cursor"])
            fault_point("usage.retention.before_commit")
        lease.report(done=first_id, total=last_id)
        work_other_runs(lease)
    with lease.fenced():
        n_replaced = _delete_replaced()
        for source in Source.all_objects.all():
            longest = timedelta(seconds=source.longest_run_s or LONGEST_RUN_S)
            if source.sealed_before_at is not None:
                delete_lines(source.sealed_before_at - longest, source)
        result = {"sealed": sealed, "gone": gone, "replaced": n_replaced}
        if gone:
            audit.record(actor=SYSTEM, verb="usage.records_removed", at=at, subject="usage", details=result)
        lease.finish(result, at)
    return result


def _record_sources() -> QuerySet[Source]:
    return Source.all_objects.exclude(kind=Source.Kind.PEER).order_by("pk")


def _due(source: Source, at: datetime) -> bool:
    wanted = retention_start(source, at)
    return wanted is not None and (source.sealed_before_at is None or source.sealed_before_at < wanted)


def _seal(source: Source, lease: Lease, at: datetime) -> bool:
    wanted = retention_start(source, at)
    if wanted is None or not _due(source, at):
        return False
    with lease.fenced():
        lock_source(source.pk)
        Source.all_objects.filter(pk=source.pk).update(sealed_before_at=wanted)
        details = {"before": wanted.isoformat()}
        audit.record(actor=SYSTEM, verb="usage.sealed", at=at, subject=source.slug, details=details)
    return True


def _expired_of(records: QuerySet[Record]) -> QuerySet[Record]:
    """Those that were submitted before the last seal of any source: others end later, too."""
    last_at = Source.all_objects.aggregate(last=Max("sealed_before_at"))["last"]
    return records.none() if last_at is None else records.filter(submit_at__lt=last_at)


def _drop_expired(lease: Lease, gone: dict[str, int], cursor: dict[str, Any]) -> None:
    """Drop each partition of which nothing is kept. One that is in use is left to the pass by id."""
    last_at = Source.all_objects.aggregate(last=Max("sealed_before_at"))["last"]
    for name, until_at in partitions.list_partitions():
        if last_at is None or until_at is None or until_at > last_at:
            continue
        try:
            with lease.fenced() as held:
                numbers = _drop_if_expired(name)
                if numbers is not None:
                    _add_counts(gone, numbers)
                    held.cursor = {**cursor, "gone": gone}
                    held.save(update_fields=["cursor"])
                fault_point("usage.retention.before_drop")
        except OperationalError as error:
            if not is_busy(error):
                raise
        lease.stop_if_requested()


def _drop_if_expired(table: str) -> dict[str, int] | None:
    """Drop it, and return the numbers of its records by slug of the source; None if some are kept, or a writer is at
    work.
    """
    with connection.cursor() as db_cursor:
        is_expired = _KEEPS.format(table=table, is_expired=_IS_EXPIRED)
        db_cursor.execute(is_expired)
        if db_cursor.fetchone()[0]:
            return None
        db_cursor.execute(_SOURCES_IN.format(table=table))
        ids = [row[0] for row in db_cursor.fetchall()]
        for source_id in ids:
            lock_source(source_id)
        db_cursor.execute(_PATIENCE)
        if not partitions.hold_alone():
            return None
        db_cursor.execute(is_expired)  # again: a writer may just have added to it
        if db_cursor.fetchone()[0]:
            return None
        db_cursor.execute(_IDS_IN.format(table=table))
        first_id, last_id = db_cursor.fetchone()
    numbers: dict[str, int] = {}
    for id_from in range(first_id, last_id + 1, _IDS_AT_A_TIME):
        arrays = pgbinary.fetch_columns(_SUM_OF.format(table=table), [id_from, id_from + _IDS_AT_A_TIME])
        _add_counts(numbers, _count_removed(ids, arrays))
    partitions.drop(table)
    return numbers


def _add_counts(numbers: dict[str, int], more: dict[str, int]) -> None:
    for slug, n in more.items():
        numbers[slug] = numbers.get(slug, 0) + n


@transaction.atomic
def _remove_expired(after_id: int, last_id: int) -> dict[str, int]:
    """Remove sealed records with ids in (after_id, last_id], under the locks of their sources; returns counts by
    slug.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SOURCES_OF, [after_id, last_id])
        ids = [row[0] for row in cursor.fetchall()]
    for source_id in ids:
        lock_source(source_id)
    return _count_removed(ids, pgbinary.fetch_columns(_REMOVE_EXPIRED, [after_id, last_id]) if ids else [])


def _count_removed(ids: list[int], arrays: list[Any]) -> dict[str, int]:
    """Add the usage of removed records to sealed hours. ids: of their sources. arrays: of _SUMMED."""
    if not arrays:
        return {}
    source_id, *columns, kinds = arrays
    columns.append(np.array(kinds, dtype=np.object_))
    slugs = dict(Source.all_objects.filter(pk__in=ids).values_list("pk", "slug"))
    numbers: dict[str, int] = {}
    for source_pk in ids:
        chosen = np.flatnonzero(source_id == source_pk)
        if len(chosen):
            _add_sealed(source_pk, _RemovedRecords(*(column[chosen] for column in columns)))
            Source.all_objects.filter(pk=source_pk).update(n_records=F("n_records") - len(chosen))
            numbers[slugs[source_pk]] = len(chosen)
    return numbers


@dataclass(frozen=True, slots=True)
class _RemovedRecords:
    """Removed records of one source as columns; rates are 0 for withdrawn ones, is_job is 0 for those and charges."""

    start_us: I8
    end_us: I8
    cpus: F8
    gpus: F8
    mem_mb: F8
    nodes: F8
    billing: F8
    is_job: I8
    kinds: npt.NDArray[np.object_]  # text of each


def _add_sealed(source_id: int, removed: _RemovedRecords) -> None:
    """Add the usage of removed records to the sealed hours of their source."""
    # One key for all records: accounts, classes and sites are summed up.
    zero = np.zeros(len(removed.end_us), np.int64)
    ones, no_site = zero + 1, np.zeros(len(removed.end_us), "S1")
    rates = (removed.cpus, removed.gpus, removed.mem_mb, removed.nodes, removed.billing)
    held = bucket_deltas.stored_kinds(removed.kinds.tolist())
    kinds = bucket_deltas.kind_rates(*held, removed.end_us - removed.start_us)
    times = (removed.start_us, removed.end_us)
    records = bucket_deltas.FinishedRecords(ones, ones, zero, zero, no_site, *times, *rates, kinds)
    delta = bucket_deltas.compute_delta(records)
    amounts = bucket_deltas.delta_amounts(delta)
    ended = np.searchsorted(delta.hour, removed.end_us // bucket_deltas.HOUR_US)
    # every record counts in the hour of its end, also charges and withdrawals
    n_records = amounts[:, -1].astype(np.int64)
    amounts[:, -1] = np.bincount(ended, weights=removed.is_job, minlength=len(delta.hour))
    with pgbinary.cursor() as cursor:
        cursor.execute(
            _ADD_SEALED,
            [
                source_id,
                timestamptz_array(delta.hour * bucket_deltas.HOUR_US),
                int8_array(n_records),
                *(float8_array(np.ascontiguousarray(amounts[:, column])) for column in range(amounts.shape[1])),
            ],
        )
    add_sealed_kinds(source_id, delta)


def _delete_replaced() -> int:
    """Delete replaced versions of removed records, which can no longer be restored."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM usage_replacedrecord AS old USING usage_source AS source"
            " WHERE source.id = old.source_id AND old.end_at < source.sealed_before_at"
        )
        return int(cursor.rowcount)
