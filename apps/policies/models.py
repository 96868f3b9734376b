"""Models of policies: trees as entry rows valid for ranges of revisions, change sets, allocations, and grants.

Publishing five changes writes five rows, and any past tree is one query.
"""

from __future__ import annotations

import uuid
from typing import TypeVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from apps.core.derived_state import in_tables
from apps.policies.units import CORE_HOUR, LONGEST_SYMBOL

DERIVED_STATE = (
    in_tables(
        "ProposedTree",
        holds="the tree of a change set that replaces it",
        key="change set",
        inputs="its operations and base",
        range="one version of the change set",
        ends="another version; its decision",
    ),
)

_Row = TypeVar("_Row", bound=models.Model)


class CurrentPolicies(models.Manager["Policy"]):
    """Policies that aren't archived: those that are listed, counted, computed and monitored."""

    def get_queryset(self) -> models.QuerySet[Policy]:
        return super().get_queryset().filter(archived_at=None)


class OfCurrentPolicies(models.Manager[_Row]):
    """Rows of policies that aren't archived."""

    def get_queryset(self) -> models.QuerySet[_Row]:
        return super().get_queryset().filter(policy__in=Policy.objects.all())  # no join: row locks stay with the rows


class Policy(models.Model):
    """A named tree. Its settings (algorithm, metric, window, …) belong to its revisions."""

    class Visibility(models.TextChoices):
        TREE = "tree", "All signed-in users see the whole tree"
        PATH = "path", "Users see their own path; other entries need a grant"

    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=128)
    description = models.TextField(blank=True, default="")
    visibility = models.CharField(max_length=16, choices=Visibility.choices, default=Visibility.PATH)
    head_number = models.PositiveIntegerField(default=0)  # 0: nothing published yet
    is_sample = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True, blank=True)  # hidden since; its history stays readable

    all_objects = models.Manager["Policy"]()  # with archived ones; first, so that Django uses it for foreign keys
    objects = CurrentPolicies()

    class Meta:
        verbose_name_plural = "policies"

    def __str__(self) -> str:
        return self.name


class ChangeSet(models.Model):
    """A list of operations on a base revision: the only way to change a policy."""

    class State(models.TextChoices):
        DRAFT = "draft", "Draft"
        PROPOSED = "proposed", "Waiting for a decision"
        APPROVED = "approved", "Approved, not published yet"
        PUBLISHED = "published", "Published"
        WITHDRAWN = "withdrawn", "Withdrawn"

    class Origin(models.TextChoices):
        HAND = "hand", "Manual"
        IMPORT = "import", "From a file"
        RULE = "rule", "By a membership rule"
        DATES = "dates", "By date"
        ALLOCATION = "allocation", "By a rule of allocations"
        REVERT = "revert", "Undoes a revision"
        REQUEST = "request", "Requested by a group"
        MOUNT = "mount", "From another site"

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="change_sets")
    base_number = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.DRAFT)
    version = models.PositiveIntegerField(default=1)  # its ETag, required by every write
    operations = models.JSONField(default=list)
    reason = models.TextField(blank=True, default="")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    author_name = models.CharField(max_length=256)
    effective_at = models.DateTimeField(null=True, blank=True)
    origin = models.CharField(max_length=16, choices=Origin.choices, default=Origin.HAND, db_default="hand")
    asks_entry_uid = models.UUIDField(null=True)  # the entry for which a request asks more shares
    asked = models.JSONField(null=True)  # the original operations of a request, if others were granted
    reverts_number = models.PositiveIntegerField(null=True)  # the revision it undoes
    undone = models.JSONField(default=list, db_default=[])  # undone operations, newest last: redo restores them
    decided_by = models.ForeignKey(  # who scheduled it; it is published with their rights
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="change_sets_decided"
    )
    decided_name = models.CharField(max_length=256, blank=True, default="", db_default="")
    held_for = models.TextField(blank=True, default="", db_default="")  # why it couldn't be published when it was due
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["policy", "state", "-id"], name="policies_changeset_state"),
            models.Index(
                fields=["effective_at"],
                condition=Q(state="approved", effective_at__isnull=False),
                name="policies_changeset_due",
            ),
        ]

    def __str__(self) -> str:
        return f"change set {self.pk}"


