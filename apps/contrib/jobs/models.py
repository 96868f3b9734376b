"""Tables of SAM's queue gateway: rules of a ledger, benefit received by each group, and decided jobs."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from apps.core.derived_state import in_tables
from apps.policies.models import Policy

DERIVED_STATE = (
    in_tables(
        "Received",
        holds="booked benefit by group",
        key="ledger, group",
        inputs="bookings of jobs",
        range="all jobs since the ledger began",
        ends="each booking changes it in the same transaction",
    ),
)


class Ledger(models.Model):
    """The ledger of a policy. Its groups are the entries below `parent_uid`, and their targets are the shares.

    benefit: as in a case of `sam` (name of a function, or weights); null: requests contain the benefit.
    priority_groups: priorities by group. lost_after_s: jobs open for longer are lost; null: never. The row is locked
    while a job is decided or booked, one at a time in each policy.
    """

    class BookedAt(models.TextChoices):
        SUBMIT = "submit", "When it is decided"
        START = "start", "When it starts"
        END = "end", "When it ends"

    policy = models.OneToOneField(Policy, models.CASCADE, related_name="sam_ledger")
    parent_uid = models.UUIDField()
    benefit = models.JSONField(null=True)
    booked_at = models.CharField(max_length=8, choices=BookedAt.choices, default=BookedAt.START)
    p_back = models.FloatField(default=0.0)
    p_front = models.FloatField(default=1.0)
    priority_groups = models.JSONField(default=dict)
    lost_after_s = models.PositiveIntegerField(null=True)
    revision = models.PositiveIntegerField(default=1)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(p_back__lt=models.F("p_front")), name="gateway_ledger_back_below_front"),
            models.CheckConstraint(
                condition=Q(booked_at__in=("submit", "start", "end")), name="gateway_ledger_booked_at"
            ),
        ]

    def __str__(self) -> str:
        return f"SAM ledger of {self.policy_id}"


class Received(models.Model):
    """B[g]: benefit received by a group, or held at the moment for a benefit that counts while jobs run; in the
    benefit's unit.
    """

    ledger = models.ForeignKey(Ledger, models.CASCADE, related_name="received")
    entry_uid = models.UUIDField()
    amount = models.FloatField(default=0.0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["ledger", "entry_uid"], name="gateway_received_once"),
            models.CheckConstraint(condition=Q(amount__gte=0), name="gateway_received_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.entry_uid}: {self.amount:g}"


class Job(models.Model):
    """A job. entry_uid: null for a priority group, for which nothing is booked. booked: its part of the group's B[g].

    steps: for each step, the digest of its request and the text of its answer, so that a repeated request gets the same
    answer.
    """

    class State(models.TextChoices):
        DECIDED = "decided", "Decided"
        STARTED = "started", "Started"
        FINISHED = "finished", "Finished"
        CANCELLED = "cancelled", "Cancelled"
        LOST = "lost", "Lost"

    ledger = models.ForeignKey(Ledger, models.CASCADE, related_name="jobs")
    job = models.CharField(max_length=256)
    group = models.CharField(max_length=8400)
    entry_uid = models.UUIDField(null=True)
    queue = models.CharField(max_length=8)
    state = models.CharField(max_length=16, choices=State.choices)
    benefit = models.FloatField(default=0.0)
    booked = models.FloatField(default=0.0)
    steps = models.JSONField(default=dict)
    decided_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["ledger", "job"], name="gateway_job_once"),
            models.CheckConstraint(condition=Q(booked__gte=0), name="gateway_job_booked_not_negative"),
        ]
        indexes = [
            models.Index(
                fields=["ledger", "decided_at"],
                condition=Q(state__in=("decided", "started")),
                name="gateway_job_open",
            ),
            models.Index(fields=["ledger", "ended_at"], condition=Q(ended_at__isnull=False), name="gateway_job_ended"),
        ]

    def __str__(self) -> str:
        return f"{self.job} ({self.state})"


OPEN = (Job.State.DECIDED, Job.State.STARTED)
