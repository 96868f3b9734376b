"""Decide which version of each record is the latest, by comparing incoming records with stored ones."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from django.db import connection

from apps.core.postgresql import join_transaction
from apps.usage import pgbinary
from apps.usage.parsers.base import (
    F8,
    FINISHED,
    I8,
    NO_TIME,
    PENDING,
    RUNNING,
    WITHDRAWN,
    AccountNames,
    Flags,
    RecordBatch,
    Rejection,
    instant,
    microseconds,
)
from apps.usage.pgbinary import int8_array, text_array, timestamptz_array
from apps.usage.records.record_keys import job_numbers, key_hash

VANISHED = "vanished"  # note of an open record that a complete listing didn't contain
# "fsUs": one writer of a source at a time. The source's id is to be filled in.
LOCK_SOURCE = f"SELECT pg_advisory_xact_lock({0x66735573}, %d)"
_WITHDRAWN_END = np.iinfo(np.int64).max  # a withdrawal is later than every version with the same revision


COUNTED = ("new", "duplicate", "corrected", "late", "too_late", "rejected")
COLLISION = "same_hash"

_FIND = f"""
SELECT array_agg(given.ordinal - 1), array_agg(record.id), array_agg(COALESCE(record.revision, 0)),
    array_agg(COALESCE(record.end_at, '-infinity')),
    array_agg(record.state::int8),
    array_agg(COALESCE(record.run_id, 0)::int8 * 8 + (record.kinds IS NOT NULL)::int * 4
        + (record.note = '{VANISHED}')::int * 2 + (
        (record.cluster, record.job, record.array_task, COALESCE(record.restart, 0))
        <> (given.cluster, given.job, given.array_task, given.restart::int4))::int),
    array_agg(COALESCE(record.billing, 0)), array_agg(record.account_id),
    array_agg(COALESCE(record.start_at, '-infinity')), array_agg(COALESCE(record.sluid, 0))
FROM unnest(%s::int8[], %s::int8[], %s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::int8[])
    WITH ORDINALITY AS given(job_number, key_hash, cluster, job, array_task, submit_at, restart, ordinal)
CROSS JOIN LATERAL (
    SELECT * FROM usage_record AS stored
    WHERE stored.source_id = %s::int4 AND stored.job_number = given.job_number::int4
        AND stored.key_hash = given.key_hash AND stored.submit_at = given.submit_at
        AND stored.submit_at >= %s AND stored.submit_at <= %s
    LIMIT 1) AS record
