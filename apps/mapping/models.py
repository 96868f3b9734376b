"""Models of the account mapping: rules, their versions, attached accounts, and claims."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.core.derived_state import in_tables

DERIVED_STATE = (
    in_tables(
        "MappingVersion",
        holds="rules and attached accounts as of an instant",
        key="policy, number",
        inputs="rules, attached accounts",
        range="from its instant to that of the next",
        ends="never: it is history",
    ),
)


class Mapping(models.Model):
    """The version number of a policy's mapping; it is part of the fingerprint of recomputes."""

    goes_with_owner: ClassVar[bool] = True

    policy = models.OneToOneField("policies.Policy", on_delete=models.CASCADE, related_name="mapping")
    version = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"mapping of {self.policy_id}"


class MappingRule(models.Model):
    """A rule that maps accounts to an entry. Rules are tried in order; the first match decides.

    `target_uid` is an entry. `suffix` continues from there by names of children, with {user}, {group} and {project}
    filled in, as far as such entries exist.
    """

    class Kind(models.TextChoices):
        EXACT = "exact", "This account"
        GLOB = "glob", "Accounts whose names match"
        GROUP = "group", "Accounts of a group or FQAN"
        ASSOCIATION = "association", "A user in a Slurm account, found by the account's name"
        SHARE_TREE = "share_tree", "A user of Grid Engine, found in the share tree"
        EACH = "each", "Every matching user becomes a child"
        DEFAULT = "default", "All other accounts"

    policy = models.ForeignKey("policies.Policy", on_delete=models.CASCADE, related_name="mapping_rules")
    position = models.PositiveIntegerField()
    kind = models.CharField(max_length=16, choices=Kind.choices)
    namespace = models.CharField(max_length=128, blank=True, default="")  # "" matches any
    source = models.CharField(max_length=64, blank=True, default="")  # slug; used instead of a namespace
    # "" matches any; a glob, or literal text in an exact rule.
    user_pattern = models.CharField(max_length=256, blank=True, default="")
    group_pattern = models.CharField(max_length=256, blank=True, default="")
    fqan_pattern = models.CharField(max_length=512, blank=True, default="")
    target_uid = models.UUIDField()
    suffix = models.CharField(max_length=256, blank=True, default="")
    member_shares = models.FloatField(default=1)  # only for `each`
    archive_after_idle_days = models.PositiveIntegerField(null=True, blank=True)  # only for `each`
    # The entry below which the rule's author maps accounts; null: the whole policy.
    reach_uid = models.UUIDField(null=True, blank=True)
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
    """A version of the mapping: author, reason, and its changes, so that it can be undone.

    `rules`: the complete list after a version that changed it (see Rule.to_json), otherwise null. `attached`: each
    account that was attached, moved or detached, with its entry before and after (null: none).
    """

    goes_with_owner: ClassVar[bool] = True

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
    """An account attached to an entry by hand; it takes precedence over rules."""

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
    """A user's claim to own an account; mappers of the account's entry decide."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="claims")
    namespace = models.CharField(max_length=128)
    user_name = models.CharField(max_length=256)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "namespace", "user_name"], name="mapping_claim_once")]

    def __str__(self) -> str:
        return f"{self.namespace}:{self.user_name} is claimed by {self.user_id}"
