"""Policies as rows with validity: publishing five changes writes five rows, and any past tree is one query."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import F, Q


class Policy(models.Model):
    """One named tree. What it computes with (algorithm, metric, window, …) belongs to its revisions."""

    class Visibility(models.TextChoices):
        TREE = "tree", "Everybody who signs in sees the whole tree"
        PATH = "path", "People see their own path; the rest needs a grant"

    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=128)
    description = models.TextField(blank=True, default="")
    visibility = models.CharField(max_length=16, choices=Visibility.choices, default=Visibility.PATH)
    head_number = models.PositiveIntegerField(default=0)  # 0: nothing published yet
    is_sample = models.BooleanField(default=False)
    created_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "policies"

    def __str__(self) -> str:
        return self.name


class ChangeSet(models.Model):
    """A list of operations against a base revision: the only way a policy changes."""

    class State(models.TextChoices):
        DRAFT = "draft", "Being written; nobody is affected"
        PROPOSED = "proposed", "Waiting for a decision"
        APPROVED = "approved", "Approved, not in force yet"
        PUBLISHED = "published", "In force"
        WITHDRAWN = "withdrawn", "Given up"

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="change_sets")
    base_number = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.DRAFT)
    version = models.PositiveIntegerField(default=1)  # its ETag: every write asks for it
    operations = models.JSONField(default=list)
    reason = models.TextField(blank=True, default="")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    author_name = models.CharField(max_length=256)
    effective_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["policy", "state", "-id"], name="policies_changeset_state")]

    def __str__(self) -> str:
        return f"change set {self.pk}"


class Revision(models.Model):
    """An immutable published state of a policy."""

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="revisions")
    number = models.PositiveIntegerField()
    change_set = models.OneToOneField(ChangeSet, on_delete=models.PROTECT, related_name="revision")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    author_name = models.CharField(max_length=256)
    reason = models.TextField(blank=True, default="")
    published_at = models.DateTimeField()
    n_entries = models.PositiveIntegerField()
    n_changed = models.PositiveIntegerField(db_default=0)  # entries added, changed or archived by it
    settings = models.JSONField()  # complete: see apps.policies.settings.PolicySettings
    tree = models.BinaryField()  # checksummed zstd blob of arrays, see apps.blobs and apps.policies.trees
    tree_digest = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "number"], name="policies_revision_number"),
            models.CheckConstraint(condition=Q(number__gte=1), name="policies_revision_from_one"),
        ]

    def __str__(self) -> str:
        return f"{self.policy_id} revision {self.number}"


class Entry(models.Model):
    """One version of one node of a tree, valid from `since` up to, not including, `until` (null: current).

    The database also refuses, by deferred triggers at publish, cycles, orphans and depth over 64.
    """

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="entries", db_index=False)
    uid = models.UUIDField(default=uuid.uuid4)
    parent_uid = models.UUIDField(null=True)  # null: the root
    name = models.CharField(max_length=128)
    kind = models.CharField(max_length=32, default="group")
    shares = models.FloatField(null=True)  # null: inherit
    is_group = models.BooleanField(default=True)  # may have children, even if it has none now
    scope = models.CharField(max_length=16, blank=True, default="")  # "", "local", "global"; "" inherits
    scope_sources = models.JSONField(default=list)  # slugs; empty: all sources of the scope
    locked = models.BooleanField(default=False)
    since = models.PositiveIntegerField()
    until = models.PositiveIntegerField(null=True)

    class Meta:
        verbose_name_plural = "entries"
        constraints = [
            models.UniqueConstraint(fields=["policy", "uid", "since"], name="policies_entry_version"),
            models.UniqueConstraint(fields=["policy", "uid"], condition=Q(until=None), name="policies_entry_current"),
            models.UniqueConstraint(
                fields=["policy", "parent_uid", "name"], condition=Q(until=None), name="policies_entry_sibling_names"
            ),
            models.UniqueConstraint(
                fields=["policy"], condition=Q(until=None, parent_uid=None), name="policies_entry_one_root"
            ),
            models.CheckConstraint(
                condition=Q(shares=None) | Q(shares__gte=0, shares__lte=1e15), name="policies_entry_shares_finite"
            ),
            models.CheckConstraint(condition=Q(until=None) | Q(until__gt=F("since")), name="policies_entry_validity"),
            models.CheckConstraint(condition=~Q(name="") & ~Q(name__contains="/"), name="policies_entry_name"),
            models.CheckConstraint(condition=~Q(parent_uid=F("uid")), name="policies_entry_not_its_own_parent"),
            models.CheckConstraint(condition=Q(scope__in=["", "local", "global"]), name="policies_entry_scope"),
        ]
        indexes = [
            models.Index(fields=["policy", "since"], name="policies_entry_opened"),
            models.Index(fields=["policy", "until"], condition=~Q(until=None), name="policies_entry_closed"),
        ]

    def __str__(self) -> str:
        return self.name


class Grant(models.Model):
    """A role given to a person at an entry, with reason and expiry; it holds for the subtree."""

    class Role(models.TextChoices):
        VIEWER = "viewer", "Sees shares, usage and priorities of the subtree"
        AUTHORITY = "authority", "Divides what the entry has among its children"

    policy = models.ForeignKey(Policy, on_delete=models.CASCADE, related_name="grants")
    entry_uid = models.UUIDField()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="grants")
    role = models.CharField(max_length=16, choices=Role.choices)
    reason = models.CharField(max_length=512, blank=True, default="")
    granted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="grants_given"
    )
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "entry_uid", "user", "role"], name="policies_grant_once")
        ]

    def __str__(self) -> str:
        return f"{self.user_id} is {self.role} of {self.entry_uid}"