"""  # noqa: S608 - constants only


@dataclass(slots=True)
class Counts:
    """Number of records of a batch by outcome."""

    new: int = 0
    duplicate: int = 0
    corrected: int = 0
    late: int = 0
    too_late: int = 0  # ended before the source was sealed: listed, not counted
    rejected: int = 0
    vanished: int = 0  # open records that a complete listing didn't contain
    core_s: float = 0.0  # change of the buckets
    core_s_of: dict[AccountNames, float] = field(default_factory=dict)  # dry runs only: change by account
    changed_from_us: int | None = None  # first start among the changes
    account_ids: set[int] = field(default_factory=set)
    rejections: list[Rejection] = field(default_factory=list)  # records in the future
    notes: dict[str, int] = field(default_factory=dict)  # of lines about runs, and of runs that lack some
    first_us: int | None = None  # start and end of the records that were made of such lines
    last_us: int | None = None

    def add(self, other: Counts) -> None:
        self.new += other.new
        self.duplicate += other.duplicate
        self.corrected += other.corrected
        self.late += other.late
        self.too_late += other.too_late
        self.rejected += other.rejected
        self.vanished += other.vanished
        self.core_s += other.core_s
        self.changed_from_us = earliest_us(self.changed_from_us, other.changed_from_us)
        self.account_ids |= other.account_ids
        self.rejections += other.rejections
        for name, n in other.notes.items():
            self.notes[name] = self.notes.get(name, 0) + n
        if other.first_us is not None:
            self.first_us = earliest_us(self.first_us, other.first_us)
        if other.last_us is not None:
            self.last_us = max(self.last_us or other.last_us, other.last_us)

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in COUNTED}


def earliest_us(left: int | None, right: int | None) -> int | None:
    return min((us for us in (left, right) if us is not None), default=None)


@dataclass(slots=True)
class StoredVersions:
    """The stored version of each record of a batch: id is 0 without one, run_id is 0 if no run imported it.

    is_other: a different job is stored under the same hash, and this one can't be. may_be: the source has records as
    old, so that a record of the same job may be stored under another key.
    """

    id: I8
    revision: I8
    end_us: I8
    state: I8
    run_id: I8
    billing: F8
    account_id: I8
    is_other: Flags
    start_us: I8
    may_be: Flags
    has_kinds: Flags
    sluid: I8  # 0 if none is stored

    def take(self, chosen: I8 | Flags) -> StoredVersions:
        return StoredVersions(*[getattr(self, name)[chosen] for name in StoredVersions.__slots__])

    @classmethod
    def none(cls, n: int) -> StoredVersions:
        ids, revisions, ends, states, runs, accounts, starts, sluids = np.zeros((8, n), np.int64)
        starts += NO_TIME
        other, may_be, has_kinds = np.zeros((3, n), np.bool_)
        return cls(ids, revisions, ends, states, runs, np.zeros(n), accounts, other, starts, may_be, has_kinds, sluids)


@dataclass(slots=True)
class Classification:
    """Result of comparing a batch with stored versions.

    winners: rows to store. replaced: ids of the versions that they replace, 0 for none. not_newer: rows whose stored
    version is the same or newer. colliding: rows that can't be stored, because another job has their hash.
    """

    winners: I8
    replaced: I8
    not_newer: I8
    colliding: I8
    counts: Counts


def classify(batch: RecordBatch, stored: StoredVersions) -> Classification:
    """Count records as new, duplicate, corrected or late, as if they had arrived one by one, and choose those to
    store.
    """
    end_us = comparable_end(batch.end_us, batch.state)
    comparison = _compare(batch, end_us, stored)
    is_new = (stored.id == 0) & ~stored.is_other
    repeats = _may_repeat(batch)
    once = ~repeats & ~stored.is_other
    colliding = stored.is_other
    counts = Counts(
        new=int((once & is_new).sum()),
        duplicate=int((once & ~is_new & (comparison == 0)).sum()),
        corrected=int((once & ~is_new & (comparison > 0)).sum()),
        late=int((once & ~is_new & (comparison < 0)).sum()),
    )
    winners = np.flatnonzero(once & (is_new | (comparison > 0)))
    if repeats.any():
        colliding = colliding | _collide(batch, np.flatnonzero(repeats & ~stored.is_other))
        more = _classify_repeated(batch, end_us, stored, np.flatnonzero(repeats & ~colliding), counts)
        winners = np.sort(np.concatenate([winners, more]))
    not_newer = np.flatnonzero(~is_new & ~colliding & (comparison <= 0))
    return Classification(winners, stored.id[winners], not_newer, np.flatnonzero(colliding), counts)


def _may_repeat(batch: RecordBatch) -> Flags:
    """Which records share their key hash with another record of the batch."""
    if len(batch) == 1:
        return np.zeros(1, np.bool_)
    hashes = key_hash(batch)
    ordered = np.sort(hashes)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    return np.isin(hashes, repeated) if len(repeated) else np.zeros(len(batch), np.bool_)


def _collide(batch: RecordBatch, rows: I8) -> Flags:
    """Which of these records have the number and hash of another job before them."""
    collide = np.zeros(len(batch), np.bool_)
    key_of: dict[tuple[int, int], tuple[object, ...]] = {}
    numbers = zip(job_numbers(batch.job[rows]).tolist(), key_hash(batch)[rows].tolist(), strict=True)
    for row, number, key in zip(rows.tolist(), numbers, keys_of(batch, rows), strict=True):
        collide[row] = key_of.setdefault(number, key) != key
    return collide


def collision_rejections(batch: RecordBatch, rows: I8) -> list[Rejection]:
    """One rejection for each record that can't be stored beside another job of its hash."""
    rejections = []
    for row in rows.tolist():
        job = batch.job[row].decode("utf-8", "replace")
        message = (
            f"Job {job} can't be told from another job of this source: the hashes of their keys are equal, by chance. "
            "Report it under another number."
        )
        rejections.append(Rejection(int(batch.line[row]), COLLISION, message, f"job {job}"[:120]))
    return rejections


def lock_source(source_id: int) -> None:
    """Lock the records and buckets of this source against other writers until the end of the transaction."""
    with connection.cursor() as cursor:
        cursor.execute(LOCK_SOURCE % source_id)


