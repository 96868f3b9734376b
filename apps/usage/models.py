"""Usage as facts (records) and as sums (hourly buckets), by account. This room knows no policies."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q


class Source(models.Model):
    """One stream of usage records: a scheduler's accounting, a log, a peer."""

    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=128)
    origin = models.CharField(max_length=64, blank=True, default="")  # "" is this site; else the peer it comes from
    namespace = models.CharField(max_length=128)  # whose user names these are; several sources may share one
    site = models.CharField(max_length=128, blank=True, default="")  # for records that name none
    cluster = models.CharField(max_length=128, blank=True, default="")  # for records that name none
    time_zone = models.CharField(max_length=64, blank=True, default="")  # naive times without one are refused
    expected_every_s = models.PositiveIntegerField(null=True, blank=True)
    names_people = models.BooleanField(default=False, db_default=False)  # its user names are those people sign in with
    is_sample = models.BooleanField(default=False)
    watermark = models.BigIntegerField(default=0)  # grows with every commit that changed a bucket or a running job
    last_record_end_at = models.DateTimeField(null=True, blank=True)
    last_received_at = models.DateTimeField(null=True, blank=True)
    n_records = models.BigIntegerField(default=0)
    created_at = models.DateTimeField()

    n_accounts: int = 0  # counted by the selectors
    n_rejected: int = 0

    def __str__(self) -> str:
        return self.name


class JobClass(models.Model):
    """Queue, partition and quality of service: what a metric may weigh differently."""

    queue = models.CharField(max_length=128, blank=True, default="")
    partition = models.CharField(max_length=128, blank=True, default="")
    qos = models.CharField(max_length=128, blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["queue", "partition", "qos"], name="usage_jobclass_once")]

    def __str__(self) -> str:
        return "/".join(part for part in (self.queue, self.partition, self.qos) if part) or "any"


class Record(models.Model):
    """One job, or one start of a restarted job, in its latest reported version. Written by COPY, not by the ORM.

    Triggers stand in for foreign keys here and at buckets: they look up each distinct value once a statement.
    """

    class State(models.TextChoices):
        PENDING = "pending", "Waiting to start"
        RUNNING = "running", "Running"
        FINISHED = "finished", "Finished"
        WITHDRAWN = "withdrawn", "Withdrawn"  # kept, so that an old copy that comes again isn't counted again

    # No index on the source alone: look-ups by key must find the key's index, also before there are statistics.
    source = models.ForeignKey(
        Source, on_delete=models.PROTECT, related_name="records", db_index=False, db_constraint=False
    )
    cluster = models.CharField(max_length=128, blank=True, default="")
    job = models.CharField(max_length=128)
    array_task = models.CharField(max_length=64, blank=True, default="")
    submit_at = models.DateTimeField()  # the start when the source tells no submission
    restart = models.PositiveIntegerField(default=0)
    revision = models.BigIntegerField(default=0)
    state = models.CharField(max_length=16, choices=State.choices)
    account = models.ForeignKey("accounts.Account", on_delete=models.PROTECT, db_index=False, db_constraint=False)
    job_class = models.ForeignKey(JobClass, on_delete=models.PROTECT, db_index=False, db_constraint=False)
    site = models.CharField(max_length=128, blank=True, default="")
    start_at = models.DateTimeField(null=True)
    end_at = models.DateTimeField(null=True)
    cpus = models.FloatField(default=0)
    gpus = models.FloatField(default=0)
    nodes = models.FloatField(default=0)
    mem_mb = models.FloatField(default=0)
    billing = models.FloatField(default=0)  # billing units a second
    requested_s = models.FloatField(null=True)
    run = models.ForeignKey("runs.Run", null=True, on_delete=models.SET_NULL, db_index=False, db_constraint=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["source", "cluster", "job", "array_task", "submit_at", "restart"], name="usage_record_key"
            ),
            models.CheckConstraint(
                condition=Q(end_at=None) | Q(end_at__gte=F("start_at")), name="usage_record_end_after_start"
            ),
            models.CheckConstraint(
                condition=~Q(state="finished") | Q(start_at__isnull=False, end_at__isnull=False),
                name="usage_record_finished_has_times",
            ),
            *(
                models.CheckConstraint(
                    condition=Q(**{f"{column}__gte": 0, f"{column}__lte": 1e12}), name=f"usage_record_{column}"
                )
                for column in ("cpus", "gpus", "nodes", "mem_mb", "billing")
            ),
        ]
        indexes = [
            models.Index(fields=["source"], condition=~Q(state="finished"), name="usage_record_open"),
            models.Index(fields=["account"], name="usage_record_account"),
        ]

    def __str__(self) -> str:
        return f"{self.job} of source {self.source_id}"


class Bucket(models.Model):
    """What one account used in one hour: sums of multiples of 2⁻¹⁰, exact, so that corrections leave no rest."""

    source = models.ForeignKey(Source, on_delete=models.PROTECT, db_index=False, db_constraint=False)
    account = models.ForeignKey("accounts.Account", on_delete=models.PROTECT, db_index=False, db_constraint=False)
    site = models.CharField(max_length=128, blank=True, default="")
    job_class = models.ForeignKey(JobClass, on_delete=models.PROTECT, db_index=False, db_constraint=False)
    hour_at = models.DateTimeField()
    cpu_s = models.FloatField(default=0)
    gpu_s = models.FloatField(default=0)
    mem_gb_s = models.FloatField(default=0)
    node_s = models.FloatField(default=0)
    billing = models.FloatField(default=0)
    jobs = models.FloatField(default=0)  # counted in the hour of their end

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["source", "account", "site", "job_class", "hour_at"], name="usage_bucket_key"
            ),
            models.CheckConstraint(condition=Q(cpu_s__gte=0), name="usage_bucket_cpu_not_negative"),
        ]
        indexes = [models.Index(fields=["hour_at", "source"], name="usage_bucket_hour_source")]

    def __str__(self) -> str:
        return f"{self.account_id} at {self.hour_at}"


class Import(models.Model):
    """A file of records: what it was, and what became of its lines. The work itself is its run."""

    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="imports")
    run = models.OneToOneField("runs.Run", on_delete=models.PROTECT, related_name="usage_import")
    format = models.CharField(max_length=32)
    file_name = models.CharField(max_length=255)
    stored_path = models.CharField(max_length=512, blank=True, default="")  # below var/uploads, until it is done
    n_bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    time_zone = models.CharField(max_length=64, blank=True, default="")
    dry_run = models.BooleanField(default=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    first_start_at = models.DateTimeField(null=True)
    last_end_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["source", "-id"], name="usage_import_newest")]

    def __str__(self) -> str:
        return self.file_name


class RejectedLine(models.Model):
    """A line that was not taken, with the reason: nothing is dropped silently."""

    usage_import = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="rejected_lines")
    line = models.BigIntegerField()
    code = models.CharField(max_length=64)
    message = models.CharField(max_length=512)
    excerpt = models.CharField(max_length=256, blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["usage_import", "line"], name="usage_rejectedline_once")]

    def __str__(self) -> str:
        return f"line {self.line}: {self.code}"


class IdempotentAnswer(models.Model):
    """The first answer to a push with an Idempotency-Key, so that a retry gets the same one."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE)
    key = models.CharField(max_length=128)
    body_sha256 = models.CharField(max_length=64)
    answer = models.JSONField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "key"], name="usage_idempotentanswer_key")]

    def __str__(self) -> str:
        return self.key
