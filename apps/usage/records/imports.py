"""Run an import: read a file in pieces, and store each piece with its cursor in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
from django.db.models import Q

from apps.accounts import audit_log as audit
from apps.accounts.account_ids import known_account_ids
from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.core.errors import DomainError, Invalid
from apps.core.postgresql import analyze_grown
from apps.runs.fault_points import fault_point
from apps.runs.leases import Lease, RunCancelled
from apps.runs.models import Run
from apps.runs.services import work_other_runs
from apps.usage.models import Import, RejectedLine, Source
from apps.usage.parsers.base import (
    FINISHED,
    I8,
    JobClassKey,
    Parsed,
    Reading,
    RecordBatch,
    Rejection,
    RunEvent,
    count_rejected,
    instant,
    microseconds,
)
from apps.usage.parsers.registry import FORMATS, parse_checked
from apps.usage.records import uploads
from apps.usage.records.ingest import (
    GROWING,
    IMPORT,
    account_keys,
    fill_defaults,
    ingest_batch,
    reject_ahead,
    split_off_nameless,
    stored_job_classes,
)
from apps.usage.records.job_identity import identify_jobs
from apps.usage.records.open_reports import OpenReports, StoredNames, Texts
from apps.usage.records.partitions import make_partitions
from apps.usage.records.record_keys import U8, key_hash
from apps.usage.records.stored_runs import Name, rows_by_lines
from apps.usage.records.stored_versions import StoredVersions, comparable_end, find_stored
from apps.usage.records.too_late import is_too_late
from apps.usage.records.versions import COUNTED, Counts, classify, earliest_us

Key = TypeVar("Key", AccountKey, JobClassKey)
NO_PROCESSORS = "no_processors"  # key of a note, besides those of parsers


class DryRun:
    """Counts what an import would do, batch by batch, remembering the versions that earlier batches would have
    stored.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lines: dict[Name, list[RunEvent]] = {}  # of jobs whose lines make their records together
        self._seen: list[tuple[U8, StoredVersions]] = []  # hashes of keys in order, with their versions
        self._names = _NamesOfDryRun()

    def classify(self, batch: RecordBatch, at: datetime) -> Counts:
        if not len(batch) and not batch.events:
            return Counts()
        batch, rejections = reject_ahead(batch, self._source, at)
        counts = Counts(rejected=len(rejections), rejections=rejections)
        if batch.are_runs:
            batch = rows_by_lines(batch, find_stored(self._source.pk, batch), self._lines)
        batch, _known, nameless = split_off_nameless(fill_defaults(batch, self._source), self._source)
        counts.rejected += len(nameless)
        counts.rejections += nameless
        if len(batch):
            self._classify(batch, counts)
        return counts

    def _classify(self, batch: RecordBatch, counts: Counts) -> None:
        batch, stored = identify_jobs(batch, self._stored(batch), self._stored)
        sealed_at = self._source.sealed_before_at
        if sealed_at is not None:
            late = is_too_late(batch, stored, microseconds(sealed_at))
            counts.too_late = int(late.sum())
            batch, stored = batch.take(~late), stored.take(~late)
        account_id, job_class_id = self._names.accounts(batch, self._source.namespace), self._names.job_classes(batch)
        classified = classify(batch, stored, OpenReports(batch, stored, account_id, job_class_id, names=self._names))
        counts.add(classified.counts)
        self._remember(batch, classified.winners, account_id, job_class_id)
        finished = classified.winners[batch.state[classified.winners] == FINISHED]
        seconds = (batch.end_us[finished] - batch.start_us[finished]) / 1e6
        core_s = seconds * batch.cpus[finished]
        counts.core_s = float(core_s.sum())
        for who, amount in enumerate(np.bincount(batch.who[finished], core_s, minlength=len(batch.people)).tolist()):
            counts.core_s_of[batch.people[who]] = counts.core_s_of.get(batch.people[who], 0.0) + amount

    def _stored(self, batch: RecordBatch) -> StoredVersions:
        """Versions stored in the table, overridden by those that this dry run would have stored."""
        stored, hashes = find_stored(self._source.pk, batch), key_hash(batch)
        for seen_hash, seen in self._seen:
            index = np.minimum(np.searchsorted(seen_hash, hashes), len(seen_hash) - 1)
            known = np.flatnonzero(seen_hash[index] == hashes)
            stored.put(known, seen.take(index[known]))
        return stored

    def _remember(self, batch: RecordBatch, winners: I8, account_id: I8, job_class_id: I8) -> None:
        if not len(winners):
            return
        hashes = key_hash(batch)
        winners = winners[np.argsort(hashes[winners])]
        chosen, seen = batch.take(winners), StoredVersions.none(len(winners))
        seen.id[:] = -1
        for name in ("revision", "state", "start_us", "billing", "sluid", "cpus", "gpus", "requested_s"):
            getattr(seen, name)[:] = getattr(chosen, name)
        seen.end_us[:] = comparable_end(chosen.end_us, chosen.state)
        seen.has_kinds[:] = chosen.kind > 0
        seen.account_id[:], seen.job_class_id[:] = account_id[winners], job_class_id[winners]
        self._seen.append((hashes[winners], seen))


