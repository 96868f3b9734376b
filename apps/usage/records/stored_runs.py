"""Lines of a log about runs that began in an earlier file, explained by the stored records of their jobs.

A run is known by its job and start. What is read in pieces, from daily files in any order or twice, gives the same
records: a line that ends, cuts or continues a run finds its parts here, under the lock of the source.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from apps.runs.models import Run as WorkerRun
from apps.usage.models import Record, ReplacedRecord, RunLine, Source
from apps.usage.parsers.base import (
    FINISHED,
    NO_TIME,
    RUNNING,
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
from apps.usage.parsers.runs import Run, is_cut, less, rates_of
from apps.usage.records.record_keys import job_numbers
from apps.usage.records.versions import StoredVersions

MOST_KEPT = 20_000  # lines of a source
_SAME_BEGIN_S = 300  # by which a begin that was worked out from a duration may be off
Name = tuple[str, str]  # job and array task


def settle_runs(
    source: Source, batch: RecordBatch, stored: StoredVersions, *, run: WorkerRun | None = None
) -> tuple[RecordBatch, int]:
    """The batch with the rows that these lines mean. Returns the number of lines that nothing explains yet, too.

    stored: the version of each row. Only jobs with a line that needs it are looked up. The lines are kept: a file with
    the start of their run may come later.
    """
    rows = np.flatnonzero(_in_question(batch, stored)).tolist()
    kept = set(RunLine.objects.filter(source=source).values_list("job", "array_task").distinct())
    if not rows and not batch.events and not kept:
        return batch, 0
    named = _names(batch)
    names = {(event.job, event.array_task) for event in batch.events} | {named[row] for row in rows}
    names |= kept.intersection(named)
    if not names:
        return batch, 0
    earlier = _kept_lines(source, names & kept)
    chosen = np.array([name in names for name in named], np.bool_)
    jobs = _load(source, names)
    lines: dict[Name, list[tuple[int, RecordRow | RunEvent]]] = defaultdict(list)
    for row in np.flatnonzero(chosen).tolist():
        lines[named[row]].append((int(batch.line[row]), _row_at(batch, row)))
    for event in batch.events:
        lines[event.job, event.array_task].append((event.line, event))
    settled: list[tuple[int, RecordRow]] = []
    n_unknown = 0
    for name, of_job in lines.items():
        job = jobs[name]
        for line, each in sorted(of_job, key=lambda pair: pair[0]):
            rows_of_line = job.apply_event(each) if isinstance(each, RunEvent) else job.add(each)
            settled += [(line, row) for row in rows_of_line or ()]
        again = [each for _, each in of_job if isinstance(each, RunEvent)]
        for event in sorted([*earlier.get(name, ()), *again], key=lambda event: event.at_us):
            explained = job.apply_event(event)
            n_unknown += explained is None and event in again
            settled += [(of_job[-1][0], row) for row in explained or ()]
        settled += [(of_job[-1][0], row) for row in job.ends()]
    _keep(source, [*batch.events, *(event for job in jobs.values() for event in job.ended)], run)
    settled.sort(key=lambda pair: pair[0])
    more = RecordBatch.from_rows([row for _, row in settled], [line for line, _ in settled])
    return concatenate_batches([batch.take(~chosen), more]), n_unknown


def _kept_lines(source: Source, names: set[Name]) -> dict[Name, list[RunEvent]]:
    """Lines of files that were read before, in the order of time."""
    lines: dict[Name, list[RunEvent]] = defaultdict(list)
    if names:
        known = RunLine.objects.filter(source=source, job__in={job for job, _ in names}).order_by("happened_at", "pk")
        for each in known:
            event = RunEvent(each.kind, each.job, each.array_task, _us(each.happened_at), 0, Rates(*each.rates))
            lines[each.job, each.array_task].append(event)
    return lines


def _keep(source: Source, events: Sequence[RunEvent], run: WorkerRun | None) -> None:
    if not events:
        return
    lines = [
        RunLine(
            source=source,
            run=run,
            job=event.job[:128],
            array_task=event.array_task[:64],
            kind=event.kind,
            happened_at=datetime.fromtimestamp(event.at_us / 1e6, UTC),
            rates=list(event.rates),
        )
        for event in events
    ]
    RunLine.objects.bulk_create(lines, ignore_conflicts=True)
    newest = RunLine.objects.filter(source=source).order_by("-pk").values_list("pk", flat=True)
    last = newest[MOST_KEPT : MOST_KEPT + 1].first()
    if last is not None:
        RunLine.objects.filter(source=source, pk__lte=last).delete()


def _in_question(batch: RecordBatch, stored: StoredVersions) -> Flags:
    """Rows whose run may be stored under another key, or in parts."""
    is_stored = stored.id > 0
    another: Flags = is_stored & (stored.start_us != NO_TIME) & (batch.start_us != NO_TIME)
    another &= stored.start_us != batch.start_us
    cut = (batch.revision > 0) | (is_stored & (stored.revision > 0))
    begun = (batch.state == RUNNING) & ~is_stored & stored.may_be
    counted: Flags = (batch.state == FINISHED) & (batch.restart > 0) & ~is_stored & stored.may_be
    return np.asarray(another | cut | begun | counted)


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
        **{name: getattr(record, name) for name in (*same, *more)},
    )


def _load(source: Source, names: set[Name]) -> defaultdict[Name, _Job]:
    """The stored records of these jobs, and the reports of whole runs that their parts replaced."""
    jobs: defaultdict[Name, _Job] = defaultdict(_Job)
    numbers = np.unique(job_numbers(np.array([job.encode() for job, _ in names], dtype=np.bytes_))).tolist()
    wanted = {"source_id": source.pk, "cluster": source.cluster, "job__in": {job for job, _ in names}}
    for record in Record.objects.filter(job_number__in=numbers, **wanted).select_related("account", "job_class"):
        jobs[record.job, record.array_task].know(row_of(record))
    parted = {name for name, job in jobs.items() if any(is_cut(row.revision) for row in job.known.values())}
    if parted:
        wanted["job__in"] = {job for job, _ in parted}
        replaced = ReplacedRecord.objects.filter(state="finished", revision=0, **wanted)
        for old in replaced.select_related("account", "job_class"):
            jobs[old.job, old.array_task].remember_whole(row_of(old))
    return jobs


@dataclass(slots=True)
class _Job:
    """known: the version of each record that counts, by submission and restart. wholes: reports of whole runs."""

    known: dict[tuple[int, int], RecordRow] = field(default_factory=dict)
    wholes: dict[int, RecordRow] = field(default_factory=dict)
    begun: dict[int, Rates] = field(default_factory=dict)  # by start, what lines of starts say
    passed: set[int] = field(default_factory=set)  # starts of runs whose whole report is still to be given out
    ended: list[RunEvent] = field(default_factory=list)  # ends of runs that rest, as far as is known

    def know(self, row: RecordRow) -> None:
        key = (_us(row.submit_at), row.restart)
        before = self.known.get(key)
        if before is None or _version(row) >= _version(before):
            self.known[key] = row
            self.remember_whole(before)
        self.remember_whole(row)

    def remember_whole(self, row: RecordRow | None) -> None:
        if row is None or row.state != "finished" or is_cut(row.revision):
            return
        before = self.wholes.get(_us(row.start_at))
        if before is None or _us(row.end_at) > _us(before.end_at):
            self.wholes[_us(row.start_at)] = row

    def runs(self) -> list[Run]:
        """The runs by start. A record that began when it was submitted, after a part that was cut, is a part."""
        runs: list[list[RecordRow]] = []
        started = [row for row in self.known.values() if row.start_at is not None and row.state != "withdrawn"]
        for row in sorted(started, key=lambda each: (_us(each.start_at), _us(each.submit_at))):
            before = runs[-1] if runs else []
            is_part = row.submit_at == row.start_at and any(is_cut(part.revision) for part in before)
            if is_part and row.restart == before[0].restart:
                before.append(row)
            else:
                runs.append([row])
        return [_run_of(rows, self.begun.get(_us(rows[0].start_at))) for rows in runs]

    def add(self, row: RecordRow) -> list[RecordRow]:
        """The rows to store for a row of a file."""
        holder = self.known.get((_us(row.submit_at), row.restart))
        is_own = holder is None or row.start_at is None or holder.start_at in (None, row.start_at)
        if row.start_at is None or row.state == "withdrawn":
            if not is_own:
                return []  # the number that its start had for now is that of another run
            self.know(row)
            return [row]
        rows: list[RecordRow] = []
        if row.state == "running" and row.submit_at != row.start_at:
            self.begun[_us(row.start_at)] = rates_of(row)
        runs = self.runs()
        same = next((run for run in runs if run.first.start_at == row.start_at), None)
        if same is not None:
            is_whole = row.state == "finished" and not is_cut(row.revision)
            if is_whole and same.changes:
                self.wholes[same.start_us] = row
                self.passed.add(same.start_us)
                return []
            if is_whole and same.is_open and is_own and same.first.restart != row.restart:
                rows.append(same.first._replace(state="withdrawn"))  # its number is known now
            elif same.first.submit_at == row.submit_at:
                row = row._replace(restart=same.first.restart)
        elif inside := [run for run in runs if _is_inside(row, run)]:
            near = [each for each in inside[-1].emitted if abs(each - _us(row.start_at)) <= _SAME_BEGIN_S * 1_000_000]
            if near and _us(row.start_at) not in near:  # the same part: its begin was worked out from a duration
                row = row._replace(submit_at=instant(near[-1]), start_at=instant(near[-1]))
        else:
            row = self._numbered(row)
        rows.append(row)
        for each in rows:
            self.know(each)
        return rows

    def _numbered(self, row: RecordRow) -> RecordRow:
        """A run that no stored one is: under a number of its own."""
        submit_us = _us(row.submit_at)
        taken = [restart for submitted_us, restart in self.known if submitted_us == submit_us]
        holder = self.known.get((submit_us, row.restart))
        if holder is None or holder.start_at in (None, row.start_at):
            return row
        return row._replace(restart=max(taken) + 1)

    def apply_event(self, event: RunEvent) -> list[RecordRow] | None:
        """The rows that a line means; None if no record explains it."""
        runs = [run for run in self.runs() if run.start_us <= event.at_us]
        run = runs[-1] if runs else None
        if run is None or (event.kind == "end" and not run.is_open):
            waiting = [row for row in self.known.values() if row.state == "pending"]
            if event.kind != "end" or not (waiting or run):
                return None
            rows = [row._replace(state="withdrawn") for row in waiting if _us(row.submit_at) <= event.at_us]
        else:
            rows = self._of_event(run, event)
        for row in rows:
            self.know(row)
        return rows

    def _of_event(self, run: Run, event: RunEvent) -> list[RecordRow]:
        if run.end_us is not None and event.at_us >= run.end_us:
            return []
        near = (begin_us for begin_us in run.emitted if abs(begin_us - event.at_us) <= _SAME_BEGIN_S * 1_000_000)
        if event.kind == "resume" and run.end_us is not None and any(near):
            return []
        if event.kind == "rest":
            held = run.held_at(event.at_us, awake=True)
            run.rest(event.at_us, less(held, event.rates))
        elif event.kind == "resume":
            run.resume(event.at_us)
        elif event.kind == "change":
            run.change(event.at_us, event.rates)
        else:
            run.end_us = event.at_us
        return run.new_rows()

    def ends(self) -> list[RecordRow]:
        """The last parts of runs whose end is known by a report of the whole run."""
        rows: list[RecordRow] = []
        for run in self.runs():
            whole = self.wholes.get(run.start_us)
            is_passed = run.start_us in self.passed
            if not run.changes:
                continue
            of_run = run.new_rows()
            if whole is None:
                rows += of_run
                continue
            end_us = _us(whole.end_at)
            if run.end_us is None or run.end_us < end_us:
                missing_s = _missing_s(run, whole) if run.end_us is None else 0.0
                if missing_s >= 1:
                    run.resume(max(end_us - round(missing_s * 1e6), run.changes[-1].at_us))
                run.end_us = end_us
                of_run += run.new_rows()
                if not of_run and is_passed:
                    self.ended.append(RunEvent("end", whole.job, whole.array_task, end_us, 0))
            rows += of_run or ([whole] if is_passed else [])
        return rows


def _missing_s(run: Run, whole: RecordRow) -> float:
    """Seconds in which a suspended run held its processors again, by the report of the whole run."""
    if not run.changes[-1].is_rest or whole.cpus >= run.rates.cpus * (1 - 1e-9):
        return 0.0
    parts = [part for part in run.parts() if part.end_us is not None]
    held = sum(part.rates.cpus * ((part.end_us or 0) - part.begin_us) / 1e6 for part in parts)
    used = whole.cpus * (_us(whole.end_at) - _us(whole.start_at)) / 1e6
    return (used - held) / max(run.held_at(_us(whole.end_at), awake=True).cpus, 1e-9)


def _run_of(rows: list[RecordRow], begun: Rates | None) -> Run:
    """A run of stored parts, in their order. begun: what it held first, by the line of its start."""
    run = Run(rows[0]._replace(state="running", end_at=None, revision=0))
    if begun is not None:
        run.first = run.first._replace(**begun._asdict())
    for place, row in enumerate(rows):
        begin_us, end_us = _us(row.start_at), None if row.end_at is None else _us(row.end_at)
        run.emitted[begin_us] = end_us
        if place:
            run.change(begin_us, rates_of(row))
        is_followed = place + 1 < len(rows) and rows[place + 1].start_at == row.end_at
        if is_cut(row.revision) and end_us is not None and not is_followed:
            run.rest(end_us)
    if rows[-1].state == "finished" and not is_cut(rows[-1].revision):
        run.end_us = _us(rows[-1].end_at)
    return run


def _is_inside(row: RecordRow, run: Run) -> bool:
    """Whether a row is a later part of this run: it began when it was submitted, after a part that was cut."""
    return bool(run.changes) and row.submit_at == row.start_at and _us(row.start_at) > run.start_us


def _version(row: RecordRow) -> tuple[int, int, int]:
    is_late = row.state == "withdrawn"
    end_us = np.iinfo(np.int64).max if is_late else _us(row.end_at) if row.state == "finished" else 0
    return row.revision, int(end_us), STATES.index(row.state)


def _us(at: object) -> int:
    return NO_TIME if at is None else microseconds(at)  # type: ignore[arg-type]  # a datetime