class ProposedTree(models.Model):
    """The whole tree that a change set with the one operation `document` publishes, as a blob like that of a revision.

    For changes that exceed the limit of operations; deleted on publishing.
    """

    change_set = models.OneToOneField(ChangeSet, models.CASCADE, primary_key=True, related_name="proposed_tree")
    settings = models.JSONField()
    tree = models.BinaryField()
    tree_digest = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"the tree of change set {self.change_set_id}"


class ImportedFile(models.Model):
    """An import's file, kept for exports (apps.policies.files.exports); active once its change set is published."""

    policy = models.ForeignKey(Policy, on_delete=models.CASCADE, related_name="imported_files")
    # null: the import changed nothing.
    change_set = models.OneToOneField(ChangeSet, null=True, on_delete=models.CASCADE, related_name="imported_file")
    number = models.PositiveIntegerField()  # the head at the time of the import
    cluster = models.CharField(max_length=128, blank=True)
    text = models.BinaryField()  # zstd; empty: not stored
    digest = models.CharField(max_length=64)  # SHA-256 of the text
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"the file of {self.cluster or 'a cluster'}"


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
    tree = models.BinaryField()  # checksummed zstd blob of arrays, see apps.core.blobs and apps.policies.tree.stored
    tree_digest = models.CharField(max_length=64)

    is_outside_view = False  # set where it is read: see apps.policies.revision_reading

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "number"], name="policies_revision_number"),
            models.CheckConstraint(condition=Q(number__gte=1), name="policies_revision_from_one"),
        ]

    def __str__(self) -> str:
        return f"{self.policy_id} revision {self.number}"


class Entry(models.Model):
    """One version of one entry, valid from revision `since` up to, not including, `until` (null: current).

    Deferred triggers also refuse cycles, orphans and depth over 64 at publish.
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
    dates = models.JSONField(null=True)  # see apps.policies.tree.terms
    members = models.JSONField(default=list, db_default=[])
    mount = models.JSONField(null=True)  # the publication that its children come from
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


class Approval(models.Model):
    """A second person's approval of one version of a change set; other versions need new approvals."""

    change_set = models.ForeignKey(ChangeSet, on_delete=models.CASCADE, related_name="approvals")
    version = models.PositiveIntegerField()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    user_name = models.CharField(max_length=256)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["change_set", "version", "user"], name="policies_approval_once")]

    def __str__(self) -> str:
        return f"{self.user_name}: yes to change set {self.change_set_id}"


class Comment(models.Model):
    """A comment on a change set, or on one of its operations."""

    change_set = models.ForeignKey(ChangeSet, on_delete=models.CASCADE, related_name="comments")
    operation = models.PositiveIntegerField(null=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    author_name = models.CharField(max_length=256)
    text = models.TextField()
    created_at = models.DateTimeField()

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return f"{self.author_name} on change set {self.change_set_id}"


class Adjustment(models.Model):
    """A signed and dated correction of an entry's usage with a reason; records don't change. Valid by revision."""

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="adjustments")
    uid = models.UUIDField(default=uuid.uuid4)
    entry_uid = models.UUIDField()
    resource = models.CharField(max_length=16)  # cpu_s, gpu_s, …: weighted by the policy's metric like usage
    amount_s = models.FloatField()  # in the resource's unit × seconds; negative amounts credit
    at = models.DateTimeField()  # the adjustment decays from here on, like usage of that hour
    note = models.CharField(max_length=512, blank=True, default="")
    reason = models.TextField(blank=True, default="")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    author_name = models.CharField(max_length=256)
    created_at = models.DateTimeField()
    since = models.PositiveIntegerField()
    until = models.PositiveIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["policy", "uid"], name="policies_adjustment_once"),
            models.CheckConstraint(
                condition=Q(until=None) | Q(until__gt=F("since")), name="policies_adjustment_validity"
            ),
        ]
        indexes = [models.Index(fields=["policy", "entry_uid"], name="policies_adjustment_entry")]

    def __str__(self) -> str:
        return f"{self.amount_s:+g} {self.resource} at {self.entry_uid}"


