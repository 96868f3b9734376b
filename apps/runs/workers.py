"""Decide whether workers are alive, from their last contact and from waiting runs.

A worker stores its contact with each scheduled task and each heartbeat of a run. Readiness, metrics and notices all use
this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection
from django.db.models import Max, Q
from django_celery_beat.models import PeriodicTask

from apps.accounts.clock_watch import note_clock
from apps.core import clock
from apps.runs.models import Run, WorkerContact
from apps.runs.queues import FEDERATION, kinds_on

_BEAT_SILENT = timedelta(minutes=10)  # it stores its last run every three minutes
_MISSED_SWEEPS = 3
_SLOW_HOSTS = timedelta(minutes=10)  # for which runs may wait for other hosts


@dataclass(frozen=True, slots=True)
class SilentWorkers:
    """Evidence that workers are down.

    last_contact_at: None if there was none yet. n_waiting, n_lost, n_stalled: number of overdue runs, of runs whose
    lease expired, and of runs that made no progress for half of FAIRSHARE_STALL_S, after which another worker takes
    them over.
    """

    last_contact_at: datetime | None
    n_waiting: int
    n_lost: int
    n_stalled: int


def record_contact(at: datetime) -> None:
    """Store that a worker is alive. Only workers call it, not commands that work on runs."""
    contact = WorkerContact(pk=WorkerContact.ANY, at=at)
    # One statement: of two workers that make the first contact at once neither fails.
    WorkerContact.objects.bulk_create([contact], update_conflicts=True, unique_fields=["id"], update_fields=["at"])
    if not clock.is_set():
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            note_clock(at, database_at=cursor.fetchone()[0])


def last_contact_at() -> datetime | None:
    return WorkerContact.objects.filter(pk=WorkerContact.ANY).values_list("at", flat=True).first()


def are_working(at: datetime) -> bool:
    return last_contact_at() is not None and silent_workers(at) is None


def silent_workers(at: datetime) -> SilentWorkers | None:
    """None while workers are alive. Before their first contact, only waiting runs show that they are missing."""
    patience = timedelta(seconds=max(settings.FAIRSHARE_LEASE_S, _MISSED_SWEEPS * settings.FAIRSHARE_SWEEP_S))
    late = Q(due_at__lt=at - patience) & ~Q(kind__in=kinds_on(FEDERATION)) | Q(due_at__lt=at - patience - _SLOW_HOSTS)
    waiting = Run.objects.filter(late, state=Run.State.QUEUED).count()
    lost = Run.objects.filter(state=Run.State.RUNNING, lease_until__lt=at - patience).count()
    stalled = Run.objects.filter(is_stalled(at)).count()
    contact_at = last_contact_at()
    is_silent = contact_at is not None and at - contact_at > patience
    return SilentWorkers(contact_at, waiting, lost, stalled) if is_silent or waiting or lost or stalled else None


def is_stalled(at: datetime) -> Q:
    """Runs at work that make no progress."""
    return Q(state=Run.State.RUNNING, progressed_at__lt=at - timedelta(seconds=settings.FAIRSHARE_STALL_S / 2))


def beat_silent_since(at: datetime) -> datetime | None:
    """Time at which the task scheduler last ran, if that is too long ago; else None.

    Of any task: after its start it stores the first one that it starts, and all others three minutes later.
    """
    rang_at: datetime | None = PeriodicTask.objects.aggregate(last=Max("last_run_at"))["last"]
    return rang_at if rang_at is not None and at - rang_at > _BEAT_SILENT else None
