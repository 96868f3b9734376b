"""What the records of a usage source teach about the waits of its jobs, where nobody lists its queue.

Records say when a job was submitted and when it started, and never which jobs wait now. So there is an estimate for a
job that is submitted now, and no promise for one that waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from apps.contrib.starts.answer import Before, HeldRecord, StartAnswer
from apps.contrib.starts.answers import AT_80, DAYS_OF_RECORD, LEAST_RECENT_PROMISES, before_at, learning
from apps.contrib.starts.models import SourceWaits
from apps.contrib.starts.prediction import saved
from apps.contrib.starts.prediction.bases import RECORDS, is_learned
from apps.contrib.starts.prediction.past_jobs import past_jobs
from apps.contrib.starts.prediction.predictor import Predictor, of_kind, replay
from apps.contrib.starts.prediction.promises import Kind, WaitingJob
from apps.contrib.starts.prediction.record import held
from apps.core.blobs import CorruptBlob
from apps.usage.models import Import, Record, Source

LASTS = timedelta(days=3)  # what isn't made again each day is of a machine as it was
MOST_JOBS_OF_SOURCE = 50_000  # of which waits are learned: the newest ones


def learn_source_waits(*, at: datetime) -> int:
    """Learn the waits of each source that reports some, from its records alone; returns the number of sources."""
    sources = list(_sources().filter(first_wait_at__isnull=False).order_by("pk"))
    SourceWaits.objects.exclude(source__in=sources).delete()
    for source in sources:
        SourceWaits.objects.update_or_create(source=source, defaults=_taught(source, at))
    return len(sources)


def start_by_records(namespace: str, job: WaitingJob, at: datetime) -> StartAnswer | None:
    """The answer about a job of a namespace that is submitted now, by the source with most jobs whose waits say
    something; None where no source reports waits. Without a queue nobody knows whether it starts within 5 minutes.
    """
    answer = None
    for waits in _waits_of(namespace, at):
        try:
            predictor = saved.load(waits.data, waits.digest)
        except CorruptBlob:
            continue  # the next day makes it again
        estimated = predictor.estimate(job, at.timestamp(), 0.0)
        record = _record(waits)
        if is_learned(estimated.basis, estimated.offers):
            before = Before(*(before_at(at, bound_s) for bound_s in estimated.bounds_s))
            return StartAnswer(None, before, at, True, RECORDS, None, record, None, source=waits.source.name)
        answer = answer or learning(at, record, predictor.waits.n_known(0.0))._replace(source=waits.source.name)
    return answer


def _sources() -> QuerySet[Source]:
    return Source.objects.exclude(kind=Source.Kind.PEER).filter(archived_at=None)


def _waits_of(namespace: str, at: datetime) -> Iterator[SourceWaits]:
    """Of the sources in which jobs of a namespace run: as for schedulers, an empty one is each. Those of records that
    an undone import has taken away since say nothing until they are made again.
    """
    undone = Import.objects.filter(source=OuterRef("source"), undone_at__gt=OuterRef("to_at"))
    rows = SourceWaits.objects.select_related("source").filter(source__archived_at=None, to_at__gt=at - LASTS)
    rows = rows.exclude(Exists(undone))
    if namespace:
        rows = rows.filter(Q(source__namespace=namespace) | Q(source__namespace=""))
    yield from rows.order_by("-n_jobs", "pk")


def _taught(source: Source, to_at: datetime) -> dict[str, Any]:
    """Fields of `SourceWaits`."""
    from_at = to_at - timedelta(days=DAYS_OF_RECORD)
    newest = Record.objects.filter(source=source, submit_at__gte=from_at, submit_at__lt=to_at, is_charge=False)
    submitted = newest.order_by("-submit_at").values_list("submit_at", flat=True)
    from_at = max(from_at, *submitted[MOST_JOBS_OF_SOURCE - 1 : MOST_JOBS_OF_SOURCE], from_at)
    jobs = list(islice(past_jobs(source, from_at=from_at, to_at=to_at), MOST_JOBS_OF_SOURCE))  # an array may be larger
    predictor = Predictor()
    settled = of_kind(replay(jobs, predictor, until_s=to_at.timestamp()), Kind.SUBMIT)
    record, recent = held(settled, AT_80), predictor.recent[Kind.SUBMIT]
    data, digest = saved.save(predictor)
    return {
        "from_at": from_at,
        "to_at": to_at,
        "n_jobs": len(jobs),
        "held": [int(record.kept), int(record.n)],
        "recent": [sum(recent), len(recent)],
        "data": data,
        "digest": digest,
    }


def _record(waits: SourceWaits) -> HeldRecord:
    (n_held, n), (n_recent_held, n_recent) = waits.held, waits.recent
    recent_share = n_recent_held / n_recent if n_recent >= LEAST_RECENT_PROMISES else None
    return HeldRecord(n_held / n if n else None, n, DAYS_OF_RECORD, recent_share)
