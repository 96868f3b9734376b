"""Store records of a source, each counted exactly once in its latest version, in any order of arrival.

Records of an import
that are received again later are recorded, so that undoing the import doesn't lose them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter

import numpy as np
from django.db import connection

from apps.accounts.account_ids import ids_and_new, known_account_ids
from apps.accounts.account_keys import AccountKey
from apps.accounts.partition_accounts import load_partition_accounts
from apps.core.postgresql import join_transaction
from apps.runs.fault_points import fault_point
from apps.runs.models import Run
from apps.usage import bucket_deltas, buckets, changed_hours
from apps.usage.authority import require_open
from apps.usage.distinct import distinct_values, number_distinct
from apps.usage.kinds import TOO_MANY, with_known_kinds
from apps.usage.models import JobClass, Source
from apps.usage.parsers.base import (
    FINISHED,
    I8,
    NO_TIME,
    PENDING,
    RUNNING,
    Bytes,
    JobClassKey,
    RecordBatch,
    RecordRow,
    Rejection,
    instant,
    microseconds,
)
from apps.usage.pgbinary import cursor as binary_cursor
from apps.usage.records import overlaps, too_late
from apps.usage.records.job_identity import Identified, identify_jobs
from apps.usage.records.open_reports import OpenReports, StoredNames
from apps.usage.records.record_keys import OF_KEYS, key_parameters
from apps.usage.records.record_rows import copy_records, finished_rows, remove_versions, undo_records
from apps.usage.records.source_clocks import (
    AHEAD,
    ahead_events,
    ahead_of_clock,
    ahead_rejection,
    ahead_rejections,
    clock_skew_s,
)
from apps.usage.records.stored_runs import Name, RunChanges, rebuild_jobs, settle_runs
from apps.usage.records.stored_versions import LOCK_SOURCE, StoredVersions, find_stored, lock_source
from apps.usage.records.versions import COUNTED, Classification, Counts, classify, collision_rejections

_PARTITION, _GROUP = attrgetter("partition"), attrgetter("group")
# Tables to which ingested records add rows.
GROWING = ("usage_record", "usage_bucket", "usage_kindhour", "accounts_account")


_NOTE = """
INSERT INTO usage_repetition (run_id, by_run_id, n_records, last_at)
SELECT run.id, %s::int8, given.n, %s::timestamptz FROM unnest(%s::int8[], %s::int8[]) AS given(run_id, n)
JOIN runs_run AS run ON run.id = given.run_id WHERE run.kind = 'usage_import'
ON CONFLICT (run_id, by_run_id) DO UPDATE SET n_records = usage_repetition.n_records + EXCLUDED.n_records,
    last_at = EXCLUDED.last_at
"""
IMPORT = "usage_import"  # kind of the runs that can be undone
_JOINED: dict[str, Callable[[list[datetime]], datetime]] = {
    **{"last_end_at": max, "last_submit_at": max, "first_submit_at": min, "first_wait_at": min}
}
NAMELESS = "user_without_name"

_LIMITS = """
SELECT sealed_before_at,
    ARRAY(SELECT import.run_id FROM usage_import AS import JOIN runs_run AS run ON run.id = import.undone_run_id
        WHERE import.source_id = mine.id AND import.undone_at IS NULL AND run.cursor <> '{}'
            AND run.state IN ('queued', 'running')),
    EXISTS (SELECT FROM usage_source AS other WHERE other.id <> mine.id
        AND (other.origin <> mine.origin OR other.namespace = mine.namespace)),
    last_submit_at
FROM usage_source AS mine WHERE id = %d
"""
_UNCOUNT = "UPDATE usage_source SET watermark = watermark + 1, n_records = n_records - %s WHERE id = %s"

_SEEN = f"""
UPDATE usage_record AS record SET seen_at = %s FROM {OF_KEYS}
    AND state <> {FINISHED} AND (seen_at IS NULL OR seen_at < %s)
"""  # noqa: S608 - constants only
_COLUMNS = [*(f"n_{name}" for name in COUNTED), "n_ahead"]
_ADVANCE = f"""
WITH today AS (
    INSERT INTO usage_sourceday (source_id, received_on, {", ".join(_COLUMNS)})
    SELECT %(source)s, %(on)s, {", ".join(f"%({name})s" for name in _COLUMNS)} WHERE %(is_any)s
    ON CONFLICT (source_id, received_on) DO UPDATE SET
        {", ".join(f"{name} = usage_sourceday.{name} + EXCLUDED.{name}" for name in _COLUMNS)})
