"""Rules may name a source, and each change of the mapping is kept. What is mapped now is kept as the first version."""

from __future__ import annotations

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.utils import timezone

_OF_RULE = (
    "kind", "namespace", "user_pattern", "group_pattern", "fqan_pattern", "suffix", "target_uid", "member_shares",
    "archive_after_idle_days",
)  # fmt: skip


def keep_what_is(apps: Any, schema_editor: Any) -> None:
    kept = apps.get_model("priorities", "MappingVersion")
    rules = apps.get_model("priorities", "MappingRule")
    attachments = apps.get_model("priorities", "Attachment")
    for mapping in apps.get_model("priorities", "Mapping").objects.filter(version__gt=0):
        rows = rules.objects.filter(policy_id=mapping.policy_id).order_by("position").values(*_OF_RULE)
        attached = attachments.objects.filter(policy_id=mapping.policy_id).order_by("pk")
        kept.objects.create(
            policy_id=mapping.policy_id, number=mapping.version, at=timezone.now(), author_name="system",
            reason="As it was when versions began to be kept.",
            rules=[{**row, "target_uid": str(row["target_uid"])} for row in rows],
            attached=[
                {"account": one.account_id, "before": None, "after": str(one.entry_uid)} for one in attached
            ],
        )  # fmt: skip


def forget(apps: Any, schema_editor: Any) -> None:
    """The table goes."""


class Migration(migrations.Migration):
    dependencies = [
        ("policies", "0004_proposed_trees"),
        ("priorities", "0003_attachments_and_claims"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="mappingrule",
            name="source",
            field=models.CharField(blank=True, default="", max_length=64),
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
                    models.UniqueConstraint(fields=("policy", "number"), name="priorities_mapping_version_once")
                ],
            },
        ),
        migrations.RunPython(keep_what_is, forget),
    ]
