"""Tables of usage sources, their records and hourly sums (buckets) by account. This room does not know policies."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.core.derived_state import in_tables
from apps.core.resource_kinds import LONGEST_RESOURCE_KIND
from apps.usage import timeliness
from apps.usage.columns import HourAmounts, Int4ForeignKey, JobColumns, RecordVersion
from apps.usage.parsers.slurm_billing import BillingWeights

DERIVED_STATE = (
    in_tables(
        "Bucket",
        "KindHour",
        "SiteDay",
        "SourceDay",
        holds="usage by hour, account, class and site; days and hours with usage",
        key="source, account, class, site, hour",
        inputs="finished records in their newest version, sealed hours",
        range="all hours",
        ends="each change of records changes it in the same transaction; `check_buckets` compares both",
    ),
    in_tables(
        "ChangedHour",
        holds="since which watermark hours of a source differ",
        key="source, watermark",
        inputs="changes of buckets and of what counts",
        range="all hours; an earlier hour supersedes later ones",
        ends="a note of an earlier hour",
    ),
    in_tables(
        "Overlap",
        holds="sites whose usage two sources report",
        key="source held, source kept, site",
        inputs="hours with usage of both",
        range="from and to an instant",
        ends="the hours are no longer of both; a decision stays",
    ),
    in_tables(
        "SealedHour",
        "SealedKind",
        holds="usage of records that were removed after their retention",
        key="source, hour",
        inputs="removed records",
        range="hours before the seal",
        ends="never: what it is made from is gone",
    ),
    in_tables(
        "UnclearJob",
        holds="jobs of which lines of a log are missing, and which",
        key="source, job, array task",
        inputs="the kept lines of the job",
        range="until the records of its newest line expire",
        ends="each line that is added makes it again",
    ),
)


class CurrentSources(models.Manager["Source"]):
    """Sources that are not archived."""

    def get_queryset(self) -> models.QuerySet[Source]:
        return super().get_queryset().filter(archived_at=None)


class Source(models.Model):
    """A stream of usage records: a scheduler's accounting database, a log file or a peer's feed.

    collecting: settings for its kind (a folder, arguments of a command, an address), never a secret. cursor: how far it
    was collected, stored in the transaction that stores the records before it.
    """

    class Kind(models.TextChoices):
        PUSH = "push", "Push: API or upload"
        DIRECTORY = "directory", "A watched directory"
        COMMAND = "command", "A command, on a schedule"
        SLURM_REST = "slurm-rest", "Slurm's REST daemon"
        PEER = "peer", "Another site's feed: hourly totals by entry, no records"

    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=128)
    origin = models.CharField(max_length=128, blank=True, default="")  # the peer it comes from; empty for this site
    namespace = models.CharField(max_length=128)  # of its user names; several sources may share one
    site = models.CharField(max_length=128, blank=True, default="")  # default for records without a site
    cluster = models.CharField(max_length=128, blank=True, default="")  # default for records without a cluster
    time_zone = models.CharField(max_length=64, blank=True, default="")  # of times without one; empty: rejected
    expected_every_s = models.PositiveIntegerField(null=True, blank=True)
    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.PUSH, db_default=Kind.PUSH)
    collecting = models.JSONField(default=dict, db_default={}, blank=True)
    collect_every_s = models.PositiveIntegerField(null=True, blank=True)
    collect_due_at = models.DateTimeField(null=True, blank=True)
    collected_at = models.DateTimeField(null=True, blank=True)  # last success
    collect_error = models.TextField(blank=True, default="", db_default="")  # of the last attempt; empty: it succeeded
    is_paused = models.BooleanField(default=False, db_default=False)
    cursor = models.JSONField(default=dict, db_default={}, blank=True)
    # records that end further in the future are rejected
    skew_tolerance_s = models.PositiveIntegerField(default=300, db_default=300)
    # Of its running jobs without a requested time, which no listing closes; null: open_jobs.LONGEST_RUN_S.
    longest_run_s = models.PositiveIntegerField(null=True, blank=True)
    listed_at = models.DateTimeField(null=True, blank=True)  # last complete listing of its running and pending jobs
    skew_s = models.FloatField(null=True, blank=True)  # how far the newest end was in the future when received
    sealed_before_at = models.DateTimeField(null=True, blank=True)  # older records were removed; buckets remain
    billing_weights = models.JSONField(default=dict, db_default={}, blank=True)  # of Slurm; see BillingWeights
    keep_records_days = models.PositiveIntegerField(null=True, blank=True)  # null: the site's setting
    names_people = models.BooleanField(default=False, db_default=False)  # its user names are sign-in names
    is_sample = models.BooleanField(default=False)
    watermark = models.BigIntegerField(default=0)  # grows with each commit that changes hours, open jobs or accounts
    last_record_end_at = models.DateTimeField(null=True, blank=True)
    last_submit_at = models.DateTimeField(null=True, blank=True)  # of all records ever stored; never lowered
    # Of all records that it ever reported, but for undone imports: the first submission, and the first of a job that
    # waited. It is known since then whether the source reports submit times.
    first_submit_at = models.DateTimeField(null=True, blank=True)
    first_wait_at = models.DateTimeField(null=True, blank=True)
    last_received_at = models.DateTimeField(null=True, blank=True)
    n_records = models.BigIntegerField(default=0)
    created_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True, blank=True)  # hidden and not counted since then

    all_objects = models.Manager["Source"]()  # includes archived ones; first, so that Django uses it for references
    objects = CurrentSources()

    n_accounts: int = 0  # set by selectors
    n_rejected: int = 0

    def __str__(self) -> str:
        return self.name

    @property
    def is_collected(self) -> bool:
        """Whether records are fetched from it; push sources send them, and a peer's feed has none."""
        return is_collected(self.kind)

    @property
    def billing(self) -> BillingWeights:
        return BillingWeights.from_json(self.billing_weights)

    @property
    def last_contact_at(self) -> datetime | None:
        return timeliness.last_contact_at(self)


