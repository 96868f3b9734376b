"""Tables of promises of starts, of what was learned from them, and of how often they held on each day."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from apps.contrib.schedulers.models import Scheduler
from apps.core.derived_state import in_tables
from apps.usage.models import Source

DERIVED_STATE = (
    in_tables(
        "StartState",
        holds="offsets, counters and recent waits from which the next promises are made",
        key="scheduler",
        inputs="the scheduler’s rows of `StartPromise`, in their order",
        range="all reports of its agent so far",
        ends="each report moves it on; `start_promises --rebuild` makes it from the rows again",
    ),
    in_tables(
        "StartTrees",
        holds="trees that say how long jobs wait in a queue of such facts, as one base of the next promises",
        key="scheduler",
        inputs="the newest 20,000 settled rows of `StartPromise` of the scheduler with their facts, as one report left"
        " them; the layout of facts and the size of trees are named in the blob",
        range="60 days before that report",
        ends="each day trains them again; not read after 3 days, or where bytes, format, layout or inputs differ;"
        " deleted with the rows that taught them",
    ),
    in_tables(
        "StartDay",
        holds="how often promises of a day held",
        key="scheduler, day, kind, level, class of size and length, partition",
        inputs="rows of `StartPromise` made on that day",
        range="one day; for ever, after its rows have gone",
        ends="each hour, for days of which a promise was settled since",
    ),
    in_tables(
        "SourceWaits",
        holds="offsets and recent waits that past jobs of a source teach, for sources whose queue nobody lists",
        key="source",
        inputs="usage records of the source, with the user names as it reports them; no setting, mapping or policy",
        range="submissions of the last 90 days before `to_at`, the newest 50,000",
        ends="each day makes it from the records again, as corrections have them; not read after 3 days, or once an"
        " import of the source is undone or the source archived",
    ),
)


class Outcome(models.IntegerChoices):
    """What became of a promise at one level.

    left: the job left the queue before its deadline, and no start is known. kept_apart, broken_apart: it had been
    withdrawn for a known cause before, and teaches nothing.
    """

    OPEN = 0, "open"
    KEPT = 1, "kept"
    BROKEN = 2, "broken"
    LEFT = 3, "left"
    KEPT_APART = 4, "kept_apart"
    BROKEN_APART = 5, "broken_apart"


class Cause(models.TextChoices):
    """Why a promise was withdrawn."""

    ALTERED = "altered", _("altered")
    HELD = "held", _("held")
    CANCELLED = "cancelled", _("cancelled")
    DRAINED = "drained", _("nodes drained or down")
    RESERVED = "reserved", _("nodes reserved")
    UNSEEN = "unseen", _("left unseen")


class StartPromise(models.Model):
    """A promise of the start of one job at one instant, and what became of it. Instants are the scheduler’s clock.

    A job has a promise when it is first seen, at each doubling of its wait, and after a known cause ended the last one;
    none is ever changed. Rows of one job and wait share `job` and `since_at`. *_in: number of the report in which it
    happened, see `StartState`. Levels are those of `prediction.promises`.

    offers: what each base would have promised, as [base, [seconds at each level]].
    planned_s: seconds to the start that the scheduler itself planned at that instant, no shorter than the floor.
    plan_s: those that our own plan of the queue said, not calibrated; null without a plan.
    facts: the queue at that instant as `prediction.queue_facts` packs it; null of promises made before they were kept.
    next_at: when the next promise is due, of the newest row of a job that waits; null in all others.
    due_at: the next deadline; null after the last one. seen_at: when a job that is in no list now was last seen.
    """

    scheduler = models.ForeignKey(Scheduler, on_delete=models.CASCADE, related_name="+", db_index=False)
    job = models.CharField(max_length=64)  # number; tasks of an array that wait together are one job
    user = models.CharField(max_length=256)
    partition = models.CharField(max_length=1_024, blank=True)
    cpus = models.FloatField()
    limit_s = models.FloatField(null=True)
    size = models.SmallIntegerField()  # classes of `WaitingJob`
    length = models.SmallIntegerField()
    since_at = models.DateTimeField()  # when this wait began: submission, or when it was queued again
    submit_at = models.DateTimeField(null=True)
    is_first = models.BooleanField()  # of this wait
    made_at = models.DateTimeField()
    made_in = models.BigIntegerField()
    age_s = models.FloatField()
    basis = models.CharField(max_length=16)
    bounds_s = ArrayField(models.FloatField(), size=3)
    offers = models.JSONField(default=list)
    facts = models.BinaryField(null=True)
    outcomes = ArrayField(models.SmallIntegerField(choices=Outcome.choices), size=3)
    settled_in = ArrayField(models.BigIntegerField(null=True), size=3)
    planned_s = models.FloatField(null=True)
    plan_s = models.FloatField(null=True)
    planned_outcome = models.SmallIntegerField(choices=Outcome.choices, default=Outcome.OPEN)
    planned_in = models.BigIntegerField(null=True)
    soon = models.FloatField(null=True)  # probability of a start within 5 minutes; of first promises at submission
    others_wait = models.BooleanField()
    was_soon = models.BooleanField(null=True)
    soon_in = models.BigIntegerField(null=True)
    cause = models.CharField(max_length=12, choices=Cause.choices, blank=True, default="")
    withdrawn_at = models.DateTimeField(null=True)
    left_at = models.DateTimeField(null=True)
    left_in = models.BigIntegerField(null=True)
    has_started = models.BooleanField(null=True)
    next_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)
    missed_at = models.DateTimeField(null=True)  # when it was first found missing

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scheduler", "job", "made_in"], name="starts_startpromise_once"),
            models.CheckConstraint(
                condition=Q(left_at=None, has_started=None) | Q(left_at__isnull=False, has_started__isnull=False),
                name="starts_startpromise_left",
            ),
        ]
        indexes = [
            models.Index(fields=["scheduler", "job"], condition=~Q(next_at=None), name="starts_startpromise_waits"),
            models.Index(fields=["scheduler", "due_at"], condition=~Q(due_at=None), name="starts_startpromise_due"),
            models.Index(fields=["scheduler", "made_at"], name="starts_startpromise_made"),
        ]

    def __str__(self) -> str:
        return f"{self.job} of {self.scheduler_id} at {self.made_at:%Y-%m-%d %H:%M:%S}"


class StartState(models.Model):
    """What was learned from a scheduler’s promises after its last report; a function of its rows alone.

    seq: number of that report, counted here. opening: what was learned from rows that are no longer there.
    held: of promises of 80 %, by kind: those kept and all that were settled, in days, as `day_sums` counted them last.
    recent: by kind, kept and number of the latest ones. nodes_out: nodes down or drained by partition, as promises know
    them. reservations: names that they know.
    """

    scheduler = models.OneToOneField(Scheduler, on_delete=models.CASCADE, related_name="+")
    seq = models.BigIntegerField(default=0)
    taken_at = models.DateTimeField(null=True)
    data = models.BinaryField()
    digest = models.CharField(max_length=64)
    opening_seq = models.BigIntegerField(default=0)
    opening = models.BinaryField()
    opening_digest = models.CharField(max_length=64)
    held = models.JSONField(default=dict)
    summed_seq = models.BigIntegerField(default=0)  # the last report in the sums of days
    recent = models.JSONField(default=dict)
    nodes_out = models.JSONField(default=dict)
    reservations = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"report {self.seq} of {self.scheduler_id}"


class StartTrees(models.Model):
    """Trees that settled promises of a scheduler teach, as its report `seq` left them.

    at: instant of that report. n_rows: promises that teach something; n_jobs: jobs among them whose start is known.
    data, digest: empty where these are too few.
    """

    scheduler = models.OneToOneField(Scheduler, on_delete=models.CASCADE, related_name="+")
    seq = models.BigIntegerField()
    at = models.DateTimeField()
    n_rows = models.IntegerField()
    n_jobs = models.IntegerField()
    data = models.BinaryField()
    digest = models.CharField(max_length=64, blank=True)

    def __str__(self) -> str:
        return f"trees of {self.scheduler_id} at {self.at:%Y-%m-%d %H:%M:%S}"


class StartDay(models.Model):
    """Promises made on one day (UTC), as they were settled. Bursts count once: each promise of one of n counts 1/n.

    above_*: of promises longer than the floor, with bursts among these. apart_*: withdrawn for a known cause.
    planned_*: what the scheduler’s own planned start would have been as a promise, at the same instants; of level 80.
    """

    scheduler = models.ForeignKey(Scheduler, on_delete=models.CASCADE, related_name="+", db_index=False)
    day = models.DateField()
    kind = models.CharField(max_length=8)
    level = models.SmallIntegerField()  # in per cent
    size = models.SmallIntegerField()
    length = models.SmallIntegerField()
    partition = models.CharField(max_length=1_024, blank=True)
    kept = models.IntegerField()
    broken = models.IntegerField()
    unknown = models.IntegerField()  # left without a known start
    apart_kept = models.IntegerField()
    apart_broken = models.IntegerField()
    bursts = models.FloatField()
    bursts_kept = models.FloatField()
    above = models.IntegerField()
    above_kept = models.IntegerField()
    above_bursts = models.FloatField()
    above_bursts_kept = models.FloatField()
    planned = models.IntegerField()
    planned_kept = models.IntegerField()
    ours_beside_kept = models.IntegerField()  # of the `planned`, ours that held

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["scheduler", "day", "kind", "level", "size", "length", "partition"],
                name="starts_startday_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.day} of {self.scheduler_id}, {self.level} %"


class SourceWaits(models.Model):
    """What promises for past jobs of a usage source would have taught, each made by what was known at its instant.

    from_at, to_at: of the submissions. held: of promises of 80 % at submission, those that would have been kept and all
    that were settled; recent: of the latest ones.
    """

    source = models.OneToOneField(Source, on_delete=models.CASCADE, related_name="+")
    from_at = models.DateTimeField()
    to_at = models.DateTimeField()
    n_jobs = models.IntegerField()
    held = ArrayField(models.IntegerField(), size=2)
    recent = ArrayField(models.IntegerField(), size=2)
    data = models.BinaryField()
    digest = models.CharField(max_length=64)

    goes_with_owner: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"waits of {self.source_id} to {self.to_at:%Y-%m-%d}"
