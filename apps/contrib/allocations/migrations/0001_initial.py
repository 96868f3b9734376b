import uuid

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
            name="RuleStep",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rule", models.CharField(max_length=64)),
                ("key", models.CharField(max_length=128)),
                ("entry_uid", models.UUIDField()),
                ("allocation_uid", models.UUIDField(null=True)),
                ("on", models.DateField()),
                ("at", models.DateTimeField()),
                ("level", models.PositiveSmallIntegerField(null=True)),
                ("number", models.PositiveIntegerField(null=True)),
                ("facts", models.JSONField()),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rule_steps", to="policies.policy"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["policy", "-at"], name="packs_rule_step_newest")],
                "constraints": [models.UniqueConstraint(fields=("policy", "rule", "key"), name="packs_rule_step_once")],
            },
        ),
        migrations.CreateModel(
            name="AllocationRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("entry_uid", models.UUIDField()),
                ("unit", models.CharField(max_length=16)),
                ("amount", models.FloatField()),
                ("starts_on", models.DateField()),
                ("ends_on", models.DateField()),
                ("reason", models.TextField()),
                ("author_name", models.CharField(max_length=256)),
                ("created_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "Open"),
                            ("granted", "Granted"),
                            ("declined", "Declined"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        default="open",
                        max_length=9,
                    ),
                ),
                ("decided_at", models.DateTimeField(null=True)),
                ("decided_name", models.CharField(blank=True, default="", max_length=256)),
                ("answer", models.TextField(blank=True, default="")),
                ("granted_amount", models.FloatField(null=True)),
                ("allocation_uid", models.UUIDField(null=True)),
                (
                    "author",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="allocation_requests",
                        to="policies.policy",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["policy", "-created_at"], name="packs_request_newest")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "open")),
                        fields=("policy", "entry_uid", "unit"),
                        name="packs_request_open_once",
                    )
                ],
            },
        ),
    )