class Allocation(models.Model):
    """An amount of a unit allocated to an entry for a period; independent of shares, converted into them on request.

    unit: its symbol, see `apps.policies.units`. by_rules: what rules added to the amount, negative for what they took;
    without it the amount is what people allocated. carried_from: the allocation whose rest it is.
    """

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="allocations")
    uid = models.UUIDField(default=uuid.uuid4, unique=True)
    entry_uid = models.UUIDField()
    starts_on = models.DateField()
    ends_on = models.DateField()
    amount = models.FloatField()
    unit = models.CharField(max_length=LONGEST_SYMBOL, default=CORE_HOUR.symbol, db_default=CORE_HOUR.symbol)
    reason = models.CharField(max_length=512, blank=True, default="")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    author_name = models.CharField(max_length=256)
    created_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True)
    by_rules = models.FloatField(default=0.0, db_default=0.0)
    carried_from = models.UUIDField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(ends_on__gte=F("starts_on")), name="policies_allocation_period"),
            models.CheckConstraint(condition=Q(amount__gte=0, amount__lte=1e15), name="policies_allocation_finite"),
        ]
        indexes = [models.Index(fields=["policy", "entry_uid", "ends_on"], name="policies_allocation_entry")]

    def __str__(self) -> str:
        return f"{self.amount:g} {self.unit} to {self.entry_uid} until {self.ends_on}"

    @property
    def is_carried(self) -> bool:
        return self.carried_from is not None


class Capacity(models.Model):
    """What a site has in a period and can allocate and deliver, in units an hour: cores, for core-hours."""

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="capacities")
    site = models.CharField(max_length=128, blank=True, default="")
    starts_on = models.DateField()
    ends_on = models.DateField(null=True)
    per_hour = models.FloatField()
    unit = models.CharField(max_length=LONGEST_SYMBOL, default=CORE_HOUR.symbol, db_default=CORE_HOUR.symbol)
    note = models.CharField(max_length=512, blank=True, default="")
    author_name = models.CharField(max_length=256)
    created_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "capacities"
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_on=None) | Q(ends_on__gte=F("starts_on")), name="policies_capacity_period"
            ),
            models.CheckConstraint(condition=Q(per_hour__gte=0, per_hour__lte=1e12), name="policies_capacity_finite"),
        ]

    def __str__(self) -> str:
        return f"{self.per_hour:g} {self.unit} an hour at {self.site or 'the site'} from {self.starts_on}"


class Grant(models.Model):
    """A role of a user, or of a sign-in group, at an entry and below it, with reason and expiry.

    A grant at the root covers the whole policy. `verbs` are those of the role at the time, or an individual selection.
    """

    class Role(models.TextChoices):
        VIEWER = "viewer", _("Viewer")
        LEAD = "lead", _("Group lead")
        MANAGER = "manager", _("Allocation manager")
        ADMIN = "admin", _("Site admin")

    class Verb(models.TextChoices):
        VIEW_AGGREGATE = "view_aggregate", _("See shares and totals")
        VIEW_MEMBERS = "view_members", _("See members by name")
        EDIT_SHARES = "edit_shares", _("Change shares below")
        EDIT_STRUCTURE = "edit_structure", _("Add, move, rename and archive below")
        MAP_ACCOUNTS = "map_accounts", _("Map accounts")
        PUBLISH = "publish", _("Publish changes")
        APPROVE = "approve", _("Approve other people’s changes")
        DELEGATE = "delegate", _("Assign roles (up to their own)")
        MOUNT = "mount", _("Mount remote policies")
        MANAGE_USAGE = "manage_usage", _("Correct usage and manage its sources")

    policy = models.ForeignKey(Policy, on_delete=models.CASCADE, related_name="grants")
    entry_uid = models.UUIDField()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="grants")
    people = models.CharField(max_length=256, blank=True, default="")  # a sign-in group, such as oidc:physics
    role = models.CharField(max_length=16, choices=Role.choices)
    verbs = ArrayField(models.CharField(max_length=32, choices=Verb.choices), default=list)
    reason = models.CharField(max_length=512, blank=True, default="")
    granted_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="grants_given")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["policy", "entry_uid", "user", "people", "role"],
                name="policies_grant_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(user=None, people__gt="") | Q(user__isnull=False, people=""), name="policies_grant_to_one"
            ),
            models.CheckConstraint(condition=~Q(verbs=[]), name="policies_grant_of_something"),
        ]
        indexes = [models.Index(fields=["people"], condition=~Q(people=""), name="policies_grant_people")]

    def __str__(self) -> str:
        return f"{self.user_id or self.people} is {self.role} of {self.entry_uid}"


class Pin(models.Model):
    """An entry that a user lists first; visible to that user alone."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="pins")
    policy = models.ForeignKey(Policy, on_delete=models.CASCADE, related_name="pins")
    entry_uid = models.UUIDField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "policy", "entry_uid"], name="policies_pin_once")]

    def __str__(self) -> str:
        return f"{self.user_id} pinned {self.entry_uid}"