def is_collected(kind: str) -> bool:
    return kind not in (Source.Kind.PUSH, Source.Kind.PEER)


class JobClass(models.Model):
    """Queue, partition and quality of service of a job; metrics can weight them."""

    queue = models.CharField(max_length=128, blank=True, default="")
    partition = models.CharField(max_length=128, blank=True, default="")
    qos = models.CharField(max_length=128, blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["queue", "partition", "qos"], name="usage_jobclass_once")]

    def __str__(self) -> str:
        return "/".join(part for part in (self.queue, self.partition, self.qos) if part) or "any"


class Record(JobColumns):
    """A job, or one start of a restarted job, in its latest reported version. Written by COPY, not by the ORM.

    The writer checks values and references once for a batch (records/record_rows): constraints and foreign keys would
    check them in each row. A trigger keeps what is referred to.

    Its partitions (records/partitions) have the indexes: unique by (source, job_number, key_hash), by account, of open
    jobs by source, and a coarse one of ids and times. Ids rise, and have no index of their own: find many by the key.
    """

    source = Int4ForeignKey(Source, models.PROTECT, related_name="records", db_index=False, db_constraint=False)
    account = Int4ForeignKey("accounts.Account", on_delete=models.PROTECT, db_index=False, db_constraint=False)
    job_class = Int4ForeignKey(JobClass, on_delete=models.PROTECT, db_index=False, db_constraint=False)
    run = Int4ForeignKey("runs.Run", null=True, on_delete=models.SET_NULL, db_index=False, db_constraint=False)
    is_charge = models.BooleanField(default=False, db_default=False)  # a charge without a job, e.g. a reservation
    note = models.CharField(max_length=64, blank=True, default="", db_default="")  # why we closed it: "vanished"

    def __str__(self) -> str:
        return f"{self.job} of source {self.source_id}"


class Bucket(HourAmounts):
    """Usage of one account in one hour.

    Amounts are multiples of 2⁻¹⁰, exactly summable, so that corrections leave no remainder.
    """

    # The hour is first: new rows go to the end of the index, and a window of hours is one range of it.
    pk = models.CompositePrimaryKey("hour_at", "source_id", "account_id", "job_class_id", "site")
    hour_at = models.DateTimeField()
    source = Int4ForeignKey(Source, on_delete=models.PROTECT, db_index=False, db_constraint=False)
    account = Int4ForeignKey("accounts.Account", on_delete=models.PROTECT, db_index=False, db_constraint=False)
    job_class = Int4ForeignKey(JobClass, on_delete=models.PROTECT, db_index=False, db_constraint=False)
    site = models.CharField(max_length=128, blank=True, default="")

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(cpu_s__gte=0), name="usage_bucket_cpu_not_negative")]

    def __str__(self) -> str:
        return f"{self.account_id} at {self.hour_at}"


class Kind(models.Model):
    """A kind of resource that records name, such as gpu:h100. A site has at most MOST_RESOURCE_KINDS (see kinds)."""

    id = models.SmallAutoField(primary_key=True)
    name = models.CharField(max_length=LONGEST_RESOURCE_KIND, unique=True)
    first_at = models.DateTimeField()  # when it was first received

    def __str__(self) -> str:
        return self.name


