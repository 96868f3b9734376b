"""Tables of schedulers, reports of their agents' passes, and the queue, values and shares that agents read."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import User
from apps.core.counts import counted
from apps.core.derived_state import in_tables
from apps.policies.models import Policy

DERIVED_STATE = (
    in_tables(
        "Agreement",
        holds="agreement of our factors with the scheduler's",
        key="scheduler, instant",
        inputs="values that the agent read, the newest snapshot",
        range="one report",
        ends="age by the believed clock",
    ),
)

MOST_FACTOR_WEIGHT = 2_147_483_645  # the largest signed value that Slurm accepts
KNOBS = {
    "slurm": ("sitefactor", "nice", "priority"),
    "gridengine": ("override_tickets", "priority"),
    "htcondor": ("priority_factor",),
}


class Scheduler(models.Model):
    """A scheduler bound to one policy. `revision` rises with each change of the agent's orders."""

    class Kind(models.TextChoices):
        SLURM = "slurm", "Slurm"
        GRIDENGINE = "gridengine", "Grid Engine"
        HTCONDOR = "htcondor", "HTCondor"

    class Reach(models.TextChoices):
        AGENT = "agent", _("Agent on the scheduler's host")
        COMMANDS = "commands", _("Commands on this host")

    class Mode(models.TextChoices):
        OFF = "off", _("Off")
        SHADOW = "shadow", _("Shadow")
        CANARY = "canary", _("Canary")
        ON = "on", _("On")

    class Carries(models.TextChoices):
        PRIORITIES = "priorities", "Job priorities"
        SHARES = "shares", "Account shares"
        LIMITS = "limits", "Account limits"

    name = models.SlugField(max_length=64)
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="schedulers")
    kind = models.CharField(max_length=16, choices=Kind.choices)
    reach = models.CharField(max_length=16, choices=Reach.choices, default=Reach.AGENT)
    namespace = models.CharField(max_length=128, blank=True, default="")  # of its user names; empty for any
    partitions = ArrayField(models.CharField(max_length=64), null=True)  # null: all
    subtree_uid = models.UUIDField(null=True)  # null: the whole tree
    # as of the last change of settings; the entry may have been removed since
    subtree_path = models.CharField(max_length=8_400, default="/")
    carries = models.CharField(max_length=12, choices=Carries.choices, default=Carries.PRIORITIES)
    knob = models.CharField(max_length=24)
    weight = models.BigIntegerField(default=100_000)
    step = models.BigIntegerField(default=100)
    mode = models.CharField(max_length=8, choices=Mode.choices, default=Mode.OFF)
    canary_partition = models.CharField(max_length=64, blank=True, default="")
    every_s = models.PositiveIntegerField(default=30)
    snapshot_age_s = models.PositiveIntegerField(default=900)
    unmapped_percent = models.PositiveSmallIntegerField(default=20)
    changed_percent = models.PositiveSmallIntegerField(default=50)
    calls_per_s = models.PositiveSmallIntegerField(default=20)
    updates_per_min = models.PositiveIntegerField(default=1_000)  # jobs changed
    follows = models.BooleanField(default=False)  # each hour a draft of its accounts and users, where they differ
    is_paused = models.BooleanField(default=False)
    is_reset_requested = models.BooleanField(default=False)
    resumes = models.PositiveIntegerField(default=0)  # how often it was resumed, so that no resume is missed
    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    checks = models.JSONField(null=True)  # as last sent by the agent
    checked_at = models.DateTimeField(null=True)
    former_lines = models.JSONField(default=dict)  # of its configuration, as agent/former_lines.py has them

    class Meta:
        ordering = ("name",)
        constraints = [
            models.UniqueConstraint(fields=["name"], name="schedulers_scheduler_name"),
            models.CheckConstraint(
                condition=Q(kind="slurm", knob__in=KNOBS["slurm"])
                | Q(kind="gridengine", knob__in=KNOBS["gridengine"])
                | Q(kind="htcondor", knob__in=KNOBS["htcondor"]),
                name="schedulers_scheduler_knob",
            ),
            models.CheckConstraint(
                condition=Q(weight__gte=1, weight__lte=MOST_FACTOR_WEIGHT, step__gte=1, step__lte=F("weight")),
                name="schedulers_scheduler_weight",
            ),
            models.CheckConstraint(
                condition=~Q(mode="canary") | ~Q(canary_partition="") | Q(carries="limits"),
                name="schedulers_scheduler_canary",
            ),
            models.CheckConstraint(
                condition=Q(carries="priorities")
                | (Q(carries="shares", kind__in=["slurm", "gridengine"]) & ~Q(mode="canary"))
                | Q(carries="limits", kind="slurm"),
                name="schedulers_scheduler_carries",
            ),
            models.CheckConstraint(
                condition=Q(every_s__gte=5, every_s__lte=3_600), name="schedulers_scheduler_interval"
            ),
            models.CheckConstraint(
                condition=Q(unmapped_percent__lte=100, changed_percent__gte=1, changed_percent__lte=100),
                name="schedulers_scheduler_percent",
            ),
            models.CheckConstraint(condition=Q(revision__gte=1), name="schedulers_scheduler_revision"),
        ]

    def __str__(self) -> str:
        return self.name