class _NamesOfDryRun:
    """Ids of accounts and job classes, of which those that aren't stored yet are below zero; and their names."""

    def __init__(self) -> None:
        self._stored = StoredNames()
        self._accounts: dict[AccountKey, int] = {}
        self._job_classes: dict[JobClassKey, int] = {}

    def accounts(self, batch: RecordBatch, namespace: str) -> I8:
        keys, index = account_keys(batch, np.arange(len(batch)), namespace)
        known = known_account_ids(keys)
        return np.array([known.get(key) or _number_of(self._accounts, key) for key in keys], np.int64)[index]

    def job_classes(self, batch: RecordBatch) -> I8:
        known = stored_job_classes(batch.job_classes)
        ids = [known.get(key) or _number_of(self._job_classes, key) for key in batch.job_classes]
        return np.array(ids, np.int64)[batch.job_class]

    def of_accounts(self, ids: Sequence[int]) -> dict[int, Texts]:
        return {**self._stored.of_accounts(ids), **{number: key[1:] for key, number in self._accounts.items()}}

    def of_job_classes(self, ids: Sequence[int]) -> dict[int, Texts]:
        return {**self._stored.of_job_classes(ids), **{number: tuple(key) for key, number in self._job_classes.items()}}


def _number_of(numbers: dict[Key, int], key: Key) -> int:
    return numbers.setdefault(key, -1 - len(numbers))


logger = logging.getLogger(__name__)

KIND = IMPORT
MOST_REJECTED_KEPT = 10_000
MOST_NAMES_KEPT = 10_000
_NUMBERS = (*COUNTED, "lines")


def run_import(run: Run, lease: Lease) -> dict[str, Any]:
    """Handler of `usage_import`: resumes behind the last committed piece; a dry run restarts from the beginning."""
    usage_import = Import.objects.select_related("source", "owner").get(run=run)
    try:
        result = _work(usage_import, run, lease)
    except (DomainError, RunCancelled):
        uploads.remove(usage_import.stored_path)
        raise
    if not usage_import.dry_run:
        uploads.remove(usage_import.stored_path)
    # Stored files of unfinished imports, and of dry runs that can still be confirmed.
    unfinished = Q(run__state__in=(Run.State.QUEUED, Run.State.RUNNING))
    confirmable = Q(dry_run=True, run__finished_at__gte=lease.clock() - uploads.KEPT)
    uploads.remove_unused(
        list(Import.objects.filter(unfinished | confirmable).values_list("stored_path", flat=True)), at=lease.clock()
    )
    return result


def _work(usage_import: Import, run: Run, lease: Lease) -> dict[str, Any]:
    if not uploads.exists(usage_import.stored_path):
        raise Invalid("The file of this import was removed: send it again.", code="file_gone")
    if usage_import.dry_run:
        return _finish(usage_import, lease, _read(usage_import, lease, ImportTotals({}), DryRun(usage_import.source)))
    tally = ImportTotals(run.cursor)
    if usage_import.all_or_nothing and not tally.is_checked:
        tally = _check(usage_import, lease)
    return _finish(usage_import, lease, _read(usage_import, lease, tally, None))


def _read(usage_import: Import, lease: Lease, tally: ImportTotals, dry: DryRun | None) -> ImportTotals:
    """Read the file from the position of the tally to its end."""
    with uploads.open_unpacked(usage_import.stored_path) as stream:
        collector = FORMATS[usage_import.format]
        named = usage_import.time_zone or usage_import.source.time_zone
        reading = Reading(lease.clock(), ZoneInfo(named) if named else None, usage_import.source.billing)
        head = uploads.head_of(usage_import.stored_path)
        for parsed in parse_checked(collector, stream, reading, head=head, resume=tally.resume or None):
            if dry is None:
                make_partitions(parsed.batch.submit_us, until=lease.clock())
            with lease.fenced() as held:
                _import_piece(usage_import, held, parsed, tally, dry, lease.clock())
            logger.info("Import %s: %s bytes", usage_import.pk, parsed.offset)
            fault_point("usage.import.after_commit")
            analyze_grown(*GROWING)
            work_other_runs(lease)
    return tally