UPDATE usage_source SET watermark = watermark + %(moves_watermark)s::int, n_records = n_records + %(n_new)s,
    skew_s = COALESCE(%(skew_s)s, skew_s), last_record_end_at = GREATEST(last_record_end_at, %(last_end_at)s),
    last_submit_at = GREATEST(last_submit_at, %(last_submit_at)s),
    first_submit_at = LEAST(first_submit_at, %(first_submit_at)s),
    first_wait_at = LEAST(first_wait_at, %(first_wait_at)s),
    last_received_at = GREATEST(last_received_at, %(at)s)
WHERE id = %(source)s AND (%(moves_watermark)s OR last_received_at IS NULL OR last_received_at < %(at)s
    OR %(skew_s)s <> COALESCE(skew_s, -1))
"""  # noqa: S608 - constants only


def note_reimported(stored_run_id: I8, *, run: Run | None, at: datetime) -> None:
    """Record that stored records were received again, by import; repetitions within one import are ignored."""
    by_import = run.pk if run is not None and run.kind == "usage_import" else None
    run_ids, n = np.unique(stored_run_id, return_counts=True)
    others = (run_ids > 0) & (run_ids != (run.pk if run else 0))
    if others.any():
        with connection.cursor() as cursor:
            cursor.execute(_NOTE, [by_import, at, run_ids[others].tolist(), n[others].tolist()])


@dataclass(frozen=True, slots=True)
class Limits:
    """State of a source that limits what it accepts, read under its lock."""

    sealed_us: int | None
    undoing: list[int]  # ids of import runs that are being undone
    has_rivals: bool  # whether other sources may cover the same hours
    last_submit_us: int  # of the stored records; NO_TIME if there are none


@dataclass(slots=True)
class _Added:
    """What a batch changes in the row of its source.

    moves_watermark: whether a record was stored, or has closed an open one, or brought an account although it doesn't
    count.
    """

    skew_s: float | None = None
    moves_watermark: bool = False
    last_end_at: datetime | None = None
    last_submit_at: datetime | None = None
    first_submit_at: datetime | None = None
    first_wait_at: datetime | None = None

    def add(self, more: _Added) -> None:
        """Join what another part of the batch changes."""
        self.moves_watermark |= more.moves_watermark
        for name, choose in _JOINED.items():
            both = [at for at in (getattr(self, name), getattr(more, name)) if at is not None]
            setattr(self, name, choose(both) if both else None)


@dataclass(slots=True)
class _Incoming:
    """Accepted records with their ids and stored versions, row by row."""

    batch: RecordBatch
    account_id: I8
    job_class_id: I8
    stored: StoredVersions

    def take(self, chosen: I8) -> _Incoming:
        """chosen: rows in ascending order, each once."""
        if len(chosen) == len(self.batch):
            return self
        rows = (self.account_id[chosen], self.job_class_id[chosen])
        return _Incoming(self.batch.take(chosen), *rows, self.stored.take(chosen))


def ingest_batch(
    *,
    source: Source,
    rows: RecordBatch | Sequence[RecordRow],
    at: datetime,
    run: Run | None = None,
    n_rejected: int = 0,
    is_listing: bool = False,
) -> Counts:
    """Store records of one source, in the caller's transaction or a new one.

    New records are added. A record with a later revision, else a later end, else a later state replaces the stored
    version, and buckets follow in the same transaction. Identical and older versions change nothing and are counted.

    Records in the future are rejected (`Counts.rejections`); those that ended before the source was sealed are listed.
    n_rejected: lines that the parser rejected, for the day's count.
    """
    require_open(source)
    batch = rows if isinstance(rows, RecordBatch) else RecordBatch.from_rows(rows)
    with join_transaction():
        counts, added = Counts(), _Added()
        if len(batch) or batch.events:
            _import_piece(source, batch, counts, added, at, run, is_listing=is_listing)
        else:
            lock_source(source.pk)  # before its row, as everywhere
        _advance(source, counts, added, n_rejected, at)
        fault_point("usage.ingest.before_commit")
    return counts


def reject_ahead(batch: RecordBatch, source: Source, at: datetime) -> tuple[RecordBatch, list[Rejection]]:
    """Split off records too far in the future; returns the others, and the rejections."""
    ahead = ahead_of_clock(batch, tolerance_s=source.skew_tolerance_s, at=at)
    events = ahead_events(batch, tolerance_s=source.skew_tolerance_s, at=at) if batch.events else []
    if not ahead.any() and not events:
        return batch, []
    rejections = [*ahead_rejections(batch, ahead, at=at), *(ahead_rejection(event, at=at) for event in events)]
    kept = batch.take(~ahead)
    in_future = set(events)
    kept.events = tuple(event for event in batch.events if event not in in_future)
    return kept, rejections


def split_off_nameless(batch: RecordBatch, source: Source) -> tuple[RecordBatch, I8, list[Rejection]]:
    """Reject jobs whose user's name isn't known for now, so that a number or `nobody` gets no account of its own.

    Those that are stored keep their account, and a number that has one keeps it. Returns the other records, their known
    account ids (0 for none), and the rejections.
    """
    known = np.zeros(len(batch), np.int64)
    rows = np.flatnonzero(batch.is_nameless)
    if not len(rows):
        return batch, known, []
    asked = batch.take(rows)
    keys = [AccountKey(source.namespace, *batch.people[code]) for code in asked.who.tolist()]
    accounts = known_account_ids(keys)
    stored = find_stored(source.pk, asked).account_id
    known[rows] = np.where(stored > 0, stored, [accounts.get(key, 0) for key in keys])
    unknown = rows[known[rows] == 0]
    rejections = [_nameless_rejection(batch, row) for row in unknown.tolist()]
    kept = np.setdiff1d(np.arange(len(batch)), unknown)
    return batch.take(kept), known[kept], rejections


def _nameless_rejection(batch: RecordBatch, row: int) -> Rejection:
    user, job = batch.people[batch.who[row]].user, batch.job[row].decode("utf-8", "replace")
    message = (
        f"The user of job {job} is given as {user}, which is no name: the scheduler's host can't look names up. The "
        "job counts once it is reported with a name, or has ended in the accounting."
    )
    return Rejection(int(batch.line[row]), NAMELESS, message, f"job {job}"[:120])


def fill_defaults(batch: RecordBatch, source: Source) -> RecordBatch:
    """Set cluster and site from the source where a record has none."""
    return replace(batch, cluster=_filled(batch.cluster, source.cluster), site=_filled(batch.site, source.site))


def _import_piece(
    source: Source,
    received: RecordBatch,
    counts: Counts,
    added: _Added,
    at: datetime,
    run: Run | None,
    *,
    is_listing: bool,
) -> None:
    added.skew_s = clock_skew_s(received, at=at)
    batch, counts.rejections = reject_ahead(received, source, at)
    known = batch.line[:0]
    if len(batch):
        batch = fill_defaults(batch, source)
        batch, known, nameless = split_off_nameless(batch, source)
        counts.rejections += nameless
        # Before versions are compared: else one that lost its kinds would be older than itself each time.
        batch = _with_known_kinds(batch, counts, at)
    counts.rejected = len(counts.rejections)
    if not len(batch) and not batch.events:
        lock_source(source.pk)
        return
    names = (_account_ids(batch, known, source.namespace, added, at), _job_class_ids(batch))
    limits = lock_and_read_limits(source.pk)
    batch, stored = _find(source.pk, batch, limits, is_listing=is_listing)
    changes_of_runs = None
    if batch.are_runs:
        undoing = limits.undoing
        changes_of_runs = settle_runs(source, batch, stored, run=run, sealed_us=limits.sealed_us, undoing=undoing)
        if changes_of_runs.batch is not batch:
            batch = changes_of_runs.batch
            known = np.zeros(len(batch), np.int64)
            names = (_account_ids(batch, known, source.namespace, added, at), _job_class_ids(batch))
            batch, stored = _find(source.pk, batch, limits, is_listing=is_listing)
    incoming = _Incoming(batch, *names, stored)
    incoming = _split_off_too_late(source.pk, incoming, limits, counts, added, at, run)
    fault_point("usage.ingest.after_keys")
    _store(source, incoming, limits, counts, added, at, run)
    if changes_of_runs is not None:
        _store_rebuilt(source, changes_of_runs, limits, counts, added, at, run)


def lock_and_read_limits(source_id: int) -> Limits:
    """As `lock_source` and `read_limits`, in one round trip; the second statement sees what the lock waited for."""
    with connection.cursor() as cursor:
        cursor.execute(f"{LOCK_SOURCE};{_LIMITS}" % (source_id, source_id))
        cursor.nextset()
        return _limits_of(*cursor.fetchone())


def read_limits(source_id: int) -> Limits:
    with connection.cursor() as cursor:
        cursor.execute(_LIMITS % source_id)
        return _limits_of(*cursor.fetchone())


def _limits_of(
    sealed_before_at: datetime | None, undoing: list[int], has_rivals: bool, last_submit_at: datetime | None
) -> Limits:
    sealed_us = microseconds(sealed_before_at) if sealed_before_at else None
    return Limits(sealed_us, undoing, has_rivals, microseconds(last_submit_at) if last_submit_at else NO_TIME)


def _find(source_id: int, batch: RecordBatch, limits: Limits, *, is_listing: bool) -> Identified:
    """Find stored versions, after undoing those of imports whose undo is in progress, and the key of each job."""
    stored = find_stored(source_id, batch, last_submit_us=limits.last_submit_us, is_listing=is_listing)
    if limits.undoing:
        undone = np.isin(stored.run_id, limits.undoing)
        if undone.any():
            undo_records(source_id, np.unique(stored.id[undone]))
            stored = find_stored(source_id, batch, is_listing=is_listing)
    return identify_jobs(batch, stored, partial(find_stored, source_id, is_listing=is_listing))


def _split_off_too_late(
    source_id: int,
    incoming: _Incoming,
    limits: Limits,
    counts: Counts,
    added: _Added,
    at: datetime,
    run: Run | None,
) -> _Incoming:
    """Store records that are too late in their own list; returns the others."""
    if limits.sealed_us is None:
        return incoming
    late = too_late.is_too_late(incoming.batch, incoming.stored, limits.sealed_us)
    if not late.any():
        return incoming
    chosen = incoming.take(np.flatnonzero(late))
    added.moves_watermark |= too_late.store_too_late(
        source_id, chosen.batch, chosen.stored, chosen.account_id, run=run, at=at
    )
    counts.too_late = len(chosen.batch)
    counts.account_ids |= set(np.unique(chosen.account_id).tolist())
    return incoming.take(np.flatnonzero(~late))


def _store(
    source: Source,
    incoming: _Incoming,
    limits: Limits,
    counts: Counts,
    added: _Added,
    at: datetime,
    run: Run | None,
) -> None:
    is_ended = (
        incoming.batch.state.min(initial=FINISHED) >= FINISHED
    )  # as in most files: then no report is of an open job
    names = (incoming.account_id, incoming.job_class_id)
    reports = None if is_ended else OpenReports(incoming.batch, incoming.stored, *names, names=StoredNames())
    classified = classify(incoming.batch, incoming.stored, reports)
    counts.add(classified.counts)
    counts.account_ids |= set(distinct_values(incoming.account_id).tolist())
    if len(classified.colliding):
        counts.rejections += collision_rejections(incoming.batch, classified.colliding)
        counts.rejected += len(classified.colliding)
    if len(classified.winners):
        counts.core_s, counts.changed_from_us = _write(source, incoming, classified, limits, added, run, at)
        added.moves_watermark = True
        added.last_end_at = instant(int(incoming.batch.end_us[classified.winners].max()))
        added.last_submit_at = instant(int(incoming.batch.submit_us[classified.winners].max()))
        added.first_submit_at = instant(int(incoming.batch.submit_us[classified.winners].min()))
    if len(classified.not_newer):
        _update_seen_at(source.pk, incoming, classified, at)
        note_reimported(incoming.stored.run_id[classified.not_newer], run=run, at=at)


def _write(
    source: Source,
    incoming: _Incoming,
    classified: Classification,
    limits: Limits,
    added: _Added,
    run: Run | None,
    at: datetime,
    removed: RecordBatch | None = None,
) -> tuple[float, int | None]:
    """Store records and buckets; returns the change in core-seconds, and the first start among the changes.

    removed: stored records that go without a new version.
    """
    written, run_id = incoming.take(classified.winners), run.pk if run else None
    names = (written.account_id, written.job_class_id)
    change = finished_rows(written.batch, *names)
    replaced = np.flatnonzero(classified.replaced > 0)
    if len(replaced):
        is_import = run is not None and run.kind == IMPORT
        gone = remove_versions(source.pk, written.batch.take(replaced), by_run_id=run_id, keep_all=is_import, at=at)
        change = change.concatenated(gone)
        fault_point("usage.ingest.after_replacing")
    if removed is not None and len(removed):
        gone = remove_versions(source.pk, removed, by_run_id=run_id, keep_all=True, at=at)
        change = change.concatenated(gone)
    if len(written.batch):
        copy_records(source.pk, written.batch, *names, run_id, at)
    fault_point("usage.ingest.after_copy")
    waited = (written.batch.submit_us < written.batch.start_us) | (written.batch.state == PENDING)
    added.first_wait_at = instant(int(written.batch.submit_us[waited].min())) if waited.any() else None
    waited[replaced] = True  # the former version may have been pending
    # First hour since 1970 in which one of these jobs was pending; None if none was, as far as reported.
    waited_from = int(written.batch.submit_us[waited].min()) // bucket_deltas.HOUR_US if waited.any() else None
    if removed is not None and len(removed):
        removed_from = int(removed.submit_us.min()) // bucket_deltas.HOUR_US
        waited_from = removed_from if waited_from is None else min(waited_from, removed_from)
    if not len(change):
        if waited_from is not None:
            changed_hours.note_hour(source.pk, waited_from)
        return 0.0, None
    delta = bucket_deltas.compute_delta(change)
    buckets.apply_delta(source.pk, delta, since_hour=waited_from)
    overlaps.add_presence(source, delta, written.batch, has_rivals=limits.has_rivals, at=at)
    return float(delta.amounts[:, 0].sum(dtype=np.float64)) / bucket_deltas.QUANTA, int(change.start_us.min())


def _store_rebuilt(
    source: Source,
    changes_of_runs: RunChanges,
    limits: Limits,
    counts: Counts,
    added: _Added,
    at: datetime,
    run: Run | None,
) -> None:
    """Store records that are made again: they replace what is stored, whichever seems the newer version."""
    for name, n in changes_of_runs.notes.items():
        counts.notes[name] = counts.notes.get(name, 0) + n
    note_reimported(changes_of_runs.resent_by, run=run, at=at)
    batch = _with_known_kinds(changes_of_runs.rebuilt, counts, at)
    if not len(batch) and not len(changes_of_runs.removed):
        return
    known = np.zeros(len(batch), np.int64)
    names = (_account_ids(batch, known, source.namespace, added, at), _job_class_ids(batch))
    stored = find_stored(source.pk, batch) if len(batch) else StoredVersions.none(0)
    changed = np.flatnonzero(~changes_of_runs.is_same & ~stored.is_other)
    n_removed, n_new = len(changes_of_runs.removed), int((stored.id[changed] == 0).sum())
    n_moved = min(n_removed, n_new)  # under another key: the number of a run, or where a part begins
    more = Counts(new=n_new - n_moved, duplicate=int(changes_of_runs.is_same.sum()))
    more.corrected = len(changed) - more.new
    collide = np.flatnonzero(stored.is_other)
    more.rejections = collision_rejections(batch, collide)
    more.rejected = len(collide)
    more.account_ids = set(np.unique(names[0]).tolist())
    incoming = _Incoming(batch, *names, stored)
    if len(changed) or n_removed:
        others = _Added()
        classified = Classification(changed, stored.id[changed], changed[:0], collide, more)
        more.core_s, more.changed_from_us = _write(
            source, incoming, classified, limits, others, run, at, removed=changes_of_runs.removed
        )
        others.moves_watermark = True
        if len(changed):
            others.last_end_at = instant(int(batch.end_us[changed].max()))
            others.last_submit_at = instant(int(batch.submit_us[changed].max()))
            others.first_submit_at = instant(int(batch.submit_us[changed].min()))
        added.add(others)
    if n_removed > n_new:
        with connection.cursor() as cursor:
            cursor.execute(_UNCOUNT, [n_removed - n_new, source.pk])
    ended = batch.state == FINISHED
    if ended.any():
        more.first_us, more.last_us = int(batch.start_us[ended].min()), int(batch.end_us[ended].max())
    counts.add(more)


def rebuild(source: Source, names: set[Name], *, at: datetime) -> None:
    """Make the records of these jobs again from the lines that are left, in the caller's transaction and under its
    lock.
    """
    limits, counts, added = read_limits(source.pk), Counts(), _Added()
    changes_of_runs = rebuild_jobs(source, names, sealed_us=limits.sealed_us)
    _store_rebuilt(source, changes_of_runs, limits, counts, added, at, None)
    if counts.new or counts.corrected:
        with connection.cursor() as cursor:
            cursor.execute(_UNCOUNT, [-counts.new, source.pk])


def _with_known_kinds(batch: RecordBatch, counts: Counts, at: datetime) -> RecordBatch:
    batch, n_losing = with_known_kinds(batch, at=at)
    if n_losing:
        counts.notes[TOO_MANY] = counts.notes.get(TOO_MANY, 0) + n_losing
    return batch


def _update_seen_at(source_id: int, incoming: _Incoming, classified: Classification, at: datetime) -> None:
    """Set `seen_at` of open jobs that were reported again: they still exist."""
    again = classified.not_newer[incoming.batch.state[classified.not_newer] <= RUNNING]
    if len(again):
        with binary_cursor() as db_cursor:
            db_cursor.execute(_SEEN, [at, *key_parameters(source_id, incoming.batch.take(again)), at])


def _advance(source: Source, counts: Counts, added: _Added, n_rejected: int, at: datetime) -> None:
    """Add to the source's counts of the day, and update its totals, clock skew and times.

    The last contact is set also for an empty list or known records: an idle cluster has nothing else to send.
    n_rejected: lines rejected by the parser, besides those in `counts`.
    """
    numbers = {f"n_{name}": n for name, n in counts.as_dict().items()}
    numbers["n_rejected"] += n_rejected
    numbers["n_ahead"] = sum([rejection.code == AHEAD for rejection in counts.rejections])
    values = {**asdict(added), **numbers, "is_any": any(numbers.values()), "source": source.pk, "at": at}
    with connection.cursor() as cursor:
        cursor.execute(_ADVANCE, {**values, "on": at.astimezone(UTC).date()})


def _account_ids(batch: RecordBatch, known: I8, namespace: str, added: _Added, at: datetime) -> I8:
    """Ids of the records' accounts, which are created where `known` has none. Each is an input of snapshots, so that a
    new one moves the watermark.
    """
    is_new = known == 0
    ids = known.copy()
    ids[is_new], has_new = _ids_of_names(batch, np.flatnonzero(is_new), namespace, at)
    added.moves_watermark |= has_new
    return ids


def _ids_of_names(batch: RecordBatch, rows: I8, namespace: str, at: datetime) -> tuple[I8, bool]:
    """Ids of the accounts of these rows, and whether one was created."""
    keys, index = account_keys(batch, rows, namespace)
    ids, new = ids_and_new(keys, at=at)
    return np.array([ids[key] for key in keys], np.int64)[index], bool(new)


def account_keys(batch: RecordBatch, rows: I8, namespace: str) -> tuple[list[AccountKey], I8]:
    """Distinct accounts of these rows, and the place of each row's: by name, and by partition where Slurm has
    associations of one.
    """
    has_partitions = any(map(_PARTITION, batch.job_classes)) and any(map(_GROUP, batch.people))
    limited = load_partition_accounts(namespace) if has_partitions else None
    n_classes = len(batch.job_classes) if limited else 1
    code = batch.who[rows] * n_classes + batch.job_class[rows] % n_classes
    index, first = number_distinct(code)
    used = code[first].tolist()
    keys = [AccountKey(namespace, *batch.people[code // n_classes]) for code in used]
    if limited:
        partitions = [batch.job_classes[code % n_classes].partition for code in used]
        keys = [limited.key_of(key, partition) for key, partition in zip(keys, partitions, strict=True)]
    return keys, index


def _job_class_ids(batch: RecordBatch) -> I8:
    index, first = number_distinct(batch.job_class)
    keys = [batch.job_classes[code] for code in batch.job_class[first].tolist()]
    known = stored_job_classes(keys)
    missing = sorted(set(keys) - known.keys())
    if missing:
        JobClass.objects.bulk_create([JobClass(**key._asdict()) for key in missing], ignore_conflicts=True)
        known = stored_job_classes(keys)
    return np.array([known[key] for key in keys], np.int64)[index]


def stored_job_classes(keys: Sequence[JobClassKey]) -> dict[JobClassKey, int]:
    job_classes = JobClass.objects.filter(queue__in={key.queue for key in keys})
    rows = job_classes.values_list("queue", "partition", "qos", "id")
    return {JobClassKey(*row[:3]): row[3] for row in rows}


def _filled(texts: Bytes, default: str) -> Bytes:
    if not default:
        return texts
    return np.where(texts == b"", np.bytes_(default.encode()), texts)
