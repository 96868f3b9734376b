"""Tables of computed priorities: snapshots, unmapped accounts, effects of change sets, local-only fallbacks."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models

from apps.core.derived_state import in_tables

DERIVED_STATE = (
    in_tables(
        "StoredPlaces",
        holds="entries of all mapped accounts",
        key="digest of its content",
        inputs="accounts, mapping, tree",
        range="the snapshots that refer to it",
        ends="no snapshot refers to it, and two hours passed by the believed clock",
    ),
    in_tables(
        "Snapshot",
        holds="computed priorities of a revision at an instant",
        key="policy and fingerprint: revision, mapping, watermarks, settings, engine, people, fallbacks, instant",
        inputs="tree, usage, mapping, settings, adjustments; those are in the fingerprint",
        range="from its instant to the last at which a factor gives its usage",
        ends="another fingerprint; age by the believed clock; one out of order is deleted",
    ),
    in_tables(
        "UnmappedAccounts",
        holds="unmapped accounts of the newest snapshot",
        key="policy",
        inputs="the snapshot",
        range="that snapshot",
        ends="each recompute replaces it",
    ),
    in_tables(
        "ChangeSetEffect",
        holds="effect of an open change set on ranks",
        key="change set; digest of its operations, head, snapshot",
        inputs="those",
        range="the snapshot's instant",
        ends="another key makes it outdated, and it says so",
    ),
    in_tables(
        "Fallback",
        holds="entries that are compared by local usage alone",
        key="policy, entry",
        inputs="age of peers by the believed clock",
        range="since its instant",
        ends="a good fetch",
    ),
)


class StoredPlaces(models.Model):
    """The entries of all mapped accounts, as a checksummed blob, once for all snapshots that agree on them."""

    digest = models.CharField(max_length=64, primary_key=True)
    data = models.BinaryField()
    used_at = models.DateTimeField()  # when a snapshot was last stored with it, to the hour

    def __str__(self) -> str:
        return self.digest


class Snapshot(models.Model):
    """The computed priority tree of one revision at one instant, as a checksummed blob; complete once stored."""

    goes_with_owner: ClassVar[bool] = True

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="snapshots")
    revision_number = models.PositiveIntegerField()
    mapping_version = models.PositiveIntegerField()
    watermarks = models.JSONField()  # source slug → watermark that was read
    settings = models.JSONField()
    engine_version = models.CharField(max_length=32)
    fingerprint = models.CharField(max_length=64)
    as_of = models.DateTimeField()
    # The last instant at which its ranks still hold, and the factor by which all usage has decayed until then.
    valid_at = models.DateTimeField()
    usage_scale = models.FloatField(default=1.0)
    computed_at = models.DateTimeField()  # or confirmed, at its last instant
    duration_s = models.FloatField()
    n_ranked = models.PositiveIntegerField()
    is_live = models.BooleanField(
        default=True
    )  # false: of a past instant, computed on request, never served as the newest
    is_kept = models.BooleanField(default=False)  # referenced: never pruned
    run = models.ForeignKey("runs.Run", null=True, on_delete=models.SET_NULL, related_name="snapshots")
    places = models.ForeignKey(StoredPlaces, on_delete=models.PROTECT, related_name="+")
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


class UnmappedAccounts(models.Model):
    """Accounts with usage that no mapping rule leads to an entry, in the newest snapshot of a policy.

    One row a policy, however many accounts: it is replaced by each recompute. usage: their sum, in the policy's metric.
    """

    goes_with_owner: ClassVar[bool] = True

    policy = models.OneToOneField("policies.Policy", on_delete=models.CASCADE, primary_key=True, related_name="+")
    snapshot = models.ForeignKey(Snapshot, on_delete=models.CASCADE, related_name="+")
    account_ids = ArrayField(models.BigIntegerField())
    usage = models.FloatField()

    def __str__(self) -> str:
        return f"{len(self.account_ids)} of {self.policy_id}"


class ChangeSetEffect(models.Model):
    """The last computed effect of an open change set on priorities: a packed `recompute.simulation.Projection`.

    It is current while the change set (digest_of: its operations and base), the head and the snapshot are those it was
    computed for. An outdated one is still shown, marked as such.
    """

    change_set = models.OneToOneField(
        "policies.ChangeSet", on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    digest_of = models.CharField(max_length=64)
    head_number = models.PositiveIntegerField()
    snapshot_id = models.BigIntegerField()  # no foreign key: the effect outlives the snapshot
    as_of = models.DateTimeField()
    computed_at = models.DateTimeField()
    data = models.BinaryField()
    digest = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"effect of change set {self.change_set_id}"


class Fallback(models.Model):
    """An entry in local-only fallback, because peers have been unreachable for too long."""

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="+")
    entry_uid = models.UUIDField()
    reason = models.TextField()
    since = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["policy", "entry_uid"], name="priorities_fallback_once")]

    def __str__(self) -> str:
        return f"{self.entry_uid} since {self.since}"
