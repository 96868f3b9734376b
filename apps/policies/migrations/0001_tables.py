import uuid

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.manager
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ChangeSet",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("base_number", models.PositiveIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("draft", "Draft"),
                            ("proposed", "Waiting for a decision"),
                            ("approved", "Approved, not published yet"),
                            ("published", "Published"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        default="draft",
                        max_length=16,
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1)),
                ("operations", models.JSONField(default=list)),
                ("reason", models.TextField(blank=True, default="")),
                ("author_name", models.CharField(max_length=256)),
                ("effective_at", models.DateTimeField(blank=True, null=True)),
                (
                    "origin",
                    models.CharField(
                        choices=[
                            ("hand", "Manual"),
                            ("import", "From a file"),
                            ("rule", "By a membership rule"),
                            ("dates", "By date"),
                            ("revert", "Undoes a revision"),
                            ("request", "Requested by a group"),
                            ("mount", "From another site"),
                        ],
                        db_default="hand",
                        default="hand",
                        max_length=16,
                    ),
                ),
                ("asks_entry_uid", models.UUIDField(null=True)),
                ("asked", models.JSONField(null=True)),
                ("reverts_number", models.PositiveIntegerField(null=True)),
                ("undone", models.JSONField(db_default=[], default=list)),
                ("decided_name", models.CharField(blank=True, db_default="", default="", max_length=256)),
                ("held_for", models.TextField(blank=True, db_default="", default="")),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "author",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="change_sets_decided",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Policy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(max_length=64, unique=True)),
                ("name", models.CharField(max_length=128)),
                ("description", models.TextField(blank=True, default="")),
                (
                    "visibility",
                    models.CharField(
                        choices=[
                            ("tree", "All signed-in users see the whole tree"),
                            ("path", "Users see their own path; other entries need a grant"),
                        ],
                        default="path",
                        max_length=16,
                    ),
                ),
                ("head_number", models.PositiveIntegerField(default=0)),
                ("is_sample", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField()),
                ("archived_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "verbose_name_plural": "policies",
            },
            managers=[
                ("all_objects", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="ProposedTree",
            fields=[
                (
                    "change_set",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="proposed_tree",
                        serialize=False,
                        to="policies.changeset",
                    ),
                ),
                ("settings", models.JSONField()),
                ("tree", models.BinaryField()),
                ("tree_digest", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="Comment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("operation", models.PositiveIntegerField(null=True)),
                ("author_name", models.CharField(max_length=256)),
                ("text", models.TextField()),
                ("created_at", models.DateTimeField()),
                (
                    "author",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "change_set",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="comments", to="policies.changeset"
                    ),
                ),
            ],
            options={
                "ordering": ("pk",),
            },
        ),
        migrations.CreateModel(
            name="ImportedFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("cluster", models.CharField(blank=True, max_length=128)),
                ("text", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                (
                    "change_set",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="imported_file",
                        to="policies.changeset",
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="imported_files", to="policies.policy"
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="changeset",
            name="policy",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="change_sets", to="policies.policy"
            ),
        ),
        migrations.CreateModel(
            name="Capacity",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("site", models.CharField(blank=True, default="", max_length=128)),
                ("starts_on", models.DateField()),
                ("ends_on", models.DateField(null=True)),
                ("cores", models.FloatField()),
                ("note", models.CharField(blank=True, default="", max_length=512)),
                ("author_name", models.CharField(max_length=256)),
                ("created_at", models.DateTimeField()),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="capacities", to="policies.policy"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "capacities",
            },
        ),
        migrations.CreateModel(
            name="Allocation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("entry_uid", models.UUIDField()),
                ("starts_on", models.DateField()),
                ("ends_on", models.DateField()),
                ("core_h", models.FloatField()),
                ("reason", models.CharField(blank=True, default="", max_length=512)),
                ("author_name", models.CharField(max_length=256)),
                ("created_at", models.DateTimeField()),
                ("withdrawn_at", models.DateTimeField(null=True)),
                (
                    "author",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="allocations", to="policies.policy"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Adjustment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.UUIDField(default=uuid.uuid4)),
                ("entry_uid", models.UUIDField()),
                ("resource", models.CharField(max_length=16)),
                ("amount_s", models.FloatField()),
                ("at", models.DateTimeField()),
                ("note", models.CharField(blank=True, default="", max_length=512)),
                ("reason", models.TextField(blank=True, default="")),
                ("author_name", models.CharField(max_length=256)),
                ("created_at", models.DateTimeField()),
                ("since", models.PositiveIntegerField()),
                ("until", models.PositiveIntegerField(null=True)),
                (
                    "author",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="adjustments", to="policies.policy"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Revision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("author_name", models.CharField(max_length=256)),
                ("reason", models.TextField(blank=True, default="")),
                ("published_at", models.DateTimeField()),
                ("n_entries", models.PositiveIntegerField()),
                ("n_changed", models.PositiveIntegerField(db_default=0)),
                ("settings", models.JSONField()),
                ("tree", models.BinaryField()),
                ("tree_digest", models.CharField(max_length=64)),
                (
                    "author",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "change_set",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="revision", to="policies.changeset"
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="revisions", to="policies.policy"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Approval",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField()),
                ("user_name", models.CharField(max_length=256)),
                ("created_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "change_set",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="approvals", to="policies.changeset"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("change_set", "version", "user"), name="policies_approval_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Pin",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entry_uid", models.UUIDField()),
                ("created_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="pins", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="pins", to="policies.policy"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("user", "policy", "entry_uid"), name="policies_pin_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Grant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entry_uid", models.UUIDField()),
                ("people", models.CharField(blank=True, default="", max_length=256)),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("viewer", "Viewer"),
                            ("lead", "Group lead"),
                            ("manager", "Allocation manager"),
                            ("admin", "Site admin"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "verbs",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("view_aggregate", "See shares and totals"),
                                ("view_members", "See members by name"),
                                ("edit_shares", "Change shares below"),
                                ("edit_structure", "Add, move, rename and archive below"),
                                ("map_accounts", "Map accounts"),
                                ("publish", "Publish changes"),
                                ("approve", "Approve other people’s changes"),
                                ("delegate", "Assign roles (up to their own)"),
                                ("mount", "Mount remote policies"),
                                ("manage_usage", "Correct usage and manage its sources"),
                            ],
                            max_length=32,
                        ),
                        default=list,
                        size=None,
                    ),
                ),
                ("reason", models.CharField(blank=True, default="", max_length=512)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                (
                    "granted_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="grants_given",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="grants",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="grants", to="policies.policy"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("people", ""), _negated=True),
                        fields=["people"],
                        name="policies_grant_people",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("policy", "entry_uid", "user", "people", "role"),
                        name="policies_grant_once",
                        nulls_distinct=False,
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("people__gt", ""), ("user", None)),
                            models.Q(("people", ""), ("user__isnull", False)),
                            _connector="OR",
                        ),
                        name="policies_grant_to_one",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("verbs", []), _negated=True), name="policies_grant_of_something"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Entry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.UUIDField(default=uuid.uuid4)),
                ("parent_uid", models.UUIDField(null=True)),
                ("name", models.CharField(max_length=128)),
                ("kind", models.CharField(default="group", max_length=32)),
                ("shares", models.FloatField(null=True)),
                ("is_group", models.BooleanField(default=True)),
                ("scope", models.CharField(blank=True, default="", max_length=16)),
                ("scope_sources", models.JSONField(default=list)),
                ("locked", models.BooleanField(default=False)),
                ("dates", models.JSONField(null=True)),
                ("members", models.JSONField(db_default=[], default=list)),
                ("mount", models.JSONField(null=True)),
                ("since", models.PositiveIntegerField()),
                ("until", models.PositiveIntegerField(null=True)),
                (
                    "policy",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="entries",
                        to="policies.policy",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "entries",
                "indexes": [
                    models.Index(fields=["policy", "since"], name="policies_entry_opened"),
                    models.Index(
                        condition=models.Q(("until", None), _negated=True),
                        fields=["policy", "until"],
                        name="policies_entry_closed",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "uid", "since"), name="policies_entry_version"),
                    models.UniqueConstraint(
                        condition=models.Q(("until", None)), fields=("policy", "uid"), name="policies_entry_current"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("until", None)),
                        fields=("policy", "parent_uid", "name"),
                        name="policies_entry_sibling_names",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("parent_uid", None), ("until", None)),
                        fields=("policy",),
                        name="policies_entry_one_root",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("shares", None),
                            models.Q(("shares__gte", 0), ("shares__lte", 1000000000000000.0)),
                            _connector="OR",
                        ),
                        name="policies_entry_shares_finite",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("until", None), ("until__gt", models.F("since")), _connector="OR"),
                        name="policies_entry_validity",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("name", ""), _negated=True), models.Q(("name__contains", "/"), _negated=True)
                        ),
                        name="policies_entry_name",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("parent_uid", models.F("uid")), _negated=True),
                        name="policies_entry_not_its_own_parent",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("scope__in", ["", "local", "global"])), name="policies_entry_scope"
                    ),
                ],
            },
        ),
        migrations.AddIndex(
            model_name="changeset",
            index=models.Index(fields=["policy", "state", "-id"], name="policies_changeset_state"),
        ),
        migrations.AddIndex(
            model_name="changeset",
            index=models.Index(
                condition=models.Q(("effective_at__isnull", False), ("state", "approved")),
                fields=["effective_at"],
                name="policies_changeset_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="capacity",
            constraint=models.CheckConstraint(
                condition=models.Q(("ends_on", None), ("ends_on__gte", models.F("starts_on")), _connector="OR"),
                name="policies_capacity_period",
            ),
        ),
        migrations.AddConstraint(
            model_name="capacity",
            constraint=models.CheckConstraint(
                condition=models.Q(("cores__gte", 0), ("cores__lte", 1000000000000.0)), name="policies_capacity_finite"
            ),
        ),
        migrations.AddIndex(
            model_name="allocation",
            index=models.Index(fields=["policy", "entry_uid", "ends_on"], name="policies_allocation_entry"),
        ),
        migrations.AddConstraint(
            model_name="allocation",
            constraint=models.CheckConstraint(
                condition=models.Q(("ends_on__gte", models.F("starts_on"))), name="policies_allocation_period"
            ),
        ),
        migrations.AddConstraint(
            model_name="allocation",
            constraint=models.CheckConstraint(
                condition=models.Q(("core_h__gte", 0), ("core_h__lte", 1000000000000000.0)),
                name="policies_allocation_finite",
            ),
        ),
        migrations.AddIndex(
            model_name="adjustment",
            index=models.Index(fields=["policy", "entry_uid"], name="policies_adjustment_entry"),
        ),
        migrations.AddConstraint(
            model_name="adjustment",
            constraint=models.UniqueConstraint(fields=("policy", "uid"), name="policies_adjustment_once"),
        ),
        migrations.AddConstraint(
            model_name="adjustment",
            constraint=models.CheckConstraint(
                condition=models.Q(("until", None), ("until__gt", models.F("since")), _connector="OR"),
                name="policies_adjustment_validity",
            ),
        ),
        migrations.AddConstraint(
            model_name="revision",
            constraint=models.UniqueConstraint(fields=("policy", "number"), name="policies_revision_number"),
        ),
        migrations.AddConstraint(
            model_name="revision",
            constraint=models.CheckConstraint(
                condition=models.Q(("number__gte", 1)), name="policies_revision_from_one"
            ),
        ),
    ]
