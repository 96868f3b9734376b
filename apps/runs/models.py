"""Tables of background work: each unit is a row, of which a message to workers only has the id."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q


class Run(models.Model):
    """A unit of background work: leased, fenced and resumable. Only the holder of the newest `fence` can write
    results.
    """

    class State(models.TextChoices):
        QUEUED = "queued", "Waiting for a worker"
        RUNNING = "running", "Running"
        SUCCEEDED = "succeeded", "Done"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"

    kind = models.CharField(max_length=32)
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    # e.g. "policy:grid"; of each kind and subject, one run at a time is running
    subject = models.CharField(max_length=128)
    # Whom it calls, or for whom; of each kind and key, as many run at once as the kind permits. "": no such limit
    limit_key = models.CharField(max_length=255, blank=True, default="", db_default="")
    arguments = models.JSONField(default=dict)
    # Of the request that started it; "": started by the schedule or a command
    request_id = models.CharField(max_length=64, blank=True, default="", db_default="")
    idempotency_key = models.CharField(max_length=128, null=True, blank=True)  # noqa: DJ001 - null means "no key", unique
    due_at = models.DateTimeField()
    lease_until = models.DateTimeField(null=True, blank=True)
    # Process working on it (see worker_identity.py); a database default, because runs are also inserted by SQL.
    holder = models.CharField(max_length=128, blank=True, default="", db_default="")
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    progressed_at = models.DateTimeField(null=True, blank=True)  # of its last committed step, as heartbeats report it
    fence = models.PositiveIntegerField(default=0)
    attempts = models.PositiveSmallIntegerField(default=0)
    max_attempts = models.PositiveSmallIntegerField(default=5)
    cancel_requested = models.BooleanField(default=False)
    progress_done = models.BigIntegerField(default=0)
    progress_total = models.BigIntegerField(null=True, blank=True)
    message = models.CharField(max_length=512, blank=True, default="")
    cursor = models.JSONField(default=dict)  # where to resume, stored in the transaction of the work
    counts = models.JSONField(default=dict)
    result = models.JSONField(default=dict)
    error_code = models.CharField(max_length=64, blank=True, default="")
    error = models.TextField(blank=True, default="")
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "idempotency_key"], name="runs_run_idempotent"),
            models.UniqueConstraint(
                fields=["kind", "subject"], condition=Q(state="running"), name="runs_run_single_flight"
            ),
            models.UniqueConstraint(
                fields=["kind", "subject"],
                condition=Q(state="queued", idempotency_key=None),
                name="runs_run_coalesced",
            ),
            models.CheckConstraint(
                condition=~Q(state="running") | Q(lease_until__isnull=False), name="runs_run_running_has_a_lease"
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(state="queued"), name="runs_run_due"),
            models.Index(fields=["lease_until"], condition=Q(state="running"), name="runs_run_leases"),
            models.Index(fields=["kind", "subject", "-id"], name="runs_run_of_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject} #{self.pk}"


class WorkerContact(models.Model):
    """Time of the last contact of any worker that does more than call other hosts."""

    ANY = 1

    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.at:%FT%TZ}"


class SiteProcess(models.Model):
    """A process of the site: where it runs, when it last said that it lives, and what it must share with the others."""

    holder = models.CharField(max_length=128)  # see worker_identity.py
    role = models.CharField(max_length=16)
    host = models.CharField(max_length=128)
    # of Celery that a worker consumes; a database default for processes of the release before
    queues = ArrayField(models.CharField(max_length=32), default=list, db_default=[])
    shared = models.JSONField(default=dict)  # fingerprints of keys, settings and release
    clock_ahead_s = models.FloatField(default=0.0)  # of the database's
    seen_at = models.DateTimeField()  # by the database's clock

    class Meta:
        constraints = [models.UniqueConstraint(fields=["holder", "role"], name="runs_siteprocess_once")]

    def __str__(self) -> str:
        return f"{self.role} on {self.host}"


class BackupMark(models.Model):
    """The one row says how the scheduled backup does. n_failures, error: since the last good one, at `made_at`.

    since_at: when the schedule began.
    """

    ONLY = 1

    since_at = models.DateTimeField()
    made_at = models.DateTimeField(null=True)
    n_failures = models.PositiveIntegerField(default=0, db_default=0)
    error = models.CharField(max_length=500, blank=True, default="", db_default="")

    def __str__(self) -> str:
        return f"{self.made_at}, {self.n_failures} failures since"


class BeatLease(models.Model):
    """The one row says which beat rings, and until when without renewal; the others stand by."""

    holder = models.CharField(max_length=128)
    until = models.DateTimeField()  # by the database's clock

    def __str__(self) -> str:
        return f"{self.holder} until {self.until:%FT%TZ}"