def _check(usage_import: Import, lease: Lease) -> ImportTotals:
    """Check the whole file before storing any of it, for all-or-nothing imports. Restarts after a crash.

    Raises:
        Invalid: some lines were rejected; they are listed, and nothing is stored.
    """
    totals = _read(usage_import, lease, ImportTotals({}), DryRun(usage_import.source))
    n_bad = totals.numbers["rejected"]
    if n_bad:
        raise Invalid(
            f"{n_bad} of {totals.numbers['lines']} lines are invalid, so none was imported: "
            "correct them, or import without them.",
            code="records_rejected",
        )
    with lease.fenced() as held:
        tally = ImportTotals({"is_checked": True, "read_before": held.progress_done})
        held.cursor, held.counts = tally.as_cursor(), dict(tally.numbers)
        held.save(update_fields=["cursor", "counts"])
    fault_point("usage.import.after_check")
    return tally


def _import_piece(
    usage_import: Import, held: Run, parsed: Parsed, tally: ImportTotals, dry: DryRun | None, at: datetime
) -> None:
    """Store one piece: records, buckets, rejected lines and cursor, in the caller's transaction."""
    batch = parsed.batch
    if dry is not None:
        counts = dry.classify(batch, at)
    else:
        n_rejected = count_rejected(parsed.rejections)
        counts = ingest_batch(source=usage_import.source, rows=batch, at=at, run=held, n_rejected=n_rejected)
    fault_point("usage.import.after_ingest")
    rejections = sorted([*parsed.rejections, *counts.rejections], key=lambda rejection: rejection.line)
    kept = rejections[: max(MOST_REJECTED_KEPT - tally.numbers["rejected"], 0)]
    lines = [
        RejectedLine(usage_import=usage_import, line=r.line, code=r.code, message=r.message[:512], excerpt=r.excerpt)
        for r in kept
    ]
    RejectedLine.objects.bulk_create(lines, ignore_conflicts=True)
    tally.add(counts, parsed, _accepted(batch, usage_import.source, at))
    held.cursor = tally.as_cursor() if dry is None else {}  # dry runs and checks restart after a crash
    held.counts = dict(tally.numbers)
    held.progress_done = max(held.progress_done, tally.read_before + parsed.offset)
    held.save(update_fields=["cursor", "counts", "progress_done"])


def _accepted(batch: RecordBatch, source: Source, at: datetime) -> RecordBatch:
    """Records neither in the future nor finished before the source was sealed."""
    kept, _rejections = reject_ahead(batch, source, at)
    if source.sealed_before_at is None:
        return kept
    return kept.take((kept.state != FINISHED) | (kept.end_us >= microseconds(source.sealed_before_at)))


def _finish(usage_import: Import, lease: Lease, tally: ImportTotals) -> dict[str, Any]:
    at = lease.clock()
    result = tally.result()
    with lease.fenced():
        Import.objects.filter(pk=usage_import.pk).update(
            first_start_at=instant(tally.first_us) if tally.first_us is not None else None,
            last_end_at=instant(tally.last_us) if tally.last_us is not None else None,
        )
        lease.finish(result, at)
        if not usage_import.dry_run:
            owner = Actor(user=usage_import.owner, via="worker")
            details = {**tally.numbers, "file": usage_import.file_name, "sha256": usage_import.sha256}
            audit.record(actor=owner, verb="usage.imported", at=at, subject=usage_import.source.slug, details=details)
        fault_point("usage.import.before_finish")
    return result


@dataclass(frozen=True)
class Preview:
    """Effect of importing a file into a source that does not exist yet. rejections: the first 10,000."""

    result: dict[str, Any]
    rejections: list[Rejection]


def preview(source: Source, stored: uploads.StoredFile, format_name: str, *, at: datetime) -> Preview:
    """Dry run for an unsaved source, without an import; nothing is stored."""
    tally, dry, rejections = ImportTotals({}), DryRun(source), list[Rejection]()
    reading = Reading(at, ZoneInfo(source.time_zone) if source.time_zone else None, source.billing)
    with uploads.open_unpacked(stored.name) as stream:
        for parsed in parse_checked(FORMATS[format_name], stream, reading, head=stored.head):
            counts = dry.classify(parsed.batch, at)
            new_rejections = sorted([*parsed.rejections, *counts.rejections], key=lambda rejection: rejection.line)
            rejections += new_rejections[: MOST_REJECTED_KEPT - len(rejections)]
            tally.add(counts, parsed, _accepted(parsed.batch, source, at))
    return Preview(tally.result(), rejections)


