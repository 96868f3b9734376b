"""Which account counts for which entry, and the computed priority trees."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q


class Mapping(models.Model):
    """The version of a policy's rules: part of the fingerprint of what is computed from them."""

    policy = models.OneToOneField("policies.Policy", on_delete=models.CASCADE, related_name="mapping")
    version = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"mapping of {self.policy_id}"


class MappingRule(models.Model):
    """One rule from accounts to an entry. Rules are tried in order; all matches of the first matching rule count.

    `target_uid` names an entry; `suffix` goes on below it by name, with {user}, {group}, {project} filled in,
    as deep as such entries exist.
    """

    class Kind(models.TextChoices):
        EXACT = "exact", "This account"
        GLOB = "glob", "Accounts whose names match"
        GROUP = "group", "Accounts of a group or FQAN"
        EACH = "each", "Every matching user becomes a child"
        DEFAULT = "default", "All the rest"

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="mapping_rules")
    position = models.PositiveIntegerField()
    kind = models.CharField(max_length=16, choices=Kind.choices)
    namespace = models.CharField(max_length=128, blank=True, default="")  # "" is any
    source = models.CharField(max_length=64, blank=True, default="")  # its slug, in place of its namespace
    user_pattern = models.CharField(max_length=256, blank=True, default="")  # "" is any; glob, or literal for exact
    group_pattern = models.CharField(max_length=256, blank=True, default="")
    fqan_pattern = models.CharField(max_length=512, blank=True, default="")
    target_uid = models.UUIDField()
    suffix = models.CharField(max_length=256, blank=True, default="")
    member_shares = models.FloatField(default=1)  # for `each`
    archive_after_idle_days = models.PositiveIntegerField(null=True, blank=True)  # for `each`
    reach_uid = models.UUIDField(null=True, blank=True)  # below which its author maps accounts; null: everywhere
    written_at = models.CharField(max_length=40, blank=True, default="", db_default="")  # an instant in UTC

    class Meta:
        ordering = ["policy", "position"]
        constraints = [
            models.UniqueConstraint(
                fields=["policy", "position"], name="priorities_rule_position", deferrable=models.Deferrable.DEFERRED
            ),
            models.CheckConstraint(
                condition=Q(member_shares__gte=0, member_shares__lte=1e15), name="priorities_rule_shares_finite"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.position}: {self.kind}"


class MappingVersion(models.Model):
    """One change of what counts where: who made it, why, and everything before and after it, so that it can be undone.

    `rules`: all of them, as Rule.to_json has them, after a version that changed them, else null. `attached`: each
    account that was attached, moved or let go, with its names and the entry before and after (null: none).
    """

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="mapping_versions")
    number = models.PositiveIntegerField()
    at = models.DateTimeField()
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    author_name = models.CharField(max_length=256)
    reason = models.TextField(blank=True, default="")
    rules = models.JSONField(null=True)
    attached = models.JSONField(default=list)

    class Meta:
        ordering = ["policy", "number"]
        constraints = [models.UniqueConstraint(fields=["policy", "number"], name="priorities_mapping_version_once")]

    def __str__(self) -> str:
        return f"version {self.number} of the mapping of {self.policy_id}"


class Snapshot(models.Model):
    """The computed priority tree of one revision at one instant, as a checksummed blob. A row means it is ready."""

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="snapshots")
    revision_number = models.PositiveIntegerField()
    mapping_version = models.PositiveIntegerField()
    watermarks = models.JSONField()  # source slug → watermark that was read
    settings = models.JSONField()
    engine_version = models.CharField(max_length=32)
    fingerprint = models.CharField(max_length=64)
    as_of = models.DateTimeField()
    computed_at = models.DateTimeField()
    duration_s = models.FloatField()
    n_ranked = models.PositiveIntegerField()
    is_live = models.BooleanField(default=True)  # false: computed for a past instant on request, never served as newest
    is_kept = models.BooleanField(default=False)  # referenced: never pruned
    run = models.ForeignKey("runs.Run", null=True, on_delete=models.SET_NULL, related_name="snapshots")
    data = models.BinaryField()
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["policy", "fingerprint"], name="priorities_snapshot_once")]
        indexes = [
            models.Index(fields=["policy", "is_live", "-id"], name="priorities_snapshot_newest"),
            models.Index(fields=["policy", "as_of"], name="priorities_snapshot_as_of"),
        ]

    def __str__(self) -> str:
        return f"snapshot {self.pk} of {self.policy_id} as of {self.as_of}"