def find_stored(
    source_id: int, batch: RecordBatch, *, last_submit_us: int | None = None, is_listing: bool = False
) -> StoredVersions:
    """Find the stored version of each key by index; sequential scans are disabled, also without table statistics.

    Records submitted after every stored one, which are most, are new without a query. A vanished version ranks like the
    open version that it closed, so any real end replaces it. In a listing it ranks lower still: a job that is listed
    again never vanished.

    last_submit_us: of the stored records, NO_TIME without any, if the caller has read it under the source's lock.
    """
    stored = StoredVersions.none(len(batch))
    chosen = np.flatnonzero(batch.submit_us <= (_last_submit(source_id) if last_submit_us is None else last_submit_us))
    if not len(chosen):
        return stored
    stored.may_be[chosen] = True
    asked = batch if len(chosen) == len(batch) else batch.take(chosen)
    with join_transaction(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('enable_seqscan', 'off', true)")
        numbers = [int8_array(job_numbers(asked.job)), int8_array(key_hash(asked).view(np.int64))]
        keys = [text_array(asked.cluster), text_array(asked.job), text_array(asked.array_task)]
        times = [timestamptz_array(asked.submit_us), int8_array(asked.restart)]
        span = [instant(int(each)) for each in (asked.submit_us.min(), asked.submit_us.max())]
        columns = pgbinary.fetch_columns(_FIND, [*numbers, *keys, *times, source_id, *span])
        cursor.execute("SELECT set_config('enable_seqscan', 'on', true)")
    if columns:
        asked_place, stored_id, revision, end_us, state, run_and_note, billing, account_id, start_us, sluid = columns
        index = chosen[asked_place]
        vanished, is_other = (run_and_note & 2).astype(np.bool_), (run_and_note & 1).astype(np.bool_)
        open_state = np.full(len(state), -1) if is_listing else np.where(state == FINISHED, RUNNING, PENDING)
        state = np.where(vanished, open_state, state)
        stored.is_other[index] = is_other
        index, same = index[~is_other], ~is_other
        stored.id[index], stored.revision[index], stored.state[index] = stored_id[same], revision[same], state[same]
        stored.end_us[index] = comparable_end(end_us, state)[same]
        stored.run_id[index] = run_and_note[same] >> 3
        stored.has_kinds[index] = (run_and_note[same] & 4).astype(np.bool_)
        stored.billing[index], stored.account_id[index] = billing[same], account_id[same]
        stored.start_us[index], stored.sluid[index] = start_us[same], sluid[same]
    return stored


def _last_submit(source_id: int) -> int:
    """Time of the last submission among the stored records; NO_TIME if there are none."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT last_submit_at FROM usage_source WHERE id = %s", [source_id])
        row = cursor.fetchone()
    return NO_TIME if row is None or row[0] is None else microseconds(row[0])


def keys_of(batch: RecordBatch, chosen: I8) -> list[tuple[object, ...]]:
    columns = (batch.cluster, batch.job, batch.array_task, batch.submit_us, batch.restart)
    return list(zip(*(column[chosen].tolist() for column in columns), strict=True))


def _compare(batch: RecordBatch, end_us: I8, stored: StoredVersions) -> I8:
    """Sign of (incoming − stored) in the order of revision, end, state. Of the same version, the one that says more is
    newer: exact billing, or kinds of resources or a SLUID where none are stored.
    """
    by_state = np.sign(batch.state - stored.state)
    by_end = (end_us > stored.end_us).astype(np.int64) - (end_us < stored.end_us)
    by_revision = np.sign(batch.revision - stored.revision)
    by_version = np.where(by_revision != 0, by_revision, np.where(by_end != 0, by_end, by_state))
    return np.where(by_version != 0, by_version, _says_more(batch, stored).astype(np.int64))


def _says_more(batch: RecordBatch, stored: StoredVersions) -> Flags:
    """Whether the stored billing is the incoming one truncated, as Slurm records it, or only the incoming one has
    kinds or a SLUID.
    """
    is_exact: Flags = (stored.billing == np.floor(batch.billing)) & (batch.billing > stored.billing)
    has_more: Flags = ((batch.kind > 0) & ~stored.has_kinds) | ((batch.sluid != 0) & (stored.sluid == 0))
    return is_exact | has_more


def comparable_end(end_us: I8, state: I8) -> I8:
    return np.where(state == WITHDRAWN, _WITHDRAWN_END, np.where(state == FINISHED, end_us, NO_TIME))


def _classify_repeated(batch: RecordBatch, end_us: I8, stored: StoredVersions, rows: I8, counts: Counts) -> I8:
    """Classify records with repeated keys one by one; returns the last accepted version of each key."""
    newest: dict[tuple[object, ...], tuple[int, int, int]] = {}
    winner: dict[tuple[object, ...], int] = {}
    says_more = _says_more(batch, stored)
    for row, key in zip(rows.tolist(), keys_of(batch, rows), strict=True):
        version = (int(batch.revision[row]), int(end_us[row]), int(batch.state[row]))
        if key not in newest and stored.id[row]:
            newest[key] = (int(stored.revision[row]), int(stored.end_us[row]), int(stored.state[row]))
        known = newest.get(key)
        if known is None:
            counts.new += 1
        elif version == known and (key in winner or not says_more[row]):
            counts.duplicate += 1
            continue
        elif version < known:
            counts.late += 1
            continue
        else:
            counts.corrected += 1
        newest[key], winner[key] = version, row
    return np.fromiter(winner.values(), np.int64, len(winner))