class KindHour(models.Model):
    """Usage of one kind of resource in a bucket, which exists wherever this does. In multiples of 2⁻¹⁰.

    amount: of a GPU kind, GPU-seconds, which are a part of the bucket's; of energy, joules.
    """

    goes_with_owner: ClassVar[bool] = True

    pk = models.CompositePrimaryKey("hour_at", "source_id", "account_id", "job_class_id", "site", "kind_id")
    hour_at = models.DateTimeField()
    source = Int4ForeignKey(Source, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False)
    account = Int4ForeignKey(
        "accounts.Account", on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    job_class = Int4ForeignKey(
        JobClass, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    site = models.CharField(max_length=128, blank=True, default="")
    kind = models.ForeignKey(Kind, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False)
    amount = models.FloatField()

    def __str__(self) -> str:
        return f"{self.kind_id} of {self.account_id} at {self.hour_at}"


class Import(models.Model):
    """An uploaded file of records and its options; its run does the work."""

    goes_with_owner: ClassVar[bool] = True

    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="imports")
    run = models.OneToOneField("runs.Run", on_delete=models.PROTECT, related_name="usage_import")
    format = models.CharField(max_length=32)
    file_name = models.CharField(max_length=255)
    stored_path = models.CharField(max_length=512, blank=True, default="")  # below var/uploads; removed after import
    n_bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    time_zone = models.CharField(max_length=64, blank=True, default="")
    dry_run = models.BooleanField(default=False)
    all_or_nothing = models.BooleanField(default=False, db_default=False)  # one invalid line rejects the file
    undone_at = models.DateTimeField(null=True, blank=True)
    undone_run = models.OneToOneField("runs.Run", models.PROTECT, null=True, blank=True, related_name="undone_import")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    first_start_at = models.DateTimeField(null=True)
    last_end_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["source", "-id"], name="usage_import_newest")]

    def __str__(self) -> str:
        return self.file_name


class RejectedLine(models.Model):
    """A line that an import rejected, with the reason."""

    usage_import = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="rejected_lines")
    line = models.BigIntegerField()
    code = models.CharField(max_length=64)
    message = models.CharField(max_length=512)
    excerpt = models.CharField(max_length=256, blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["usage_import", "line"], name="usage_rejectedline_once")]

    def __str__(self) -> str:
        return f"line {self.line}: {self.code}"


class ReplacedRecord(JobColumns):
    """An earlier version of a record: restored by undo, and listed as changed after month close."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="+")
    by_run = models.ForeignKey("runs.Run", null=True, on_delete=models.SET_NULL, related_name="+", db_index=False)
    replaced_at = models.DateTimeField()
    account = models.ForeignKey("accounts.Account", on_delete=models.PROTECT, related_name="+", db_index=False)
    job_class = models.ForeignKey(JobClass, on_delete=models.PROTECT, related_name="+", db_index=False)
    is_charge = models.BooleanField(default=False)
    note = models.CharField(max_length=64, blank=True, default="")
    run = models.ForeignKey(
        "runs.Run", null=True, on_delete=models.SET_NULL, related_name="+"
    )  # that imported this version

    class Meta:
        indexes = [
            models.Index(fields=["source", "-replaced_at"], name="usage_replaced_newest"),
            models.Index(fields=["by_run", "job"], name="usage_replaced_by"),
        ]

    def __str__(self) -> str:
        return f"{self.job} of source {self.source_id}, revision {self.revision}"


class RunLine(models.Model):
    """A line of a log about a job whose lines make its records together: see records/stored_runs.

    All lines of such a job are kept, since a file with another one may be read later. digest: of all that it says.
    """

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="+", db_index=False)
    run = models.ForeignKey("runs.Run", null=True, on_delete=models.SET_NULL, related_name="+")  # that imported it
    job = models.CharField(max_length=128)
    array_task = models.CharField(max_length=64, blank=True, default="")
    kind = models.CharField(max_length=8)
    happened_at = models.DateTimeField()
    rates = models.JSONField(default=list)  # that a suspension released: processors, GPUs, nodes, MB
    values = models.JSONField(default=dict, db_default={})  # the line as a row, and its walltime
    digest = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "job", "array_task", "digest"], name="usage_runline_once")
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.job}"


class UnclearJob(models.Model):
    """A job of which lines are missing, by those that are known. gaps: names of what is missing, see parsers/runs."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="+", db_index=False)
    job = models.CharField(max_length=128)
    array_task = models.CharField(max_length=64, blank=True, default="")
    gaps = models.JSONField(default=list)
    last_at = models.DateTimeField()  # of its newest line

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "job", "array_task"], name="usage_unclearjob_once")]

    def __str__(self) -> str:
        return f"{self.job} of source {self.source_id}"


