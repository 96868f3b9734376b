import django.db.models.constraints
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from apps.core.create_tables import create_tables


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
        ("policies", "0001_initial"),
    ]

    operations = create_tables(
        migrations.CreateModel(
            name="Mapping",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.PositiveIntegerField(default=0)),
                (
                    "policy",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="mapping", to="policies.policy"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Attachment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entry_uid", models.UUIDField()),
                ("reason", models.TextField(blank=True, default="")),
                ("author_name", models.CharField(max_length=256)),
                ("created_at", models.DateTimeField()),
                (
                    "account",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="attachments", to="accounts.account"
                    ),
                ),
                (
                    "author",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="attachments", to="policies.policy"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["policy", "entry_uid"], name="mapping_attachment_entry")],
                "constraints": [models.UniqueConstraint(fields=("policy", "account"), name="mapping_attachment_once")],
            },
        ),
        migrations.CreateModel(
            name="Claim",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("namespace", models.CharField(max_length=128)),
                ("user_name", models.CharField(max_length=256)),
                ("created_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="claims", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("user", "namespace", "user_name"), name="mapping_claim_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="MappingRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveIntegerField()),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("exact", "This account"),
                            ("glob", "Accounts whose names match"),
                            ("group", "Accounts of a group or FQAN"),
                            ("association", "A user in a Slurm account, found by the account's name"),
                            ("share_tree", "A user of Grid Engine, found in the share tree"),
                            ("each", "Every matching user becomes a child"),
                            ("default", "All other accounts"),
                        ],
                        max_length=16,
                    ),
                ),
                ("namespace", models.CharField(blank=True, default="", max_length=128)),
                ("source", models.CharField(blank=True, default="", max_length=64)),
                ("user_pattern", models.CharField(blank=True, default="", max_length=256)),
                ("group_pattern", models.CharField(blank=True, default="", max_length=256)),
                ("fqan_pattern", models.CharField(blank=True, default="", max_length=512)),
                ("target_uid", models.UUIDField()),
                ("suffix", models.CharField(blank=True, default="", max_length=256)),
                ("member_shares", models.FloatField(default=1)),
                ("archive_after_idle_days", models.PositiveIntegerField(blank=True, null=True)),
                ("reach_uid", models.UUIDField(blank=True, null=True)),
                ("written_at", models.CharField(blank=True, db_default="", default="", max_length=40)),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="mapping_rules", to="policies.policy"
                    ),
                ),
            ],
            options={
                "ordering": ["policy", "position"],
                "constraints": [
                    models.UniqueConstraint(
                        deferrable=django.db.models.constraints.Deferrable["DEFERRED"],
                        fields=("policy", "position"),
                        name="mapping_rule_position",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("member_shares__gte", 0), ("member_shares__lte", 1000000000000000.0)),
                        name="mapping_rule_shares_finite",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="MappingVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("at", models.DateTimeField()),
                ("author_name", models.CharField(max_length=256)),
                ("reason", models.TextField(blank=True, default="")),
                ("rules", models.JSONField(null=True)),
                ("attached", models.JSONField(default=list)),
                (
                    "author",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="mapping_versions",
                        to="policies.policy",
                    ),
                ),
            ],
            options={
                "ordering": ["policy", "number"],
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "number"), name="mapping_mapping_version_once")
                ],
            },
        ),
    )