class AgentPass(models.Model):
    """The report of one pass of an agent."""

    scheduler = models.ForeignKey(Scheduler, on_delete=models.CASCADE, related_name="passes")
    uid = models.UUIDField()  # chosen by the agent, so that a repeated report counts once
    body_sha256 = models.CharField(max_length=64)
    received_at = models.DateTimeField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    agent = models.CharField(max_length=64)
    host = models.CharField(max_length=255)
    scheduler_version = models.CharField(max_length=64, blank=True, default="")
    orders_revision = models.PositiveIntegerField()
    mode = models.CharField(max_length=8, choices=Scheduler.Mode.choices)
    snapshot = models.BigIntegerField(null=True)
    snapshot_age_s = models.FloatField(null=True)
    pending = models.PositiveIntegerField(default=0)
    mapped = models.PositiveIntegerField(default=0)
    unmapped = models.PositiveIntegerField(default=0)
    due = models.PositiveIntegerField(default=0)
    sent = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    calls = models.PositiveIntegerField(default=0)
    frozen_code = models.CharField(max_length=32, blank=True, default="")
    frozen_detail = models.CharField(max_length=1_000, blank=True, default="")
    errors = models.JSONField(default=list)
    unmapped_names = models.JSONField(default=list)

    class Meta:
        verbose_name_plural = "agent passes"
        constraints = [models.UniqueConstraint(fields=["scheduler", "uid"], name="schedulers_agentpass_once")]
        indexes = [
            models.Index(fields=["scheduler", "-id"], name="schedulers_agentpass_newest"),
            models.Index(fields=["received_at"], name="schedulers_agentpass_received"),
        ]

    def __str__(self) -> str:
        return f"{self.scheduler_id} {self.started_at:%Y-%m-%d %H:%M:%S}"

    @property
    def awaits_resume(self) -> bool:
        """Whether it sent nothing because of a change that a resume accepts."""
        return self.frozen_code in ("too_many_changes", "order_lost")


class QueueListing(models.Model):
    """All waiting jobs of a scheduler as last listed by its agent: one compressed table, replaced as a whole.

    Replacing 50,000 rows by COPY took 1.6 s and reading them 2.2 s; with this table 0.1 s and 0.06 s
    (docs/schedulers.md).
    """

    scheduler = models.OneToOneField(Scheduler, on_delete=models.CASCADE, related_name="queue")
    taken_at = models.DateTimeField()  # start of the pass that read it
    n_jobs = models.PositiveIntegerField()
    data = models.BinaryField()  # core.blobs
    digest = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"{counted(self.n_jobs, 'job')} of {self.scheduler_id}"


class RunningListing(models.Model):
    """What an agent lists beside the waiting jobs of `QueueListing`: running and ended jobs, capacity, reservations."""

    scheduler = models.OneToOneField(Scheduler, on_delete=models.CASCADE, related_name="running")
    taken_at = models.DateTimeField()
    n_jobs = models.PositiveIntegerField()
    data = models.BinaryField()  # core.blobs
    digest = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"{counted(self.n_jobs, 'running job')} of {self.scheduler_id}"


class SchedulerValues(models.Model):
    """The scheduler's own shares and usage (from sshare, for example), as last read by its agent."""

    scheduler = models.OneToOneField(Scheduler, on_delete=models.CASCADE, related_name="own_values")
    taken_at = models.DateTimeField()
    n_rows = models.PositiveIntegerField()
    data = models.BinaryField()
    digest = models.CharField(max_length=64)

    class Meta:
        verbose_name_plural = "scheduler values"

    def __str__(self) -> str:
        return f"{counted(self.n_rows, 'value')} of {self.scheduler_id}"


class ShareListing(models.Model):
    """Shares of the scheduler's own fair share, as last listed by its agent (see share_difference)."""

    scheduler = models.OneToOneField(Scheduler, on_delete=models.CASCADE, related_name="share_listing")
    taken_at = models.DateTimeField()
    cluster = models.CharField(max_length=256, blank=True)
    n_rows = models.PositiveIntegerField()
    data = models.BinaryField()
    digest = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"{counted(self.n_rows, 'share')} of {self.scheduler_id}"


