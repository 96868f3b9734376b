"""Any format read from bytes, as one batch with its refusals and notes."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from apps.usage.parsers.base import NO_TIME, STATES, Collector, Parsed, Reading, RecordBatch, Rejection, instant
from tests.instants import AT

STOCKHOLM = ZoneInfo("Europe/Stockholm")


@dataclass(frozen=True)
class Job:
    """One record as plain values, for assertions that read like sentences."""

    line: int
    job: str
    array_task: str
    user: str
    group: str
    project: str
    dn: str
    fqan: str
    state: str
    submit_at: datetime | None
    start_at: datetime | None
    end_at: datetime | None
    cpus: float
    gpus: float
    nodes: float
    mem_mb: float
    billing: float
    requested_s: float | None
    queue: str
    site: str
    cluster: str
    restart: int
    revision: int

    @property
    def hours(self) -> float:
        assert self.start_at is not None
        assert self.end_at is not None
        return (self.end_at - self.start_at).total_seconds() / 3600


@dataclass(frozen=True)
class Read:
    pieces: list[Parsed]
    jobs: list[Job]
    rejections: list[Rejection]
    notes: Counter[str]

    @property
    def codes(self) -> list[tuple[int, str]]:
        return [(one.line, one.code) for one in self.rejections]

    @property
    def cpu_h(self) -> float:
        return sum(job.hours * job.cpus for job in self.jobs if job.state == "finished")


def read(
    collector: Collector,
    data: bytes | str,
    *,
    zone: ZoneInfo | None = None,
    at: datetime = AT,
    resume: dict[str, object] | None = None,
) -> Read:
    stream = io.BytesIO(data.encode() if isinstance(data, str) else data)
    pieces = list(collector.parse(stream, Reading(at, zone), resume=resume))
    notes: Counter[str] = Counter()
    for piece in pieces:
        notes.update(piece.notes)
    jobs = [job for piece in pieces for job in jobs_of(piece.batch)]
    return Read(pieces, jobs, [one for piece in pieces for one in piece.rejections], notes)


def only(collector: Collector, data: bytes | str, **options: ZoneInfo | None) -> Job:
    found = read(collector, data, zone=options.get("zone"))
    assert found.rejections == []
    assert len(found.jobs) == 1
    return found.jobs[0]


def jobs_of(batch: RecordBatch) -> list[Job]:
    return [_job(batch, row) for row in range(len(batch))]


def _job(batch: RecordBatch, row: int) -> Job:
    who, job_class = batch.people[batch.who[row]], batch.job_classes[batch.job_class[row]]
    requested_s = float(batch.requested_s[row])
    return Job(
        line=int(batch.line[row]),
        job=batch.job[row].decode(),
        array_task=batch.array_task[row].decode(),
        user=who.user,
        group=who.group,
        project=who.project,
        dn=who.dn,
        fqan=who.fqan,
        state=STATES[batch.state[row]],
        submit_at=_instant(batch.submit_us[row]),
        start_at=_instant(batch.start_us[row]),
        end_at=_instant(batch.end_us[row]),
        cpus=float(batch.cpus[row]),
        gpus=float(batch.gpus[row]),
        nodes=float(batch.nodes[row]),
        mem_mb=float(batch.mem_mb[row]),
        billing=float(batch.billing[row]),
        requested_s=None if requested_s != requested_s else requested_s,
        queue=job_class.queue,
        site=batch.site[row].decode(),
        cluster=batch.cluster[row].decode(),
        restart=int(batch.restart[row]),
        revision=int(batch.revision[row]),
    )


def _instant(us: int) -> datetime | None:
    return None if us == NO_TIME else instant(int(us))
