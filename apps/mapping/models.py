"""Which account counts at which entry: rules, versions of them, attached accounts, claims."""

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
        ASSOCIATION = "association", "A user in a Slurm account, found by the account's name"
        EACH = "each", "Every matching user becomes a child"
        DEFAULT = "default", "All other accounts"

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
                fields=["policy", "position"], name="mapping_rule_position", deferrable=models.Deferrable.DEFERRED
            ),
            models.CheckConstraint(
                condition=Q(member_shares__gte=0, member_shares__lte=1e15), name="mapping_rule_shares_finite"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.position}: {self.kind}"


class MappingVersion(models.Model):
    """One version of the mapping: author, reason, and the state before and after, so that it can be undone.

    `rules`: all of them, as Rule.to_json has them, after a version that changed them, else null. `attached`: each
    account that was attached, moved or detached, with its names and the entry before and after (null: none).
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
        constraints = [models.UniqueConstraint(fields=["policy", "number"], name="mapping_mapping_version_once")]

    def __str__(self) -> str:
        return f"version {self.number} of the mapping of {self.policy_id}"


class Attachment(models.Model):
    """An account attached to an entry by hand; it precedes every rule."""

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="attachments")
    account = models.ForeignKey("accounts.Account", on_delete=models.CASCADE, related_name="attachments")
    entry_uid = models.UUIDField()
    reason = models.TextField(blank=True, default="")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    author_name = models.CharField(max_length=256)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["policy", "account"], name="mapping_attachment_once")]
        indexes = [models.Index(fields=["policy", "entry_uid"], name="mapping_attachment_entry")]

    def __str__(self) -> str:
        return f"{self.account_id} at {self.entry_uid}"


class Claim(models.Model):
    """A user's claim to an account; a mapper of its entry decides."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="claims")
    namespace = models.CharField(max_length=128)
    user_name = models.CharField(max_length=256)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "namespace", "user_name"], name="mapping_claim_once")]

    def __str__(self) -> str:
        return f"{self.namespace}:{self.user_name} is claimed by {self.user_id}"
