"""Jobs of a log whose lines make their records together: kept line by line, and made again when a line is added.

A line of such a job may come in any file: a suspension in Monday's, the end in Tuesday's, and Sunday's later or twice.
So all lines of the job are kept (`RunLine`), and its records are always those that all of them mean, as `history_of`
says. Most jobs have one run and no other lines: their record says as much as their lines do, and replaces them.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from django.db.models import Max

from apps.core.resource_kinds import kinds_of_object
from apps.runs.models import Run as WorkerRun
from apps.usage.models import Record, ReplacedRecord, RunLine, Source, UnclearJob
from apps.usage.parsers.base import (
    FINISHED,
    I8,
    NO_TIME,
    STATES,
    Flags,
    Rates,
    RecordBatch,
    RecordRow,
    RunEvent,
    concatenate_batches,
    instant,
    microseconds,
)
from apps.usage.parsers.runs import as_json, from_json, history_of, line_of
from apps.usage.records.record_keys import job_numbers
from apps.usage.records.stored_versions import StoredVersions

Name = tuple[str, str]  # job and array task
MOST_OF_JOB = 20_000  # lines: all of them are read again when one is added
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNEXPLAINED = "lines_unexplained"  # note of an import


@dataclass(slots=True)
class RunChanges:
    """What a piece of such a log changes.

    batch: rows that are records by themselves. rebuilt: the records of jobs whose lines make them together, where they
    are not as stored, or nothing of the job is new (is_same). removed: stored records that no line means any more.
    notes: of an import. resent_by: for each line that was known, the run that imported it.
    """

    batch: RecordBatch
    rebuilt: RecordBatch = field(default_factory=lambda: RecordBatch.from_rows([]))
    is_same: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    removed: RecordBatch = field(default_factory=lambda: RecordBatch.from_rows([]))
    notes: Counter[str] = field(default_factory=Counter)
    resent_by: I8 = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(slots=True)
class _Stored:
    """A stored record as a row, and the run that imported it."""

    row: RecordRow
    run_id: int | None


@dataclass(slots=True)
class _Kept:
    """A kept line, the run that imported it, and whether its table has it."""

    line: RunEvent
    run_id: int | None
    is_stored: bool


def settle_runs(
    source: Source,
    batch: RecordBatch,
    stored: StoredVersions,
    *,
    run: WorkerRun | None = None,
    sealed_us: int | None = None,
    undoing: Sequence[int] = (),
) -> RunChanges:
    """Set apart the rows and events of jobs whose lines make their records together, and make these.

    stored: the version of each row. Lines of imports that are being undone don't count. Keeps the lines.
    """
    named = _names(batch)
    wanted = names_in_question(batch, named, stored)
    wanted |= _with_lines(source, {name for name in named if name not in wanted})
    if not wanted:
        return RunChanges(batch)
    received = _received(batch, named, wanted)
    known = _known_lines(source, wanted, undoing)
    records = _stored_records(source, wanted)
    result = RunChanges(batch.take(np.array([name not in wanted for name in named], np.bool_)))
    rebuilt: list[tuple[int, RecordRow, bool]] = []
    removed: list[RecordRow] = []
    unclear: dict[Name, set[str]] = {}
    resent: list[int] = []
    for name in wanted:
        of_job = known.get(name) or _lines_of_records(records[name])
        digests = {digest_of(kept.line): kept for kept in of_job}
        new = {digest_of(line): line for line in received[name]}
        resent += [digests[digest].run_id or 0 for digest in new if digest in digests and digests[digest].is_stored]
        fresh = {digest: line for digest, line in new.items() if digest not in digests}
        most = max(MOST_OF_JOB - len(of_job), 0)
        if len(fresh) > most:
            result.notes["lines_ignored"] += len(fresh) - most
            fresh = dict(list(fresh.items())[:most])
        run_id = run.pk if run is not None else None
        of_job += [_Kept(line, run_id, is_stored=False) for line in fresh.values()]
        known[name] = of_job
        history = history_of(kept.line for kept in of_job)
        unclear[name] = history.gaps
        result.notes[_UNEXPLAINED] += sum(digest_of(line) in new for line in history.unexplained)
        for gap in history.gaps:
            result.notes[gap] += 1
        at_line = received[name][-1].line if received[name] else 0
        changes, gone = _changes(source, history.rows, records[name], sealed_us)
        rebuilt += [(at_line, row, is_same) for row, is_same in changes if not is_same or not fresh]
        removed += gone
    _keep(source, known)
    keep_unclear(source, unclear, known)
    result.rebuilt = RecordBatch.from_rows([row for _, row, _ in rebuilt], [line for line, _, _ in rebuilt])
    result.is_same = np.array([is_same for _, _, is_same in rebuilt], np.bool_)
    result.removed = RecordBatch.from_rows(removed)
    result.resent_by = np.array(resent, np.int64)
    return result


def rebuild_jobs(source: Source, names: set[Name], *, sealed_us: int | None) -> RunChanges:
    """The records of these jobs by the lines that are left, of those that have any."""
    known = _known_lines(source, names, ())
    records = _stored_records(source, set(known))
    rebuilt: list[RecordRow] = []
    removed: list[RecordRow] = []
    unclear: dict[Name, set[str]] = {name: set() for name in names}
    for name, of_job in known.items():
        history = history_of(kept.line for kept in of_job)
        unclear[name] = history.gaps
        changes, gone = _changes(source, history.rows, records[name], sealed_us)
        rebuilt += [row for row, is_same in changes if not is_same]
        removed += gone
    keep_unclear(source, unclear, known)
    return RunChanges(
        RecordBatch.from_rows([]),
        RecordBatch.from_rows(rebuilt),
        np.zeros(len(rebuilt), np.bool_),
        RecordBatch.from_rows(removed),
    )


def rows_by_lines(batch: RecordBatch, stored: StoredVersions, lines: dict[Name, list[RunEvent]]) -> RecordBatch:
    """The batch with the records that its lines and these mean, which are added to: for dry runs, which keep none."""
    named = _names(batch)
    wanted = names_in_question(batch, named, stored) | lines.keys() & set(named)
    if not wanted:
        return batch
    rows: list[RecordRow] = []
    numbers: list[int] = []
    for name, received in _received(batch, named, wanted).items():
        lines.setdefault(name, []).extend(received)
        of_job = history_of(lines[name]).rows
        rows += of_job
        numbers += [received[-1].line] * len(of_job)
    simple = batch.take(np.array([name not in wanted for name in named], np.bool_))
    simple.events = ()
    return concatenate_batches([simple, RecordBatch.from_rows(rows, numbers)])


def names_in_question(batch: RecordBatch, named: Sequence[Name], stored: StoredVersions) -> set[Name]:
    """Jobs whose rows are not all that is known of them: by their events, or by another run."""
    wanted = {(event.job, event.array_task) for event in batch.events}
    another = (stored.id > 0) & (stored.start_us != NO_TIME) & (batch.start_us != NO_TIME)
    another &= stored.start_us != batch.start_us
    wanted |= {named[row] for row in np.flatnonzero(another).tolist()}
    starts: dict[Name, int] = {}
    for name, start_us in zip(named, batch.start_us.tolist(), strict=True):
        if start_us != NO_TIME and starts.setdefault(name, start_us) != start_us:
            wanted.add(name)
    return wanted - _with_own_end(batch, named, wanted, another)


def _with_own_end(batch: RecordBatch, named: Sequence[Name], wanted: set[Name], another: Flags) -> set[Name]:
    """Jobs that were deleted while they ran, and whose end the batch has: it says all that their deletion does."""
    plain: set[Name] = set()
    events: dict[Name, list[RunEvent]] = defaultdict(list)
    for event in batch.events:
        events[event.job, event.array_task].append(event)
    only_gone = {
        name for name, of_job in events.items() if all(each.kind == "gone" and each.row is None for each in of_job)
    }
    rows: dict[Name, list[int]] = defaultdict(list)
    for place, name in enumerate(named):
        if name in only_gone:
            rows[name].append(place)
    for name, places in rows.items():
        starts = {int(batch.start_us[place]) for place in places} - {NO_TIME}
        ends = [int(batch.end_us[place]) for place in places if batch.state[place] == FINISHED]
        at_us = [event.at_us for event in events[name]]
        if (
            len(starts) == 1
            and ends
            and not another[places].any()
            and min(starts) < min(at_us) <= max(at_us) <= max(ends)
        ):
            plain.add(name)
    return plain & wanted


def _received(batch: RecordBatch, named: Sequence[Name], wanted: set[Name]) -> dict[Name, list[RunEvent]]:
    """The lines of these jobs in the batch, in their order."""
    lines: dict[Name, list[RunEvent]] = {name: [] for name in wanted}
    for place, name in enumerate(named):
        if name in wanted:
            lines[name].append(line_of(_row_at(batch, place), int(batch.line[place])))
    for event in batch.events:
        if (event.job, event.array_task) in wanted:
            lines[event.job, event.array_task].append(event)
    return {name: sorted(of_job, key=lambda each: each.line) for name, of_job in lines.items()}


def _with_lines(source: Source, names: set[Name]) -> set[Name]:
    """Those of which lines are kept."""
    if not names or not RunLine.objects.filter(source=source).exists():
        return set()
    jobs = list({job for job, _ in names})
    return names & set(RunLine.objects.filter(source=source, job__in=jobs).values_list("job", "array_task").distinct())


def _known_lines(source: Source, names: set[Name], undoing: Sequence[int]) -> dict[Name, list[_Kept]]:
    lines: dict[Name, list[_Kept]] = defaultdict(list)
    rows = RunLine.objects.filter(source=source, job__in=list({job for job, _ in names})).exclude(run__in=undoing)
    for each in rows.order_by("pk"):
        if (each.job, each.array_task) in names:
            lines[each.job, each.array_task].append(_Kept(event_of(each), each.run_id, is_stored=True))
    return lines


def event_of(line: RunLine) -> RunEvent:
    walltime_s, row = line.values.get("walltime_s"), from_json(line.values.get("row"))
    at_us = microseconds(line.happened_at)
    return RunEvent(line.kind, line.job, line.array_task, at_us, 0, Rates(*line.rates), row, walltime_s)


def _values(line: RunEvent) -> dict[str, Any]:
    values = {"row": as_json(line.row), "walltime_s": line.walltime_s}
    return {name: value for name, value in values.items() if value is not None}


def digest_of(line: RunEvent) -> int:
    """64 bits of all that a line says, but for its job."""
    content = json.dumps([line.kind, line.at_us, list(line.rates), _values(line)], sort_keys=True)
    return int.from_bytes(hashlib.blake2b(content.encode(), digest_size=8).digest(), signed=True)


def _lines_of_records(records: Sequence[_Stored]) -> list[_Kept]:
    """Lines in the place of stored records. A withdrawn record has none."""
    open_or_ended = [each for each in records if each.row.state != "withdrawn" and not each.row.revision]
    return [_Kept(line_of(_bare(each.row)), each.run_id, is_stored=False) for each in open_or_ended]


def _keep(source: Source, known: Mapping[Name, Sequence[_Kept]], *, is_received: bool = True) -> None:
    """Store new lines. is_received: a line of an import that is being undone is now of the one that sent it again."""
    lines = [
        RunLine(
            source=source,
            run_id=kept.run_id,
            job=kept.line.job,
            array_task=kept.line.array_task,
            kind=kept.line.kind,
            happened_at=_at(kept.line.at_us),
            rates=list(kept.line.rates),
            values=_values(kept.line),
            digest=digest_of(kept.line),
        )
        for of_job in known.values()
        for kept in of_job
        if not kept.is_stored
    ]
    if is_received:
        key = ("source", "job", "array_task", "digest")
        RunLine.objects.bulk_create(lines, update_conflicts=True, unique_fields=key, update_fields=["run"])
    else:
        RunLine.objects.bulk_create(lines, ignore_conflicts=True)


def keep_unclear(source: Source, unclear: Mapping[Name, set[str]], known: Mapping[Name, Sequence[_Kept]]) -> None:
    """Name the jobs of which lines are missing; no longer those of which none is."""
    named = UnclearJob.objects.filter(source=source, job__in=list({job for job, _ in unclear}))
    gone = [each.pk for each in named if (each.job, each.array_task) in unclear]
    UnclearJob.objects.filter(pk__in=gone).delete()
    UnclearJob.objects.bulk_create(
        UnclearJob(
            source=source,
            job=name[0],
            array_task=name[1],
            gaps=sorted(gaps),
            last_at=_at(max(kept.line.at_us for kept in known[name])),
        )
        for name, gaps in unclear.items()
        if gaps
    )


def _stored_records(source: Source, names: set[Name]) -> defaultdict[Name, list[_Stored]]:
    records: defaultdict[Name, list[_Stored]] = defaultdict(list)
    if not names:
        return records
    jobs = list({job for job, _ in names})
    numbers = np.unique(job_numbers(np.array([job.encode() for job in jobs], dtype=np.bytes_))).tolist()
    of_source = Record.objects.filter(source_id=source.pk, cluster=source.cluster)
    for record in of_source.filter(job_number__in=numbers, job__in=jobs).select_related("account", "job_class"):
        if (record.job, record.array_task) in names:
            records[record.job, record.array_task].append(_Stored(row_of(record), record.run_id))
    return records


def _changes(
    source: Source, rows: Iterable[RecordRow], records: Sequence[_Stored], sealed_us: int | None
) -> tuple[list[tuple[RecordRow, bool]], list[RecordRow]]:
    """Each row with whether it is stored so, and the stored rows that are none of them.

    Sealed hours stay as they are: a row that ended before is neither removed nor made again.
    """
    stored = {(_us(each.row.submit_at), each.row.restart): each.row for each in records}
    changes: list[tuple[RecordRow, bool]] = []
    for row in rows:
        before = stored.pop((_us(row.submit_at), row.restart), None)
        is_same = before is not None and _bare(before) == _bare(row)
        if is_same or not (_is_sealed(row, sealed_us) or (before is not None and _is_sealed(before, sealed_us))):
            changes.append((row._replace(cluster=source.cluster, site=before.site if before else source.site), is_same))
    gone = [row for row in stored.values() if row.state != "withdrawn" and not _is_sealed(row, sealed_us)]
    return changes, gone


def _is_sealed(row: RecordRow, sealed_us: int | None) -> bool:
    return sealed_us is not None and row.end_at is not None and microseconds(row.end_at) < sealed_us


def _bare(row: RecordRow) -> RecordRow:
    """A row as its lines say it: the cluster and the site are those of the source."""
    return row._replace(cluster="", site="")


def _names(batch: RecordBatch) -> list[Name]:
    texts = zip(batch.job.tolist(), batch.array_task.tolist(), strict=True)
    return [(job.decode(), task.decode()) for job, task in texts]


def _row_at(batch: RecordBatch, at: int) -> RecordRow:
    requested_s = float(batch.requested_s[at])
    names = ("job", "array_task", "cluster", "site")
    numbers = ("cpus", "gpus", "nodes", "mem_mb", "billing")
    values: dict[str, Any] = {
        **batch.people[batch.who[at]]._asdict(),
        **batch.job_classes[batch.job_class[at]]._asdict(),
        **{name: getattr(batch, name)[at].decode() for name in names},
        **{name: float(getattr(batch, name)[at]) for name in numbers},
    }
    return RecordRow(
        **values,
        state=STATES[batch.state[at]],
        submit_at=instant(int(batch.submit_us[at])),
        start_at=instant(int(batch.start_us[at])),
        end_at=instant(int(batch.end_us[at])),
        requested_s=None if requested_s != requested_s else requested_s,
        restart=int(batch.restart[at]),
        revision=int(batch.revision[at]),
        is_charge=bool(batch.is_charge[at]),
        kinds=batch.kinds[batch.kind[at]],
    )


def row_of(record: Record | ReplacedRecord) -> RecordRow:
    """A stored record as a row."""
    account, job_class = record.account, record.job_class
    same = ("job", "state", "submit_at", "start_at", "end_at", "cpus", "gpus", "nodes", "mem_mb", "billing")
    more = ("requested_s", "site", "cluster", "array_task", "restart", "revision", "is_charge")
    return RecordRow(
        user=account.user_name,
        group=account.group_name,
        dn=account.dn,
        fqan=account.fqan,
        project=account.project,
        queue=job_class.queue,
        partition=job_class.partition,
        qos=job_class.qos,
        kinds=kinds_of_object(record.kinds),
        **{name: getattr(record, name) for name in (*same, *more)},
    )


def adopt_lines(kept: Source, merged: Source) -> set[Name]:
    """Give a source the lines of another. Returns the jobs of which one has any: their records are to be made again."""
    both = (kept, merged)
    names = set(RunLine.objects.filter(source__in=both).values_list("job", "array_task").distinct())
    lines: dict[Name, list[_Kept]] = defaultdict(list)
    for source in both:
        known, records = _known_lines(source, names, ()), _stored_records(source, names)
        for name in names:
            of_job = known.get(name) or _lines_of_records(records[name])
            lines[name] += [_Kept(each.line, None, is_stored=False) for each in of_job]
    _keep(kept, lines, is_received=False)
    return names


def delete_lines(before_at: datetime, source: Source) -> int:
    """Delete the lines of jobs of which none is younger: their records are gone, or final."""
    old = (
        RunLine.objects.filter(source=source)
        .values("job", "array_task")
        .annotate(last_at=Max("happened_at"))
        .filter(last_at__lt=before_at)
        .values_list("job", "array_task")
    )
    names = set(old)
    jobs = list({job for job, _ in names})
    gone = [
        pk
        for pk, job, task in RunLine.objects.filter(source=source, job__in=jobs).values_list("pk", "job", "array_task")
        if (job, task) in names
    ]
    UnclearJob.objects.filter(source=source, last_at__lt=before_at).delete()
    return RunLine.objects.filter(pk__in=gone).delete()[0]


def _at(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)


def _us(at: datetime | None) -> int:
    return NO_TIME if at is None else microseconds(at)
