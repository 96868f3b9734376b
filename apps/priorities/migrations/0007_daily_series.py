"""The daily series of every policy: derived, and built by a run."""

from __future__ import annotations

from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def _policy() -> models.ForeignKey[Any, Any]:
    return models.ForeignKey(
        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="policies.policy"
    )


class Migration(migrations.Migration):
    dependencies = [("policies", "0006_pins"), ("priorities", "0006_beginnings")]

    operations = [
        migrations.CreateModel(
            name="Series",
            fields=[
                (
                    "policy",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="daily_series",
                        serialize=False,
                        to="policies.policy",
                    ),
                ),
                ("first_on", models.DateField(null=True)),
                ("through_on", models.DateField(null=True)),
                ("redo_from_on", models.DateField(null=True)),
                ("inputs", models.JSONField(default=dict)),
                ("n_slots", models.PositiveIntegerField(default=0)),
                ("carry", models.BinaryField(null=True)),
                ("carry_digest", models.CharField(blank=True, default="", max_length=64)),
                ("built_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="SeriesDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("on", models.DateField()),
                ("ends_at", models.DateTimeField()),
                ("revision_number", models.PositiveIntegerField()),
                ("is_before_first", models.BooleanField()),
                ("root_used", models.FloatField()),
                ("root_decayed", models.FloatField()),
                ("policy", _policy()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("policy", "on"), name="priorities_seriesday_once")]
            },
        ),
        migrations.CreateModel(
            name="SeriesSlot",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uid", models.UUIDField()),
                ("slot", models.PositiveIntegerField()),
                ("policy", _policy()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("policy", "uid"), name="priorities_seriesslot_once")]
            },
        ),
        migrations.CreateModel(
            name="SeriesTile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("month_on", models.DateField()),
                ("block", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                ("policy", _policy()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("policy", "block", "month_on"), name="priorities_seriestile_once")
                ]
            },
        ),
        # Tiles are compressed already: the database needn't try again.
        migrations.RunSQL(
            "ALTER TABLE priorities_seriestile ALTER COLUMN data SET STORAGE EXTERNAL",
            "ALTER TABLE priorities_seriestile ALTER COLUMN data SET STORAGE EXTENDED",
        ),
    ]