class ShareOrder(models.Model):
    """Shares that the agent must set in the scheduler, after a review.

    lines: [{"group", "user", "before", "after", "outcome", "detail"}]; outcome is empty for a line that is not done.
    """

    class State(models.TextChoices):
        OPEN = "open", "Open"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"

    scheduler = models.ForeignKey(Scheduler, on_delete=models.CASCADE, related_name="share_orders")
    cluster = models.CharField(max_length=256, blank=True)
    revision_number = models.PositiveIntegerField()  # revision of the policy
    lines = models.JSONField()
    state = models.CharField(max_length=12, choices=State.choices, default=State.OPEN)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150, blank=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["scheduler"], condition=Q(state="open"), name="schedulers_shareorder_one_open"
            ),
            models.CheckConstraint(
                condition=Q(state="open", ended_at=None) | (~Q(state="open") & Q(ended_at__isnull=False)),
                name="schedulers_shareorder_ended",
            ),
        ]
        indexes = [models.Index(fields=["scheduler", "-id"], name="schedulers_shareorder_newest")]

    def __str__(self) -> str:
        return f"{len(self.lines)} lines for {self.scheduler_id} ({self.state})"


class LimitSettings(models.Model):
    """Bounds within which the agent of a scheduler sets limits of accounts, and the two persons who switched it on.

    accounts: those that the owner named, by their names in the scheduler; no other gets a limit.
    approved_accounts: those that a second person approved; outside shadow mode, only these get one.
    approved_percent_a_day, approved_lapse_s: the widest bounds that person approved; null before the first approval.
    """

    scheduler = models.OneToOneField(Scheduler, on_delete=models.CASCADE, related_name="limit_settings")
    accounts = ArrayField(models.CharField(max_length=128), default=list)
    canary_account = models.CharField(max_length=128, blank=True, default="")
    percent_a_day = models.PositiveSmallIntegerField(default=10)
    lapse_s = models.PositiveIntegerField(default=86_400)
    requested_accounts = ArrayField(models.CharField(max_length=128), default=list)
    requested_percent_a_day = models.PositiveSmallIntegerField(null=True)
    requested_lapse_s = models.PositiveIntegerField(null=True)
    requested_at = models.DateTimeField(null=True)
    requested_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    requested_by_name = models.CharField(max_length=150, blank=True, default="")
    approved_percent_a_day = models.PositiveSmallIntegerField(null=True)
    approved_lapse_s = models.PositiveIntegerField(null=True)
    approved_accounts = ArrayField(models.CharField(max_length=128), default=list)
    approved_at = models.DateTimeField(null=True)
    approved_by_name = models.CharField(max_length=150, blank=True, default="")

    class Meta:
        verbose_name_plural = "limit settings"
        constraints = [
            models.CheckConstraint(
                condition=Q(percent_a_day__lte=100, lapse_s__gte=600, lapse_s__lte=7_776_000),
                name="schedulers_limitsettings_bounds",
            ),
        ]

    def __str__(self) -> str:
        return f"{counted(len(self.accounts), 'account')} of {self.scheduler_id}"


class LimitListing(models.Model):
    """What the agent last reported of limits of accounts.

    accounts: [{"account", "code", "detail", "now", "before", "ours", "set_at"}].
    """

    scheduler = models.OneToOneField(Scheduler, on_delete=models.CASCADE, related_name="limit_listing")
    taken_at = models.DateTimeField()
    cluster = models.CharField(max_length=256, blank=True)
    accounts = models.JSONField(default=list)
    lapses_at = models.DateTimeField(null=True)  # unless the agent gets newer orders
    ended_at = models.DateTimeField(null=True)  # on the scheduler's host
    ended_by = models.CharField(max_length=128, blank=True, default="")

    def __str__(self) -> str:
        return f"{counted(len(self.accounts), 'account')} of {self.scheduler_id}"


class Agreement(models.Model):
    """Agreement of the scheduler's order of users with ours at one time; null where undefined."""

    scheduler = models.ForeignKey(Scheduler, on_delete=models.CASCADE, related_name="agreements")
    at = models.DateTimeField()
    snapshot = models.BigIntegerField()
    compared = models.PositiveIntegerField()  # number of users known to both
    kendall = models.FloatField(null=True)  # tau-b
    spearman = models.FloatField(null=True)
    top_overlap = models.FloatField(null=True)  # of the first tenth, at least one user

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scheduler", "at"], name="schedulers_agreement_once"),
            models.CheckConstraint(
                condition=(Q(kendall=None) | Q(kendall__gte=-1, kendall__lte=1))
                & (Q(spearman=None) | Q(spearman__gte=-1, spearman__lte=1))
                & (Q(top_overlap=None) | Q(top_overlap__gte=0, top_overlap__lte=1)),
                name="schedulers_agreement_range",
            ),
        ]
        indexes = [models.Index(fields=["at"], name="schedulers_agreement_at")]

    def __str__(self) -> str:
        return f"{self.scheduler_id} {self.at:%Y-%m-%d %H:%M}"