class TooLateRecord(RecordVersion):
    """A record that ended before its source was sealed: listed with its usage, but not counted."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="+")
    run = models.ForeignKey("runs.Run", null=True, on_delete=models.SET_NULL, related_name="+")
    received_at = models.DateTimeField()
    account = models.ForeignKey("accounts.Account", on_delete=models.PROTECT, related_name="+")
    end_at = models.DateTimeField()
    cpu_s = models.FloatField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["source", "cluster", "job", "array_task", "submit_at", "restart", "revision", "end_at"],
                name="usage_toolaterecord_once",
            )
        ]
        indexes = [models.Index(fields=["source", "-received_at"], name="usage_too_late_newest")]

    def __str__(self) -> str:
        return f"{self.job} of source {self.source_id}"


class Overlap(models.Model):
    """Hours of a site reported by two sources. Those of the later source are not counted until a manager decides."""

    goes_with_owner: ClassVar[bool] = True

    class State(models.TextChoices):
        HELD = "held", "Held"  # the hours of `held` are not counted
        COUNTED = "counted", "Both count"  # a manager confirmed different jobs
        DROPPED = "dropped", "Only the first counts"

    site = models.CharField(max_length=128)
    kept = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="+")
    held = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="overlaps")
    from_at = models.DateTimeField()  # start of the first hour
    to_at = models.DateTimeField()  # end of the last hour
    state = models.CharField(max_length=16, choices=State.choices, default=State.HELD)
    found_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    reason = models.TextField(blank=True, default="")

    class Meta:
        indexes = [models.Index(fields=["held", "site", "from_at"], name="usage_overlap_hours")]

    def __str__(self) -> str:
        return f"{self.site}: {self.held_id} over {self.kept_id}"


class SealedHour(HourAmounts):
    """Usage of an hour from records removed since, so that its buckets can still be audited."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="+")
    hour_at = models.DateTimeField()
    n_records = models.BigIntegerField(default=0)  # removed records with usage in this hour

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "hour_at"], name="usage_sealedhour_once")]

    def __str__(self) -> str:
        return f"{self.source_id} at {self.hour_at}"


class SealedKind(models.Model):
    """Usage of one kind of resource in an hour from records removed since, beside the sealed hour."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="+")
    hour_at = models.DateTimeField()
    kind = models.ForeignKey(Kind, on_delete=models.PROTECT, related_name="+", db_index=False)
    amount = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "hour_at", "kind"], name="usage_sealedkind_once")]

    def __str__(self) -> str:
        return f"{self.kind_id} of {self.source_id} at {self.hour_at}"


class SourceDay(models.Model):
    """What a source delivered on one day (UTC), counted in the transaction that stored the records."""

    goes_with_owner: ClassVar[bool] = True

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="days")
    received_on = models.DateField()
    n_new = models.BigIntegerField(default=0)
    n_duplicate = models.BigIntegerField(default=0)
    n_corrected = models.BigIntegerField(default=0)
    n_late = models.BigIntegerField(default=0)
    n_too_late = models.BigIntegerField(default=0)
    n_rejected = models.BigIntegerField(default=0)
    n_ahead = models.BigIntegerField(default=0)  # rejected because they end in the future

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "received_on"], name="usage_sourceday_once")]

    def __str__(self) -> str:
        return f"{self.source_id} on {self.received_on}"


class SiteDay(models.Model):
    """Hours of a day (UTC) in which a source has usage of a site: used to detect overlapping sources."""

    goes_with_owner: ClassVar[bool] = True

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    site = models.CharField(max_length=128, blank=True, default="")
    day = models.DateField()
    hours = models.IntegerField()  # bit n is hour n

    class Meta:
        constraints = [models.UniqueConstraint(fields=["site", "day", "source"], name="usage_siteday_once")]

    def __str__(self) -> str:
        return f"{self.site} on {self.day} by {self.source_id}"


class ChangedHour(models.Model):
    """The commit of `watermark` changed buckets of the source from `from_hour_at` on: see `changed_hours`."""

    goes_with_owner: ClassVar[bool] = True

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="+", db_index=False)
    watermark = models.BigIntegerField()
    from_hour_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["source", "from_hour_at"], name="usage_changed_hour")]

    def __str__(self) -> str:
        return f"{self.source_id} from {self.from_hour_at} on"


class Repetition(models.Model):
    """Number of an import's records that were received again later; undoing the import would lose them."""

    run = models.ForeignKey("runs.Run", on_delete=models.CASCADE, related_name="+")  # of the import
    by_run = models.ForeignKey("runs.Run", null=True, on_delete=models.CASCADE, related_name="+")  # null: not an import
    n_records = models.BigIntegerField()
    last_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "by_run"], nulls_distinct=False, name="usage_repetition_once")
        ]

    def __str__(self) -> str:
        return f"{self.n_records} of {self.run_id} by {self.by_run_id}"
