"""Advice about the settings of a policy."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("lab", "0001_experiments"),
        ("policies", "0002_tree_guards"),
    ]

    operations = [
        migrations.CreateModel(
            name="PolicyAdvice",
            fields=[
                (
                    "policy",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="policies.policy",
                    ),
                ),
                ("head_number", models.PositiveIntegerField()),
                ("computed_at", models.DateTimeField()),
                ("evidence", models.JSONField()),
                ("digest", models.CharField(max_length=64)),
                ("recommended", models.JSONField(default=dict)),
                ("before_change", models.JSONField(default=dict)),
                ("changed_at", models.DateTimeField(null=True)),
            ],
        ),
    ]