class UnmappedUsage(models.Model):
    """Accounts of the newest snapshot that match no entry, with what they used: shown, never dropped."""

    snapshot = models.ForeignKey(Snapshot, on_delete=models.CASCADE, related_name="unmapped")
    account = models.ForeignKey("accounts.Account", on_delete=models.CASCADE)
    usage = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["snapshot", "account"], name="priorities_unmapped_once")]

    def __str__(self) -> str:
        return f"{self.account_id}: {self.usage}"


class ChangeSetEffect(models.Model):
    """What an open change set was last found to lead to, worked out in the background: see priorities.projection.

    It stands for `digest_of` (operations and base), the head and the snapshot that it was worked out on; it is shown,
    and marked, when these have moved on.
    """

    change_set = models.OneToOneField(
        "policies.ChangeSet", on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    digest_of = models.CharField(max_length=64)
    head_number = models.PositiveIntegerField()
    snapshot_id = models.BigIntegerField()  # no reference: it outlives the snapshot
    as_of = models.DateTimeField()
    computed_at = models.DateTimeField()
    data = models.BinaryField()
    digest = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"effect of change set {self.change_set_id}"


class Attachment(models.Model):
    """An account that somebody placed at an entry by hand: before any rule is asked, it counts there."""

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="attachments")
    account = models.ForeignKey("accounts.Account", on_delete=models.CASCADE, related_name="attachments")
    entry_uid = models.UUIDField()
    reason = models.TextField(blank=True, default="")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    author_name = models.CharField(max_length=256)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["policy", "account"], name="priorities_attachment_once")]
        indexes = [models.Index(fields=["policy", "entry_uid"], name="priorities_attachment_entry")]

    def __str__(self) -> str:
        return f"{self.account_id} at {self.entry_uid}"


