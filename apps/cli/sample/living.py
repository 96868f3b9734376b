"""Continuation of the sample: its sites run jobs with the clock, and their accounting is ingested as real one.

Jobs depend on the instant of the loading only, so a sample that was off for a week gets the records that it would have
got by the hour. A site's source says in `cursor` how far it came, in the transaction that stores the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from apps.cli.sample.grid import NAMESPACE, SITES, Grid, Site
from apps.cli.sample.jobs import SampleJob, later_jobs
from apps.runs.fault_points import fault_point
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.stored_versions import lock_source

_LOADED, _THROUGH = "sample_loaded_at", "sample_through_at"  # keys of a source's cursor
_STEP = timedelta(days=7)  # of a transaction, after a long time off


def source_slug(site: Site) -> str:
    return f"{site.slug}-slurm"


@dataclass(frozen=True, slots=True)
class Progress:
    """When the sample was loaded, and until when its source has the jobs."""

    loaded_at: datetime
    through_at: datetime

    @property
    def cursor(self) -> dict[str, str]:
        return {_LOADED: self.loaded_at.isoformat(), _THROUGH: self.through_at.isoformat()}

    @classmethod
    def of(cls, cursor: dict[str, Any]) -> Progress | None:
        """None: the source never was a living one, or has stopped being one."""
        if _LOADED not in cursor or _THROUGH not in cursor:
            return None
        return cls(datetime.fromisoformat(cursor[_LOADED]), datetime.fromisoformat(cursor[_THROUGH]))


def continue_sample(*, at: datetime) -> int:
    """Ingest what the sample's sites have run up to the last full hour; returns the number of new and corrected jobs.

    Safe to run twice, and to kill. In production nothing happens. A source that was archived or changed is left alone.
    """
    if settings.PRODUCTION:
        return 0
    until = at.replace(minute=0, second=0, microsecond=0)
    n = 0
    for site in SITES:
        while step := _continue_source(site, until, at=at):
            n += step.n_changed
            if step.through_at >= until:
                break
    return n


@dataclass(frozen=True, slots=True)
class _Step:
    through_at: datetime
    n_changed: int


def _continue_source(site: Site, until: datetime, *, at: datetime) -> _Step | None:
    """Ingest one step of a source. None: there is nothing to do."""
    known = Source.objects.filter(slug=source_slug(site)).first()
    if known is None or Progress.of(known.cursor) is None:  # on an installation of one's own: without a lock
        return None
    with transaction.atomic():
        lock_source(known.pk)
        source = Source.all_objects.get(pk=known.pk)  # another worker may have continued it meanwhile
        if source.archived_at is not None or (progress := Progress.of(source.cursor)) is None:
            return None
        if not _is_unchanged(source, site):
            Source.objects.filter(pk=source.pk).update(cursor={})  # it is the user's now, for good
            return None
        if source.is_paused or progress.through_at >= until:
            return None
        through_at = min(until, progress.through_at + _STEP)
        counts = ingest_batch(source=source, rows=list(_rows(site, progress, through_at)), at=at)
        fault_point("sample_continued")
        Source.objects.filter(pk=source.pk).update(cursor=Progress(progress.loaded_at, through_at).cursor)
        return _Step(through_at, counts.new + counts.corrected)


def _is_unchanged(source: Source, site: Site) -> bool:
    """Whether the source is as the loading made it, so that it is no source of real usage."""
    stored = (source.is_sample, source.kind, source.origin, source.namespace, source.site, source.cluster)
    return stored == (True, Source.Kind.PUSH, "", NAMESPACE, site.slug, site.slug)


def _rows(site: Site, progress: Progress, through_at: datetime) -> Iterator[RecordRow]:
    jobs = later_jobs(Grid(), loaded_at=progress.loaded_at, after=progress.through_at, until=through_at)
    return (record_of(job) for job in jobs if job.site == site.slug)


def record_of(job: SampleJob) -> RecordRow:
    return RecordRow(
        job=str(job.number),
        user=job.member.user,
        group=job.member.vo,
        project=job.member.project,
        state="finished" if job.end_at else "running",
        submit_at=job.submit_at,
        start_at=job.start_at,
        end_at=job.end_at,
        cpus=job.cpus,
        nodes=max(1, job.cpus // 32),
        mem_mb=job.cpus * 4000,
        requested_s=job.requested_s,
        queue=job.queue,
        qos="normal",
    )