class ImportTotals:
    """Totals of an import so far; stored in the run's cursor."""

    def __init__(self, cursor: dict[str, Any]) -> None:
        self.resume: dict[str, Any] = cursor.get("resume", {})
        self.is_checked: bool = cursor.get("is_checked", False)  # all or nothing: the check found no invalid line
        self.read_before: int = cursor.get("read_before", 0)  # bytes read by the check
        self.numbers: dict[str, int] = cursor.get("numbers", dict.fromkeys(_NUMBERS, 0))
        self.notes: dict[str, int] = cursor.get("notes", {})
        self.by_code: dict[str, int] = cursor.get("by_code", {})
        self.core_s: float = cursor.get("core_s", 0.0)
        self.core_s_of: dict[Any, float] = {}  # dry runs only, by account name
        self.accounts: set[Any] = set(cursor.get("accounts", []))  # account ids; in a dry run, account names
        self.first_us: int | None = cursor.get("first_us")
        self.last_us: int | None = cursor.get("last_us")
        self.changed_from_us: int | None = cursor.get("changed_from_us")

    def add(self, counts: Counts, parsed: Parsed, accepted: RecordBatch) -> None:
        self.resume = parsed.resume
        for name, n in counts.as_dict().items():
            self.numbers[name] += n
        self.numbers["rejected"] += count_rejected(parsed.rejections)
        self.numbers["lines"] += parsed.n_lines
        for rejection in (*parsed.rejections, *counts.rejections):
            self.by_code[rejection.code] = self.by_code.get(rejection.code, 0) + rejection.n_lines
        for name, n in parsed.notes.items():
            self.notes[name] = self.notes.get(name, 0) + n
        for name, n in counts.notes.items():
            self.notes[name] = self.notes.get(name, 0) + n
        self.core_s += counts.core_s
        for who, amount in counts.core_s_of.items():
            self.core_s_of[who] = self.core_s_of.get(who, 0.0) + amount
        self.changed_from_us = earliest_us(self.changed_from_us, counts.changed_from_us)
        self.accounts |= counts.account_ids or {parsed.batch.people[n] for n in np.unique(parsed.batch.who).tolist()}
        self._add_period(accepted)
        if counts.first_us is not None and counts.last_us is not None:
            self._extend_period(counts.first_us, counts.last_us)

    def _add_period(self, batch: RecordBatch) -> None:
        """Extend the period by accepted records, and count finished ones without processors, which have no usage."""
        ended = batch.state == FINISHED
        idle = ended & (batch.cpus == 0) & (batch.gpus == 0) & (batch.end_us > batch.start_us) & ~batch.is_charge
        if idle.any():
            self.notes[NO_PROCESSORS] = self.notes.get(NO_PROCESSORS, 0) + int(idle.sum())
        if ended.any():
            self._extend_period(int(batch.start_us[ended].min()), int(batch.end_us[ended].max()))

    def _extend_period(self, first_us: int, last_us: int) -> None:
        self.first_us = first_us if self.first_us is None else min(first_us, self.first_us)
        self.last_us = last_us if self.last_us is None else max(last_us, self.last_us)

    def as_cursor(self) -> dict[str, Any]:
        return {
            "resume": self.resume,
            "is_checked": self.is_checked,
            "read_before": self.read_before,
            "numbers": self.numbers,
            "notes": self.notes,
            "by_code": self.by_code,
            "core_s": self.core_s,
            "accounts": sorted(account for account in self.accounts if isinstance(account, int)),
            "first_us": self.first_us,
            "last_us": self.last_us,
            "changed_from_us": self.changed_from_us,
        }

    def result(self) -> dict[str, Any]:
        new_accounts = sorted(account for account in self.accounts if not isinstance(account, int))
        names, core_s = (
            [list(account) for account in new_accounts],
            [self.core_s_of.get(account, 0.0) for account in new_accounts],
        )
        of_dry_run = {"names": names, "core_s_of_names": core_s} if 0 < len(names) <= MOST_NAMES_KEPT else {}
        return {
            **of_dry_run,
            **self.numbers,
            "notes": self.notes,
            "by_code": self.by_code,
            "n_accounts": len(self.accounts),
            "cpu_s": self.core_s,
        }
