"""Decide which version of each record is the latest, by comparing incoming records with stored ones."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from apps.usage.parsers.base import (
    I8,
    AccountNames,
    Flags,
    RecordBatch,
    Rejection,
)
from apps.usage.records.open_reports import OpenReports
from apps.usage.records.record_keys import job_numbers, key_hash
from apps.usage.records.stored_versions import StoredVersions, comparable_end

COUNTED = ("new", "duplicate", "corrected", "late", "too_late", "rejected")
COLLISION = "same_hash"


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


def classify(batch: RecordBatch, stored: StoredVersions, reports: OpenReports | None) -> Classification:
    """Count records as new, duplicate, corrected or late, as if they had arrived one by one, and choose those to
    store. reports: of the batch; None if all its jobs have ended.
    """
    end_us = comparable_end(batch.end_us, batch.state)
    says_more = _says_more(batch, stored)
    if reports is not None:
        says_more |= reports.differ_from_stored
    comparison = _compare(batch, end_us, stored, says_more)
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
        rows = np.flatnonzero(repeats & ~colliding)
        more = _classify_repeated(batch, end_us, stored, rows, says_more, reports, counts)
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


def keys_of(batch: RecordBatch, chosen: I8) -> list[tuple[object, ...]]:
    columns = (batch.cluster, batch.job, batch.array_task, batch.submit_us, batch.restart)
    return list(zip(*(column[chosen].tolist() for column in columns), strict=True))


def _compare(batch: RecordBatch, end_us: I8, stored: StoredVersions, says_more: Flags) -> I8:
    """Sign of (incoming − stored) in the order of revision, end, state. Of the same version, one that says more is
    newer.
    """
    by_state = np.sign(batch.state - stored.state)
    by_end = (end_us > stored.end_us).astype(np.int64) - (end_us < stored.end_us)
    by_revision = np.sign(batch.revision - stored.revision)
    by_version = np.where(by_revision != 0, by_revision, np.where(by_end != 0, by_end, by_state))
    return np.where(by_version != 0, by_version, says_more.astype(np.int64))


def _says_more(batch: RecordBatch, stored: StoredVersions) -> Flags:
    """Whether the stored billing is the incoming one truncated, as Slurm records it, or only the incoming one has
    kinds or a SLUID.
    """
    is_exact: Flags = (stored.billing == np.floor(batch.billing)) & (batch.billing > stored.billing)
    has_more: Flags = ((batch.kind > 0) & ~stored.has_kinds) | ((batch.sluid != 0) & (stored.sluid == 0))
    return is_exact | has_more


def _classify_repeated(
    batch: RecordBatch,
    end_us: I8,
    stored: StoredVersions,
    rows: I8,
    says_more: Flags,
    reports: OpenReports | None,
    counts: Counts,
) -> I8:
    """Classify records with repeated keys one by one; returns the last accepted version of each key."""
    newest: dict[tuple[object, ...], tuple[int, int, int]] = {}
    winner: dict[tuple[object, ...], int] = {}
    for row, key in zip(rows.tolist(), keys_of(batch, rows), strict=True):
        version = (int(batch.revision[row]), int(end_us[row]), int(batch.state[row]))
        if key not in newest and stored.id[row]:
            newest[key] = (int(stored.revision[row]), int(stored.end_us[row]), int(stored.state[row]))
        known = newest.get(key)
        if known is None:
            counts.new += 1
        elif version == known and not (_differs(reports, winner[key], row) if key in winner else says_more[row]):
            counts.duplicate += 1
            continue
        elif version < known:
            counts.late += 1
            continue
        else:
            counts.corrected += 1
        newest[key], winner[key] = version, row
    return np.fromiter(winner.values(), np.int64, len(winner))


def _differs(reports: OpenReports | None, first: int, second: int) -> bool:
    return reports is not None and reports.differ(first, second)