class Claim(models.Model):
    """Somebody says that an account is theirs, and nothing says so yet: whoever maps its entry decides."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="claims")
    namespace = models.CharField(max_length=128)
    user_name = models.CharField(max_length=256)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "namespace", "user_name"], name="priorities_claim_once")]

    def __str__(self) -> str:
        return f"{self.namespace}:{self.user_name} is claimed by {self.user_id}"


class Beginning(models.Model):
    """A first policy on its way: the tree that a file declares, and the log it is held against. Nothing is in force.

    `facts`: what else the file said (its format, cluster, what was ignored). `decisions`: accounts that somebody
    placed, each with its names and the entry's uid. One is open at a time; anybody who may go on with it can.
    """

    is_open = models.BooleanField(default=True)
    file_name = models.CharField(max_length=255)
    facts = models.JSONField(default=dict)
    file_settings = models.JSONField(default=dict)
    tree = models.BinaryField()
    tree_digest = models.CharField(max_length=64)
    source = models.ForeignKey("usage.Source", null=True, on_delete=models.SET_NULL, related_name="+")
    dry_run = models.ForeignKey("usage.Import", null=True, on_delete=models.SET_NULL, related_name="+")
    usage_import = models.ForeignKey("usage.Import", null=True, on_delete=models.SET_NULL, related_name="+")
    decisions = models.JSONField(default=list)
    policy = models.ForeignKey("policies.Policy", null=True, on_delete=models.SET_NULL, related_name="+")
    version = models.PositiveIntegerField(default=1)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    author_name = models.CharField(max_length=256)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["is_open"], condition=Q(is_open=True), name="priorities_beginning_one_open")
        ]

    def __str__(self) -> str:
        return f"the beginning from {self.file_name}"


class Series(models.Model):
    """How far the daily series of a policy is built, and from what: see priorities.series. Disposable, all of it.

    `inputs`: what the days before `redo_from_on` were made of; those from then on are to be made again. `n_slots`: how
    many entries have a place in its tiles. `carry`: what all usage so far came to for each account and source at the
    end of `through_on`, where the window has no end and aging is one factor for everything (see series.reach).
    """

    policy = models.OneToOneField(
        "policies.Policy", on_delete=models.CASCADE, primary_key=True, related_name="daily_series"
    )
    first_on = models.DateField(null=True)
    through_on = models.DateField(null=True)
    redo_from_on = models.DateField(null=True)
    inputs = models.JSONField(default=dict)
    n_slots = models.PositiveIntegerField(default=0)
    carry = models.BinaryField(null=True)
    carry_digest = models.CharField(max_length=64, blank=True, default="")
    built_at = models.DateTimeField(null=True)
    # The same by the hour, of the last seven days: hours before `hours_through_at` are made of `hours_inputs`.
    hours_from_at = models.DateTimeField(null=True)
    hours_through_at = models.DateTimeField(null=True)
    hours_inputs = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"daily series of {self.policy_id} through {self.through_on}"


class SeriesSlot(models.Model):
    """The place of an entry in the tiles: siblings side by side when they were seen first together. Written by COPY."""

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="+", db_index=False)
    uid = models.UUIDField()
    slot = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["policy", "uid"], name="priorities_seriesslot_once")]

    def __str__(self) -> str:
        return f"{self.uid} at {self.slot}"


class SeriesDay(models.Model):
    """What is one number a day."""

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="+", db_index=False)
    on = models.DateField()
    ends_at = models.DateTimeField()
    revision_number = models.PositiveIntegerField()
    is_before_first = models.BooleanField()
    root_used = models.FloatField()
    root_decayed = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["policy", "on"], name="priorities_seriesday_once")]

    def __str__(self) -> str:
        return f"{self.policy_id} on {self.on}"


class SeriesTile(models.Model):
    """The days of one month of some neighbouring slots, as a blob of arrays: see priorities.series.tiles."""

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="+", db_index=False)
    month_on = models.DateField()  # its first day
    block = models.PositiveIntegerField()
    data = models.BinaryField()
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "block", "month_on"], name="priorities_seriestile_once")
        ]

    def __str__(self) -> str:
        return f"{self.policy_id} in the month of {self.month_on}, block {self.block}"


class SeriesHour(models.Model):
    """What is one number an hour, of the last seven days."""

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="+", db_index=False)
    begins_at = models.DateTimeField()
    revision_number = models.PositiveIntegerField()
    is_before_first = models.BooleanField()
    root_used = models.FloatField()
    root_decayed = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["policy", "begins_at"], name="priorities_serieshour_once")]

    def __str__(self) -> str:
        return f"{self.policy_id} at {self.begins_at}"


class SeriesHourTile(models.Model):
    """The hours of one day (UTC) of some neighbouring slots, laid out as a SeriesTile."""

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="+", db_index=False)
    day_on = models.DateField()
    block = models.PositiveIntegerField()
    data = models.BinaryField()
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "block", "day_on"], name="priorities_serieshourtile_once")
        ]

    def __str__(self) -> str:
        return f"{self.policy_id} on {self.day_on}, block {self.block}"


class Fallback(models.Model):
    """An entry below which this site's usage alone counts for now, because others haven't been heard for too long."""

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="+")
    entry_uid = models.UUIDField()
    reason = models.TextField()
    since = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["policy", "entry_uid"], name="priorities_fallback_once")]

    def __str__(self) -> str:
        return f"{self.entry_uid} since {self.since}"
